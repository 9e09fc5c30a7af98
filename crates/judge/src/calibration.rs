//! What a host's load generator can do, measured against a server that costs next to nothing, and which share of that a
//! run asked of it. Whether a calibration fits a run is decided from the record alone.
//!
//! Definitions: `docs/measurement.md`, "Calibration". `hosts` does the same for each of several hosts that make the load.

mod hosts;
mod protocol;

pub use protocol::is_of_another_protocol;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::verdict::{DISTURBANCE_NS_MIN, DISTURBED_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX};
use webstone_measure::figures::Figures;
use webstone_measure::keys::LevelKey;
use webstone_measure::rate::RateProfile;
use webstone_measure::strict;
use webstone_model::record::{Disturbance, IterationRecord, RunRecord, Tool};

/// Where a record's environment holds the calibration that the run was quoted against.
pub const KEY: &str = "calibration";
/// Where it says why a calibration that was found is not used.
pub const UNFIT_KEY: &str = "calibration.unfit";
/// A worker that is busier than this, in percent of its CPU, was at its own limit.
pub const WORKER_LIMIT_PERCENT: f64 = 90.0;

/// What the generator of a host can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// When it was measured (RFC 3339, UTC).
    pub made_at: String,
    /// The program that measured.
    pub tool: Tool,
    /// Where.
    pub host: HostIdentity,
    /// Whether null server and workers had to share CPUs: what was measured is then of both together.
    pub shared_cpus: bool,
    /// What others took of the workers' CPUs before anything was measured; absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Everything that was measured.
    pub rows: Vec<CalibrationRow>,
}

/// What has to be the same for a calibration to say anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    /// Name of the host.
    pub hostname: String,
    /// Model of its processor.
    pub cpu_model: String,
    /// Architecture that the program was built for.
    pub architecture: String,
    /// CPUs that the program may use.
    pub cpus: String,
    /// Release of its kernel.
    pub kernel: String,
}

/// A mode in which the generator is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Small answers on kept connections.
    KeepAlive,
    /// The same in open loop, with twice as many arrivals due as the closed loop had answers.
    OpenLoop,
    /// A connection for each small answer.
    PerRequest,
    /// The same, ended by the client with a reset.
    Reset,
    /// Large bodies on kept connections.
    Large,
}

impl Mode {
    /// All, in the order of measuring.
    pub const ALL: [Mode; 5] = [Mode::KeepAlive, Mode::OpenLoop, Mode::PerRequest, Mode::Reset, Mode::Large];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Mode::KeepAlive => "keep-alive",
            Mode::OpenLoop => "open loop",
            Mode::PerRequest => "per-request",
            Mode::Reset => "reset",
            Mode::Large => "large",
        }
    }
}

/// What stood in the way of more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// The generator: this is what it can do.
    Generator,
    /// Something else, the null server most often: the generator can do at least this.
    Elsewhere,
}

/// One mode, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// The mode.
    pub mode: Mode,
    /// How event loops talked to the kernel: `epoll`.
    pub backend: String,
    /// Workers.
    pub workers: u32,
    /// Clients.
    pub clients: u32,
    /// Bytes of an answer's body.
    pub body_bytes: u64,
    /// Timed runs that the row is of, all taken together.
    pub iterations: u32,
    /// Valid responses per second.
    pub requests_per_s: f64,
    /// Half of the 95 % interval of that over the timed runs, in percent of it; null below two.
    pub requests_reach_percent: Option<f64>,
    /// Connections per second.
    pub connections_per_s: f64,
    /// Bits of valid responses per second.
    pub throughput_bps: f64,
    /// Bytes of a response, head included.
    pub response_bytes: f64,
    /// CPU time of the workers per request, in seconds.
    pub cpu_per_request_s: f64,
    /// CPU that the busiest worker used, in percent.
    pub worker_percent: f64,
    /// Time that the worker that waited most was ready to run while something else had its CPU, in percent of the timed runs;
    /// absent if the kernel did not report it, and if null server and workers had to share CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_off_percent: Option<f64>,
    /// CPU that the null server used, in percent of its CPUs; null where it could not be read.
    pub server_percent: Option<f64>,
    /// What stood in the way of more.
    pub ceiling: Ceiling,
}

