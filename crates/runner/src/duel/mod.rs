//! A duel: contestants are started together, get the same load in turns, are stopped and started again, until it is known how they differ.
//!
//! `contestants` says what words stand for, `revisions` builds those that are commits, `answers` compares what contestants answer before
//! any load, `starts` starts them and has the load made, `sides` has one of them while it is up. Slices are made by the engine (`webstone_engine::run_duel`), conclusions are drawn by
//! `webstone_judge::duel`; `elsewhere` adds what agents saw on other hosts. The record is stored after every start, so that nothing
//! measured is lost.

mod answers;
mod contestants;
mod elsewhere;
mod revisions;
mod sides;
mod starts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use webstone_judge::duel::DuelJudgement;
use webstone_lab::cpus::cpu_list;
use webstone_lab::environment::{self, Subject};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::{Root, cpus};
use webstone_lab::priority::{Raised, stays_normal};
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{Contestant, DUEL_SCHEMA, DuelRecord, DuelSpec};
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
use starts::Lab;

/// Over a path, how long contestants may take to drain, beyond two round trips: TCP waits a second before it repeats a lost SYN, and
/// then two.
const PATH_DRAIN: Nanos = Nanos::from_secs(3);
/// Over a path, each contestant has at least this many slices between two starts.
const ROUNDS_PER_START: u64 = 5;

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
    one_generator(&mut briefs, &mut sites);
    if let Some(twin) = sides.iter().position(|side| side.contestant.is_twin)
        && !sides[0].spec.server.agents.is_empty()
    {
        // The first's processes, which its agents see.
        sites[twin].found.processes = None;
    }
    let raised = raise(options, &briefs, &sites);
    let mut record = begun(options, duel, &sides, &briefs, &sites, started);
    if let Some(raised) = &raised {
        record.environment.insert("priority.nice".to_owned(), raised.nice().into());
    }
    for warning in briefs.iter().flat_map(|brief| &brief.warnings) {
        warn(&mut record, warning, told);
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

/// Tells the user something once, and records it.
fn warn(record: &mut DuelRecord, warning: &str, told: &mut dyn FnMut(DuelNews<'_>)) {
    let warning = redaction::text(warning).text;
    if !record.warnings.contains(&warning) {
        told(DuelNews::Warning(&warning));
        record.warnings.push(warning);
    }
}

fn go_on(interrupt: &Interrupt) -> Result<(), RunError> {
    if interrupt.count() > 0 { Err(RunError::Interrupted) } else { Ok(()) }
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

/// The load generator is one for all contestants: it keeps to the CPUs that none of them needs, nor its origin.
fn one_generator(briefs: &mut [RunBrief], sites: &mut [RunSite]) {
    let common = in_all(&sites.iter().map(|site| &*site.placement.workers_cpus).collect::<Vec<_>>());
    // On a machine of few CPUs, each contestant's placement has said what it means that they are shared.
    if common.is_empty() {
        return;
    }
    for (brief, site) in briefs.iter_mut().zip(sites) {
        if brief.spec.generator.workers == 0 {
            site.placement.workers = common.len() as u32;
        }
        site.placement.workers_cpus.clone_from(&common);
        brief.effective.generator.workers = site.placement.workers;
        brief.effective.generator.cpus = cpu_list(&common);
    }
}

/// What all of these lists have, in the order of the first.
fn in_all(lists: &[&[u32]]) -> Vec<u32> {
    let [first, others @ ..] = lists else { return Vec::new() };
    first.iter().copied().filter(|cpu| others.iter().all(|list| list.contains(cpu))).collect()
}

/// Whether the load generator may use its CPUs all the time: no contestant on this host needs them, nor the CPU time of a quota, nor, at
/// the normal priority, other programs.
fn has_cpus_of_its_own(sites: &[RunSite]) -> bool {
    let may = cpus(&Root::default()).quota.is_none() && !stays_normal();
    may && sites.iter().all(|site| site.placement.is_apart())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_keeps_to_cpus_that_no_contestant_needs() {
        // nginx alone, and nginx in front of an origin on CPUs 5 to 7.
        assert_eq!(in_all(&[&[2, 3, 4, 5, 6, 7], &[2, 3, 4]]), [2, 3, 4]);
        assert_eq!(in_all(&[&[1], &[1], &[1]]), [1]);
        assert_eq!(in_all(&[&[0], &[1]]), [0; 0]);
    }
}
