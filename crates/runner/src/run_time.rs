//! The time of a run, by the monotonic clock: instants that are compared are of this clock, because the host's wall clock may be
//! set while the run lasts. In a run made round by round, it stands still between rounds, where the host may have been restarted.

use std::time::{Duration, SystemTime};

use webstone_engine::Control;
use webstone_model::record::RunRecord;

/// How much the wall clock may gain or lose against the monotonic one: more than slewing causes, and less than anybody sets it by.
const SET_MIN: Duration = Duration::from_secs(1);
const SLEWED_SHARE: u32 = 500;

/// When the run began, or this round of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTime {
    /// On the clock of [`Control::now_ns`].
    began_ns: u64,
    /// The same by the wall clock.
    began_at: SystemTime,
    /// What the rounds before took, up to the end of their last window.
    before_ns: u64,
}

impl RunTime {
    /// Begins now, after the windows that the record already has.
    pub(crate) fn begin(record: &RunRecord) -> RunTime {
        let runs = record.iterations.iter().chain(&record.voids);
        let ends = runs.filter_map(|run| Some(run.opened_ns?.saturating_add(run.measured.span_ns())));
        let before_ns = ends.max().unwrap_or(0);
        RunTime { began_ns: Control::now_ns(), began_at: SystemTime::now(), before_ns }
    }

    /// Nanoseconds from the beginning of the run to an instant of [`Control::now_ns`].
    pub(crate) fn at(self, instant_ns: u64) -> u64 {
        self.before_ns.saturating_add(instant_ns.saturating_sub(self.began_ns))
    }

    /// The same to now.
    pub(crate) fn now(self) -> u64 {
        self.at(Control::now_ns())
    }

    /// A sentence about the wall clock, where it was set since.
    pub(crate) fn clock_set(self) -> Option<String> {
        set_by(
            Duration::from_nanos(Control::now_ns().saturating_sub(self.began_ns)),
            self.began_at,
            SystemTime::now(),
        )
    }
}

fn set_by(took: Duration, began_at: SystemTime, now: SystemTime) -> Option<String> {
    let expected = began_at + took;
    let (by, direction) = match now.duration_since(expected) {
        Ok(ahead) => (ahead, "forward"),
        Err(earlier) => (earlier.duration(), "back"),
    };
    (by > SET_MIN + took / SLEWED_SHARE).then(|| {
        format!(
            "the wall clock was set {direction} by {:.0} s during the run: moments in the record are of both, and what was \
             measured is of the monotonic clock",
            by.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_and_one_that_drifts_is_not() {
        let (began, took) =
            (SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000), Duration::from_secs(600));
        let said = |now: SystemTime| set_by(took, began, now);
        assert_eq!(said(began + took), None);
        assert_eq!(said(began + took + Duration::from_millis(2_100)), None);
        assert!(said(began + took - Duration::from_secs(3600)).unwrap().contains("set back by 3600 s"));
        assert!(said(began + took + Duration::from_secs(5)).unwrap().contains("set forward by 5 s"));
    }
}
