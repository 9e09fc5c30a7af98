//! `--generator`: real agents that make load together, merged into one record; and what happens to a run whose agent
//! does not start, dies, stops, or loses its controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::agents::{is_gone, json, pid_in, signal};
use crate::program::{Running, Server, command, program, webstone_in};

/// Agents with separate CPUs, as required for agents on one machine. `None`, with the reason printed, if there is
/// only one CPU.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn two(dir: &Path) -> Option<[(String, PathBuf); 2]> {
    let cpus = fs::read_to_string("/proc/self/status").ok()?;
    let list = cpus.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
    let first: Vec<u32> = list.split([',', '-']).filter_map(|word| word.parse().ok()).collect();
    let (Some(first), Some(last)) = (first.first(), first.last()) else { return None };
    if first == last {
        println!("skipped: agents on one machine need two CPUs");
        return None;
    }
    let agent = |name: &str, cpu: &u32| {
        let file = dir.join(format!("{name}.pid"));
        let run = format!("taskset -c {cpu} sh -c 'echo $$ > {}; exec {} agent'", file.display(), program());
        (run, file)
    };
    Some([agent("one", first), agent("two", last)])
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A run with two agents, without options that they cannot share.
pub(crate) fn run<'a>(url: &'a str, agents: &'a [(String, PathBuf)], more: &[&'a str]) -> Vec<&'a str> {
    let mut run = vec!["run", url];
    agents.iter().for_each(|(agent, _)| run.extend(["--generator", agent.as_str()]));
    run.extend(more);
    run
}

#[test]
fn an_agent_that_does_not_answer_is_named_after_two_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let waiting = "waiting for the agent of generator 1 to answer: sleep 8\n";
    for arguments in [
        &["hit", "http://127.0.0.1:1/", "--generator", "sleep 8"][..],
        &["generators", "check", "--generator", "sleep 8"],
    ] {
        let said = webstone_in(dir.path(), arguments);
        assert_eq!(said.code, 1, "{}", said.err);
        let (before, after) = said.err.split_once(waiting).unwrap_or_else(|| panic!("{}", said.err));
        assert!(!before.contains("error:") && after.starts_with("error: generator 1"), "{}", said.err);
    }
    // One that answers is not waited for aloud, unless the machine is so busy that it takes as long.
    let agent = format!("{} agent", program());
    let is_silent = || {
        let said = webstone_in(dir.path(), &["generators", "check", "--generator", &agent]);
        assert_eq!(said.code, 0, "{}", said.err);
        said.err.is_empty()
    };
    assert!((0..10).any(|_| is_silent()));
}

#[test]
fn two_agents_make_one_level_and_every_part_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = ["-K", "-c", "5", "-d", "2s", "--warmup", "500ms", "--format", "json", "--retries", "0"];
    let said = webstone_in(dir.path(), &run(&server.url, &agents, &load));
    let record = json(&said);
    let hosts = record["generators"].as_array().expect("they are in the record");
    assert_eq!(hosts.len(), 2, "{record}");
    let level = &record["iterations"][0];
    let parts = level["parts"].as_array().expect("each has a part");
    let sum = |key: &str| parts.iter().map(|part| number(&part["counts"][key])).sum::<u64>();
    for key in ["succeeded", "failed", "started", "in_flight", "connections", "pages_completed"] {
        assert_eq!(sum(key), number(&level["measured"]["counts"][key]), "{key}");
    }
    assert!(sum("succeeded") > 0);
    let dealt = "dealing the load to 2 hosts by their workers: ";
    assert!(
        said.err.lines().any(|line| line.starts_with(dealt) && line.ends_with("1 worker, 50 %")),
        "{}",
        said.err
    );
    let of = |key: &str| parts.iter().map(|part| number(&part[key])).collect::<Vec<_>>();
    assert_eq!((of("first_client"), of("clients")), (vec![0, 2], vec![2, 3]), "{parts:?}");
    assert_eq!(level["measured"]["clients"].as_array().unwrap().len(), 5);
    assert_eq!(level["measured"]["window_ns"], 2_000_000_000_u64);
    assert!(parts.iter().all(|part| part["host"]["elapsed_ns"].as_u64() > Some(1_000_000_000)), "{parts:?}");
    // They have this machine's clock, so the true offset is known.
    for part in parts {
        let (offset, bound) =
            (part["clock"]["offset_ns"].as_i64().unwrap(), number(&part["clock"]["bound_ns"]));
        assert!(offset.unsigned_abs() <= bound, "{offset} ± {bound}");
    }
    for check in level["identities"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    for (_, file) in &agents {
        assert!(is_gone(pid_in(file)), "an agent outlived its run");
    }
}

