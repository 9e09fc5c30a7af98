//! Corners in which memory is shared with the kernel or descriptors are reused: levels that end in the middle of
//! everything, more connections than prepared for, fewer buffers than bytes, requests that no socket takes at once,
//! limits.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::peer::{Act, Peer, counted, errors, file, one_page, run, spec};
use webstone_engine::{LevelOutcome, Plan};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_model::spec::ServerSpec;
use webstone_server::{RunningServer, ServeOptions, Server};
use webstone_workload::load::{Check, ConnectionPolicy};
use webstone_workload::{FileRequest, RequestDetail};

/// Set for the process that runs with lower limits.
const LIMITED: &str = "WEBSTONE_TEST_LIMITED";

fn server() -> RunningServer {
    Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })
    })
    .unwrap()
}

#[test]
fn a_level_may_end_with_everything_in_flight() {
    let server = server();
    // No answer is complete within two minutes.
    let workload = one_page(vec![file("/test?size=3000000000&drip=1ms&bytes=20000", None)]);
    for policy in [ConnectionPolicy::KeepAlive, ConnectionPolicy::PerRequest] {
        for _ in 0..5 {
            let mut spec = spec(server.url(), policy, 0);
            spec.load.pages = None;
            spec.load.drain = Nanos::ZERO;
            spec.client.check = Check::Content;
            // On a busy machine a worker may notice a short window only when it is over, with nothing begun yet.
            let all_in_flight = (0..8).any(|doubled| {
                spec.load.duration = Nanos::from_millis(60 << doubled);
                let outcome = run(&spec, &workload, 50);
                let counts = outcome.measured.counts;
                assert_eq!(errors(&outcome), []);
                assert_eq!((counts.succeeded, counts.in_flight), (0, counts.started));
                assert_eq!(outcome.measured.lifetime.cut_off, counts.in_flight);
                counts.in_flight == 50
            });
            assert!(all_in_flight, "{policy:?}");
        }
    }
}

#[test]
fn connections_beyond_the_registered_ones_work_alike() {
    // There is space for four files at a time; the fifth to eighth of each client exceed the table.
    let server = server();
    let mut spec = spec(server.url(), ConnectionPolicy::KeepAlive, 20);
    spec.client.parallel = 8;
    let mut files = vec![file("/test?size=1", Some(1))];
    files.extend((0..8).map(|n| file(&format!("/test?size={}&delay=20ms", 1000 + n), Some(1000 + n))));
    let outcome = run(&spec, &one_page(files), 4);
    assert_eq!(errors(&outcome), []);
    assert_eq!(outcome.measured.counts.pages_completed, 20);
    assert!((20..=32).contains(&outcome.measured.lifetime.connections), "{:?}", outcome.measured.lifetime);
    assert_eq!(outcome.measured.lifetime.received_bytes, counted(&server).bytes_sent);
}

#[test]
fn more_bytes_than_buffers_can_hold_arrive() {
    // 62 MiB are in transit at a time, and no worker has space for a sixth of it.
    let server = server();
    let mut spec = spec(server.url(), ConnectionPolicy::KeepAlive, 2000);
    spec.client.check = Check::Content;
    let outcome = run(&spec, &one_page(vec![file("/test?size=65000", Some(65_000))]), 1000);
    assert_eq!(errors(&outcome), []);
    let measured = &outcome.measured;
    assert_eq!((measured.counts.succeeded, measured.counts.body_bytes), (2000, 2000 * 65_000));
    // No connection was given up and replaced. All pages may be done before the last clients have begun.
    assert!(measured.clients.iter().all(|client| client.connects <= 1));
    assert_eq!(measured.lifetime.received_bytes, counted(&server).bytes_sent);
}

#[test]
fn requests_that_no_socket_takes_at_once_are_sent_whole() {
    let server = server();
    for (bytes, clients) in [(16 * 1024, 4), (20_000, 4), (8_000_000, 2)] {
        let before = counted(&server);
        let spec = spec(server.url(), ConnectionPolicy::KeepAlive, 8);
        let detail = RequestDetail {
            method: Some("POST".into()),
            body: Some("x".repeat(bytes)),
            ..RequestDetail::default()
        };
        let post = FileRequest { url: "/test?size=10".into(), size: Some(10), detail: detail.into() };
        let outcome = run(&spec, &one_page(vec![post]), clients);
        assert_eq!(errors(&outcome), [], "{bytes}");
        let sent = outcome.measured.lifetime.sent_bytes;
        assert!(sent > 8 * bytes as u64, "{sent}");
        assert_eq!(sent, counted(&server).bytes_received - before.bytes_received, "{bytes}");
    }
}

