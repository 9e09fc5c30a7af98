//! Every fault, as a client meets it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::peer::{Peer, counters, counters_when, server};

fn spoilt(server: &webstone_server::RunningServer, query: &str) -> (Vec<u8>, std::io::Result<()>) {
    let mut peer = Peer::connect(server);
    peer.send(&format!("GET /test?{query} HTTP/1.1\r\nHost: t\r\n\r\n"));
    peer.read_to_end()
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &bytes[at + 4..]
}

fn is_reset(end: &std::io::Result<()>) -> bool {
    end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn a_reset_is_a_reset() {
    let server = server(1);
    let (bytes, end) = spoilt(&server, "fault=reset");
    assert!(bytes.is_empty() && is_reset(&end), "{bytes:?} {end:?}");
    let (bytes, end) = spoilt(&server, "fault=reset&after=head");
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n") && is_reset(&end), "{end:?}");
    assert!(!bytes.windows(4).any(|four| four == b"\r\n\r\n"));
    let (bytes, end) = spoilt(&server, "fault=reset&after=500&size=1000");
    assert!(body_of(&bytes).len() == 500 && is_reset(&end), "{end:?}");
    let (bytes, end) = spoilt(&server, "fault=reset&after=0");
    assert!(body_of(&bytes).is_empty() && is_reset(&end), "{end:?}");
    assert_eq!((counters(&server).faults, counters(&server).responses), (4, 0));
}

#[test]
fn an_answer_may_end_too_early() {
    let server = server(1);
    let (bytes, end) = spoilt(&server, "fault=close");
    assert!(bytes.is_empty() && end.is_ok(), "{end:?}");
    let (bytes, end) = spoilt(&server, "fault=close&after=head");
    assert!(bytes.starts_with(b"HTTP/1.1 200") && end.is_ok());
    for query in ["fault=truncate&size=2000000", "fault=close&after=1000000&size=2000000"] {
        let (bytes, end) = spoilt(&server, query);
        let head = String::from_utf8_lossy(&bytes[..300]).to_string();
        assert!(head.contains("content-length: 2000000\r\n"), "{head}");
        assert_eq!(body_of(&bytes).len(), 1_000_000, "{query}");
        assert!(end.is_ok());
    }
}

#[test]
fn an_answer_may_stall() {
    let server = server(1);
    for (query, expected) in [
        ("fault=stall", 0),
        ("fault=stall&after=head", 0),
        ("fault=stall&after=7", 7),
        ("fault=stall&after=0", 0),
    ] {
        let mut peer = Peer::connect(&server);
        peer.send(&format!("GET /test?{query} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let has_body = query.ends_with(char::is_numeric);
        if has_body {
            peer.read_head();
            while peer.rest.len() < expected {
                assert!(peer.read_some().unwrap() > 0);
            }
        }
        peer.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (bytes, end) = peer.read_to_end();
        assert_eq!(end.unwrap_err().kind(), ErrorKind::WouldBlock, "{query}");
        assert!(!has_body || bytes.len() == expected, "{query}: {bytes:?}");
    }
    // The clients have gone, and with them the connections.
    let counters = counters_when(&server, |counters| counters.open == 0 && counters.faults == 4);
    assert_eq!((counters.faults, counters.responses), (4, 0));
}

#[test]
fn a_stall_may_end() {
    let server = server(1);
    for after in ["start", "head", "0", "300"] {
        let mut peer = Peer::connect(&server);
        let start = Instant::now();
        let answer = peer.get(&format!("/test?size=1000&fault=stall&after={after}&for=60ms"));
        assert!(start.elapsed() >= Duration::from_millis(60), "{after}");
        assert_eq!((answer.status, answer.body.len()), (200, 1000), "{after}");
    }
    let counters = counters(&server);
    assert_eq!((counters.faults, counters.responses), (0, 4));
}

#[test]
fn garbage_is_not_http() {
    let server = server(1);
    let (bytes, end) = spoilt(&server, "fault=garbage");
    assert!(end.is_ok() && !bytes.is_empty() && !bytes.starts_with(b"HTTP/"));
}

#[test]
fn a_chunk_may_have_no_size() {
    let server = server(1);
    let (bytes, end) = spoilt(&server, "fault=bad-chunk&size=100&fill=none");
    let expected = format!("32\r\n{}\r\nzz\r\n", "?".repeat(50));
    assert_eq!(std::str::from_utf8(body_of(&bytes)).unwrap(), expected);
    assert!(String::from_utf8_lossy(&bytes).contains("transfer-encoding: chunked\r\n") && end.is_ok());
    assert_eq!(body_of(&spoilt(&server, "fault=bad-chunk&after=0").0), b"zz\r\n");
}

#[test]
fn bytes_may_follow_an_answer() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let answer = peer.get("/test?size=1000&fault=extra&extra=11");
    assert_eq!(answer.body.len(), 1000);
    assert!(!answer.head.contains("connection: close"));
    while peer.rest.len() < 11 {
        assert!(peer.read_some().unwrap() > 0);
    }
    assert_eq!(peer.rest, b"!!!!!!!!!!!");
}

#[test]
fn an_answer_may_be_good_http_and_wrong() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    assert_eq!(peer.get("/test?size=1000&fault=wrong-length&by=-10").body.len(), 990);
    assert_eq!(peer.get("/test?size=1000&fault=wrong-length").body.len(), 1001);
    assert_eq!(peer.get("/test?size=3&fault=wrong-content").text(), "!!!");
    assert_eq!(peer.get("/test?size=3&fault=status&status=503").status, 503);
    assert_eq!(counters(&server).responses, 4);
}

#[test]
fn only_every_kth_request_has_the_fault() {
    let server = server(2);
    // Each on a new connection, so that both threads count on the same counter.
    let statuses: Vec<u16> =
        (0..12).map(|_| Peer::connect(&server).get("/test?fault=status&status=500&every=4").status).collect();
    assert_eq!(statuses, [200, 200, 200, 500, 200, 200, 200, 500, 200, 200, 200, 500]);
    let mut peer = Peer::connect(&server);
    for _ in 0..2 {
        assert_eq!(peer.get("/test?fault=reset&every=3").status, 200);
    }
    peer.send("GET /test?fault=reset&every=3 HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(is_reset(&peer.read_to_end().1));
}

#[test]
fn a_fault_follows_earlier_answers_whole() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    // The first answer is far larger than socket buffers, so that hyper still holds some of it at the second request.
    peer.send("GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\nGET /test?fault=truncate&size=10 HTTP/1.1\r\nHost: t\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(peer.answer(false).body.len(), 3_000_000);
    let (bytes, end) = peer.read_to_end();
    assert!(body_of(&bytes).len() == 5 && end.is_ok(), "{end:?}");
}

#[test]
fn heads_may_be_large_and_follow_interim_answers() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let answer = peer.get("/test?header=65536&size=1");
    assert_eq!(answer.header("x-filler").map(str::len), Some(65_536));
    peer.send("GET /test?interim=250&size=5 HTTP/1.1\r\nHost: t\r\n\r\n");
    for _ in 0..250 {
        assert_eq!(peer.read_head().status, 103);
    }
    assert_eq!(peer.answer(false).body.len(), 5);
    assert_eq!(peer.get("/test?size=5").status, 200);
}

#[test]
fn bodies_may_be_framed_in_every_way() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.send("GET /test?chunked=1&size=1000&chunk=300 HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(peer.read_head().header("transfer-encoding"), Some("chunked"));
    let sizes: Vec<usize> = peer.chunks().iter().map(Vec::len).collect();
    assert_eq!(sizes, [300, 300, 300, 100]);
    let empty = peer.get("/test?chunked=1&size=0");
    assert_eq!((empty.header("transfer-encoding"), empty.body.len()), (Some("chunked"), 0));
    assert_eq!(peer.get("/test?status=204").status, 204);
    let closing = peer.get("/test?close=1&size=4");
    assert_eq!((closing.header("connection"), closing.body.len()), (Some("close"), 4));
    assert!(peer.is_closed());
    let mut peer = Peer::connect(&server);
    let answer = peer.get("/test?until_close=1&size=1m");
    assert_eq!((answer.header("content-length"), answer.header("transfer-encoding")), (None, None));
    assert_eq!(answer.body.len(), 1_000_000);
    assert_eq!(counters_when(&server, |counters| counters.open == 0).responses, 5);
}
