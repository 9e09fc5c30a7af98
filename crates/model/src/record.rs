//! What is stored of a run. Every report is made from this alone, so that it can be made again years later.
//!
//! A record is a directory: `record.json` is [`RunRecord`] without what is too large for JSON; `histograms.hlog` has
//! the distributions, `intervals.ndjson` the series, `pages.csv` and `page-rows.csv.gz` the totals of each page
//! ([`crate::pages`]). `webstone-store` reads and writes the directory.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::agents::AgentRecord;
use crate::generators::GeneratorRecord;
use crate::pages::StoredPages;
use crate::spec::RunSpec;
use webstone_measure::keys::{IterationKey, LevelKey};
use webstone_measure::metrics::Measured;
use webstone_measure::one_or_several;
use webstone_workload::Workload;

pub use webstone_measure::disturbance::{CpuWatch, Disturbance, OtherUse, OthersUse};
pub use webstone_measure::host_use::{CpuUse, DirectionUse, HostUse, LinkUse, PairPorts, PathUse, TcpUse};
pub use webstone_measure::iteration::{Arm, IterationRecord, ScheduleKept};
pub use webstone_measure::server_hosts::ServerHostUse;
pub use webstone_measure::server_use::{OriginCounts, OriginUse, ProcessUse, ServerUse, ThreadUse};

/// Version of the record's schema. It is raised when older readers would misunderstand a change.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole run, as stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Name of the record's directory: time and name of the run.
    pub id: String,
    /// The program that measured.
    pub tool: Tool,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// When it ended; absent while it runs, and if it was killed.
    pub finished_at: Option<String>,
    /// How long it took, in nanoseconds of the monotonic clock, which cannot be set. Timestamps are only labels;
    /// times are compared by this. Without the time between the rounds of a series. Absent while the run lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// How it ended.
    pub state: RunState,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// The series that this run is a cell of, if any, by the name of its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The specification, with every default filled in.
    pub spec: RunSpec,
    /// The complete workload: a report needs no other file.
    pub workload: Workload,
    /// SHA-256 of the workload's canonical form, in hex.
    pub workload_sha256: String,
    /// The measured server: its name and version if it sent them, and its address.
    pub target: TargetRecord,
    /// The hosts that made the load, in order; empty: this one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorRecord>,
    /// The machine: everything in `environment.json`, by name.
    pub environment: BTreeMap<String, serde_json::Value>,
    /// How fast CPUs of this host were in earlier runs, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_speeds: Vec<EarlierSpeed>,
    /// What was predicted to be insufficient, or was raised: descriptors, ports, memory.
    pub warnings: Vec<String>,
    /// The timed runs, in the order in which they ran.
    pub iterations: Vec<IterationRecord>,
    /// Timed runs that were void and were repeated: they are in no figure. Each has its counts and what disturbed it,
    /// without distributions, series, and totals of pages and clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voids: Vec<IterationRecord>,
    /// Page by page: sums in `pages.csv`, rows in `page-rows.csv.gz`.
    #[serde(skip)]
    pub pages: StoredPages,
}

/// How fast a CPU was in the windows of earlier runs on the same machine, by the fixed work of [`CpuWatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierSpeed {
    /// The CPU's number.
    pub cpu: u32,
    /// How many windows it is of.
    pub windows: u32,
    /// How long the fixed work took at its best: the 5th percentile of [`CpuWatch::work_ns_best`], in nanoseconds.
    pub work_ns: u64,
}

/// The program that made a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `webstone`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Commit that it was built from, if known; followed by `-modified` if the sources had uncommitted changes.
    pub commit: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Still running, or killed: all that is stored was measured completely.
    #[default]
    Partial,
    /// Ended by the user; what is stored was measured.
    Interrupted,
    /// Ended as planned.
    Complete,
    /// Ended by an error; what is stored was measured.
    Failed,
}

