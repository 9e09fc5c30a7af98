//! What is kept of a run. Every report is made from this and nothing else, so that it can be made again years later.
//!
//! A record is a directory: `record.json` is [`RunRecord`] without what outgrows JSON; `histograms.hlog` holds the
//! distributions, `intervals.ndjson` the series, `pages.csv` and `page-rows.csv.gz` what each page did ([`crate::pages`]).
//! `webstone-runner` reads and writes the directory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identities::IdentityCheck;
use crate::metrics::Measured;
use crate::pages::{RowsPlace, StoredPages};
use crate::rate::RateProfile;
use crate::spec::RunSpec;
use crate::units::NANOS_PER_SECOND;
use crate::workload::Workload;

/// Version of the record's schema. It grows when a reader of the older one would misread.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole run, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Name of the record's directory: time and name of the run.
    pub id: String,
    /// The program that measured.
    pub tool: Tool,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// When it ended; absent while it runs, and for ever if it was killed.
    pub finished_at: Option<String>,
    /// How it ended.
    pub state: RunState,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// What was asked for, with every default filled in.
    pub spec: RunSpec,
    /// The workload, whole: a report needs no other file.
    pub workload: Workload,
    /// SHA-256 over the canonical form of the workload, in hex.
    pub workload_sha256: String,
    /// What was measured against: the server's name and version where it told, its address.
    pub target: TargetRecord,
    /// The machine: everything in `environment.json`, by name.
    pub environment: BTreeMap<String, serde_json::Value>,
    /// What was foreseen and could not be had, or was raised: descriptors, ports, memory.
    pub warnings: Vec<String>,
    /// The timed runs, in the order in which they ran.
    pub iterations: Vec<IterationRecord>,
    /// Page by page: sums in `pages.csv`, rows in `page-rows.csv.gz`.
    #[serde(skip)]
    pub pages: StoredPages,
}

/// The program that made a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `webstone`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Commit it was built from, where known.
    pub commit: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Still running, or killed: what is here was measured whole.
    Partial,
    /// Ended by the user; what is here was measured.
    Interrupted,
    /// Ended as planned.
    Complete,
    /// Ended by an error; what is here was measured.
    Failed,
}

/// The server under test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetRecord {
    /// URL that clients used.
    pub url: String,
    /// `Server` field of its first answer, where it sent one.
    pub server: Option<String>,
    /// Whether it was the embedded reference server.
    pub embedded: bool,
    /// CPUs that it was pinned to, where it was ours.
    pub cpus: Vec<u32>,
}

/// One timed run of a level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IterationRecord {
    /// Number of clients.
    pub clients: u32,
    /// Open loop: the level's rate. Clients are then those that stand ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
    /// When the measured window opened (RFC 3339, UTC).
    pub started_at: String,
    /// Whether the user ended it before its time; its figures are over the time that it ran.
    pub interrupted: bool,
    /// What was measured.
    pub measured: Measured,
    /// The identities, checked.
    pub identities: Vec<IdentityCheck>,
    /// The reference server's own use, where it is the target.
    pub server: Option<ServerUse>,
    /// Which arm of an A/A run it belongs to (`--aa`).
    #[serde(default)]
    pub arm: Option<Arm>,
    /// What the generator's host counted while the window was open, where its kernel tells.
    #[serde(default)]
    pub host: Option<HostUse>,
    /// Open loop: how well the schedule was kept.
    #[serde(default)]
    pub schedule: Option<ScheduleKept>,
    /// Where in `page-rows.csv.gz` its rows page by page lie; absent where they were not stored, and in records of older
    /// versions, which have them under `measured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_at: Option<RowsPlace>,
}

/// One of the two arms of an A/A run: the same thing measured twice, interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Arm {
    /// The first.
    A,
    /// The second.
    B,
}

/// What the kernel of the generator's host counted while a window was open. Everything but `descriptors` is of the whole
/// machine (of its network namespace): other programs' connections are in it, and the server's where it is on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostUse {
    /// Time between the two readings, in nanoseconds: the window, within some milliseconds.
    pub elapsed_ns: u64,
    /// Counters of TCP; absent where they could not be read.
    pub tcp: Option<TcpUse>,
    /// CPU by CPU, in ascending order of number.
    pub cpus: Vec<CpuUse>,
    /// The network interfaces that packets to the target take.
    pub interfaces: Vec<InterfaceUse>,
    /// Local ports that the kernel may choose from, for each address and port of the target.
    pub ports: Option<u64>,
    /// Files that this process had open when the window closed.
    pub descriptors: Option<u64>,
    /// Files that it may have open.
    pub descriptors_max: Option<u64>,
}

