//! Open loop: exact counts of a schedule, and latencies that are what theory says of a server that stands still.

use std::sync::Arc;
use std::time::Duration;

use super::peer::{errors, file, one_page, spec};
use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, run_level};
use webstone_model::arrivals::{ArrivalProcess, Arrivals};
use webstone_model::identities::{Expectation, check};
use webstone_model::metrics::{Histogram, OpenLoop};
use webstone_model::spec::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_model::spec::{RunSpec, ServerSpec, WhenBusy};
use webstone_model::units::Nanos;
use webstone_model::workload::Workload;
use webstone_server::{RunningServer, ServeOptions, Server};

const SECOND: u64 = 1_000_000_000;
/// What server, kernel and a busy test machine may add. The delays below are larger.
const OVERHEAD_NS: u64 = 250_000_000;

fn server() -> RunningServer {
    Server::start(ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })).unwrap()
}

fn open_spec(url: &str, policy: ConnectionPolicy, seconds: u64) -> RunSpec {
    let mut spec = spec(url, policy, 0);
    spec.load.pages = None;
    spec.load.duration = Nanos::from_secs(seconds);
    spec.client.first_byte_timeout = Nanos::from_secs(10);
    spec.client.request_timeout = Nanos::from_secs(10);
    spec
}

/// Runs a level; every identity must hold, the second in its open-loop form among them.
fn run(spec: &RunSpec, workload: &Workload, clients: u32, rate: &str) -> LevelOutcome {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let rate = Some(rate.parse().unwrap());
    let outcome =
        run_level(&LevelJob { plan, clients, rate, trace: None, transactions: None }, &Control::new());
    let outcome = outcome.unwrap();
    let expected = Expectation { clients: clients.into(), one_request_each: true, server_bytes: None };
    let checks = check(&outcome.measured, &expected);
    assert!(checks.iter().any(|check| check.number == 2));
    for identity in checks {
        assert!(identity.holds, "{identity:?}");
    }
    outcome
}

fn schedule(outcome: &LevelOutcome) -> &OpenLoop {
    outcome.measured.open_loop.as_ref().expect("an open loop leaves its books")
}

/// Values above a limit.
fn above(histogram: &Histogram, limit_ns: u64) -> u64 {
    histogram.buckets().filter(|(lowest, ..)| *lowest > limit_ns).map(|(.., count)| count).sum()
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
        let model = Arrivals::new(ArrivalProcess::Poisson, "800".parse().unwrap(), 42, 0, 1);
        assert_eq!(schedule(&outcome).planned, model.take_while(|at| *at < SECOND).count() as u64);
    }
}

/// 1,000 arrivals a second, ten clients, a server that answers nobody for one second in ten. What arrives in that second
/// waits for its end: a tenth of all, evenly between 1 s and nothing. But only ten requests are on their way meanwhile,
/// so from the actual start only ten are slow.
#[test]
fn a_stall_of_one_second_is_charged_to_every_arrival_that_it_delays() {
    let server = server();
    let spec = open_spec(server.url(), KeepAlive, 10);
    let workload = one_page(vec![file("/test?freeze=3s,1s&size=10", Some(10))]);
    let outcome = run(&spec, &workload, 10, "1000");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, open_loop.skipped, errors(&outcome)), (10_000, 0, vec![]));

    let corrected = &outcome.measured.histograms.response;
    for (percentile, analytic_s) in
        [(92.0, 0.2), (95.0, 0.5), (97.5, 0.75), (99.0, 0.9), (99.9, 0.99), (100.0, 1.0)]
    {
        let found = corrected.value_at_percentile(percentile);
        let analytic = (analytic_s * 1e9) as u64;
        // 20 ms early: the percentile's own step is 1 ms, and the server's second began with its first request.
        let range = analytic - 20_000_000..=analytic + OVERHEAD_NS;
        assert!(range.contains(&found), "p{percentile} is {found} ns where theory has {analytic} ns");
    }
    let first_byte = &outcome.measured.histograms.first_byte;
    assert!(first_byte.value_at_percentile(95.0) >= 480_000_000);
    // Half of the stalled second's arrivals wait for half a second or longer.
    let slow = above(corrected, SECOND / 2);
    assert!((480..=500 + 1000 * OVERHEAD_NS / SECOND).contains(&slow), "{slow} slow requests");
    assert_eq!(above(&open_loop.uncorrected.response, SECOND / 2), 10);
    assert!(open_loop.waited >= 900, "{open_loop:?}");
    // Means agree with the histograms: 1,000 arrivals of 0.5 s each among 10,000.
    let mean_ns = outcome.measured.response.mean();
    assert!((45e6..50e6 + OVERHEAD_NS as f64).contains(&mean_ns), "{mean_ns}");
    assert!(open_loop.response.mean() < mean_ns / 2.0, "{open_loop:?}");
}

