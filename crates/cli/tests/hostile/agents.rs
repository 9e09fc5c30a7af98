//! Agents that flood, and that tell of what no machine can do.

use std::fs;
use std::path::Path;

use crate::program::Server;
use crate::records::confined;

/// A run whose agent is this Python program.
fn with_agent(dir: &Path, program: &str) -> Option<crate::program::Said> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
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

/// Greets, and answers as an agent does; what is different stands behind it.
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
        answer(number, {"Closed": closed(host)})
    else: answer(number, {"Found": {"listens": True, "cpus": [0], "strange": [], "environment": {}, "boot": None}})
def closed(host): return {"host": host, "server": None, "behind": {"nanos": 0}}
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
fn an_agent_that_tells_of_more_cpu_time_than_there_was() {
    let dir = tempfile::tempdir().unwrap();
    let absurd = "def closed(host):\n    host[\"cpus\"] = [{\"cpu\": 0, \"busy_ns\": 2**63, \"idle_ns\": 2**62}]\n    \
                  return {\"host\": host, \"server\": {\"user_ns\": 2**63, \"system_ns\": 0}, \"behind\": {\"nanos\": 0}}\n\
                  while True: ordinary(asked())\n";
    let Some(said) = with_agent(dir.path(), &format!("{AGENT}{absurd}")) else { return };
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    let run = &record(dir.path())["iterations"][0];
    let why = run["server_missing"].as_str().unwrap_or_default();
    assert!(why.contains("CPU 0 cannot have been busy for 9223372036.855 s"), "{why}");
    assert_eq!(run["server_host"], serde_json::Value::Null);
}

fn record(dir: &Path) -> serde_json::Value {
    let run = crate::program::only_entry(&dir.join("runs"));
    serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap()
}
