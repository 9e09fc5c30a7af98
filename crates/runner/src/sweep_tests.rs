//! Whole sweeps with a scripted load generator: every number is known beforehand, so every number is asserted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;
use webstone_lab::process_tree::ProcessTree;

use super::*;
use crate::generator::DISTURBANCE_MIN;
use crate::order::Steps;
use webstone_engine::{TraceEvent, TraceKind, Transaction};
use webstone_lab::machine::Root;
use webstone_measure::metrics::{
    ClientTotals, Counts, Lifetime, Measured, PageTotals, Second, Seconds, WorkerUse,
};
use webstone_measure::rate::RateProfile;
use webstone_model::event::{Event, Live, Phase};
use webstone_model::spec::{Levels, Order};

/// Measurements that keep every identity: `clients` requests of 24 bytes each, one second.
pub(crate) fn sound(clients: u32) -> Measured {
    let n = u64::from(clients);
    let mut measured = Measured {
        window_ns: 1_000_000_000,
        counts: Counts {
            planned: n,
            started: n,
            succeeded: n,
            connections: n,
            pages_completed: n,
            busy_ns: n * 1_000_000_000,
            ..Counts::default()
        },
        pages: vec![PageTotals {
            hits: n,
            requests: n,
            connects: n,
            body_bytes: 20 * n,
            head_bytes: 4 * n,
            ..PageTotals::default()
        }],
        clients: vec![
            ClientTotals {
                pages: 1,
                requests: 1,
                connects: 1,
                bytes: 24,
                ..ClientTotals::default()
            };
            clients as usize
        ],
        seconds: Seconds(vec![Second {
            requests: n,
            connections: n,
            pages: n,
            bytes: 24 * n,
            ..Second::default()
        }]),
        lifetime: Lifetime { received_bytes: 24 * n, ..Lifetime::default() },
        ..Measured::default()
    };
    for _ in 0..clients {
        measured.response_bytes.record(24);
        measured.histograms.response.record(1_000_000);
    }
    measured
}

/// What a scripted level does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Ends by itself at once.
    End,
    /// Goes on until its window is closed.
    UntilEnded,
    /// Goes on until it is aborted: its drain never ends.
    UntilAborted,
    /// Is ended while still warming up.
    WarmUpUntilEnded,
    /// Panics.
    Panic,
    /// Fails.
    Fail,
    /// Ends by itself at once, and its worker stalled for this many thousandths of the window.
    Stalled(u64),
    /// Lasts as long as its window says.
    Lasting,
    /// Ends by itself at once; a request had failed in its warm-up.
    FailedBefore,
}

/// Levels by script; the last act repeats. Counts what was asked of it.
pub(crate) struct Script {
    acts: Vec<Act>,
    next: AtomicU32,
    pub(crate) seen: Mutex<Vec<u32>>,
}

impl Script {
    pub(crate) fn new(acts: &[Act]) -> Script {
        Script { acts: acts.to_vec(), next: AtomicU32::new(0), seen: Mutex::default() }
    }
}

impl LoadGenerator for Script {
    fn level(&self, clients: u32, _: Option<RateProfile>, outputs: Outputs) -> Box<dyn Level> {
        self.seen.lock().unwrap().push(clients);
        let index = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let act = *self.acts.get(index).or(self.acts.last()).unwrap();
        Box::new(Scripted { act, clients, outputs, ended: Mutex::new(0), change: Condvar::new() })
    }
}

struct Scripted {
    act: Act,
    clients: u32,
    outputs: Outputs,
    /// 0: goes on; 1: window closed; 2: aborted.
    ended: Mutex<u32>,
    change: Condvar,
}