/// Hosts of many CPUs have more workers than a small level has clients, in slices too, and whether the run gives each host its clients.
#[test]
fn a_level_of_fewer_clients_than_workers_starts_some_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let hosts = agents.iter().zip([3, 1]);
    let hosts =
        hosts.map(|((agent, _), own)| format!("[[generators]]\nagent = {agent:?}\nclients = {own}\n"));
    let text = format!(
        "target = [{:?}]\n[load]\nclients = \"4\"\n[generator]\nworkers = 4\n{}",
        server.url,
        hosts.collect::<String>()
    );
    fs::write(dir.path().join("bed.toml"), text).unwrap();
    let common = ["-K", "--warmup", "0s", "-q", "--format", "json", "--retries", "0"];
    let dealt = [
        run(&server.url, &agents, &["-t", "4", "-c", "1,3,9", "-d", "300ms"]),
        vec!["run", "-f", "bed.toml", "-d", "4s"],
    ];
    for (load, expected) in dealt.into_iter().zip([&[[1, 0], [2, 1], [4, 4]][..], &[[3, 1]]]) {
        let record = json(&webstone_in(dir.path(), &[load, common.to_vec()].concat()));
        let levels = record["iterations"].as_array().unwrap();
        let workers = levels.iter().map(|level| {
            assert_eq!(level["lost"], Value::Null, "{}", level["lost"]);
            let parts = level["parts"].as_array().unwrap().iter();
            let of = |place: u64| {
                parts
                    .clone()
                    .find(|part| part["generator"] == place)
                    .map_or(0, |part| number(&part["workers"]))
            };
            [of(0), of(1)]
        });
        assert_eq!(workers.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn in_open_loop_they_have_the_whole_schedule_between_them() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = [
        "-K",
        "-R",
        "200",
        "-c",
        "20",
        "-d",
        "2s",
        "--warmup",
        "0s",
        "-q",
        "--format",
        "json",
        "--retries",
        "0",
    ];
    let record = json(&webstone_in(dir.path(), &run(&server.url, &agents, &load)));
    let level = &record["iterations"][0];
    // Arrival k is due at k / 200 s: all in a window of two seconds, however they are divided.
    assert_eq!(number(&level["measured"]["open_loop"]["planned"]), 400, "{level}");
    let parts = level["parts"].as_array().unwrap();
    assert!(parts.iter().all(|part| number(&part["counts"]["started"]) > 0), "{parts:?}");
}

#[test]
fn impossible_generators_are_refused_before_any_load() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let agent = format!("{} agent", program());
    let refused = |more: &[&str], exit: i32, wanted: &str| {
        let said =
            webstone_in(dir.path(), &[&["run", &server.url, "-c", "2", "-d", "1s", "-q"], more].concat());
        assert_eq!(said.code, exit, "{}", said.err);
        assert!(said.err.contains(wanted), "{}", said.err);
        assert!(said.err.contains("hint: "), "{}", said.err);
    };
    refused(&["--generator", "'"], 2, "--generator (generators.agent): `'` is not a command");
    refused(&["--generator", &agent, "--trace", "1"], 2, "which several generators cannot do together");
    refused(&["--generator", "/nonexistent/webstone agent"], 1, "generator 1: cannot start the agent");
    refused(
        &["--generator", "sh -c 'exit 255'"],
        1,
        "generator 1: the agent `sh -c 'exit 255'` ended: exit status 255",
    );
    refused(&["--generator", "cat"], 1, "generator 1: the agent `cat` ");
    refused(&["--generator", &agent, "--generator", &agent], 1, "are on the same machine");
    let workout = webstone_in(dir.path(), &["workout", "--generator", &agent]);
    assert_eq!(workout.code, 2, "{}", workout.err);
}

/// One timed run of this length, which is repeated once if it is void, with its events in a file.
#[rustfmt::skip] // an option and its value belong together
fn repeated_once(duration: &str) -> [&str; 16] {
    ["-K", "-c", "4", "-d", duration, "-i", "1", "--warmup", "0s", "-q", "--format", "json", "--retries", "1", "--events", "events"]
}

