//! Testbeds, workloads and controllers that try to read or write files, run commands and reach sockets without
//! permission.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::asker::Asker;
use crate::peer::Peer;
use crate::program::{command, webstone_in};

const SHORT: [&str; 10] = ["-c", "1", "-n", "2", "-d", "0s", "--warmup", "0s", "-q", "--no-store"];

/// A front in its own process, ended when this is dropped.
struct Front {
    child: Child,
    asker: Asker,
}

impl Front {
    fn start(dir: &Path) -> Front {
        let mut child = command(dir, &["ui", "--quiet"]).env("TMPDIR", dir.join("tmp")).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Front { child, asker: Asker::to(&address) }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const REST: &str = "[client]\nconnections = \"keep-alive\"\n[load]\nclients = \"1\"\nduration = \"100ms\"\n";

#[test]
fn a_testbed_that_names_no_command_and_runs_one() {
    let dir = tempfile::tempdir().unwrap();
    let front = Front::start(dir.path());
    let (ran, written) = (dir.path().join("ran"), dir.path().join("written"));
    let shell = format!("/bin/sh -c 'id > {} # {{port}}'", ran.display());
    for toml in [
        format!("{REST}[server]\nsoftware = \"command\"\ncommand = {shell:?}\n"),
        format!("server = [\"command\", \"stock\", \"\", {shell:?}]\n{REST}"),
        format!("server = [\"command\", \"stock\", \"\", {shell:?}, \"\"]\n{REST}"),
        format!("generator = [0, \"\", true, false, 0, 32, 0, {:?}]\n{REST}", written.display()),
        format!("{REST}[server]\nagent = {shell:?}\n"),
        format!("{REST}[server]\nagent = [{shell:?}]\n"),
        format!("{REST}[[generators]]\nagent = {shell:?}\n"),
        format!("generators = [[{shell:?}]]\n{REST}"),
    ] {
        for command in ["run", "servers", "scale", "spice", "find"] {
            let (status, said) = front.asker.post("/api/runs", &json!({ "command": command, "toml": toml }));
            assert!([403, 422].contains(&status), "{toml}: {status} {said}");
        }
    }
    assert!(!ran.exists() && !written.exists());
    assert!(!dir.path().join("runs/.live").exists(), "nothing was started");
}

#[test]
fn a_form_is_asked_for_lines_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "root:TOPSECRET:1\n").unwrap();
    let secret = dir.path().join("secret").display().to_string();
    fs::create_dir(dir.path().join("front")).unwrap();
    fs::write(
        dir.path().join("front/w.toml"),
        format!("[feeds.f]\nfile = {secret:?}\n[[pages]]\nurl = \"/\"\n"),
    )
    .unwrap();
    let front = Front::start(&dir.path().join("front"));
    for (toml, commands) in [
        (format!("workload = {secret:?}\n"), &["run", "spice"][..]),
        ("workload = \"../secret\"\n".to_owned(), &["run", "spice"]),
        ("workload = \"w.toml\"\n".to_owned(), &["run", "spice"]),
        ("workload = \"w.toml\"\nclient.allow_feeds = true\n".to_owned(), &["run", "spice"]),
        (format!("series.dynamic_workload = {secret:?}\n"), &["spice", "servers"]),
        (format!("client.tls.cacert = {secret:?}\n"), &["run"]),
        (format!("server.tls = {{ cert = {secret:?}, key = {secret:?} }}\n"), &["run"]),
        (format!("server_config = [{secret:?}]\n"), &["run"]),
    ] {
        for command in commands {
            let (_, said) = front.asker.post("/api/check", &json!({ "command": command, "toml": toml }));
            assert!(!said["problem"].is_null(), "{toml}: {said}");
            assert!(!said["problem"].to_string().contains("TOPSECRET"), "{toml}: {said}");
        }
    }
}

#[test]
fn a_form_is_asked_whether_a_file_says_something() {
    let dir = tempfile::tempdir().unwrap();
    let body = format!("@{}", dir.path().join("secret").display());
    fs::write(dir.path().join("secret"), &body).unwrap();
    let front = Front::start(dir.path());
    // The front looks for a command line with the same meaning: if it finds one, the file was read.
    let toml = format!("[client]\nmethod = \"POST\"\nbody = {body:?}\n");
    let (_, said) = front.asker.post("/api/check", &json!({ "command": "run", "toml": toml }));
    assert!(said["problem"].is_null(), "{said}");
    assert_eq!(said["command_line"], json!(["webstone", "run", "-f", "testbed.toml"]));
}