impl Level for Scripted {
    fn run(&self) -> Result<Made, LevelError> {
        if let Some(transactions) = &self.outputs.transactions {
            transactions.send(vec![Transaction { client: self.clients, ..Transaction::default() }]).unwrap();
        }
        if let Some(trace) = &self.outputs.trace {
            let kind = TraceKind::Ended(format!("level of {}", self.clients));
            trace.send(TraceEvent { exchange: 1, client: 0, address: "a".into(), kind }).unwrap();
        }
        let wanted = match self.act {
            Act::Panic => panic!("scripted"),
            Act::Fail => {
                let error =
                    EngineError::System { what: "epoll_create", source: std::io::ErrorKind::Other.into() };
                return Err(error.into());
            }
            Act::Lasting => {
                std::thread::sleep(Duration::from_nanos(sound(self.clients).window_ns));
                0
            }
            Act::End | Act::Stalled(_) | Act::FailedBefore => 0,
            Act::UntilEnded | Act::WarmUpUntilEnded => 1,
            Act::UntilAborted => 2,
        };
        let mut ended = self.ended.lock().unwrap();
        while *ended < wanted {
            ended = self.change.wait(ended).unwrap();
        }
        let mut measured = sound(self.clients);
        if self.act == Act::WarmUpUntilEnded {
            measured = Measured::default();
        }
        measured.lifetime.failed = u64::from(self.act == Act::FailedBefore);
        if let Act::Stalled(thousandths) = self.act {
            let stalled_ns = thousandths * 1_000_000;
            let worker = WorkerUse { cpu: Some(5), stalls: 1, stalled_ns, ..WorkerUse::default() };
            measured.generator.workers = vec![WorkerUse { stalled_ns_max: stalled_ns, ..worker }];
        }
        let opened_at = SystemTime::UNIX_EPOCH;
        let interrupted = wanted > 0;
        let outcome =
            LevelOutcome { measured, sliced: None, opened_at, opened_ns: None, closed_ns: None, interrupted };
        Ok(Made { outcome, parts: Vec::new(), lost: None })
    }

    fn end_window(&self) {
        let mut ended = self.ended.lock().unwrap();
        *ended = 1.max(*ended);
        self.change.notify_all();
    }

    fn abort(&self) {
        *self.ended.lock().unwrap() = 2;
        self.change.notify_all();
    }

    fn phase(&self) -> Phase {
        if self.act == Act::WarmUpUntilEnded { Phase::WarmUp } else { Phase::Measuring }
    }

    fn live(&self) -> Live {
        Live { requests: self.clients.into(), ..Live::default() }
    }

    fn opens_in(&self) -> Option<Duration> {
        None
    }
}

/// A server that counts what it is told.
#[derive(Default)]
struct Counting {
    levels: u32,
    bytes_sent: u64,
    /// Ends when its exit is asked for the n-th time.
    exits_at: Option<u32>,
    asked: u32,
}

impl MeasuredServer for Counting {
    fn exit(&mut self) -> Option<String> {
        self.asked += 1;
        self.exits_at.filter(|at| self.asked >= *at).map(|_| "the server ended: exit status 1".to_owned())
    }

    fn level_starts(&mut self) {
        self.levels += 1;
    }

    fn processes(&self) -> ProcessTree {
        // This test's own process, which exists and uses CPU time.
        ProcessTree::below(&Root::default(), std::process::id())
    }

    fn counted(&self) -> Option<Counters> {
        Some(Counters { accepted: 3, requests: 2, bytes_sent: self.bytes_sent, ..Counters::default() })
    }
}

/// Keeps what it is given, and fails from the n-th on.
struct Failing {
    kept: Vec<(u32, u32)>,
    voids: usize,
    fails_at: usize,
}

impl Sink for Failing {
    fn append(&mut self, record: &mut RunRecord) -> Result<(), StoreError> {
        let iteration = record.iterations.last().unwrap();
        if self.kept.len() == self.fails_at {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(StoreError::Io { doing: "write", path: "runs/x".into(), source });
        }
        self.kept.push((iteration.clients, iteration.iteration));
        Ok(())
    }

    fn rewrite(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        self.voids = record.voids.len();
        Ok(())
    }
}

struct Stage {
    spec: RunSpec,
    script: Script,
    server: Option<Counting>,
    sink: Failing,
    interrupt: Arc<Interrupt>,
    record_all: Option<RecordAll>,
    trace: Option<TraceWriter>,
    events: Vec<String>,
    /// Raise the interrupt after these numbers of ticks.
    raise_at_ticks: Vec<u32>,
    only_whole: bool,
}

