//! `webstone ui` and `--watch` as typed: a front shows the same about testbeds and runs as the program in a terminal.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::{Value, json};

use crate::asker::Asker;
use crate::program::{Running, command, webstone_in};

/// A front in its own process, ended when this is dropped.
struct Front {
    child: Child,
    asker: Asker,
}

impl Front {
    fn start(dir: &Path, more: &[&str]) -> Front {
        let mut child = command(dir, &[&["ui", "--quiet"], more].concat()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Front { child, asker: Asker::to(&address) }
    }

    /// Starts a run and waits for its end; returns its events.
    fn whole(&self, spec: &Value) -> Vec<Value> {
        let (status, begun) = self.asker.post("/api/runs", &json!({ "command": "run", "spec": spec }));
        assert_eq!(status, 201, "{begun}");
        self.asker.stream(&format!("/api/live/{}", begun["id"].as_str().unwrap()), |_| false)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All rows of ended levels, in a snapshot or single; the last snapshot has those before it.
fn ended(lines: &[Value]) -> Vec<&Value> {
    let last = lines.iter().rposition(|line| line.get("snapshot").is_some()).unwrap();
    let before = lines[last]["snapshot"]["ended"].as_array().unwrap().iter();
    before.chain(lines[last..].iter().filter_map(|line| line.get("ended"))).collect()
}

/// Three significant digits, as the terminal writes them.
fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => webstone_measure::units::grouped(v.round() as u64),
    }
}

#[test]
fn a_run_of_the_front_has_the_figures_of_the_terminal_and_of_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let front = Front::start(dir.path(), &[]);
    let spec = json!({
        "name": "mine", "workload": "workout-0k", "client": { "connections": "keep-alive" },
        "load": { "clients": "1,3", "duration": "1300ms", "warmup": "20ms", "retries": 0 },
    });
    let lines = front.whole(&spec);
    let finished = &lines.last().unwrap()["finished"];
    assert_eq!(finished["state"], "complete", "{finished}");
    let name = finished["run"].as_str().unwrap();
    let said = webstone_in(dir.path(), &["report", name, "--format", "json"]);
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((&record["spec"]["name"], &record["state"]), (&json!("mine"), &json!("complete")));
    let live = dir.path().join("runs/.live");
    let place = std::fs::read_dir(live).unwrap().next().unwrap().unwrap().path();
    let printed = std::fs::read_to_string(place.join("output.txt")).unwrap();
    let rows = ended(&lines);
    assert_eq!(rows.len(), 2, "{lines:?}");
    for ((number, row), iteration) in (1..).zip(&rows).zip(record["iterations"].as_array().unwrap()) {
        assert_eq!(row["label"], if number == 1 { "1 client" } else { "3 clients" });
        assert_eq!(row["errors"], 0, "{row}");
        let counts = &iteration["measured"]["counts"];
        let seconds = iteration["measured"]["window_ns"].as_f64().unwrap() / 1e9;
        let rate = row["rate"].as_f64().unwrap();
        assert!((rate * seconds - counts["succeeded"].as_f64().unwrap()).abs() < 1e-3 * rate, "{row}");
        let mean_s = row["mean_ms"].as_f64().unwrap() / 1e3;
        let mean = if mean_s < 1e-3 {
            format!("{} µs", digits(mean_s * 1e6))
        } else {
            format!("{} ms", digits(mean_s * 1e3))
        };
        let line = format!(": {} requests/s, mean latency {mean}, 0 errors", digits(rate));
        // On a busy machine one request in flight may have waited longer than all others together.
        let printed = printed.replace("latency at least ", "latency ");
        let of_level = printed.lines().find(|line| line.starts_with(&format!("[{number}/2] ")));
        assert!(of_level.is_some_and(|found| found.ends_with(&line)), "{line}: {printed}");
    }
}

