//! The sweep: every level × iteration in its order, watched from here while the engine runs it on threads of its own.
//!
//! This thread sleeps most of the time. While a level runs it looks at the phase, the interrupt and the server some
//! times a second; only around the window's ends does it look every few milliseconds, because the server's CPU time
//! is read there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

use tracing::{info, warn};
use webstone_engine::{Echo, EngineError, LevelOutcome};
use webstone_judge::verdict::{self, Loss, LossKind, SHORT_WINDOW_NS, Worth};
use webstone_measure::identities::{self, Expectation};
use webstone_measure::keys::LevelKey;
use webstone_measure::units::Nanos;
use webstone_model::connection_identity::{ConnectionRules, of_connections};
use webstone_model::event::{Ended, Event, Phase, Position};
use webstone_model::generators::GeneratorPart;
use webstone_model::record::{IterationRecord, RunRecord, RunState, ScheduleKept, ServerUse};
use webstone_model::spec::{HttpVersion, RunSpec};
use webstone_server::Counters;

use crate::generator::{Level, LevelError, LoadGenerator, Made, Outputs, echoes, looked_for};
use crate::observer::Observer;
use crate::order::{Step, Steps};
use crate::overtime;
use crate::record_all::{RecordAll, RecordAllError};
use crate::run_time::RunTime;
use crate::slicing::{self, Kept, Slicing};
use crate::trace::TraceWriter;
use webstone_lab::agent::{OnHosts, ServerAgents, Watched as WatchedElsewhere};
use webstone_lab::host_use::LOOPBACK;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::listeners::Ports;
use webstone_lab::measured::MeasuredServer;
use webstone_lab::origin::Origin;
use webstone_lab::window::{Used, Watched, Window};
use webstone_store::clock;
use webstone_store::redaction;
use webstone_store::{Store, StoreError};

/// Between two looks at a running level.
const LOOK: Duration = Duration::from_millis(40);
/// Between two looks where the window opens or closes.
const CLOSE_LOOK: Duration = Duration::from_millis(4);
/// How long before the window opens the origin behind a proxy is asked what it has counted: about as long as asking takes.
const ASK_BEFORE: Duration = Duration::from_micros(400);
/// The same where a number of pages ends the level: its clients stand still before the window opens, and a count that is taken
/// then is exact. Less than the engine announces the opening ahead.
const ASK_BEFORE_PAGES: Duration = Duration::from_millis(20);
/// How long a probe's window is at most.
const PROBE: Duration = Duration::from_secs(1);
/// Between two ticks for the observer.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the observer's updates per host.
const HOSTS: Duration = Duration::from_secs(1);
/// Batches of transactions, and trace events, that may wait to be written.
pub(crate) const QUEUE: usize = 256;
/// Retries, and their interval, while the server's byte count differs from the client's.
const COUNTER_LOOKS: u32 = 10;
const COUNTER_PAUSE: Duration = Duration::from_millis(20);

