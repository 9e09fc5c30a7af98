//! What is kept of a run. Every report is made from this and nothing else, so that it can be made again years later.
//!
//! A record is a directory: `record.json` is [`RunRecord`] without what outgrows JSON; `histograms.hlog` holds the
//! distributions, `intervals.ndjson` the series, `pages.csv` and `page-rows.csv.gz` what each page did ([`crate::pages`]).
//! `webstone-runner` reads and writes the directory.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generators::{GeneratorLoss, GeneratorPart, GeneratorRecord};
use crate::identities::IdentityCheck;
use crate::keys::LevelKey;
use crate::metrics::Measured;
use crate::one_or_several::{self, OneOrSeveral};
use crate::pages::{RowsPlace, StoredPages};
use crate::rate::RateProfile;
use crate::spec::RunSpec;
use crate::units::NANOS_PER_SECOND;
use crate::workload::Workload;

pub use crate::disturbance::{CpuWatch, Disturbance, OtherUse, OthersUse};
pub use crate::process_use::{ProcessUse, ThreadUse};
pub use crate::server_hosts::{AgentRecord, ServerHostUse};

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
    /// How long it took, in nanoseconds of the monotonic clock, which nobody can set: moments are labels, and only this is
    /// compared. Time between the rounds of a series is not in it. Absent while the run lasts, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// How it ended.
    pub state: RunState,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// The series that this run is a cell of, by the name of its directory, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// What was asked for, with every default filled in.
    pub spec: RunSpec,
    /// The workload, whole: a report needs no other file.
    pub workload: Workload,
    /// SHA-256 over the canonical form of the workload, in hex.
    pub workload_sha256: String,
    /// The measured server: its name and version if it sent them, and its address.
    pub target: TargetRecord,
    /// The hosts that made the load, in order; empty: this one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorRecord>,
    /// The machine: everything in `environment.json`, by name.
    pub environment: BTreeMap<String, serde_json::Value>,
    /// What was foreseen and could not be had, or was raised: descriptors, ports, memory.
    pub warnings: Vec<String>,
    /// The timed runs, in the order in which they ran.
    pub iterations: Vec<IterationRecord>,
    /// Timed runs that were void and were repeated: no figure has anything of them. Each has its counts and what disturbed it,
    /// without distributions, series, and totals of pages and clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voids: Vec<IterationRecord>,
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
    /// Commit it was built from, where known; `-modified` behind it says that the sources had changes it lacks.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetRecord {
    /// URL that clients used.
    pub url: String,
    /// `Server` field of its first answer, where it sent one.
    pub server: Option<String>,
    /// Whether it was the embedded reference server.
    pub embedded: bool,
    /// CPUs that it was pinned to, if webstone started it.
    pub cpus: Vec<u32>,
    /// Which program it was, where webstone started it and it was not the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<SoftwareRecord>,
    /// Of a proxy: the server behind it. Absent of other servers, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRecord>,
    /// The agent that monitored it on its own host, if one was given; a list if several were, each on a host of its own.
    #[serde(default, rename = "agent", with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrSeveral<AgentRecord>")]
    pub agents: Vec<AgentRecord>,
}

/// The server behind a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OriginRecord {
    /// Its URL, as the proxy has it.
    pub url: String,
    /// Whether webstone started it: a reference server.
    pub ours: bool,
    /// CPUs that it was pinned to; of somebody else's on this host, those that it was found on.
    pub cpus: Vec<u32>,
    /// What of it could not be measured and why, a sentence each.
    pub unseen: Vec<String>,
}

/// A server that webstone started: its program, and how it was run. Its configuration is in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SoftwareRecord {
    /// Name of its driver, as `--server` takes it.
    pub name: String,
    /// Profile of its configuration: `stock` or `tuned`; empty where it has none.
    pub profile: String,
    /// What it says of its version.
    pub version: String,
    /// The program that ran.
    pub program: String,
    /// The user that it ran as, where that was not webstone's own.
    pub user: Option<String>,
    /// CPUs that it can keep busy at most, by its own configuration; absent: all that it may run on.
    pub cpus_max: Option<u32>,
}

