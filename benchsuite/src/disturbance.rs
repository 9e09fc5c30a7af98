//! How much of a CPU others take, other virtual machines of the same host among them, which no counter of this one need tell:
//! a thread that only reads the clock sees it stand still.

use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

/// Long enough for some ticks of the scheduler's clock, short beside a run.
const LOOK: Duration = Duration::from_millis(100);
/// Longer than any reading of the clock takes by itself.
const GAP: Duration = Duration::from_micros(2);

/// What one look saw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// Share of the time that was taken, 0 to 1.
    pub taken: f64,
    /// The most at once, in microseconds.
    pub longest_us: f64,
}

impl Disturbance {
    /// Looks at a CPU for a tenth of a second; at any, where none is given or it cannot be had.
    pub fn look(cpu: Option<u32>) -> Disturbance {
        // A thread of its own, so that only it is pinned.
        let looking = thread::spawn(move || {
            if let Some(cpu) = cpu {
                let mut set = CpuSet::new();
                set.set(cpu as usize);
                let _ = sched_setaffinity(None, &set);
            }
            let began = Instant::now();
            Disturbance::of(began, std::iter::repeat_with(Instant::now).take_while(|now| *now - began < LOOK))
        });
        looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Of readings of the clock, one as soon as the other.
    fn of(began: Instant, readings: impl Iterator<Item = Instant>) -> Disturbance {
        let (mut last, mut taken, mut longest) = (began, Duration::ZERO, Duration::ZERO);
        for now in readings {
            let gap = now - last;
            if gap >= GAP {
                taken += gap;
                longest = longest.max(gap);
            }
            last = now;
        }
        let whole = (last - began).as_secs_f64();
        let taken = if whole > 0.0 { taken.as_secs_f64() / whole } else { 0.0 };
        Disturbance { taken, longest_us: longest.as_secs_f64() * 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_readings_were_taken() {
        let began = Instant::now();
        // 300 µs and 50 µs of a millisecond, and readings that took a microsecond each.
        let at = [1, 2, 302, 303, 353, 354, 1000];
        let readings = at.map(|us| began + Duration::from_micros(us));
        let seen = Disturbance::of(began, readings[..6].iter().copied());
        assert!((seen.taken - 350.0 / 354.0).abs() < 1e-9, "{seen:?}");
        assert!((seen.longest_us - 300.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(Disturbance::of(began, std::iter::empty()), Disturbance { taken: 0.0, longest_us: 0.0 });
    }

    #[test]
    fn a_look_sees_less_than_all_of_its_time_taken() {
        let seen = Disturbance::look(Some(0));
        assert!((0.0..1.0).contains(&seen.taken), "{seen:?}");
    }
}