/// Where iterations are kept as they end.
pub(crate) trait Sink {
    /// Keeps the record's last iteration.
    fn append(&mut self, _: &mut RunRecord) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps everything else of the record: void iterations, where a search begins.
    fn rewrite(&mut self, _: &RunRecord) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sink for Store {
    fn append(&mut self, record: &mut RunRecord) -> Result<(), StoreError> {
        Store::append(self, record)
    }

    fn rewrite(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        Store::rewrite(self, record)
    }
}

/// For runs that are not stored.
impl Sink for () {}

/// Why a sweep ended before its plan did. What had been measured by then is in the record.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A level could not run.
    #[error("the level of {level} could not run: {source}")]
    Level {
        /// The level.
        level: LevelKey,
        /// Why.
        source: LevelError,
    },
    /// An iteration could not be stored.
    #[error("{0}; the sweep was stopped, and what was measured is in the report")]
    Store(#[from] StoreError),
    /// Transactions could not be written.
    #[error("{0}")]
    RecordAll(#[from] RecordAllError),
    /// The embedded server ended.
    #[error("{0}")]
    ServerEnded(String),
}

/// Everything that a sweep works with.
pub(crate) struct Sweep<'a> {
    pub(crate) generator: &'a dyn LoadGenerator,
    pub(crate) server: Option<&'a mut dyn MeasuredServer>,
    /// The server behind it, where it is a proxy.
    pub(crate) origin: Option<&'a mut Origin>,
    /// Agents that watch the server on its own hosts, if it is not on this one.
    pub(crate) agents: &'a mut ServerAgents,
    /// Network interfaces towards the target.
    pub(crate) links: &'a BTreeSet<String>,
    /// CPUs of this host that the server and its origin run on, as far as they are known.
    pub(crate) server_cpus: Vec<u32>,
    /// Addresses of the target.
    pub(crate) targets: &'a BTreeSet<SocketAddr>,
    pub(crate) sink: &'a mut dyn Sink,
    /// The clock that gives windows their place in the run.
    pub(crate) time: RunTime,
    pub(crate) spec: &'a RunSpec,
    pub(crate) course: Steps,
    /// Whether levels that the user cut off are left out of the record, to be made again.
    pub(crate) only_whole: bool,
    pub(crate) record_all: Option<RecordAll>,
    /// Taken by the first level: the first exchanges of a run are that level's.
    pub(crate) trace: Option<TraceWriter>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Sweep<'_> {
    /// Runs all steps, appending to the record. Says how it ended, and why, if that was not the plan.
    pub(crate) fn run(&mut self, record: &mut RunRecord) -> (RunState, Option<SweepError>) {
        let ended = self.all_steps(record);
        // Those of earlier rounds, too: what was said of them is not in the file.
        let missing: Vec<&String> =
            record.iterations.iter().filter_map(|run| run.server_missing.as_ref()).collect();
        if let Some(first) = missing.first() {
            let times = format!("{} of {} timed runs", missing.len(), record.iterations.len());
            let summary = format!("figures of the server are missing in {times}: {first}");
            record.warnings.push(redaction::text(&summary).text);
        }
        ended
    }

    fn all_steps(&mut self, record: &mut RunRecord) -> (RunState, Option<SweepError>) {
        let (mut taken, before, voids_before) = (0, record.iterations.len(), record.voids.len());
        if let Err(error) = self.probe(record) {
            return (RunState::Failed, Some(error));
        }
        while let Some(step) = self.course.next(record) {
            if self.interrupt.count() > 0 {
                return (RunState::Interrupted, None);
            }
            taken += 1;
            let at = Position {
                step: taken,
                steps: self.course.most(),
                clients: step.clients,
                rate: step.rate,
                iteration: step.iteration,
            };
            if let Err(error) = self.step(at, step, record) {
                return (RunState::Failed, Some(error));
            }
        }
        let made = record.iterations.iter().skip(before);
        let whole = made.filter(|iteration| !iteration.interrupted).count();
        let whole = whole + record.voids.len() - voids_before;
        (if whole == taken { RunState::Complete } else { RunState::Interrupted }, None)
    }

    /// Asks the server, before a search over a wide range of rates, how many pages per second it serves to a few clients in closed
    /// loop. The search begins near that; what the probe measured is in no figure.
    fn probe(&mut self, record: &mut RunRecord) -> Result<(), SweepError> {
        let Some(search) = self.course.search().filter(|search| search.spec().is_probed()) else {
            return Ok(());
        };
        let clients = search.spec().probe_clients();
        let what = format!("asking the server in closed loop, with {clients} clients, how much it serves");
        self.observer.event(&Event::Preparing { what });
        if let Some(server) = &mut self.server {
            server.level_starts();
        }
        let level = self.generator.level(clients, None, Outputs::default());
        let length = self.spec.load.duration.as_duration().min(PROBE);
        let interrupt = self.interrupt;
        let made = std::thread::scope(|scope| {
            let level = &*level;
            let thread = scope.spawn(move || level.run());
            while !thread.is_finished() {
                let is_over = level.phase() == Phase::Measuring
                    && Duration::from_nanos(level.live().elapsed_ns) >= length;
                match interrupt.count() {
                    0 if !is_over => {}
                    0 => level.end_window(),
                    _ => level.abort(),
                }
                std::thread::sleep(LOOK);
            }
            thread.join().unwrap_or_else(|_| Err(EngineError::WorkerPanicked(0).into()))
        });
        let level = LevelKey::Clients(clients);
        let measured = made.map_err(|source| SweepError::Level { level, source })?.outcome.measured;
        let pages_per_s = measured.counts.pages_completed as f64 * 1e9 / measured.window_ns.max(1) as f64;
        info!(clients, pages_per_s, "probed");
        if let (Some(search), Some(find)) = (self.course.search(), &mut record.spec.find) {
            search.begin_near(pages_per_s);
            find.begin_near(pages_per_s);
        }
        Ok(self.sink.rewrite(record)?)
    }

    fn step(&mut self, at: Position, step: Step, record: &mut RunRecord) -> Result<(), SweepError> {
        self.alive()?;
        self.observer.event(&Event::LevelStarted { at });
        info!(run = %step.key(), step = at.step, of = at.steps, "level starts");
        let disturbance = self.spec.generators.is_empty().then(|| looked_for(self.spec)).flatten();
        if let Some(server) = &mut self.server {
            server.level_starts();
            server.processes().reset_peak();
        }
        self.agents.level_starts(self.interrupt);
        if let Some(origin) = &mut self.origin {
            origin.level_starts();
        }
        let (result, mut seen) = self.run_level(at, step, record);
        seen.here.host.disturbance = disturbance;
        let made = result.map_err(|source| SweepError::Level { level: step.key().level, source })?;
        let outcome = &made.outcome;
        // Ended before its window opened: there is nothing that could be kept.
        let cut_off_is_kept = outcome.measured.window_ns > 0 && !self.only_whole;
        if cut_off_is_kept || !outcome.interrupted {
            let mut iteration = self.iteration(step, made, seen);
            let rules = ConnectionRules::of_run(self.spec, record);
            let clients = identities::clients_there(&iteration);
            iteration.identities.extend(of_connections(&iteration.measured, clients, &rules));
            if self.may_be_repeated(record, &iteration) {
                return self.void(at, step, iteration, record);
            }
            record.iterations.push(iteration);
            let stored = self.sink.append(record);
            info!(run = %step.key(), stored = stored.is_ok(), "level is in the record");
            let (iteration, earlier) = record.iterations.split_last().expect("pushed just now");
            self.observer.event(&Event::LevelEnded { at, level: Box::new(Ended::of_iteration(iteration)) });
            if let Some(reason) = &iteration.server_missing
                && earlier.iter().all(|run| run.server_missing.as_ref() != Some(reason))
            {
                let text = format!("figures of the server are missing: {reason}");
                self.observer.event(&Event::Warning { text });
            }
            stored?;
        }
        if let Some(record_all) = &mut self.record_all {
            record_all.checked()?;
        }
        self.alive()
    }

    /// Whether a void timed run is repeated: its level has attempts left and the sweep has time. What it measured does not matter. Not
    /// where every transaction is written to a file: it is there already. Nor for short windows, which are judged by the sum
    /// over their level. Runs without figures because a host was lost or late are repeated in any case.
    fn may_be_repeated(&self, record: &RunRecord, run: &IterationRecord) -> bool {
        !run.interrupted
            && self.spec.generator.record_all.is_none()
            && verdict::losses(record, run).iter().any(|loss| {
                let is_fleets = matches!(loss.kind, LossKind::Gone | LossKind::Apart);
                loss.worth == Worth::Void
                    && (is_fleets || run.measured.window_ns >= SHORT_WINDOW_NS)
                    && self.attempts_left(record, run.level()) > 0
                    && (is_fleets || overtime::allows_repeating(self.spec, record, run))
            })
            && self.course.repeats(record, run)
    }

    fn attempts_left(&self, record: &RunRecord, level: LevelKey) -> usize {
        let used = record.voids.iter().filter(|void| void.level() == level).count();
        self.spec.load.retries_of_level().saturating_sub(used)
    }

    /// Keeps a void timed run as such, and has it made again.
    fn void(
        &mut self,
        at: Position,
        step: Step,
        mut run: IterationRecord,
        record: &mut RunRecord,
    ) -> Result<(), SweepError> {
        let measured = &mut run.measured;
        measured.histograms = Default::default();
        (measured.pages, measured.clients, measured.page_histograms) = Default::default();
        (measured.seconds, measured.open_loop) = Default::default();
        run.parts.iter_mut().for_each(GeneratorPart::forget_distribution);
        let why = verdict::losses(record, &run).first().map(Loss::sentence).unwrap_or_default();
        record.voids.push(run);
        let attempt = record.void_attempts().last().map(|(key, _)| key.to_string());
        warn!(run = attempt, why, "window is void and will be repeated");
        self.course.again(step);
        let stored = self.sink.rewrite(record);
        self.observer.event(&Event::Void { at, why });
        stored?;
        self.alive()
    }

    fn alive(&mut self) -> Result<(), SweepError> {
        let origin = self.origin.as_mut().and_then(|origin| origin.exit());
        match origin.or_else(|| self.server.as_mut()?.exit()) {
            Some(how) => Err(SweepError::ServerEnded(how)),
            None => Ok(()),
        }
    }

    /// Runs a level and returns what was used within the window.
    fn run_level(
        &mut self,
        at: Position,
        step: Step,
        record: &RunRecord,
    ) -> (Result<Made, LevelError>, Seen) {
        // With --record-all nothing may be left out.
        let can_slice = self.spec.generator.record_all.is_none() && self.agents.can_slice();
        let slice_ns = slicing::length_ns(self.spec, step, can_slice);
        let mut outputs = Outputs { iteration: step.iteration, slice_ns, ..Outputs::default() };
        let trace = self.trace.take().map(|writer| {
            let (sender, receiver) = sync_channel(QUEUE);
            outputs.trace = Some(sender);
            (writer, receiver)
        });
        let mut record_all = self.record_all.take();
        let transactions = record_all.is_some().then(|| {
            let (sender, receiver) = sync_channel(QUEUE);
            outputs.transactions = Some(sender);
            receiver
        });
        let echoes = echoes(self.spec, step.rate, &self.server_cpus);
        outputs.echoes = echoes.iter().filter_map(|echo| echo.address().ok()).collect();
        let level = self.generator.level(step.clients, step.rate, outputs);
        let watched = std::thread::scope(|scope| {
            if let Some((mut writer, events)) = trace {
                scope.spawn(move || writer.drain(events));
            }
            if let (Some(record_all), Some(batches)) = (&mut record_all, transactions) {
                scope.spawn(move || record_all.drain(step, batches));
            }
            // The writers end when the level, and with it the senders, is dropped here.
            let longer_ns = overtime::of_window_ns(self.spec, record);
            let planned = self.spec.load.duration.as_duration();
            self.watch(at, level, Slicing::new(record, step, planned, longer_ns, slice_ns), echoes)
        });
        self.record_all = record_all;
        watched
    }

    fn watch(
        &mut self,
        at: Position,
        level: Box<dyn Level>,
        mut slicing: Slicing<'_>,
        echoes: Vec<Echo>,
    ) -> (Result<Made, LevelError>, Seen) {
        let level = &*level;
        let server = self.server.as_ref().map(|server| server.processes());
        let path = self.server.as_ref().and_then(|server| server.path());
        // Only to a server on this host do requests go over its loopback, or over a path.
        let are_here = path.is_some() || self.links.contains(LOOPBACK);
        let mut window = Window::before(Watched {
            server,
            origin: self.origin.as_ref().map(|origin| origin.view.clone()),
            from_start: self.spec.load.warmup == Nanos::ZERO,
            links: self.links,
            cpus: self.server_cpus.clone(),
            targets: self.targets,
            listening: ports(self.targets, are_here, self.spec.client.http),
            path,
            echoes,
        });
        let (started, mut ticked) = (Instant::now(), Instant::now());
        let (mut raised, mut before, mut hosts_at) = (0, None, Instant::now());
        let mut result = std::thread::scope(|scope| {
            let (done, is_done) = channel();
            // The receiver waits for as long as the thread runs, so sending cannot fail.
            let thread = scope.spawn(move || drop(done.send(level.run())));
            loop {
                let until_asked = window.waits_for_opening().then(|| self.until_asked(level)).flatten();
                let until_read = level.opens_in().and_then(|left| window.until_read(left));
                let until_slice = level.slices().and_then(|sliced| slicing.patience(sliced));
                let patience = [until_asked, until_read, until_slice]
                    .into_iter()
                    .flatten()
                    .fold(self.patience(level), Duration::min);
                match is_done.recv_timeout(patience) {
                    Ok(result) => break result,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        drop(thread.join());
                        break Err(EngineError::WorkerPanicked(0).into());
                    }
                }
                if until_asked.is_some() && self.until_asked(level) == Some(Duration::ZERO) {
                    window.opens();
                }
                let phase = level.phase();
                if before != Some(phase) {
                    info!(level = %at.level(), iteration = at.iteration, ?phase, after = ?started.elapsed(), "phase");
                    before = Some(phase);
                }
                if let Some(left) = level.opens_in() {
                    window.opens_in(left);
                }
                // Those farther away are told first.
                self.agents.look(phase);
                window.look(phase);
                match (level.slices(), phase) {
                    (Some(sliced), Phase::Measuring) => {
                        slicing.look(sliced, &mut window, self.agents);
                    }
                    (Some(sliced), Phase::Draining) if sliced.is_elsewhere() => {
                        slicing.settle(sliced, &mut window, self.agents);
                    }
                    _ => {}
                }
                match (raised, self.interrupt.count()) {
                    (..2, 2..) => level.abort(),
                    (0, 1) => level.end_window(),
                    _ => {}
                }
                raised = self.interrupt.count();
                if ticked.elapsed() >= TICK {
                    ticked = Instant::now();
                    self.observer.event(&Event::Tick { at, phase: level.phase(), live: level.live() });
                    if phase == Phase::Measuring && hosts_at.elapsed() >= HOSTS {
                        hosts_at = Instant::now();
                        let hosts = level.hosts();
                        if !hosts.is_empty() {
                            self.observer.event(&Event::Hosts { at, hosts });
                        }
                    }
                    // Without its server, a level measures refused connections.
                    if self.alive().is_err() {
                        level.end_window();
                    }
                }
            }
        });
        let elsewhere = self.agents.used(self.interrupt);
        let mut kept = None;
        if let Ok(made) = &mut result {
            window.look(Phase::Done);
            match made.outcome.sliced.take() {
                Some(sliced) => {
                    (made.outcome.measured, kept) = slicing.finish(sliced, &mut window, self.agents)
                }
                None if made.outcome.interrupted => {}
                None => kept = slicing.settled(&made.outcome.measured),
            }
        }
        (result, Seen { here: window.used(), elsewhere, kept })
    }

