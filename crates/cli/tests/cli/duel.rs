//! Duels with real servers: differences that were put in come out, an interrupted duel keeps what was measured, and what was started
//! is gone afterwards. No test depends on how fast the machine is: differences are of several times, and equals are never judged.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{Running, Said, Server, only_entry, program, webstone, webstone_in};

/// A short duel: starts of half a second, five of them.
const SHORT: [&str; 8] = ["--restart-every", "500ms", "--at-most", "5m", "-c", "2", "--precision", "100%"];

/// A server in this process that answers after a delay with this body.
fn server(delay: Duration, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|length| length > 0) {
                    std::thread::sleep(delay);
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}

fn duel(dir: &Path, contestants: &[&str], arguments: &[&str]) -> Said {
    webstone_in(dir, &[&["duel"], contestants, &SHORT, arguments].concat())
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {} {}", said.out, said.err))
}

/// The ratio of a figure of the only challenger.
fn ratio(report: &Value, figure: &str) -> Value {
    let ratios = report["judgement"]["comparisons"][0]["ratios"].as_array().unwrap();
    let found = ratios.iter().find(|ratio| ratio["figure"] == figure);
    found.unwrap_or_else(|| panic!("{figure}: {ratios:?}")).clone()
}

#[test]
fn a_server_that_is_slower_by_a_known_delay_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let (fast, slow) = (server(Duration::from_millis(1), "hi"), server(Duration::from_millis(8), "hi"));
    let gates = ["--fail-if", "rate < -20%", "--format", "json"];
    let said = duel(dir.path(), &[&format!("fast={fast}"), &format!("slow={slow}")], &gates);
    assert_eq!(said.code, 3, "{}", said.err);
    let report = json(&said);
    let rate = ratio(&report, "rate");
    assert!(rate["high"].as_f64().unwrap() < 0.8, "{rate}");
    let latency = ratio(&report, "p50");
    assert!(latency["low"].as_f64().unwrap() > 1.5, "{latency}");
    assert_eq!(report["judgement"]["gates"][0]["outcome"], "broken");
    assert!(said.err.contains("--fail-if 'rate < -20%': slow is beyond it"), "{}", said.err);
    assert_eq!(report["duel"]["differences"], Value::Array(Vec::new()));
    // A slice is ten mean response times long.
    assert!(
        report["duel"]["duel"]["slice"].as_str().is_some_and(|slice| slice != "20ms"),
        "{}",
        report["duel"]["duel"]
    );
    let names: Vec<&str> = report["duel"]["contestants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["fast", "slow", "fast (twin)"]);
}

/// CPU time of a process so far, in nanoseconds.
fn cpu_ns(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
    ticks.sum::<u64>() * 10_000_000
}

#[test]
fn agents_see_the_cpu_time_of_contestants_that_are_up_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let servers =
        [Server::start(dir.path(), &["--threads", "1"]), Server::start(dir.path(), &["--threads", "1"])];
    let names = [format!("old={}", servers[0].url), format!("new={}", servers[1].url)];
    let agent = format!("{} agent", program());
    let before = servers.each_ref().map(|server| cpu_ns(server.child.id()));
    // On a busy machine an agent may read too late for a short start.
    let arguments =
        ["--path", "/file500.html", "--restart-every", "1s", "--precision", "100%", "--at-most", "40s"];
    let agents = ["--server-agent", &format!("old={agent}"), "--server-agent", &format!("new={agent}")];
    let said = webstone_in(
        dir.path(),
        &[&["duel", &names[0], &names[1], "-c", "2", "--format", "json"], &arguments[..], &agents].concat(),
    );
    let used = [0, 1].map(|side| cpu_ns(servers[side].child.id()) - before[side]);
    let report = json(&said);
    let starts = report["duel"]["starts"].as_array().unwrap();
    let seen = [0, 1].map(|side| {
        starts
            .iter()
            .filter_map(|start| start["sides"][side]["cpu_elsewhere_ns"].as_u64())
            .collect::<Vec<_>>()
    });
    if seen.iter().any(|seen| seen.len() < 4 || 4 * seen.len() < 3 * starts.len()) {
        println!("skipped: the agents read too late on this machine: {}", said.err);
        return;
    }
    assert_eq!(report["judgement"]["leading"], "cpu", "{}", said.err);
    assert!(ratio(&report, "cpu")["value"].as_f64().unwrap() > 1e-6);
    let twin = report["judgement"]["twin"]["ratios"].as_array().unwrap();
    assert!(
        twin.iter().all(|ratio| ratio["figure"] != "cpu"),
        "one server's CPU time cannot be parted: {twin:?}"
    );
    // The first is asked as two contestants, and the starts that are not in the record warmed up.
    let share = |side: usize, of: f64| seen[side].iter().sum::<u64>() as f64 / (of * used[side] as f64);
    assert!((0.3..1.05).contains(&share(1, 1.0)), "{seen:?} of {used:?}");
    assert!((0.3..1.3).contains(&share(0, 0.5)), "{seen:?} of {used:?}");
    let page = webstone_in(dir.path(), &["report", "last", "--format", "html"]).out;
    assert!(page.contains("agents saw CPU time for whole starts") && page.contains("chart-time-d"));
    assert_eq!(webstone_in(dir.path(), &["verify", "last"]).code, 0);
}

