//! The time of a run, by the monotonic clock: what in a record is compared is of this clock, because the host's wall clock may be
//! set while the run lasts. Of a run that is made round by round it stands still between the rounds, between which the host may
//! have been started anew.

use webstone_engine::Control;
use webstone_model::record::RunRecord;

/// When the run began, or this round of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTime {
    /// On the clock of [`Control::now_ns`].
    began_ns: u64,
    /// What the rounds before took, up to the end of their last window.
    before_ns: u64,
}

impl RunTime {
    /// Begins now; behind the windows that the record has already.
    pub(crate) fn begin(record: &RunRecord) -> RunTime {
        let runs = record.iterations.iter().chain(&record.voids);
        let ends = runs.filter_map(|run| Some(run.opened_ns?.saturating_add(run.measured.window_ns)));
        RunTime { began_ns: Control::now_ns(), before_ns: ends.max().unwrap_or(0) }
    }

    /// Nanoseconds from the beginning of the run to an instant of [`Control::now_ns`].
    pub(crate) fn at(self, instant_ns: u64) -> u64 {
        self.before_ns.saturating_add(instant_ns.saturating_sub(self.began_ns))
    }

    /// The same to now.
    pub(crate) fn now(self) -> u64 {
        self.at(Control::now_ns())
    }
}