impl Calibration {
    /// Reads what a host's environment holds under [`KEY`].
    ///
    /// # Errors
    /// If it is not a calibration of this version.
    pub fn read(value: &Value) -> Result<Calibration, serde_json::Error> {
        strict::tree(value)
    }

    /// Whether the generator could have done more with CPU time that others took, before the measurement or in it.
    pub fn is_disturbed(&self) -> bool {
        self.disturbance.is_some_and(is_disturbing) || self.rows.iter().any(CalibrationRow::is_disturbed)
    }
}

impl CalibrationRow {
    /// Whether something else had a worker's CPU for so much of the time that the worker could have done more.
    pub fn is_disturbed(&self) -> bool {
        self.kept_off_percent.is_some_and(|percent| percent > RUN_QUEUE_PERCENT_MAX)
    }
}

/// Whether this is more than a quiet machine's own interrupts take.
pub fn is_disturbing(seen: Disturbance) -> bool {
    seen.looked_ns >= DISTURBANCE_NS_MIN && seen.taken_percent() >= DISTURBED_PERCENT_MAX
}

impl HostIdentity {
    /// From the facts that a record keeps of its host.
    pub fn of_environment(environment: &BTreeMap<String, Value>) -> HostIdentity {
        let text = |key: &str| environment.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        HostIdentity {
            hostname: text("hostname"),
            cpu_model: text("cpu.model"),
            architecture: text("architecture"),
            cpus: text("cpu.allowed"),
            kernel: text("kernel.release"),
        }
    }

    /// The first thing in which two hosts differ, in words.
    fn difference(&self, other: &HostIdentity) -> Option<String> {
        let pairs = [
            ("host", &self.hostname, &other.hostname),
            ("processor", &self.cpu_model, &other.cpu_model),
            ("architecture", &self.architecture, &other.architecture),
            ("set of CPUs", &self.cpus, &other.cpus),
            ("kernel", &self.kernel, &other.kernel),
        ];
        let (what, of_one, of_other) = pairs.into_iter().find(|(_, one, other)| one != other)?;
        Some(format!("another {what}: `{of_one}`, not `{of_other}`"))
    }
}

impl Calibration {
    /// Why it says nothing about this program on this host; `None` where it does.
    pub fn unfit(&self, host: &HostIdentity, tool: &Tool) -> Option<String> {
        if (&self.tool.version, &self.tool.commit) != (&tool.version, &tool.commit) {
            return Some("it was made with another version of webstone".to_owned());
        }
        self.host.difference(host).map(|difference| format!("it was made on {difference}"))
    }

    fn row(&self, mode: Mode, backend: &str, workers: u32) -> Option<&CalibrationRow> {
        let fits = |row: &&CalibrationRow| {
            row.mode == mode && row.backend == backend && row.workers == workers && row.requests_per_s > 0.0
        };
        self.rows.iter().find(fits)
    }
}

/// The share of the generator's ability that a run asked of it; where several hosts made the load, of the one with the highest share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quote {
    /// When the calibration was made; the oldest of several.
    pub made_at: String,
    /// Back end of the run and of the calibration.
    pub backend: String,
    /// Workers of both; of all hosts together.
    pub workers: u32,
    /// Workers of the calibration where it has rows of fewer only: the generator can do at least that much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_calibrated: Option<u32>,
    /// Hosts that made the load, each with a calibration of its own; absent where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generators: Option<u32>,
    /// Whether the generator can do more than was measured, so that the shares are upper bounds.
    pub at_most: bool,
    /// Whether null server and workers shared CPUs in the calibration.
    pub shared_cpus: bool,
    /// Each level in the order of the record's levels.
    pub levels: Vec<LevelShare>,
}

/// The share at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelShare {
    /// Number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Percent of what the generator can do.
    pub percent: f64,
    /// Which of several generators it is, from 0: the one with the highest share at this level. Absent where one host made the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<u32>,
}

