//! Agents that flood, and that report what no machine can do.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{Said, Server};
use crate::records::confined;

/// A run whose agent is this Python program.
fn with_agent(dir: &Path, program: &str) -> Option<Said> {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped();
        return None;
    }
    fs::write(dir.join("agent.py"), program).unwrap();
    let server = Server::start(dir, &["--threads", "1"]);
    Some(confined(
        dir,
        &[
            "run",
            &server.url,
            "--server-agent",
            "python3 agent.py",
            "-c",
            "1",
            "-d",
            "2s",
            "--warmup",
            "0s",
            "-q",
            "--no-check",
        ],
    ))
}

#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn skipped() {
    eprintln!("skipped: python3 is not installed");
}

/// A greeting, and the answers of an ordinary agent; each test adds differences.
const AGENT: &str = r#"
import json, struct, sys, time
i, o = sys.stdin.buffer, sys.stdout.buffer
line = i.readline()
o.write(line); o.flush()
def answer(number, message):
    body = json.dumps({"number": number, "message": message}).encode()
    o.write(struct.pack(">I", len(body)) + body); o.flush()
def asked():
    head = i.read(4)
    if len(head) < 4: sys.exit(0)
    return json.loads(i.read(struct.unpack(">I", head)[0]))
opened = 0
def ordinary(ask):
    global opened
    kind, number = ask["message"], ask["number"]
    if kind == "Echo": answer(number, {"Echoed": {"received_ns": 1, "sent_ns": 2}})
    elif kind == "Level": answer(number, "Ready")
    elif kind == "Open":
        opened = time.monotonic_ns(); answer(number, {"Opened": {"nanos": 0}})
    elif kind == "Close":
        host = {"elapsed_ns": time.monotonic_ns() - opened, "tcp": None, "cpus": [], "interfaces": [], "ports": None,
                "descriptors": None, "descriptors_max": None}
        answer(number, {"Closed": {"window": window(host), "last_slice": None}})
    else: answer(number, {"Found": {"ports": kind["Find"]["ports"]["numbers"], "identity": {"network": None, "sockets": [], "processes": []}, "listens": True, "cpus": [0], "strange": [], "environment": {}, "boot": None}})
def window(host): return {"host": host, "server": None, "age": {"nanos": 0}}
"#;

#[test]
fn an_agent_that_answers_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "while True:\n    ask = asked(); ordinary(ask)\n    if ask[\"message\"] == \"Level\":\n        \
                 while True: answer(99, {\"Refused\": \"x\" * 1000000})\n";
    let Some(said) = with_agent(dir.path(), &format!("{AGENT}{flood}")) else { return };
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    let record = record(dir.path());
    assert!(record["iterations"][0]["measured"]["counts"]["succeeded"].as_u64().unwrap() > 0);
    let why = record["iterations"][0]["server_missing"].as_str().unwrap_or_default();
    assert!(why.contains("sent an answer that was not asked for"), "{why}: {said:?}");
}

#[test]
fn an_agent_whose_standard_error_is_one_endless_line() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "import threading\ndef shout():\n    while True: sys.stderr.write(\"x\" * 1000000)\n\
                 threading.Thread(target=shout, daemon=True).start()\nwhile True: ordinary(asked())\n";
    let Some(said) = with_agent(dir.path(), &format!("{AGENT}{flood}")) else { return };
    assert!(said.code == 0 || said.code == 4, "{said:?}");
}

#[test]
fn an_agent_that_reports_more_cpu_time_than_there_was() {
    let dir = tempfile::tempdir().unwrap();
    let absurd = "def window(host):\n    host[\"cpus\"] = [{\"cpu\": 0, \"busy_ns\": 2**63, \"idle_ns\": 2**62}]\n    \
                  return {\"host\": host, \"server\": {\"user_ns\": 2**63, \"system_ns\": 0}, \"age\": {\"nanos\": 0}}\n\
                  while True: ordinary(asked())\n";
    let Some(said) = with_agent(dir.path(), &format!("{AGENT}{absurd}")) else { return };
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    let run = &record(dir.path())["iterations"][0];
    let why = run["server_missing"].as_str().unwrap_or_default();
    assert!(why.contains("CPU 0 cannot have been busy for 9223372036.855 s"), "{why}");
    assert_eq!(run["server_host"], serde_json::Value::Null);
}

/// A generator's agent: takes part in a level like an ordinary one, and sends what `result` says.
const GENERATOR: &str = r#"
import hashlib, json, struct, sys, time
i, o = sys.stdin.buffer, sys.stdout.buffer
line = i.readline()
o.write(line); o.flush()
def answer(number, message):
    body = json.dumps({"number": number, "message": message}).encode()
    o.write(struct.pack(">I", len(body)) + body); o.flush()
def asked():
    while True:
        head = i.read(4)
        if len(head) < 4: sys.exit(0)
        length = struct.unpack(">I", head)[0]
        body = i.read(length & 0x7fffffff)
        if not length >> 31: return json.loads(body)
def described(number):
    answer(number, {"Load": {"Described": {"name": "x", "version": VERSION, "program_sha256": "", "boot": None, "cpus": [0]}}})
