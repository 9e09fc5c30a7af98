//! A duel: several servers, or several versions of one, side by side under the same load in turns, and what was measured of each.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use webstone_measure::errors::ErrorTable;
use webstone_measure::metrics::{Counts, Histogram, Moments, Statuses};
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_workload::Workload;

use crate::record::{AgentRecord, RunState, SoftwareRecord, Tool};
use crate::spec::RunSpec;

/// Version of the record's layout.
pub const DUEL_SCHEMA: u32 = 1;

/// How a duel is held, besides the load that every contestant gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DuelSpec {
    /// Without `fail_if` it ends when the 95 % interval of the first figure is within ± this share.
    pub precision: f64,
    /// It ends at the latest this long after the first start was ready for load.
    pub at_most: Nanos,
    /// How long a contestant has the load before it drains and the next has its turn.
    pub slice: Nanos,
    /// How long it may take to drain.
    pub drain: Nanos,
    /// After this time under load, contestants are restarted.
    pub restart_every: Nanos,
    /// Starts of each contestant before anything is concluded.
    pub starts_min: u32,
    /// Whether a second copy of the first contestant takes part.
    pub twin: bool,
    /// Changes for the worse that make it fail.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub fail_if: Vec<DuelGate>,
}

impl Default for DuelSpec {
    fn default() -> DuelSpec {
        DuelSpec {
            precision: 0.01,
            at_most: Nanos::from_secs(300),
            slice: Nanos(20_000_000),
            drain: Nanos(1_000_000_000),
            restart_every: Nanos::from_secs(3),
            starts_min: 5,
            twin: true,
            fail_if: Vec::new(),
        }
    }
}

/// A figure that contestants are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DuelFigure {
    /// The server's CPU time per answered request.
    Cpu,
    /// Answered requests per second, while a contestant has the load.
    Rate,
    /// Mean response time.
    Latency,
    /// Its median.
    P50,
    /// Its 90th percentile.
    P90,
    /// Its 99th percentile.
    P99,
    /// Bytes of an answer, head and body, on average.
    Bytes,
    /// The most resident memory of the server's processes.
    Memory,
}

impl DuelFigure {
    /// All, in the order of reports.
    pub const ALL: [DuelFigure; 8] = [
        DuelFigure::Cpu,
        DuelFigure::Rate,
        DuelFigure::Latency,
        DuelFigure::P50,
        DuelFigure::P90,
        DuelFigure::P99,
        DuelFigure::Bytes,
        DuelFigure::Memory,
    ];

    /// The word in conditions and JSON.
    pub fn key(self) -> &'static str {
        match self {
            DuelFigure::Cpu => "cpu",
            DuelFigure::Rate => "rate",
            DuelFigure::Latency => "latency",
            DuelFigure::P50 => "p50",
            DuelFigure::P90 => "p90",
            DuelFigure::P99 => "p99",
            DuelFigure::Bytes => "bytes",
            DuelFigure::Memory => "memory",
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DuelFigure::Cpu => "CPU time per request",
            DuelFigure::Rate => "requests/s",
            DuelFigure::Latency => "mean latency",
            DuelFigure::P50 => "p50 latency",
            DuelFigure::P90 => "p90 latency",
            DuelFigure::P99 => "p99 latency",
            DuelFigure::Bytes => "bytes per response",
            DuelFigure::Memory => "peak memory",
        }
    }

    /// Whether more of it is better.
    pub fn is_better_higher(self) -> bool {
        self == DuelFigure::Rate
    }
}

/// A change that makes a duel fail: `cpu > +3%`.
#[derive(Clone, Debug, PartialEq)]
pub struct DuelGate {
    /// The figure.
    pub figure: DuelFigure,
    /// Whether it fails above the limit, or below.
    pub above: bool,
    /// The limit, as a share of the first contestant's value: 0.03.
    pub limit: f64,
}

/// Why a text is not such a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {rule}; write a figure, < or >, and a change: cpu > +3%, rate < -2% or p99 > +10%")]
pub struct DuelGateError {
    text: String,
    rule: String,
}

impl FromStr for DuelGate {
    type Err = DuelGateError;

