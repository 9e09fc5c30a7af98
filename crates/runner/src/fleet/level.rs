//! One level of a fleet: plays its course with real agents, shows where it stands meanwhile, and gathers what they measured.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tracing::{info, warn};
use webstone_engine::{Control, LevelOutcome, Seats};
use webstone_judge::plausible;
use webstone_lab::agent::Heard;
use webstone_lab::agent::load::{Arm, Ended, LoadAnswer, LoadAsk};
use webstone_lab::interrupt::Interrupt;
use webstone_measure::metrics::Measured;
use webstone_measure::rate::RateProfile;
use webstone_model::event::{Live, LiveHost, Phase};
use webstone_model::generators::{ClockOffset, GeneratorLoss};

use super::FleetError;
use super::clock::{there, went_on};
use super::course::{LevelCourse, Stage, Tell};
use super::deal::{Share, deal, in_own_slots};
use super::live::Lives;
use super::member::{AgentStream, Members, lock};
use super::merge::{HostResult, merge};
use super::slices::SlicesOfHosts;
use crate::generator::{Level, LevelError, Made, Outputs};
use crate::slice_watch::SliceReport;
use crate::slicing::SlicedLevel;

/// How often the course is checked if no message comes. Messages are handled at once; this is soon enough for hosts that fall silent, and
/// for an interruption.
const TICK: Duration = Duration::from_millis(100);

/// One level, before, while and after it runs.
pub(super) struct FleetLevel {
    members: Arc<Mutex<Members>>,
    clients: u32,
    rate: Option<RateProfile>,
    iteration: u32,
    slice_ns: u64,
    board: Board,
}

/// What other threads may see of a running level, and ask of it.
#[derive(Default)]
struct Board {
    wants_end: AtomicBool,
    wants_abort: AtomicBool,
    is_over: AtomicBool,
    /// Raised with `wants_end`: ends the waiting for a host before the level begins.
    interrupt: Interrupt,
    /// Instants on the controller's clock; 0: not known yet.
    go_ns: AtomicU64,
    open_ns: AtomicU64,
    close_ns: AtomicU64,
    /// What each host last said.
    lives: Mutex<Lives>,
    slices: SlicesOfHosts,
    /// The stream of each host, which knows when it was last heard.
    links: Mutex<Vec<Arc<AgentStream>>>,
}

impl FleetLevel {
    pub(super) fn new(
        members: Arc<Mutex<Members>>,
        clients: u32,
        rate: Option<RateProfile>,
        outputs: &Outputs,
    ) -> FleetLevel {
        let Outputs { iteration, slice_ns, .. } = *outputs;
        FleetLevel { members, clients, rate, iteration, slice_ns, board: Board::default() }
    }

    fn made(&self, members: &mut Members) -> Result<Made, LevelError> {
        let interrupt = &self.board.interrupt;
        for place in 0..members.hosts.len() {
            if members.hosts[place].is_lost {
                match members.revive(place, interrupt) {
                    Err(FleetError::Interrupted) => return Ok(Made::nothing()),
                    revived => revived?,
                }
            }
        }
        let before_ns = Control::now_ns();
        let clocks = members.clocks(interrupt);
        if interrupt.count() > 0 {
            return Ok(Made::nothing());
        }
        if let Some(place) = clocks.iter().position(Option::is_none) {
            members.hosts[place].is_lost = true;
            return Ok(Made::lost(place, "did not answer before the level".to_owned()));
        }
        let clocks: Vec<ClockOffset> = clocks.into_iter().flatten().collect();
        let mut playing = Playing::begin(self, members, &clocks);
        playing.play();
        let Playing { course, results, interrupted, .. } = playing;
        let mut lost = course.lost().cloned();
        if let Some((place, _)) = &lost {
            members.hosts[*place].is_lost = true;
        }
        // Clocks of the hosts that still answer; one that does not is found at the next level, or has been.
        let after = members.clocks(&Interrupt::default());
        let elapsed_ns = Control::now_ns().saturating_sub(before_ns);
        for (place, (before, after)) in clocks.iter().zip(&after).enumerate() {
            let is_sound = after.is_none_or(|after| went_on(*before, after, elapsed_ns));
            if !is_sound && lost.is_none() {
                lost = Some((place, "set its clock during the level".to_owned()));
            }
        }
        let left_out = |result: &Option<(Ended, Measured)>| Some(result.as_ref()?.1.left_out.slices);
        let first = results.iter().find_map(left_out);
        let other = results.iter().position(|result| left_out(result).is_some_and(|it| Some(it) != first));
        if let Some(place) = other.filter(|_| lost.is_none() && !interrupted) {
            lost = Some((place, "left out other slices than the others".to_owned()));
        }
        let results = results.into_iter().enumerate().filter_map(|(generator, result)| {
            let (ended, measured) = result?;
            Some(HostResult { generator, ended, measured, clock: clocks[generator] })
        });
        let open_ns = course.open_ns();
        let (measured, parts) = merge(results.collect(), open_ns, members.hosts.len());
        let opened_at = open_ns.map_or_else(SystemTime::now, |open_ns| {
            SystemTime::now() - Duration::from_nanos(Control::now_ns().saturating_sub(open_ns))
        });
        let closed_ns = open_ns.map(|open_ns| open_ns + measured.span_ns());
        let interrupted = interrupted && lost.is_none();
        // A host that is lost before the agreed instant leaves a window that never opened.
        let opened_ns = open_ns.filter(|_| measured.window_ns > 0);
        let outcome = LevelOutcome { measured, sliced: None, opened_at, opened_ns, closed_ns, interrupted };
        let lost = lost.map(|(generator, why)| GeneratorLoss { generator: generator as u32, why });
        Ok(Made { outcome, parts, lost })
    }
}

