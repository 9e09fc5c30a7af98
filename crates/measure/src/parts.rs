//! The part of each of several hosts in a timed run, and what it measured.
//!
//! What they measured together is in [`Measured`](crate::metrics::Measured), merged in the order of the hosts. Here
//! is what distinguishes them, so that a host that differs can be named.

use serde::{Deserialize, Serialize};

use crate::host_use::HostUse;
use crate::iteration::IterationRecord;
use crate::metrics::{Counts, Histogram, Moments, WorkerUse};

/// A record has the distribution of each host's response times for at most this many hosts: each takes 1 to 5 kB per
/// timed run.
pub const DISTRIBUTIONS_OF_HOSTS_MAX: usize = 64;

/// The part of one of several hosts in a timed run, and what it measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GeneratorPart {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// Number of its first client: client 0 is the first host's first.
    pub first_client: u32,
    /// Number of its clients.
    pub clients: u32,
    /// Number of its workers: they follow those of earlier hosts in `measured.generator.workers`.
    pub workers: u32,
    /// What it counted.
    pub counts: Counts,
    /// Response time in nanoseconds of its successful requests.
    pub response: Moments,
    /// Waits of its requests without a valid answer, in nanoseconds.
    #[serde(skip_serializing_if = "Moments::is_empty")]
    pub unanswered: Moments,
    /// The 50th and the 99th percentile of its response times, in nanoseconds.
    pub response_p50_ns: u64,
    /// See `response_p50_ns`.
    pub response_p99_ns: u64,
    /// Whether the distribution of its response times is in `histograms.hlog`. It is not if more than 64 hosts made
    /// the load, or for a void timed run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_distribution: bool,
    /// That distribution.
    #[serde(skip)]
    pub distribution: Histogram,
    /// What its kernel counted while the window was open.
    pub host: Option<HostUse>,
    /// The offset of its clock from the controller's.
    pub clock: ClockOffset,
    /// How late its window opened after the agreed instant, by the controller's clock, in nanoseconds; within the
    /// error bound of its clock.
    pub opening_skew_ns: i64,
}

impl GeneratorPart {
    /// Leaves its distribution out of the record.
    pub fn forget_distribution(&mut self) {
        (self.has_distribution, self.distribution) = (false, Histogram::default());
    }

    /// Upper bound on the difference between the agreed instant and the opening of its window, in nanoseconds,
    /// including the error bound of its clock.
    pub fn apart_ns_max(&self) -> u64 {
        self.opening_skew_ns.unsigned_abs().saturating_add(self.clock.bound_ns)
    }
}

/// How far a host's monotonic clock is ahead of the controller's: the midpoint of the shortest of several round
/// trips, with an error of at most half of it (F. Cristian: Probabilistic clock synchronization, Distributed
/// Computing 3, 1989).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockOffset {
    /// In nanoseconds; monotonic clocks start at a different time on each host, so this may be large.
    pub offset_ns: i64,
    /// Maximum error, in nanoseconds.
    pub bound_ns: u64,
}

/// A host that was lost during a timed run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GeneratorLoss {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// How, in words to follow its name: `ended: killed by signal 9`.
    pub why: String,
}

/// A host that made load in a timed run, with what it used: the run's own host if it made the load itself.
#[derive(Clone, Copy, Debug)]
pub struct LoadMaker<'a> {
    /// Which of the run's generators, from 0; `None`: the run's own host.
    pub generator: Option<u32>,
    /// What its kernel counted.
    pub host: Option<&'a HostUse>,
    /// Its workers.
    pub workers: &'a [WorkerUse],
    /// Requests that ended there.
    pub ended: u64,
}

impl LoadMaker<'_> {
    /// Its name in a sentence: `the load generator`, `generator 2`.
    pub fn name(&self) -> String {
        self.generator
            .map_or_else(|| "the load generator".to_owned(), |number| format!("generator {}", number + 1))
    }
}

impl IterationRecord {
    /// The hosts that made its load, in order.
    pub fn load_makers(&self) -> Vec<LoadMaker<'_>> {
        let mut rest = &self.measured.generator.workers[..];
        if self.parts.is_empty() {
            let ended = self.measured.counts.ended();
            return vec![LoadMaker { generator: None, host: self.host.as_ref(), workers: rest, ended }];
        }
        self.parts
            .iter()
            .map(|part| {
                let (workers, others) = rest.split_at((part.workers as usize).min(rest.len()));
                rest = others;
                LoadMaker {
                    generator: Some(part.generator),
                    host: part.host.as_ref(),
                    workers,
                    ended: part.counts.ended(),
                }
            })
            .collect()
    }
}
