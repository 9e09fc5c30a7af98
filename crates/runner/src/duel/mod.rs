//! A duel: contestants are started together, get the same load in turns, are stopped and started again, until it is known how they differ.
//!
//! `contestants` says what words stand for, `revisions` builds those that are commits, `answers` compares what contestants answer before
//! any load, `sides` has one of them while it is up. Slices are made by the engine (`webstone_engine::run_duel`), conclusions are drawn by
//! `webstone_judge::duel`; `elsewhere` adds what agents saw on other hosts. The record is stored after every start, so that nothing
//! measured is lost.

mod answers;
mod contestants;
mod elsewhere;
mod revisions;
mod sides;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use webstone_engine::{DuelJob, Plan, run_duel};
use webstone_judge::duel::{self, DuelJudgement};
use webstone_lab::environment::{self, Subject};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::{Root, cpus};
use webstone_lab::priority::Raised;
use webstone_lab::slice_meter::SliceMeter;
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{Contestant, DUEL_SCHEMA, DuelRecord, DuelSpec, DuelStart, SideRun};
use webstone_model::event::Event;
use webstone_model::record::{RunState, STAYS_AWAKE, Tool};
use webstone_model::spec::RunSpec;
use webstone_store::duel::DuelStore;
use webstone_store::{Derived, clock, redaction};
use webstone_workload::Workload;

use crate::observer::Observer;
use crate::run::{RunBrief, RunError, RunSite, look};

use contestants::ROUND_TRIPS_PER_SLICE;
pub use contestants::{AskedContestant, Build, asked, watch};
use elsewhere::Elsewhere;
use sides::Up;

/// A contestant has the load for at least this many mean response times before the next has its turn.
const RESPONSES_PER_SLICE: u64 = 10;
/// Longest slice.
const SLICE_NS_MAX: u64 = 1_000_000_000;
/// Warm-up of each contestant after a start: they take turns, and nothing counts yet.
const WARMUP_EACH: Duration = Duration::from_millis(120);
/// How long each contestant is tried to find the length of slices.
const TRIAL_EACH: Duration = Duration::from_millis(100);
/// Over a path, how long contestants may take to drain, beyond two round trips: TCP waits a second before it repeats a lost SYN, and
/// then two.
const PATH_DRAIN: Nanos = Nanos::from_secs(3);
/// Over a path, each contestant has at least this many slices between two starts.
const ROUNDS_PER_START: u64 = 5;
/// The least time under load that is worth starting the contestants.
const START_MIN: Duration = Duration::from_millis(700);

/// How to hold a duel.
#[derive(Clone, Debug)]
pub struct DuelOptions {
    /// The program, as the record names it.
    pub tool: Tool,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// Load, clients, workload; its server and target are those of each contestant.
    pub spec: RunSpec,
    /// How it is held.
    pub duel: DuelSpec,
    /// Whether the length of slices may follow the response times.
    pub fits_slices: bool,
    /// Whether the time between starts may follow the length of slices.
    pub fits_starts: bool,
    /// The workload, if it is not the one that the specification names.
    pub workload: Option<Workload>,
    /// At least two, the first is what others are compared with.
    pub contestants: Vec<AskedContestant>,
    /// Directory of records; `None`: nothing is stored.
    pub runs_dir: Option<PathBuf>,
    /// Whether contestants are asked for all files of the workload beforehand.
    pub check_target: bool,
    /// Computes from a finished record what is stored beside it. `None`: nothing.
    pub derive: Option<fn(&DuelRecord) -> Vec<Derived>>,
}