/// One server under two names: each agent would see the CPU time of both.
#[test]
fn agents_that_see_the_same_processes_for_two_contestants_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let names = [format!("old={}", server.url), format!("new={}", server.url)];
    let agent = format!("{} agent", program());
    let arguments = ["--path", "/file500.html", "--server-agent", &agent];
    let said = duel(dir.path(), &[&names[0], &names[1]], &arguments);
    assert_ne!(said.code, 0, "{}", said.out);
    assert!(said.err.contains("old and new: the agents `"), "{}", said.err);
    assert!(said.err.contains("each would have the CPU time of both"), "{}", said.err);
    assert!(!said.out.contains("CPU time per request"), "{}", said.out);
}

/// The time for building is not of the time for measuring, and what is asked for once is asked at each start.
#[test]
fn a_build_may_take_longer_than_the_duel() {
    let there = tempfile::tempdir().unwrap();
    repository(there.path());
    let serve = format!("{} serve --listen 127.0.0.1:{{port}} --root .", program());
    // Building takes all of the time that the duel has, which is long enough for a machine that stalls for seconds.
    let arguments = ["--build", "sleep 8; cp source made", "--serve", &serve, "--path", "/made"];
    let short = ["--restart-every", "500ms", "--at-most", "16s", "--precision", "50%", "-c", "2"];
    let arguments = [&arguments[..], &short[..], &["--format", "json", "--no-store"]].concat();
    // The files as they are, in the directory that webstone runs in.
    let said = webstone_in(there.path(), &[&["duel", "HEAD", ".", "--no-twin"], &arguments[..]].concat());
    let report = json(&said);
    let starts = report["duel"]["starts"].as_array().unwrap().len();
    assert!(starts > 1, "{starts}: {}", said.err);
    assert_eq!(report["duel"]["differences"], Value::Array(Vec::new()), "{}", said.err);
    assert!(there.path().join("made").exists());
    assert_eq!(worktrees(there.path()), 1);
}

/// A server that sends every path but /there on to it.
fn redirecting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(length) = stream.read(&mut request)
                    && length > 0
                {
                    let answer: &[u8] = match request.starts_with(b"GET /there ") {
                        true => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                        false => b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
                    };
                    if stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn redirects_are_followed_in_every_start() {
    let dir = tempfile::tempdir().unwrap();
    let names = [format!("one={}", redirecting()), format!("other={}", redirecting())];
    let arguments = ["--follow", "--path", "/here", "--format", "json", "--no-store"];
    let said = duel(dir.path(), &[&names[0], &names[1]], &arguments);
    let report = json(&said);
    let starts = report["duel"]["starts"].as_array().unwrap();
    assert!(starts.len() >= 5, "{}", said.err);
    for side in starts.iter().flat_map(|start| start["sides"].as_array().unwrap()) {
        assert!(side["statuses"]["302"].as_u64() > Some(0), "{side}");
        assert!(side["statuses"]["200"].as_u64() > Some(0), "{side}");
    }
}

/// Redirects of paths that change are not asked for: the check before the first start says so.
#[test]
fn what_the_first_start_has_to_say_is_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let names = [format!("one={}", redirecting()), format!("other={}", redirecting())];
    let arguments = ["--follow", "--path", "/here?{{seq}}", "--format", "json", "--no-store"];
    let said = duel(dir.path(), &[&names[0], &names[1]], &arguments);
    let report = json(&said);
    let warnings = report["duel"]["warnings"].as_array().unwrap();
    let told = "the redirects of 1 of the workload's requests are not followed";
    let of_redirects = warnings.iter().filter(|it| it.as_str().unwrap().starts_with(told));
    assert_eq!(of_redirects.count(), 1, "{warnings:?}: {}", said.err);
    assert_eq!(said.err.matches(told).count(), 1, "{}", said.err);
}

