//! Series of runs: interleaved, killed and resumed, ranked, and refused if invalid.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Running, Said, assert_ended, command, only_entry, webstone, webstone_in};

/// Two cells of the reference server, two levels, three rounds, as short as possible.
const CELLS: [&str; 5] =
    ["servers", "reference", "--policies", "per-request,keep-alive", "--server-threads=1"];
const SHORT: [&str; 12] =
    ["-w", "workout-0k", "-c", "1,2", "-d", "150ms", "--warmup", "20ms", "-i", "3", "-t", "2"];

pub(crate) fn series(dir: &Path, more: &[&str]) -> Said {
    webstone_in(dir, &[CELLS.as_slice(), &SHORT, more].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The records of a series, by the names of their cells.
pub(crate) fn records(directory: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| (path.file_name().unwrap().to_str().unwrap()[17..].to_owned(), path))
        .collect();
    found.sort();
    found
}

/// (cell, clients, iteration) of every iteration, in the order in which they ran.
fn course(directory: &Path) -> Vec<(String, u64, u64)> {
    let mut runs = Vec::new();
    for (cell, path) in records(directory) {
        let record = json(&fs::read_to_string(path.join("record.json")).unwrap());
        for run in record["iterations"].as_array().unwrap() {
            let number = |key: &str| run[key].as_u64().unwrap();
            let at = run["started_at"].as_str().unwrap().to_owned();
            runs.push((at, (cell.clone(), number("clients"), number("iteration"))));
        }
    }
    runs.sort();
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Rounds of A B, B A, A B.
fn there_and_back() -> Vec<(String, u64, u64)> {
    let (a, b) = ("reference-per-request", "reference-keep-alive");
    let rounds = [(a, 1), (b, 1), (b, 2), (a, 2), (a, 3), (b, 3)];
    rounds
        .iter()
        .flat_map(|(cell, round)| [1, 2].map(|clients| ((*cell).to_owned(), clients, *round)))
        .collect()
}

#[test]
fn iterations_are_interleaved_over_cells_and_every_cell_is_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let said = series(dir.path(), &["--format", "json"]);
    assert_ended(&said);
    let directory = only_entry(&dir.path().join("runs"));
    assert!(directory.file_name().unwrap().to_str().unwrap().ends_with("Z-servers"));
    assert!(
        said.err.contains("2 cells × 2 levels × 3 iterations: 3 s under load, and 6 starts of servers\n"),
        "{}",
        said.err
    );
    assert!(said.err.contains("reference-per-request: round 1 of 3, 6 to go\n"), "{}", said.err);
    assert_eq!(course(&directory), there_and_back());
    let report = json(&said.out);
    assert_eq!(
        (&report["computed"]["iterations_done"], &report["computed"]["iterations_planned"]),
        (&12.into(), &12.into())
    );
    assert_eq!(report["series"]["cells"][1]["spec"]["client"]["connections"], "keep-alive");
    assert_eq!(webstone(&["verify", directory.to_str().unwrap()]).code, 0);
    // The report can be made again, by path and by name, in every format.
    let name = directory.file_name().unwrap().to_str().unwrap();
    for (format, marks) in [
        ("text", ["Not shown: ", "levels of each cell"]),
        ("markdown", ["#### Cells", "| reference-keep-alive |"]),
        ("csv", ["cell,server,profile,", "reference-keep-alive,reference,stock,,keep-alive,"]),
        ("html", ["<section id=\"matrix\"", "reference-keep-alive"]),
    ] {
        let said = webstone_in(dir.path(), &["report", name, "--format", format]);
        assert_eq!(said.code, 0, "{format}: {}", said.err);
        assert!(marks.iter().all(|mark| said.out.contains(mark)), "{format}: {}", said.out);
    }
    let rows = webstone_in(dir.path(), &["report", name, "--format", "csv"]).out;
    assert_eq!(rows.lines().count(), 1 + 4, "a row a cell and level");
    // Its page links to the reports of the cells, wherever it is.
    assert_eq!(webstone_in(dir.path(), &["report", name, "-o", "series.html"]).code, 0);
    let page = std::fs::read_to_string(dir.path().join("series.html")).unwrap();
    let links: Vec<&str> =
        page.split("<a href=\"runs/").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert_eq!(links.len(), 2, "{links:?}");
    assert!(links.iter().all(|link| dir.path().join("runs").join(link).is_file()), "{links:?}");
}

#[test]
fn what_the_server_decides_is_decided_in_every_round() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [["--http", "auto"], ["--follow", "-t1"]] {
        let short =
            ["servers", "reference", "-w", "workout-0k", "-c1", "-i2", "-d", "200ms", "--warmup", "0s"];
        let said = webstone_in(dir.path(), &[&short[..], &flags, &["--format", "json"]].concat());
        assert_ended(&said);
        let computed = &json(&said.out)["computed"];
        assert_eq!((&computed["iterations_done"], &computed["iterations_planned"]), (&2.into(), &2.into()));
    }
}