#[test]
fn with_a_client_for_every_arrival_both_latencies_show_the_stall() {
    let server = server();
    let spec = open_spec(server.url(), KeepAlive, 4);
    let workload = one_page(vec![file("/test?freeze=1s,1s&size=10", Some(10))]);
    let outcome = run(&spec, &workload, 600, "400");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, errors(&outcome)), (1600, vec![]));
    for histogram in [&outcome.measured.histograms.response, &open_loop.uncorrected.response] {
        let slow = above(histogram, SECOND / 2);
        assert!((190..=200 + 400 * OVERHEAD_NS / SECOND).contains(&slow), "{slow} slow requests");
    }
}

/// The same stall in closed loop: as many slow requests as clients, however many would have come.
#[test]
fn a_closed_loop_sees_a_stall_once_a_client() {
    let server = server();
    let spec = open_spec(server.url(), KeepAlive, 3);
    let plan = Plan::compile(&spec, &one_page(vec![file("/test?freeze=1s,1s&size=10", Some(10))])).unwrap();
    let job = LevelJob { plan: Arc::new(plan), clients: 10, rate: None, trace: None, transactions: None };
    let outcome = run_level(&job, &Control::new()).unwrap();
    assert_eq!(outcome.measured.open_loop, None);
    assert_eq!(above(&outcome.measured.histograms.response, SECOND / 2), 10);
}

#[test]
fn skipped_arrivals_are_counted_and_the_rest_is_clients_over_delay() {
    let server = server();
    let mut spec = open_spec(server.url(), KeepAlive, 2);
    spec.load.when_busy = WhenBusy::Skip;
    let workload = one_page(vec![file("/test?delay=100ms&size=10", Some(10))]);
    let outcome = run(&spec, &workload, 5, "200");
    let open_loop = schedule(&outcome);
    // Five clients, each busy for 100 ms and free until the next arrival: 5 / 0.1 s, a little less.
    assert!((50..=105).contains(&open_loop.started), "{open_loop:?}");
    assert_eq!((open_loop.planned, open_loop.waited), (400, 0));
    assert_eq!(open_loop.skipped + open_loop.started + open_loop.queued, 400);
    assert_eq!(outcome.measured.counts.skipped, open_loop.skipped);
    assert_eq!(outcome.measured.counts.planned, open_loop.started + open_loop.skipped);
}

#[test]
fn what_still_waits_at_the_end_is_counted_as_queued() {
    let server = server();
    let mut spec = open_spec(server.url(), PerRequest, 2);
    spec.load.warmup = Nanos::from_millis(200);
    let workload = one_page(vec![file("/test?delay=100ms&size=10", Some(10))]);
    let outcome = run(&spec, &workload, 5, "200");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, open_loop.skipped), (400, 0));
    assert!(open_loop.started <= 105 && open_loop.carried_in > 0, "{open_loop:?}");
    // The oldest that started has waited for longer than the window: it is charged with all of it.
    let waited = outcome.measured.histograms.response.value_at_percentile(100.0);
    assert!(waited > SECOND, "{waited}");
    assert!(open_loop.uncorrected.response.value_at_percentile(50.0) < SECOND);
}

