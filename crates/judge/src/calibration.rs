//! What a host's load generator can do, measured against a server that costs next to nothing, and which share of that a
//! run asked of it. Whether a calibration fits a run is told from the record alone.
//!
//! Definitions: `docs/measurement.md`, "Calibration".

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::verdict::{DISTURBANCE_NS_MIN, DISTURBED_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX};
use webstone_model::figures::Figures;
use webstone_model::keys::LevelKey;
use webstone_model::rate::RateProfile;
use webstone_model::record::{Disturbance, RunRecord, Tool};

/// Where a record's environment holds the calibration that the run was quoted against.
pub const KEY: &str = "calibration";
/// Where it says why there is none although one was found.
pub const UNFIT_KEY: &str = "calibration.unfit";
/// A worker that is busier than this, in percent of its CPU, was at its own limit.
pub const WORKER_LIMIT_PERCENT: f64 = 90.0;

/// What the generator of a host can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// When it was measured (RFC 3339, UTC).
    pub made_at: String,
    /// The program that measured.
    pub tool: Tool,
    /// Where.
    pub host: HostIdentity,
    /// Whether null server and workers had to share CPUs: what was measured is then of both together.
    pub shared_cpus: bool,
    /// What others took of the workers' CPUs before anything was measured; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Everything that was measured.
    pub rows: Vec<CalibrationRow>,
}

/// What has to be the same for a calibration to say anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// The generator: this is what it can do.
    Generator,
    /// Something else, the null server most often: the generator can do at least this.
    Elsewhere,
}

/// One mode, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationRow {
    /// The mode.
    pub mode: Mode,
    /// How event loops talked to the kernel: `epoll`; in records of earlier versions perhaps `io-uring`.
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
    /// absent in older files, where the kernel did not tell, and where null server and workers had to share CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_off_percent: Option<f64>,
    /// CPU that the null server used, in percent of its CPUs; null where it could not be read.
    pub server_percent: Option<f64>,
    /// What stood in the way of more.
    pub ceiling: Ceiling,
}

impl Calibration {
    /// Whether others took so much of the generator's CPUs, before the measurement or in it, that it could have done more.
    pub fn is_disturbed(&self) -> bool {
        self.disturbance.is_some_and(is_disturbing) || self.rows.iter().any(CalibrationRow::is_disturbed)
    }
}

impl CalibrationRow {
    /// Whether something else had the CPU of a worker for a good part of the time, so that it could have done more.
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
    pub fn of(environment: &BTreeMap<String, Value>) -> HostIdentity {
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

/// The share of the generator's ability that a run asked of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quote {
    /// When the calibration was made.
    pub made_at: String,
    /// Back end of the run and of the calibration.
    pub backend: String,
    /// Workers of both.
    pub workers: u32,
    /// Whether the generator can do more than was measured, so that the shares are upper bounds.
    pub at_most: bool,
    /// Whether null server and workers shared CPUs in the calibration.
    pub shared_cpus: bool,
    /// Each level in the order of the record's levels.
    pub levels: Vec<LevelShare>,
}

/// The share at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelShare {
    /// Number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Percent of what the generator can do.
    pub percent: f64,
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
        let shared = if self.shared_cpus { ", on CPUs that it shared with the null server" } else { "" };
        format!(
            "{bound}{} of what this generator can do here{at} ({} {workers}, {}; calibrated {}{shared})",
            percent(peak.percent),
            self.workers,
            self.backend,
            self.made_at.split('T').next().unwrap_or_default(),
        )
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

/// What each thing that a run asks for costs the generator in time, by its calibration.
struct Costs {
    request_s: f64,
    connection_s: f64,
    byte_s: f64,
    small_bytes: f64,
    at_most: bool,
}

impl Costs {
    /// From the rows of a back end and number of workers.
    fn of(calibration: &Calibration, backend: &str, workers: u32, client: Asked) -> Option<Costs> {
        let Asked { open_loop, reset } = client;
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
            at_most: [small, asking, connecting, large].iter().any(|row| row.ceiling == Ceiling::Elsewhere),
        })
    }

    /// The share of its time that the generator needs for a level, in percent.
    fn percent(&self, figures: &Figures) -> f64 {
        let more_bytes = figures.throughput_bps / 8.0 - figures.request_rate * self.small_bytes;
        100.0
            * (figures.request_rate * self.request_s
                + figures.connection_rate * self.connection_s
                + more_bytes.max(0.0) * self.byte_s)
    }
}

/// Why a load that several hosts made is no share of what a calibration says.
pub(crate) const OF_OTHER_HOSTS: &str = "calibrations of other hosts are not known";