#[test]
fn an_agent_that_is_killed_makes_the_window_void_and_the_run_continues() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = repeated_once("8s");
    let running = Running::start(dir.path(), &run(&server.url, &agents, &load));
    let first = pid_in(&agents[1].1);
    wait_for_answers(&dir.path().join("events"));
    signal("KILL", first);
    let said = running.end();
    let record = json(&said);
    let void = &record["voids"][0];
    assert_eq!(void["lost"]["generator"], 1, "{record}");
    let why = void["lost"]["why"].as_str().unwrap();
    assert!(why.contains("killed by signal 9"), "{why}");
    let again = pid_in(&agents[1].1);
    assert_ne!(first, again, "it was started again");
    assert_eq!(record["iterations"][0]["parts"].as_array().unwrap().len(), 2, "{record}");
    assert_eq!(record["iterations"][0]["lost"], Value::Null);
}

#[test]
fn ctrl_c_is_obeyed_while_a_lost_agent_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let Some([one, (two, file)]) = two(dir.path()) else { return };
    let again = dir.path().join("again");
    // The second login hangs: for longer than anybody waits for a greeting.
    let script = dir.path().join("login");
    let text = format!(
        "test -e {0} && {{ echo $$ > {1}; exec sleep 600; }}\nexec {two}\n",
        file.display(),
        again.display()
    );
    fs::write(&script, text).unwrap();
    let hangs = format!("sh {}", script.display());
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let agents = [one, (hangs, file)];
    let load = repeated_once("1h");
    let running = Running::start(dir.path(), &run(&server.url, &agents, &load));
    let first = pid_in(&agents[1].1);
    wait_for_answers(&dir.path().join("events"));
    signal("KILL", first);
    let login = pid_in(&again);
    running.signal("INT");
    let record = json(&running.end());
    // If it had waited for the greeting, the run would have failed.
    assert_eq!(record["state"], "interrupted", "{record}");
    assert_eq!(record["voids"][0]["lost"]["generator"], 1, "{record}");
    assert!(number(&record["voids"][0]["measured"]["counts"]["succeeded"]) > 0, "{record}");
    assert!(is_gone(login), "the login outlived its run");
}

/// Waits until every host has had answers in the open window.
pub(crate) fn wait_for_answers(events: &Path) {
    let is_row = |event: &Value| {
        let hosts = event["hosts"].as_array();
        hosts.is_some_and(|hosts| !hosts.is_empty() && hosts.iter().all(|host| number(&host["requests"]) > 0))
    };
    for _ in 0..600 {
        let text = fs::read_to_string(events).unwrap_or_default();
        // The last line may not be complete yet.
        if text.lines().filter_map(|line| serde_json::from_str(line).ok()).any(|event| is_row(&event)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no host had an answer within a minute");
}

#[test]
fn events_have_each_host_and_percentiles_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = [
        "-K",
        "-c",
        "5",
        "-d",
        "6s",
        "-i",
        "1",
        "--warmup",
        "0s",
        "-q",
        "--retries",
        "0",
        "--events",
        "events",
    ];
    webstone_in(dir.path(), &run(&server.url, &agents, &load));
    let text = fs::read_to_string(dir.path().join("events")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let rows = of("hosts").last().expect("a window of 6 s has some").to_owned()["hosts"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| number(&row["clients"])).collect::<Vec<_>>(), [2, 3]);
    assert!(rows.iter().all(|row| number(&row["response"]["p99_ns"]) > 0), "{rows:?}");
    let so_far = of("tick").into_iter().rfind(|tick| tick["live"]["response"].is_object());
    assert!(number(&so_far.expect("a tick has percentiles")["live"]["response"]["count"]) > 0);
}

/// Waits until a process has sockets, and so makes load.
#[test]
fn when_the_controller_is_killed_the_load_ends() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = ["-K", "-c", "4", "-d", "1h", "--warmup", "0s", "-q", "--no-store", "--events", "events"];
    let mut controller = command(dir.path(), &run(&server.url, &agents, &load)).spawn().unwrap();
    let pids: Vec<u32> = agents.iter().map(|(_, file)| pid_in(file)).collect();
    wait_for_answers(&dir.path().join("events"));
    signal("KILL", controller.id());
    controller.wait().unwrap();
    for pid in pids {
        assert!(is_gone(pid), "agent {pid} outlived its controller");
    }
}

