//! Levels that several hosts make together, on real sockets: each part runs on a thread, and the test agrees with all
//! of them on when to begin and when to open. The sum of counts is the server's, whatever else the machine does.

use std::sync::Arc;
use std::time::Duration;

use super::peer::{counted, errors, file, one_page, spec};
use webstone_engine::{
    Control, EngineError, InstantError, LevelJob, LevelOutcome, Opening, Plan, Seats, run_level,
};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::live::Phase;
use webstone_measure::metrics::Measured;
use webstone_measure::units::Nanos;
use webstone_model::spec::ServerSpec;
use webstone_server::{RunningServer, ServeOptions, Server};
use webstone_workload::arrivals::{ArrivalProcess, Arrivals, Slots};
use webstone_workload::load::ConnectionPolicy::KeepAlive;
use webstone_workload::load::GeneratorTask;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Far enough ahead for any machine that has not stalled.
const AHEAD_NS: u64 = 2 * SECOND;
/// So far ahead that a test that waited for it would never end.
const NEVER_NS: u64 = 100_000 * SECOND;
/// Three slots: one worker with one, and one with two.
const PARTS: [Seats; 2] =
    [Seats { first: 0, each: 1, workers: 1, of: 3 }, Seats { first: 1, each: 2, workers: 1, of: 3 }];

fn server() -> RunningServer {
    Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })
    })
    .unwrap()
}

/// A level of this length after this warm-up, whose requests all end.
fn timed(url: &str, warmup_ms: u64, duration_ms: u64) -> GeneratorTask {
    let mut spec = spec(url, KeepAlive, 0);
    spec.load.pages = None;
    spec.load.warmup = Nanos::from_millis(warmup_ms);
    spec.load.duration = Nanos::from_millis(duration_ms);
    spec.load.drain = Nanos::from_secs(60);
    spec
}

fn job(spec: &GeneratorTask, clients: u32) -> LevelJob {
    let workload = one_page(vec![file("/test?size=10&delay=1ms", Some(10))]);
    let plan = Arc::new(Plan::compile(spec, &workload).unwrap());
    LevelJob { opening: Opening::Agreed, ..LevelJob::new(plan, clients) }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("a minute without: {what}");
}

/// Ends levels however a test ends: a level that waits for its opening would wait for ever.
struct Ended<'a>(&'a [Arc<Control>]);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|control| control.abort());
    }
}

/// Runs the parts of a level with agreed instants; returns when the window was to open, and the outcome of each part.
fn run_parts(job: &LevelJob, parts: &[Seats], has_warm_up: bool) -> (u64, Vec<LevelOutcome>) {
    let controls: Vec<Arc<Control>> = parts.iter().map(|_| Control::new()).collect();
    std::thread::scope(|scope| {
        let ended = Ended(&controls);
        let run = |(seats, control): (&Seats, &Arc<Control>)| {
            let (job, control) = (LevelJob { seats: *seats, ..job.clone() }, control.clone());
            scope.spawn(move || run_level(&job, &control).unwrap())
        };
        let running: Vec<_> = parts.iter().zip(&controls).map(run).collect();
        until("armed", || controls.iter().all(|control| control.is_armed()));
        assert!(controls.iter().all(|control| control.phase() == Phase::Starting && !control.is_warm()));
        let mut open_ns = Control::now_ns() + AHEAD_NS;
        controls.iter().for_each(|control| control.go_at(open_ns).unwrap());
        if has_warm_up {
            until("warm", || controls.iter().all(|control| control.is_warm()));
            assert!(Control::now_ns() > open_ns);
            assert!(controls.iter().all(|control| control.opens_in().is_none()));
            open_ns = Control::now_ns() + AHEAD_NS;
            controls.iter().for_each(|control| control.open_at(open_ns).unwrap());
        }
        let outcomes = running.into_iter().map(|part| part.join().unwrap()).collect();
        // All levels have ended.
        drop(ended);
        (open_ns, outcomes)
    })
}

/// All parts together; every identity must hold, and nothing may have failed.
fn together(outcomes: &[LevelOutcome], clients: u32) -> Measured {
    let mut measured = Measured::default();
    for outcome in outcomes {
        assert_eq!((errors(outcome), outcome.interrupted), (vec![], false));
        measured.merge_parallel(outcome.measured.clone());
    }
    let expected = Expectation { clients: clients.into(), one_request_each: false, server_bytes: None };
    for identity in check(&measured, &expected) {
        assert!(identity.holds, "{identity:?}");
    }
    assert_eq!(measured.clients.len(), clients as usize);
    measured
}

/// Every part opened its window at the agreed instant, for the agreed time.
fn were_open(outcomes: &[LevelOutcome], open_ns: u64, duration_ms: u64) {
    for outcome in outcomes {
        let close_ns = open_ns + duration_ms * MS;
        assert_eq!((outcome.opened_ns, outcome.closed_ns), (Some(open_ns), Some(close_ns)));
        assert_eq!(outcome.measured.window_ns, duration_ms * MS);
    }
}

