//! How much of a host's CPU time others took, as in a record.

use serde::{Deserialize, Serialize};

use crate::metrics::add_all;

/// How much of a CPU others took while a thread on it only read the clock: the sum of gaps between two readings of
/// more than 2 µs. Others are other programs, interrupts, and other virtual machines on the same host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Disturbance {
    /// Length of the check, in nanoseconds, summed over the checked CPUs.
    pub looked_ns: u64,
    /// The part that others took.
    pub taken_ns: u64,
    /// The longest gap.
    pub longest_ns: u64,
}

impl Disturbance {
    /// Both checks together.
    pub fn plus(self, other: Disturbance) -> Disturbance {
        Disturbance {
            looked_ns: self.looked_ns.saturating_add(other.looked_ns),
            taken_ns: self.taken_ns.saturating_add(other.taken_ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }

    /// 100 × taken / looked; 0 without a check.
    pub fn taken_percent(self) -> f64 {
        match self.looked_ns {
            0 => 0.0,
            looked_ns => self.taken_ns as f64 * 100.0 / looked_ns as f64,
        }
    }
}

/// CPU time that other programs used in a window, on any CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OthersUse {
    /// All of them, in nanoseconds.
    pub cpu_ns: u64,
    /// The programs that used most, in descending order; at most four.
    pub busiest: Vec<OtherUse>,
}

impl OthersUse {
    /// Number of programs that are named.
    pub const NAMED_MAX: usize = 4;

    /// Adds a later slice of the same window.
    pub fn append(&mut self, later: &OthersUse) {
        self.cpu_ns = self.cpu_ns.saturating_add(later.cpu_ns);
        for other in &later.busiest {
            match self.busiest.iter_mut().find(|mine| mine.process == other.process) {
                Some(mine) => mine.cpu_ns = mine.cpu_ns.saturating_add(other.cpu_ns),
                None => self.busiest.push(other.clone()),
            }
        }
        self.busiest.sort_by_key(|other| std::cmp::Reverse(other.cpu_ns));
        self.busiest.truncate(OthersUse::NAMED_MAX);
    }
}

/// CPU time of one other program in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OtherUse {
    /// Its process identifier.
    pub process: u32,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its own CPU time, in nanoseconds.
    pub cpu_ns: u64,
}

/// A thread on a CPU asked to be woken every 10 ms: how often it was late although no other thread had the CPU, and
/// how long a fixed piece of work took. Lateness shows a hypervisor that gives the CPU to another virtual machine;
/// the work shows another thread on the same core or a lower clock rate. No counter reports any of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CpuWatch {
    /// The CPU's number.
    pub cpu: u32,
    /// How long it was watched, in nanoseconds.
    pub watched_ns: u64,
    /// 10 ms for each time that it was a millisecond or more late, in nanoseconds.
    pub stalled_ns: u64,
    /// The maximum lateness, in nanoseconds.
    pub stalled_ns_max: u64,
    /// Median time of the fixed work, in nanoseconds; 0 if it was not timed.
    pub work_ns_median: u64,
    /// 10th percentile of the time of the fixed work, in nanoseconds: the CPU at its best.
    pub work_ns_best: u64,
    /// How long a small exchange with a worker of the load generator took over the loopback, in nanoseconds: the mean of those up to twice
    /// the median. Far CPUs, and other virtual machines, make it longer. 0 if it was not timed.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub echo_ns: u64,
    /// How many these were, of eight exchanges each.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub echoes: u64,
}

impl CpuWatch {
    /// Adds the stalls of a later slice of the same window; the rest is known of whole windows only.
    pub(crate) fn append(&mut self, later: &CpuWatch) {
        add_all!(self, later, [stalled_ns]);
        self.stalled_ns_max = self.stalled_ns_max.max(later.stalled_ns_max);
    }
}
