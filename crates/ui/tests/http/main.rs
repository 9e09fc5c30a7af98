//! The front over its sockets, as a browser and as an attacker would use it. The program that it starts is a script that writes a
//! run's events, so that each test knows what there is to see.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod asker;
mod front;
mod library;
mod strangers;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use asker::split;
use front::Running;
use serde_json::{Value, json};
use webstone_ui::registry::{Entry, Place};

/// A script in the place of webstone. `$5` is the file for events.
fn program(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("program");
    // A shell cannot trap what it was started to ignore, and the tests may run in the background of one that ignores interrupts.
    let script = format!("#!/usr/bin/env -S --default-signal=INT sh\n{script}\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Events of a level, second by second, and its end.
const A_RUN: &str = r#"
say() { printf '%s\n' "$1" >> "$events"; }
events=$5
at='{"step":1,"steps":1,"clients":20,"iteration":1}'
say '{"schema":1,"time":"2026-01-01T00:00:00.000Z","event":"preparing","what":"starting the embedded server"}'
say '{"schema":1,"time":"2026-01-01T00:00:01.000Z","event":"level-started","at":'$at'}'
for second in 1 2 3; do
  say '{"schema":1,"time":"2026-01-01T00:00:0'$((second + 1))'.000Z","event":"tick","at":'$at',"phase":"measuring","live":{"elapsed_ns":'$second'000000000,"planned":0,"offered":0,"requests":'$second'00,"errors":0,"connections":0,"pages":0,"bytes":0,"response_ns":'$second'00000000,"oldest_in_flight_ns":0}}'
done
"#;
const ITS_END: &str = r#"say '{"schema":1,"time":"2026-01-01T00:00:09.000Z","event":"finished","state":"complete","path":"runs/a-run"}'"#;

#[test]
fn a_run_is_started_watched_and_seen_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let waits = format!(
        "{A_RUN}\nwhile [ ! -e {} ]; do sleep 0.05; done\n{ITS_END}",
        directory.path().join("go").display()
    );
    let front = Running::start(&runs, program(directory.path(), &waits), false);
    let (status, started) = front.post("/api/runs", &json!({ "command": "run", "spec": { "name": "mine" } }));
    assert_eq!(status, 201, "{started}");
    let id = started["id"].as_str().unwrap().to_owned();
    assert_eq!(front.post("/api/runs", &json!({ "command": "run", "spec": {} })).0, 409, "two at a time");
    let path = format!("/api/live/{id}");
    let has_points = |line: &Value| {
        let points = line["snapshot"]["levels"][0]["points"].as_array().map_or(0, Vec::len);
        points == 3 || line["frame"]["point"] == json!([3000, 100.0, null, 1.0, 0.0, null, null])
    };
    front.stream(&path, has_points);
    let again = front.stream(&path, |_| true);
    let snapshot = &again[0]["snapshot"];
    let points = json!([
        [1000, 100.0, null, 1.0, 0.0, null, null],
        [2000, 100.0, null, 1.0, 0.0, null, null],
        [3000, 100.0, null, 1.0, 0.0, null, null]
    ]);
    assert_eq!(snapshot["levels"][0]["points"], points, "a page that is loaded again has the same points");
    assert_eq!((&snapshot["name"], &snapshot["level"]), (&json!("mine"), &json!("20 clients")));
    let mut frame_bytes = 0;
    front.stream(&path, |line| {
        frame_bytes = line.get("frame").map_or(0, |_| line.to_string().len());
        frame_bytes > 0
    });
    assert!(frame_bytes < 500, "{frame_bytes} bytes a second");
    std::fs::write(directory.path().join("go"), "").unwrap();
    let lines = front.stream(&path, |_| false);
    let last = &lines.last().unwrap()["finished"];
    assert_eq!((&last["state"], &last["run"]), (&json!("complete"), &json!("a-run")), "{lines:?}");
}

#[test]
fn a_page_that_was_opened_too_early_learns_what_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let started = serde_json::to_string(&webstone_model::event::EventLine {
        schema: 1,
        time: "2026-01-01T00:00:01.000Z".to_owned(),
        event: webstone_model::event::Event::RunStarted {
            id: "r".to_owned(),
            path: None,
            target: Box::default(),
            workload: "standard".to_owned(),
            spec: Box::default(),
            steps: 1,
            planned_ns: None,
            paced: false,
            dealt: None,
        },
    })
    .unwrap();
    std::fs::write(directory.path().join("started"), started + "\n").unwrap();
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.05; done\ncat {} >> \"$5\"",
        go.display(),
        directory.path().join("started").display()
    );
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), &script), false);
    let (_, started) = front.post("/api/runs", &json!({ "command": "run", "spec": {} }));
    let mut workloads = Vec::new();
    front.stream(&format!("/api/live/{}", started["id"].as_str().unwrap()), |line| {
        workloads.extend(line["snapshot"]["workload"].as_str().map(str::to_owned));
        std::fs::write(&go, "").unwrap();
        false
    });
    assert_eq!(workloads, ["", "standard"]);
}