/// The counts are the server's, including warm-up and drain.
fn are_the_servers(measured: &Measured, server: RunningServer) {
    let counted = counted(&server);
    let lifetime = &measured.lifetime;
    assert_eq!((lifetime.requests, lifetime.connections), (counted.requests, counted.accepted));
    assert_eq!((lifetime.sent_bytes, lifetime.received_bytes), (counted.bytes_received, counted.bytes_sent));
    assert_eq!(lifetime.cut_off, 0);
}

#[test]
fn parts_open_together_and_add_up_to_what_the_server_counted() {
    let server = server();
    let job = job(&timed(server.url(), 100, 3_000), 9);
    let clients = PARTS.map(|seats| LevelJob { seats, ..job.clone() }.clients_here());
    assert_eq!(clients, [0..3, 3..9]);
    let (open_ns, outcomes) = run_parts(&job, &PARTS, true);
    were_open(&outcomes, open_ns, 3_000);
    for (outcome, clients) in outcomes.iter().zip(clients) {
        assert_eq!(outcome.measured.clients.len(), clients.len());
        assert!(outcome.measured.counts.succeeded > 0);
    }
    are_the_servers(&together(&outcomes, 9), server);
}

#[test]
fn parts_keep_one_schedule_to_the_last_arrival() {
    for (warmup_ms, process) in [(0, ArrivalProcess::Constant), (50, ArrivalProcess::Poisson)] {
        let server = server();
        let mut spec = timed(server.url(), warmup_ms, 1_000);
        spec.load.arrivals = process;
        spec.client.seed = 42;
        let rate = "300".parse().unwrap();
        let job = LevelJob { rate: Some(rate), ..job(&spec, 60) };
        let (open_ns, outcomes) = run_parts(&job, &PARTS, warmup_ms > 0);
        were_open(&outcomes, open_ns, 1_000);
        let schedule = Arrivals::new(process, rate, 42, Slots::ALL);
        let measured = together(&outcomes, 60);
        let open_loop = measured.open_loop.as_ref().unwrap();
        assert_eq!(open_loop.planned, schedule.take_while(|at| *at < SECOND).count() as u64);
        are_the_servers(&measured, server);
    }
}

#[test]
fn parts_begin_as_many_pages_as_one_host_would() {
    for warmup_ms in [0, 50] {
        let server = server();
        let mut spec = timed(server.url(), warmup_ms, 60_000);
        spec.load.pages = Some(100);
        let (open_ns, outcomes) = run_parts(&job(&spec, 9), &PARTS, warmup_ms > 0);
        let measured = together(&outcomes, 9);
        assert_eq!(measured.counts.pages_completed, 100);
        let each: Vec<u64> = outcomes.iter().map(|outcome| outcome.measured.counts.pages_completed).collect();
        assert_eq!(each, [33, 67], "as their clients");
        assert!(outcomes.iter().all(|outcome| outcome.opened_ns == Some(open_ns)));
        are_the_servers(&measured, server);
    }
}

/// With two clients in three slots the first slot has none.
#[test]
fn a_host_without_clients_agrees_and_makes_nothing() {
    let server = server();
    for warmup_ms in [0, 20] {
        let job = job(&timed(server.url(), warmup_ms, 3_000), 2);
        let (open_ns, outcomes) = run_parts(&job, &PARTS, warmup_ms > 0);
        assert_eq!((outcomes[0].opened_ns, outcomes[0].measured.clients.len()), (Some(open_ns), 0));
        assert_eq!(outcomes[0].measured.lifetime.requests, 0);
        assert_eq!(outcomes[1].opened_ns, Some(open_ns));
        assert!(together(&outcomes, 2).counts.succeeded > 0);
    }
}

/// Runs one part while a test controls it.
fn steered(job: &LevelJob, steer: impl FnOnce(&Control)) -> LevelOutcome {
    let control = Control::new();
    std::thread::scope(|scope| {
        let controls = [control.clone()];
        let ended = Ended(&controls);
        let running = scope.spawn(|| run_level(job, &control).unwrap());
        steer(&control);
        let outcome = running.join().unwrap();
        drop(ended);
        outcome
    })
}

/// The state in which a level is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    NotBegun,
    Armed,
    GoesInFuture,
    WarmingUp,
    Warm,
    OpensInFuture,
    Measuring,
}

