//! Measures what this host's load generator can do: every mode against the null server, a separate process on its own
//! CPUs, with the engine of a run. Also finds the result again for a run.
//!
//! Each row is a whole [`crate::run()`] of one level: what is calibrated is the code that runs use. Nothing is stored
//! before all rows are measured; an interrupted calibration leaves the previous one unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use webstone_judge::calibration::{
    Calibration, CalibrationRow, Ceiling, HostIdentity, KEY, Mode, UNFIT_KEY, WORKER_LIMIT_PERCENT,
};
use webstone_judge::statistics::LevelStatistics;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::WorkerUse;
use webstone_measure::rate::{Rate, RateProfile, Rates};
use webstone_measure::strict;
use webstone_measure::units::{NANOS_PER_SECOND, Nanos};
use webstone_model::record::{Disturbance, IterationRecord, RunRecord, Tool};
use webstone_model::spec::{Check, ClientSpec, ConnectionPolicy, Levels, LoadSpec, RunSpec, ServerSpec};
use webstone_server::NullOptions;
use webstone_workload::{FileRequest, Page, Workload};

use crate::observer::Silent;
use crate::placement::{Placement, ServerPlace, place};
use crate::run::{RunError, RunnerOptions, run};
use crate::under_test;
use webstone_lab::embedded::{EmbeddedServer, Launch};
use webstone_lab::environment::{self, Subject};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::{Root, cpus};
use webstone_store::clock;
use webstone_store::plain_file::{self, Links};

/// How long the null server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time under load before each window.
const WARMUP: Nanos = Nanos(NANOS_PER_SECOND / 2);
/// How long the CPU use of other programs is sampled.
const LOOK: Duration = Duration::from_millis(300);
/// Time to start a server and clients and to drain, per row and timed run.
const OVERHEAD: Duration = Duration::from_millis(300);

/// How to calibrate.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// The program, as the calibration names it.
    pub tool: Tool,
    /// Length of each timed run.
    pub duration: Nanos,
    /// Timed runs of each row.
    pub iterations: u32,
}

/// One row to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The mode.
    pub mode: Mode,
    /// Workers.
    pub workers: u32,
}

/// A calibration that is about to be made.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    /// Every row.
    pub cases: Vec<Case>,
    /// What should be known about the machine beforehand.
    pub warnings: Vec<String>,
    /// How long it takes, within some seconds.
    pub time: Duration,
    placement: Placement,
}

/// What is measured on this machine: every mode, with one worker and with all that a run would have beside a
/// server.
///
/// # Errors
/// If CPUs are not available.
pub fn plan(options: &CalibrateOptions) -> Result<CalibrationPlan, RunError> {
    let placement = place(
        &cpus(&Root::default()),
        ServerPlace::Ours,
        &RunSpec::default().generator,
        &ServerSpec::default(),
        &[],
    )?;
    let warnings = placement.warnings.clone();
    let mut counts = vec![1];
    if placement.workers > 1 {
        counts.push(placement.workers);
    }
    let mut cases = Vec::new();
    for workers in counts {
        cases.extend(Mode::ALL.map(|mode| Case { mode, workers }));
    }
    let each = (options.duration.as_duration() + WARMUP.as_duration() + OVERHEAD) * options.iterations;
    let time = each * cases.len() as u32;
    Ok(CalibrationPlan { cases, warnings, time, placement })
}

/// What other programs take of the CPUs that a plan's workers will have. Nothing else of webstone runs meanwhile, so all of it
/// is theirs.
pub fn disturbance(plan: &CalibrationPlan) -> Disturbance {
    webstone_engine::disturbance(&plan.placement.workers_cpus, LOOK)
}