/// The share of its generator's ability that a run asked for.
///
/// # Errors
/// In words, why it cannot be told.
pub fn quote(record: &RunRecord) -> Result<Quote, String> {
    if !record.generators.is_empty() {
        return Err(OF_OTHER_HOSTS.to_owned());
    }
    let Some(value) = record.environment.get(KEY) else {
        let why = record.environment.get(UNFIT_KEY).and_then(Value::as_str);
        return Err(match why {
            Some(why) => format!("a calibration was found and not used: {why}; run `webstone calibrate`"),
            None => "this host's generator was not calibrated; run `webstone calibrate`".to_owned(),
        });
    };
    let calibration: Calibration = serde_json::from_value(value.clone())
        .map_err(|error| format!("the calibration in the record cannot be read: {error}"))?;
    if let Some(why) = calibration.unfit(&HostIdentity::of(&record.environment), &record.tool) {
        return Err(format!("the calibration in the record does not fit: {why}"));
    }
    let workers =
        record.iterations.first().map(|run| &run.measured.generator.workers[..]).unwrap_or_default();
    let Some(backend) = workers.first().map(|worker| worker.backend.clone()) else {
        return Err("no worker is in the record".to_owned());
    };
    let count = workers.len() as u32;
    let asked = Asked { open_loop: record.spec.load.rate.is_some(), reset: record.spec.client.reset };
    let Some(costs) = Costs::of(&calibration, &backend, count, asked) else {
        let noun = if count == 1 { "worker" } else { "workers" };
        return Err(format!("the calibration does not hold what {count} {noun} on {backend} can do"));
    };
    let levels = record.levels().into_iter().map(|(_, runs)| LevelShare {
        clients: runs[0].clients,
        rate: runs[0].rate,
        percent: costs.percent(&Figures::of(&RunRecord::merged(&runs))),
    });
    Ok(Quote {
        made_at: calibration.made_at,
        backend,
        workers: count,
        at_most: costs.at_most,
        shared_cpus: calibration.shared_cpus,
        levels: levels.collect(),
    })
}

/// What a report says of it: the share, or why a calibration that is there could not be used. `None` where there is none.
pub fn said(record: &RunRecord) -> Option<String> {
    match quote(record) {
        Ok(quote) => Some(quote.sentence()),
        Err(why) => [KEY, UNFIT_KEY].iter().any(|key| record.environment.contains_key(*key)).then_some(why),
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

    fn figures(request_rate: f64, connection_rate: f64, bytes: f64) -> Figures {
        let throughput_bps = request_rate * bytes * 8.0;
        Figures { request_rate, connection_rate, throughput_bps, ..Figures::of(&Default::default()) }
    }

    #[test]
    fn what_was_calibrated_is_100_percent_of_itself() {
        let costs = Costs::of(&calibration(), "epoll", 1, Asked::default()).unwrap();
        for (figures, percent) in [
            (figures(100_000.0, 0.0, 1000.0), 100.0),
            (figures(25_000.0, 25_000.0, 1000.0), 100.0),
            (figures(5_000.0, 0.0, 501_000.0), 100.0),
            // 10 µs a request, and 3,000 connections of 30 µs.
            (figures(30_000.0, 3_000.0, 1000.0), 39.0),
            // Answers that are smaller than those of the calibration cost what they cost.
            (figures(50_000.0, 0.0, 100.0), 50.0),
        ] {
            assert!((costs.percent(&figures) - percent).abs() < 1e-9, "{}", costs.percent(&figures));
        }
    }

    #[test]
    fn rows_of_another_mode_fit_nothing() {
        let of = |calibration: &Calibration, backend, workers, open_loop, reset| {
            Costs::of(calibration, backend, workers, Asked { open_loop, reset })
        };
        assert!(of(&calibration(), "epoll", 2, false, false).is_none());
        assert!(of(&calibration(), "io-uring", 1, false, false).is_none());
        assert!(of(&calibration(), "epoll", 1, false, true).is_none(), "no row of resets");
        assert!(of(&calibration(), "epoll", 1, true, false).is_none(), "no row of open loops");
        let mut bound = calibration();
        bound.rows[2].ceiling = Ceiling::Elsewhere;
        assert!(of(&bound, "epoll", 1, false, false).unwrap().at_most);
    }

    #[test]
    fn an_open_loop_is_held_against_what_an_open_loop_can_do() {
        let mut calibration = calibration();
        calibration.rows.push(CalibrationRow::sample(Mode::OpenLoop, 50_000.0, 1000.0));
        let asked = Asked { open_loop: true, reset: false };
        let costs = Costs::of(&calibration, "epoll", 1, asked).unwrap();
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
