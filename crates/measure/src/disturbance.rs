//! What others took of a host's CPUs, as a record keeps it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a CPU others took while a thread on it did nothing but read the clock: what lay between two readings by more than
/// 2 µs. Other programs, interrupts, and other virtual machines of the same host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// Length of the check, in nanoseconds: the sum over the CPUs that were checked.
    pub looked_ns: u64,
    /// Of that, what others took.
    pub taken_ns: u64,
    /// The most that was taken at once.
    pub longest_ns: u64,
}

impl Disturbance {
    /// Both looks together.
    pub fn plus(self, other: Disturbance) -> Disturbance {
        Disturbance {
            looked_ns: self.looked_ns + other.looked_ns,
            taken_ns: self.taken_ns + other.taken_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }

    /// 100 × taken / looked; 0 where nothing was looked at.
    pub fn taken_percent(self) -> f64 {
        match self.looked_ns {
            0 => 0.0,
            looked_ns => self.taken_ns as f64 * 100.0 / looked_ns as f64,
        }
    }
}

/// CPU time that other programs used in a window, on whichever CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OthersUse {
    /// All of them, in nanoseconds.
    pub cpu_ns: u64,
    /// Those that used most, most first; at most four.
    pub busiest: Vec<OtherUse>,
}

/// CPU time of one other program in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OtherUse {
    /// Its process identifier.
    pub process: u32,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its own CPU time, in nanoseconds.
    pub cpu_ns: u64,
}

/// A thread on a CPU asked to be woken every 10 ms: how often it was not, though no other thread had the CPU, and how long a
/// fixed piece of work took it. A hypervisor that gives the CPU to another virtual machine shows in the one, a neighbour on the
/// same core or a lower clock in the other; no counter tells of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuWatch {
    /// The CPU's number.
    pub cpu: u32,
    /// How long it was watched, in nanoseconds.
    pub watched_ns: u64,
    /// 10 ms for each time that it came a millisecond or more too late, in nanoseconds.
    pub stalled_ns: u64,
    /// The longest that it came too late, in nanoseconds.
    pub stalled_ns_max: u64,
    /// What half of all pieces of the fixed work stayed below, in nanoseconds; 0 where it was not timed.
    pub work_ns_median: u64,
    /// What a tenth of all pieces stayed below, in nanoseconds: the CPU at its best.
    pub work_ns_best: u64,
}