#[test]
fn a_run_goes_on_when_its_front_ends_and_the_next_front_sees_it() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let waits = format!(
        "{A_RUN}\nwhile [ ! -e {} ]; do sleep 0.05; done\n{ITS_END}",
        directory.path().join("go").display()
    );
    let program = program(directory.path(), &waits);
    let front = Running::start(&runs, program.clone(), false);
    let (_, started) = front.post("/api/runs", &json!({ "command": "run", "spec": {} }));
    let path = format!("/api/live/{}", started["id"].as_str().unwrap());
    front.stream(&path, |line| line["snapshot"]["step"] == json!(1) || line["frame"]["step"] == json!(1));
    drop(front);
    let next = Running::start(&runs, program, false);
    let seen = next.stream(&path, |line| line["frame"]["step"] == json!(1));
    assert!(!seen.is_empty());
    std::fs::write(directory.path().join("go"), "").unwrap();
    let lines = next.stream(&path, |_| false);
    assert_eq!(lines.last().unwrap()["finished"]["state"], json!("complete"), "{lines:?}");
}

#[test]
fn what_a_run_complains_of_is_told_with_its_hint() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo 'error: port 80 is taken' >&2; echo 'hint: name another' >&2; exit 1";
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), script), false);
    let (_, started) = front.post("/api/runs", &json!({ "command": "run", "spec": {} }));
    let lines = front.stream(&format!("/api/live/{}", started["id"].as_str().unwrap()), |_| false);
    let finished = lines.last().map(|line| match line.get("finished") {
        Some(finished) => finished.clone(),
        None => line["snapshot"]["finished"].clone(),
    });
    let told = json!({
        "state": "failed", "run": null, "message": "port 80 is taken", "hint": "name another", "standing": null, "verdict": null,
    });
    assert_eq!(finished, Some(told), "{lines:?}");
}

#[test]
fn a_run_whose_front_is_gone_ends_as_it_says() {
    for in_terminal in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let entry = Entry {
            command: "run".to_owned(),
            name: "mine".to_owned(),
            command_line: Vec::new(),
            started: "2026-01-01T00:00:00.000Z".to_owned(),
            in_terminal,
            process: None,
        };
        let place = Place::create(directory.path(), &entry).unwrap();
        let ended = r#"{"schema":1,"time":"2026-01-01T00:00:09.000Z","event":"finished","state":"complete","path":"runs/a-run"}"#;
        std::fs::write(place.events(), format!("{ended}\n")).unwrap();
        let front = Running::start(directory.path(), "/nonexistent".into(), false);
        let id = (0..600).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            front.get("/api/live").1["live"][0]["id"].as_str().map(str::to_owned)
        });
        let lines = front.stream(&format!("/api/live/{}", id.unwrap()), |_| false);
        let finished = &lines.last().unwrap()["finished"];
        assert_eq!(
            (&finished["state"], &finished["message"]),
            (&json!("complete"), &Value::Null),
            "{lines:?}"
        );
    }
}

