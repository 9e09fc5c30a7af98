//! Open loop: exact counts of a schedule, and latencies that are what theory says of a server that stands still.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::peer::{errors, file, one_page, spec};
use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, Transaction, run_level};
use webstone_model::arrivals::{ArrivalProcess, Arrivals};
use webstone_model::identities::{Expectation, check};
use webstone_model::metrics::{Histogram, OpenLoop};
use webstone_model::spec::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_model::spec::{RunSpec, ServerSpec, WhenBusy};
use webstone_model::units::Nanos;
use webstone_model::workload::Workload;
use webstone_server::{RunningServer, ServeOptions, Server};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// What server, kernel and a busy test machine may add. The delays below are larger.
const OVERHEAD_NS: u64 = 250_000_000;

fn server() -> RunningServer {
    Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })
    })
    .unwrap()
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
    run_job(spec, workload, clients, rate, None)
}

fn run_job(
    spec: &RunSpec,
    workload: &Workload,
    clients: u32,
    rate: &str,
    transactions: Option<SyncSender<Vec<Transaction>>>,
) -> LevelOutcome {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let rate = Some(rate.parse().unwrap());
    let outcome = run_level(&LevelJob { plan, clients, rate, trace: None, transactions }, &Control::new());
    let outcome = outcome.unwrap();
    let expected = Expectation { clients: clients.into(), one_request_each: true, server_bytes: None };
    let checks = check(&outcome.measured, &expected);
    assert!(checks.iter().any(|check| check.number == 2));
    for identity in checks {
        assert!(identity.holds, "{identity:?}");
    }
    outcome
}

/// Runs a level of one worker whose server answers nobody for `span_ns`, `from_ns` after the first request reached it. Every
/// latency is held against the schedule and against the instants of its own transaction, and every transaction against the
/// stall. How late clients, kernel and server are on a busy machine shows in the instants, so none of this depends on it.
/// Beside the outcome: how many arrivals of the window had not ended with it, and by how much the stall's place is uncertain.
fn run_through_a_stall(
    seconds: u64,
    (from_ns, span_ns): (u64, u64),
    clients: u32,
    rate: &str,
) -> (LevelOutcome, u64, u64) {
    let server = server();
    let spec = open_spec(server.url(), KeepAlive, seconds);
    let url = format!("/test?freeze={from_ns}ns,{span_ns}ns&size=10");
    let (sender, receiver) = sync_channel(100_000);
    let outcome = run_job(&spec, &one_page(vec![file(&url, Some(10))]), clients, rate, Some(sender));
    assert_eq!(errors(&outcome), vec![]);
    let mut transactions: Vec<Transaction> = receiver.iter().flatten().collect();
    transactions.sort_by_key(|transaction| transaction.intended_ns);

    // Each is an arrival of the schedule, charged from the instant at which it was due.
    let due = Arrivals::new(ArrivalProcess::Constant, rate.parse().unwrap(), spec.client.seed, 0, 1);
    let due: Vec<i64> =
        due.map(|due| due as i64).take_while(|due| *due < (seconds * SECOND) as i64).collect();
    let unended = due.len() - transactions.len();
    assert!(transactions.windows(2).all(|pair| pair[0].intended_ns < pair[1].intended_ns), "none twice");
    let (mut corrected, mut uncorrected) = (Histogram::new(), Histogram::new());
    for transaction in &transactions {
        assert!(due.binary_search(&transaction.intended_ns).is_ok(), "{transaction:?} is on the schedule");
        corrected.record((transaction.end_ns - transaction.intended_ns) as u64);
        uncorrected.record((transaction.end_ns - transaction.start_ns) as u64);
    }
    assert!(outcome.measured.histograms.response == corrected, "from the intended start");
    assert!(schedule(&outcome).uncorrected.response == uncorrected, "from the actual start");
    let total_ns: i64 = transactions.iter().map(|one| one.end_ns - one.intended_ns).sum();
    assert_eq!(outcome.measured.response.sum, total_ns as u64);

    // The first request reached the server behind its start and before its answer: so far is the stall's place known.
    let first = transactions.iter().min_by_key(|transaction| transaction.first_byte_ns).unwrap();
    let reached_ns =
        (transactions.iter().map(|one| one.start_ns).min().unwrap(), first.first_byte_ns.unwrap());
    let (from_ns, until_ns) = (reached_ns.1 + from_ns as i64, reached_ns.0 + (from_ns + span_ns) as i64);
    for transaction in &transactions {
        let meets_it = (from_ns..until_ns).contains(&transaction.start_ns);
        assert!(!meets_it || transaction.end_ns >= until_ns, "{transaction:?} until {until_ns}");
    }
    (outcome, unended as u64, (reached_ns.1 - reached_ns.0) as u64)
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
/// waits for its end: a tenth of all, evenly between 1 s and nothing. But only ten requests are on their way meanwhile.
#[test]
fn a_stall_of_one_second_is_charged_to_every_arrival_that_it_delays() {
    let (outcome, unended, uncertain_ns) = run_through_a_stall(10, (3 * SECOND, SECOND), 10, "1000");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, open_loop.skipped), (10_000, 0));
    // Whoever arrives x before its end waits for at least x. A busy machine makes more of them slow, never fewer.
    for waits_ms in [990, 900, 750, 500, 250, 100] {
        let slow = above(&outcome.measured.histograms.response, waits_ms * MS * 999 / 1000) + unended;
        let delayed = (1000 - waits_ms).saturating_sub(uncertain_ns / MS + 1);
        assert!(slow >= delayed, "{slow} of at least {delayed} waited for {waits_ms} ms");
    }
    // From the actual start a client has at most one slow request each half a second, and 500 arrivals were slow in one.
    let slow = above(&open_loop.uncorrected.response, SECOND / 2);
    assert!(slow <= 10 * 20, "{slow}");
    assert!(open_loop.response.sum <= outcome.measured.response.sum);
    assert!(open_loop.waited + unended + uncertain_ns / MS >= 900, "{open_loop:?}");
}

#[test]
fn with_a_client_for_every_arrival_both_latencies_show_the_stall() {
    let (outcome, unended, uncertain_ns) = run_through_a_stall(4, (SECOND, SECOND), 600, "400");
    let open_loop = schedule(&outcome);
    assert_eq!((open_loop.planned, open_loop.skipped), (1600, 0));
    let slow = above(&outcome.measured.histograms.response, SECOND / 2 * 999 / 1000) + unended;
    // 400 arrivals a second.
    assert!(slow >= 200_u64.saturating_sub(uncertain_ns * 4 / (10 * MS) + 1), "{slow} slow requests");
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
    // A client has one request at a time: each is slow once in the stall, and could be six times in 3 s on a busy machine.
    let slow = above(&outcome.measured.histograms.response, SECOND / 2);
    assert!((10..=60).contains(&slow), "{slow} of some thousand");
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