#[test]
fn a_series_that_was_killed_continues_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &[CELLS.as_slice(), &SHORT].concat());
    running.wait_for("reference-keep-alive: round 2 of 3");
    running.signal("KILL");
    assert_eq!(running.end().code, -1);
    let directory = only_entry(&dir.path().join("runs"));
    let before: Vec<String> = kept(&directory);
    // On a busy machine the signal may come after more than these.
    assert!((4..12).contains(&before.len()), "{before:?}");
    let said = webstone_in(dir.path(), &["verify", "last"]);
    assert!(said.code == 6 && said.out.contains("the run did not end"), "{}{}", said.out, said.err);
    let said = webstone_in(dir.path(), &["report", "last"]);
    let told = format!("Not finished: {} of 12 iterations done", before.len());
    assert!(said.out.contains(&told), "{}{}", said.out, said.err);
    let path = directory.to_str().unwrap();
    let said = webstone_in(dir.path(), &["servers", "--resume", path, "-o", "report.json"]);
    assert_ended(&said);
    assert_eq!(course(&directory), there_and_back());
    let report = json(&fs::read_to_string(dir.path().join("report.json")).unwrap());
    assert_eq!(report["computed"]["iterations_done"], 12);
    for (_, path) in records(&directory) {
        assert_eq!(webstone(&["verify", path.to_str().unwrap()]).code, 0);
        let record = json(&fs::read_to_string(path.join("record.json")).unwrap());
        for run in record["iterations"].as_array().unwrap() {
            let window = run["measured"]["window_ns"].as_u64().unwrap();
            assert!(window >= 150_000_000, "{window} ns of a level that was not cut off");
        }
    }
    let after: Vec<String> = course_times(&directory);
    assert!(before.iter().all(|time| after.contains(time)), "{before:?} {after:?}");
    // Nothing is left to be done, and that needs no server.
    let again = webstone_in(dir.path(), &["servers", "--resume", path, "--format", "json"]);
    assert!(!again.err.contains("round") && course(&directory).len() == 12, "{}", again.err);
}

#[test]
fn the_file_of_all_transactions_has_those_of_the_record_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let one = ["servers", "reference", "-w", "workout-0k", "-c2", "-i2", "-d2s", "--warmup", "0s", "-t1"];
    let kept = ["--record-all", "all.tsv", "--events", "events"];
    let mut running = Running::start(dir.path(), &[&one[..], &kept].concat());
    running.wait_for("reference: round 2 of 2");
    let events = || fs::read_to_string(dir.path().join("events")).unwrap_or_default();
    let until = Instant::now() + Duration::from_secs(60);
    while !events().contains("\"iteration\":2},\"phase\":\"measuring\"") {
        assert!(Instant::now() < until, "the second window opens");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(100));
    running.signal("INT");
    running.end();
    let directory = only_entry(&dir.path().join("runs"));
    assert_ended(&webstone_in(dir.path(), &["servers", "--resume", directory.to_str().unwrap()]));
    let (_, path) = &records(&directory)[0];
    let record = json(&fs::read_to_string(path.join("record.json")).unwrap());
    let text = fs::read_to_string(dir.path().join("all-reference.tsv")).unwrap();
    let iterations = record["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 2);
    for run in iterations {
        let counts = &run["measured"]["counts"];
        let ended = counts["succeeded"].as_u64().unwrap() + counts["failed"].as_u64().unwrap();
        let key = format!("2\t{}\t", run["iteration"]);
        assert_eq!(text.lines().filter(|line| line.starts_with(&key)).count() as u64, ended, "{counts}");
    }
}

/// When each iteration of unfinished records began.
fn kept(directory: &Path) -> Vec<String> {
    let logs = records(directory).into_iter().map(|(_, path)| path.join("iterations.ndjson"));
    let text: String = logs.map(|log| fs::read_to_string(log).unwrap_or_default()).collect();
    text.lines().map(|line| json(line)["started_at"].as_str().unwrap().to_owned()).collect()
}