#[test]
fn ctrl_c_keeps_what_all_have_measured() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let mut load =
        vec!["-K", "-c", "4", "-d", "1h", "--warmup", "0s", "-q", "--format", "json", "--retries", "0"];
    load.extend(["--events", "events"]);
    let running = Running::start(dir.path(), &run(&server.url, &agents, &load));
    let pids: Vec<u32> = agents.iter().map(|(_, file)| pid_in(file)).collect();
    wait_for_answers(&dir.path().join("events"));
    running.signal("INT");
    let record = json(&running.end());
    assert_eq!(record["state"], "interrupted");
    let level = &record["iterations"][0];
    assert_eq!(level["interrupted"], true);
    assert_eq!(level["parts"].as_array().unwrap().len(), 2, "{level}");
    assert!(number(&level["measured"]["counts"]["succeeded"]) > 0);
    for pid in pids {
        assert!(is_gone(pid), "agent {pid} outlived its run");
    }
}

#[test]
fn the_offset_of_a_clock_that_is_known_lies_within_its_bound() {
    const AHEAD_S: i64 = 3_600;
    let dir = tempfile::tempdir().unwrap();
    let Some([(one, _), (two, _)]) = two(dir.path()) else { return };
    let shifted = format!("unshare --time --monotonic {AHEAD_S} --fork {two}");
    let may = std::process::Command::new("unshare").args(["--time", "--fork", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not make a time namespace (`unshare --time`)");
        return;
    }
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let agents = [(one, PathBuf::new()), (shifted, PathBuf::new())];
    let load = ["-K", "-c", "4", "-d", "1s", "-i", "3", "-q", "--format", "json", "--retries", "0"];
    let record = json(&webstone_in(dir.path(), &run(&server.url, &agents, &load)));
    let runs = record["iterations"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for parts in runs.iter().map(|run| run["parts"].as_array().unwrap()) {
        assert_eq!(parts.len(), 2);
        for (part, ahead_s) in parts.iter().zip([0, AHEAD_S]) {
            let (offset, bound) =
                (part["clock"]["offset_ns"].as_i64().unwrap(), number(&part["clock"]["bound_ns"]));
            let wrong = (offset - ahead_s * 1_000_000_000).unsigned_abs();
            assert!(wrong <= bound, "{wrong} ns wrong, within {bound}: {part}");
        }
    }
}

#[test]
fn agents_that_hear_nothing_for_their_lease_end_their_load() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let load = ["-K", "-c", "2", "-d", "1h", "--warmup", "0s", "-q", "--no-store", "--events", "events"];
    let controller = Running::start(dir.path(), &run(&server.url, &agents, &load));
    let pids: Vec<u32> = agents.iter().map(|(_, file)| pid_in(file)).collect();
    wait_for_answers(&dir.path().join("events"));
    // It exists, its streams are open, but it sends nothing.
    controller.signal("STOP");
    for pid in pids {
        assert!(is_gone(pid), "agent {pid} goes on without its controller");
    }
    controller.signal("KILL");
}

#[test]
fn over_tls_they_trust_the_certificate_that_was_made_for_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let mut arguments = run("--tls", &agents, &["-K", "-c", "4", "-d", "2s", "-q", "--format", "json"]);
    // The mix has files of 500 bytes and of 500 kB: for each answer the number of bytes waited for depends on its own
    // length.
    arguments.extend(["--retries", "0", "-i", "1"]);
    let record = json(&webstone_in(dir.path(), &arguments));
    let measured = &record["iterations"][0]["measured"];
    assert!(number(&measured["counts"]["succeeded"]) > 20, "{measured}");
    assert_eq!(measured["errors"].as_array().map(Vec::len), Some(0), "{measured}");
}