/// Brings a level into a state.
fn bring(control: &Control, state: State) {
    let begin = |at_ns: u64| {
        until("armed", || control.is_armed());
        control.go_at(Control::now_ns() + at_ns).unwrap();
    };
    match state {
        State::NotBegun => {}
        State::Armed => until("armed", || control.is_armed()),
        State::GoesInFuture => begin(NEVER_NS),
        State::WarmingUp => {
            begin(AHEAD_NS);
            until("the warm-up", || control.phase() == Phase::WarmUp);
        }
        State::Warm => {
            begin(AHEAD_NS);
            until("warm", || control.is_warm());
        }
        State::OpensInFuture => {
            bring(control, State::Warm);
            control.open_at(Control::now_ns() + NEVER_NS).unwrap();
        }
        State::Measuring => {
            bring(control, State::Warm);
            control.open_at(Control::now_ns() + AHEAD_NS).unwrap();
            until("requests", || control.live().requests > 0);
        }
    }
}

#[test]
fn a_level_ends_in_every_state() {
    use State::{Armed, GoesInFuture, Measuring, NotBegun, OpensInFuture, Warm, WarmingUp};
    for state in [NotBegun, Armed, GoesInFuture, WarmingUp, Warm, OpensInFuture, Measuring] {
        for end in [Control::end_window, Control::abort] {
            let server = server();
            // The warm-up must not end by itself if the level is to be ended in it.
            let warmup_ms = if state == WarmingUp { NEVER_NS / MS } else { 20 };
            let job = job(&timed(server.url(), warmup_ms, NEVER_NS / MS), 6);
            let outcome = steered(&job, |control| {
                bring(control, state);
                end(control);
                until("the end", || control.phase() == Phase::Done);
                assert_eq!(control.go_at(Control::now_ns() + AHEAD_NS), Err(InstantError::Ended));
                assert_eq!(control.open_at(Control::now_ns() + AHEAD_NS), Err(InstantError::Ended));
            });
            assert!(outcome.interrupted, "{state:?}");
            let was_open = state == Measuring;
            assert_eq!(
                (outcome.opened_ns.is_some(), outcome.measured.window_ns > 0),
                (was_open, was_open),
                "{state:?}"
            );
            // A connection that waits to be accepted has sent its request already.
            until("all is read", || server.counters().requests >= outcome.measured.lifetime.requests);
            // A level ended at the start of its warm-up may or may not have begun requests.
            let began = matches!(state, Warm | OpensInFuture | Measuring);
            let counted = counted(&server);
            assert!(state == WarmingUp || (counted.requests > 0) == began, "{state:?}");
            assert_eq!(outcome.measured.lifetime.requests, counted.requests, "{state:?}");
        }
    }
}

#[test]
fn instants_that_cannot_be_kept_are_refused() {
    let server = server();
    let is_late =
        |result: Result<(), InstantError>| matches!(result, Err(InstantError::Late { by_ns }) if by_ns > 0);
    let in_time = || Control::now_ns() + AHEAD_NS;
    assert_eq!(Control::new().go_at(in_time()), Err(InstantError::NotReady));
    let mut open_ns = 0;
    let outcome = steered(&job(&timed(server.url(), 20, 100), 6), |control| {
        until("armed", || control.is_armed());
        assert_eq!(control.open_at(in_time()), Err(InstantError::NotReady));
        assert!(
            is_late(control.go_at(Control::now_ns() - SECOND)) && is_late(control.go_at(Control::now_ns()))
        );
        assert!(
            is_late(control.go_at(Control::now_ns() + 20 * MS)),
            "less than it takes to tell the workers"
        );
        control.go_at(in_time()).unwrap();
        assert_eq!(control.go_at(in_time()), Err(InstantError::Decided));
        assert_eq!(control.open_at(in_time()), Err(InstantError::NotReady));
        until("warm", || control.is_warm());
        assert!(
            is_late(control.open_at(Control::now_ns() - 1))
                && is_late(control.open_at(Control::now_ns() + 20 * MS))
        );
        assert_eq!(control.opens_in(), None, "what was refused opened nothing");
        open_ns = in_time();
        control.open_at(open_ns).unwrap();
        assert_eq!(control.open_at(in_time()), Err(InstantError::Decided));
    });
    were_open(&[outcome], open_ns, 100);

    // A level that decides by itself takes no instants.
    let own = LevelJob { opening: Opening::Own, ..job(&timed(server.url(), 20, 100), 6) };
    let outcome = steered(&own, |control| {
        until("armed", || control.is_armed());
        assert_eq!(control.go_at(in_time()), Err(InstantError::Decided));
        assert_eq!(control.open_at(in_time()), Err(InstantError::Decided));
    });
    assert_eq!((outcome.interrupted, outcome.measured.window_ns), (false, 100 * MS));
}

#[test]
fn invalid_parts_are_refused() {
    let server = server();
    let seats = Seats { first: 2, each: 2, workers: 1, of: 3 };
    let job = LevelJob { seats, ..job(&timed(server.url(), 0, 100), 6) };
    let refused = run_level(&job, &Control::new()).unwrap_err();
    assert!(matches!(&refused, EngineError::Seats(what) if what.contains("behind the last")), "{refused}");
    assert_eq!(job.clients_here(), 0..0);
    assert_eq!(counted(&server).accepted, 0);
}