#[test]
fn secrets_of_a_form_are_looked_for_in_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tmp")).unwrap();
    let front = Front::start(dir.path());
    let toml = format!("{REST}[client.headers]\nAuthorization = \"Bearer TOPSECRET\"\n");
    front.asker.post("/api/check", &json!({ "command": "run", "toml": toml }));
    let (status, begun) = front.asker.post("/api/runs", &json!({ "command": "run", "toml": toml }));
    assert_eq!(status, 201, "{begun}");
    // While it runs, and afterwards.
    let mut seen = vec![holding("TOPSECRET", dir.path())];
    let told = front.asker.stream(&format!("/api/live/{}", begun["id"].as_str().unwrap()), |_| false);
    assert_eq!(told.last().unwrap()["finished"]["state"], "complete", "{told:?}");
    drop(front);
    seen.push(holding("TOPSECRET", dir.path()));
    assert_eq!(seen, [Vec::<String>::new(), Vec::new()]);
    let live = dir.path().join("runs/.live");
    assert_eq!(live.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

/// The files below a directory that contain a text.
fn holding(text: &str, dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(holding(text, &entry.path()));
        } else if fs::read(entry.path()).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_workload_names_a_file_of_the_users_as_its_feed() {
    let target = Peer::polite();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("theirs")).unwrap();
    fs::write(dir.path().join("secret"), "name\nTOPSECRET\n").unwrap();
    fs::create_dir(dir.path().join("theirs/.ssh")).unwrap();
    fs::copy(dir.path().join("secret"), dir.path().join("theirs/.ssh/id")).unwrap();
    std::os::unix::fs::symlink("../secret", dir.path().join("theirs/link")).unwrap();
    let url = target.url();
    for file in ["../secret", "link", ".ssh/id", dir.path().join("secret").to_str().unwrap()] {
        let text = format!("[feeds.f]\nfile = {file:?}\n[[pages]]\nurl = \"/?{{{{f.name}}}}\"\n");
        fs::write(dir.path().join("theirs/w.toml"), text).unwrap();
        let run = [&["run", &url, "-w", "theirs/w.toml", "--no-check"][..], &SHORT].concat();
        let said = webstone_in(dir.path(), &run);
        assert_eq!(said.code, 2, "{file}: {}", said.err);
        assert!(
            said.err.contains("it must lie below the workload's directory")
                && said.err.contains("--allow-feeds"),
            "{}",
            said.err
        );
        assert!(!said.err.contains("TOPSECRET"), "{}", said.err);
        let checked = webstone_in(dir.path(), &["checkfiles", &url, "-w", "theirs/w.toml"]);
        assert_eq!(checked.code, 2, "{}", checked.err);
    }
    assert!(target.requests().iter().all(|head| !head.contains("TOPSECRET")), "{:?}", target.requests());
    let allowed = ["run", &url, "-w", "theirs/w.toml", "--no-check", "--allow-feeds"];
    webstone_in(dir.path(), &[&allowed[..], &SHORT].concat());
    assert!(target.requests().iter().any(|head| head.contains("TOPSECRET")), "{:?}", target.requests());
}

#[test]
fn a_testbed_that_others_may_have_written_does_what_nobody_saw() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("testbed.toml");
    fs::write(&file, "[client.tls]\nkey_log = \"keys.log\"\n[generator]\nrecord_all = \"/tmp/all\"\n[load]\nclients = \"1\"\nduration = \"100ms\"\nwarmup = \"0s\"\n").unwrap();
    for (mode, is_told) in [(0o644, false), (0o600, false), (0o666, true), (0o602, true)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let said = webstone_in(dir.path(), &["run", "-f", "testbed.toml", "--dump-spec"]);
        let told = "warning: the testbed file testbed.toml may be written by every user. It\n  \
                    writes `keys.log` (client.tls.key_log)\n  writes `/tmp/all` (generator.record_all)\n";
        assert_eq!((said.code, said.err.contains(told)), (0, is_told), "{mode:o}: {}", said.err);
    }
    // Somebody else's file: only root can make one.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    if std::os::unix::fs::chown(&file, Some(65534), Some(65534)).is_ok() {
        let said = webstone_in(dir.path(), &["run", "-f", "testbed.toml", "--dump-spec"]);
        assert!(said.err.contains("testbed.toml belongs to another user. It\n"), "{}", said.err);
    }
}

