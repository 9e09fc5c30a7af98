//! `workout` through the program: a server that copes, one that does not, and invalid values.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::own_servers::is_installed;
use crate::program::{Server, webstone, webstone_in};

#[test]
fn the_embedded_server_survives_every_misdeed() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(
        dir.path(),
        &[
            "workout",
            "-w",
            "workout-16k",
            "-c",
            "4",
            "-d",
            "700ms",
            "--rounds",
            "2",
            "--offenders",
            "14",
            "--vary",
            "--json",
        ],
    );
    let whole: Value = serde_json::from_str(&said.out).unwrap();
    for question in ["serves", "keeps-descriptors", "stays-up"] {
        let answers = whole["answers"].as_array().unwrap();
        let answer = answers.iter().find(|answer| answer["question"] == question).unwrap();
        assert_eq!(answer["is_good"], true, "{said:?}");
    }
    let phases = whole["workout"]["phases"].as_array().unwrap();
    let kinds: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["before", "during", "during", "after"]);
    let mut sums = BTreeMap::<&str, [u64; 3]>::new();
    for misdeed in phases.iter().flat_map(|phase| phase["misdeeds"].as_array().unwrap()) {
        let sum = sums.entry(misdeed[0].as_str().unwrap()).or_default();
        for (place, field) in ["tried", "answered", "rejected"].iter().enumerate() {
            sum[place] += misdeed[1][field].as_u64().unwrap();
        }
    }
    assert_eq!(sums.len(), 7, "{sums:?}");
    assert!(sums.values().all(|[tried, ..]| *tried > 0), "{sums:?}");
    // A half-closed connection must get its answer; bytes that are not a request must get none.
    assert!(sums["half-closed"][1] > 0 && sums["malformed"][1] == 0 && sums["malformed"][2] > 0, "{sums:?}");
    assert!(said.err.contains("] round 2: ") && said.err.contains(" misdeeds"), "{}", said.err);
}

#[test]
fn a_server_that_crashes_is_reported_with_exit_code_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It exits when it receives anything that does not begin a request.
    let server = std::thread::spawn(move || {
        let mut request = [0; 4096];
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let Ok(read @ 1..) = connection.read(&mut request) else { continue };
            if request[..read].windows(11).any(|window| window == b"X-Oversized") {
                return;
            }
            let _ =
                connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let said = webstone(&[
        "workout",
        &url,
        "-w",
        "workout-0k",
        "-c",
        "2",
        "-d",
        "300ms",
        "--misdeeds",
        "oversized-header",
        "--offenders",
        "1",
        "--rounds",
        "1",
    ]);
    server.join().unwrap();
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("it no longer answers"), "{}", said.out);
    assert!(said.err.contains("not so: stays up: "), "{}", said.err);
}