#[test]
fn a_run_of_the_terminal_is_watched_by_any_front_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let many = ["run", "--watch", "-c", "1", "-i", "1000", "-d", "50ms", "--warmup", "0s", "-q"];
    let mut run = Running::start(dir.path(), &many[..many.len() - 1]);
    let address = run.wait_for("watch: http://127.0.0.1:");
    run.wait_for("[1/1000] ");
    let own = Asker::to(address.strip_prefix("watch: ").unwrap());
    let other = Front::start(dir.path(), &["--read-only"]);
    let id = other.asker.get("/api/live").1["live"][0]["id"].as_str().unwrap().to_owned();
    for asker in [&own, &other.asker] {
        let lines = asker.stream(&format!("/api/live/{id}"), |line| {
            let ended = line["snapshot"]["ended"].as_array().is_some_and(|rows| !rows.is_empty());
            ended || line.get("ended").is_some()
        });
        assert_eq!(lines[0]["snapshot"]["watched_in_terminal"], true, "{lines:?}");
        assert!(lines[0]["snapshot"]["command_line"].to_string().contains("--watch"));
    }
    // A read-only front cannot stop it; the front started with the run can, and Ctrl-C can.
    let stop = format!("/api/live/{id}/stop");
    assert_eq!(other.asker.post(&stop, &json!({})).0, 403);
    assert_eq!(own.post(&stop, &json!({})).0, 202);
    let said = run.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let lines = other.asker.stream(&format!("/api/live/{id}"), |_| false);
    let finished = match lines.last().unwrap() {
        line if line.get("finished").is_some() => line["finished"].clone(),
        line => line["snapshot"]["finished"].clone(),
    };
    assert_eq!(finished["state"], "interrupted");
    let run = dir.path().join("runs").join(finished["run"].as_str().unwrap());
    let verified = webstone_in(dir.path(), &["verify", run.to_str().unwrap()]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let record = run.join("record.json");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    assert!(record["environment"].to_string().contains("watched_by"), "{}", record["environment"]);
}

/// The meaning of a testbed, by `--dump-spec`. `None` if it needs something that is not available here.
#[expect(clippy::print_stdout, reason = "what is skipped says why")]
fn dumped(dir: &Path, command: &str, file: &Path) -> Option<String> {
    let said = webstone_in(dir, &[command, "-f", file.to_str().unwrap(), "--dump-spec"]);
    if ["is not installed", "cannot be run: "].iter().any(|lack| said.err.contains(lack)) {
        println!("skipped: {}: {}", file.display(), said.err);
        return None;
    }
    assert_eq!(said.code, 0, "{}: {}", file.display(), said.err);
    Some(said.out)
}