    fn from_str(text: &str) -> Result<DuelGate, DuelGateError> {
        let error = |rule: String| DuelGateError { text: text.to_owned(), rule };
        let at = text.find(['<', '>']).ok_or_else(|| error("there is no < or >".to_owned()))?;
        let (word, rest) = (text[..at].trim(), text[at + 1..].trim());
        let figure = DuelFigure::ALL.into_iter().find(|figure| figure.key() == word).ok_or_else(|| {
            let known: Vec<&str> = DuelFigure::ALL.map(DuelFigure::key).to_vec();
            error(format!("`{word}` is not one of the figures {}", known.join(", ")))
        })?;
        let number = rest.strip_suffix('%').ok_or_else(|| error("the change has no %".to_owned()))?.trim();
        let percent: f64 = number.parse().map_err(|_| error(format!("`{number}` is not a number")))?;
        if !percent.is_finite() || percent <= -100.0 {
            return Err(error(format!("{percent} % is not a change")));
        }
        Ok(DuelGate { figure, above: text[at..].starts_with('>'), limit: percent / 100.0 })
    }
}

impl fmt::Display for DuelGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = if self.above { '>' } else { '<' };
        write!(f, "{} {relation} {:+}%", self.figure.key(), (self.limit * 1e8).round() / 1e6)
    }
}

impl Serialize for DuelGate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DuelGate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<DuelGate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One side of a duel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Contestant {
    /// Its name in reports.
    pub name: String,
    /// What it is, as it was given.
    pub given: String,
    /// Whether it is the second copy of the first.
    pub is_twin: bool,
    /// Whether webstone starts it, again and again; otherwise it was up and stays so.
    pub is_started: bool,
    /// Its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software: Option<SoftwareRecord>,
    /// What it says it is, in the field `Server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Which version of HTTP the check before the load chose and why, where `client.http` was `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// The commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its CPUs, if known.
    pub cpus: Vec<u32>,
    /// The agents that watch it on its hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRecord>,
    /// Its configuration files.
    pub configuration: Vec<Value>,
}

/// What one contestant did between two starts, all its slices together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SideRun {
    /// Length of its slices together.
    pub slices_ns: u64,
    /// CPU time of its processes in its slices; `None` if it cannot be seen, as in the next three.
    pub cpu_ns: Option<u64>,
    /// CPU time that they used between its slices, without load.
    pub resting_cpu_ns: Option<u64>,
    /// How long their threads were ready to run and waited for a CPU, in its slices.
    pub waited_ns: Option<u64>,
    /// The same of the load generator's threads.
    pub generator_waited_ns: Option<u64>,
    /// CPU time of its processes from the first slice of the start to the last, as an agent on their host saw it. Of a server that is asked
    /// as two contestants, the part of this one, by its share of the requests; `None` for the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_elsewhere_ns: Option<u64>,
    /// Requests, connections, bytes.
    pub counts: Counts,
    /// Errors by class.
    pub errors: ErrorTable,
    /// Answers by status.
    pub statuses: Statuses,
    /// Response times.
    pub response: Moments,
    /// Their distribution: an HdrHistogram in base64, and the longest exactly.
    #[serde(with = "as_base64")]
    #[cfg_attr(feature = "schema", schemars(with = "(String, u64)"))]
    pub distribution: Histogram,
    /// In open loop: how long requests waited for a client, on average, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_ns: Option<f64>,
    /// The most resident memory of its processes, in bytes; `None` if they cannot be seen.
    pub resident_bytes_max: Option<u64>,
}

impl SideRun {
    /// Takes lengths and CPU times from all slices of the side.
    #[must_use]
    pub fn with_slices<'a>(self, slices: impl Iterator<Item = &'a Slice> + Clone) -> SideRun {
        let sum = |of: fn(&Slice) -> Option<u64>| {
            slices.clone().map(of).try_fold(0_u64, |sum, value| Some(sum.saturating_add(value?)))
        };
        SideRun {
            slices_ns: sum(|slice| Some(slice.took_ns)).unwrap_or_default(),
            cpu_ns: sum(|slice| slice.cpu_ns),
            resting_cpu_ns: sum(|slice| slice.resting_cpu_ns),
            waited_ns: sum(|slice| slice.waited_ns),
            generator_waited_ns: sum(|slice| slice.generator_waited_ns),
            ..self
        }
    }

    /// CPU time of its processes in the whole start, with what they used between their turns; `None` if it cannot be seen.
    pub fn whole_cpu_ns(&self) -> Option<u64> {
        self.cpu_elsewhere_ns.or_else(|| Some(self.cpu_ns?.saturating_add(self.resting_cpu_ns?)))
    }
}