#[test]
fn a_connect_that_was_given_up_does_not_go_on() {
    // A full queue: the kernel drops SYNs, and a socket that is not closed retransmits them for two minutes.
    let descriptor =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&descriptor, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&descriptor, 0).unwrap();
    let listener = TcpListener::from(descriptor);
    let address = listener.local_addr().unwrap();
    let mut open = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        open.push(stream);
    }
    let knocking = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", address.port());
        table
            .lines()
            .filter(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() > 3 && words[2].ends_with(&port) && words[3] == "02"
            })
            .count()
    };
    let attempt = || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    seen.push(knocking());
                    std::thread::sleep(Duration::from_millis(10));
                }
                seen.retain(|knocking| *knocking > 0);
                seen.sort_unstable();
                seen
            });
            let mut spec = spec(&format!("http://{address}"), ConnectionPolicy::PerRequest, 0);
            spec.load.pages = None;
            // A client waits longer each time before it tries again, and many attempts must be in progress at any
            // time.
            spec.load.duration = Nanos::from_secs(3);
            spec.client.connect_timeout = Nanos::from_millis(300);
            let outcome = run(&spec, &one_page(vec![file("/", None)]), 100);
            over.store(true, Ordering::Relaxed);
            (outcome, watcher.join().unwrap())
        })
    };
    // On a busy machine, perhaps no sample was taken during an attempt, or few attempts were given up.
    let given_up = |outcome: &LevelOutcome| outcome.measured.errors.count(ErrorClass::ConnectTimeout);
    let mut attempts = (0..10).map(|_| attempt());
    let shown = attempts.find(|(outcome, seen)| seen.len() >= 3 && given_up(outcome) >= 300);
    let (outcome, seen) = shown.expect("one of ten runs is seen and gives up 300 attempts");
    // The median: while the kernel lists its sockets, both a closed one and the one in its place may be listed.
    // If attempts continued after they were given up, they would add up.
    let usual = seen[seen.len() / 2];
    assert!(usual <= 100, "{usual} attempts under way for 100 clients, {} given up", given_up(&outcome));
}

/// In a process of its own, with few descriptors and without the right to lock memory. Does nothing without the
/// variable.
#[test]
fn limited() {
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |resource, to| setrlimit(resource, Rlimit { current: Some(to), maximum: Some(to) }).unwrap();
    limit(Resource::Memlock, 0);
    limit(Resource::Nofile, 150);
    let server = server();
    let mut spec = spec(server.url(), ConnectionPolicy::KeepAlive, 200);
    // 4 × 40 connections are more than the descriptors allowed; 40 are used.
    spec.client.parallel = 4;
    let outcome = run(&spec, &one_page(vec![file("/test?size=100", Some(100))]), 40);
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 200));
}

#[test]
fn limits_of_the_system_are_respected() {
    if std::env::var_os(LIMITED).is_some() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "corners::limited", "--nocapture"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// What the lag consists of is tested on a simulated network; here, that the kernel's stamps arrive.
#[test]
fn the_kernel_stamps_what_one_connection_receives() {
    let server = server();
    let spec = spec(server.url(), ConnectionPolicy::KeepAlive, 1000);
    // The kernel begins to stamp a little after it is asked to.
    let has_lags = (0..50).any(|_| {
        let outcome = run(&spec, &one_page(vec![file("/test?size=100", Some(100))]), 4);
        let lags = outcome.measured.generator.receive_lag.len();
        assert!(lags <= 1000, "{lags} samples");
        lags > 0
    });
    assert!(has_lags);
}

#[test]
fn connections_spread_evenly_over_pairs_of_addresses() {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    let seen = Arc::new(std::sync::Mutex::new(BTreeMap::new()));
    let urls: Vec<String> = (0..3)
        .map(|_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let seen = seen.clone();
            std::thread::spawn(move || {
                while let Ok((mut stream, from)) = listener.accept() {
                    let seen = seen.clone();
                    std::thread::spawn(move || {
                        let pair = (from.ip(), address.port());
                        *seen.lock().unwrap().entry(pair).or_insert(0) += 1;
                        let mut buffer = [0; 4096];
                        while matches!(stream.read(&mut buffer), Ok(n) if n > 0) {
                            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                                return;
                            }
                        }
                    });
                }
            });
            format!("http://{address}")
        })
        .collect();
    for (policy, pages, clients) in
        [(ConnectionPolicy::KeepAlive, 48, 24), (ConnectionPolicy::KeepAlive, 12, 12)]
    {
        seen.lock().unwrap().clear();
        let mut spec = spec(&urls[0], policy, pages);
        spec.target.clone_from(&urls);
        spec.client.source = vec!["127.0.0.2-127.0.0.4".parse().unwrap(), "127.0.0.9".parse().unwrap()];
        let outcome = run(&spec, &one_page(vec![file("/", Some(0))]), clients);
        assert_eq!(errors(&outcome), []);
        let counts: Vec<u32> = seen.lock().unwrap().values().copied().collect();
        assert_eq!(counts, vec![clients / 12; 12], "{policy:?}: {:?}", seen.lock().unwrap());
    }
    let mut spec = spec(&urls[0], ConnectionPolicy::KeepAlive, 1);
    spec.client.source = vec!["192.0.2.1".parse().unwrap()];
    let error = Plan::compile(&spec, &one_page(vec![file("/", None)])).unwrap_err();
    assert!(error.what.starts_with("--source: cannot connect from 192.0.2.1"), "{}", error.what);
}

#[test]
fn an_early_answer_ends_a_long_request() {
    // The peer reads only the head, answers and closes: the rest of the request cannot be sent.
    let peer = Peer::start(vec![
        Act::Write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        Act::Finish,
    ]);
    let mut spec = spec(&peer.url, ConnectionPolicy::PerRequest, 6);
    spec.client.body = Some("x".repeat(6_000_000));
    spec.client.method = "POST".to_owned();
    let outcome = run(&spec, &one_page(vec![file("/", None)]), 2);
    assert_eq!(outcome.measured.counts.failed, 6);
    assert_eq!(outcome.measured.errors.count(ErrorClass::WrongStatus), 6, "{:?}", errors(&outcome));
}
