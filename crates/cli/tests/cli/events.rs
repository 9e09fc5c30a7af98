//! `--events`: the stream matches the record, and delays nothing.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::webstone_in;

const RUN: [&str; 8] = ["run", "-c", "2,4", "-d", "1300ms", "-i", "1", "-K"];

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn named<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn a_stream_matches_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        [&RUN[..], &["--retries", "0", "--events", "events.ndjson", "--format", "json", "-q"]].concat();
    let said = webstone_in(dir.path(), &arguments);
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let lines = lines(&std::fs::read_to_string(dir.path().join("events.ndjson")).unwrap());
    assert!(lines.iter().all(|line| line["schema"] == 1 && line["time"].as_str().unwrap().ends_with('Z')));
    let started = named(&lines, "run-started")[0];
    assert_eq!((&started["id"], &started["steps"]), (&record["id"], &Value::from(2)));
    assert_eq!(started["spec"]["load"], record["spec"]["load"]);
    let ended = named(&lines, "level-ended");
    let iterations = record["iterations"].as_array().unwrap();
    assert_eq!(ended.len(), iterations.len());
    for (line, iteration) in ended.iter().zip(iterations) {
        assert_eq!(line["at"]["clients"], iteration["clients"]);
        assert_eq!(line["level"]["succeeded"], iteration["measured"]["counts"]["succeeded"]);
    }
    // Percentiles come once per second, and of no more requests than there were in the end.
    let with_percentiles = |line: &&&Value| line["live"]["response"].is_object();
    let ticks = named(&lines, "tick");
    // On a busy machine, copies may be too late in a window that is hardly longer than one second.
    for tick in ticks.iter().filter(with_percentiles) {
        let response = &tick["live"]["response"];
        let nanos = |name: &str| response[name].as_u64().unwrap();
        let of_level = |run: &&Value| run["clients"] == tick["at"]["clients"];
        let counts = &iterations.iter().find(of_level).unwrap()["measured"]["counts"];
        assert!(nanos("count") <= counts["succeeded"].as_u64().unwrap());
        assert!(0 < nanos("p50_ns") && nanos("p50_ns") <= nanos("p99_ns"));
        assert!(nanos("p99_ns") <= nanos("max_ns"));
    }
    assert_eq!(lines.last().unwrap()["event"], "finished");
}

#[test]
fn a_reader_that_never_reads_delays_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for reading and writing, and never read: its buffer fills up.
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let filler = "x".repeat(65_000);
    std::io::Write::write_all(&mut &_reader, filler.as_bytes()).unwrap();
    let began = Instant::now();
    let arguments = [&RUN[..], &["--retries", "0", "--events", pipe.to_str().unwrap(), "-q"]].concat();
    let said = webstone_in(dir.path(), &arguments);
    assert!(said.out.contains("bytes received") || said.code == 0 || said.code == 4, "{said:?}");
    // Two levels of 1.3 s with their warm-up: a run that waited for the reader would never end.
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_unwritable_destination_is_reported_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    for (named, reason) in [("77", "No such file"), ("missing/events", "No such file")] {
        let said = webstone_in(dir.path(), &[&RUN[..], &["--events", named]].concat());
        assert_eq!(said.code, 2, "{said:?}");
        assert!(
            said.err.contains(&format!("--events {named}: cannot be written to: {reason}")),
            "{}",
            said.err
        );
        assert!(said.err.contains("hint: name a file, or an open file descriptor"), "{}", said.err);
    }
    assert!(!dir.path().join("runs").exists());
}