impl Stage {
    fn new(levels: &[u32], iterations: u32, acts: &[Act]) -> Stage {
        let mut spec = RunSpec::default();
        spec.load.clients = Levels(levels.to_vec());
        spec.load.iterations = iterations;
        Stage {
            spec,
            script: Script::new(acts),
            server: None,
            sink: Failing { kept: Vec::new(), voids: 0, fails_at: usize::MAX },
            interrupt: Interrupt::new(),
            record_all: None,
            trace: None,
            events: Vec::new(),
            raise_at_ticks: Vec::new(),
            only_whole: false,
        }
    }

    /// Windows without a warm-up, as long as those of scripts.
    fn plans_what_scripts_last(&mut self) {
        let load = &mut self.spec.load;
        (load.warmup, load.duration) = (Nanos::ZERO, Nanos(sound(2).window_ns));
    }

    fn run(&mut self) -> (RunRecord, RunState, Option<String>) {
        let course = Steps::of_spec(&self.spec).unwrap();
        let mut record = webstone_model::fixture::record("r", &[]);
        let (events, raise, interrupt) =
            (&mut self.events, &self.raise_at_ticks, Arc::clone(&self.interrupt));
        let mut ticks = 0;
        let mut observer = |event: &Event| match event {
            Event::Tick { live, at, .. } => {
                assert_eq!(live.requests, u64::from(at.clients));
                ticks += 1;
                raise.iter().filter(|tick| **tick == ticks).for_each(|_| interrupt.raise());
            }
            Event::LevelStarted { at } => {
                events.push(format!("start {}/{} {}#{}", at.step, at.steps, at.clients, at.iteration));
            }
            Event::Void { at, why } => events.push(format!("void {}/{}: {why}", at.step, at.steps)),
            Event::LevelEnded { at, .. } => events.push(format!("end {}", at.step)),
            _ => {}
        };
        let (links, targets) = (BTreeSet::new(), BTreeSet::new());
        let mut agents = webstone_lab::agent::ServerAgents::default();
        let mut sweep = Sweep {
            links: &links,
            server_cpus: Vec::new(),
            targets: &targets,
            generator: &self.script,
            server: self.server.as_mut().map(|server| server as &mut dyn MeasuredServer),
            agents: &mut agents,
            origin: None,
            sink: &mut self.sink,
            time: crate::run_time::RunTime::begin(&record),
            spec: &self.spec,
            course,
            only_whole: self.only_whole,
            record_all: self.record_all.take(),
            trace: self.trace.take(),
            interrupt: &self.interrupt,
            observer: &mut observer,
        };
        let (state, error) = sweep.run(&mut record);
        (record, state, error.map(|error| error.to_string()))
    }
}

fn measured_steps(record: &RunRecord) -> Vec<(u32, u32)> {
    record.iterations.iter().map(|iteration| (iteration.clients, iteration.iteration)).collect()
}

#[test]
fn every_step_runs_in_order_and_is_kept() {
    let mut stage = Stage::new(&[2, 3], 2, &[Act::End]);
    let (record, state, error) = stage.run();
    let order = [(2, 1), (3, 1), (2, 2), (3, 2)];
    assert_eq!((state, error), (RunState::Complete, None));
    assert_eq!(measured_steps(&record), order);
    assert_eq!(stage.sink.kept, order);
    assert_eq!(*stage.script.seen.lock().unwrap(), [2, 3, 2, 3]);
    let events = "start 1/4 2#1,end 1,start 2/4 3#1,end 2,start 3/4 2#2,end 3,start 4/4 3#2,end 4";
    assert_eq!(stage.events.join(","), events);
    assert_eq!(record.whole().counts.succeeded, 10);
    assert!(record.iterations.iter().all(|it| it.identities.iter().all(|check| check.holds)));
}

