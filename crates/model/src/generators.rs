//! Load that several hosts make together: which hosts, what each had of a level, and what each measured of it.
//!
//! What they measured together is in [`Measured`](crate::metrics::Measured), merged in the order of the hosts. Here is what tells
//! them apart, so that a host that differs can be named.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::{PodRecord, PodsOfJob};
use crate::metrics::{Counts, Histogram, Moments, WorkerUse};
use crate::record::{HostUse, IterationRecord, RunRecord};

/// Of so many hosts at most a record has the distribution of each one's response times: one is 1 to 5 kB a timed run.
pub const DISTRIBUTIONS_OF_HOSTS_MAX: usize = 64;

/// A host that makes load, or all pods of a Job that do, as they are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorHost {
    /// Command whose standard input and output end in `webstone agent` there: `ssh gen1 webstone agent`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Instead: pods of a Kubernetes Job, each a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<PodsOfJob>,
}

impl GeneratorHost {
    /// The host that a command reaches.
    pub fn reached_by(command: impl Into<String>) -> GeneratorHost {
        GeneratorHost { agent: command.into(), kubernetes: None }
    }

    /// How many hosts are asked for.
    pub fn count(&self) -> usize {
        self.kubernetes.as_ref().map_or(1, |pods| pods.pods as usize)
    }
}

/// A host that made load, as it described itself before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorRecord {
    /// The command that started its agent, without secrets.
    pub command: String,
    /// The host's own name.
    pub name: String,
    /// The pod that its agent ran in, where Kubernetes started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRecord>,
    /// Version of webstone there, with its commit.
    pub version: String,
    /// SHA-256 of the program that ran there, in hex.
    pub program_sha256: String,
    /// The boot of its kernel: two agents of the same are on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// CPUs that its workers were pinned to.
    pub cpus: Vec<u32>,
    /// Its workers.
    pub workers: u32,
    /// Slots of each of its workers, which are dealt clients and arrivals alike: more where a calibration says that they can do more
    /// than those of other hosts.
    pub slots: u32,
    /// Whether the server under test has its address there; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_server: Option<bool>,
    /// Shortest of several round trips between controller and agent before the load, in nanoseconds.
    pub round_trip_ns_min: u64,
    /// Facts about the host, by name, as the environment has them for one that makes load by itself.
    pub environment: BTreeMap<String, serde_json::Value>,
}

/// What one of several hosts had of a timed run, and what it measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorPart {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// Number of its first client: client 0 is the first host's first.
    pub first_client: u32,
    /// How many clients it had.
    pub clients: u32,
    /// How many workers: they follow those of the hosts before it in `measured.generator.workers`.
    pub workers: u32,
    /// What it counted.
    pub counts: Counts,
    /// Response time in nanoseconds, of its succeeded requests.
    pub response: Moments,
    /// Waits of its requests that had no valid answer, in nanoseconds.
    #[serde(skip_serializing_if = "Moments::is_empty")]
    pub unanswered: Moments,
    /// The 50th and the 99th percentile of its response times, in nanoseconds.
    pub response_p50_ns: u64,
    /// See `response_p50_ns`.
    pub response_p99_ns: u64,
    /// Whether the distribution of its response times is in `histograms.hlog`. It is not where more than 64 hosts made the load, nor of
    /// a void timed run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_distribution: bool,
    /// That distribution.
    #[serde(skip)]
    pub distribution: Histogram,
    /// What its kernel counted while the window was open.
    pub host: Option<HostUse>,
    /// How its clock stood to the controller's.
    pub clock: ClockOffset,
    /// By how much its window opened after the agreed instant, by the controller's clock, in nanoseconds; within the bound of its clock.
    pub opening_skew_ns: i64,
}

impl GeneratorPart {
    /// Leaves its distribution out of the record.
    pub fn forget_distribution(&mut self) {
        (self.has_distribution, self.distribution) = (false, Histogram::default());
    }

    /// How far from the agreed instant its window can have opened at most, in nanoseconds, by all that is known of its clock.
    pub fn apart_ns_max(&self) -> u64 {
        self.opening_skew_ns.unsigned_abs().saturating_add(self.clock.bound_ns)
    }
}

/// How far a host's monotonic clock is ahead of the controller's: the midpoint of the shortest of several round trips, wrong by
/// at most half of it (F. Cristian: Probabilistic clock synchronization, Distributed Computing 3, 1989).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClockOffset {
    /// In nanoseconds; monotonic clocks count from each host's own beginning, so this may be large.
    pub offset_ns: i64,
    /// By how much it may be wrong at most, in nanoseconds.
    pub bound_ns: u64,
}

/// A host that was lost during a timed run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorLoss {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// How, in words that follow its name: `ended: killed by signal 9`.
    pub why: String,
}

/// A host that made load in a timed run, with what it used: the run's own host where that made the load itself.
#[derive(Clone, Copy, Debug)]
pub struct LoadMaker<'a> {
    /// Which of the run's generators, from 0; `None`: there is only the run's own host.
    pub generator: Option<u32>,
    /// What its kernel counted.
    pub host: Option<&'a HostUse>,
    /// Its workers.
    pub workers: &'a [WorkerUse],
    /// Requests that ended there.
    pub ended: u64,
}

impl LoadMaker<'_> {
    /// How it is called in a sentence: `the load generator`, `generator 2`.
    pub fn name(&self) -> String {
        self.generator
            .map_or_else(|| "the load generator".to_owned(), |number| format!("generator {}", number + 1))
    }
}

impl RunRecord {
    /// The host that makes load by itself, or one of several, as it described itself.
    pub fn generator_of(&self, maker: &LoadMaker<'_>) -> Option<&GeneratorRecord> {
        self.generators.get(maker.generator? as usize)
    }

    /// A generator with the command that started its agent, `generator 2 (ssh gen2 webstone agent)`, or with its pod,
    /// `generator 2 (pod webstone-1-x7k2p on node2)`.
    pub fn generator_named(&self, generator: u32) -> String {
        let name = format!("generator {}", generator.saturating_add(1));
        match self.generators.get(generator as usize) {
            Some(GeneratorRecord { pod: Some(pod), .. }) => format!("{name} ({})", pod.in_words()),
            Some(host) if !host.command.is_empty() => format!("{name} ({})", host.command),
            _ => name,
        }
    }
}

impl GeneratorRecord {
    /// The host's name, and the node of a pod that has a name of its own: `webstone-1 on node2`.
    pub fn place(&self) -> String {
        match &self.pod {
            Some(pod) if pod.node != self.name => format!("{} on {}", self.name, pod.node),
            _ => self.name.clone(),
        }
    }

    /// A fact about the host that is a text.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.environment.get(name)?.as_str()
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