/// What a duel tells while it lasts.
#[derive(Debug)]
pub enum DuelNews<'a> {
    /// What it does before the load.
    Preparing(&'a str),
    /// What the user should know.
    Warning(&'a str),
    /// Contestants answer differently, or alike: said before any load.
    Answers(&'a DuelRecord),
    /// A slice is over: of the current start, so far.
    Slices(&'a DuelRecord, &'a [Slice]),
    /// A start is over.
    Start(&'a DuelRecord, &'a DuelJudgement),
}

/// What became of it.
#[derive(Debug)]
pub struct DuelOutcome {
    /// Everything measured.
    pub record: DuelRecord,
    /// Where it is stored.
    pub path: Option<PathBuf>,
    /// Why it did not end as planned.
    pub error: Option<RunError>,
}

/// Passes on what the parts of a run say they are doing or waiting for, and no other event.
struct Relay<'a, 'b>(&'a mut (dyn FnMut(DuelNews<'_>) + 'b));

impl Observer for Relay<'_, '_> {
    fn event(&mut self, event: &Event) {
        if let Event::Preparing { what } | Event::Waiting { what } = event {
            (self.0)(DuelNews::Preparing(what));
        }
    }
}

/// Holds a duel to its end. Blocks; `told` is called on this thread, and hears no secrets of commands.
///
/// # Errors
/// If nothing could be measured. What fails later is in the outcome, beside what was measured by then.
pub fn hold(
    options: &DuelOptions,
    told: &mut dyn FnMut(DuelNews<'_>),
    interrupt: &Arc<Interrupt>,
) -> Result<DuelOutcome, RunError> {
    let mut told = |news: DuelNews<'_>| match news {
        DuelNews::Preparing(what) => told(DuelNews::Preparing(&redaction::text(what).text)),
        DuelNews::Warning(what) => told(DuelNews::Warning(&redaction::text(what).text)),
        news => told(news),
    };
    held(options, &mut told, interrupt)
}

fn held(
    options: &DuelOptions,
    told: &mut dyn FnMut(DuelNews<'_>),
    interrupt: &Arc<Interrupt>,
) -> Result<DuelOutcome, RunError> {
    let began = Instant::now();
    let started = SystemTime::now();
    let sides = contestants::ready(options, told, interrupt)?;
    let duel = over_path(options, &sides)?;
    let mut briefs = Vec::new();
    for side in &sides {
        briefs.push(RunBrief::read(side.spec.clone(), options.workload.clone())?);
    }
    told(DuelNews::Preparing("looking at this machine and the contestants"));
    let mut sites = Vec::new();
    for brief in &mut briefs {
        sites.push(look(brief)?);
        go_on(interrupt)?;
    }
    alike(&sides, &sites)?;
    let raised = raise(options, &briefs, &sites);
    let mut record = begun(options, duel, &sides, &briefs, &sites, started);
    if let Some(raised) = &raised {
        record.environment.insert("priority.nice".to_owned(), raised.nice().into());
    }
    for warning in briefs.iter().flat_map(|brief| &brief.warnings) {
        if !record.warnings.contains(warning) {
            told(DuelNews::Warning(warning));
            record.warnings.push(redaction::text(warning).text);
        }
    }
    let mut store = match &options.runs_dir {
        Some(runs) => Some(DuelStore::create(runs, started, &mut record, options.derive)?),
        None => None,
    };
    let stays_awake = has_cpus_of_its_own(&sites);
    record.environment.insert(STAYS_AWAKE.to_owned(), stays_awake.into());
    let elsewhere = Vec::new();
    let mut lab =
        Lab { options, briefs: &mut briefs, sites: &mut sites, stays_awake, elsewhere, began, interrupt };
    let error = lab.starts(&mut record, store.as_mut(), told).err();
    // What was measured before an interruption is the result.
    let mut error = error.filter(|error| !matches!(error, RunError::Interrupted) || record.starts.is_empty());
    record.took_ns = began.elapsed().as_nanos() as u64;
    record.state = match &error {
        None if interrupt.count() > 0 => RunState::Interrupted,
        None => RunState::Complete,
        Some(_) => RunState::Failed,
    };
    if record.starts.is_empty() {
        if let Some(store) = store {
            store.discard();
        }
        return Err(error.unwrap_or(RunError::Interrupted));
    }
    let path = store.map(|store| {
        let partial = store.path().to_owned();
        store.finish(&record).unwrap_or_else(|failed| {
            // The first error is the cause; that the record could not be finished is a consequence.
            error.get_or_insert(failed.into());
            partial
        })
    });
    Ok(DuelOutcome { record, path, error })
}

fn go_on(interrupt: &Interrupt) -> Result<(), RunError> {
    if interrupt.count() > 0 { Err(RunError::Interrupted) } else { Ok(()) }
}

/// All contestants are asked in one version of HTTP, or it makes the difference.
fn one_version(record: &mut DuelRecord, up: &[Up]) -> Result<(), RunError> {
    let http = up[0].http();
    if let Some(other) = up.iter().position(|side| side.http() != http) {
        let why = |side: usize| {
            let contestant = &record.contestants[side];
            format!("{}: {}", contestant.name, contestant.http.as_deref().unwrap_or(up[side].http().name()))
        };
        return Err(RunError::Refused {
            what: format!("client.http: `auto` is not the same for all: {}; {}", why(0), why(other)),
            hint: "name the version with client.http".to_owned(),
        });
    }
    record.spec.client.http = http;
    Ok(())
}

/// All contestants must get the same CPUs, or what differs is the machine.
fn alike(sides: &[contestants::Ready], sites: &[RunSite]) -> Result<(), RunError> {
    let first = &sites[0].placement;
    for (side, site) in sides.iter().zip(sites).skip(1) {
        let (own, others) = (&site.placement, first);
        let is_ours = side.spec.target.is_empty() && sides[0].spec.target.is_empty();
        if is_ours && own.server != others.server {
            return Err(RunError::Refused {
                what: format!(
                    "{} would run on other CPUs than {}: the machine would make the difference",
                    side.contestant.name, sides[0].contestant.name
                ),
                hint: "leave CPUs to webstone, or give --server-cpus, which holds for all contestants"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// Whether the load generator may use its CPUs all the time: no contestant on this host needs them, nor the CPU time of a quota.
fn has_cpus_of_its_own(sites: &[RunSite]) -> bool {
    sites.iter().all(|site| site.placement.is_apart()) && cpus(&Root::default()).quota.is_none()
}

/// Load generator and contestants come before other programs, if all of them are ours.
fn raise(options: &DuelOptions, briefs: &[RunBrief], sites: &[RunSite]) -> Option<Raised> {
    let is_fair = briefs.iter().zip(sites).all(|(brief, site)| brief.is_ours() || !site.facts.this_host);
    (is_fair && options.spec.generator.priority).then(Raised::by_thread).flatten()
}

/// How the duel is held, which over a path follows its round-trip time.
fn over_path(options: &DuelOptions, sides: &[contestants::Ready]) -> Result<DuelSpec, RunError> {
    let mut duel = options.duel.clone();
    let Some(rtt) = contestants::round_trip(sides)? else { return Ok(duel) };
    let least = Nanos(rtt.0 * ROUND_TRIPS_PER_SLICE);
    if !options.fits_slices && duel.slice < least {
        return Err(RunError::Refused {
            what: format!(
                "--slice {}: over a path of {rtt} RTT it is at least {least}, {ROUND_TRIPS_PER_SLICE} round trips: in less, a contestant \
                 has hardly begun when its turn is over",
                duel.slice
            ),
            hint: "leave it out: slices are then long enough".to_owned(),
        });
    }
    duel.slice = duel.slice.max(least);
    duel.drain = duel.drain.max(Nanos(PATH_DRAIN.0 + 2 * rtt.0));
    if options.fits_starts {
        let rounds = Nanos(duel.slice.0 * sides.len() as u64 * ROUNDS_PER_START);
        duel.restart_every = duel.restart_every.max(rounds);
    }
    Ok(duel)
}

/// The record before anything is measured.
fn begun(
    options: &DuelOptions,
    duel: DuelSpec,
    sides: &[contestants::Ready],
    briefs: &[RunBrief],
    sites: &[RunSite],
    started: SystemTime,
) -> DuelRecord {
    let first = &briefs[0];
    let subject = Subject {
        tool: &options.tool,
        target_is_this_host: sites[0].facts.this_host,
        addresses: &sites[0].facts.addresses,
        configuration: Vec::new(),
        server: Vec::new(),
        server_hosts: Vec::new(),
    };
    let mut workload = first.workload.clone();
    redaction::workload(&mut workload);
    let mut spec = redaction::spec(&options.spec);
    spec.load.clients = first.spec.load.clients.clone();
    DuelRecord {
        schema: DUEL_SCHEMA,
        tool: options.tool.clone(),
        started_at: clock::rfc3339(started),
        command_line: redaction::command_line(&options.command_line),
        spec,
        duel,
        workload,
        contestants: sides
            .iter()
            .zip(sites)
            .map(|(side, site)| Contestant { cpus: site.placement.server.clone(), ..side.contestant.clone() })
            .collect(),
        environment: environment::gather(&Root::default(), subject),
        ..DuelRecord::default()
    }
}

/// Everything that lasts through all starts.
struct Lab<'a> {
    options: &'a DuelOptions,
    briefs: &'a mut [RunBrief],
    sites: &'a mut [RunSite],
    /// Whether the load generator's threads never sleep while a contestant has the load.
    stays_awake: bool,
    /// By contestant, if any has agents: they stay through all starts.
    elsewhere: Vec<Elsewhere>,
    began: Instant,
    interrupt: &'a Arc<Interrupt>,
}

impl Lab<'_> {
    fn starts(
        &mut self,
        record: &mut DuelRecord,
        mut store: Option<&mut DuelStore>,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<(), RunError> {
        let at_most = record.duel.at_most.as_duration();
        let looks = duel::looks(record);
        let mut length_of_start = Duration::ZERO;
        loop {
            let began = Instant::now();
            let left = at_most.saturating_sub(self.began.elapsed());
            let is_first = record.starts.is_empty();
            if self.interrupt.count() > 0
                || !is_first && left < START_MIN + length_of_start
                || record.starts.len() >= duel::STARTS_MAX as usize
            {
                return Ok(());
            }
            let mut up = self.start_all(record, told)?;
            if is_first {
                self.greet(record, &up, told)?;
                self.watch_elsewhere(record, told)?;
            }
            let left = at_most.saturating_sub(self.began.elapsed()).max(START_MIN);
            let start = self.one_start(record, &mut up, left, told)?;
            drop(up);
            let is_whole = !start.slices.is_empty();
            if is_whole {
                record.starts.push(start);
                if let Some(store) = &mut store {
                    store.append(record)?;
                }
            }
            // A contestant without a single answer gets none in more starts either.
            let is_dead = record
                .starts
                .last()
                .is_some_and(|start| start.sides.iter().any(|it| it.counts.succeeded == 0));
            length_of_start = began.elapsed().saturating_sub(record.duel.restart_every.as_duration());
            let judgement = duel::of(record);
            told(DuelNews::Start(record, &judgement));
            if is_dead || judgement.is_done() && looks.is_look(record.starts.len()) {
                return Ok(());
            }
        }
    }

    /// Starts every contestant, each time beginning with another one.
    fn start_all(
        &mut self,
        record: &mut DuelRecord,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<Vec<Up>, RunError> {
        let count = self.briefs.len();
        let number = record.starts.len();
        let mut up: Vec<Option<Up>> = (0..count).map(|_| None).collect();
        for turn in 0..count {
            let side = (turn + number) % count;
            let name = &record.contestants[side].name;
            let named = |error: RunError| sides::named(name, error);
            let start = (number, number == 0 && self.options.check_target);
            let mut relay = Relay(told);
            let started =
                Up::start(&mut self.briefs[side], &mut self.sites[side], start, &mut relay, self.interrupt);
            go_on(self.interrupt)?;
            up[side] = Some(started.map_err(named)?);
        }
        let up: Vec<Up> = up.into_iter().flatten().collect();
        if number == 0 {
            for (contestant, up) in record.contestants.iter_mut().zip(&up) {
                up.describe(contestant);
            }
            one_version(record, &up)?;
        }
        Ok(up)
    }

    /// What is done once, before anything is measured: answers are compared, and the length of slices is found.
    fn greet(
        &self,
        record: &mut DuelRecord,
        up: &[Up],
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<(), RunError> {
        told(DuelNews::Preparing("comparing what the contestants answer"));
        record.differences = answers::compare(up, &self.briefs[0].workload, record.twin());
        if self.options.fits_slices {
            record.duel.slice = self.fitting_slice(record, up)?;
        }
        told(DuelNews::Answers(record));
        Ok(())
    }

    /// Starts the agents, if contestants have any.
    fn watch_elsewhere(
        &mut self,
        record: &mut DuelRecord,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<(), RunError> {
        if self.briefs.iter().all(|brief| brief.spec.server.agents.is_empty()) {
            return Ok(());
        }
        for (side, contestant) in record.contestants.iter_mut().enumerate() {
            let version = &self.options.tool.version;
            let mut relay = Relay(told);
            let (agents, warnings) = Elsewhere::start(
                &self.briefs[side],
                &self.sites[side],
                contestant,
                version,
                &mut relay,
                self.interrupt,
            )
            .map_err(|error| sides::named(&contestant.name, error))?;
            self.elsewhere.push(agents);
            for warning in warnings {
                told(DuelNews::Warning(&warning));
                record.warnings.push(redaction::text(&warning).text);
            }
        }
        Ok(())
    }

    /// Runs the warm-up, and then has agents read, so that they see all requests of the start that count.
    fn open_elsewhere(&mut self, job: DuelJob) -> Result<DuelJob, RunError> {
        let warmup = DuelJob { warmup: Duration::ZERO, duration: job.warmup, ..job.clone() };
        let sides = job.sides.len();
        let mut meter = SliceMeter::new((0..sides).map(|_| None));
        run_duel(&warmup, &mut meter, &AtomicBool::new(false), &mut |_| {}).map_err(engine_failed)?;
        let readings = self.elsewhere.iter_mut().map(|agents| agents.open(self.interrupt));
        std::thread::sleep(readings.max().unwrap_or_default());
        Ok(DuelJob { warmup: Duration::ZERO, ..job })
    }

    /// A slice that is long enough for the slowest contestant.
    fn fitting_slice(&self, record: &DuelRecord, up: &[Up]) -> Result<Nanos, RunError> {
        let job = self.job(record, up)?;
        let each = TRIAL_EACH.max(job.slice) * up.len() as u32;
        let job = DuelJob { warmup: each, duration: each, ..job };
        let mut slowest_ns = 0;
        let mut meter = SliceMeter::new(up.iter().map(|_| None));
        let mut sink = |slice: Slice| {
            let mean_ns = slice.response_ns.checked_div(slice.requests).unwrap_or(slice.took_ns);
            slowest_ns = slowest_ns.max(mean_ns);
        };
        run_duel(&job, &mut meter, &AtomicBool::new(false), &mut sink).map_err(engine_failed)?;
        let slice_ns = (slowest_ns * RESPONSES_PER_SLICE)
            .clamp(record.duel.slice.0, SLICE_NS_MAX.max(record.duel.slice.0));
        // To whole milliseconds: nobody needs more, and it reads better.
        Ok(Nanos(slice_ns.div_ceil(1_000_000) * 1_000_000))
    }

    /// The slices of one start.
    fn one_start(
        &mut self,
        record: &mut DuelRecord,
        up: &mut [Up],
        left: Duration,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<DuelStart, RunError> {
        let job = self.job(record, up)?;
        let length = job.duration.min(left);
        let mut job = DuelJob { duration: length, ..job };
        if !self.elsewhere.is_empty() {
            job = self.open_elsewhere(job)?;
        }
        up.iter().for_each(Up::reset_memory);
        let mut meter = SliceMeter::new(up.iter().map(Up::processes));
        let end = AtomicBool::new(false);
        let at_ns = self.began.elapsed().as_nanos() as u64;
        let opened = Instant::now();
        let mut slices = Vec::new();
        let measured = run_duel(&job, &mut meter, &end, &mut |slice| {
            slices.push(slice);
            told(DuelNews::Slices(record, &slices));
            if self.interrupt.count() > 0 {
                end.store(true, Ordering::SeqCst);
            }
        })
        .map_err(engine_failed)?;
        for (contestant, up) in record.contestants.iter().zip(up.iter_mut()) {
            if let Some(how) = up.exit() {
                return Err(RunError::Refused {
                    what: format!("{} ended under load: {how}", contestant.name),
                    hint:
                        "what was measured before is kept; start it by hand under the same load to see more"
                            .to_owned(),
                });
            }
        }
        let of_side = |number: usize| slices.iter().filter(move |slice| slice.side as usize == number);
        let sides = measured.into_iter().zip(up.iter()).enumerate();
        let mut sides: Vec<SideRun> =
            sides.map(|(number, (measured, up))| up.run(measured, of_side(number))).collect();
        for (number, agents) in self.elsewhere.iter_mut().enumerate() {
            let twin = record.twin().filter(|_| number == 0 && !record.contestants[0].is_started);
            let twin = twin.map(|twin| sides[twin].clone());
            if let Some(missing) =
                agents.close(&mut sides[number], twin.as_ref(), opened.elapsed(), self.interrupt)
            {
                let name = &record.contestants[number].name;
                let begin = format!("{name}: its agent saw no CPU time in a start: ");
                if !record.warnings.iter().any(|warning| warning.starts_with(&begin)) {
                    let warning = redaction::text(&format!("{begin}{missing}")).text;
                    told(DuelNews::Warning(&warning));
                    record.warnings.push(warning);
                }
            }
        }
        Ok(DuelStart { at_ns, sides, slices })
    }

    fn job(&self, record: &DuelRecord, up: &[Up]) -> Result<DuelJob, RunError> {
        let duel = &record.duel;
        let load = &self.briefs[0].effective.load;
        let start = record.starts.len();
        let plans: Result<Vec<Arc<Plan>>, _> = up.iter().map(|up| up.plan(start)).collect();
        Ok(DuelJob {
            sides: plans?,
            clients: load.clients.0.first().copied().unwrap_or(1),
            rate: load.rate.as_ref().and_then(|rates| rates.0.first().copied()),
            threads: self.briefs[0].effective.generator.workers,
            seed: self.options.spec.client.seed.wrapping_add(start as u64),
            slice: duel.slice.as_duration(),
            drain: duel.drain.as_duration(),
            stays_awake: self.stays_awake,
            warmup: WARMUP_EACH.max(duel.slice.as_duration()) * up.len() as u32,
            duration: duel.restart_every.as_duration(),
        })
    }
}

fn engine_failed(error: webstone_engine::EngineError) -> RunError {
    RunError::Refused {
        what: format!("the load generator stopped: {error}"),
        hint: "what was measured before is kept".to_owned(),
    }
}
