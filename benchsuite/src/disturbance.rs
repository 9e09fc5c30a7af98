//! How much of the clients' CPU others took before a round, as a session keeps it.

use std::time::Duration;

use serde::Serialize;

/// Long enough for some ticks of the scheduler's clock, short beside a run.
const LOOK: Duration = Duration::from_millis(100);

/// What one look saw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// Share of the time that was taken, 0 to 1.
    pub taken: f64,
    /// The most at once, in microseconds.
    pub longest_us: f64,
}

impl Disturbance {
    /// Watches a CPU for a tenth of a second; any CPU, if none is given or it is not available.
    pub fn look(cpu: Option<u32>) -> Disturbance {
        let seen = webstone_engine::disturbance(cpu.as_slice(), LOOK);
        Disturbance { taken: seen.taken_percent() / 1e2, longest_us: seen.longest_ns as f64 / 1e3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_sees_less_than_all_of_its_time_taken() {
        let seen = Disturbance::look(Some(0));
        assert!((0.0..1.0).contains(&seen.taken), "{seen:?}");
    }
}