/// The server under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetRecord {
    /// URL that clients used.
    pub url: String,
    /// `Server` field of its first answer, if it sent one.
    pub server: Option<String>,
    /// Whether it was the embedded reference server.
    pub embedded: bool,
    /// CPUs that it was pinned to, if webstone started it.
    pub cpus: Vec<u32>,
    /// Which program it was, if webstone started it and it was not the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<SoftwareRecord>,
    /// Which version of HTTP the check before the load chose and why, where `client.http` was `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Its offer of HTTP/3 in the field Alt-Svc of its first answer, where clients asked over TLS in another version: `h3=":443"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_http3: Option<String>,
    /// What the check before the load found coded, where codings were accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coded: Vec<CodedSample>,
    /// For a proxy: the server behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRecord>,
    /// The agent that monitored it on its own host, if any; a list if there were several, each on a different host.
    #[serde(default, rename = "agent", with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "webstone_measure::one_or_several::OneOrSeveral<AgentRecord>")
    )]
    pub agents: Vec<AgentRecord>,
}

/// An answer whose body was coded, decoded by the check before the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodedSample {
    /// What was asked for.
    pub url: String,
    /// Its `Content-Encoding`.
    pub coding: String,
    /// Length of its body on the wire.
    pub wire_bytes: u64,
    /// Length of its body once decoded.
    pub decoded_bytes: u64,
}

/// The server behind a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginRecord {
    /// Its URL, as the proxy uses it.
    pub url: String,
    /// Whether webstone started it: a reference server.
    pub ours: bool,
    /// CPUs that it was pinned to; for another server on this host, those that it was found on.
    pub cpus: Vec<u32>,
    /// What could not be measured of it and why, one sentence each.
    pub unseen: Vec<String>,
}

/// A server that webstone started: its program, and how it was run. Its configuration is in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SoftwareRecord {
    /// Name of its driver, as in `--server`.
    pub name: String,
    /// Profile of its configuration: `stock` or `tuned`; empty if it has none.
    pub profile: String,
    /// The version that it reports.
    pub version: String,
    /// The program that ran.
    pub program: String,
    /// The user that it ran as, if not webstone's own.
    pub user: Option<String>,
    /// Maximum number of CPUs that it can keep busy, by its own configuration; absent: all that it may run on.
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

/// The fact of the environment that tells whether workers wait awake.
pub const STAYS_AWAKE: &str = "generator.stays_awake";

impl RunRecord {
    /// The levels in ascending order of load, each with its iterations (at least one) in the order in which they ran.
    pub fn levels(&self) -> Vec<(LevelKey, Vec<&IterationRecord>)> {
        let mut levels: BTreeMap<LevelKey, Vec<&IterationRecord>> = BTreeMap::new();
        for iteration in &self.iterations {
            levels.entry(iteration.level()).or_default().push(iteration);
        }
        levels.into_iter().collect()
    }

    /// Whether the workers of the load generator did not sleep while they waited.
    pub fn stays_awake(&self) -> bool {
        self.environment.get(STAYS_AWAKE).and_then(|fact| fact.as_bool()) == Some(true)
    }

    /// Everything except iterations and pages. An iteration has megabytes; a clone of the whole record would copy
    /// them only to drop them.
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
            earlier_speeds: self.earlier_speeds.clone(),
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

    /// Everything measured in the run, all levels together.
    pub fn whole(&self) -> Measured {
        IterationRecord::merged(&self.iterations.iter().collect::<Vec<_>>())
    }

    /// The void timed runs with their numbers as attempts, in the order in which they ran.
    pub fn void_attempts(&self) -> impl Iterator<Item = (IterationKey, &IterationRecord)> {
        let mut attempts: BTreeMap<IterationKey, u32> = BTreeMap::new();
        self.voids.iter().map(move |void| {
            let attempt = attempts.entry(void.key()).or_default();
            *attempt += 1;
            (IterationKey { attempt: Some(*attempt), ..void.key() }, void)
        })
    }
}
