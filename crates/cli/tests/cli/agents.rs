//! `--server-agent`: real agents with real servers, in a network namespace if possible, and what happens to a run
//! whose agent does not start, dies, hangs, or is orphaned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::namespace::Namespace;
use crate::program::{Running, Said, Server, assert_ended, command, program, webstone, webstone_in};

/// Longer than anything here takes on the slowest machine; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A load that leaves enough CPU time for the agent on a machine that runs other tests, too.
const LIGHT: [&str; 6] = ["-c", "2", "-d", "3s", "--warmup", "0s"];

/// An agent that writes its process identifier to a file.
pub(crate) fn traced(dir: &Path) -> (String, PathBuf) {
    let file = dir.join("agent.pid");
    (format!("sh -c 'echo $$ > {}; exec {} agent'", file.display(), program()), file)
}

pub(crate) fn pid_in(file: &Path) -> u32 {
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()) {
            Some(pid) => return pid,
            None => assert!(Instant::now() < until, "the agent starts"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_gone(pid: u32) -> bool {
    let until = Instant::now() + PATIENCE;
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    // A zombie counts as gone, too.
    while state().is_some_and(|stat| !stat.contains(") Z ")) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

pub(crate) fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
}

/// The record of a run whose readings were in time: on a busy machine they may not be, which is not what is tested.
pub(crate) fn in_time(mut run: impl FnMut() -> Value) -> Value {
    for _ in 0..10 {
        let record = run();
        let runs = record["iterations"].as_array().unwrap();
        let is_late = |run: &Value| run["server_missing"].as_str().is_some_and(|why| why.contains("late"));
        if !runs.iter().any(is_late) {
            return record;
        }
    }
    panic!("ten runs in a row were late")
}

/// Checks what a run with an agent must have, wherever the server is.
fn assert_measured(record: &Value, levels: usize) {
    let runs = record["iterations"].as_array().unwrap();
    assert_eq!(runs.len(), levels);
    for run in runs {
        assert_eq!(run["server_missing"], Value::Null, "{run}");
        let (server, there) = (&run["server"], &run["server_host"]);
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{server} {there}"));
        assert!(number(&server["user_ns"]) + number(&server["system_ns"]) > 0);
        assert_eq!(number(&server["processes"]["processes_max"]), 1);
        assert!(number(&server["processes"]["descriptors_max"]) > 3);
        let host = &there["host"];
        assert!(number(&host["probes"]) >= 2 && number(&host["probe_cpu_ns"]) > 0);
        let delays = number(&there["opening_delay_ns_max"]) + number(&there["close_delay_ns_max"]);
        assert!(delays > 0 && delays <= number(&run["measured"]["window_ns"]) / 20);
        assert!(number(&host["elapsed_ns"]) > 0);
        assert!(host["tcp"]["segments_sent"].as_u64().unwrap() > 0);
        assert_eq!(host["interfaces"].as_array().unwrap().len(), 1);
        assert!(!host["cpus"].as_array().unwrap().is_empty());
        assert_eq!(host["descriptors"], Value::Null, "those would be the agent's");
    }
    let agent = &record["target"]["agent"];
    assert!(agent["round_trip_ns_min"].as_u64().unwrap() > 0 && agent["version"].is_string(), "{agent}");
    assert!(!agent["cpus"].as_array().unwrap().is_empty());
    let facts = &record["environment"]["server.environment"];
    for fact in ["cpu.model", "memory.bytes", "kernel.release", "limits", "network.interfaces"] {
        assert!(!facts[fact].is_null(), "{fact}");
    }
    assert!(facts["sysctl"]["net.core.somaxconn"].is_string());
    assert_eq!(record["environment"]["target.same_machine"], true);
}

#[test]
fn a_server_is_measured_by_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "standard"]);
    let agent = format!("{} agent", program());
    let run = [&["run", &server.url, "-R", "300,600", "-q", "--full", "--server-agent", &agent], &LIGHT[..]]
        .concat();
    let mut said = None;
    let record = in_time(|| {
        said = Some(webstone_in(dir.path(), &run));
        json(&webstone_in(dir.path(), &["report", "last", "--format", "json"]))
    });
    let said = said.unwrap();
    assert_ended(&said);
    for words in
        ["CPUs there", "Network there", "as the server's host counts it", "server on", "monitoring overhead"]
    {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert_measured(&record, 2);
    assert_eq!(record["spec"]["server"]["agent"], agent);
    let csv = webstone_in(dir.path(), &["report", "last", "--format", "csv"]).out;
    assert!(csv.lines().next().unwrap().contains(",server_host_close_delay_max_s,server_missing,"), "{csv}");
    let html = webstone_in(dir.path(), &["report", "last", "--format", "html"]).out;
    assert!(html.contains("server.environment.kernel.release"));
}