fn course_times(directory: &Path) -> Vec<String> {
    let of_record = |(_, path): (String, PathBuf)| {
        let record = json(&fs::read_to_string(path.join("record.json")).unwrap());
        let runs = record["iterations"].as_array().unwrap().clone();
        runs.into_iter().map(|run| run["started_at"].as_str().unwrap().to_owned())
    };
    records(directory).into_iter().flat_map(of_record).collect()
}

#[test]
fn an_interrupted_series_says_how_to_resume_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(
        dir.path(),
        &[CELLS.as_slice(), &["-w", "workout-0k", "-c", "1", "-d", "5s", "-i", "3"]].concat(),
    );
    running.wait_for("reference-per-request: round 1 of 3");
    running.signal("INT");
    let said = running.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let directory = only_entry(&dir.path().join("runs"));
    let name = directory.file_name().unwrap().to_str().unwrap();
    assert!(
        said.err.contains(&format!("interrupted; to resume: webstone servers --resume runs/{name}")),
        "{}",
        said.err
    );
    assert!(kept(&directory).is_empty(), "a level that was cut off is made again");
}

#[test]
fn scaling_is_measured_on_as_many_cpus_as_were_asked_for() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(
        dir.path(),
        &[&["scale", "reference", "--cpus", "2,1", "--format", "json"], SHORT.as_slice()].concat(),
    );
    if cpus < 2 {
        assert_eq!(said.code, 2, "{}", said.err);
        return;
    }
    assert_ended(&said);
    let report = json(&said.out);
    let rows = report["computed"]["scaling"][0]["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["cpus"], &rows[1]["cpus"]), (&1.into(), &2.into()));
    assert!(
        report["computed"]["scaling"][0]["no_law"].as_str().unwrap().contains("at 3 numbers of CPUs or more")
    );
    for cell in report["computed"]["cells"].as_array().unwrap() {
        let got = cell["server_cpus"].as_array().unwrap().len() as u64;
        assert_eq!(got, cell["at"]["cpus"].as_u64().unwrap(), "{cell}");
        assert_eq!(cell["shared_cpus"].as_array().unwrap().is_empty(), got == 1 || cpus > 2, "{cell}");
    }
    let warned = said.err.contains("server and generator share CPU");
    assert_eq!(warned, cpus == 2, "{}", said.err);
}

#[test]
fn answers_of_programs_are_compared_with_files() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "spice",
        "reference",
        "--interfaces",
        "persistent,cgi",
        "-w",
        "workout-16k",
        "--warmup",
        "20ms",
        "-t",
        "1",
    ];
    let said = webstone_in(
        dir.path(),
        &[&arguments[..], &["-c", "1,2", "-d", "0s", "-n", "40", "-i", "3", "--format", "json"]].concat(),
    );
    assert_ended(&said);
    let report = json(&said.out);
    let cells = report["series"]["cells"].as_array().unwrap();
    let of = |key: &str| cells.iter().map(|cell| cell["spec"][key].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["reference-static", "reference-persistent", "reference-cgi"]);
    assert_eq!(of("workload"), ["workout-16k", "spice-16384", "spice-16384"], "as large as the files");
    let spice = &report["computed"]["spice"][0];
    let rows = spice["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["interface"].as_str().unwrap()).collect();
    assert_eq!(names, ["static", "persistent", "cgi"]);
    // Every answer was checked: 40 pages of 16,384 bytes in three rounds of two levels.
    for (_, path) in records(&only_entry(&dir.path().join("runs"))) {
        let record = json(&fs::read_to_string(path.join("record.json")).unwrap());
        for run in record["iterations"].as_array().unwrap() {
            let measured = &run["measured"];
            let counts = &measured["counts"];
            assert_eq!((&measured["errors"], &counts["failed"]), (&json("[]"), &0.into()), "{counts}");
            assert!(counts["succeeded"].as_u64() >= Some(40), "{counts}");
        }
    }
    // Efficiency is the rate over that of files, each at its peak, however busy the machine was.
    let computed = report["computed"]["cells"].as_array().unwrap();
    let peak = |cell: &Value| {
        let level = &cell["levels"][cell["peak"].as_u64().unwrap() as usize];
        level["request_rate_interval"]["point"].as_f64().unwrap()
    };
    for (cell, row) in computed.iter().zip(rows) {
        let is_conclusive = |cell: &Value| {
            let standing = &cell["levels"][cell["peak"].as_u64().unwrap() as usize]["standing"];
            standing != "invalid" && standing != "inconclusive"
        };
        if !is_conclusive(cell) || !is_conclusive(&computed[0]) {
            assert!(row["efficiency_percent"].is_null(), "{row}");
            continue;
        }
        let efficiency = row["efficiency_percent"]["point"].as_f64().unwrap();
        let ratio = 100.0 * peak(cell) / peak(&computed[0]);
        assert!((efficiency / ratio - 1.0).abs() < 1e-6, "{efficiency} % of {ratio} %: {row}");
    }
    let name = only_entry(&dir.path().join("runs"));
    let text = webstone_in(dir.path(), &["report", name.to_str().unwrap()]).out;
    assert!(text.contains("SPICE  reference, per-request") && text.contains("efficiency"), "{text}");
    let html = webstone_in(dir.path(), &["report", name.to_str().unwrap(), "--format", "html"]).out;
    assert!(html.contains("Dynamic responses against files: reference"), "the page has its title");
}

