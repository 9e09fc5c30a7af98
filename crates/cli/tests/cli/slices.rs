//! Slices of a window with a known disturbance: what is left out, and that every count is of the others. They run by themselves
//! (`.config/nextest.toml`), because beside other tests all slices may be disturbed, and then all count.

use std::time::Duration;

use serde_json::Value;

use crate::agents::{json, pid_in, signal, traced};
use crate::generators::{number, run, two};
use crate::own_servers::is_installed;
use crate::program::{Running, Server};

/// The record of a window that takes this long, with slices of the other length, of which something was stopped in the second: this
/// process, or the load generator itself. `None` if other programs disturbed most slices, so that all count.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn with_a_stop(
    (duration, slice): (&str, Duration),
    stopped: Option<&dyn Fn() -> u32>,
    arguments: &[&str],
) -> Option<Value> {
    let dir = tempfile::tempdir().unwrap();
    let load = ["-c", "3", "-d", duration, "--warmup", "200ms", "--retries", "0", "-q", "--no-store"];
    let output = ["--events", "events", "--format", "json"];
    let run = Running::start(dir.path(), &[&["run"], arguments, &load, &output].concat());
    run.wait_for_window(&dir.path().join("events"));
    std::thread::sleep(slice.mul_f64(1.4));
    let pid = stopped.map_or(run.child.id(), |pid| pid());
    signal("STOP", pid);
    std::thread::sleep(Duration::from_millis(300));
    signal("CONT", pid);
    let said = run.end();
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let level = &record["iterations"][0];
    for check in level["identities"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    assert!(level["slices"].as_array().unwrap().iter().any(|slice| !slice["left_out"].is_null()), "{level}");
    if level["measured"]["left_out"].is_null() {
        println!("skipped: most slices were disturbed, so all count");
        return None;
    }
    Some(record)
}

/// A window of this host's slices.
const OF_HALF_SECONDS: (&str, Duration) = ("3s", Duration::from_millis(500));
/// A window of slices that several hosts count.
const OF_SECONDS: (&str, Duration) = ("5s", Duration::from_secs(1));

/// Whether a count is that of the kept slices, and not of the window with the others: those are read some milliseconds late, and the
/// window is at least a quarter longer.
fn is_of_kept(count: &Value, expected: u64) -> bool {
    count.as_u64().unwrap().abs_diff(expected) < expected / 10
}

#[test]
fn an_origin_is_counted_in_the_slices_that_are_kept() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(record) = with_a_stop(OF_HALF_SECONDS, None, &["--server", "nginx-proxy", "-w", "workout-0k"])
    else {
        return;
    };
    let level = &record["iterations"][0];
    let (counted, succeeded) = (&level["origin"]["counted"], &level["measured"]["counts"]["succeeded"]);
    assert!(is_of_kept(&counted["requests"], succeeded.as_u64().unwrap()), "{counted} and {succeeded}");
    let window_ns = level["measured"]["window_ns"].as_u64().unwrap();
    assert!(is_of_kept(&counted["elapsed_ns"], window_ns), "{counted} and {window_ns}");
}

#[test]
fn a_path_is_counted_in_the_slices_that_are_kept() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a path needs root");
        return;
    }
    let Some(record) = with_a_stop(OF_HALF_SECONDS, None, &["--path", "rtt=2ms", "-w", "workout-64k"]) else {
        return;
    };
    let level = &record["iterations"][0];
    let (path, measured) = (&level["host"]["path"], &level["measured"]);
    let window_ns = measured["window_ns"].as_u64().unwrap();
    assert!(is_of_kept(&path["elapsed_ns"], window_ns), "{path} and {window_ns}");
    // With heads of IP, TCP and HTTP: some percent of 64 kB.
    let body_bytes = measured["counts"]["body_bytes"].as_u64().unwrap();
    assert!(is_of_kept(&path["to_clients"]["bytes"], body_bytes * 102 / 100), "{path} and {body_bytes}");
}

