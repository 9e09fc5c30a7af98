//! The echo between the CPUs of server and load generator: which runs have it, and that `verify` accepts it.

use std::path::Path;

use serde_json::Value;

use crate::program::webstone_in;

/// Runs until a busy machine has let both sides have their CPUs when it counted.
const TRIES: u32 = 10;

/// What was seen of the server's CPUs in the only window.
fn watched(dir: &Path, load: &[&str]) -> Vec<Value> {
    let run = ["run", "-w", "workout-0k", "-c", "4", "-d", "1500ms", "--warmup", "200ms", "--format", "json"];
    let said = webstone_in(dir, &[&run[..], load].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    record["iterations"][0]["host"]["watched"].as_array().cloned().unwrap_or_default()
}

#[test]
fn closed_loops_on_virtual_machines_have_echoes() {
    let dir = tempfile::tempdir().unwrap();
    let first = watched(dir.path(), &[]);
    if first.is_empty() {
        println!("skipped: this is no virtual machine, or server and load generator share its CPU");
        return;
    }
    let has_echoes = |watched: &[Value]| watched.iter().any(|cpu| cpu["echoes"].as_u64().is_some());
    let echoing = std::iter::once(first)
        .chain((1..TRIES).map(|_| watched(dir.path(), &[])))
        .find(|watched| has_echoes(watched))
        .expect("a worker has its CPU when it is asked, in one of ten runs");
    let cpu = echoing.iter().find(|cpu| cpu["echoes"].as_u64().is_some()).unwrap();
    let (echoes, echo_ns) = (cpu["echoes"].as_u64().unwrap(), cpu["echo_ns"].as_u64().unwrap());
    // Asked every 100 ms. Eight exchanges of four system calls each cannot take nothing.
    assert!((1..=cpu["watched_ns"].as_u64().unwrap() / 100_000_000 + 1).contains(&echoes), "{cpu}");
    assert!(echo_ns > 500, "{cpu}");
    let verified = webstone_in(dir.path(), &["verify", "last"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    // Nothing uses them in open loop.
    assert!(!has_echoes(&watched(dir.path(), &["-R", "200"])), "an open loop has none");
}
