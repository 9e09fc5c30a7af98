//! Counters and the access log: exact when nothing is under way.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters};

use crate::peer::{Peer, counters, counters_when, server, start};

#[test]
fn counts_and_bytes_are_exact_after_a_mixed_load() {
    let server = server(2);
    let clients = 100;
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let url = server.url().to_owned();
            std::thread::spawn(move || {
                let mut expected = Counters::default();
                for client in (0..clients).filter(|client| client % 4 == thread) {
                    one_client(&url, client, &mut expected);
                }
                expected
            })
        })
        .collect();
    let mut expected = Counters::default();
    for thread in threads {
        let part = thread.join().unwrap();
        expected.requests += part.requests;
        expected.responses += part.responses;
        expected.faults += part.faults;
        expected.bytes_sent += part.bytes_sent;
        expected.body_bytes_sent += part.body_bytes_sent;
        expected.bytes_received += part.bytes_received;
        expected.status.success += part.status.success;
        expected.status.client_error += part.status.client_error;
    }
    let found = counters_when(&server, |counters| counters.open == 0);
    let expected = Counters {
        accepted: clients,
        threads: 2,
        pid: std::process::id(),
        uptime_ns: found.uptime_ns,
        ..expected
    };
    assert_eq!(found, expected);
}

/// A client that does one of several things, and what the server must have counted of it.
fn one_client(url: &str, client: u64, expected: &mut Counters) {
    let mut peer = Peer::at(url);
    // Of whole answers only.
    let mut bodies = 0;
    match client % 5 {
        0 => {
            for _ in 0..10 {
                let answer = peer.get("/small.html");
                assert_eq!(answer.status, 200);
                bodies += answer.body.len();
            }
            expected.responses += 10;
            expected.status.success += 10;
        }
        1 => {
            let answer = peer.get("/none");
            assert_eq!(answer.status, 404);
            bodies += answer.body.len();
            expected.responses += 1;
            expected.status.client_error += 1;
        }
        2 => {
            peer.send("GET /test?size=1000&fault=reset&after=500 HTTP/1.1\r\nHost: t\r\n\r\n");
            assert!(peer.read_to_end().1.is_err());
            expected.faults += 1;
        }
        3 => {
            assert_eq!(peer.get("/large.bin").body.len(), 3_000_000);
            bodies += 3_000_000;
            peer.send("HEAD /large.bin HTTP/1.1\r\nHost: t\r\n\r\n");
            peer.answer(true);
            expected.responses += 2;
            expected.status.success += 2;
        }
        _ => {
            peer.send("GET /test?size=1000&fault=truncate HTTP/1.1\r\nHost: t\r\n\r\n");
            assert!(peer.read_to_end().1.is_ok());
            expected.faults += 1;
        }
    }
    expected.body_bytes_sent += bodies as u64;
    expected.requests = expected.responses + expected.faults;
    expected.bytes_sent += peer.received;
    expected.bytes_received += peer.sent;
}

#[test]
fn an_answer_is_counted_before_its_client_can_know() {
    let server = server(2);
    let mut peer = Peer::connect(&server);
    for number in 1..=300 {
        peer.get("/small.html");
        let counters = server.counters();
        assert_eq!((counters.responses, counters.requests), (number, number));
        assert_eq!((counters.bytes_sent, counters.bytes_received), (peer.received, peer.sent));
    }
}

#[test]
fn who_asks_for_the_counters_is_not_counted() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.get("/small.html");
    assert_eq!(counters(&server).accepted, 1);
    // A connection that asks for counters later takes back what it had added.
    let answer = peer.get(COUNTERS_PATH);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let found: Counters = serde_json::from_slice(&answer.body).unwrap();
    let expected = Counters { threads: 1, pid: found.pid, uptime_ns: found.uptime_ns, ..Counters::default() };
    assert_eq!(found, expected);
    peer.get("/small.html");
    drop(peer);
    let found = counters(&server);
    assert_eq!(found, Counters { uptime_ns: found.uptime_ns, ..expected });
}