/// All contestants between two starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DuelStart {
    /// When its first slice began, in nanoseconds since the duel began.
    pub at_ns: u64,
    /// By contestant.
    pub sides: Vec<SideRun>,
    /// Slices in order; in a file of their own in a stored record.
    #[serde(skip)]
    pub slices: Vec<Slice>,
}

/// An answer that is not that of the first contestant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AnswerDifference {
    /// Number of the contestant.
    pub contestant: u32,
    /// What was asked.
    pub url: String,
    /// How the answers differ: `status 200, 404`.
    pub what: String,
}

/// The record of a duel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DuelRecord {
    /// [`DUEL_SCHEMA`].
    pub schema: u32,
    /// Name of its directory.
    pub id: String,
    /// The program that measured.
    pub tool: Tool,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// The command line, without secrets.
    pub command_line: Vec<String>,
    /// How it ended.
    pub state: RunState,
    /// How long it took, servers' starts included.
    pub took_ns: u64,
    /// The load, the clients, the workload's name.
    pub spec: RunSpec,
    /// How it was held.
    pub duel: DuelSpec,
    /// The workload, without secrets.
    pub workload: Workload,
    /// The contestants in order: the first is what others are compared with.
    pub contestants: Vec<Contestant>,
    /// Answers that differ from the first contestant's.
    pub differences: Vec<AnswerDifference>,
    /// Facts of this host.
    pub environment: BTreeMap<String, Value>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// What was measured.
    pub starts: Vec<DuelStart>,
}

impl DuelRecord {
    /// Number of the second copy of the first contestant, if there is one.
    pub fn twin(&self) -> Option<usize> {
        self.contestants.iter().position(|contestant| contestant.is_twin)
    }

    /// What the twin is: `a second copy of nginx`. A server that webstone did not start has no copy, and is measured as two.
    pub fn twin_in_words(&self) -> String {
        match self.contestants.first() {
            Some(first) if first.is_started => format!("a second copy of {}", first.name),
            Some(first) => format!("{}, asked as a second contestant,", first.name),
            None => String::new(),
        }
    }

    /// Whether load comes by a schedule.
    pub fn is_open_loop(&self) -> bool {
        self.spec.load.rate.is_some()
    }

    /// The numbers of those that are compared with the first.
    pub fn challengers(&self) -> impl Iterator<Item = usize> {
        (1..self.contestants.len()).filter(|number| !self.contestants[*number].is_twin)
    }
}

mod as_base64 {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use webstone_measure::metrics::Histogram;

    pub(super) fn serialize<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
        (histogram.to_base64(), histogram.max()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let (text, max) = <(String, u64)>::deserialize(deserializer)?;
        let mut histogram = Histogram::from_base64(&text).map_err(serde::de::Error::custom)?;
        histogram.set_max(max);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_read_back_as_written() {
        for text in ["cpu > +3%", "rate < -2.5%", "p99 > +10%", "memory > +0%"] {
            assert_eq!(text.parse::<DuelGate>().unwrap().to_string(), text);
        }
        assert_eq!("cpu>3%".parse::<DuelGate>().unwrap().to_string(), "cpu > +3%");
        for (text, rule) in [
            ("cpu", "no < or >"),
            ("cpu > 3", "no %"),
            ("cup > 3%", "`cup` is not one of the figures cpu, rate"),
            ("cpu > x%", "`x` is not a number"),
            ("rate < -100%", "not a change"),
            ("cpu > inf%", "not a change"),
        ] {
            let error = text.parse::<DuelGate>().unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
        }
    }
}
