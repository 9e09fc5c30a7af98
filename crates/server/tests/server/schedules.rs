//! Schedules: what is asked for is what happens, never earlier.

use std::time::{Duration, Instant};

use crate::peer::{Peer, server};

#[test]
fn delays_are_never_shorter_than_asked_for() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    for delay in [0, 1, 5, 20] {
        let start = Instant::now();
        assert_eq!(peer.get(&format!("/test?delay={delay}ms&size=3")).body.len(), 3);
        assert!(start.elapsed() >= Duration::from_millis(delay));
    }
    let start = Instant::now();
    peer.get("/test?delay=300us");
    assert!(start.elapsed() >= Duration::from_micros(300));
}

#[test]
fn the_kth_request_gets_the_kth_delay_and_size() {
    let server = server(2);
    let expected = [(0, 10), (30, 0), (0, 20), (30, 10), (0, 0), (30, 20)];
    for (delay, size) in expected {
        let mut peer = Peer::connect(&server);
        let start = Instant::now();
        let answer = peer.get("/schedule?delays=0,30ms&sizes=10,0,20");
        assert_eq!(answer.body.len(), size);
        assert!(start.elapsed() >= Duration::from_millis(delay));
    }
    // Another spelling has a count of its own.
    assert_eq!(Peer::connect(&server).get("/schedule?delays=0&sizes=10,0,20").body.len(), 10);
}

#[test]
fn a_pause_comes_between_head_and_body() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.send("GET /test?pause=50ms&size=4 HTTP/1.1\r\nHost: t\r\n\r\n");
    let head = peer.read_head();
    assert_eq!((head.header("content-length"), peer.rest.len()), (Some("4"), 0));
    let start = Instant::now();
    while peer.rest.len() < 4 {
        assert!(peer.read_some().unwrap() > 0);
    }
    // The head took part of the pause to arrive.
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_body_may_drip() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let start = Instant::now();
    assert_eq!(peer.get("/test?drip=10ms&bytes=2&size=10&fill=none").text(), "??????????");
    assert!(start.elapsed() >= Duration::from_millis(40));
    let start = Instant::now();
    peer.send("GET /test?drip=10ms&chunked=1&size=5 HTTP/1.1\r\nHost: t\r\n\r\n");
    peer.read_head();
    assert_eq!(peer.chunks().len(), 5);
    assert!(start.elapsed() >= Duration::from_millis(40));
}