impl fmt::Display for SoftwareRecord {
    /// `nginx (tuned)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.profile.as_str() {
            "" => f.write_str(&self.name),
            profile => write!(f, "{} ({profile})", self.name),
        }
    }
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
    /// The same in nanoseconds of the monotonic clock since the run began. Absent where no window opened, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_ns: Option<u64>,
    /// Whether the user ended it before its time; its figures are over the time that it ran.
    pub interrupted: bool,
    /// What was measured.
    pub measured: Measured,
    /// The identities, checked.
    pub identities: Vec<IdentityCheck>,
    /// The reference server's own use, where it is the target.
    pub server: Option<ServerUse>,
    /// What the server behind a proxy did, where the target was one that webstone started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginUse>,
    /// Which arm of an A/A run it belongs to (`--aa`).
    #[serde(default)]
    pub arm: Option<Arm>,
    /// What the generator's host counted while the window was open, where its kernel tells.
    #[serde(default)]
    pub host: Option<HostUse>,
    /// What each of several hosts had of it, in order; empty: this host made the load. `host` is then the controller's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<GeneratorPart>,
    /// The host that was lost, which makes the run void: what is here is the others'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<GeneratorLoss>,
    /// What the server's host counted, if an agent monitored it there; a list if several did, each on a host of its own. One whose
    /// figures are missing is not in it.
    #[serde(default, rename = "server_host", with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "OneOrSeveral<ServerHostUse>")]
    pub server_hosts: Vec<ServerHostUse>,
    /// Why figures of the server are missing where they could have been: an agent's, or those of a server on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_missing: Option<String>,
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
    /// Time from the first reading to the last, in nanoseconds: the window, within some milliseconds. On a machine so busy that
    /// nobody looked in time it may be much more or less, and all counters are of this time.
    pub elapsed_ns: u64,
    /// How long the window had been open when the first of them was taken, in nanoseconds: 0 where it was taken before.
    #[serde(skip_serializing_if = "is_zero")]
    pub opening_delay_ns: u64,
    /// Samples of this host and the server's processes: when the window opened, when it closed, and in between.
    #[serde(skip_serializing_if = "is_zero")]
    pub probes: u64,
    /// CPU time that those looks took of this host, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub probe_cpu_ns: u64,
    /// What others took of the generator's CPUs just before the level; absent in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// What other programs used: all but this one, the server's processes and the kernel's own threads. Absent in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersUse>,
    /// CPUs of the server on which a thread measured time that no counter shows, if this host is a virtual machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<CpuWatch>,
    /// Time for which a CPU quota throttled this program, in nanoseconds; absent where the kernel counts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time for which the host was suspended, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ns: u64,
    /// Counters of TCP; absent where they could not be read.
    pub tcp: Option<TcpUse>,
    /// Connection requests that the server's own listening sockets dropped, because an accept queue was full or for want of memory;
    /// absent where the server is not on this host, or the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_drops: Option<u64>,
    /// CPU by CPU, in ascending order of number.
    pub cpus: Vec<CpuUse>,
    /// The network interfaces that packets to the target take.
    #[serde(rename = "interfaces")]
    pub links: Vec<LinkUse>,
    /// Local ports that the kernel may choose from, for each address and port of the target.
    pub ports: Option<u64>,
    /// The pair of addresses that had taken most of them, at either end of the window; absent in older records, where the kernel
    /// did not tell, and where the sockets of the whole host were fewer than half of the ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_ports: Option<PairPorts>,
    /// Files open in the fullest table of this process, the most at either end of the window; where the kernel lets it, each
    /// worker has a table of its own.
    pub descriptors: Option<u64>,
    /// Files that a table may hold.
    pub descriptors_max: Option<u64>,
}

/// Local ports that connections of one pair of addresses have. The kernel gives each pair all of its local ports, so the pair
/// that has most is the first to run out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PairPorts {
    /// Local address.
    pub source: String,
    /// Address and port of the target.
    pub target: String,
    /// Local ports that connections between them have, whoever made them.
    pub used: u64,
    /// Of them, in TIME_WAIT.
    pub time_wait: u64,
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
    /// Segments retransmitted (`RetransSegs`).
    pub retransmitted: u64,
    /// Retransmission timers that ran out (`TCPTimeouts`).
    pub timeouts: u64,
    /// SYN and SYN/ACK retransmissions (`TCPSynRetrans`).
    pub syn_retransmitted: u64,
    /// Sockets in TIME_WAIT when the window closed (`tw`).
    pub time_wait: u64,
    /// Sockets in use, the most at either end of the window (`inuse`).
    pub in_use: u64,
}

