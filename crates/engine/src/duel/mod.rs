//! A duel: several servers under load in turn, in short slices, so that whatever the machine does happens to all of them alike.
//!
//! Each contestant is a *side* with clients and connections of its own ([`side`]). One side has the load for a slice, drains, and rests while
//! the others have theirs; [`order`] says whose turn it is. Several threads ([`lanes`]) change sides together.

mod lanes;
#[cfg(test)]
mod noise_tests;
mod order;
mod side;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use webstone_measure::metrics::Measured;
use webstone_measure::rate::RateProfile;
use webstone_measure::slices::Slice;

use crate::level::EngineError;
use crate::plan::Plan;

/// The load of one start of the contestants.
#[derive(Clone)]
pub struct DuelJob {
    /// What is asked of each side, and how; all with the same workload.
    pub sides: Vec<Arc<Plan>>,
    /// Clients of each side.
    pub clients: u32,
    /// Open loop: arrivals per second while a side has the load.
    pub rate: Option<RateProfile>,
    /// Threads that make the load.
    pub threads: u32,
    /// Draws the order of the sides.
    pub seed: u64,
    /// How long a side has the load before it drains.
    pub slice: Duration,
    /// How long it may take to drain. What is unanswered then is counted and not waited for.
    pub drain: Duration,
    /// Whether its threads poll for events during a slice instead of sleeping. A server on the same machine then never pays for waking
    /// them. Otherwise, whether it does would depend on how fast it is compared with them.
    pub stays_awake: bool,
    /// How long the sides take turns before anything is counted.
    pub warmup: Duration,
    /// How long they take turns after that.
    pub duration: Duration,
}

/// What the contestants' processes have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideUse {
    /// CPU time in nanoseconds; `None` if it cannot be seen.
    pub cpu_ns: Option<u64>,
    /// Time that their threads were ready to run and waited for a CPU.
    pub waited_ns: Option<u64>,
}

/// Reads what the contestants' processes have used. It is asked before and after each slice, so it must be quick.
pub trait SideMeter: Send {
    /// The warm-up is over: slices count from now on.
    fn open(&mut self);

    /// What side `side` has used so far; it is about to have a slice, or rests.
    fn before(&mut self, side: usize) -> SideUse;

    /// What side `side` has used so far; a slice of it has just ended.
    fn after(&mut self, side: usize) -> SideUse;
}

/// Whether a start ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It does not.
    InTime,
    /// With the current round, also in the warm-up.
    WithRound,
    /// With the current slice: the round is not whole.
    WithSlice,
}

/// Runs the slices of one start, and returns what each side measured: counts and distributions of its slices, with the sum of their
/// lengths as its window. Hands each measured slice to `sink` on the calling thread. Before each slice `end` says whether it ends before its
/// time. Blocks.
///
/// # Errors
/// A system call of the event loop failed, or a thread panicked. What `sink` has received by then is valid.
pub fn run_duel(
    job: &DuelJob,
    meter: &mut dyn SideMeter,
    end: &(dyn Fn() -> Ending + Sync),
    sink: &mut dyn FnMut(Slice),
) -> Result<Vec<Measured>, EngineError> {
    lanes::run(job, meter, end, sink)
}
