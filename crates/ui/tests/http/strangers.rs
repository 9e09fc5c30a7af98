//! What a front gives other users of the host, who have no token, and testbeds that are written in unusual ways.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::front::Running;
use crate::program;

fn asked(front: &Running, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", front.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(head.replace("PORT", &front.port.to_string()).as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn no_body_is_read_of_who_has_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    for head in
        ["GET / HTTP/1.1", "GET /app.js HTTP/1.1", "GET /render/x HTTP/1.1", "POST /api/runs HTTP/1.1"]
    {
        for body in ["Content-Length: 8000000", "Transfer-Encoding: chunked"] {
            // The body never comes: the answer does.
            let said = answer(asked(&front, &format!("{head}\r\nHost: 127.0.0.1:PORT\r\n{body}\r\n\r\n")));
            assert!(said.starts_with("HTTP/1.1 4"), "{head}, {body}: {said:?}");
            assert!(said.to_lowercase().contains("connection: close"), "{said:?}");
        }
    }
    let long = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert!(!answer(asked(&front, &long)).starts_with("HTTP/1.1 200"));
}

#[test]
fn the_token_gets_through_a_crowd_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let heads = [
        "",
        "GET / HT",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 8000000\r\n\r\n",
    ];
    // More than there are places, and all of them stay.
    let crowd: Vec<TcpStream> = (0..100).map(|number| asked(&front, heads[number % heads.len()])).collect();
    let began = Instant::now();
    assert_eq!(front.get("/api/status").0, 200);
    // Heads alone would hold places for ten seconds each.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    drop(crowd);
}

#[test]
fn what_a_testbed_says_in_another_way_is_refused_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let script = format!("touch {}", started.display());
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), &script), false);
    let refused = |toml: &str| {
        let (status, said) = front.post("/api/runs", &json!({ "command": "run", "toml": toml }));
        assert!(status == 403 || status == 422, "{toml}: {status} {said}");
        (status, said)
    };
    for toml in [
        "server = [\"command\", \"stock\", \"\", \"/bin/sh -c 'true {port}'\"]",
        "generator = [0, \"\", true, false, 0, 32, 0, \"/tmp/written\"]",
        "generators = [[\"touch /tmp/x\"]]",
        "client = []",
        "[client]\ntls = [[\"1.3\"]]",
        "series = [[\"nginx\"]]",
        "server = \"command\"",
        "no toml",
        "[server]\ncommand = 3",
    ] {
        refused(toml);
    }
    for (toml, key) in [
        ("client.unix_socket = \"/run/docker.sock\"", "client.unix_socket"),
        ("client.proxy = \"http://proxy.test:1\"", "client.proxy"),
        ("client.allow_feeds = true", "client.allow_feeds"),
        ("client.tls.cacert = \"/etc/shadow\"", "client.tls.cacert"),
        ("client.tls.cert = \"/a\"", "client.tls.cert"),
        ("client.tls.key = \"/a\"", "client.tls.key"),
        ("server.tls = { cert = \"/a\", key = \"/b\" }", "server.tls.cert"),
        ("server.listen = \"0.0.0.0:80\"", "server.listen"),
        ("server.program = \"/tmp/x\"", "server.program"),
        ("series.builds = [\"/tmp/x\"]", "series.builds"),
        ("series.workloads = [\"/etc/shadow\"]", "series.workloads"),
        ("[[generators]]\nkubernetes = { kubeconfig = \"/tmp/x\" }", "generators.kubernetes.job"),
    ] {
        let (status, said) = refused(toml);
        assert_eq!(status, 403, "{toml}: {said}");
        assert!(said["error"].as_str().unwrap().starts_with(&format!("{key}: it ")), "{toml}: {said}");
        let (_, checked) = front.post("/api/check", &json!({ "command": "run", "toml": toml }));
        assert_eq!(checked["problem"]["key"], json!(key), "{checked}");
    }
    assert!(!started.exists());
}

#[test]
fn a_form_whose_values_are_of_other_types_starts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let script = format!("touch {}", started.display());
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), &script), false);
    let values = json!({ "software": "command", "command": "touch /tmp/x" });
    for value in
        [json!(["command", "touch /tmp/x"]), json!([values]), json!("command"), json!(1), json!(true)]
    {
        for section in ["server", "client", "load", "generator", "find", "series"] {
            let (status, said) =
                front.post("/api/runs", &json!({ "command": "run", "spec": { section: value } }));
            assert!([400, 403, 422].contains(&status), "{section} = {value}: {status} {said}");
        }
    }
    for body in [
        json!([]),
        json!(["run", {}]),
        json!({ "command": "run", "spec": [] }),
        json!({ "command": "run", "more": 1 }),
    ] {
        assert_eq!(front.post("/api/runs", &body).0, 400, "{body}");
    }
    let twice = json!({ "command": "run", "spec": {}, "toml": "server.command = \"touch /tmp/x\"" });
    assert_eq!(front.post("/api/runs", &twice).0, 422);
    assert!(!started.exists());
}

