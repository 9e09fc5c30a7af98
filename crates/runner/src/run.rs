//! A whole run: look at the machine and the target, start the server where it is ours, sweep, keep the record.
//!
//! Everything that can be known to be wrong is found before the first level. What was measured is handed back whatever
//! happens afterwards: [`RunOutcome`] holds the record *and* the error.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tracing::{info, warn};
use webstone_model::event::Event;
use webstone_model::record::{RunRecord, RunState, SCHEMA_VERSION, TargetRecord, Tool};
use webstone_model::spec::{RunSpec, Software, parse_cpu_list};
use webstone_workload::Workload;

use crate::calibrate;
use crate::check::{Checked, check, for_workload, handler};
use crate::fleet;
use crate::generator::{self, Compile, LoadGenerator};
use crate::observer::Observer;
use crate::order::Course;
use crate::placement::{ServerPlace, place};
use crate::preflight::needs::{Load, Severity, shortages};
use crate::preflight::target::{self, TargetFacts};
use crate::record_all::RecordAll;
use crate::rounds;
pub use crate::run_error::RunError;
use crate::run_time::RunTime;
use crate::sweep::{Sweep, SweepError};
use crate::trace::{TraceWriter, nowhere};
use crate::under_test::{self, Found, UnderTest};
use crate::workload_source::{Feeds, WorkloadSourceError, load_workload};
use webstone_lab::agent::ServerAgents;
use webstone_lab::cpus::cpu_list;
use webstone_lab::embedded::EmbeddedServerError;
use webstone_lab::environment::configuration;
use webstone_lab::environment::{self, Subject};
use webstone_lab::fetch::ByProbe;
use webstone_lab::host_use::links_towards;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::limits;
use webstone_lab::machine::{Root, cpus};
use webstone_lab::measured::MeasuredServer;
use webstone_store::clock;
use webstone_store::plain_file::{self, Links};
use webstone_store::redaction;
use webstone_store::{Derived, Store};

/// Most memory that the embedded server keeps files in, in bytes; it makes the rest anew for each request.
const SERVER_CACHE_BYTES_MAX: u64 = 1 << 30;

/// What a run needs to know besides its specification.
pub struct RunnerOptions {
    /// The program, as the record names it.
    pub tool: Tool,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// Directory that holds the records of runs; `None`: nothing is stored.
    pub runs_dir: Option<PathBuf>,
    /// The workload, where it is not the one that the specification names.
    pub workload: Option<Workload>,
    /// File that holds the calibration of this host's generator; `None`, or nothing there: the run quotes none.
    pub calibration: Option<PathBuf>,
    /// Whether the target is asked for its files before load; that its hosts accept connections is always checked.
    pub check_target: bool,
    /// The executable that is started as [`Child`](webstone_lab::child::Child); `None`: this one.
    pub server_program: Option<PathBuf>,
    /// Computes from a finished record what is stored beside it: figures, reports. `None`: nothing.
    pub derive: Option<fn(&RunRecord) -> Vec<Derived>>,
    /// Where traced exchanges are written, where the specification asks for some.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Which part of the run is made.
    pub part: Part,
    /// Name of the series that the run is a cell of.
    pub series: Option<String>,
    /// File in which a browser front keeps how many pages at most watched at a time; `None`, or nothing there: nobody did.
    pub watched_by: Option<PathBuf>,
}

/// Which part of a run is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// One iteration of every level, for a record that grows round by round and is finished with the last of them. What was
    /// cut off is not kept: it is made again.
    Round {
        /// Which iteration, from 1.
        iteration: u32,
        /// The record so far; `None`: this begins it.
        record: Option<PathBuf>,
    },
}