#[test]
fn an_agent_is_named_in_a_testbed_file_and_for_hit_and_find() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let agent = format!("{} agent", program());
    fs::write(
        dir.path().join("testbed.toml"),
        format!(
            "target = [\"{}\"]\n[load]\nclients = \"2\"\nrate = \"500\"\nduration = \"3s\"\nwarmup = \"0s\"\n\
             [server]\nagent = \"{agent}\"\n",
            server.url
        ),
    )
    .unwrap();
    let arguments = ["run", "-f", "testbed.toml", "--no-store", "-q", "--format", "json"];
    assert_measured(&in_time(|| json(&webstone_in(dir.path(), &arguments))), 1);
    let url = format!("{}/file500.html", server.url);
    let arguments =
        [&["hit", &url, "-R", "500", "-q", "--format", "json", "--server-agent", &agent], &LIGHT[..]];
    let arguments = arguments.concat();
    assert_measured(&in_time(|| json(&webstone_in(dir.path(), &arguments))), 1);
    let arguments = [
        "find",
        &url,
        "--slo",
        "errors<50%",
        "--from",
        "500",
        "--to",
        "500",
        "-d",
        "3s",
        "--warmup",
        "0s",
        "--repeats",
        "3",
        "--no-store",
        "-q",
        "--format",
        "json",
        "--server-agent",
        &agent,
    ];
    let record = in_time(|| json(&webstone_in(dir.path(), &arguments)));
    assert_measured(&record, record["iterations"].as_array().unwrap().len());
}

#[test]
fn a_server_behind_another_network_is_measured_there() {
    let Some(namespace) = Namespace::make() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = namespace.serve(&["--threads", "1"]);
    let url = format!("http://{}:8080", namespace.address);
    let agent = format!("ip netns exec {} {} agent", namespace.name, program());
    let run = [&["run", &url, "-R", "500", "-q", "--server-agent", &agent], &LIGHT[..]].concat();
    let record = in_time(|| {
        let said = webstone_in(dir.path(), &run);
        assert_ended(&said);
        json(&webstone_in(dir.path(), &["report", "last", "--format", "json"]))
    });
    assert_measured(&record, 1);
    assert_eq!(record["warnings"], serde_json::json!([]));
    assert_eq!(record["environment"]["target.this_host"], false);
    let (here, there) = (&record["iterations"][0]["host"], &record["iterations"][0]["server_host"]["host"]);
    // The kernel reports 10 Gbit/s for a pair of virtual interfaces, which is not their limit.
    for interface in [&here["interfaces"][0], &there["interfaces"][0]] {
        assert!(interface["name"].is_string() && interface["speed_bps"].is_null(), "{interface}");
    }
    let only = |host: &Value| host["interfaces"][0].clone();
    assert!(only(here)["name"].as_str().unwrap().starts_with("wsa"), "{here}");
    assert!(only(there)["name"].as_str().unwrap().starts_with("wsb"), "{there}");
    // One end of the pair receives what the other sends, except for the time between the two readings.
    let (sent, received) = (&only(there)["sent_bytes"], &only(here)["received_bytes"]);
    let (sent, received) = (sent.as_f64().unwrap(), received.as_f64().unwrap());
    assert!((0.5..2.0).contains(&(sent / received)), "{sent} {received}");
    let rules = webstone_in(dir.path(), &["certify", "last", "--format", "json"]).out;
    let rules: Value = serde_json::from_str(&rules).unwrap_or_else(|_| panic!("{rules}"));
    let text = rules.to_string();
    assert!(text.contains("the server's own, as its agent read it, in the environment"), "{text}");
    assert!(text.contains("its agent runs on the load generator's machine"), "{text}");
    // Started on this side of the pair, the agent sees another server than the load does.
    let strange = format!("{} agent", program());
    let run = [&["run", &url, "-R", "500", "--no-store", "--server-agent", &strange], &LIGHT[..]].concat();
    let said = webstone_in(dir.path(), &run);
    assert_ended(&said);
    assert!(said.err.contains(&format!("does not have the address {}", namespace.address)), "{}", said.err);
    assert!(said.err.contains("nothing listens on port 8080 where the agent runs"), "{}", said.err);
    drop(server.stdin.take());
    server.wait().unwrap();
}