#[test]
fn the_values_of_a_form_mean_the_same_run_as_the_testbed() {
    let dir = tempfile::tempdir().unwrap();
    // Some need files and agents, which is not what is tested here.
    let front = Front::start(dir.path(), &["--allow-commands"]);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut testbeds: Vec<(String, &str, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()) {
        let Some(text) = std::fs::read_to_string(&entry).ok().filter(|text| text.contains("[load]")) else {
            continue;
        };
        if entry.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        testbeds.push((text.clone(), if text.contains("[series]") { "servers" } else { "run" }, entry));
    }
    let rich = dir.path().join("rich.toml");
    let text = "name = \"rich\"\ntarget = [\"https://127.0.0.1:1/\"]\n[load]\nrate = \"100,200\"\nduration = \"2s\"\niterations = 2\n\
        [client]\nhttp = \"2\"\nparallel = 4\nsource = [\"127.0.0.2\"]\n[client.headers]\n\"Accept\" = \"a = b\"\n\
        [client.tls]\nverify = false\nversions = [\"1.3\"]\n[generator]\npage_histograms = 3\n[disclosure]\nsponsor = \"nobody\"\n";
    std::fs::write(&rich, text).unwrap();
    testbeds.push((text.to_owned(), "run", rich));
    let empty = dir.path().join("empty.toml");
    std::fs::write(&empty, "").unwrap();
    testbeds.push((String::new(), "run", empty));
    assert!(testbeds.len() > 5);
    let mut compared = 0;
    for (text, command, file) in testbeds {
        let Some(whole) = dumped(dir.path(), command, &file) else { continue };
        // What was written, and of those that are not examples its full meaning, including defaults: each takes seconds.
        let is_example = !file.starts_with(dir.path());
        for toml in [&text, &whole].into_iter().take(if is_example { 1 } else { 2 }) {
            let (_, read) = front.asker.post("/api/check", &json!({ "command": command, "toml": toml }));
            // Too few CPUs on this host is a problem at the start, not one of the testbed.
            let problem = read["problem"]["message"].as_str().unwrap_or("CPUs for the server");
            assert!(problem.contains("CPUs for the server"), "{}: {read}", file.display());
            let (_, back) =
                front.asker.post("/api/check", &json!({ "command": command, "spec": read["spec"] }));
            let again = dir.path().join("again.toml");
            std::fs::write(&again, back["toml"].as_str().unwrap()).unwrap();
            assert_eq!(dumped(dir.path(), command, &again).as_deref(), Some(&*whole), "{}", file.display());
            // The command line that the page shows means the same run.
            let words: Vec<&str> =
                back["command_line"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            if !words.contains(&"-f") {
                let said = webstone_in(dir.path(), &[&words[1..], &["--dump-spec"]].concat());
                assert_eq!(said.out, whole, "{words:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "no run has a command line of flags");
}

#[test]
fn a_file_is_not_a_directory_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let said = webstone_in(dir.path(), &["ui", "--runs-dir", "file"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    let file = dir.path().canonicalize().unwrap().join("file");
    let expected = format!("error: --runs-dir: `{}` is not a directory\nhint: name", file.display());
    assert!(said.err.starts_with(&expected), "{}", said.err);
    for command in
        [&["list"][..], &["history", "--server", "nginx"], &["report", "last"], &["compare", "last", "last"]]
    {
        let said = webstone_in(dir.path(), &[command, &["--runs-dir", "file"]].concat());
        let expected = "error: cannot read file: Not a directory\nhint: part of this path is a file where a directory is needed\n";
        assert_eq!((said.err.as_str(), said.out.as_str()), (expected, ""), "{command:?}");
    }
}

#[test]
fn an_error_is_shown_at_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let front = Front::start(dir.path(), &[]);
    for (spec, key) in [
        (json!({ "load": { "clients": "ten" } }), "load.clients"),
        (json!({ "load": { "aa": true } }), "load.iterations"),
        (json!({ "load": { "duration": "0s" } }), "load.duration"),
        (json!({ "client": { "parallel": 0 } }), "client.parallel"),
        (json!({ "client": { "http": "4" } }), "client.http"),
        (json!({ "workload": "no-such" }), "workload"),
        (json!({ "target": ["nonsense"] }), "target"),
        (json!({ "server": { "cpus": "first" } }), "server.cpus"),
        (json!({ "generator": { "workers": "many" } }), "generator.workers"),
    ] {
        let (status, checked) = front.asker.post("/api/check", &json!({ "command": "run", "spec": spec }));
        let problem = &checked["problem"];
        assert_eq!((status, problem["key"].as_str()), (200, Some(key)), "{spec}: {checked}");
        assert!(!problem["message"].as_str().unwrap().contains("--"), "{problem}");
    }
}

#[test]
fn a_stored_run_is_verified_archived_and_certified_where_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(
        dir.path(),
        &["run", "-c", "1", "-d", "200ms", "--warmup", "0s", "-w", "workout-0k", "-q"],
    );
    assert!([0, 4].contains(&said.code), "{}", said.err);
    let run = crate::program::only_entry(&dir.path().join("runs"));
    let name = run.file_name().unwrap().to_str().unwrap();
    let front = Front::start(dir.path(), &["--allow-commands"]);
    let note = json!({ "text": "kept beside the record", "tags": ["mine"] });
    assert_eq!(front.asker.post(&format!("/api/runs/{name}/notes"), &note).0, 200);
    for (what, good) in [("verify", true), ("archive", true)] {
        let (status, done) = front.asker.post(&format!("/api/runs/{name}/{what}"), &json!({}));
        assert_eq!((status, done["ok"].as_bool()), (200, Some(good)), "{what}: {done}");
        let archive = dir.path().canonicalize().unwrap().join(format!("{name}.tar.gz"));
        let says_where = done["lines"].to_string().contains(archive.to_str().unwrap());
        assert_eq!((says_where, archive.is_file()), (what == "archive", what == "archive"), "{what}: {done}");
    }
    // A run of a fifth of a second breaks rules of publication, which `certify` must report.
    let (status, refused) = front.asker.post(&format!("/api/runs/{name}/certify"), &json!({}));
    assert_eq!((status, refused["ok"].as_bool()), (200, Some(false)), "{refused}");
    assert!(!refused["lines"].as_array().unwrap().is_empty(), "{refused}");
}