impl LevelShare {
    /// Which level it is.
    pub fn key(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

impl Quote {
    /// The highest share.
    pub fn peak(&self) -> Option<LevelShare> {
        self.levels.iter().copied().max_by(|a, b| a.percent.total_cmp(&b.percent))
    }

    /// `54 % of what this generator can do here, …`.
    pub fn sentence(&self) -> String {
        let Some(peak) = self.peak() else { return "nothing was measured".to_owned() };
        let bound = if self.at_most { "at most " } else { "" };
        let at = match self.levels.len() {
            1 => String::new(),
            _ => format!(" at {}", peak.key()),
        };
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let workers = format!("{} {workers}, {}", self.workers, self.backend);
        let shared = if self.shared_cpus { ", on CPUs that it shared with the null server" } else { "" };
        let day = self.made_at.split('T').next().unwrap_or_default();
        let percent = percent(peak.percent);
        match (self.generators, peak.generator) {
            (Some(hosts), Some(generator)) if hosts > 1 => {
                let fewer = self
                    .workers_calibrated
                    .map(|with| format!(", with {with} workers in all"))
                    .unwrap_or_default();
                format!(
                    "{bound}{percent} of what generator {} can do there{at}, the highest share of {hosts} generators ({workers}; oldest \
                     calibration {day}{fewer}{shared})",
                    generator.saturating_add(1)
                )
            }
            _ => {
                let fewer = self.workers_calibrated.map(|with| format!(" with {with},")).unwrap_or_default();
                format!(
                    "{bound}{percent} of what this generator can do here{at} ({workers}; calibrated{fewer} {day}{shared})"
                )
            }
        }
    }
}

fn percent(value: f64) -> String {
    if value < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// What of a run decides which rows apply to it.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    open_loop: bool,
    reset: bool,
}

/// The time that each part of a load costs the generator, by its calibration.
struct Costs {
    request_s: f64,
    connection_s: f64,
    byte_s: f64,
    small_bytes: f64,
    at_most: bool,
    /// Workers of the rows: as many as asked for, or fewer.
    workers: u32,
}

impl Costs {
    /// From the rows of a back end with this many workers, or the most below: a calibration needs CPUs for its server, so a run with a
    /// server elsewhere has more workers, which can do at least as much.
    fn of_calibration(
        calibration: &Calibration,
        backend: &str,
        workers: u32,
        client: Asked,
    ) -> Option<Costs> {
        let Asked { open_loop, reset } = client;
        let rows = calibration.rows.iter().filter(|row| row.backend == backend && row.workers <= workers);
        let asked_for = workers;
        let workers = rows.map(|row| row.workers).max()?;
        let small = calibration.row(Mode::KeepAlive, backend, workers)?;
        let asking =
            calibration.row(if open_loop { Mode::OpenLoop } else { Mode::KeepAlive }, backend, workers)?;
        let mode = if reset { Mode::Reset } else { Mode::PerRequest };
        let connecting = calibration.row(mode, backend, workers)?;
        let large = calibration.row(Mode::Large, backend, workers)?;
        let request_s = 1.0 / small.requests_per_s;
        let bytes = (large.response_bytes - small.response_bytes).max(1.0);
        Some(Costs {
            request_s: 1.0 / asking.requests_per_s,
            connection_s: (1.0 / connecting.requests_per_s - request_s).max(0.0),
            byte_s: ((1.0 / large.requests_per_s - request_s) / bytes).max(0.0),
            small_bytes: small.response_bytes,
            at_most: workers < asked_for
                || [small, asking, connecting, large].iter().any(|row| row.ceiling == Ceiling::Elsewhere),
            workers,
        })
    }

    /// The share of its time that the generator needs for a level, in percent.
    fn percent(&self, load: &LoadRates) -> f64 {
        let more_bytes = load.bytes - load.requests * self.small_bytes;
        100.0
            * (load.requests * self.request_s
                + load.connections * self.connection_s
                + more_bytes.max(0.0) * self.byte_s)
    }
}

/// What a generator made at a level, each per second.
#[derive(Clone, Copy, Debug, Default)]
struct LoadRates {
    requests: f64,
    connections: f64,
    bytes: f64,
}

impl LoadRates {
    fn of_figures(figures: &Figures) -> LoadRates {
        LoadRates {
            requests: figures.request_rate,
            connections: figures.connection_rate,
            bytes: figures.throughput_bps / 8.0,
        }
    }
}

/// The calibration in the facts about a host, if it is that host's and this program's. `generator` names one of several.
fn stored(
    environment: &BTreeMap<String, Value>,
    tool: &Tool,
    generator: Option<usize>,
) -> Result<Calibration, String> {
    let number = generator.map(|place| place + 1);
    let Some(value) = environment.get(KEY) else {
        let why = environment.get(UNFIT_KEY).and_then(Value::as_str);
        return Err(match (why, number) {
            (Some(why), None) => {
                format!("a calibration was found and not used: {why}; run `webstone calibrate`")
            }
            (None, None) => "this host's generator was not calibrated; run `webstone calibrate`".to_owned(),
            (Some(why), Some(number)) => {
                format!(
                    "generator {number} has a calibration that was not used: {why}; run `webstone calibrate` there"
                )
            }
            (None, Some(number)) => {
                format!("generator {number} was not calibrated; run `webstone calibrate` there")
            }
        });
    };
    let of = number.map(|number| format!(" of generator {number}")).unwrap_or_default();
    let calibration = Calibration::read(value)
        .map_err(|error| format!("the calibration{of} in the record cannot be read: {error}"))?;
    match calibration.unfit(&HostIdentity::of_environment(environment), tool) {
        Some(why) => Err(format!("the calibration{of} in the record does not fit: {why}")),
        None => Ok(calibration),
    }
}

/// The share of what its generator can do that a run asked for.
///
/// # Errors
/// Why it is unknown, in words.
pub fn quote(record: &RunRecord) -> Result<Quote, String> {
    if let Some(why) = protocol::other_protocol(record) {
        return Err(why);
    }
    if !record.generators.is_empty() {
        return hosts::quote(record);
    }
    let calibration = stored(&record.environment, &record.tool, None)?;
    let workers =
        record.iterations.first().map(|run| &run.measured.generator.workers[..]).unwrap_or_default();
    let Some(backend) = workers.first().map(|worker| worker.backend.clone()) else {
        return Err("no worker is in the record".to_owned());
    };
    let count = workers.len() as u32;
    let costs = costs(record, &calibration, &backend, count, "the calibration")?;
    let levels = record.levels().into_iter().map(|(_, runs)| LevelShare {
        clients: runs[0].clients,
        rate: runs[0].rate,
        percent: costs
            .percent(&LoadRates::of_figures(&Figures::of_measured(&IterationRecord::merged(&runs)))),
        generator: None,
    });
    Ok(Quote {
        made_at: calibration.made_at,
        backend,
        workers: count,
        workers_calibrated: Some(costs.workers).filter(|calibrated| *calibrated < count),
        generators: None,
        at_most: costs.at_most,
        shared_cpus: calibration.shared_cpus,
        levels: levels.collect(),
    })
}

/// What a run's requests cost, by a calibration. `whose` is its subject in an error.
fn costs(
    record: &RunRecord,
    calibration: &Calibration,
    backend: &str,
    workers: u32,
    whose: &str,
) -> Result<Costs, String> {
    let asked = Asked { open_loop: record.spec.load.rate.is_some(), reset: record.spec.client.reset };
    Costs::of_calibration(calibration, backend, workers, asked).ok_or_else(|| {
        let noun = if workers == 1 { "worker" } else { "workers" };
        format!("{whose} does not hold what {workers} {noun} on {backend} can do")
    })
}

/// What a report says of it: the share, or why a calibration that is there could not be used. `None` where there is none.
pub fn said(record: &RunRecord) -> Option<String> {
    let is_in = |facts: &BTreeMap<String, Value>| [KEY, UNFIT_KEY].iter().any(|key| facts.contains_key(*key));
    match quote(record) {
        Ok(quote) => Some(quote.sentence()),
        Err(why) if record.generators.is_empty() => is_in(&record.environment).then_some(why),
        Err(why) => record.generators.iter().any(|host| is_in(&host.environment)).then_some(why),
    }
}

#[cfg(test)]
impl CalibrationRow {
    /// A row of one worker of epoll, for tests.
    pub(crate) fn sample(mode: Mode, requests_per_s: f64, response_bytes: f64) -> CalibrationRow {
        CalibrationRow {
            mode,
            backend: "epoll".to_owned(),
            workers: 1,
            clients: 64,
            body_bytes: 0,
            iterations: 3,
            requests_per_s,
            requests_reach_percent: None,
            connections_per_s: 0.0,
            throughput_bps: 0.0,
            response_bytes,
            cpu_per_request_s: 0.0,
            worker_percent: 99.0,
            kept_off_percent: None,
            server_percent: None,
            ceiling: Ceiling::Generator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> Calibration {
        Calibration {
            made_at: "2026-11-21T17:00:00Z".to_owned(),
            tool: Tool { version: "1".to_owned(), ..Tool::default() },
            host: HostIdentity { kernel: "6".to_owned(), ..HostIdentity::default() },
            shared_cpus: false,
            disturbance: None,
            rows: vec![
                CalibrationRow::sample(Mode::KeepAlive, 100_000.0, 1000.0),
                CalibrationRow::sample(Mode::PerRequest, 25_000.0, 1000.0),
                CalibrationRow::sample(Mode::Large, 5_000.0, 501_000.0),
            ],
        }
    }

    fn figures(requests: f64, connections: f64, bytes: f64) -> LoadRates {
        LoadRates { requests, connections, bytes: requests * bytes }
    }

    #[test]
    fn what_was_calibrated_is_100_percent_of_itself() {
        let costs = Costs::of_calibration(&calibration(), "epoll", 1, Asked::default()).unwrap();
        for (figures, percent) in [
            (figures(100_000.0, 0.0, 1000.0), 100.0),
            (figures(25_000.0, 25_000.0, 1000.0), 100.0),
            (figures(5_000.0, 0.0, 501_000.0), 100.0),
            // 10 µs a request, and 3,000 connections of 30 µs.
            (figures(30_000.0, 3_000.0, 1000.0), 39.0),
            // Answers smaller than those of the calibration cost as much as those.
            (figures(50_000.0, 0.0, 100.0), 50.0),
        ] {
            assert!((costs.percent(&figures) - percent).abs() < 1e-9, "{}", costs.percent(&figures));
        }
    }

    #[test]
    fn rows_of_another_mode_fit_nothing() {
        let of = |calibration: &Calibration, backend, workers, open_loop, reset| {
            Costs::of_calibration(calibration, backend, workers, Asked { open_loop, reset })
        };
        assert!(of(&calibration(), "epoll", 0, false, false).is_none());
        assert!(of(&calibration(), "kqueue", 1, false, false).is_none());
        assert!(of(&calibration(), "epoll", 1, false, true).is_none(), "no row of resets");
        assert!(of(&calibration(), "epoll", 1, true, false).is_none(), "no row of open loops");
        let mut bound = calibration();
        bound.rows[2].ceiling = Ceiling::Elsewhere;
        assert!(of(&bound, "epoll", 1, false, false).unwrap().at_most);
    }

    #[test]
    fn more_workers_than_were_calibrated_can_do_at_least_as_much() {
        let mut calibration = calibration();
        let rows = calibration.rows.clone();
        let twice = |row: CalibrationRow| CalibrationRow {
            workers: 2,
            requests_per_s: 2.0 * row.requests_per_s,
            ..row
        };
        calibration.rows.extend(rows.into_iter().map(twice));
        let of = |workers| {
            let costs = Costs::of_calibration(&calibration, "epoll", workers, Asked::default()).unwrap();
            (costs.workers, costs.at_most, costs.percent(&figures(50_000.0, 0.0, 1000.0)).round())
        };
        assert_eq!([of(1), of(2), of(4)], [(1, false, 50.0), (2, false, 25.0), (2, true, 25.0)]);
    }

    #[test]
    fn an_open_loop_is_compared_with_what_an_open_loop_can_do() {
        let mut calibration = calibration();
        calibration.rows.push(CalibrationRow::sample(Mode::OpenLoop, 50_000.0, 1000.0));
        let asked = Asked { open_loop: true, reset: false };
        let costs = Costs::of_calibration(&calibration, "epoll", 1, asked).unwrap();
        assert!((costs.percent(&figures(25_000.0, 0.0, 1000.0)) - 50.0).abs() < 1e-9);
        // A connection costs what it costs in closed loop.
        assert!((costs.percent(&figures(10_000.0, 10_000.0, 1000.0)) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn another_host_or_version_is_named() {
        let (calibration, tool) = (calibration(), Tool { version: "1".to_owned(), ..Tool::default() });
        let mut host = calibration.host.clone();
        assert_eq!(calibration.unfit(&host, &tool), None);
        host.kernel = "7".to_owned();
        assert_eq!(
            calibration.unfit(&host, &tool).as_deref(),
            Some("it was made on another kernel: `6`, not `7`")
        );
        let tool = Tool { commit: Some("abc".to_owned()), ..tool };
        assert!(calibration.unfit(&calibration.host, &tool).unwrap().contains("another version"));
    }
}