def ordinary(ask):
    kind, number = ask["message"], ask["number"]
    if kind == "Echo":
        now = time.monotonic_ns()
        return answer(number, {"Echoed": {"received_ns": now, "sent_ns": now}})
    kind = kind["Load"]
    if kind == "Describe": described(number)
    elif "Prepare" in kind:
        answer(number, {"Load": {"Prepared": {"cpus": [0], "workers": 1, "has_server": False, "addresses": [], "environment": {},
                                             "warnings": []}}})
    elif "Arm" in kind: answer(number, {"Load": "Armed"})
    elif "Go" in kind: result(number, kind["Go"])
def ended(number, payload, announced, clients_from, opened):
    o.write(struct.pack(">I", len(payload) | 1 << 31) + payload)
    host = {"elapsed_ns": 1, "tcp": None, "cpus": [], "interfaces": [], "ports": None, "descriptors": None, "descriptors_max": None}
    answer(number, {"Load": {"Ended": {"measured": announced, "opened_ns": opened, "opened_at_unix_ns": 0, "interrupted": False,
                                      "first_client": clients_from, "host": host}}})
"#;

/// The output of a run with a generator that does this.
fn with_generator(dir: &Path, does: &str) -> Option<Said> {
    with_generators(dir, does, &[])
}

/// The same together with other generators.
fn with_generators(dir: &Path, does: &str, others: &[&str]) -> Option<Said> {
    let version = crate::program::webstone_in(dir, &["--version"]).out;
    let version = version.trim().trim_start_matches("webstone ").to_owned();
    fs::write(dir.join("generator.py"), format!("VERSION = {version:?}\n{GENERATOR}{does}")).unwrap();
    if Command::new("python3").arg("--version").output().is_err() {
        skipped();
        return None;
    }
    let server = Server::start(dir, &[]);
    let run = ["-c", "1", "-d", "500ms", "--warmup", "0s", "--retries", "0", "-q", "--no-check"];
    let named = ["run", &server.url, "--generator", "python3 generator.py"];
    let mut command = crate::program::command(dir, &[&named[..], others, &run].concat());
    // Results that a generator makes up need not be consistent with the run.
    Some(crate::program::said(command.env_remove("WEBSTONE_VERIFY_RECORDS")))
}

#[test]
fn a_generator_that_sends_unrequested_messages() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "live = {\"elapsed_ns\": 0, \"planned\": 0, \"offered\": 0, \"requests\": 0, \"errors\": 0, \"connections\": 0, \
                 \"pages\": 0, \"bytes\": 0, \"response_ns\": 0, \"oldest_in_flight_ns\": 0}\nasked()\nwhile True: answer(9, {\"Load\": {\"Beat\": {\"live\": live, \"response\": None, \"busiest_worker\": None}}})\n";
    let Some(said) = with_generator(dir.path(), flood) else { return };
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("broke the protocol: it says what nobody asked for"), "{}", said.err);
    assert!(!dir.path().join("runs").exists(), "nothing was measured");
}

#[test]
fn a_generator_whose_result_is_damaged_or_nobodys() {
    for (result, expected) in [
        (
            "ended(number, b\"12345\", {\"bytes\": 5, \"sha256\": \"0\" * 64}, 0, go)",
            "sent a result that cannot be: a payload of a result came damaged: its SHA-256 is another",
        ),
        (
            "ended(number, b\"12345\", {\"bytes\": 6, \"sha256\": \"0\" * 64}, 0, go)",
            "a payload of a result came damaged: 5 of 6 bytes",
        ),
        (
            "ended(number, b\"12345\", {\"bytes\": 5, \"sha256\": hashlib.sha256(b\"12345\").hexdigest()}, 0, go)",
            "it cannot be inflated",
        ),
        ("sys.exit(3)", "ended: exit status 3"),
        ("answer(number, {\"Load\": {\"Failed\": \"\\x1b[31mno memory\"}})", "failed: "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let does = format!("def result(number, go): {result}\nwhile True: ordinary(asked())\n");
        let Some(said) = with_generator(dir.path(), &does) else { return };
        assert_eq!(said.code, 4, "{result}: {} {}", said.out, said.err);
        let run = &record(dir.path())["iterations"][0];
        let why = run["lost"]["why"].as_str().unwrap_or_default();
        assert!(why.contains(expected), "{result}: {why}");
        assert!(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "{result}: {said:?}");
    }
}

#[test]
fn a_generator_that_sends_results_while_another_host_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    // The second host never appears, so the first one's answer is not read.
    let does = "payload = b\"0\" * (4 << 20)\ndef result(number, go): pass\nwhile True:\n    ask = asked(); ordinary(ask)\n    \
                if ask[\"message\"] != \"Echo\" and \"Prepare\" in ask[\"message\"][\"Load\"]:\n        \
                for sent in range(50):\n            \
                open(\"sent\", \"w\").write(str(sent)); ended(number, payload, {\"bytes\": len(payload), \"sha256\": \"\"}, 0, 1)\n";
    let Some(said) = with_generators(dir.path(), does, &["--generator", "sleep 100"]) else { return };
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("a result that was not asked for") || said.err.contains("sleep 100"),
        "{}",
        said.err
    );
    let sent: u32 = fs::read_to_string(dir.path().join("sent")).unwrap().parse().unwrap();
    assert!(sent < 10, "{sent} results were taken in");
}

fn record(dir: &Path) -> serde_json::Value {
    let run = crate::program::only_entry(&dir.join("runs"));
    serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap()
}