/// Measures every row of a plan. `disturbance` is what other programs take of its CPUs; `measured` is told each row.
///
/// # Errors
/// If a server or a run fails, or the user ends it.
pub fn calibrate(
    plan: &CalibrationPlan,
    options: &CalibrateOptions,
    disturbance: Disturbance,
    measured: &mut dyn FnMut(&CalibrationRow),
    interrupt: &Arc<Interrupt>,
) -> Result<Calibration, RunError> {
    let environment = facts(&options.tool);
    let mut rows = Vec::with_capacity(plan.cases.len());
    for case in &plan.cases {
        let row = row(*case, plan, options, &rows, interrupt)?;
        measured(&row);
        rows.push(row);
    }
    let placement = &plan.placement;
    Ok(Calibration {
        made_at: clock::rfc3339(SystemTime::now()),
        tool: options.tool.clone(),
        host: HostIdentity::of_environment(&environment),
        shared_cpus: shares_cpus(placement),
        disturbance: Some(disturbance).filter(|seen| seen.looked_ns > 0),
        rows,
    })
}

fn row(
    case: Case,
    plan: &CalibrationPlan,
    options: &CalibrateOptions,
    before: &[CalibrationRow],
    interrupt: &Arc<Interrupt>,
) -> Result<CalibrationRow, RunError> {
    let program = under_test::program()?;
    let (path, body_bytes) = file(case.mode);
    let launch = Launch {
        program,
        prefix: Vec::new(),
        workload: String::new(),
        server: ServerSpec::default(),
        null: Some(NullOptions {
            body_bytes,
            path: path.to_owned(),
            close: case.mode == Mode::PerRequest,
            ..NullOptions::default()
        }),
        cpus: plan.placement.server.clone(),
        patience: PATIENCE,
    };
    let server = EmbeddedServer::start(&launch, interrupt);
    if interrupt.count() > 0 {
        return Err(RunError::Interrupted);
    }
    let server = server?;
    let mut spec = spec_of(case, options);
    spec.target = vec![server.url().to_owned()];
    spec.generator.cpus = webstone_lab::cpus::cpu_list(&plan.placement.workers_cpus);
    let clients = spec.load.clients.0[0];
    if case.mode == Mode::OpenLoop {
        spec.load.rate = Some(Rates(vec![RateProfile::constant(too_fast(case, before))]));
    }
    let run_options = RunnerOptions {
        tool: options.tool.clone(),
        runs_dir: None,
        workload: Some(workload_of(case.mode)),
        check_target: false,
        ..RunnerOptions::default()
    };
    let outcome = run(spec, run_options, &mut Silent, Arc::clone(interrupt));
    if interrupt.count() > 0 {
        return Err(RunError::Interrupted);
    }
    match (outcome.record, outcome.error) {
        (_, Some(error)) => Err(error),
        (Some(record), None) => Ok(read_row(case, clients, &record, &plan.placement)),
        (None, None) => Err(RunError::Interrupted),
    }
}

/// Twice the most that the closed loop reached with as many workers: more than they can start, so the rate that they do start
/// is their maximum.
fn too_fast(case: Case, before: &[CalibrationRow]) -> Rate {
    let closed = before.iter().filter(|row| row.mode == Mode::KeepAlive && row.workers == case.workers);
    let reached = closed.map(|row| row.requests_per_s).fold(0.0, f64::max);
    Rate::per_second((2.0 * reached).clamp(1000.0, 50e6) as u32)
}

/// Whether null server and workers have a CPU in common.
fn shares_cpus(placement: &Placement) -> bool {
    placement.workers_cpus.iter().any(|cpu| placement.server.contains(cpu))
}