#[test]
fn a_client_that_goes_away_leaves_an_aborted_answer() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.send("GET /test?size=1g HTTP/1.1\r\nHost: t\r\n\r\n");
    peer.read_head();
    drop(peer);
    // One that sends nothing is a connection and nothing else.
    drop(TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap());
    let counters = counters_when(&server, |counters| counters.open == 0 && counters.accepted == 2);
    assert_eq!((counters.requests, counters.responses, counters.aborted), (1, 0, 1));
}

#[test]
fn the_log_has_a_line_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let access_log = Some(path.to_str().unwrap().to_owned());
    let server = start(ServerSpec { access_log, threads: 2, ..ServerSpec::default() });
    let mut peer = Peer::connect(&server);
    for _ in 0..200 {
        peer.get("/a\"b?q=1");
    }
    peer.get("/none");
    peer.send("HEAD /small.html HTTP/1.0\r\n\r\n");
    peer.answer(true);
    let mut spoilt = Peer::connect(&server);
    spoilt.send("GET /test?size=10&fault=truncate HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(spoilt.read_to_end().1.is_ok());
    counters(&server);
    // Within a second the lines are there, while the server runs on.
    let lines = || std::fs::read_to_string(&path).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while lines().lines().count() < 203 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut kinds: HashMap<String, u32> = HashMap::new();
    for line in lines().lines() {
        let (before, after) = line.split_once(" [").unwrap();
        let (time, rest) = after.split_once("] ").unwrap();
        assert!(before == "127.0.0.1 - -" && time.ends_with(" +0000") && time.len() == 26, "{line}");
        *kinds.entry(rest.to_owned()).or_default() += 1;
    }
    let expected = [
        (r#""GET /a\"b?q=1 HTTP/1.1" 404 13"#, 200),
        (r#""GET /none HTTP/1.1" 404 13"#, 1),
        (r#""HEAD /small.html HTTP/1.0" 200 -"#, 1),
        (r#""GET /test?size=10&fault=truncate HTTP/1.1" 200 5"#, 1),
    ];
    assert_eq!(kinds, expected.map(|(line, count)| (line.to_owned(), count)).into());
    let report = server.stop();
    assert_eq!((report.log_error, report.counters.log_lines_dropped), (None, 0));
    assert_eq!(lines().lines().count(), 203);
}

#[test]
fn the_log_is_whole_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let access_log = Some(path.to_str().unwrap().to_owned());
    let server = start(ServerSpec { access_log, threads: 2, ..ServerSpec::default() });
    let mut peers: Vec<Peer> = (0..6).map(|_| Peer::connect(&server)).collect();
    for peer in &mut peers {
        peer.get("/small.html");
    }
    assert_eq!(server.stop().counters.responses, 6);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 6);
}

#[test]
fn the_log_may_name_clients() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let access_log = Some(path.to_str().unwrap().to_owned());
    let spec = ServerSpec { access_log, resolve_names: true, threads: 1, ..ServerSpec::default() };
    let server = start(spec);
    assert_eq!(Peer::connect(&server).get("/small.html").status, 200);
    server.stop();
    let name = dns_lookup::lookup_addr(&"127.0.0.1".parse().unwrap()).unwrap();
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(log.starts_with(&format!("{name} - - [")), "{log}");
}

#[test]
fn a_stop_lets_answers_end() {
    let server = server(2);
    let mut peer = Peer::connect(&server);
    peer.stream.write_all(b"GET /test?delay=150ms&size=5 HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    while server.counters().requests < 1 {
        std::thread::yield_now();
    }
    let report = server.stop();
    assert_eq!(peer.answer(false).body.len(), 5);
    assert_eq!((report.counters.responses, report.counters.aborted, report.counters.open), (1, 0, 1));
}