#[test]
fn answers_that_differ_are_said_before_any_figure() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (server(Duration::ZERO, "hi"), server(Duration::ZERO, "ho"));
    let said = duel(dir.path(), &[&format!("one={one}"), &format!("other={other}")], &["--no-store"]);
    let told = "DIFFERS: other answers / otherwise: body of other content";
    assert!(said.err.contains(told), "{}", said.err);
    let (difference, figures) = (said.out.find("other answers / otherwise"), said.out.find("requests/s"));
    assert!(difference.is_some() && difference < figures, "{}", said.out);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn contestants_are_started_anew_and_every_format_tells_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let serve = format!("{} serve --listen {{address}}:{{port}} --root {{directory}}", program());
    let said = duel(
        dir.path(),
        &["reference", &format!("own={serve}")],
        &["-w", "workout-0k", "--no-check", "--no-twin"],
    );
    // A server of its own without the files refuses everything.
    assert_eq!(said.code, 4, "{} {}", said.out, said.err);
    assert!(said.out.contains("INVALID: own"), "{}", said.out);

    let dir = tempfile::tempdir().unwrap();
    let files = ["-w", "workout-0k", "-o", "duel.md"];
    let said = duel(dir.path(), &["reference", "reference,threads=1"], &files);
    assert!(matches!(said.code, 0 | 4), "{}", said.err);
    let markdown = std::fs::read_to_string(dir.path().join("duel.md")).unwrap();
    assert!(markdown.starts_with("### Duel: reference,threads=1 against reference\n"), "{markdown}");
    assert!(
        markdown.contains("<details>") && markdown.contains("| CPU time per request, µs |"),
        "{markdown}"
    );
    let record = only_entry(&dir.path().join("runs"));
    let stored: Value = serde_json::from_slice(&std::fs::read(record.join("duel.json")).unwrap()).unwrap();
    let starts = stored["starts"].as_array().unwrap();
    assert!(starts.len() >= 5, "{}", starts.len());
    assert!(starts.iter().all(|start| start["sides"].as_array().unwrap().len() == 3));
    assert_eq!(stored["contestants"][2]["is_twin"], true);
    let page = std::fs::read_to_string(record.join("report.html")).unwrap();
    assert!(page.contains("<title>Duel: reference,threads=1 against reference"), "{page}");
}

