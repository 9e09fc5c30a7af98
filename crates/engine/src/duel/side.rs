//! One side of a duel on one thread: a worker that has the load for a slice, drains, and rests.

use std::io;

use webstone_measure::metrics::{Measured, Second, WorkerUse};
use webstone_measure::slices::Slice;

use crate::exchange::{ExchangeId, Exchanges, Progress};
use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Backend;
use crate::worker::Worker;

/// Sleep deadline of a worker that never sleeps.
const ALWAYS_AWAKE: u64 = 0;

/// A worker, whatever its protocol.
pub(super) trait Side {
    /// Prepares for the first slice. If it stays awake, it never sleeps in a slice.
    fn begin(&mut self, stays_awake: bool);

    /// Counts from the next slice on.
    fn open(&mut self);

    /// Has the load for `length_ns`, then drains for at most `drain_ns`. Returns what this thread did in the slice, except what only
    /// others know: `side`, `at_ns` and CPU times.
    fn run_slice(&mut self, length_ns: u64, drain_ns: u64) -> io::Result<Slice>;

    /// Ends the side; returns everything that was counted in its slices, which took this long together.
    fn end(&mut self, slices_ns: u64) -> Measured;
}

impl<B: Backend, L: Layer, P: Session> Side for Worker<B, L, P> {
    fn begin(&mut self, stays_awake: bool) {
        let now = self.backend.now_ns();
        (self.rests_from_ns, self.awake_by_ns) = (now, if stays_awake { ALWAYS_AWAKE } else { now });
        self.is_timed = true;
        self.clock.set(now);
        self.clients.start_from(now);
        if self.pacing.is_open_loop() {
            self.clients.stand_by(now);
        }
    }

    fn open(&mut self) {
        let now = self.backend.now_ns();
        Worker::open(self, now);
    }

    fn run_slice(&mut self, length_ns: u64, drain_ns: u64) -> io::Result<Slice> {
        // Discards the ticks of the time in which it rested.
        let _ = self.backend.take_ticks();
        self.clock.resume(self.backend.now_ns());
        self.catch_up()?;
        let begun = self.backend.now_ns();
        self.clock.resume(begun);
        let before = self.recorder.totals();
        let stop_ns = begun + length_ns;
        // In open loop the schedule stops, and what has arrived is still served.
        self.rests_from_ns = if self.pacing.is_open_loop() { u64::MAX } else { stop_ns };
        self.pacing.begin_slice(begun, stop_ns);
        self.clients.resume_stopped();
        let mut unanswered = 0;
        self.sleeps_until(stop_ns);
        loop {
            self.turn()?;
            let now = self.clock.read_ns();
            if now < stop_ns {
                continue;
            }
            if self.is_drained() {
                break;
            }
            self.sleeps_until(stop_ns + drain_ns);
            if now >= stop_ns + drain_ns {
                unanswered = self.give_all_up(now);
                break;
            }
        }
        if P::DATAGRAMS {
            self.owe_nothing();
        }
        let Second { requests, errors, bytes, response_ns, .. } = self.recorder.totals();
        Ok(Slice {
            took_ns: self.clock.read_ns().saturating_sub(begun),
            requests: requests - before.requests,
            errors: errors - before.errors,
            bytes: bytes - before.bytes,
            response_ns: response_ns - before.response_ns,
            unanswered,
            ..Slice::default()
        })
    }

    fn end(&mut self, slices_ns: u64) -> Measured {
        let now = self.backend.now_ns();
        self.pacing.stop();
        if !self.recorder.is_open() {
            self.take_leave();
            return Measured::default();
        }
        let (worker, _) = self.clock.end_part(now);
        let worker = WorkerUse { cpu: self.seat.cpu, backend: B::NAME.to_owned(), ..worker };
        self.recorder.close(now, worker);
        P::close_window(&mut self.memory, &mut self.recorder.measured, self.links.sessions(), false);
        self.take_leave();
        self.observer.flush();
        let mut measured = self.recorder.finish(0);
        // Its seconds were interrupted: the others had their turns in between.
        measured.seconds.0.clear();
        measured.window_ns = slices_ns;
        measured
    }
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Whether the worker is a side of a duel.
    #[inline]
    pub(crate) fn is_in_duel(&self) -> bool {
        self.awake_by_ns != u64::MAX
    }

    /// May sleep until this instant, unless it stays awake.
    fn sleeps_until(&mut self, at_ns: u64) {
        if self.awake_by_ns != ALWAYS_AWAKE {
            self.awake_by_ns = at_ns;
        }
    }

    /// Tells servers that would not see it that their connections have ended.
    fn take_leave(&mut self) {
        if P::DATAGRAMS {
            self.leave_all();
        }
    }

    /// Acknowledges the last answers. Otherwise servers would send probes while others have their turns, and take the time of rest for
    /// that of the path.
    fn owe_nothing(&mut self) {
        for index in self.links.indices() {
            if self.links[index].socket.is_some() {
                self.links[index].session.acknowledge_now();
                self.flush_datagrams(index);
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.clients.requests_in_progress() == 0 && !self.clients.any_held() && !self.pacing.any_queued()
    }

    /// Stops waiting for requests in progress: counts them as unanswered and closes their connections. Returns their number.
    fn give_all_up(&mut self, now: u64) -> u64 {
        let mut given_up = 0;
        for index in self.links.indices() {
            let mut any = false;
            for slot in 0..self.links[index].exchanges.slots() {
                let at = ExchangeId { link: index, slot };
                let exchange = self.links.exchange(at);
                if exchange.progress == Progress::Over {
                    continue;
                }
                (any, given_up) = (true, given_up + 1);
                let client = exchange.client;
                if self.recorder.is_open() {
                    self.recorder.in_flight(&self.plan, exchange, now);
                }
                self.links[index].exchanges.over(slot);
                self.clients.request_ended(client, false);
                let page = self.clients[client].page;
                self.clients[client].give_page_up(self.plan.pages[page as usize].requests);
                self.clients.hold(client, now);
            }
            if any && P::DATAGRAMS && self.links[index].socket.is_some() {
                // Otherwise the server would send what is not answered again and again.
                self.links[index].session.say_farewell(None);
                self.send_last_datagrams(index);
            }
            if any {
                self.no_more_on(index);
                self.drop_link(index);
            }
        }
        given_up + self.pacing.forget_queued()
    }
}