#[test]
fn a_check_shows_every_host_and_every_error() {
    let dir = tempfile::tempdir().unwrap();
    let agent = format!("{} agent", program());
    let check = [
        "generators",
        "check",
        "--generator",
        &agent,
        "--generator",
        "sh -c 'exit 255'",
        "--generator",
        &agent,
    ];
    let said = webstone_in(dir.path(), &check);
    assert_eq!(said.code, 1, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    let [first, third, note] = lines[..] else { panic!("{}", said.out) };
    assert!(first.starts_with("generator 1: ") && first.contains(", round trip "), "{first}");
    assert!(third.starts_with("generator 3: ") && third.contains("clock known within "), "{third}");
    assert_eq!(note, "note: generators 1, 3 are on one machine, and count as one host");
    let told = "error: generator 2: the agent `sh -c 'exit 255'` ended: ";
    assert!(said.err.lines().any(|line| line.starts_with(told)), "{}", said.err);
    // Each error begins a line and has its own hint.
    let two = ["generators", "check", "--generator", "sh -c 'exit 127'", "--generator", "/nonexistent/agent"];
    let said = webstone_in(dir.path(), &two);
    let lines = said.err.lines().filter(|line| !line.starts_with("waiting for "));
    let begins: Vec<&str> = lines.filter_map(|line| line.split_once(": ").map(|(word, _)| word)).collect();
    assert_eq!((said.code, &begins[..]), (1, &["error", "hint", "error", "hint"][..]), "{}", said.err);
    assert!(
        said.err.contains("\nhint: copy webstone to that host")
            && said.err.contains("\nhint: begin with a program"),
        "{}",
        said.err
    );
    let file = dir.path().join("testbed.toml");
    fs::write(&file, format!("[[generators]]\nagent = \"{agent}\"\n")).unwrap();
    let said = webstone_in(dir.path(), &["generators", "check", "-f", "testbed.toml"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "{}", said.err);
    let said = webstone_in(dir.path(), &["generators", "check"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.starts_with("error: no host is named\nhint: give --generator "), "{}", said.err);
}

#[test]
fn hosts_have_the_clients_names_and_addresses_that_the_run_gives_them() {
    let dir = tempfile::tempdir().unwrap();
    let Some(agents) = two(dir.path()) else { return };
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let other = server.url.replace("127.0.0.1", "localhost");
    let text = format!(
        "target = [{url:?}]\n\
         [load]\nrepetitions = 4\nretries = 0\n[generator]\nrecord_all = 'all.tsv'\n\
         [[generators]]\nagent = {one:?}\nname = 'indy8'\nclients = 3\n\
         [[generators]]\nagent = {two:?}\nname = 'indy9'\nclients = 1\ntarget = {other:?}\n",
        url = server.url,
        one = agents[0].0.replace("agent'", "agent --allow write'"),
        two = agents[1].0.replace("agent'", "agent --allow write'"),
    );
    fs::write(dir.path().join("bed.toml"), text).unwrap();
    let said = webstone_in(dir.path(), &["run", "-f", "bed.toml", "--format", "json"]);
    let record = json(&said);
    let level = &record["iterations"][0];
    let parts = level["parts"].as_array().expect("each has a part");
    assert_eq!(parts.iter().map(|part| number(&part["clients"])).collect::<Vec<_>>(), [3, 1]);
    let names: Vec<&str> =
        record["generators"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["indy8", "indy9"]);
    // Five pages of a file each, four times, by three clients and one.
    let pages: Vec<u64> = parts.iter().map(|part| number(&part["counts"]["pages_completed"])).collect();
    assert_eq!(pages, [15, 5], "{parts:?}");
    let hits: Vec<u64> =
        record["pages"].as_array().unwrap().iter().map(|page| number(&page["hits"])).collect();
    assert_eq!(hits, [4; 5], "each page as often as the test repeats it");
    for (name, requests) in names.iter().zip(parts.iter().map(|part| number(&part["counts"]["succeeded"]))) {
        let lines = fs::read_to_string(dir.path().join(format!("all.tsv.{name}"))).unwrap();
        assert_eq!(lines.lines().count() as u64, requests + 2, "{name}");
    }
    for check in level["identities"].as_array().unwrap() {
        assert_eq!(check["holds"], true, "{check}");
    }
    let run = crate::program::only_entry(&dir.path().join("runs"));
    let text = webstone_in(dir.path(), &["report", run.to_str().unwrap(), "--format", "webstone2"]);
    let hosts = format!(
        "Client 0: indy8 \t# Processes: 3\n    Webserver: {}\nClient 1: indy9 \t# Processes: 1\n    Webserver: {other}\n",
        record["target"]["url"].as_str().unwrap()
    );
    assert!(text.out.starts_with("WebMaster name = ") && text.out.contains(&hosts), "{}", text.out);
    let text = webstone_in(dir.path(), &["report", run.to_str().unwrap(), "--format", "webstone1"]);
    assert!(
        text.out.contains("Client: indy8 Number of Clients: 3\nClient: indy9 Number of Clients: 1\n"),
        "{}",
        text.out
    );
}