fn read_row(case: Case, clients: u32, record: &RunRecord, placement: &Placement) -> CalibrationRow {
    let server_cpus = placement.server.len();
    let runs: Vec<&IterationRecord> = record.iterations.iter().collect();
    let figures = Figures::of_measured(&IterationRecord::merged(&runs));
    let statistics = LevelStatistics::of_runs(&runs);
    let sum = |of: fn(&IterationRecord) -> f64| runs.iter().map(|run| of(run)).sum::<f64>();
    let window_ns = sum(|run| run.measured.window_ns as f64).max(1.0);
    let server_ns = sum(|run| run.server.as_ref().map_or(0.0, |used| (used.user_ns + used.system_ns) as f64));
    let places = runs.first().map_or(0, |run| run.measured.generator.workers.len());
    let of_worker = |place: usize| {
        let used = |run: &&IterationRecord| {
            run.measured.generator.workers.get(place).map_or(0, WorkerUse::worked_ns)
        };
        100.0 * runs.iter().map(|run| used(run) as f64).sum::<f64>() / window_ns
    };
    let worker_percent = (0..places).map(of_worker).fold(0.0, f64::max);
    let kept_off = |place: usize| {
        let waits = runs.iter().map(|run| run.measured.generator.workers.get(place)?.run_queue_ns);
        Some(100.0 * waits.sum::<Option<u64>>()? as f64 / window_ns)
    };
    let backend = runs.first().and_then(|run| run.measured.generator.workers.first());
    CalibrationRow {
        mode: case.mode,
        backend: backend.map(|worker| worker.backend.clone()).unwrap_or_default(),
        workers: case.workers,
        clients,
        body_bytes: file(case.mode).1 as u64,
        iterations: runs.len() as u32,
        requests_per_s: figures.request_rate,
        requests_reach_percent: statistics.request_rate.and_then(|interval| interval.half_width_percent()),
        connections_per_s: figures.connection_rate,
        throughput_bps: figures.throughput_bps,
        response_bytes: if figures.request_rate > 0.0 {
            figures.throughput_bps / 8.0 / figures.request_rate
        } else {
            0.0
        },
        cpu_per_request_s: figures.generator_cpu_per_request_s,
        worker_percent,
        // On a shared CPU, a worker waits for the null server.
        kept_off_percent: (0..places)
            .filter(|_| !shares_cpus(placement))
            .filter_map(kept_off)
            .reduce(f64::max),
        server_percent: (server_ns > 0.0 && server_cpus > 0)
            .then(|| 100.0 * server_ns / window_ns / server_cpus as f64),
        ceiling: if worker_percent >= WORKER_LIMIT_PERCENT { Ceiling::Generator } else { Ceiling::Elsewhere },
    }
}

/// Path and body of the one file that is requested.
fn file(mode: Mode) -> (&'static str, usize) {
    match mode {
        Mode::Large => ("/file500k.html", 512_500),
        _ => ("/file500.html", 500),
    }
}

fn workload_of(mode: Mode) -> Workload {
    let (url, bytes) = file(mode);
    let file = FileRequest { url: url.into(), size: Some(bytes as u64), ..FileRequest::default() };
    Workload {
        name: format!("calibration-{}", mode.name()),
        pages: vec![Page { weight: 1, files: vec![file], think: Nanos::ZERO }],
        ..Workload::default()
    }
}

fn spec_of(case: Case, options: &CalibrateOptions) -> RunSpec {
    // Sixteen large bodies fill loopback; more only wait in each other's way.
    let clients = if case.mode == Mode::Large { 16 } else { 64 } * case.workers;
    let connections = match case.mode {
        Mode::KeepAlive | Mode::OpenLoop | Mode::Large => ConnectionPolicy::KeepAlive,
        Mode::PerRequest | Mode::Reset => ConnectionPolicy::PerRequest,
    };
    let mut spec = RunSpec { name: "calibration".to_owned(), ..RunSpec::default() };
    spec.load = LoadSpec {
        clients: Levels(vec![clients]),
        duration: options.duration,
        iterations: options.iterations,
        warmup: WARMUP,
        ..LoadSpec::default()
    };
    spec.client = ClientSpec {
        connections,
        reset: case.mode == Mode::Reset,
        check: Check::Size,
        ..ClientSpec::default()
    };
    spec.generator.workers = case.workers;
    spec
}

/// What a record would keep of this host.
fn facts(tool: &Tool) -> BTreeMap<String, Value> {
    let subject = Subject {
        tool,
        target_is_this_host: true,
        addresses: &BTreeSet::new(),
        configuration: Vec::new(),
        server: Vec::new(),
        server_hosts: Vec::new(),
    };
    environment::gather(&Root::default(), subject)
}