#[test]
fn a_void_timed_run_is_kept_as_such_and_made_again_at_the_end() {
    let mut stage = Stage::new(&[2, 3], 1, &[Act::Stalled(60), Act::Stalled(20), Act::End]);
    let (record, state, error) = stage.run();
    assert_eq!((state, error), (RunState::Complete, None));
    assert_eq!(measured_steps(&record), [(3, 1), (2, 1)]);
    assert_eq!(stage.sink.kept, [(3, 1), (2, 1)]);
    let [void] = &record.voids[..] else { panic!("{:?}", record.voids) };
    assert_eq!((void.clients, void.iteration, void.measured.counts.succeeded), (2, 1, 2));
    assert!(void.measured.histograms.response.is_empty() && void.measured.clients.is_empty());
    assert_eq!(stage.sink.voids, 1);
    let events = "start 1/2 2#1,void 1/2: worker 0 of the load generator on CPU 5 lost 6.0 % of its CPU time: the hypervisor \
                  took it, or the process was stopped,start 2/3 3#1,end 2,start 3/3 2#1,end 3";
    assert_eq!(stage.events.join(","), events);
}

#[test]
fn a_sweep_takes_half_as_long_again_at_most_and_then_stands_as_it_is() {
    let mut stage = Stage::new(&[2, 3], 2, &[Act::Stalled(60)]);
    stage.plans_what_scripts_last();
    stage.spec.load.retries = 3;
    let (record, state, _) = stage.run();
    assert_eq!(state, RunState::Complete);
    let of = |runs: &[IterationRecord], clients| runs.iter().filter(|run| run.clients == clients).count();
    assert_eq!([of(&record.voids, 2), of(&record.voids, 3)], [1, 1]);
    assert_eq!([of(&record.iterations, 2), of(&record.iterations, 3)], [2, 2]);
    let verdict = verdict::of_record(&record);
    assert_eq!(verdict.reasons.iter().filter(|reason| reason.cause == verdict::Cause::Disturbed).count(), 0);
    assert_eq!(verdict.doubts.iter().filter(|reason| reason.cause == verdict::Cause::Disturbed).count(), 4);

    // More timed runs meet more trouble.
    let mut many = Stage::new(&[2], 5, &[Act::Stalled(60)]);
    many.plans_what_scripts_last();
    many.spec.load.retries = 3;
    let (record, ..) = many.run();
    assert_eq!((record.voids.len(), record.iterations.len()), (2, 5));
    many.spec.load.retries = 0;
    assert_eq!(many.run().0.voids.len(), 0);

    let mut single = Stage::new(&[2], 1, &[Act::Stalled(60)]);
    single.plans_what_scripts_last();
    let (record, ..) = single.run();
    assert_eq!((record.voids.len(), record.iterations.len()), (0, 1));
}

#[test]
fn a_disturbed_timed_run_is_not_repeated_and_leaves_a_doubt() {
    let mut stage = Stage::new(&[2], 1, &[Act::Stalled(30)]);
    let (record, ..) = stage.run();
    assert_eq!((record.voids.len(), record.iterations.len()), (0, 1));
    let verdict = verdict::of_record(&record);
    let doubts: Vec<_> = verdict.doubts.iter().map(|doubt| doubt.cause).collect();
    assert_eq!(doubts, [verdict::Cause::Disturbed]);
    assert!(!verdict.reasons.iter().any(|reason| reason.cause == verdict::Cause::Disturbed));
}

#[test]
fn the_order_is_that_of_the_specification() {
    let mut stage = Stage::new(&[2, 3], 2, &[Act::End]);
    stage.spec.load.order = Order::Sequential;
    assert_eq!(measured_steps(&stage.run().0), [(2, 1), (2, 2), (3, 1), (3, 2)]);
}

#[test]
fn a_broken_identity_is_recorded() {
    let mut stage = Stage::new(&[2], 1, &[Act::End]);
    stage.server = Some(Counting { bytes_sent: 47, ..Counting::default() });
    let (record, state, _) = stage.run();
    let broken: Vec<u8> = record.iterations[0]
        .identities
        .iter()
        .filter(|check| !check.holds)
        .map(|check| check.number)
        .collect();
    assert_eq!((state, broken), (RunState::Complete, vec![4]));
}

