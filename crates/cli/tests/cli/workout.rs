//! `workout` through the program: a server that bears it, one that does not, and nonsense.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::program::{webstone, webstone_in};

#[test]
fn the_embedded_server_bears_every_misdeed() {
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
    let mut sums = std::collections::BTreeMap::<&str, [u64; 3]>::new();
    for misdeed in phases.iter().flat_map(|phase| phase["misdeeds"].as_array().unwrap()) {
        let sum = sums.entry(misdeed[0].as_str().unwrap()).or_default();
        for (place, field) in ["tried", "answered", "rejected"].iter().enumerate() {
            sum[place] += misdeed[1][field].as_u64().unwrap();
        }
    }
    assert_eq!(sums.len(), 7, "{sums:?}");
    assert!(sums.values().all(|[tried, ..]| *tried > 0), "{sums:?}");
    // A half-closed connection is owed its answer; what is no request gets none.
    assert!(sums["half-closed"][1] > 0 && sums["malformed"][1] == 0 && sums["malformed"][2] > 0, "{sums:?}");
    assert!(said.err.contains("] round 2: ") && said.err.contains(" misdeeds"), "{}", said.err);
}

#[test]
fn a_server_that_falls_is_told_with_exit_code_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It falls when it is sent what begins no request.
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
fn nonsense_is_refused_with_its_remedy() {
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

#[test]
fn a_server_with_tls_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    for server in [&["https://127.0.0.1:1/"][..], &["--tls"]] {
        let said = webstone_in(dir.path(), &[&["workout"], server].concat());
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("misbehaving clients send plain text"), "{}", said.err);
        assert!(said.err.contains("\nhint: stress its http:// address"), "{}", said.err);
    }
}
