//! Slices of a duel: short spans in which one contestant has the load and the others rest.

use serde::{Deserialize, Serialize};

/// One slice. Everything that was asked in it was answered in it, unless `unanswered` says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Which contestant had the load, from 0.
    pub side: u32,
    /// When it began, in nanoseconds since the first measured slice of its start.
    pub at_ns: u64,
    /// How long it took, to the last answer.
    pub took_ns: u64,
    /// Requests with a valid answer.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of the answers, heads and bodies.
    pub bytes: u64,
    /// Sum of the response times.
    pub response_ns: u64,
    /// Requests without an answer when the side had to stop waiting. Their connections were closed.
    pub unanswered: u64,
    /// CPU time of the contestant's processes in the slice; `None` if it cannot be seen.
    pub cpu_ns: Option<u64>,
    /// CPU time that they used since their last slice, without load.
    pub resting_cpu_ns: Option<u64>,
    /// How long their threads were ready to run and waited for a CPU.
    pub waited_ns: Option<u64>,
    /// The same of the load generator's threads.
    pub generator_waited_ns: Option<u64>,
}

impl Slice {
    /// Whether all that was asked was answered, so that the slice is of one contestant alone.
    pub fn is_whole(&self) -> bool {
        self.unanswered == 0 && self.requests > 0
    }
}