#[test]
fn a_plan_is_shown_without_anything_run_and_its_file_is_the_same_plan() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = ["servers", "reference", "--policies", "per-request,keep-alive", "-c", "1,2", "-d", "10s"];
    let plan = webstone_in(dir.path(), &[matrix.as_slice(), &["--plan"]].concat());
    assert_eq!(
        plan.out,
        "reference-per-request        reference, per-request, standard\n\
         reference-keep-alive         reference, keep-alive, standard\n\
         2 cells × 2 levels × 3 iterations: 2 min 12 s under load, and 6 starts of servers\n"
    );
    let spec = webstone_in(dir.path(), &[matrix.as_slice(), &["--dump-spec"]].concat());
    fs::write(dir.path().join("matrix.toml"), &spec.out).unwrap();
    let again = webstone_in(dir.path(), &["servers", "-f", "matrix.toml", "--plan"]);
    assert_eq!((again.code, &again.out), (0, &plan.out), "{}", again.err);
    assert!(!dir.path().join("runs").exists());
    let run = webstone_in(dir.path(), &["run", "-f", "matrix.toml"]);
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            2,
            "error: testbed file matrix.toml, line 50: series: a matrix is several runs, but this command makes one\n\
             hint: use `webstone servers -f FILE` or `webstone scale -f FILE`\n"
        )
    );
}

#[test]
fn a_flag_takes_the_place_of_what_a_file_varies() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[series]\nservers = [\"apache\"]\nresolve_names = [\"off\"]\nbuilds = [\"/bin/true\", \"/bin/false\"]\n\
                workloads = [\"workout-0k\", \"transfer-2m\"]\npages = { transfer-2m = 10 }\n";
    fs::write(dir.path().join("matrix.toml"), file).unwrap();
    let cells = |flags: &[&str]| {
        let plan = webstone_in(dir.path(), &[&["servers", "-f", "matrix.toml", "--plan"], flags].concat());
        assert_eq!(plan.code, 0, "{}", plan.err);
        (plan.out.lines().count() - 1, plan.out.contains("names off"))
    };
    assert_eq!(cells(&[]), (4, true));
    assert_eq!(cells(&["--server-log", "access.log", "--server-resolve-names"]), (4, false));
    assert_eq!(cells(&["--server-program", "/bin/true"]), (2, true));
    assert_eq!(cells(&["--workload", "workout-0k"]), (2, true));
}