#[test]
fn a_page_that_stays_open_gets_each_point_once() {
    let directory = tempfile::tempdir().unwrap();
    let (second, go) = (directory.path().join("second"), directory.path().join("go"));
    // All points of the level at once, as they come after the front waited for its CPU.
    let level = A_RUN.lines().take_while(|line| !line.starts_with("for ")).collect::<Vec<_>>().join("\n");
    let points = A_RUN.lines().skip_while(|line| !line.starts_with("for ")).collect::<Vec<_>>().join("\n");
    let script = format!(
        "{level}\nwhile [ ! -e {} ]; do sleep 0.05; done\n{points}\nwhile [ ! -e {} ]; do sleep 0.05; done\n{ITS_END}",
        second.display(),
        go.display()
    );
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), &script), false);
    let (_, started) = front.post("/api/runs", &json!({ "command": "run", "spec": {} }));
    let mut seen = Vec::new();
    front.stream(&format!("/api/live/{}", started["id"].as_str().unwrap()), |line| {
        if line["snapshot"]["step"] == json!(1) || line["frame"]["step"] == json!(1) {
            std::fs::write(&second, "").unwrap();
        }
        let points = line["snapshot"]["levels"][0]["points"].as_array().into_iter().flatten();
        seen.extend(points.chain(Some(&line["frame"]["point"])).filter_map(|point| point[0].as_u64()));
        if seen.len() == 3 {
            std::fs::write(&go, "").unwrap();
        }
        false
    });
    assert_eq!(seen, [1000, 2000, 3000]);
}

#[test]
fn a_run_is_stopped_by_an_interrupt_and_the_next_in_the_queue_starts() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("trap 'exit 130' INT\n{A_RUN}\nwhile :; do sleep 0.05; done");
    let front = Running::start(&directory.path().join("runs"), program(directory.path(), &script), false);
    let (_, started) = front.post("/api/runs", &json!({ "command": "run", "spec": { "name": "first" } }));
    let first = started["id"].as_str().unwrap().to_owned();
    let (status, _) =
        front.post("/api/runs", &json!({ "command": "run", "spec": { "name": "second" }, "queue": true }));
    assert_eq!(status, 202);
    assert_eq!(front.get("/api/live").1["queued"][0]["name"], json!("second"));
    let path = format!("/api/live/{first}");
    front.stream(&path, |line| line["snapshot"]["step"] == json!(1) || line["frame"]["step"] == json!(1));
    assert_eq!(front.post(&format!("{path}/stop"), &json!({})).0, 202);
    let lines = front.stream(&path, |_| false);
    assert_eq!(lines.last().unwrap()["finished"]["state"], json!("interrupted"), "{lines:?}");
    let is_next = || {
        let (_, live) = front.get("/api/live");
        live["live"].as_array().unwrap().iter().find(|run| run["name"] == "second").cloned()
    };
    let second = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        is_next()
    });
    let second = second.expect("the second starts within a minute");
    let path = format!("/api/live/{}/stop", second["id"].as_str().unwrap());
    let stopped = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        front.post(&path, &json!({ "now": true })).0 == 409
    });
    assert!(stopped, "it is gone");
}

#[test]
fn a_testbed_is_checked_at_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let check = |body: Value| front.post("/api/check", &body).1;
    let good = check(
        json!({ "command": "run", "spec": { "load": { "clients": "20..100+10", "duration": "10m", "iterations": 3 } } }),
    );
    assert_eq!(good["problem"], Value::Null);
    assert_eq!(good["plan"]["sentence"], json!("9 levels × 3 iterations"));
    assert_eq!(good["plan"]["seconds"], json!(16_227.0));
    let standing = |id: &str| {
        good["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == id).unwrap()["standing"].clone()
    };
    assert_eq!((standing("ten-minutes"), standing("noise-floor")), (json!("met"), json!("not met")));
    let wrong = check(json!({ "command": "run", "spec": { "load": { "clients": "ten" } } }));
    assert_eq!(wrong["problem"]["key"], json!("load.clients"), "{wrong}");
    assert_eq!(check(json!({ "command": "find", "spec": {} }))["problem"]["key"], json!("find.slo"));
    assert!(
        check(json!({ "command": "rm", "spec": {} }))["problem"]["message"]
            .as_str()
            .unwrap()
            .contains("`rm`")
    );
    let text = check(json!({ "command": "run", "toml": "[load]\nclients = \"5\"\n" }));
    assert_eq!(text["spec"], json!({ "load": { "clients": "5" } }));
    let round = check(json!({ "command": "run", "spec": text["spec"] }));
    assert_eq!(round["toml"], json!("[load]\nclients = \"5\"\n"));
}

