//! The sweep: every level × iteration in its order, watched from here while the engine runs it on threads of its own.
//!
//! This thread sleeps most of the time. While a level runs it looks at the phase, the interrupt and the server some
//! times a second; only around the window's ends does it look every few milliseconds, because the server's CPU time
//! is read there.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

use webstone_engine::{EngineError, LevelOutcome, Phase};
use webstone_model::identities::{self, Expectation};
use webstone_model::record::{HostUse, IterationRecord, RunRecord, RunState, ScheduleKept, ServerUse};
use webstone_model::spec::RunSpec;
use webstone_server::Counters;

use crate::clock;
use crate::generator::{Level, LoadGenerator, Outputs};
use crate::host_use::HostReading;
use crate::interrupt::Interrupt;
use crate::machine::Root;
use crate::observer::{Event, Observer, Position};
use crate::order::{Course, Step};
use crate::process_use::CpuTime;
use crate::record_all::{RecordAll, RecordAllError};
use crate::redaction;
use crate::store::{Store, StoreError};
use crate::trace::TraceWriter;

/// Between two looks at a running level.
const LOOK: Duration = Duration::from_millis(40);
/// Between two looks where the window opens or closes.
const CLOSE_LOOK: Duration = Duration::from_millis(4);
/// Between two ticks for the observer.
const TICK: Duration = Duration::from_millis(100);
/// Batches of transactions, and trace events, that may wait to be written.
const QUEUE: usize = 256;
/// How often the server is asked again where its count of bytes is not yet the client's, and how long between.
const COUNTER_LOOKS: u32 = 10;
const COUNTER_PAUSE: Duration = Duration::from_millis(20);

/// The server under test, where it is ours to watch.
pub(crate) trait MeasuredServer {
    /// How it ended, in words, if it did.
    fn exit(&mut self) -> Option<String>;
    /// A level starts now: what was used and counted before is not its.
    fn level_starts(&mut self);
    /// CPU time used in its whole life.
    fn cpu_time(&self) -> Option<CpuTime>;
    /// Peak resident memory since the level started, in bytes.
    fn resident_bytes_max(&self) -> Option<u64>;
    /// What it counted since the level started.
    fn counted(&self) -> Option<Counters>;
}

/// Where iterations are kept as they end.
pub(crate) trait Sink {
    /// Keeps the one that is the record's last.
    fn append(&mut self, record: &mut RunRecord) -> Result<(), StoreError>;
}

impl Sink for Store {
    fn append(&mut self, record: &mut RunRecord) -> Result<(), StoreError> {
        Store::append(self, record)
    }
}

/// For runs that are not stored.
impl Sink for () {
    fn append(&mut self, _record: &mut RunRecord) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Why a sweep ended before its plan did. What had been measured by then is in the record.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A level could not run.
    #[error("the level of {clients} clients could not run: {source}")]
    Engine {
        /// Clients of the level.
        clients: u32,
        /// Why.
        source: EngineError,
    },
    /// An iteration could not be stored.
    #[error("{source}; the sweep was stopped, and what was measured is in the report")]
    Store {
        /// Why.
        source: StoreError,
    },
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
    /// Network interfaces towards the target.
    pub(crate) interfaces: &'a BTreeSet<String>,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) spec: &'a RunSpec,
    pub(crate) course: Course,
    pub(crate) record_all: Option<RecordAll>,
    /// Taken by the first level: the first exchanges of a run are that level's.
    pub(crate) trace: Option<TraceWriter>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Sweep<'_> {
    /// Runs all steps, appending to the record. Says how it ended, and why, if that was not the plan.
    pub(crate) fn run(&mut self, record: &mut RunRecord) -> (RunState, Option<SweepError>) {
        let most = self.course.most();
        let mut taken = 0;
        while let Some(step) = self.course.next(&record.iterations) {
            if self.interrupt.count() > 0 {
                return (RunState::Interrupted, None);
            }
            taken += 1;
            let at = Position {
                step: taken,
                steps: most,
                clients: step.clients,
                rate: step.rate,
                iteration: step.iteration,
            };
            if let Err(error) = self.step(at, step, record) {
                return (RunState::Failed, Some(error));
            }
        }
        let whole = record.iterations.iter().filter(|iteration| !iteration.interrupted).count();
        (if whole == taken { RunState::Complete } else { RunState::Interrupted }, None)
    }

    fn step(&mut self, at: Position, step: Step, record: &mut RunRecord) -> Result<(), SweepError> {
        self.alive()?;
        self.observer.event(Event::LevelStarted(at));
        if let Some(server) = &mut self.server {
            server.level_starts();
        }
        let (result, used) = self.run_level(at, step);
        let outcome = result.map_err(|source| SweepError::Engine { clients: step.clients, source })?;
        // Ended before its window opened: there is nothing that could be kept.
        if outcome.measured.window_ns > 0 || !outcome.interrupted {
            record.iterations.push(self.iteration(step, outcome, used));
            let stored = self.sink.append(record);
            let iteration = record.iterations.last().expect("pushed just now");
            self.observer.event(Event::LevelEnded { at, iteration });
            stored.map_err(|source| SweepError::Store { source })?;
        }
        if let Some(record_all) = &mut self.record_all {
            record_all.checked()?;
        }
        self.alive()
    }

    fn alive(&mut self) -> Result<(), SweepError> {
        match self.server.as_mut().and_then(|server| server.exit()) {
            Some(how) => Err(SweepError::ServerEnded(how)),
            None => Ok(()),
        }
    }

