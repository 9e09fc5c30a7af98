//! All starts of the contestants: they are started together, have the load in turns, and are stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use webstone_engine::{DuelJob, Ending, Plan, run_duel};
use webstone_judge::duel;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::slice_meter::SliceMeter;
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{DuelRecord, DuelStart, SideRun};
use webstone_store::duel::DuelStore;

use super::elsewhere::{self, Elsewhere};
use super::sides::{self, Up};
use super::{DuelNews, DuelOptions, Relay, answers, go_on, warn};
use crate::run::{RunBrief, RunError, RunSite};

/// A contestant has the load for at least this many mean response times before the next has its turn.
const RESPONSES_PER_SLICE: u64 = 10;
/// Longest slice.
const SLICE_NS_MAX: u64 = 1_000_000_000;
/// Warm-up of each contestant after a start: they take turns, and nothing counts yet.
const WARMUP_EACH: Duration = Duration::from_millis(120);
/// How long each contestant is tried to find the length of slices.
const TRIAL_EACH: Duration = Duration::from_millis(100);
/// The least time under load that is worth starting the contestants.
const START_MIN: Duration = Duration::from_millis(700);

/// Everything that lasts through all starts.
pub(super) struct Lab<'a> {
    pub(super) options: &'a DuelOptions,
    pub(super) briefs: &'a mut [RunBrief],
    pub(super) sites: &'a mut [RunSite],
    /// Whether the load generator's threads never sleep while a contestant has the load.
    pub(super) stays_awake: bool,
    /// By contestant, if any has agents: they stay through all starts.
    pub(super) elsewhere: Vec<Elsewhere>,
    /// When the duel began, with checking out and building.
    pub(super) began: Instant,
    pub(super) interrupt: &'a Arc<Interrupt>,
}

impl Lab<'_> {
    pub(super) fn starts(
        &mut self,
        record: &mut DuelRecord,
        mut store: Option<&mut DuelStore>,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) -> Result<(), RunError> {
        let at_most = record.duel.at_most.as_duration();
        let looks = duel::looks(record);
        let mut length_of_start = Duration::ZERO;
        // When the first start was ready for load: what is done once before it is not of the time that the user gave.
        let mut ready: Option<Instant> = None;
        let left =
            |ready: Option<Instant>| ready.map_or(at_most, |ready| at_most.saturating_sub(ready.elapsed()));
        loop {
            let is_first = record.starts.is_empty();
            if self.interrupt.count() > 0
                || !is_first && left(ready) < START_MIN + length_of_start
                || record.starts.len() >= duel::STARTS_MAX as usize
            {
                return Ok(());
            }
            let began = Instant::now();
            let mut up = self.start_all(record, told)?;
            let starting = began.elapsed();
            if is_first {
                self.greet(record, &up, told)?;
                self.watch_elsewhere(record, told)?;
            }
            let since = *ready.get_or_insert_with(Instant::now);
            let began = Instant::now();
            let start = self.one_start(record, &mut up, left(Some(since)).max(START_MIN), told)?;
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
            let loaded = began.elapsed().saturating_sub(record.duel.restart_every.as_duration());
            length_of_start = starting + loaded;
            let judgement = duel::of_record(record);
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
            // The check finds where redirects lead, which each start has at a port of its own.
            let is_asked = number == 0 || self.briefs[side].effective.client.follow > 0;
            let start = (number, is_asked && self.options.check_target);
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
            tell_warnings(record, &up, told);
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
        go_on(self.interrupt)?;
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
        let mut told_warnings = Vec::new();
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
            told_warnings.extend(warnings);
        }
        told_warnings.iter().for_each(|warning| warn(record, warning, told));
        elsewhere::apart(&self.elsewhere, &record.contestants)
    }

    /// Runs the warm-up, and then has agents read, so that they see all requests of the start that count.
    fn open_elsewhere(&mut self, job: DuelJob) -> Result<DuelJob, RunError> {
        let warmup = DuelJob { warmup: Duration::ZERO, duration: job.warmup, ..job.clone() };
        let sides = job.sides.len();
        let mut meter = SliceMeter::new((0..sides).map(|_| None));
        run_duel(&warmup, &mut meter, &self.end(), &mut |_| {}).map_err(engine_failed)?;
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
        run_duel(&job, &mut meter, &self.end(), &mut sink).map_err(engine_failed)?;
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
        let at_ns = self.began.elapsed().as_nanos() as u64;
        let opened = Instant::now();
        let mut slices = Vec::new();
        let measured = run_duel(&job, &mut meter, &self.end(), &mut |slice| {
            slices.push(slice);
            told(DuelNews::Slices(record, &slices));
        })
        .map_err(engine_failed)?;
        if self.interrupt.count() > 1 {
            // Its last round may not be whole.
            return Ok(DuelStart::default());
        }
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
        self.close_elsewhere(record, &mut sides, opened.elapsed(), told);
        Ok(DuelStart { at_ns, sides, slices })
    }

    /// A start is over, and took `length`: adds what agents saw.
    fn close_elsewhere(
        &mut self,
        record: &mut DuelRecord,
        sides: &mut [SideRun],
        length: Duration,
        told: &mut dyn FnMut(DuelNews<'_>),
    ) {
        for (number, agents) in self.elsewhere.iter_mut().enumerate() {
            let twin = record.twin().filter(|_| number == 0 && !record.contestants[0].is_started);
            let twin = twin.map(|twin| sides[twin].clone());
            if let Some(missing) = agents.close(&mut sides[number], twin.as_ref(), length, self.interrupt) {
                let name = &record.contestants[number].name;
                let begin = format!("{name}: its agent saw no CPU time in a start: ");
                if !record.warnings.iter().any(|warning| warning.starts_with(&begin)) {
                    warn(record, &format!("{begin}{missing}"), told);
                }
            }
        }
    }

    /// Whether the user has it end: in the first place with a round, then at once.
    fn end(&self) -> impl Fn() -> Ending + Sync {
        let interrupt = Arc::clone(self.interrupt);
        move || match interrupt.count() {
            0 => Ending::InTime,
            1 => Ending::WithRound,
            _ => Ending::WithSlice,
        }
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

/// What the first start tells the user: with the name of the contestant, unless it is the same of all.
fn tell_warnings(record: &mut DuelRecord, up: &[Up], told: &mut dyn FnMut(DuelNews<'_>)) {
    let twin = record.twin();
    for (number, side) in up.iter().enumerate().filter(|(number, _)| Some(*number) != twin) {
        for warning in side.warnings() {
            match up.iter().all(|other| other.warnings().contains(warning)) {
                true => warn(record, warning, told),
                false => warn(record, &format!("{}: {warning}", record.contestants[number].name), told),
            }
        }
    }
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

fn engine_failed(error: webstone_engine::EngineError) -> RunError {
    RunError::Refused {
        what: format!("the load generator stopped: {error}"),
        hint: "what was measured before is kept".to_owned(),
    }
}