impl TcpUse {
    /// Both counts as one, of two kernels or of two windows.
    pub fn plus(self, other: TcpUse) -> TcpUse {
        let sum = u64::saturating_add;
        TcpUse {
            listen_overflows: sum(self.listen_overflows, other.listen_overflows),
            listen_drops: sum(self.listen_drops, other.listen_drops),
            segments_sent: sum(self.segments_sent, other.segments_sent),
            retransmitted: sum(self.retransmitted, other.retransmitted),
            timeouts: sum(self.timeouts, other.timeouts),
            syn_retransmitted: sum(self.syn_retransmitted, other.syn_retransmitted),
            time_wait: sum(self.time_wait, other.time_wait),
            in_use: sum(self.in_use, other.in_use),
        }
    }
}

/// What one CPU did in a window, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Time that it worked, for whomever, interrupts included, in nanoseconds.
    pub busy_ns: u64,
    /// Of that, for programs. Absent in older records, as are the next two.
    pub user_ns: u64,
    /// Of that, in the kernel on behalf of programs.
    pub system_ns: u64,
    /// Of that, in the kernel for devices (`irq` and `softirq`), the network's packets among them.
    pub interrupt_ns: u64,
    /// Time that it was idle or waited for a disk.
    pub idle_ns: u64,
    /// Time that a hypervisor gave to somebody else.
    pub stolen_ns: u64,
    /// Time for which its heat slowed it down (`core_throttle_total_time_ms`); 0 where the processor does not tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub heat_ns: u64,
    /// Its clock when the window closed, in hertz (`scaling_cur_freq`); absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hz: Option<u64>,
}

/// What went over a network interface in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "InterfaceUse")]
pub struct LinkUse {
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What its processes did besides using CPU time; absent where they could not be seen, and in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessUse>,
}

impl ServerUse {
    /// Whether its processes were read where the window opened and where it closed. If not, it has nothing but what the server counted
    /// itself, and its zeros were never measured.
    pub fn was_read(&self) -> bool {
        self.processes.is_some() || self.user_ns > 0 || self.system_ns > 0 || self.resident_bytes_max > 0
    }
}

/// What the server behind a proxy did while a window was open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OriginUse {
    /// What its processes used; absent where they cannot be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// What it counted; absent where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<OriginCounts>,
}

/// What the server behind a proxy counted between two readings, where the window opened and where it closed. Reading leaves
/// no trace in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OriginCounts {
    /// Requests that the proxy sent on to it.
    pub requests: u64,
    /// Of those: answered by a status of class 3xx, which of files is `304 Not Modified`.
    pub not_modified: u64,
    /// Connections that the proxy made to it.
    pub connections: u64,
    /// Bytes of bodies of whole answers.
    pub body_bytes: u64,
    /// Bytes of answers, heads and framing included.
    pub sent_bytes: u64,
    /// Bytes that it read: the proxy's requests.
    pub received_bytes: u64,
    /// Time between the two readings by its own clock, in nanoseconds.
    pub elapsed_ns: u64,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RunRecord {
    /// The levels in ascending order of load, each with its iterations (at least one) in the order in which they ran.
    pub fn levels(&self) -> Vec<(LevelKey, Vec<&IterationRecord>)> {
        let mut levels: BTreeMap<LevelKey, Vec<&IterationRecord>> = BTreeMap::new();
        for iteration in &self.iterations {
            levels.entry(iteration.level()).or_default().push(iteration);
        }
        levels.into_iter().collect()
    }

    /// Everything but the iterations, and what is known of pages. Iterations are megabytes each, which a clone of the whole would
    /// copy to drop them.
    pub fn without_iterations(&self) -> RunRecord {
        RunRecord {
            schema: self.schema,
            id: self.id.clone(),
            tool: self.tool.clone(),
            started_at: self.started_at.clone(),
            finished_at: self.finished_at.clone(),
            took_ns: self.took_ns,
            state: self.state,
            command_line: self.command_line.clone(),
            series: self.series.clone(),
            spec: self.spec.clone(),
            workload: self.workload.clone(),
            workload_sha256: self.workload_sha256.clone(),
            target: self.target.clone(),
            generators: self.generators.clone(),
            environment: self.environment.clone(),
            warnings: self.warnings.clone(),
            iterations: Vec::new(),
            voids: self.voids.clone(),
            pages: StoredPages::default(),
        }
    }

    /// Whether no window was measured, not even a void one.
    pub fn is_empty(&self) -> bool {
        self.iterations.is_empty() && self.voids.is_empty()
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