#[test]
fn invalid_plans_are_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("url.toml"), "target = ['http://192.0.2.1']\n").unwrap();
    fs::write(dir.path().join("word.toml"), "[series]\nserver = ['nginx']\n").unwrap();
    let shares = "[client.tls]\nresume = '20%'\n[series]\nservers = ['reference']\nhandshakes = ['full']\n";
    fs::write(dir.path().join("shares.toml"), shares).unwrap();
    fs::write(dir.path().join("isapi.toml"), "[series]\ninterfaces = ['isapi']\n").unwrap();
    fs::write(dir.path().join("sizes.txt"), "/a 1\n").unwrap();
    fs::write(dir.path().join("trace.toml"), "[generator]\ntrace = 1\n").unwrap();
    let cases: [(&[&str], &str); 18] = [
        (
            &["servers", "reference", "-f", "trace.toml"],
            "error: testbed file trace.toml, line 2: generator.trace: `1`, but a series shows no single exchanges\n\
             hint: leave it out, or use `run`\n",
        ),
        (
            &["servers", "reference", "--generator", "webstone agent", "--record-all", "all.tsv"],
            "error: --record-all (generator.record_all): `all.tsv`, but each round of a series starts its load generators anew, \
             whose files would begin again\n\
             hint: leave it out, make the load from this host alone, or use `run`\n",
        ),
        (
            &["servers", "--policies", "keep-alive"],
            "error: no server is given\n\
             hint: give them, as in `webstone servers nginx,apache:tuned`; `webstone servers` lists them\n",
        ),
        (
            &["servers", "-f", "isapi.toml"],
            "error: testbed file isapi.toml, line 2, column 14: `isapi` is not an interface\n\
             hint: write static, or one of native, cgi, fastcgi, persistent, php-fpm, scgi, uwsgi, module, lua, njs, asgi, node\n",
        ),
        (
            &["spice", "reference", "--interfaces", "static,lua"],
            "error: interfaces (series.interfaces): lua: reference has no such interface\n\
             hint: `webstone servers` lists which server has which interface, and what is missing here\n",
        ),
        (
            &["spice", "reference", "--interfaces", "static"],
            "error: --interfaces (series.interfaces): `static` alone has nothing to compare with\n\
             hint: name interfaces, as in cgi,fastcgi; or remove the list for all of them\n",
        ),
        (
            &["spice", "reference", "--server-interface", "cgi"],
            "error: --server-interface (server.interface): `cgi` is one interface, but `spice` measures several\n\
             hint: write cgi as --interfaces (series.interfaces)\n",
        ),
        (
            &["spice", "reference", "-w", "sizes.txt"],
            "error: --workload (workload): `sizes.txt` does not state the sizes of its files, so the dynamic answers \
             cannot be of the same size\n\
             hint: state the sizes in it, or give the dynamic workload with --dynamic-workload (series.dynamic_workload), such as spice\n",
        ),
        (
            &["servers", "reference,reference"],
            "error: servers (series.servers): reference is listed twice\n\
             hint: name each once; -i sets how often every cell is measured\n",
        ),
        (
            &["scale", "reference", "--cpus", "1"],
            "error: --cpus (series.cpus): scaling needs at least two numbers of CPUs, but there is one\n\
             hint: list them, as in 1,2,4; a machine with one CPU cannot show scaling\n",
        ),
        (
            &["servers", "reference", "--format", "hgrm"],
            "error: a series cannot be written as hgrm\n\
             hint: write one of text, html, markdown, csv, json, xlsx, or name the record of one cell\n",
        ),
        (
            &["servers", "-f", "url.toml"],
            "error: testbed file url.toml, line 1: target: `http://192.0.2.1`, but `servers` measures servers that it starts \
             itself\n\
             hint: remove it; for servers elsewhere, make one run each and use `webstone compare`\n",
        ),
        (
            &["servers", "-f", "word.toml"],
            "error: testbed file word.toml, line 2, column 1: unknown field `server`, expected one of `servers`, `profiles`, `builds`, \
             `interfaces`, `workloads`, `dynamic_workloads`, `resolve_names`, `dynamic_workload`, `caching`, `connections`, `handshakes`, `paths`, `http`, `cpus`, `pages`\n\
             hint: did you mean `servers`?\n",
        ),
        (
            &["servers", "-f", "shares.toml"],
            "error: testbed file shares.toml, line 2: --tls-resume (client.tls.resume): `20%` is one share, and --handshakes \
             (series.handshakes) vary\n\
             hint: leave out one of the two\n",
        ),
        (
            &["servers", "--resume", "."],
            "error: . is not a series: it has no series.json\n\
             hint: give the directory that the series printed when it began\n",
        ),
        (
            &["servers", "reference", "--server-cache", "-i", "0"],
            "error: --iterations: `0` is less than 1\nhint: write at least 1\n",
        ),
        (
            &["servers", "reference", "--server-processes", "2"],
            "error: --server-processes (server.processes): it does not apply to the reference server\n\
             hint: choose another server, such as nginx, or remove it; `webstone servers` lists the servers\n",
        ),
        (
            &["scale", "reference", "--cpus", "1,4000"],
            "error: --cpus (series.cpus): 4000 CPUs for the server, but this process may run on",
        ),
    ];
    for (arguments, expected) in cases {
        let said = webstone_in(dir.path(), arguments);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}: {}", said.err);
        assert!(said.err.starts_with(expected), "{arguments:?}: {}", said.err);
    }
    assert!(!dir.path().join("runs").exists(), "nothing is begun");
    let unknown = webstone(&["servers", "reference,iis"]);
    assert!(unknown.code == 2 && unknown.err.contains("`iis` is not a server"), "{}", unknown.err);
}