#[test]
fn the_servers_use_is_that_of_the_window() {
    // On a busy machine it may have been read too late.
    let attempt = || {
        let mut stage = Stage::new(&[2, 2], 1, &[Act::Lasting]);
        stage.server = Some(Counting { bytes_sent: 48, ..Counting::default() });
        let (record, _, _) = stage.run();
        assert_eq!(stage.server.unwrap().levels, 2);
        record
    };
    let is_read = |record: &RunRecord| record.iterations.iter().all(|run| run.server_missing.is_none());
    let record = (0..10).map(|_| attempt()).find(is_read).expect("one of ten is read in time");
    for iteration in &record.iterations {
        assert!(iteration.identities.iter().any(|check| check.number == 4 && check.holds));
        let server = iteration.server.clone().unwrap();
        let processes = server.processes.unwrap();
        assert!(server.resident_bytes_max >= processes.resident_bytes && processes.resident_bytes > 0);
        assert!(processes.processes_max >= 1 && processes.threads_max >= 2);
        let host = iteration.host.as_ref().unwrap();
        assert!(host.probes >= 2 && host.probe_cpu_ns > 0, "{host:?}");
        // A fiftieth of a short level is less than the minimum.
        assert!(host.disturbance.unwrap().looked_ns >= DISTURBANCE_MIN.as_nanos() as u64, "{host:?}");
        assert_eq!((server.accepted, server.sent_bytes, server.requests), (Some(3), Some(48), Some(2)));
    }
}

#[test]
fn a_server_that_is_read_at_other_times_has_no_figures() {
    // The window is said to have lasted a second, and ends at once, unless the machine is very busy.
    let swept = || {
        let mut stage = Stage::new(&[2], 1, &[Act::End]);
        stage.server = Some(Counting { bytes_sent: 48, ..Counting::default() });
        stage.run().0
    };
    let is_short = |record: &RunRecord| {
        let missing = record.iterations.first().and_then(|iteration| iteration.server_missing.as_deref());
        missing.is_some_and(|why| why.starts_with("its counters were read over 0."))
    };
    let record = (0..10).map(|_| swept()).find(is_short).expect("one of ten is read within a second");
    let [iteration] = &record.iterations[..] else { panic!("{:?}", record.iterations) };
    let server = iteration.server.as_ref().unwrap();
    assert_eq!((server.user_ns, &server.processes, server.sent_bytes), (0, &None, Some(48)));
    assert_eq!(iteration.server_used(), None);
    let why = iteration.server_missing.as_deref().unwrap();
    assert!(why.ends_with("1.00 s long"), "{why}");
    let told =
        record.warnings.iter().any(|text| text.contains("figures of the server are missing in 1 of 1"));
    assert!(told, "{:?}", record.warnings);
}

#[test]
fn one_interrupt_keeps_the_running_level_and_ends_the_sweep() {
    let mut stage = Stage::new(&[2, 3, 4], 1, &[Act::End, Act::UntilEnded]);
    stage.raise_at_ticks = vec![1];
    let (record, state, error) = stage.run();
    assert_eq!((state, error), (RunState::Interrupted, None));
    assert_eq!(measured_steps(&record), [(2, 1), (3, 1)]);
    assert_eq!(record.iterations.iter().map(|it| it.interrupted).collect::<Vec<_>>(), [false, true]);
    assert_eq!(stage.sink.kept.len(), 2);
}

/// The bytes compared are of the whole level, and those of an answer that was given up in the warm-up are missing.
#[test]
fn bytes_are_not_compared_where_a_request_failed_outside_of_the_window() {
    for (act, compares) in [(Act::End, true), (Act::FailedBefore, false)] {
        let mut stage = Stage::new(&[2], 1, &[act]);
        stage.server = Some(Counting { bytes_sent: 48, ..Counting::default() });
        let record = stage.run().0;
        let identities = &record.iterations[0].identities;
        assert_eq!(identities.iter().any(|check| check.number == 4), compares);
        assert_eq!(record.iterations[0].measured.counts.failed, 0);
    }
}

