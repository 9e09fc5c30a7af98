//! Open loop on real sockets: exact counts of a schedule, however many workers share it, and windows ended early. The
//! exact latencies, lags and waits are tested on a simulated network.

use std::sync::Arc;
use std::time::Duration;

use super::peer::{errors, file, one_page, spec};
use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, run_level};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::metrics::OpenLoop;
use webstone_measure::units::Nanos;
use webstone_model::spec::ServerSpec;
use webstone_server::{RunningServer, ServeOptions, Server};
use webstone_workload::Workload;
use webstone_workload::arrivals::{ArrivalProcess, Arrivals, Slots};
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::GeneratorTask;

const SECOND: u64 = 1_000_000_000;
fn server() -> RunningServer {
    Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })
    })
    .unwrap()
}

fn open_spec(url: &str, policy: ConnectionPolicy, seconds: u64) -> GeneratorTask {
    let mut spec = spec(url, policy, 0);
    spec.load.pages = None;
    spec.load.duration = Nanos::from_secs(seconds);
    spec
}

/// Runs a level; every identity must hold, including identity 2 in its open-loop form.
fn run(spec: &GeneratorTask, workload: &Workload, clients: u32, rate: &str) -> LevelOutcome {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let rate = Some(rate.parse().unwrap());
    let job = LevelJob { rate, ..LevelJob::new(plan, clients) };
    let outcome = run_level(&job, &Control::new()).unwrap();
    let expected = Expectation { clients: clients.into(), one_request_each: true, server_bytes: None };
    let checks = check(&outcome.measured, &expected);
    assert!(checks.iter().any(|check| check.number == 2));
    for identity in checks {
        assert!(identity.holds, "{identity:?}");
    }
    outcome
}

fn schedule(outcome: &LevelOutcome) -> &OpenLoop {
    outcome.measured.open_loop.as_ref().expect("an open loop has its figures")
}

#[test]
fn planned_is_rate_times_duration_to_the_last_arrival() {
    let server = server();
    let workload = one_page(vec![file("/test?size=10", Some(10))]);
    for (rate, workers, policy, warmup_ms) in [
        ("1000", 1, KeepAlive, 0),
        ("777", 2, KeepAlive, 100),
        ("499.5", 3, PerRequest, 50),
        ("200", 1, PerPage, 0),
    ] {
        let mut spec = open_spec(server.url(), policy, 2);
        spec.generator.workers = workers;
        spec.load.warmup = Nanos::from_millis(warmup_ms);
        let outcome = run(&spec, &workload, 50, rate);
        let planned = (rate.parse::<f64>().unwrap() * 2.0) as u64;
        assert_eq!((schedule(&outcome).planned, errors(&outcome)), (planned, vec![]), "{rate}");
        assert_eq!((outcome.measured.window_ns, schedule(&outcome).skipped), (2 * SECOND, 0));
        let live_requests = outcome.measured.lifetime.requests;
        assert!(live_requests >= schedule(&outcome).started, "{live_requests}");
    }
}

#[test]
fn a_poisson_schedule_is_the_models_for_every_number_of_workers() {
    let server = server();
    let workload = one_page(vec![file("/test?size=10", Some(10))]);
    for workers in [1, 2] {
        let mut spec = open_spec(server.url(), KeepAlive, 1);
        spec.load.arrivals = ArrivalProcess::Poisson;
        spec.generator.workers = workers;
        spec.client.seed = 42;
        let outcome = run(&spec, &workload, 30, "800");
        let model = Arrivals::new(ArrivalProcess::Poisson, "800".parse().unwrap(), 42, Slots::ALL);
        assert_eq!(schedule(&outcome).planned, model.take_while(|at| *at < SECOND).count() as u64);
    }
}

#[test]
fn a_window_ended_early_counts_correctly() {
    let server = server();
    let plan =
        Plan::compile(&open_spec(server.url(), KeepAlive, 60), &one_page(vec![file("/test", None)])).unwrap();
    let rate = Some("500".parse().unwrap());
    let job = LevelJob { rate, ..LevelJob::new(Arc::new(plan), 5) };
    let control = Control::new();
    let outcome = std::thread::scope(|scope| {
        let level = scope.spawn(|| run_level(&job, &control).unwrap());
        while control.live().offered == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let live = control.live();
        assert!(live.planned > 0, "{live:?}");
        control.end_window();
        level.join().unwrap()
    });
    assert!(outcome.interrupted);
    let expected = outcome.measured.window_ns * 500 / SECOND;
    assert!(schedule(&outcome).planned.abs_diff(expected) <= 1, "{:?} in {expected}", schedule(&outcome));
    let expected = Expectation { clients: 5, one_request_each: true, server_bytes: None };
    assert!(check(&outcome.measured, &expected).iter().all(|identity| identity.holds));
}