/// Differences of the kernel's TCP counters over a window, and sockets at its end. Names of `/proc/net/netstat`
/// (`TcpExt`), `/proc/net/snmp` (`Tcp`) and `/proc/net/sockstat` stand behind each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TcpUse {
    /// Connections that found the accept queue full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connection requests dropped by a listening socket for any reason, the former among them (`ListenDrops`).
    pub listen_drops: u64,
    /// Segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmitted: u64,
    /// Retransmission timers that ran out (`TCPTimeouts`).
    pub timeouts: u64,
    /// SYN and SYN/ACK segments sent again (`TCPSynRetrans`).
    pub syn_retransmitted: u64,
    /// Sockets in TIME_WAIT when the window closed (`tw`).
    pub time_wait: u64,
    /// Sockets in use when the window closed (`inuse`).
    pub in_use: u64,
}

/// What one CPU did in a window, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Time that it worked, for whomever, interrupts included, in nanoseconds.
    pub busy_ns: u64,
    /// Time that it was idle or waited for a disk.
    pub idle_ns: u64,
    /// Time that a hypervisor gave to somebody else.
    pub stolen_ns: u64,
}

/// What went over a network interface in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InterfaceUse {
    /// Its name.
    pub name: String,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Its speed in bit/s, where it has one and tells it.
    pub speed_bps: Option<u64>,
    /// Bytes received, link headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets dropped or in error, both ways.
    pub dropped_packets: u64,
}

/// How well an open-loop schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleKept {
    /// Arrivals that were due in the window, per second.
    pub asked_rate: f64,
    /// Arrivals that began a page in the window, per second.
    pub offered_rate: f64,
    /// Median of the schedule lag, in nanoseconds: from an arrival's intended start to the moment at which the generator
    /// saw to it.
    pub lag_p50_ns: u64,
    /// 99th percentile of the schedule lag, in nanoseconds.
    pub lag_p99_ns: u64,
    /// The longest schedule lag, in nanoseconds.
    pub lag_max_ns: u64,
}

impl ScheduleKept {
    /// Of a window, or of several merged; `None` in closed loop, and of a window of no length.
    pub fn of(measured: &Measured) -> Option<ScheduleKept> {
        let open_loop = measured.open_loop.as_ref().filter(|_| measured.window_ns > 0)?;
        let per_s = |arrivals: u64| arrivals as f64 * NANOS_PER_SECOND as f64 / measured.window_ns as f64;
        Some(ScheduleKept {
            asked_rate: per_s(open_loop.planned),
            offered_rate: per_s(open_loop.started),
            lag_p50_ns: open_loop.lag_histogram.value_at_percentile(50.0),
            lag_p99_ns: open_loop.lag_histogram.value_at_percentile(99.0),
            lag_max_ns: open_loop.lag.max,
        })
    }
}

/// What the server under test used while a level ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerUse {
    /// User CPU time of its processes, in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of its processes, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory, in bytes.
    pub resident_bytes_max: u64,
    /// Connections that it says it accepted, over the whole level.
    pub accepted: Option<u64>,
    /// Bytes that it says it sent, over the whole level.
    pub sent_bytes: Option<u64>,
    /// Requests that it says it answered, over the whole level.
    pub requests: Option<u64>,
}

/// What loads a level, in words: `1 client`, `20 clients`, `1000 arrivals/s`.
pub fn load_name(clients: u32, rate: Option<RateProfile>) -> String {
    match rate {
        Some(rate) => format!("{rate} arrivals/s"),
        None => format!("{clients} {}", if clients == 1 { "client" } else { "clients" }),
    }
}

impl RunRecord {
    /// The levels in ascending order of load (in open loop of rates, then of clients), each as its number of clients
    /// with its iterations in the order in which they ran. The rate is the iterations' own.
    pub fn levels(&self) -> Vec<(u32, Vec<&IterationRecord>)> {
        let mut levels: BTreeMap<(Option<RateProfile>, u32), Vec<&IterationRecord>> = BTreeMap::new();
        for iteration in &self.iterations {
            levels.entry((iteration.rate, iteration.clients)).or_default().push(iteration);
        }
        levels.into_iter().map(|((_, clients), iterations)| (clients, iterations)).collect()
    }

    /// All iterations of a level as one measurement.
    pub fn merged(iterations: &[&IterationRecord]) -> Measured {
        let mut merged = Measured::default();
        for iteration in iterations {
            merged.merge_sequential(&iteration.measured);
        }
        merged
    }

    /// Everything measured in the run, all levels together.
    pub fn whole(&self) -> Measured {
        RunRecord::merged(&self.iterations.iter().collect::<Vec<_>>())
    }
}