#[test]
fn two_interrupts_cut_the_running_level_off() {
    let mut stage = Stage::new(&[2, 3], 1, &[Act::UntilAborted]);
    stage.server = Some(Counting { bytes_sent: 0, ..Counting::default() });
    stage.raise_at_ticks = vec![1, 2];
    let (record, state, _) = stage.run();
    assert_eq!(state, RunState::Interrupted);
    assert_eq!(measured_steps(&record), [(2, 1)]);
    let checked: Vec<u8> = record.iterations[0].identities.iter().map(|check| check.number).collect();
    assert!(!checked.contains(&4), "bytes of answers cut off cannot be compared");
}

#[test]
fn an_interrupt_before_the_window_leaves_no_empty_iteration() {
    let mut stage = Stage::new(&[2], 1, &[Act::WarmUpUntilEnded]);
    stage.raise_at_ticks = vec![1];
    let (record, state, _) = stage.run();
    assert_eq!((state, record.iterations.len()), (RunState::Interrupted, 0));
}

#[test]
fn an_interrupt_before_the_first_level_runs_none() {
    let mut stage = Stage::new(&[2], 1, &[Act::End]);
    stage.interrupt.raise();
    let (record, state, _) = stage.run();
    assert_eq!((state, record.iterations.len(), stage.events.len()), (RunState::Interrupted, 0, 0));
}

#[test]
fn a_full_disk_stops_the_sweep_and_loses_nothing_measured() {
    let mut stage = Stage::new(&[2, 3, 4], 1, &[Act::End]);
    stage.sink.fails_at = 1;
    let (record, state, error) = stage.run();
    assert_eq!(state, RunState::Failed);
    assert_eq!(measured_steps(&record), [(2, 1), (3, 1)]);
    assert_eq!(stage.sink.kept, [(2, 1)]);
    assert_eq!(stage.events.last().unwrap(), "end 2", "the level that could not be stored is still shown");
    let error = error.unwrap();
    assert!(error.contains("cannot write runs/x") && error.contains("in the report"), "{error}");
}

#[test]
fn a_server_that_ends_fails_the_run_and_keeps_the_level() {
    let mut stage = Stage::new(&[2, 3], 1, &[Act::UntilEnded]);
    // Asked before the level, then at each tick.
    stage.server = Some(Counting { exits_at: Some(2), bytes_sent: 48, ..Counting::default() });
    let (record, state, error) = stage.run();
    assert_eq!((state, error.as_deref()), (RunState::Failed, Some("the server ended: exit status 1")));
    assert_eq!(measured_steps(&record), [(2, 1)]);
    assert!(record.iterations[0].interrupted);
}

#[test]
fn an_engine_that_fails_or_panics_is_an_error_and_not_a_crash() {
    for (act, what) in [(Act::Panic, "worker 0 panicked"), (Act::Fail, "epoll_create failed")] {
        let mut stage = Stage::new(&[2, 3], 1, &[Act::End, act]);
        let (record, state, error) = stage.run();
        assert_eq!((state, measured_steps(&record)), (RunState::Failed, vec![(2, 1)]));
        let error = error.unwrap();
        assert!(
            error.starts_with("the level of 3 clients could not run: ") && error.contains(what),
            "{error}"
        );
    }
}

#[test]
fn transactions_of_every_level_and_the_trace_of_the_first_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.tsv");
    let trace_path = directory.path().join("trace");
    let mut stage = Stage::new(&[2, 3], 1, &[Act::End]);
    stage.record_all = Some(RecordAll::create(&path).unwrap());
    stage.trace = Some(TraceWriter::new(Box::new(std::fs::File::create(&trace_path).unwrap())));
    assert_eq!(stage.run().1, RunState::Complete);
    let text = std::fs::read_to_string(path).unwrap();
    let levels: Vec<&str> = text.lines().skip(2).filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(levels, ["2", "3"]);
    assert_eq!(std::fs::read_to_string(trace_path).unwrap(), "[1 client 0 a] * level of 2\n");
}
