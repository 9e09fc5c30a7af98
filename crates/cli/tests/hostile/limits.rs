//! Limits of the shell that started the program (`ulimit`): the cause is reported, and what was measured is kept.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{command, only_entry, program};

/// The program under a limit: its exit code if it ended by itself, and its messages.
fn limited(dir: &Path, limit: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let mut limited = Command::new("sh");
    limited.args(["-c", &script, &program()]).args(arguments).current_dir(dir).stdin(Stdio::null());
    let output = limited.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_file_size_limit_is_reported_like_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes: enough for some iterations, but not for all.
    let run = [
        "run",
        "-c",
        "1",
        "--iterations",
        "200",
        "-d",
        "20ms",
        "--warmup",
        "0s",
        "-q",
        "--no-check",
        "--retries",
        "0",
    ];
    let (code, said) = limited(dir.path(), "-f 200", &run);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("File too large") && said.contains("hint: "), "{said}");
    let kept = only_entry(&dir.path().join("runs"));
    let listed =
        command(dir.path(), &["report", kept.to_str().unwrap(), "--format", "json"]).output().unwrap();
    let record: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(!record["iterations"].as_array().unwrap().is_empty());
}

#[test]
fn a_thread_that_cannot_be_started_is_reported_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "-c", "1", "-d", "20ms", "--warmup", "0s", "-q", "--no-store", "--no-check"];
    // The lower bound depends on the build: below some limit no thread gets memory for its stack.
    let mut told = Vec::new();
    for megabytes in (20..200).step_by(10) {
        let (code, said) = limited(dir.path(), &format!("-v {}", megabytes << 10), &run);
        assert!(!said.contains("failed to spawn thread"), "{megabytes} MB: {said}");
        let is_silent = code.is_some_and(|code| code != 0 && code != 4) && said.is_empty();
        assert!(!is_silent, "{megabytes} MB: {code:?}");
        told.push((megabytes, code, said));
    }
    let is_told =
        |said: &str| said.contains("cannot start a thread: Resource temporarily unavailable\nhint: ");
    assert!(told.iter().any(|(_, _, said)| is_told(said) || said.contains("memory")), "{told:?}");
}
