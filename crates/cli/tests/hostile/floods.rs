//! Servers that send without pause, and how to stop a run with them.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::peer::Peer;
use crate::program::{Running, webstone_in};

fn endless() -> Peer {
    Peer::start(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
        false
    })
}

#[test]
fn a_server_that_sends_without_end_outlasts_every_timeout() {
    let flood = endless();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("{}/", flood.url());
    let arguments =
        ["hit", &url, "--no-check", "-c", "4", "-d", "2s", "--warmup", "0s", "--timeout", "300ms"];
    let said = webstone_in(dir.path(), &[&arguments[..], &["--format", "json"]].concat());
    // No response at all: the figures are useless, and the program says so.
    assert_eq!(said.code, 4, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let measured = &report["iterations"][0]["measured"];
    assert_eq!(measured["counts"]["succeeded"], 0);
    let classes: Vec<&Value> =
        measured["errors"].as_array().unwrap().iter().map(|row| &row["class"]).collect();
    assert_eq!(classes, ["request-timeout"]);
    let identities = report["iterations"][0]["identities"].as_array().unwrap();
    assert!(identities.iter().all(|identity| identity["holds"] == true), "{identities:?}");
}

#[test]
fn a_server_that_sends_without_end_cannot_be_left() {
    for signal in ["INT", "HUP"] {
        let flood = endless();
        let dir = tempfile::tempdir().unwrap();
        let url = format!("{}/", flood.url());
        let arguments = ["hit", &url, "--no-check", "-c", "4", "-d", "10m", "--warmup", "0s"];
        let timeouts = ["--timeout", "10m", "--first-byte-timeout", "10m"];
        let mut run = Running::start(dir.path(), &[&arguments[..], &timeouts].concat());
        while flood.requests().len() < 4 {
            std::thread::sleep(Duration::from_millis(10));
        }
        run.signal(signal);
        run.wait_for("ending this level; what was measured is kept (interrupt again to stop at once)");
        run.signal(signal);
        let said = run.end();
        assert_eq!(said.code, if signal == "INT" { 130 } else { 129 }, "{}", said.err);
    }
}

#[test]
fn a_body_whose_framing_is_hidden_in_a_second_one() {
    let inner = "2\r\nok\r\n0\r\n\r\n";
    let body = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    let peer = Peer::saying(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n{body}"));
    let dir = tempfile::tempdir().unwrap();
    let url = format!("{}/", peer.url());
    let arguments = ["hit", &url, "--no-check", "-c", "1", "-d", "200ms", "--warmup", "0s"];
    let said = webstone_in(dir.path(), &[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(said.code, 4, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let measured = &report["iterations"][0]["measured"];
    assert_eq!(measured["counts"]["succeeded"], 0);
    assert_eq!(measured["errors"][0]["class"], "malformed");
}