    /// How long it is until the origin behind a proxy has to be asked, once it is known when the window opens.
    fn until_asked(&self, level: &dyn Level) -> Option<Duration> {
        let before = if self.spec.load.pages.is_some() { ASK_BEFORE_PAGES } else { ASK_BEFORE };
        Some(level.opens_in()?.saturating_sub(before))
    }

    /// How long to wait: nothing that must be seen at once can happen meanwhile.
    fn patience(&self, level: &dyn Level) -> Duration {
        let duration = self.spec.load.duration.as_duration();
        match level.phase() {
            Phase::Starting | Phase::WarmUp => CLOSE_LOOK,
            Phase::Measuring if duration.is_zero() => CLOSE_LOOK * 2,
            Phase::Measuring => {
                let elapsed = Duration::from_nanos(level.live().elapsed_ns);
                LOOK.min(duration.saturating_sub(elapsed)).max(CLOSE_LOOK)
            }
            Phase::Draining | Phase::Done => LOOK,
        }
    }

    fn iteration(&self, step: Step, made: Made, seen: Seen) -> IterationRecord {
        let Made { outcome, parts, mut lost } = made;
        lost.iter_mut().for_each(redaction::loss);
        let LevelOutcome { mut measured, opened_at, opened_ns, interrupted, .. } = outcome;
        let Seen { here, elsewhere, kept } = seen;
        let (mut used, late) = here.on_time(measured.span_ns());
        if let Some(kept) = &kept {
            kept.limit(&mut used);
        }
        used.host.opening_delay_ns = opened_ns.map_or(0, |opened_ns| used.read_ns.saturating_sub(opened_ns));
        measured.errors = redaction::errors(std::mem::take(&mut measured.errors));
        // Bytes can be compared only where every answer was read to its end, of those outside of the window as well.
        let lifetime = &measured.lifetime;
        let whole = (lifetime.cut_off, lifetime.failed) == (0, 0) && self.interrupt.count() < 2;
        let counted = self.counted(whole.then_some(measured.lifetime.received_bytes));
        let expected = Expectation {
            // Those of a host that was lost are missing.
            clients: if lost.is_some() { measured.clients.len() as u64 } else { step.clients.into() },
            // Where pages end the level, clients that find none left stand still until the last one is done.
            one_request_each: self.spec.client.parallel <= 1 && self.spec.load.pages.is_none(),
            server_bytes: counted.as_ref().map(|counted| counted.bytes_sent).filter(|_| whole),
        };
        let server = self.server.as_ref().map(|_| ServerUse {
            accepted: counted.as_ref().map(|counted| counted.accepted),
            sent_bytes: counted.as_ref().map(|counted| counted.bytes_sent),
            requests: counted.as_ref().map(|counted| counted.requests),
            ..used.server
        });
        let server = server.filter(|used| used.was_read() || used.accepted.is_some());
        let OnHosts { server, hosts: server_hosts, missing: server_missing } = match elsewhere {
            None => OnHosts { server, missing: late, ..OnHosts::default() },
            Some(watched) => {
                let mut on_hosts = self.agents.on_hosts(watched, measured.span_ns());
                if let Some(kept) = &kept {
                    kept.limit_on_hosts(&mut on_hosts);
                }
                on_hosts
            }
        };
        let mut run = IterationRecord {
            clients: step.clients,
            rate: step.rate,
            schedule: ScheduleKept::of_measured(&measured),
            iteration: step.iteration,
            started_at: clock::rfc3339(opened_at),
            opened_ns: opened_ns.map(|instant_ns| self.time.at(instant_ns)),
            interrupted,
            slices: kept.map(|kept| kept.slices).unwrap_or_default(),
            identities: identities::check(&measured, &expected),
            measured,
            server,
            arm: step.arm,
            host: Some(used.host),
            parts,
            lost,
            server_hosts,
            server_missing,
            server_ended: used.server_ended,
            origin: used.origin,
            pages_at: None,
        };
        run.identities.extend(identities::of_parts(&run));
        run
    }

    /// The server's counters; read again for a moment while bytes are missing that the clients received.
    fn counted(&self, received_bytes: Option<u64>) -> Option<Counters> {
        let server = self.server.as_ref()?;
        let mut counted = server.counted()?;
        // Datagrams may be lost.
        let is_all = |received, sent| match self.spec.client.http {
            HttpVersion::Http3 => received <= sent,
            _ => received == sent,
        };
        for _ in 0..COUNTER_LOOKS {
            if received_bytes.is_none_or(|received| is_all(received, counted.bytes_sent)) {
                break;
            }
            std::thread::sleep(COUNTER_PAUSE);
            counted = server.counted()?;
        }
        Some(counted)
    }
}

/// Ports of the target's addresses, if they are this host's.
pub(crate) fn ports(targets: &BTreeSet<SocketAddr>, are_here: bool, http: HttpVersion) -> Ports {
    Ports::of_targets(targets.iter().filter(|_| are_here).copied(), http)
}

/// What was seen while a window was open.
struct Seen {
    here: Used,
    /// Of the server and its own hosts, where agents were asked.
    elsewhere: Option<WatchedElsewhere>,
    /// What of the window is in its figures, if something was disturbed.
    kept: Option<Kept>,
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
pub(crate) mod tests;
