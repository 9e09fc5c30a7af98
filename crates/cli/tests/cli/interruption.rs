//! Ctrl-C, SIGTERM, SIGHUP and kill -9: what was measured is kept.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Running, only_entry, webstone_in};

/// Many short levels: one has ended when the second begins, however fast the machine is.
const MANY: [&str; 9] = ["run", "-c", "1", "-i", "1000", "-d", "50ms", "--warmup", "0s"];

fn record(run: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(run.join("record.json")).unwrap()).unwrap()
}

#[test]
fn ctrl_c_once_keeps_reports_and_says_so() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Running::start(dir.path(), &[MANY.as_slice(), &["--format", "json"]].concat());
        run.wait_for("[1/1000] ");
        run.signal(signal);
        run.wait_for("ending this level; what was measured is kept (interrupt again to stop at once)");
        let said = run.end();
        assert_eq!(said.code, code, "{}", said.err);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(report["state"], "interrupted");
        let iterations = report["iterations"].as_array().unwrap().len();
        assert!((1..1000).contains(&iterations), "{iterations}");
        let stored = record(&only_entry(&dir.path().join("runs")));
        assert_eq!(stored["state"], "interrupted");
        assert_eq!(stored["iterations"].as_array().unwrap().len(), iterations);
    }
}

#[test]
fn an_interrupt_while_agents_start_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "sh -c 'touch up; exec sleep 60'";
    let run = Running::start(dir.path(), &["run", "http://127.0.0.1:9/", "--generator", agent, "--no-store"]);
    for _ in 0..500 {
        if dir.path().join("up").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.signal("INT");
    let said = run.end();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("interrupted before anything was measured"), "{}", said.err);
    assert!(!said.err.contains("error:"), "{}", said.err);
}

#[test]
fn an_interrupted_level_counts_the_time_that_it_ran() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["run", "-c", "2", "-d", "10m", "--warmup", "0s", "--trace", "9", "--format", "json"];
    let mut run = Running::start(dir.path(), &arguments);
    // The ninth exchange is traced, so the window is open, as there is no warm-up before it.
    run.wait_for("[9 ");
    run.signal("INT");
    let said = run.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let iteration = &report["iterations"][0];
    assert_eq!(iteration["interrupted"], true);
    assert!(iteration["measured"]["window_ns"].as_u64().unwrap() < 600_000_000_000);
    assert!(iteration["measured"]["counts"]["succeeded"].as_u64().unwrap() >= 1);
    // A window of a few milliseconds without a warm-up has no steady state, so the mean number of requests in
    // progress (identity 2) means nothing; everything else must hold.
    let checks = iteration["identities"].as_array().unwrap();
    let broken: Vec<_> =
        checks.iter().filter(|check| check["holds"] == false && check["number"] != 2).collect();
    assert!(broken.is_empty() && checks.len() > 10, "{broken:?}");
}

/// A server that answers its first requests and no others; reports when it holds one back.
fn server_that_falls_silent(answers: usize) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (silent, is_silent) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let request = BufReader::new(&stream).lines().map_while(Result::ok);
            request.take_while(|line| !line.is_empty()).for_each(drop);
            if number < answers {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                (&stream).write_all(answer).unwrap();
            } else {
                held.push(stream);
                let _ = silent.send(());
            }
        }
    });
    (url, is_silent)
}

#[test]
fn ctrl_c_twice_waits_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (url, is_silent) = server_that_falls_silent(20);
    let arguments =
        ["run", &url, "-w", "workout-0k", "-c", "1", "-d", "10m", "--warmup", "0s", "--drain", "10m"];
    let timeouts = ["--first-byte-timeout", "10m", "--timeout", "10m", "--format", "json"];
    let mut run = Running::start(dir.path(), &[arguments.as_slice(), &timeouts].concat());
    is_silent.recv().unwrap();
    run.signal("INT");
    run.wait_for("ending this level; what was measured is kept (interrupt again to stop at once)");
    run.signal("INT");
    run.wait_for("stopping at once");
    let said = run.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let measured = &report["iterations"][0]["measured"];
    assert_eq!(measured["counts"]["in_flight"], 1);
    assert_eq!(measured["lifetime"]["cut_off"], 1);
    assert_eq!(measured["counts"]["failed"], 0);
}

#[test]
fn a_killed_run_leaves_a_readable_record_and_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::start(dir.path(), &MANY);
    let opening = run.wait_for("standard on the embedded server at http://");
    run.wait_for("[3/1000] ");
    run.signal("KILL");
    assert_eq!(run.end().code, -1);

    let partial = only_entry(&dir.path().join("runs"));
    assert!(partial.to_str().unwrap().ends_with("-webstone.partial"), "{}", partial.display());
    let said = webstone_in(dir.path(), &["report", partial.to_str().unwrap(), "--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["state"], "partial");
    assert!(report["iterations"].as_array().unwrap().len() >= 3);

    let address = opening.split("http://").nth(1).unwrap().split(": ").next().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < patience, "the embedded server lives on at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the events of a run contain a text.
fn wait_for_event(file: &Path, sign: &str) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(file).unwrap_or_default().contains(sign) {
        assert!(Instant::now() < patience, "no event says {sign}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ctrl_c_after_a_void_window_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let times = ["run", "-c", "2", "-d", "3s", "--warmup", "4s", "--retries", "2", "-i", "2"];
    let mut run = Running::start(dir.path(), &[times.as_slice(), &["--events", "events.ndjson"]].concat());
    wait_for_event(&dir.path().join("events.ndjson"), r#""phase":"measuring""#);
    // Longer than a window may stand still.
    run.signal("STOP");
    std::thread::sleep(Duration::from_millis(1500));
    run.signal("CONT");
    run.wait_for("[1/2] 2 clients: too noisy, to be measured again");
    // The next window warms up for seconds.
    run.signal("INT");
    let said = run.end();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(!said.err.contains("before anything was measured"), "{}", said.err);
    let stored = only_entry(&dir.path().join("runs"));
    let kept = record(&stored);
    assert_eq!((&kept["state"], kept["voids"].as_array().unwrap().len()), (&"interrupted".into(), 1));
    assert_eq!(kept["iterations"].as_array().unwrap().len(), 0);
    for (again, words) in
        [(&["report", "last"][..], "Only void windows were measured: "), (&["list"], "void windows only")]
    {
        let shown = webstone_in(dir.path(), again);
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(shown.out.contains(words), "{}", shown.out);
    }
    assert!(said.out.contains("VOID: 1 timed run was disturbed so much"), "{}", said.out);
    assert!(said.out.contains("iteration 1 at 2 clients: "), "{}", said.out);
}