#[test]
fn invalid_values_are_refused_with_a_remedy() {
    for (arguments, message) in [
        (&["--misdeeds", "loud"][..], "`loud` is not a misdeed\nhint: write one of break-request"),
        (&["--break", "--misdeeds", "malformed"], "--misdeeds"),
        (&["--offenders", "5000"], "--offenders 5000: each is a thread"),
        (&["-d", "0s"], "--duration 0s: a phase needs time"),
        (&["--rounds", "0"], "--rounds"),
        (&["http://127.0.0.1:1", "--server", "nginx"], "--server"),
    ] {
        let said = webstone(&[&["workout"], arguments].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}: {said:?}");
        assert!(said.err.contains(message), "{arguments:?}: {}", said.err);
    }
    let said = webstone(&["workout", "http://127.0.0.1:1", "-d", "1s"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("127.0.0.1:1"), "{}", said.err);
}

/// What happened to each misdeed over all rounds of a short workout that the server survived: tried, not connected,
/// answered, rejected, closed.
fn borne(more: &[&str]) -> (BTreeMap<String, [u64; 5]>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let fixed = [
        "workout",
        "-w",
        "workout-16k",
        "-c",
        "4",
        "-d",
        "500ms",
        "--rounds",
        "2",
        "--offenders",
        "7",
        "--json",
    ];
    let said = webstone_in(dir.path(), &[&fixed[..], more].concat());
    let whole: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{more:?}: {said:?}"));
    let answers = whole["answers"].as_array().unwrap();
    let stays_up = answers.iter().find(|answer| answer["question"] == "stays-up").unwrap();
    assert_eq!(stays_up["is_good"], true, "{more:?}: {said:?}");
    let mut sums = BTreeMap::<String, [u64; 5]>::new();
    let phases = whole["workout"]["phases"].as_array().unwrap();
    for misdeed in phases.iter().flat_map(|phase| phase["misdeeds"].as_array().unwrap()) {
        let sum = sums.entry(misdeed[0].as_str().unwrap().to_owned()).or_default();
        for (place, field) in ["tried", "not_connected", "answered", "rejected", "closed"].iter().enumerate()
        {
            sum[place] += misdeed[1][field].as_u64().unwrap();
        }
    }
    assert!(sums.values().all(|[tried, ..]| *tried > 0), "{more:?}: {sums:?}");
    // On a busy machine few requests may be served, but none must fail.
    let failed = |phase: &Value| phase["service"]["failed"].as_u64().unwrap();
    assert_eq!(phases.iter().map(failed).sum::<u64>(), 0, "{more:?}: {said:?}");
    // Handshakes succeed, so that the misdeeds go through TLS; otherwise the server would have reported nothing.
    let (tried, lost) = sums.values().fold((0, 0), |(tried, lost), sum| (tried + sum[0], lost + sum[1]));
    assert!(lost * 10 < tried, "{more:?}: {sums:?}");
    (sums, whole["workout"].clone())
}

#[test]
fn misdeeds_go_through_tls_and_http2() {
    for (flags, speaks) in [
        (&["--tls"][..], "HTTP/1.1 over TLS"),
        (&["--tls", "--server-tls-versions", "1.2"], "HTTP/1.1 over TLS"),
        (&["--http", "2"], "HTTP/2"),
        (&["--tls", "--http", "2"], "HTTP/2 over TLS"),
    ] {
        let (sums, workout) = borne(flags);
        assert_eq!(workout["speaks"], speaks);
        let is_http2 = speaks.starts_with("HTTP/2");
        assert_eq!(workout["target"].as_str().unwrap().starts_with("https://"), speaks.ends_with("TLS"));
        assert_eq!(sums.len(), if is_http2 { 6 } else { 7 }, "{flags:?}: {sums:?}");
        // What is left out is reported with the reason.
        assert_eq!(workout["left_out"].is_null(), !is_http2, "{workout}");
        if is_http2 {
            assert_eq!(workout["left_out"][0][0], "half-closed");
            assert!(workout["left_out"][0][1].as_str().unwrap().contains("HTTP/2"), "{workout}");
        } else if flags.len() == 1 {
            // TLS 1.3 has half-closed connections: RFC 8446, section 6.1.
            assert!(sums["half-closed"][2] > 0, "{flags:?}: {sums:?}");
        }
        // The server decrypted the bytes, and found that they were not a request.
        let [_, _, answered, rejected, closed] = sums["malformed"];
        assert!(answered == 0 && rejected + closed > 0, "{flags:?}: {sums:?}");
        assert!(is_http2 || rejected > 0, "{flags:?}: {sums:?}");
        let [_, _, answered, rejected, closed] = sums["oversized-header"];
        assert!(answered == 0 && rejected + closed > 0, "{flags:?}: {sums:?}");
        assert!(sums["break-response"][2] > 0, "a response is read before it is broken off: {sums:?}");
    }
}

#[test]
fn what_the_server_decides_is_decided_before_anybody_misbehaves() {
    for (flags, speaks) in [
        (&["--http", "auto"][..], "HTTP/1.1"),
        (&["--http", "auto", "--tls"], "HTTP/1.1 over TLS"),
        (&["--follow"], "HTTP/1.1"),
    ] {
        let (_, workout) = borne(flags);
        assert_eq!(workout["speaks"], speaks);
        let failed = |phase: &Value| !phase["service"]["error"].is_null();
        assert!(!workout["phases"].as_array().unwrap().iter().any(failed), "{workout}");
    }
}

#[test]
fn nginx_over_tls_survives_them_as_well() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    for flags in [&["--tls"][..], &["--tls", "--http", "2"]] {
        let (sums, workout) = borne(&[&["--server", "nginx"], flags].concat());
        assert!(workout["target"].as_str().unwrap().starts_with("https://"), "{workout}");
        let [_, _, answered, rejected, closed] = sums["malformed"];
        assert!(rejected + closed > answered, "{flags:?}: {sums:?}");
        assert!(sums["break-response"][2] > 0, "{flags:?}: {sums:?}");
        let [_, _, answered, rejected, closed] = sums["oversized-header"];
        assert!(answered == 0 && rejected + closed > 0, "{flags:?}: {sums:?}");
    }
}

#[test]
fn impossible_workouts_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        webstone_in(dir.path(), &["workout", "--http", "2", "--misdeeds", "half-closed", "-d", "300ms"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    assert!(said.err.contains("--misdeeds half-closed cannot be done in HTTP/2: "), "{}", said.err);
    assert!(said.err.contains("\nhint: ask for others, or give --http 1.1"), "{}", said.err);
    let both =
        ["workout", "--http", "2", "--misdeeds", "half-closed,malformed", "-d", "300ms", "--rounds", "1"];
    let said = webstone_in(dir.path(), &both);
    assert!(said.out.contains("in HTTP/2: how the server took them"), "{}", said.out);
    assert!(said.out.contains("half-closed was left out: "), "{}", said.out);
    // An untrusted certificate is found before any client misbehaves.
    let server = Server::start(dir.path(), &["--tls"]);
    let said = webstone_in(dir.path(), &["workout", &server.url, "-w", "workout-0k", "-d", "300ms"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("certificate"), "{}", said.err);
}