#[test]
fn a_resumed_series_takes_what_was_not_stored_from_its_command_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("large"), "x".repeat(70_000)).unwrap();
    fs::write(dir.path().join("other"), "y".repeat(70_000)).unwrap();
    let secret = ["-H", "Authorization: Bearer abcdef0123456789"];
    let body = ["--body", "@large", "-m", "GET"];
    let mut begun = Running::start(dir.path(), &[&CELLS[..], &SHORT, &secret, &body].concat());
    begun.wait_for("reference-keep-alive: round 2 of 3");
    begun.signal("KILL");
    begun.end();
    let directory = only_entry(&dir.path().join("runs"));
    let before = kept(&directory);
    assert!((4..12).contains(&before.len()), "{before:?}");
    let plan = fs::read_to_string(directory.join("series.json")).unwrap();
    assert!(!plan.contains("abcdef0123456789") && !plan.contains("xxxx"), "{plan}");

    let resume = ["--resume", directory.to_str().unwrap()];
    let other = ["--body", "@other", "-m", "GET"];
    let refused: [(&[&[&str]], &str); 4] = [
        (
            &[&["servers"]],
            "cannot be resumed by itself: its requests have secrets, or a body of more than 64 KiB",
        ),
        (&[&["servers"], &secret], "no server is given"),
        (
            &[&CELLS, &SHORT, &secret],
            "reference-per-request: --body (client.body) was \"[body of 70000 bytes, SHA-256",
        ),
        (
            &[&CELLS, &SHORT, &secret, &other],
            "reference-per-request: --body (client.body) was \"[body of 70000 bytes, SHA-256",
        ),
    ];
    for (arguments, expected) in refused {
        let said = webstone_in(dir.path(), &[&arguments.concat()[..], &resume].concat());
        assert!(said.code == 2 && said.err.contains(expected), "{arguments:?}: {}", said.err);
        assert!(!said.err.contains("abcdef0123456789"), "{}", said.err);
    }
    let said = webstone_in(dir.path(), &[&CELLS[..], &SHORT, &secret, &body, &resume].concat());
    assert_ended(&said);
    assert_eq!(course(&directory), there_and_back());
    let after = course_times(&directory);
    assert!(before.iter().all(|time| after.contains(time)), "{before:?} {after:?}");
    let said = webstone(&["verify", directory.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

#[test]
fn a_series_with_a_changed_record_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &[CELLS.as_slice(), &SHORT].concat());
    running.wait_for("reference-keep-alive: round 1 of 3");
    running.signal("KILL");
    running.end();
    let directory = only_entry(&dir.path().join("runs"));
    let (_, begun) =
        records(&directory).into_iter().find(|(name, _)| name.starts_with("reference-per-request")).unwrap();
    let file = begun.join("record.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"workload_sha256\": \"", "\"workload_sha256\": \"0")).unwrap();
    let said = webstone_in(dir.path(), &["servers", "--resume", directory.to_str().unwrap(), "-q"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.starts_with("error: 1 of 2 cells failed: reference-per-request: "), "{}", said.err);
    assert!(said.err.contains("cannot be resumed: the workload was workout-0k (0"), "{}", said.err);
}

/// The files named in the documentation give the plans that it promises.
#[test]
fn the_examples_can_be_planned() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // The others are workloads.
        if !text.contains("[series]") {
            continue;
        }
        seen += 1;
        let file = path.to_str().unwrap();
        // The command in the file itself; this machine may not have all the CPUs.
        let named = |kind: &&str| text.contains(&format!("webstone {kind} -f"));
        let kind = ["scale", "spice", "servers"].into_iter().find(named).unwrap();
        let said = command(dir.path(), &[kind, "-f", file, "--plan"]).output().unwrap();
        let err = String::from_utf8(said.stderr).unwrap();
        if err.contains("is not installed") || err.contains("CPUs for the server") {
            println!("skipped: {file}: {}", err.trim_end());
            continue;
        }
        assert!(said.status.success(), "{file}: {err}");
    }
    assert!(seen >= 4, "{seen} files");
}
