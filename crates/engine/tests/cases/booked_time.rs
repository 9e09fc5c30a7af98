//! Every nanosecond of every client is accounted for, whatever goes wrong: a request is in progress, the client waits
//! on purpose, or, in open loop, it is free. The sum is exact, so these tests do not depend on how busy the machine
//! is.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, run_level};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_workload::Workload;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::GeneratorTask;

use super::peer::{Act, Peer, file, one_page, spec};

const CLIENTS: u32 = 48;
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn troubled(url: &str, policy: ConnectionPolicy) -> GeneratorTask {
    let mut spec = spec(url, policy, 0);
    spec.load.pages = None;
    // All clients have begun when the window opens.
    spec.load.warmup = Nanos::from_millis(30);
    spec.generator.workers = 2;
    spec
}

/// Runs a level and compares the clients' accounted time with their number.
fn run(spec: &GeneratorTask, workload: &Workload, rate: Option<&str>) -> LevelOutcome {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let rate = rate.map(|rate| rate.parse().unwrap());
    let job = LevelJob { rate, ..LevelJob::new(plan, CLIENTS) };
    let outcome = run_level(&job, &Control::new()).unwrap();
    let counts = outcome.measured.counts;
    let free_ns = outcome.measured.open_loop.as_ref().map_or(0, |open_loop| open_loop.free_ns);
    assert_eq!(
        counts.busy_ns + counts.idle_ns + free_ns,
        u64::from(CLIENTS) * outcome.measured.window_ns,
        "{counts:?}, free for {free_ns} ns"
    );
    outcome
}

/// In closed loop, and in open loop with more arrivals than can be served. On a busy machine the error may come late;
/// then the window is made longer.
fn both_loops(mut spec: GeneratorTask, workload: &Workload, expected: ErrorClass) {
    for rate in [None, Some("20000")] {
        let has_trouble = (0..8).any(|doubled| {
            spec.load.duration = Nanos::from_millis(200 << doubled);
            run(&spec, workload, rate).measured.errors.count(expected) > 0
        });
        assert!(has_trouble, "{rate:?}: nothing failed as {}", expected.name());
    }
}

#[test]
fn time_around_connections_closed_without_an_answer_is_accounted_for() {
    let peer = Peer::start(vec![Act::Finish]);
    both_loops(troubled(&peer.url, PerRequest), &one_page(vec![file("/", None)]), ErrorClass::ClosedEarly);
    let peer = Peer::start(vec![Act::Write(OK.as_bytes()[..39].to_vec()), Act::Finish]);
    let whole = one_page(vec![file("/", None), file("/two", None)]);
    both_loops(troubled(&peer.url, KeepAlive), &whole, ErrorClass::ShortBody);
}

#[test]
fn time_around_resets_is_accounted_for() {
    let peer = Peer::start(vec![Act::Reset]);
    both_loops(troubled(&peer.url, PerPage), &one_page(vec![file("/", None)]), ErrorClass::Reset);
}

/// Some of these resets arrive while the client still connects, or before it has sent its request.
#[test]
fn time_around_connections_reset_as_they_are_made_is_accounted_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = rustix::net::sockopt::set_socket_linger(stream.unwrap(), Some(Duration::ZERO));
        }
    });
    both_loops(troubled(&url, PerRequest), &one_page(vec![file("/", None)]), ErrorClass::Reset);
}

#[test]
fn time_around_refused_connections_is_accounted_for() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    both_loops(troubled(&url, KeepAlive), &one_page(vec![file("/", None)]), ErrorClass::Refused);
}

#[test]
fn time_around_connects_that_time_out_is_accounted_for() {
    // A queue of one that is never emptied: the kernel drops every further SYN.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let address = std::net::TcpListener::from(socket);
    let url = format!("http://{}", address.local_addr().unwrap());
    let mut spec = troubled(&url, PerRequest);
    spec.client.connect_timeout = Nanos::from_millis(40);
    both_loops(spec, &one_page(vec![file("/", None)]), ErrorClass::ConnectTimeout);
}

#[test]
fn time_around_answers_that_never_come_is_accounted_for() {
    let workload = one_page(vec![file("/", None)]);
    let peer = Peer::start(vec![Act::Hold]);
    let mut spec = troubled(&peer.url, KeepAlive);
    spec.client.first_byte_timeout = Nanos::from_millis(60);
    both_loops(spec, &workload, ErrorClass::FirstByteTimeout);
    let peer = Peer::start(vec![Act::Write(OK.as_bytes()[..20].to_vec()), Act::Hold]);
    let mut spec = troubled(&peer.url, KeepAlive);
    spec.client.request_timeout = Nanos::from_millis(60);
    both_loops(spec, &workload, ErrorClass::RequestTimeout);
}

#[test]
fn time_around_answers_that_are_refused_is_accounted_for() {
    let peer = Peer::start(vec![Act::Write(OK.as_bytes().to_vec())]);
    let workload = one_page(vec![file("/", Some(3)), file("/two", Some(2))]);
    both_loops(troubled(&peer.url, KeepAlive), &workload, ErrorClass::WrongLength);
}

/// Of eight requests in turn: five answered, one closed, one reset, one never answered; kept connections are
/// sometimes closed after their answer, and the request is sent again.
#[test]
fn time_around_errors_of_all_kinds_is_accounted_for() {
    let turn = AtomicUsize::new(0);
    let peer = Peer::start_with(move |_| {
        let answer = Act::Write(OK.as_bytes().to_vec());
        match turn.fetch_add(1, Relaxed) % 8 {
            0 => vec![Act::Finish],
            1 => vec![Act::Reset],
            2 => vec![Act::Hold],
            3 => vec![answer, Act::Finish],
            _ => vec![answer],
        }
    });
    for policy in [KeepAlive, PerPage, PerRequest] {
        let mut workload = one_page(vec![file("/", None), file("/two", None)]);
        workload.pages[0].think = Nanos::from_millis(1);
        let mut spec = troubled(&peer.url, policy);
        spec.client.first_byte_timeout = Nanos::from_millis(60);
        both_loops(spec, &workload, ErrorClass::FirstByteTimeout);
    }
}

/// A worker reads the clock every 10 ms, so when it learns that this window is open, it is already over. The same
/// happens to a worker that gets no CPU throughout a longer one.
#[test]
fn a_window_that_is_over_before_a_worker_sees_it_is_accounted_for() {
    let peer = Peer::start(vec![Act::Write(OK.as_bytes().to_vec())]);
    let mut spec = troubled(&peer.url, KeepAlive);
    spec.load.duration = Nanos(1_000);
    for rate in [None, Some("1000")] {
        let outcome = run(&spec, &one_page(vec![file("/", None)]), rate);
        assert_eq!(outcome.measured.window_ns, 1_000);
        assert_eq!(outcome.measured.generator.workers.len(), 2);
    }
}
