//! Messages and connections: versions, keep-alive, HEAD, pipelining, request bodies, bad requests, `/send`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use webstone_model::spec::ServerSpec;

use crate::peer::{Peer, content_of, counters_when, server, start};

#[test]
fn an_answer_has_the_expected_head() {
    let server = server(1);
    let answer = Peer::connect(&server).get("/small.html");
    assert_eq!((answer.status, answer.version.as_str()), (200, "HTTP/1.1"));
    assert_eq!(answer.body, content_of("/small.html", 500));
    assert_eq!(answer.header("server"), Some(concat!("webstone/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(answer.header("content-length"), Some("500"));
    assert_eq!(answer.header("content-type"), Some("text/html"));
    for name in ["date", "last-modified"] {
        let date = answer.header(name).unwrap();
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{name}: {date}");
    }
}

#[test]
fn a_connection_is_kept_for_many_requests() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    for _ in 0..50 {
        assert_eq!(peer.get("/small.html").body.len(), 500);
        assert_eq!(peer.get("/empty.txt").body.len(), 0);
        assert_eq!(peer.get("/none").status, 404);
    }
    assert_eq!(server.counters().accepted, 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
    let paths =
        ["/small.html", "/none", "/send?size=3&fill=pattern", "/large.bin", "/empty.txt", "/small.html"];
    peer.send(&paths.map(one).concat());
    let sizes: Vec<usize> = paths.iter().map(|_| peer.answer(false).body.len()).collect();
    assert_eq!(sizes[0], 500);
    assert_eq!(sizes[2..], [3, 3_000_000, 0, 500]);
    assert!(peer.rest.is_empty());
}

#[test]
fn a_client_that_closes_its_half_gets_its_answer() {
    let server = server(1);
    for path in ["/large.bin", "/small.html"] {
        let mut peer = Peer::connect(&server);
        peer.send(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
        peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = peer.answer(false);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-length").unwrap(), answer.body.len().to_string());
        assert!(peer.is_closed());
    }
}

#[test]
fn the_client_may_end_the_connection() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.send("GET /small.html HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    let answer = peer.answer(false);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(peer.is_closed());
}

#[test]
fn http_1_0_ends_the_connection_unless_asked_to_keep_it() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    peer.send("GET /small.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = peer.answer(false);
    assert_eq!((answer.version.as_str(), answer.body.len()), ("HTTP/1.0", 500));
    assert_eq!(answer.header("connection"), Some("keep-alive"));
    peer.send("GET /small.html HTTP/1.0\r\n\r\n");
    assert_eq!(peer.answer(false).body.len(), 500);
    assert!(peer.is_closed());
}

#[test]
fn without_keep_alive_each_connection_has_one_answer() {
    let server = start(ServerSpec { keep_alive: false, threads: 1, ..ServerSpec::default() });
    for version in ["1.1", "1.0"] {
        let mut peer = Peer::connect(&server);
        peer.send(&format!("GET /small.html HTTP/{version}\r\nHost: t\r\nConnection: keep-alive\r\n\r\n"));
        let answer = peer.answer(false);
        assert_eq!(answer.body.len(), 500);
        assert_ne!(answer.header("connection"), Some("keep-alive"));
        assert!(peer.is_closed());
    }
}

#[test]
fn what_a_client_sends_too_much_does_not_destroy_its_answer() {
    let server = start(ServerSpec { keep_alive: false, threads: 1, ..ServerSpec::default() });
    for _ in 0..20 {
        let mut peer = Peer::connect(&server);
        // Far more than one read takes: a server that closed with these bytes unread would reset the connection.
        peer.send(&"GET /small.html HTTP/1.1\r\nHost: t\r\n\r\n".repeat(3000));
        assert_eq!(peer.answer(false).body.len(), 500);
        assert!(peer.is_closed());
    }
}

#[test]
fn head_announces_and_sends_nothing() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    for (path, length) in [
        ("/small.html", "500"),
        ("/large.bin", "3000000"),
        ("/empty.txt", "0"),
        ("/send?size=77", "77"),
        ("/test", "1000"),
    ] {
        peer.send(&format!("HEAD {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let answer = peer.answer(true);
        assert_eq!((answer.status, answer.header("content-length")), (200, Some(length)), "{path}");
    }
    assert_eq!(peer.get("/small.html").body.len(), 500);
    assert!(peer.rest.is_empty());
}

#[test]
fn other_methods_are_told_which_are_allowed() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        peer.send(&format!("{method} /small.html HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody"));
        let answer = peer.answer(false);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
}

#[test]
fn request_bodies_are_read_to_their_end() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let body = "x".repeat(1_000_000);
    peer.send(&format!("POST /send?size=5 HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n{body}"));
    assert_eq!(peer.answer(false).body.len(), 5);
    peer.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "abcde");
    peer.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(peer.read_head().status, 100);
    peer.send("ok");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.send(&format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", (16 << 20) + 1));
    peer.send(&"y".repeat((16 << 20) + 1));
    assert_eq!(peer.answer(false).status, 413);
    assert_eq!(peer.get("/small.html").status, 200);
}

#[test]
fn what_is_not_http_gets_400() {
    let server = server(1);
    let cases = ["GARBAGE\r\n\r\n", "GET /small.html HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n"];
    for bytes in cases {
        let mut peer = Peer::connect(&server);
        peer.send(bytes);
        assert_eq!(peer.answer(false).status, 400, "{bytes}");
        assert!(peer.is_closed());
    }
    let mut peer = Peer::connect(&server);
    peer.send(&format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(200_000)));
    assert_eq!(peer.answer(false).status, 431);
    let counters = counters_when(&server, |counters| counters.open == 0);
    assert_eq!((counters.bad_requests, counters.requests), (4, 0));
}

#[test]
fn send_makes_what_it_is_asked_for() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    let default = peer.get("/send");
    assert_eq!((default.status, default.body.len()), (200, 10_240));
    assert!(default.body.iter().all(|byte| (63..89).contains(byte)));
    assert_ne!(peer.get("/send").body, default.body);
    let pattern: Vec<u8> = (0..1000_u32).map(|index| 63 + (index % 26) as u8).collect();
    assert_eq!(peer.get("/send?size=1000&fill=pattern").body, pattern);
    assert_eq!(peer.get("/send?fill=none&size=9").text(), "?????????");
    assert_eq!(peer.get("/send?size=1m").body.len(), 1_000_000);
    assert_eq!(peer.get("/send?size=0").body.len(), 0);
    let four = peer.get("/send?size=6250&writes=4&fill=pattern");
    assert_eq!((four.body.len(), four.header("content-length")), (6250, Some("6250")));
}

#[test]
fn send_says_what_is_wrong_with_its_parameters() {
    let server = server(1);
    let mut peer = Peer::connect(&server);
    for (query, expected) in [
        ("size=many", "size=many: "),
        ("size=-1", "whole number"),
        ("size=10&writes=11", "from 1 to 10"),
        ("writes=0", "from 1 to 10240"),
        ("fill=zero", "random, pattern or none"),
        ("sise=1", "sise: unknown parameter"),
        ("size=1&size=2", "size is given twice"),
    ] {
        let answer = peer.get(&format!("/send?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains(expected), "{query}: {}", answer.text());
    }
}

#[test]
fn a_unix_socket_serves_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listen = format!("unix:{},127.0.0.1:0", path.display());
    let server = start(ServerSpec { listen, threads: 1, ..ServerSpec::default() });
    assert_eq!(server.ready().addresses.len(), 2);
    assert_eq!(server.ready().addresses[0], format!("unix:{}", path.display()));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /small.html HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&content_of("/small.html", 500)));
    assert_eq!(Peer::connect(&server).get("/small.html").status, 200);
    assert_eq!(server.stop().counters.responses, 2);
    assert!(!path.exists());
}