impl Made {
    /// Nothing was made, because a host was lost before anything could be.
    fn lost(place: usize, why: String) -> Made {
        let mut made = Made::nothing();
        made.outcome.interrupted = false;
        made.lost = Some(GeneratorLoss { generator: place as u32, why });
        made
    }

    /// The user interrupted before anything could be measured.
    fn nothing() -> Made {
        let outcome = LevelOutcome {
            measured: Measured::default(),
            sliced: None,
            opened_at: SystemTime::now(),
            opened_ns: None,
            closed_ns: None,
            interrupted: true,
        };
        Made { outcome, parts: Vec::new(), lost: None }
    }
}

/// A level that is being played.
struct Playing<'a> {
    level: &'a FleetLevel,
    members: &'a mut Members,
    clocks: &'a [ClockOffset],
    number: u64,
    course: LevelCourse,
    /// Clients of each host, by their numbers.
    clients: Vec<Range<u32>>,
    results: Vec<Option<(Ended, Measured)>>,
    interrupted: bool,
}

impl<'a> Playing<'a> {
    fn begin(level: &'a FleetLevel, members: &'a mut Members, clocks: &'a [ClockOffset]) -> Playing<'a> {
        // A new number: answers to earlier levels are ignored.
        members.number = members.number.max(2) + 1;
        let number = members.number;
        let hosts: Vec<(u32, u32)> =
            members.hosts.iter().map(|host| (host.record.workers, host.record.slots)).collect();
        let groups = level.clients.div_ceil(members.clients_per_connection);
        let (shares, of) = match members.is_dealt_by_clients {
            true => in_own_slots(&hosts, level.clients, members.clients_per_connection),
            false => deal(&hosts, groups),
        };
        for (host, share) in members.hosts.iter().zip(&shares).filter(|(_, share)| share.workers > 0) {
            let Share { first, each, workers } = *share;
            let arm = Arm {
                clients: level.clients,
                rate: level.rate,
                first,
                each,
                workers,
                of,
                iteration: level.iteration,
                slice_ns: level.slice_ns,
            };
            host.tell(number, LoadAsk::Arm(arm), &[]);
        }
        let has_part: Vec<bool> = shares.iter().map(|share| share.workers > 0).collect();
        level.board.slices.begin(shares.iter().map(|share| share.workers));
        let course = LevelCourse::new(&has_part, members.times, Control::now_ns());
        let results = has_part.iter().map(|_| None).collect();
        let clients = |share: &Share| {
            let Share { first, each, workers } = *share;
            Seats { first, each, workers, of }.clients(level.clients, members.clients_per_connection)
        };
        let clients: Vec<Range<u32>> = shares.iter().map(clients).collect();
        let names = members.hosts.iter().map(|host| host.record.name.clone());
        let rows = names.zip(&clients).zip(clocks);
        lock(&level.board.lives)
            .begin(rows.map(|((name, clients), clock)| (name, clients.len() as u32, *clock)));
        *lock(&level.board.links) = members.hosts.iter().map(|host| Arc::clone(&host.link)).collect();
        Playing { level, members, clocks, number, course, clients, results, interrupted: false }
    }

    fn play(&mut self) {
        while self.course.stage() != Stage::Done {
            match self.members.bell.recv_timeout(TICK) {
                Ok(place) => self.read(place),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let now_ns = Control::now_ns();
            for (place, host) in self.members.hosts.iter().enumerate() {
                self.course.heard(place, host.link.heard_ns());
            }
            let mut tell = self.course.tick(now_ns);
            let board = &self.level.board;
            if board.wants_abort.load(Ordering::Relaxed) {
                self.interrupted = true;
                tell.extend(self.course.abort(now_ns));
            } else if board.wants_end.load(Ordering::Relaxed) && !self.interrupted {
                self.interrupted = true;
                // Before the window opens there is nothing that could be kept.
                tell.extend(match self.course.open_ns() {
                    Some(_) => self.course.end(now_ns),
                    None => self.course.abort(now_ns),
                });
                board.close_ns.fetch_min(now_ns, Ordering::Relaxed);
            }
            self.tell(tell);
            for ask in self.level.board.slices.asks() {
                self.to_makers(&ask);
            }
        }
        self.level.board.is_over.store(true, Ordering::Relaxed);
    }

    /// Reads what one host has said.
    fn read(&mut self, place: usize) {
        while let Ok(heard) = self.members.hosts[place].inbox.try_recv() {
            let now_ns = Control::now_ns();
            let tell = match heard {
                Heard::Said { number, answer, payload } if number == self.number => {
                    self.said(place, &answer, payload, now_ns)
                }
                Heard::Broken(gone) => {
                    let how = self.members.hosts[place].link.with_agent(|agent| agent.lost(&gone));
                    self.members.hosts[place].is_lost = true;
                    let how = how.unwrap_or_else(|| "ended".to_owned());
                    warn!(generator = place + 1, how, "a generator is lost");
                    self.course.lose(place, how, now_ns)
                }
                // Of an earlier level.
                _ => Vec::new(),
            };
            self.tell(tell);
        }
    }

    fn said(
        &mut self,
        place: usize,
        answer: &LoadAnswer,
        payload: Vec<u8>,
        now_ns: u64,
    ) -> Vec<(usize, Tell)> {
        match answer {
            LoadAnswer::Beat(beat) => lock(&self.level.board.lives).said(place, beat),
            LoadAnswer::Slice(slice) => {
                if let Err(why) = self.level.board.slices.said(place, slice) {
                    return self.course.lose(place, format!("sent a slice that cannot be: {why}"), now_ns);
                }
            }
            LoadAnswer::Ended(ended) => match self.read_result(place, ended, payload) {
                Ok(measured) => self.results[place] = Some(((**ended).clone(), measured)),
                Err(why) => {
                    return self.course.lose(place, format!("sent a result that cannot be: {why}"), now_ns);
                }
            },
            _ => {}
        }
        self.course.said(place, answer, now_ns)
    }

    /// What a host measured, if it can be what it was asked for.
    fn read_result(&self, place: usize, ended: &Ended, payload: Vec<u8>) -> Result<Measured, String> {
        let bytes = ended.measured.check("a result", payload).map_err(|error| error.to_string())?;
        let measured = Measured::from_wire(&bytes).map_err(|error| error.to_string())?;
        let clients = &self.clients[place];
        // A level that was given up before its window opened has measured no clients.
        let is_of_them = ended.first_client == clients.start && measured.clients.len() == clients.len();
        if ended.opened_ns > 0 && !is_of_them {
            return Err(format!("it is of other clients than {} to {}", clients.start, clients.end));
        }
        plausible::of_host(&ended.host)?;
        Ok(measured)
    }

    /// Tells every host that makes load.
    fn to_makers(&self, ask: &LoadAsk) {
        for place in self.level.board.slices.makers() {
            self.members.hosts[place].tell(self.number, ask.clone(), &[]);
        }
    }

    fn tell(&self, tell: Vec<(usize, Tell)>) {
        let board = &self.level.board;
        for (place, what) in tell {
            let clock = self.clocks[place];
            let ask = match what {
                Tell::Go(at_ns) => LoadAsk::Go(there(clock, at_ns)),
                Tell::Open(at_ns) => LoadAsk::Open(there(clock, at_ns)),
                Tell::End => LoadAsk::End,
                Tell::Abort => LoadAsk::Abort,
            };
            let is_over = matches!(ask, LoadAsk::End | LoadAsk::Abort);
            self.members.hosts[place].tell(self.number, ask, &[]);
            // A level that was ended early needs no judgement of its slices.
            if is_over && self.level.slice_ns > 0 {
                self.members.hosts[place].tell(self.number, LoadAsk::Settle(true), &[]);
            }
        }
        for (place, at_ns) in [(&board.go_ns, self.course.go_ns()), (&board.open_ns, self.course.open_ns())] {
            if let Some(at_ns) = at_ns {
                place.store(at_ns, Ordering::Relaxed);
            }
        }
        if board.close_ns.load(Ordering::Relaxed) == 0
            && let Some(at_ns) = self.course.close_ns()
        {
            info!(open_ns = self.course.open_ns(), "the window is agreed on");
            board.close_ns.store(at_ns, Ordering::Relaxed);
        }
    }
}

impl Level for FleetLevel {
    fn run(&self) -> Result<Made, LevelError> {
        let made = self.made(&mut lock(&self.members));
        self.board.is_over.store(true, Ordering::Relaxed);
        lock(&self.board.links).clear();
        made
    }

    fn end_window(&self) {
        self.board.wants_end.store(true, Ordering::Relaxed);
        self.board.interrupt.raise();
    }

    fn abort(&self) {
        self.board.wants_abort.store(true, Ordering::Relaxed);
        self.board.interrupt.raise();
    }

    fn phase(&self) -> Phase {
        let (board, now_ns) = (&self.board, Control::now_ns());
        let has_come = |instant: &AtomicU64| {
            let at_ns = instant.load(Ordering::Relaxed);
            at_ns > 0 && now_ns >= at_ns
        };
        if board.is_over.load(Ordering::Relaxed) {
            Phase::Done
        } else if has_come(&board.close_ns) {
            Phase::Draining
        } else if has_come(&board.open_ns) {
            Phase::Measuring
        } else if has_come(&board.go_ns) {
            Phase::WarmUp
        } else {
            Phase::Starting
        }
    }

    fn live(&self) -> Live {
        let open_ns = self.board.open_ns.load(Ordering::Relaxed);
        let close_ns = self.board.close_ns.load(Ordering::Relaxed);
        if open_ns == 0 {
            return Live::default();
        }
        let mut sum = lock(&self.board.lives).sum(Control::now_ns());
        sum.elapsed_ns = sum.elapsed_ns.min(close_ns.saturating_sub(open_ns));
        sum
    }

    fn slices(&self) -> Option<&dyn SlicedLevel> {
        (self.slice_ns > 0).then_some(self as &dyn SlicedLevel)
    }

    fn hosts(&self) -> Vec<LiveHost> {
        let heard_ns: Vec<u64> = lock(&self.board.links).iter().map(|link| link.heard_ns()).collect();
        lock(&self.board.lives).rows(&heard_ns, Control::now_ns())
    }

    fn opens_in(&self) -> Option<Duration> {
        let open_ns = self.board.open_ns.load(Ordering::Relaxed);
        (open_ns > 0).then(|| Duration::from_nanos(open_ns.saturating_sub(Control::now_ns())))
    }
}

/// No window of several hosts is extended: some might learn of it too late.
impl SlicedLevel for FleetLevel {
    fn window_ns(&self) -> Option<(u64, u64)> {
        let [open_ns, close_ns] =
            [&self.board.open_ns, &self.board.close_ns].map(|at| at.load(Ordering::Relaxed));
        (open_ns > 0 && close_ns > 0).then_some((open_ns, close_ns))
    }

    fn reporters(&self) -> usize {
        self.board.slices.makers().len()
    }

    fn reports(&self) -> Vec<SliceReport> {
        self.board.slices.reports()
    }

    fn judge(&self, keep: bool) {
        self.board.slices.ask(LoadAsk::Judge(keep));
    }

    fn extend(&self) -> bool {
        false
    }

    fn settle(&self, all: bool) {
        self.board.slices.ask(LoadAsk::Settle(all));
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}