    /// Runs a level and returns what was used within the window.
    fn run_level(&mut self, at: Position, step: Step) -> (Result<LevelOutcome, EngineError>, Used) {
        let mut outputs = Outputs::default();
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
        let level = self.generator.level(step.clients, step.rate, outputs);
        let watched = std::thread::scope(|scope| {
            if let Some((mut writer, events)) = trace {
                scope.spawn(move || writer.drain(events));
            }
            if let (Some(record_all), Some(batches)) = (&mut record_all, transactions) {
                scope.spawn(move || record_all.drain(step, batches));
            }
            // The writers end when the level, and with it the senders, is dropped here.
            self.watch(at, level)
        });
        self.record_all = record_all;
        watched
    }

    fn watch(&mut self, at: Position, level: Box<dyn Level>) -> (Result<LevelOutcome, EngineError>, Used) {
        let level = &*level;
        let mut window = Window::opening(self.reading());
        let mut ticked = Instant::now();
        let mut raised = 0;
        let result = std::thread::scope(|scope| {
            let (done, is_done) = channel();
            // The receiver waits for as long as the thread runs, so sending cannot fail.
            let thread = scope.spawn(move || drop(done.send(level.run())));
            loop {
                match is_done.recv_timeout(self.patience(level)) {
                    Ok(result) => break result,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        drop(thread.join());
                        break Err(EngineError::WorkerPanicked(0));
                    }
                }
                window.look(level.phase(), || self.reading());
                match (raised, self.interrupt.count()) {
                    (..2, 2..) => level.abort(),
                    (0, 1) => level.end_window(),
                    _ => {}
                }
                raised = self.interrupt.count();
                if ticked.elapsed() >= TICK {
                    ticked = Instant::now();
                    self.observer.event(Event::Tick { at, phase: level.phase(), live: level.live() });
                    // Without its server, a level measures refused connections.
                    if self.alive().is_err() {
                        level.end_window();
                    }
                }
            }
        });
        let used = window.used(self.reading());
        (result, used)
    }

    /// How long nothing can happen that must be seen at once.
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

    fn reading(&self) -> Reading {
        Reading {
            cpu: self.server.as_ref().and_then(|server| server.cpu_time()),
            host: HostReading::take(&Root::default(), self.interfaces),
        }
    }

    fn iteration(&self, step: Step, outcome: LevelOutcome, used: Used) -> IterationRecord {
        let LevelOutcome { mut measured, opened_at, interrupted } = outcome;
        measured.errors = redaction::errors(std::mem::take(&mut measured.errors));
        // Bytes can be compared only where every answer was read to its end.
        let whole =
            measured.lifetime.cut_off == 0 && measured.counts.failed == 0 && self.interrupt.count() < 2;
        let counted = self.counted(whole.then_some(measured.lifetime.received_bytes));
        let expected = Expectation {
            clients: step.clients.into(),
            // Where pages end the level, clients that find none left stand still until the last one is done.
            one_request_each: self.spec.client.parallel <= 1 && self.spec.load.pages.is_none(),
            server_bytes: counted.as_ref().map(|counted| counted.bytes_sent).filter(|_| whole),
        };
        let server = self.server.as_ref().map(|server| ServerUse {
            user_ns: used.cpu.unwrap_or_default().user_ns,
            system_ns: used.cpu.unwrap_or_default().system_ns,
            resident_bytes_max: server.resident_bytes_max().unwrap_or(0),
            accepted: counted.as_ref().map(|counted| counted.accepted),
            sent_bytes: counted.as_ref().map(|counted| counted.bytes_sent),
            requests: counted.as_ref().map(|counted| counted.requests),
        });
        IterationRecord {
            clients: step.clients,
            rate: step.rate,
            schedule: ScheduleKept::of(&measured),
            iteration: step.iteration,
            started_at: clock::rfc3339(opened_at),
            interrupted,
            identities: identities::check(&measured, &expected),
            measured,
            server,
            arm: step.arm,
            host: Some(used.host),
            pages_at: None,
        }
    }

    /// The server's counters; asked again for a moment where they are not yet what they must become.
    fn counted(&self, received_bytes: Option<u64>) -> Option<Counters> {
        let server = self.server.as_ref()?;
        let mut counted = server.counted()?;
        for _ in 0..COUNTER_LOOKS {
            if received_bytes.is_none_or(|received| received == counted.bytes_sent) {
                break;
            }
            std::thread::sleep(COUNTER_PAUSE);
            counted = server.counted()?;
        }
        Some(counted)
    }
}

/// What is read where the window opens and where it closes.
struct Reading {
    cpu: Option<CpuTime>,
    host: HostReading,
}

/// What was used between two readings.
struct Used {
    cpu: Option<CpuTime>,
    host: HostUse,
}

/// The readings where the window opened and closed.
struct Window {
    opened: Reading,
    is_open: bool,
    closed: Option<Reading>,
}

impl Window {
    fn opening(before: Reading) -> Window {
        Window { opened: before, is_open: false, closed: None }
    }

    fn look(&mut self, phase: Phase, reading: impl FnOnce() -> Reading) {
        match phase {
            Phase::Measuring if !self.is_open => {
                self.is_open = true;
                self.opened = reading();
            }
            Phase::Draining | Phase::Done if self.closed.is_none() => self.closed = Some(reading()),
            _ => {}
        }
    }

    fn used(self, now: Reading) -> Used {
        let closed = self.closed.unwrap_or(now);
        Used {
            cpu: closed.cpu.zip(self.opened.cpu).map(|(closed, opened)| closed.since(opened)),
            host: self.opened.host.until(&closed.host, &Root::default()),
        }
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
pub(crate) mod tests;