#[test]
fn nothing_is_told_without_a_token_or_to_another_origin() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let (port, token) = (front.port, &front.token);
    let own = format!("127.0.0.1:{port}");
    let get = |host: &str, path: &str, fields: &str| {
        split(
            &front.raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n")),
        )
        .0
    };
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(get(&own, "/api/status", &bearer), 200);
    assert_eq!(get(&own, "/api/status", ""), 401);
    assert_eq!(get(&own, &format!("/api/status?token={token}"), ""), 401, "no token in an address");
    assert_eq!(get(&own, "/api/status", &format!("Cookie: token={token}\r\n")), 401, "no cookie");
    assert_eq!(get(&format!("evil.test:{port}"), "/api/status", &bearer), 421);
    assert_eq!(get(&format!("evil.test:{port}"), "/", ""), 421, "not even the page");
    assert_eq!(get(&own, "/api/status", &format!("{bearer}Origin: http://evil.test\r\n")), 403);
    assert_eq!(get(&own, "/api/runs", &bearer), 405);
    assert_eq!(get(&own, "/render/00", "Sec-Fetch-Site: same-origin\r\n"), 404);
    assert_eq!(get(&own, "/", ""), 200);
    let page =
        front.raw(&format!("GET / HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n")).to_lowercase();
    for field in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(page.contains(field), "{field}");
    }
    assert!(!page.contains("set-cookie") && !page.contains("access-control-allow"));
}

#[test]
fn the_front_listens_on_the_loopback_address_alone() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    // Other loopback addresses reach a socket that listens on all.
    assert!(std::net::TcpStream::connect(("127.0.0.2", front.port)).is_err());
    assert!(std::net::TcpStream::connect(("::1", front.port)).is_err());
    assert!(std::net::TcpStream::connect(("127.0.0.1", front.port)).is_ok());
}

#[test]
fn names_are_confined_and_commands_need_leave() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    std::fs::create_dir_all(directory.path().join("secret")).unwrap();
    std::fs::create_dir_all(&runs).unwrap();
    let front = Running::start(&runs, "/nonexistent".into(), false);
    for name in ["..%2Fsecret", "%2E%2E", ".live", "..", "%00"] {
        assert_eq!(front.post(&format!("/api/runs/{name}/page"), &json!({})).0, 404, "{name}");
    }
    for spec in [
        json!({ "generators": [{ "agent": "touch /tmp/x" }] }),
        json!({ "server": { "software": "command", "command": "touch /tmp/x" } }),
        json!({ "server": { "agent": "touch /tmp/x" } }),
        json!({ "generator": { "record_all": "/etc/x" } }),
        json!({ "client": { "tls": { "key_log": "/etc/x" } } }),
        json!({ "server": { "access_log": "/etc/x" } }),
        json!({ "server": { "root": "/etc" } }),
        json!({ "server_config": ["/etc/shadow"] }),
        json!({ "workload": "/etc/shadow" }),
    ] {
        let (status, said) = front.post("/api/runs", &json!({ "command": "run", "spec": spec }));
        assert_eq!(status, 403, "{spec}: {said}");
        assert!(said["hint"].as_str().unwrap().contains("--allow-commands"));
    }
}

#[test]
fn a_front_for_looking_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), true);
    assert_eq!(front.get("/api/status").1["read_only"], json!(true));
    for (path, body) in [
        ("/api/runs", json!({ "command": "run", "spec": {} })),
        ("/api/live/x/stop", json!({})),
        ("/api/queue/1/remove", json!({})),
        ("/api/runs/x/archive", json!({})),
        ("/api/runs/x/certify", json!({})),
        ("/api/runs/x/resume", json!({})),
        ("/api/runs/x/trash", json!({})),
        ("/api/runs/x/notes", json!({ "text": "", "tags": [] })),
        ("/api/trash/x/restore", json!({})),
    ] {
        assert_eq!(front.post(path, &body).0, 403, "{path}");
    }
    assert_eq!(front.post("/api/check", &json!({ "command": "run", "spec": {} })).0, 200);
}