impl Default for RunnerOptions {
    /// Stored in `runs/`, everything checked, no trace.
    fn default() -> RunnerOptions {
        RunnerOptions {
            tool: Tool {
                name: "webstone".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: None,
            },
            command_line: Vec::new(),
            runs_dir: Some(PathBuf::from("runs")),
            workload: None,
            calibration: None,
            check_target: true,
            server_program: None,
            derive: None,
            trace: None,
            part: Part::Whole,
            series: None,
            watched_by: None,
        }
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct RunOutcome {
    /// Everything measured; `None` where the run ended before its first level could start.
    pub record: Option<RunRecord>,
    /// Directory of the stored record, under its final name where it could be given one; `None` where nothing is stored.
    pub path: Option<PathBuf>,
    /// Why the run did not end as planned. An interrupted run that measured something is no error.
    pub error: Option<RunError>,
}

/// The workload that a specification names.
pub fn resolve_workload(spec: &RunSpec) -> Result<Workload, WorkloadSourceError> {
    load_workload(&spec.workload, Feeds::of(&spec.client))
}

/// Runs a specification to its end. Blocks; events arrive on this thread, `interrupt` may be raised from any.
pub fn run(
    spec: RunSpec,
    options: RunnerOptions,
    observer: &mut dyn Observer,
    interrupt: Arc<Interrupt>,
) -> RunOutcome {
    run_with(spec, options, observer, &interrupt, &generator::engine)
}

pub(crate) fn run_with(
    spec: RunSpec,
    options: RunnerOptions,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
    compile: Compile<'_>,
) -> RunOutcome {
    match prepare(spec, options, observer, interrupt, compile) {
        Ok(prepared) => prepared.sweep(observer, interrupt),
        Err(error) => {
            let state = match error {
                RunError::Interrupted => RunState::Interrupted,
                _ => RunState::Failed,
            };
            observer.event(&finished(state, None));
            RunOutcome { record: None, path: None, error: Some(error) }
        }
    }
}

/// Everything ready for the first level.
struct Prepared {
    record: RunRecord,
    /// The specification as the engine has it: target and workers decided.
    effective: RunSpec,
    generator: Box<dyn LoadGenerator>,
    /// Which host makes which share of the load, where several do.
    dealt: Option<String>,
    server: Option<UnderTest>,
    /// Somebody else's.
    found: Found,
    /// What watches it elsewhere.
    agents: ServerAgents,
    /// Network interfaces towards the target.
    links: BTreeSet<String>,
    /// Addresses of the target.
    targets: BTreeSet<SocketAddr>,
    store: Option<Store>,
    record_all: Option<RecordAll>,
    trace: Option<TraceWriter>,
    derive: Option<fn(&RunRecord) -> Vec<Derived>>,
    watched_by: Option<PathBuf>,
    part: Part,
}

fn prepare(
    spec: RunSpec,
    options: RunnerOptions,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
    compile: Compile<'_>,
) -> Result<Prepared, RunError> {
    let going_on = || if interrupt.count() > 0 { Err(RunError::Interrupted) } else { Ok(()) };
    let root = Root::default();
    let Checked { spec, mut warnings } = check(&spec.into())?;
    let RunnerOptions {
        tool,
        command_line,
        runs_dir,
        workload,
        calibration,
        check_target,
        server_program,
        derive,
        trace,
        part,
        series,
        watched_by,
    } = options;
    let workload = workload.map_or_else(|| resolve_workload(&spec), Ok)?;
    handler::ready_heads(&spec, &workload)?;
    let mut spec = spec;
    for_workload(&mut spec, &workload)?;
    if let Some(repetitions) = spec.load.repetitions {
        spec.load.pages = Some(u64::from(repetitions) * workload.pages.len() as u64);
    }
    let configuration = configuration::read(&spec.server_config)?;
    warnings.extend(target::unknown_contents(&spec, &workload));

    observer.event(&Event::Preparing { what: "looking at this machine and the target".to_owned() });
    let ours = spec.target.is_empty();
    let embedded = ours && spec.server.software == Software::Reference;
    // A server that other hosts load is asked by them: this one may know it by no name, and reach it by no way.
    let asked_elsewhere = !ours && !spec.generators.is_empty();
    let mut facts = match (ours, asked_elsewhere) {
        (true, _) => TargetFacts { this_host: true, ..TargetFacts::default() },
        (_, true) => target::locate_from_elsewhere(&spec, &workload)?,
        _ => target::locate(&spec, &workload)?,
    };
    let mut effective = spec.clone();
    let at = ServerPlace::of(ours, facts.this_host);
    let found = under_test::find(&spec, at, &facts);
    let found_on = found.processes.as_ref().map(|server| server.cpus.clone()).unwrap_or_default();
    let placement = place(&cpus(&root), at, &spec.generator, &spec.server, &found_on)?;
    info!(
        workers = placement.workers,
        workers_cpus = cpu_list(&placement.workers_cpus),
        server_cpus = cpu_list(&placement.server),
        server_at = ?at,
        notes = ?placement.warnings,
        "CPUs are placed"
    );
    let links = links_towards(&root, facts.addresses.iter().map(|address| address.ip()), facts.this_host);
    // What is said of the generator's CPUs is of no generator where other hosts make the load.
    warnings.extend(placement.warnings.iter().filter(|_| spec.generators.is_empty()).cloned());
    warnings.extend(found.warnings(&placement));
    effective.generator.workers = placement.workers;
    effective.generator.cpus = cpu_list(&placement.workers_cpus);
    let destinations = facts.addresses.len().max(1) as u64;
    let mut load = Load::of(&effective, workload.pages.len() as u64, destinations, facts.this_host);
    if embedded && spec.server.root.is_none() {
        load.fileset_bytes = fileset_bytes(&workload).min(SERVER_CACHE_BYTES_MAX);
    }
    let foreseen = foresee(&load, &root).inspect_err(|error| warn!(%error, "preflight: it cannot work"))?;
    info!(connections = load.descriptors(), notes = ?foreseen, "preflight: resources of this host");
    warnings.extend(foreseen);
    going_on()?;

    // A server inherits the limits that were raised above.
    let server = match ours {
        true => {
            let starting =
                if embedded { "starting the embedded server" } else { "starting the server under test" };
            observer.event(&Event::Preparing { what: starting.to_owned() });
            let program = server_program.map_or_else(std::env::current_exe, Ok).map_err(|source| {
                EmbeddedServerError::Start { program: PathBuf::from("/proc/self/exe"), source }
            })?;
            let server = under_test::start(&spec, &workload, &placement, program, interrupt);
            going_on()?;
            Some(server?)
        }
        false => None,
    };
    if let Some(server) = &server {
        effective.target = std::iter::once(&server.url).chain(&server.secure_url).cloned().collect();
        server.trust(&mut effective.client.tls);
        warnings.extend(server.warnings.iter().cloned());
    }
    // A server of ours has its address only now.
    let targets =
        if ours { target::locate(&effective, &workload)?.addresses } else { facts.addresses.clone() };
    if !asked_elsewhere {
        target::reach_hosts(&effective, &workload)?;
        going_on()?;
    }
    if check_target && !asked_elsewhere {
        observer.event(&Event::Preparing { what: "asking the target for its files".to_owned() });
        let fetch = ByProbe::like(&effective);
        let since = Instant::now();
        let checked = target::check_answers(&effective, &workload, &fetch, interrupt, &mut facts);
        match &checked {
            Ok(()) => {
                info!(after = ?since.elapsed(), server = facts.server, "preflight: the target answers as it should")
            }
            Err(error) => {
                warn!(after = ?since.elapsed(), %error, "preflight: the target does not answer as it should")
            }
        }
        going_on()?;
        checked?;
        warnings.append(&mut facts.warnings);
    }
    let (mut dealt, mut generators) = (None, Vec::new());
    let generator = match effective.generators.is_empty() {
        true => compile(&effective, &workload)?,
        false => {
            observer
                .event(&Event::Preparing { what: "starting the agents on the generators' hosts".to_owned() });
            let server = environment::boot(&root).filter(|_| ours || facts.this_host);
            // Each host places its workers itself.
            let of_hosts = RunSpec { generator: spec.generator.clone(), ..effective.clone() };
            let setting = fleet::Setting {
                tool: &tool,
                spec: &of_hosts,
                workload: &workload,
                server: server.map(|boot| (boot, placement.server.clone())),
                is_loopback: !targets.is_empty() && targets.iter().all(|address| address.ip().is_loopback()),
                check_files: check_target && asked_elsewhere,
            };
            let mut waits = |what: String| observer.event(&Event::Preparing { what });
            let fleet = fleet::start(&setting, interrupt, &mut waits)?;
            warnings.extend(fleet.warnings.iter().cloned());
            if asked_elsewhere {
                // The load goes where the hosts see the target, whatever its name means here.
                facts.addresses.clone_from(&fleet.addresses);
                facts.server.clone_from(&fleet.server);
            }
            (dealt, generators) = (Some(fleet.plan_in_words.clone()), fleet.records.clone());
            Box::new(fleet) as Box<dyn LoadGenerator>
        }
    };
    match spec.server.agents.len() {
        0 => {}
        1 => observer.event(&Event::Preparing { what: "starting the agent on the server's host".to_owned() }),
        _ => {
            observer.event(&Event::Preparing { what: "starting the agents on the server's hosts".to_owned() })
        }
    }
    let started = ServerAgents::start(&spec.server.agents, &tool.version, &facts.addresses, interrupt);
    going_on()?;
    let (agents, mut described) = started?;
    warnings.append(&mut described.warnings);
    let record_all = match &spec.generator.record_all {
        Some(path) => Some(RecordAll::create(path.as_ref())?),
        None => None,
    };
    let trace = (spec.generator.trace > 0).then(|| TraceWriter::new(trace.unwrap_or_else(nowhere)));

    for warning in &warnings {
        observer.event(&Event::Warning { text: warning.clone() });
    }
    let subject = Subject {
        tool: &tool,
        target_is_this_host: facts.this_host,
        addresses: &facts.addresses,
        configuration: [configuration, server.as_ref().map(|s| s.configuration.clone()).unwrap_or_default()]
            .concat(),
        server: server.as_ref().map(|s| s.facts.clone()).unwrap_or_default(),
        server_hosts: described.hosts,
    };
    let mut environment = environment::gather(&root, subject);
    if !generators.is_empty() {
        redaction::generators(&mut generators);
        // For the rule that all hosts ran the same program.
        environment.extend(fleet::program_sha256().map(|sum| ("tool.program_sha256".to_owned(), sum.into())));
    }
    redaction::server_agents(&mut described.records);
    // The engine has the specification and the workload as they were given; the record has them without secrets.
    let spec = redaction::spec(&spec);
    let mut workload = workload;
    redaction::workload(&mut workload);
    let started = SystemTime::now();
    let behind = server.as_ref().map_or(&found.origin, |server| &server.origin).as_ref();
    let mut record = RunRecord {
        schema: SCHEMA_VERSION,
        id: String::new(),
        generators,
        environment: calibrate::with_calibration(environment, calibration.as_deref(), &tool),
        tool,
        started_at: clock::rfc3339(started),
        finished_at: None,
        took_ns: None,
        state: RunState::Partial,
        command_line: redaction::command_line(&command_line),
        series,
        workload_sha256: workload.sha256(),
        workload,
        target: TargetRecord {
            url: redaction::text(&effective.target.join(" ")).text,
            server: facts.server,
            embedded,
            cpus: placement.server,
            software: server.as_ref().and_then(|server| server.software.clone()),
            agents: described.records,
            origin: behind.map(|origin| origin.record.clone()),
        },
        warnings: warnings.iter().map(|warning| redaction::text(warning).text).collect(),
        iterations: Vec::new(),
        voids: Vec::new(),
        pages: Default::default(),
        spec,
    };
    let store = match (&part, &runs_dir) {
        (Part::Round { record: Some(path), .. }, _) => Some(rounds::go_on(path, &mut record)?),
        (_, Some(runs)) => Some(Store::create(runs, started, &mut record)?),
        (_, None) => None,
    };
    Ok(Prepared {
        record,
        effective,
        generator,
        dealt,
        server,
        found,
        agents,
        links,
        targets,
        store,
        record_all,
        trace,
        derive,
        watched_by,
        part,
    })
}

impl Prepared {
    fn sweep(mut self, observer: &mut dyn Observer, interrupt: &Interrupt) -> RunOutcome {
        let load = &self.effective.load;
        let course = match &self.part {
            Part::Round { iteration, .. } => {
                Course::Listed(rounds::steps(&self.effective, *iteration, &self.record), 0)
            }
            // The check has read the SLO before.
            Part::Whole => Course::of(&self.effective).unwrap_or(Course::Listed(Vec::new(), 0)),
        };
        let steps = course.most();
        let each = load.warmup.as_duration() + load.duration.as_duration();
        let planned = (load.duration.0 > 0).then(|| each * u32::try_from(steps).unwrap_or(u32::MAX));
        let clients = load.clients.0.iter().copied().max().unwrap_or_default();
        let paced = load.rate.is_none()
            && clients > self.effective.generator.workers.saturating_mul(webstone_engine::STARTED_AT_ONCE);
        observer.event(&Event::RunStarted {
            id: self.record.id.clone(),
            path: self.store.as_ref().map(|store| store.path().display().to_string()),
            target: Box::new(self.record.target.clone()),
            workload: self.record.workload.name.clone(),
            spec: Box::new(self.record.spec.clone()),
            steps,
            planned_ns: planned.map(|time| time.as_nanos() as u64),
            paced,
            dealt: self.dealt.take(),
        });
        let server_cpus = watched_cpus(&self.record, &self.effective);
        let time = RunTime::begin(&self.record);
        let mut unstored = ();
        let (server, origin) = match (&mut self.server, &mut self.found) {
            (Some(under_test), _) => {
                (Some(&mut *under_test.server as &mut dyn MeasuredServer), &mut under_test.origin)
            }
            (None, Found { processes, origin }) => {
                (processes.as_mut().map(|processes| processes as &mut dyn MeasuredServer), origin)
            }
        };
        let mut sweep = Sweep {
            generator: &*self.generator,
            server,
            origin: origin.as_mut(),
            agents: &mut self.agents,
            links: &self.links,
            server_cpus,
            targets: &self.targets,
            sink: match &mut self.store {
                Some(store) => store,
                None => &mut unstored,
            },
            time,
            spec: &self.effective,
            course,
            only_whole: self.part != Part::Whole,
            record_all: self.record_all.take(),
            trace: self.trace.take(),
            interrupt,
            observer,
        };
        let (state, error) = sweep.run(&mut self.record);
        drop((self.server.take(), std::mem::take(&mut self.agents)));
        if let Some(pages) = self.watched_by.take().and_then(|file| watched_by(&file)) {
            self.record.environment.insert("watched_by".to_owned(), pages.into());
        }
        if self.part != Part::Whole && !rounds::is_done(&self.record) {
            return self.pause(state, error, observer);
        }
        self.record.state = state;
        if let Some(find) = self.record.spec.find.clone().filter(|_| !self.record.iterations.is_empty()) {
            // The levels of a search are those that it took.
            let loads: Vec<u64> =
                self.record.levels().iter().map(|(_, runs)| find.over.of(runs[0])).collect();
            find.fill(&mut self.record.spec.load, &loads);
        }
        self.record.finished_at = Some(clock::rfc3339(SystemTime::now()));
        self.record.took_ns = Some(time.now());
        if let Some(text) = time.clock_set() {
            observer.event(&Event::Warning { text: text.clone() });
            self.record.warnings.push(text);
        }
        let mut error = error.map(RunError::from);
        let path = self.keep(&mut error);
        if self.record.is_empty() && state == RunState::Interrupted {
            error.get_or_insert(RunError::Interrupted);
        }
        observer.event(&finished(state, path.as_deref()));
        RunOutcome { record: Some(self.record), path, error }
    }

    /// Leaves a record that can be resumed.
    fn pause(
        mut self,
        state: RunState,
        error: Option<SweepError>,
        observer: &mut dyn Observer,
    ) -> RunOutcome {
        let path = self.store.take().map(|store| store.path().to_owned());
        observer.event(&finished(state, path.as_deref()));
        let interrupted = (state == RunState::Interrupted).then_some(RunError::Interrupted);
        RunOutcome { record: Some(self.record), path, error: error.map(RunError::from).or(interrupted) }
    }

    /// Gives the record its final place. A record without a single window is not worth one; a void window is one.
    fn keep(&mut self, error: &mut Option<RunError>) -> Option<PathBuf> {
        let store = self.store.take()?;
        if self.record.is_empty() {
            store.discard();
            return None;
        }
        let partial = store.path().to_owned();
        let derived = self.derive.map(|derive| derive(&self.record)).unwrap_or_default();
        match store.finish(&mut self.record, &derived) {
            Ok(path) => Some(path),
            Err(failed) => {
                // The first error is the cause; that the record could not be finished either follows from it.
                error.get_or_insert(failed.into());
                Some(partial)
            }
        }
    }
}

/// How many pages of a browser front watched at most, where any did.
fn watched_by(file: &Path) -> Option<u64> {
    let text = plain_file::read_text(file, Links::Refused, 64).ok()?;
    text.trim().parse().ok().filter(|pages| *pages > 0)
}

/// CPUs of this host on which server and origin run, but those of the generator's workers, who watch their own.
fn watched_cpus(record: &RunRecord, spec: &RunSpec) -> Vec<u32> {
    let workers = parse_cpu_list(&spec.generator.cpus).unwrap_or_default();
    let origin = record.target.origin.iter().flat_map(|origin| &origin.cpus);
    let all: BTreeSet<u32> = record.target.cpus.iter().chain(origin).copied().collect();
    all.into_iter().filter(|cpu| !workers.contains(cpu)).collect()
}

/// Raises what may be raised and returns what the user should know. What cannot work is an error.
pub(crate) fn foresee(load: &Load, root: &Root) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    let raised = limits::raise_descriptors(load.descriptors());
    if raised.to > raised.from {
        notes.push(format!("the limit of open files was raised from {} to {}", raised.from, raised.to));
    }
    for shortage in shortages(load, &limits::read(root)) {
        if shortage.severity == Severity::Certain {
            return Err(RunError::Shortage(shortage));
        }
        notes.push(format!("{shortage}; to be sure: {}", shortage.remedy));
    }
    Ok(notes)
}

/// Bytes of all distinct files of a workload.
fn fileset_bytes(workload: &Workload) -> u64 {
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let sizes: HashMap<&str, u64> = files.filter_map(|file| Some((&*file.url, file.size?))).collect();
    sizes.values().sum()
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

fn finished(state: RunState, path: Option<&Path>) -> Event {
    Event::Finished { state, path: path.map(|path| path.display().to_string()) }
}
