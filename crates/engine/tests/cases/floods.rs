//! Servers that send without end, or answer before they have read the request: each ends at a limit or a timeout, and
//! the identities hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::peer::{Act, Peer, errors, file, impatient, one_page, run, spec};
use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_measure::errors::ErrorClass::{self, AnsweredEarly, Malformed, RequestTimeout, WrongStatus};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::live::Phase;
use webstone_measure::units::Nanos;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::GeneratorTask;
use webstone_workload::{FileRequest, RequestDetail};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn write(text: &str) -> Act {
    Act::Write(text.as_bytes().to_vec())
}

fn chunk() -> Vec<u8> {
    [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat()
}

/// Four pages, two clients: all must fail in `class`.
fn fails(script: Vec<Act>, class: ErrorClass) {
    let peer = Peer::start(script);
    let outcome = run(&impatient(spec(&peer.url, KeepAlive, 4), class), &one_page(vec![file("/x", None)]), 2);
    assert_eq!(errors(&outcome), [(class, 4)], "{:?}", outcome.measured.errors);
}

#[test]
fn bodies_without_end_meet_the_request_timeout() {
    fails(vec![write(CHUNKED), Act::Flood(chunk())], RequestTimeout);
    fails(vec![write(CHUNKED), Act::Flood(b"1\r\nx\r\n".repeat(1000))], RequestTimeout);
    fails(vec![write("HTTP/1.0 200 OK\r\n\r\n"), Act::Flood(vec![b'x'; 65_536])], RequestTimeout);
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n";
    fails(vec![write(announced), Act::Flood(vec![b'x'; 65_536])], RequestTimeout);
}

#[test]
fn a_body_that_trickles_meets_the_request_timeout() {
    let mut script = vec![write("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")];
    for _ in 0..500 {
        script.extend([write("x"), Act::Wait(Duration::from_millis(20))]);
    }
    fails(script, RequestTimeout);
}

#[test]
fn heads_chunk_sizes_and_trailers_without_end_are_malformed() {
    let long = vec![b'x'; 65_536];
    fails(vec![write("HTTP/1.1 200 OK\r\nX: "), Act::Flood(long.clone())], Malformed);
    fails(vec![write("HTTP/1.1 200 OK\r\n"), Act::Flood(b"X: y\r\n".repeat(1000))], Malformed);
    fails(vec![Act::Flood(b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100))], Malformed);
    fails(vec![write(CHUNKED), write("1;"), Act::Flood(long.clone())], Malformed);
    fails(vec![write(CHUNKED), write("0\r\n"), Act::Flood(b"T: x\r\n".repeat(1000))], Malformed);
    fails(vec![write(CHUNKED), Act::Flood(b"00000000".repeat(1000))], Malformed);
}

/// A run of `millis` against servers that flood, with one request per client at a time.
fn flooded(url: &str, millis: u64) -> GeneratorTask {
    let mut spec = spec(url, PerRequest, 0);
    spec.load.pages = None;
    spec.load.duration = Nanos::from_millis(millis);
    impatient(spec, RequestTimeout)
}

#[test]
fn under_a_flood_every_client_is_always_asking() {
    let peer = Peer::start(vec![write(CHUNKED), Act::Flood(chunk())]);
    let spec = flooded(&peer.url, 2000);
    let plan = Arc::new(Plan::compile(&spec, &one_page(vec![file("/x", None)])).unwrap());
    let job = LevelJob::new(plan, 6);
    let outcome = run_level(&job, &Control::new()).unwrap();
    let expected = Expectation { clients: 6, one_request_each: true, server_bytes: None };
    for identity in check(&outcome.measured, &expected) {
        assert!(identity.holds, "{identity:?}");
    }
    assert_eq!(outcome.measured.errors.total(), outcome.measured.errors.count(RequestTimeout));
    assert!(
        outcome.measured.clients.iter().all(|client| client.errors > 0),
        "{:?}",
        outcome.measured.clients
    );
}

#[test]
fn a_flood_does_not_outlast_an_interruption() {
    let peer = Peer::start(vec![write(CHUNKED), Act::Flood(chunk())]);
    let mut spec = flooded(&peer.url, 600_000);
    spec.client.request_timeout = Nanos::from_secs(600);
    spec.load.drain = Nanos::from_secs(600);
    let plan = Arc::new(Plan::compile(&spec, &one_page(vec![file("/x", None)])).unwrap());
    let job = LevelJob::new(plan, 4);
    let control = Control::new();
    let watched = control.clone();
    let asked = peer.requests.clone();
    let watcher = std::thread::spawn(move || {
        while watched.phase() != Phase::Measuring || asked.lock().unwrap().len() < 4 {
            std::thread::sleep(Duration::from_millis(10));
        }
        watched.abort();
    });
    // That it returns at all is the test: every timeout is longer than a test may take.
    let outcome = run_level(&job, &control).unwrap();
    watcher.join().unwrap();
    assert!(outcome.interrupted);
    assert_eq!(outcome.measured.counts.in_flight, 4);
}

/// Two uploads of 32 MiB, which no socket takes at once, to a peer that has read only the head when it answers.
fn answered_early(answer: &str, expected_status: Option<u16>) -> (webstone_engine::LevelOutcome, Peer) {
    let peer = Peer::start(vec![write(answer), Act::Wait(Duration::from_millis(50)), Act::Hold]);
    let spec = spec(&peer.url, KeepAlive, 2);
    let detail = RequestDetail {
        method: Some("POST".into()),
        status: expected_status,
        body: Some("x".repeat(32 << 20)),
        ..RequestDetail::default()
    };
    let upload = FileRequest { detail: Box::new(detail), ..file("/up", None) };
    let outcome = run(&spec, &one_page(vec![upload]), 1);
    (outcome, peer)
}

#[test]
fn an_answer_to_half_a_request_is_an_error_of_its_own_and_ends_the_connection() {
    let (outcome, peer) = answered_early("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", None);
    assert_eq!(errors(&outcome), [(AnsweredEarly, 2)], "{:?}", outcome.measured.errors);
    // The second request was not taken for the body of the first.
    assert_eq!(outcome.measured.counts.connections, 2);
    let requests = peer.requests.lock().unwrap();
    assert!(requests.len() == 2 && requests.iter().all(|head| head.starts_with("POST /up ")), "{requests:?}");
    assert_eq!(outcome.measured.lifetime.requests, 0, "no request was written whole");
}

#[test]
fn an_early_refusal_is_what_its_status_says() {
    let refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
    let (outcome, _peer) = answered_early(refusal, None);
    assert_eq!(errors(&outcome), [(WrongStatus, 2)]);
    assert_eq!(outcome.measured.counts.connections, 2);
    // If the workload expects it, it is a success; but the connection is no longer usable.
    let (outcome, _peer) = answered_early(refusal, Some(413));
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 2));
    assert_eq!(outcome.measured.counts.connections, 2);
}

#[test]
fn a_flood_after_an_early_answer_is_not_read() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let peer = Peer::start_with(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        vec![write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Act::Flood(vec![b'x'; 65_536])]
    });
    let outcome = run(&spec(&peer.url, KeepAlive, 4), &one_page(vec![file("/x", None)]), 1);
    let measured = &outcome.measured;
    // It is chance whether the first surplus byte came with the answer or after it; the connection ends either way.
    assert_eq!(measured.counts.succeeded + measured.errors.count(Malformed), 4, "{:?}", measured.errors);
    assert_eq!(sent.load(Ordering::Relaxed) as u64, measured.lifetime.connections);
}