fn git(dir: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-C"]).arg(dir).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A repository whose two commits serve different files.
fn repository(dir: &Path) {
    git(dir, &["init", "--quiet"]);
    for text in ["one", "two, and longer"] {
        std::fs::write(dir.join("source"), text).unwrap();
        git(dir, &["add", "source"]);
        git(dir, &["commit", "--quiet", "-m", text]);
    }
}

#[test]
fn revisions_are_built_and_served_from_worktrees_that_go() {
    let (dir, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    repository(there.path());
    let serve = format!("{} serve --listen 127.0.0.1:{{port}} --root .", program());
    let path = there.path().display().to_string();
    let revisions = [
        "--repository",
        &path,
        "--build",
        "cp source made",
        "--serve",
        &serve,
        "--path",
        "/made",
        "--no-store",
    ];
    let said = duel(dir.path(), &["HEAD~1", "HEAD"], &revisions);
    assert!(
        said.err.contains("building HEAD~1: cp source made\nbuilding HEAD: cp source made\n"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("DIFFERS: HEAD answers /made otherwise: body of 3 bytes, here 15"),
        "{}",
        said.err
    );
    assert_eq!(worktrees(there.path()), 1);
    assert!(!there.path().join("made").exists());

    let failing = ["--repository", &path, "--build", "echo no compiler; false", "--serve", &serve];
    let said = duel(dir.path(), &["HEAD~1", "HEAD"], &failing);
    assert_ne!(said.code, 0);
    assert!(
        said.err
            .contains("HEAD~1: `echo no compiler; false` failed (exit status: 1); it said:\n  no compiler"),
        "{}",
        said.err
    );
}

fn worktrees(repository: &Path) -> usize {
    let listed = Command::new("git").arg("-C").arg(repository).args(["worktree", "list"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

/// After a duel was killed its guard runs on, and reads the end of its standard input.
#[test]
fn git_forgets_the_worktrees_of_a_duel_that_was_killed() {
    let (dir, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    repository(there.path());
    let scratch = dir.path().join("webstone-duel-1");
    git(there.path(), &["worktree", "add", "--quiet", "--detach", scratch.join("0").to_str().unwrap()]);
    assert_eq!(worktrees(there.path()), 2);
    let mut guard = Command::new(program());
    guard.args(["supervise", "--remove"]).arg(&scratch).stdin(std::process::Stdio::piped());
    let mut guard = guard.spawn().unwrap();
    writeln!(guard.stdin.take().unwrap(), "{}", there.path().display()).unwrap();
    assert!(guard.wait().unwrap().success());
    assert!(!scratch.exists());
    assert_eq!(worktrees(there.path()), 1);
}

#[test]
fn an_interrupted_duel_keeps_its_starts() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "duel",
        "reference",
        "reference,threads=1",
        "-w",
        "workout-0k",
        "--restart-every",
        "500ms",
        "--precision",
        "0.01%",
    ];
    let mut running = Running::start(dir.path(), &arguments);
    running.wait_for("   3 starts ");
    running.signal("INT");
    let said = running.end();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.out.contains("Duel: reference,threads=1 against reference"), "{}", said.out);
    let record = only_entry(&dir.path().join("runs"));
    let stored: Value = serde_json::from_slice(&std::fs::read(record.join("duel.json")).unwrap()).unwrap();
    assert_eq!(stored["state"], "interrupted");
    assert!(stored["starts"].as_array().unwrap().len() >= 3);
}

/// No file may grow beyond 48 kB, as on a disk that fills up: the record does, and the report is printed all the same.
#[test]
fn what_a_full_disk_does_not_take_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 96; exec \"$0\" duel reference reference,threads=1 -w workout-0k --restart-every 500ms \
                  --precision 0.01% --at-most 300s";
    let mut command = Command::new("sh");
    command.args(["-c", script, &program()]).current_dir(dir.path());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(out.contains("Duel: reference,threads=1 against reference"), "{out}{err}");
    assert!(err.contains("error: cannot write ") && err.contains("File too large"), "{err}");
    let kept = only_entry(&dir.path().join("runs")).join("duel.json");
    let stored: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert!(!stored["starts"].as_array().unwrap().is_empty());
}

#[test]
fn a_contestant_that_ends_is_named_and_what_was_measured_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let serve = format!("{} serve --listen {{address}}:{{port}} -w workout-0k", program());
    let mortal = format!("mortal=timeout 2 {serve}");
    let arguments = ["-w", "workout-0k", "--no-twin", "--restart-every", "20s", "--at-most", "40s"];
    let said =
        webstone_in(dir.path(), &[&["duel", &format!("whole={serve}"), &mortal][..], &arguments].concat());
    assert_ne!(said.code, 0, "{}", said.out);
    assert!(said.err.contains("mortal"), "{}", said.err);
}

#[test]
fn what_cannot_be_held_is_refused_with_a_remedy() {
    for (arguments, message, hint) in [
        (&["nginx", "ngimx"][..], "`ngimx` is not a contestant", "give a server (reference, nginx"),
        (
            &["a=x{port}", ".", "--serve", "./x"],
            "--serve: `./x`: {port} is missing",
            "write it as for a shell",
        ),
        (
            &["reference", "reference", "--slice", "1us"],
            "--slice 1us: it is not from 1ms to 10s",
            "write a time",
        ),
        (
            &["reference", "reference", "--at-most", "3h"],
            "--at-most 3h: it is not from 1s to 2h",
            "write a time",
        ),
        (&["reference", "reference", "--path", "x"], "--path `x`: it is not a path", "a path begins with /"),
        (
            &["reference", "reference", "-R", "1k..2k/10s"],
            "--rate: a duel has one rate, no ramp",
            "write one",
        ),
        (
            &["reference", "reference", "--fail-if", "cup > 3%"],
            "`cup` is not one of the figures cpu, rate",
            "cpu > +3%",
        ),
        (
            &["reference", "reference", "--server", "nginx"],
            "--server: contestants are given by name",
            "webstone duel nginx",
        ),
        (&["reference", "reference", "--format", "csv"], "csv", "markdown"),
        (&["reference", "reference", "-o", "x.csv"], "a duel cannot be written as csv", "write one of text"),
    ] {
        let said = webstone(&[&["duel"], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(message) && said.err.contains(hint), "{arguments:?}: {}", said.err);
        assert_eq!(said.out, "");
    }
    let said = webstone(&["duel", "reference"]);
    assert_eq!(said.code, 2, "{}", said.err);
}
