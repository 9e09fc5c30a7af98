//! A whole run: prepare it (`prepare`), sweep, keep the record.
//! What was measured is handed back whatever
//! happens afterwards: [`RunOutcome`] holds the record *and* the error.

mod decide;
mod prepare;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use webstone_model::event::Event;
use webstone_model::record::{RunRecord, RunState, Tool};
use webstone_model::spec::{RunSpec, parse_cpu_list};
use webstone_workload::Workload;

use crate::generator::{self, Compile, LoadGenerator};
use crate::observer::Observer;
use crate::order::Steps;
use crate::record_all::RecordAll;
use crate::rounds;
pub use crate::run_error::RunError;
use crate::run_time::RunTime;
use crate::speeds;
use crate::sweep::{Sweep, SweepError};
use crate::trace::TraceWriter;
use crate::under_test::{Found, UnderTest};
use crate::workload_source::{Feeds, WorkloadSourceError, load_workload};
use prepare::prepare;
use webstone_lab::agent::ServerAgents;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::measured::MeasuredServer;
use webstone_lab::priority::Raised;
use webstone_store::clock;
use webstone_store::plain_file::{self, Links};
use webstone_store::{Derived, Store};

pub(crate) use decide::decide;
pub(crate) use prepare::{RunBrief, RunSite, Served, ask, foresee, look, serve, watch_server};

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
    /// File that holds how fast this host's CPUs were in earlier runs; `None`: nothing is known, and nothing kept.
    pub speeds: Option<PathBuf>,
    /// Whether the target is asked for its files before load; that its hosts accept connections is always checked.
    pub check_target: bool,
    /// Whether it has answered such a check before: it is not asked for its files again, only for what it decides, the version of
    /// HTTP (`auto`) and redirects.
    pub checked_before: bool,
    /// Computes from a finished record what is stored beside it: figures, reports. `None`: nothing.
    pub derive: Option<fn(&RunRecord) -> Vec<Derived>>,
    /// Where traced exchanges are written, where the specification asks for some.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Which part of the run is made.
    pub part: Part,
    /// Name of the series that the run is a cell of.
    pub series: Option<String>,
    /// File in which a browser front keeps the most pages that watched at a time; `None`, or nothing there: nobody did.
    pub watched_by: Option<PathBuf>,
}

impl RunnerOptions {
    fn asks_for_files(&self) -> bool {
        self.check_target && !self.checked_before
    }
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
            speeds: None,
            check_target: true,
            checked_before: false,
            derive: None,
            trace: None,
            part: Part::Whole,
            series: None,
            watched_by: None,
        }
    }
}

/// What a run produced.
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
    load_workload(&spec.workload, Feeds::of_client(&spec.client))
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
    /// Where the speed of CPUs is kept, if the record is.
    speeds: Option<PathBuf>,
    part: Part,
    /// Given back when the run is over.
    _raised: Option<Raised>,
}

impl Prepared {
    fn sweep(mut self, observer: &mut dyn Observer, interrupt: &Interrupt) -> RunOutcome {
        let load = &self.effective.load;
        let course = match &self.part {
            Part::Round { iteration, .. } => {
                Steps::Listed(rounds::steps(&self.effective, *iteration, &self.record), 0)
            }
            // The check has read the SLO before.
            Part::Whole => Steps::of_spec(&self.effective).unwrap_or(Steps::Listed(Vec::new(), 0)),
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
            (None, Found { processes, origin, .. }) => {
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
        let set = time.clock_set();
        if let Some(text) = &set {
            observer.event(&Event::Warning { text: text.clone() });
            self.record.warnings.push(text.clone());
        }
        if self.part != Part::Whole && !rounds::is_done(&self.record) {
            return self.pause(state, error, set.is_some(), observer);
        }
        self.record.state = state;
        if let Some(find) = self.record.spec.find.clone().filter(|_| !self.record.iterations.is_empty()) {
            // The levels of a search are those that it took.
            let loads: Vec<u64> =
                self.record.levels().iter().map(|(_, runs)| find.over.load(runs[0])).collect();
            find.fill(&mut self.record.spec.load, &loads);
        }
        self.record.finished_at = Some(clock::rfc3339(SystemTime::now()));
        self.record.took_ns = Some(time.now());
        speeds::remember(self.speeds.as_deref(), &self.record);
        let mut error = error.map(RunError::from);
        let path = self.keep(&mut error);
        if self.record.is_empty() && state == RunState::Interrupted {
            error.get_or_insert(RunError::Interrupted);
        }
        observer.event(&finished(state, path.as_deref()));
        RunOutcome { record: Some(self.record), path, error }
    }

    /// Leaves a record that can be resumed, written again if it has a new warning.
    fn pause(
        mut self,
        state: RunState,
        error: Option<SweepError>,
        is_changed: bool,
        observer: &mut dyn Observer,
    ) -> RunOutcome {
        let store = self.store.take();
        let written = store.iter().filter(|_| is_changed).try_for_each(|store| store.rewrite(&self.record));
        let path = store.map(|store| store.path().to_owned());
        observer.event(&finished(state, path.as_deref()));
        let interrupted = (state == RunState::Interrupted).then_some(RunError::Interrupted);
        let error = error.map(RunError::from).or_else(|| written.err().map(RunError::from)).or(interrupted);
        RunOutcome { record: Some(self.record), path, error }
    }

    /// Gives the record its final place. A record without a single window is discarded; a void window is one.
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
                // The first error is the cause; that the record could not be finished is a consequence.
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

/// CPUs of this host on which server and origin run, without those of the generator's workers, which watch their own.
fn watched_cpus(record: &RunRecord, spec: &RunSpec) -> Vec<u32> {
    let workers = parse_cpu_list(&spec.generator.cpus).unwrap_or_default();
    let origin = record.target.origin.iter().flat_map(|origin| &origin.cpus);
    let all: BTreeSet<u32> = record.target.cpus.iter().chain(origin).copied().collect();
    all.into_iter().filter(|cpu| !workers.contains(cpu)).collect()
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

fn finished(state: RunState, path: Option<&Path>) -> Event {
    Event::Finished { state, path: path.map(|path| path.display().to_string()) }
}