/// An agent, with a controller that sends any messages.
struct Agent {
    child: Child,
}

impl Agent {
    fn start(dir: &Path, arguments: &[&str]) -> Agent {
        let mut child =
            command(dir, &[&["agent"], arguments].concat()).stdin(Stdio::piped()).spawn().unwrap();
        let mut greeting = Vec::new();
        let out = child.stdout.as_mut().unwrap();
        while greeting.last() != Some(&b'\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            greeting.push(byte[0]);
        }
        child.stdin.as_mut().unwrap().write_all(&greeting).unwrap();
        Agent { child }
    }

    fn send(&mut self, head: u32, bytes: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        input
            .write_all(&head.to_be_bytes())
            .and_then(|()| input.write_all(bytes))
            .and_then(|()| input.flush())
            .unwrap();
    }

    /// Its answer to a message.
    fn asked(&mut self, message: &Value) -> Value {
        let bytes = json!({ "number": 1, "message": message }).to_string().into_bytes();
        self.send(bytes.len() as u32, &bytes);
        let out = self.child.stdout.as_mut().unwrap();
        let mut head = [0; 4];
        if out.read_exact(&mut head).is_err() {
            return json!("ended");
        }
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        out.read_exact(&mut body).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["message"].clone()
    }

    /// Its answer to a plan.
    fn prepared(&mut self, plan: &Value) -> Value {
        let payload = plan.to_string().into_bytes();
        self.send(payload.len() as u32 | 1 << 31, &payload);
        let sha256: String = Sha256::digest(&payload).iter().map(|byte| format!("{byte:02x}")).collect();
        self.asked(&json!({ "Load": { "Prepare": { "bytes": payload.len(), "sha256": sha256 } } }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plan(spec: &Value) -> Value {
    let workload = json!({ "name": "w", "pages": [{ "weight": 1, "files": [{ "url": "/" }] }] });
    json!({ "spec": spec, "workload": workload, "server": null, "files": {}, "again": false })
}

#[test]
fn a_controller_has_an_agent_write_read_connect_and_run() {
    let target = Peer::polite();
    let dir = tempfile::tempdir().unwrap();
    let (written, read) = (dir.path().join("written"), dir.path().join("read"));
    fs::write(&read, "no certificate\n").unwrap();
    let url = target.url();
    let of = |client: Value| json!({ "target": [url], "client": client });
    let mut agent = Agent::start(dir.path(), &[]);
    for (spec, key) in [
        (of(json!({ "tls": { "key_log": written } })), "client.tls.key_log"),
        (of(json!({ "tls": { "cacert": read } })), "client.tls.cacert"),
        (of(json!({ "tls": { "cert": read, "key": read } })), "client.tls.cert"),
        (of(json!({ "unix_socket": "/run/docker.sock" })), "client.unix_socket"),
        (of(json!({ "proxy": url })), "client.proxy"),
        (of(json!({ "allow_feeds": true })), "client.allow_feeds"),
        (json!({ "target": [url], "generator": { "record_all": written } }), "generator.record_all"),
        (json!({ "target": [url], "generators": [{ "agent": "touch written" }] }), "generators.agent"),
        (json!({ "target": [url], "server": { "command": "touch written" } }), "server.command"),
        (json!({ "target": [url], "server_config": ["/etc/shadow"] }), "server_config"),
        (json!({ "target": [url], "workload": "/etc/shadow" }), "workload"),
    ] {
        let answer = agent.prepared(&plan(&spec)).to_string();
        assert!(
            answer.contains(r#"{"Failed":""#) && answer.contains(&format!("{key}: it ")),
            "{spec}: {answer}"
        );
    }
    // The same written in other ways.
    for spec in [
        json!([]),
        json!(["n", [url]]),
        json!({ "target": [url], "client": [] }),
        json!({ "target": [url], "more": 1 }),
    ] {
        let answer = agent.prepared(&plan(&spec)).to_string();
        assert!(answer.contains("cannot read the plan"), "{spec}: {answer}");
    }
    let mut more = plan(&of(json!({})));
    more["run"] = json!("touch written");
    assert!(agent.prepared(&more).to_string().contains("unknown field `run`"));
    assert!(!written.exists());
    // Its ordinary work, and what it was allowed to do.
    assert!(agent.prepared(&plan(&of(json!({})))).to_string().contains(r#"{"Prepared":{"#));
    let mut allowed = Agent::start(dir.path(), &["--allow", "write,proxy"]);
    let answer =
        allowed.prepared(&plan(&of(json!({ "tls": { "key_log": written }, "proxy": url })))).to_string();
    assert!(answer.contains(r#"{"Prepared":{"#), "{answer}");
    let answer = allowed.prepared(&plan(&of(json!({ "unix_socket": "/run/docker.sock" })))).to_string();
    assert!(answer.contains("which an agent never does"), "{answer}");
    let said = webstone_in(dir.path(), &["agent", "--allow", "run"]);
    assert!(said.code == 2 && said.err.contains("write one of proxy, write"), "{}", said.err);
}

#[test]
fn a_controller_that_arms_an_impossible_level() {
    let target = Peer::polite();
    let dir = tempfile::tempdir().unwrap();
    let most = u32::MAX;
    for mut arm in [
        json!({ "clients": most, "rate": null, "first": most, "each": most, "workers": most, "of": most }),
        json!({ "clients": most, "rate": null, "first": 0, "each": 1, "workers": 1, "of": 1 }),
        json!({ "clients": 0, "rate": null, "first": 0, "each": 0, "workers": 0, "of": 0 }),
        json!({ "clients": 1, "rate": null, "first": 5, "each": 1, "workers": 1, "of": 1 }),
        json!({ "clients": 1, "rate": null, "first": 0, "each": 1, "workers": most, "of": most }),
        json!({ "clients": 1, "rate": null, "first": 0, "each": 1, "workers": 1, "of": 1, "slice_ns": 1 }),
    ] {
        let mut agent = Agent::start(dir.path(), &[]);
        let answer = agent.prepared(&plan(&json!({ "target": [target.url()] }))).to_string();
        assert!(answer.contains(r#"{"Prepared":{"#), "{answer}");
        arm["iteration"] = json!(1);
        arm["slice_ns"] = arm.get("slice_ns").cloned().unwrap_or(json!(0));
        let answer = agent.asked(&json!({ "Load": { "Arm": arm } })).to_string();
        assert!(answer.contains("Failed") && !answer.contains("panicked"), "{arm}: {answer}");
        assert!(agent.asked(&json!("Echo")).to_string().contains("Echoed"), "{arm}: it lives");
    }
}

#[test]
fn a_controller_that_says_more_than_an_agent_can_do_fills_no_memory() {
    const PAYLOAD: usize = 48 << 20;
    let target = Peer::start(|_| {
        std::thread::sleep(std::time::Duration::from_secs(60));
        false
    });
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path(), &[]);
    let answer = agent.prepared(&plan(&json!({ "target": [target.url()] }))).to_string();
    assert!(answer.contains(r#"{"Prepared":{"#), "{answer}");
    // This takes as long as the target allows.
    let check = json!({ "number": 2, "message": { "Load": "CheckFiles" } }).to_string();
    agent.send(check.len() as u32, check.as_bytes());
    let id = agent.child.id();
    let mut input = agent.child.stdin.take().unwrap();
    let flood = std::thread::spawn(move || {
        let piece = [&(1_u32 << 31 | 1 << 20).to_be_bytes()[..], &vec![0; 1 << 20]].concat();
        let plan = json!({ "number": 3, "message": { "Load": { "Prepare": { "bytes": 1, "sha256": "" } } } });
        let plan = plan.to_string();
        let plan = [&(plan.len() as u32).to_be_bytes()[..], plan.as_bytes()].concat();
        for _ in 0..24 {
            for _ in 0..PAYLOAD >> 20 {
                input.write_all(&piece)?;
            }
            input.write_all(&plan)?;
        }
        Ok::<_, std::io::Error>(())
    });
    // Until it waits, which takes as long as the target allows; or has read everything, which it must not.
    let began = std::time::Instant::now();
    let mut most = 0;
    while !flood.is_finished() && began.elapsed() < std::time::Duration::from_secs(8) {
        most = most.max(resident_kib(id));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(agent);
    let _ = flood.join().unwrap();
    assert!(most << 10 < 12 * PAYLOAD, "{most} KiB");
}

/// Memory of a process.
fn resident_kib(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