/// Largest calibration that is read, in bytes.
const CALIBRATION_BYTES_MAX: u64 = 16 << 20;

/// Reads a stored calibration. `Ok(None)` where there is none.
///
/// # Errors
/// If the file cannot be read or holds something else.
pub fn read(path: &Path) -> io::Result<Option<Calibration>> {
    match plain_file::read(path, Links::Followed, CALIBRATION_BYTES_MAX) {
        Ok(bytes) => strict::json(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores a calibration, whole or not at all, and makes the directory where there is none.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, calibration: &Calibration) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut text = serde_json::to_string_pretty(calibration)?;
    text.push('\n');
    let partial = path.with_extension("json.partial");
    let stored = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    if stored.is_err() {
        // On a full disk, even the part that was written takes space.
        let _ = fs::remove_file(&partial);
    }
    stored
}

/// Adds to the environment the stored calibration, if it is of this host and program; if not, the reason.
pub(crate) fn with_calibration(
    mut environment: BTreeMap<String, Value>,
    path: Option<&Path>,
    tool: &Tool,
) -> BTreeMap<String, Value> {
    let fact = match stored(path, &environment, tool) {
        None => return environment,
        Some(Ok(calibration)) => (KEY, serde_json::to_value(calibration).unwrap_or_default()),
        Some(Err(why)) => (UNFIT_KEY, why.into()),
    };
    environment.insert(fact.0.to_owned(), fact.1);
    environment
}

/// The calibration that is stored there, if it is of this host and program, or why it does not count.
pub(crate) fn stored(
    path: Option<&Path>,
    environment: &BTreeMap<String, Value>,
    tool: &Tool,
) -> Option<Result<Calibration, String>> {
    let path = path?;
    match read(path) {
        Ok(calibration) => {
            calibration.map(|it| match it.unfit(&HostIdentity::of_environment(environment), tool) {
                None => Ok(it),
                Some(why) => Err(why),
            })
        }
        Err(error) => Some(Err(format!("{} cannot be read: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CalibrateOptions {
        CalibrateOptions {
            tool: Tool { version: "1".to_owned(), ..Tool::default() },
            duration: Nanos::from_secs(1),
            iterations: 3,
        }
    }

    #[test]
    fn the_plan_has_every_mode_and_says_how_long_it_takes() {
        let plan = plan(&options()).unwrap();
        for mode in Mode::ALL {
            let first = plan.cases.iter().find(|case| case.mode == mode);
            assert_eq!(first.unwrap().workers, 1);
        }
        let row = Duration::from_millis(3 * 1800);
        assert_eq!(plan.time, row * plan.cases.len() as u32);
    }

    #[test]
    fn a_stored_calibration_is_quoted_only_where_it_fits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/calibration.json");
        let environment = || BTreeMap::from([("hostname".to_owned(), Value::from("box"))]);
        let quoted = |tool: &Tool| with_calibration(environment(), Some(&path), tool);
        assert_eq!(quoted(&options().tool), environment());
        let calibration = Calibration {
            made_at: String::new(),
            tool: options().tool,
            host: HostIdentity::of_environment(&environment()),
            shared_cpus: false,
            disturbance: None,
            rows: Vec::new(),
        };
        write(&path, &calibration).unwrap();
        assert_eq!(read(&path).unwrap().as_ref(), Some(&calibration));
        assert_eq!(quoted(&options().tool)[KEY], serde_json::to_value(&calibration).unwrap());
        let newer = Tool { version: "2".to_owned(), ..Tool::default() };
        let with = quoted(&newer);
        assert!(with[UNFIT_KEY].as_str().unwrap().contains("another version"));
        assert!(!with.contains_key(KEY));
        fs::write(&path, "{").unwrap();
        assert!(quoted(&newer)[UNFIT_KEY].as_str().unwrap().contains("cannot be read"));
    }
}