/// What an agent says of the server's host is of the slices that are kept, whether this program was stopped or the agent.
#[test]
fn an_agents_server_is_counted_in_the_slices_that_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--cpus", "0"]);
    let (agent, file) = traced(dir.path());
    // What it reads takes a tests' build some percent of a CPU, which the load generator would lose.
    let agent = format!("taskset -c 0 {agent}");
    let pid = || pid_in(&file);
    for stopped in [None, Some(&pid as &dyn Fn() -> u32)] {
        let run = [&*server.url, "-R", "400", "--server-agent", &agent];
        let Some(record) = with_a_stop(OF_SECONDS, stopped, &run) else { continue };
        let level = &record["iterations"][0];
        if level["server_missing"].as_str().is_some_and(|why| why.contains("late")) {
            continue; // The machine was too busy for the agent.
        }
        assert_eq!(level["server_missing"], Value::Null, "{level}");
        let slices = level["slices"].as_array().unwrap();
        let lost_percent = slices.iter().filter_map(|slice| slice["lost_percent"].as_f64());
        assert!(lost_percent.fold(0.0, f64::max) > 15.0, "{slices:?}");
        let kept = slices.iter().filter(|slice| slice["left_out"].is_null());
        let used_ns: u64 = kept.map(|slice| number(&slice["server_cpu_ns"])).sum();
        let server = &level["server"];
        assert_eq!(number(&server["user_ns"]) + number(&server["system_ns"]), used_ns, "{server}");
        let (there, window_ns) = (&level["server_host"]["host"], &level["measured"]["window_ns"]);
        assert!(is_of_kept(&there["elapsed_ns"], number(window_ns)), "{there} and {window_ns}");
    }
}

/// An agent that dies leaves the window without the server's figures; nothing else is lost.
#[test]
fn an_agent_that_dies_between_slices_costs_the_servers_figures_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--cpus", "0"]);
    let (agent, file) = traced(dir.path());
    let load =
        ["-R", "200", "-c", "3", "-d", "5s", "--warmup", "200ms", "--retries", "0", "-q", "--no-store"];
    let watched = ["--server-agent", &agent, "--events", "events", "--format", "json"];
    let run = Running::start(dir.path(), &[&["run", &server.url], &load[..], &watched].concat());
    run.wait_for_window(&dir.path().join("events"));
    std::thread::sleep(Duration::from_millis(1_400));
    signal("KILL", pid_in(&file));
    let record = json(&run.end());
    let level = &record["iterations"][0];
    let missing = level["server_missing"].as_str().unwrap();
    assert!(missing.starts_with("it ended: killed by signal 9"), "{missing}");
    assert_eq!((&level["server"], &level["server_host"]), (&Value::Null, &Value::Null));
    let measured = &level["measured"];
    assert_eq!((&measured["left_out"], number(&measured["window_ns"])), (&Value::Null, 5_000_000_000));
    assert_eq!(number(&measured["open_loop"]["planned"]), 1_000);
    for check in level["identities"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
}

/// One of two agents is stopped for a third of a second: both leave the same slices out, and what is left adds up.
#[test]
fn a_slice_in_which_one_agent_was_stopped_is_left_out_on_both() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = ["-K", "-R", "400", "-c", "20", "-d", "5s", "--warmup", "200ms", "--retries", "0"];
    let more = [&load[..], &["--events", "events", "--format", "json"]].concat();
    let controller = Running::start(dir.path(), &run(&server.url, &agents, &more));
    controller.wait_for_window(&dir.path().join("events"));
    std::thread::sleep(Duration::from_millis(1_300));
    let pid = pid_in(&agents[1].1);
    signal("STOP", pid);
    std::thread::sleep(Duration::from_millis(330));
    signal("CONT", pid);
    let record = json(&controller.end());
    let level = &record["iterations"][0];
    let slices = level["slices"].as_array().expect("slices are in the record");
    assert_eq!(slices.len(), 5, "{slices:?}");
    let is_left_out = |slice: &&Value| !slice["left_out"].is_null();
    let lost_percent = slices.iter().filter(is_left_out).filter_map(|slice| slice["lost_percent"].as_f64());
    assert!(lost_percent.fold(0.0, f64::max) > 15.0, "{slices:?}");
    for check in level["identities"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    let left_out = &level["measured"]["left_out"];
    if left_out.is_null() {
        println!("skipped: most slices were disturbed, so all count");
        assert!(slices.iter().filter(is_left_out).count() > 2, "{slices:?}");
        return;
    }
    assert_eq!(number(&left_out["slices"]), slices.iter().filter(is_left_out).count() as u64);
    let window_ns = number(&level["measured"]["window_ns"]);
    assert_eq!(window_ns + number(&left_out["ns"]), 5_000_000_000);
    let kept = slices.iter().filter(|slice| !is_left_out(slice));
    let requests: u64 = kept.map(|slice| number(&slice["requests"])).sum();
    assert_eq!(number(&level["measured"]["counts"]["succeeded"]), requests);
    // What each host used is limited to the same time.
    for part in level["parts"].as_array().unwrap() {
        let elapsed_ns = number(&part["host"]["elapsed_ns"]);
        assert!(elapsed_ns.abs_diff(window_ns) < window_ns / 5, "{elapsed_ns} of {window_ns}");
    }
}