#[test]
fn ipv6_serves_too() {
    let server = start(ServerSpec { listen: "[::1]:0".to_owned(), threads: 1, ..ServerSpec::default() });
    assert!(server.url().starts_with("http://[::1]:"), "{}", server.url());
    assert_eq!(Peer::connect(&server).get("/small.html").status, 200);
}

#[test]
fn a_request_without_exactly_one_host_gets_400() {
    let server = server(1);
    let requests = [
        ("GET /small.html HTTP/1.1\r\n\r\n", "no Host"),
        ("GET /small.html HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "more than one Host"),
        ("GET /small.html HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", "more than one Host"),
        ("GET /small.html HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", "more than one Host"),
        (
            "POST /send HTTP/1.1\r\nHost: a b\r\nContent-Length: 4\r\n\r\nbody",
            "not a host with an optional port",
        ),
        ("GET /.webstone/counters HTTP/1.1\r\n\r\n", "no Host"),
    ];
    for (request, what) in requests {
        let mut peer = Peer::connect(&server);
        peer.send(request);
        let answer = peer.answer(false);
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{request}");
        assert!(answer.text().contains(what), "{request}: {}", answer.text());
        assert!(peer.is_closed());
    }
    let mut peer = Peer::connect(&server);
    peer.send("GET /small.html HTTP/1.0\r\n\r\n");
    assert_eq!(peer.answer(false).status, 200, "HTTP/1.0 knows no Host");
    let counters = counters_when(&server, |counters| counters.open == 0);
    assert_eq!(counters.bad_requests, 5, "the connection that asked for the counters is in none");
}