#[test]
fn an_invalid_agent_ends_the_run_before_any_load() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    for (agent, expected) in [
        (
            "/nonexistent/agent",
            "error: cannot start the agent `/nonexistent/agent`: No such file or directory",
        ),
        (
            "sh -c 'echo WEBSTONE-AGENT 999 7.7.7; cat'",
            "but webstone 7.7.7 on the other side speaks version 999\nhint: install the same version",
        ),
        ("sh -c 'echo Welcome; cat'", "broke the protocol: it sent `Welcome` instead of a greeting"),
        (
            "sh -c 'echo no key >&2; exit 255'",
            "ended: exit status 255; it said:\n  no key\nhint: try it by hand",
        ),
    ] {
        let said = webstone_in(
            dir.path(),
            &["run", &server.url, "-c", "1", "-d", "1s", "-q", "--server-agent", agent],
        );
        assert_eq!(said.code, 1, "{agent}: {}", said.err);
        assert!(said.err.contains(expected), "{agent}: {}", said.err);
        assert!(!dir.path().join("runs").exists(), "nothing was measured");
    }
    assert!(server.end().err.is_empty());
}

#[test]
fn an_agent_needs_a_server_elsewhere() {
    for (arguments, expected) in [
        (
            &["run", "--server-agent", "ssh web1 webstone agent"][..],
            "but this one is started here, by webstone",
        ),
        (
            &["run", "http://a", "--server-agent", "'"][..],
            "--server-agent (server.agent): `'` is not a command",
        ),
        (&["run", "http://a", "--server-agent", " "][..], "is not a command"),
        (
            &["hit", "http://a/", "--unix-socket", "/x", "--server-agent", "ssh a webstone agent"][..],
            "through --unix-socket (client.unix_socket)",
        ),
    ] {
        let said = webstone(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn the_end_of_a_run_is_the_end_of_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    for (name, code) in [("KILL", -1), ("INT", 130)] {
        let (agent, file) = traced(dir.path());
        let _ = fs::remove_file(&file);
        let arguments = ["run", &server.url, "-c", "1", "-d", "1h", "--warmup", "0s", "--no-store"];
        let mut run = Running::start(dir.path(), &[&arguments[..], &["--server-agent", &agent]].concat());
        run.wait_for("standard on ");
        let pid = pid_in(&file);
        run.signal(name);
        let said = run.end();
        assert_eq!(said.code, code, "{name}: {}", said.err);
        assert!(is_gone(pid), "{name}: the agent {pid} is left");
    }
}

#[test]
fn an_agent_that_dies_or_hangs_takes_nothing_else_along() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    for (name, reason) in [("KILL", "it ended: killed by signal 9"), ("STOP", "it did not answer within 5s")]
    {
        let (agent, file) = traced(dir.path());
        let _ = fs::remove_file(&file);
        let arguments = [
            "run",
            &server.url,
            "-c",
            "1,2",
            "-d",
            "2s",
            "--warmup",
            "2s",
            "--retries",
            "0",
            "--no-store",
            "--format",
            "json",
        ];
        let mut run = Running::start(dir.path(), &[&arguments[..], &["--server-agent", &agent]].concat());
        // The agent has started, and the first level's warm-up has not ended yet.
        run.wait_for("standard on ");
        let pid = pid_in(&file);
        signal(name, pid);
        let said = run.end();
        // Other programs may disturb the windows, which gives exit code 4 and is not what is tested.
        assert!([0, 4].contains(&said.code), "{name}: {}", said.err);
        assert!(
            said.err.contains(&format!("warning: figures of the server are missing: {reason}")),
            "{}",
            said.err
        );
        let record = json(&said);
        let runs = record["iterations"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            assert!(run["measured"]["counts"]["succeeded"].as_u64().unwrap() > 0);
            assert_eq!((&run["server"], &run["server_host"]), (&Value::Null, &Value::Null));
            assert!(run["server_missing"].as_str().unwrap().starts_with(reason), "{run}");
        }
        let warning = record["warnings"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(warning.starts_with("figures of the server are missing in 2 of 2 timed runs"), "{warning}");
        assert!(is_gone(pid));
    }
}

#[test]
fn by_hand_it_says_what_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    // `script` provides a terminal; every Debian system has it.
    let line = format!("{} agent", program());
    let output =
        Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("is started by a run on another host, not by hand"), "{text}");
    assert!(
        text.contains("hint: on the host that makes the load: webstone run http://HOST --server-agent"),
        "{text}"
    );
    // Without a terminal, it prints one line and ends when its input ends.
    let said = command(dir.path(), &["agent"]).output().unwrap();
    assert_eq!(said.status.code(), Some(0));
    assert!(String::from_utf8(said.stdout).unwrap().starts_with("WEBSTONE-AGENT 8 "));
}