#[test]
fn a_ramp_follows_its_integral_second_by_second() {
    let server = server();
    let spec = open_spec(server.url(), KeepAlive, 5);
    let outcome = run(&spec, &one_page(vec![file("/test?size=10", Some(10))]), 50, "100..500/4s");
    // Trapezia of the ramp, then the last rate. A request counts where it ends, so some shift by a second.
    for (second, expected) in [150_u64, 250, 350, 450, 500].into_iter().enumerate() {
        let found = outcome.measured.series.0[second].requests;
        assert!(
            found.abs_diff(expected) <= 500 * OVERHEAD_NS / SECOND,
            "second {second}: {found}, {expected}"
        );
    }
    assert!(schedule(&outcome).planned.abs_diff(1700) <= 1, "{:?}", schedule(&outcome));
}

#[test]
fn a_page_of_several_files_is_one_arrival() {
    let server = server();
    let spec = open_spec(server.url(), PerPage, 1);
    let files = ["/test?size=10", "/test?size=20", "/test?size=30"].map(|url| file(url, None)).to_vec();
    let outcome = run(&spec, &one_page(files), 20, "100");
    let counts = outcome.measured.counts;
    assert_eq!(schedule(&outcome).planned, 100);
    assert!(
        counts.pages_completed >= 90 && counts.succeeded.abs_diff(3 * counts.pages_completed) <= 40,
        "{counts:?}"
    );
    assert_eq!(schedule(&outcome).page.count, counts.pages_completed);
}

#[test]
fn a_dead_server_is_asked_at_a_pace_and_nothing_is_lost() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let outcome = run(&open_spec(&url, KeepAlive, 1), &one_page(vec![file("/", None)]), 5, "1000");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, outcome.measured.counts.succeeded), (1000, 0));
    // Five clients that wait 10, 20, 40 … ms between their attempts.
    assert!((5..100).contains(&outcome.measured.counts.failed), "{open_loop:?}");
}

#[test]
fn a_window_ended_early_keeps_its_books() {
    let server = server();
    let plan =
        Plan::compile(&open_spec(server.url(), KeepAlive, 60), &one_page(vec![file("/test", None)])).unwrap();
    let rate = Some("500".parse().unwrap());
    let job = LevelJob { plan: Arc::new(plan), clients: 5, rate, trace: None, transactions: None };
    let control = Control::new();
    let outcome = std::thread::scope(|scope| {
        let level = scope.spawn(|| run_level(&job, &control).unwrap());
        std::thread::sleep(Duration::from_millis(700));
        let live = control.live();
        assert!(live.planned >= live.offered && live.offered > 0, "{live:?}");
        control.end_window();
        level.join().unwrap()
    });
    assert!(outcome.interrupted);
    let expected = outcome.measured.window_ns * 500 / SECOND;
    assert!(schedule(&outcome).planned.abs_diff(expected) <= 1, "{:?} in {expected}", schedule(&outcome));
    let expected = Expectation { clients: 5, one_request_each: true, server_bytes: None };
    assert!(check(&outcome.measured, &expected).iter().all(|identity| identity.holds));
}

#[test]
fn waiting_awake_is_told_from_work() {
    let server = server();
    let mut spec = open_spec(server.url(), KeepAlive, 1);
    spec.generator.spin = true;
    let outcome = run(&spec, &one_page(vec![file("/test?size=10", Some(10))]), 10, "100");
    assert_eq!(schedule(&outcome).planned, 100);
    let worker = &outcome.measured.generator.workers[0];
    // Nearly all of the second, but for what the machine gave to others.
    assert!(worker.spun_ns > 300_000_000 && worker.spun_ns < SECOND, "{worker:?}");
}
