//! Who hears of a run's events while it runs: the live display, a file of JSON lines, a test.

use webstone_model::event::Event;

/// Receives the events of a run, in order, on the thread that called [`crate::run()`].
pub trait Observer {
    /// One event. It should return soon: ticks of the running level wait for it, the load does not.
    fn event(&mut self, event: &Event);
}

/// Every function of one event is an observer.
impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event)
    }
}

/// An observer that ignores all events.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event) {}
}