#[test]
fn a_testbed_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let given = directory.path().join("given");
    let script = format!("cat \"$3\" > {}; echo done", given.display());
    let front = Running::start(&runs, program(directory.path(), &script), false);
    let spec = json!({ "client": { "headers": { "Authorization": "Bearer TOPSECRET" } } });
    front.post("/api/check", &json!({ "command": "run", "spec": spec }));
    let (status, begun) = front.post("/api/runs", &json!({ "command": "run", "spec": spec }));
    assert_eq!(status, 201, "{begun}");
    front.stream(&format!("/api/live/{}", begun["id"].as_str().unwrap()), |_| false);
    assert!(std::fs::read_to_string(&given).unwrap().contains("TOPSECRET"));
    let place = std::fs::read_dir(runs.join(".live")).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&runs.join(".live")), mode(&place)), (0o700, 0o700));
    for file in std::fs::read_dir(place).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{file:?}");
        assert!(!String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains("TOPSECRET"), "{file:?}");
    }
}

/// A place of a run that somebody put there.
fn place(runs: &std::path::Path, name: &str, entry: &Value) -> std::path::PathBuf {
    let place = runs.join(".live").join(name);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("run.json"), entry.to_string()).unwrap();
    place
}

#[test]
fn what_lies_in_the_place_of_a_run_hangs_no_page_and_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let (runs, outside) = (directory.path().join("runs"), directory.path().join("outside"));
    std::fs::write(&outside, "before").unwrap();
    let entry = json!({
        "command": "run", "name": "x", "command_line": [], "started": "2026-01-01T00:00:00Z", "in_terminal": true, "process": null,
    });
    let fifo = |path: &std::path::Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let link = |to: &str, path: &std::path::Path| std::os::unix::fs::symlink(to, path).unwrap();
    for name in ["events.ndjson", "output.txt", "ended.json", "run.json"] {
        let odd = place(&runs, &format!("fifo-{name}"), &entry);
        let _ = std::fs::remove_file(odd.join(name));
        fifo(&odd.join(name));
        let odd = place(&runs, &format!("link-{name}"), &entry);
        let _ = std::fs::remove_file(odd.join(name));
        link("/dev/zero", &odd.join(name));
    }
    let odd = place(&runs, "a-list", &json!(["run", "x", [], "2026-01-01T00:00:00Z", true, null]));
    link(outside.to_str().unwrap(), &odd.join("run.json.new"));
    let sparse = place(&runs, "sparse", &entry);
    std::fs::File::create(sparse.join("events.ndjson")).unwrap().set_len(1 << 40).unwrap();
    let watched = place(
        &runs,
        "watched",
        &json!({ "command": "run", "name": "y", "command_line": [], "started": "",
        "in_terminal": true, "process": { "id": std::process::id(), "began": began() } }),
    );
    link(outside.to_str().unwrap(), &watched.join("watched_by"));
    link(outside.to_str().unwrap(), &watched.join("watched_by.new"));
    let front = Running::start(&runs, "/nonexistent".into(), false);
    let (status, live) = front.get("/api/live");
    assert_eq!(status, 200);
    let known: Vec<&str> =
        live["live"].as_array().unwrap().iter().filter_map(|run| run["id"].as_str()).collect();
    assert!(
        known.contains(&"watched") && !known.contains(&"a-list") && !known.contains(&"fifo-run.json"),
        "{known:?}"
    );
    front.stream("/api/live/watched", |line| line.get("snapshot").is_some());
    assert_eq!(front.get("/api/status").0, 200);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "before");
}

/// When this process began, in clock ticks since the host's start (proc(5), field 22).
fn began() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    text.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
}

#[test]
fn another_users_flood_delays_nobody_else() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    // It opens up to a hundred connections per second, sends half a request on each, and keeps the last 500: the front has 64 places.
    // Ten times as fast it would fill the kernel's queue on a busy machine, which no server can help.
    let script = format!(
        "import socket,time\nkept=[]\nprint('on',flush=True)\nwhile True:\n time.sleep(.01)\n try:\n  s=socket.create_connection(('127.0.0.1',{})); \
         s.sendall(b'GET / HT'); kept.append(s); del kept[:-500]\n except OSError: pass\n",
        front.port
    );
    let mut flood = std::process::Command::new("python3");
    flood.args(["-c", &script]).uid(65_534).gid(65_534).stdout(std::process::Stdio::piped());
    let mut flood = match flood.spawn() {
        Ok(flood) => Flood(flood),
        Err(error) => return println!("skipped: python3: {error}"),
    };
    flood.0.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    // Each on a connection of its own: none is refused, none is cut off.
    let answers: Vec<u16> = (0..10).map(|_| front.get("/api/status").0).collect();
    assert_eq!(answers, [200; 10]);
}

/// Ends with the test, however that ends.
struct Flood(std::process::Child);

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
