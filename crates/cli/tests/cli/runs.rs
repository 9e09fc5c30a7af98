//! Runs from beginning to end: the report on standard output, the record in its directory, the same report again.

use serde_json::Value;

use crate::program::{Said, Server, only_entry, webstone_in};
use crate::trust::FILES;

/// A short sweep with the embedded server.
const SHORT: [&str; 7] = ["run", "-c", "1,2", "-d", "300ms", "--warmup", "50ms"];

/// Whether a --quiet run ended as expected: without a message, or because the load generator was the bottleneck, as
/// it may be with such a cheap server.
fn is_done(said: &Said) -> bool {
    let begins = |word: &str| said.err.starts_with(word);
    said.code == 0 && said.err.is_empty()
        || said.code == 4 && (begins("invalid: ") || begins("inconclusive: "))
}

/// Whether a run reached its end, even if its figures cannot be trusted on a busy machine.
fn is_whole(said: &Said) -> bool {
    let says = |word: &str| said.err.contains(word);
    said.code == 0 || said.code == 4 && (says("\ninvalid: ") || says("\ninconclusive: "))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_run_prints_a_report_and_leaves_a_complete_record() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &SHORT);
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    assert!(said.out.starts_with("webstone ") && said.out.contains("\nLevels\n"), "{}", said.out);

    let run = only_entry(&dir.path().join("runs"));
    let mut names: Vec<String> = std::fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [&["MANIFEST.sha256"], &FILES[..]].concat());
    let record = json(&std::fs::read_to_string(run.join("record.json")).unwrap());
    assert_eq!(record["state"], "complete");
    assert_eq!(record["iterations"].as_array().unwrap().len(), 2);
    assert_eq!(record["command_line"].as_array().unwrap().len(), 1 + SHORT.len());

    let is_reason = |line: &&str| line.starts_with("invalid: ") || line.starts_with("inconclusive: ");
    let lines: Vec<&str> = said.err.lines().filter(|line| !is_reason(line)).collect();
    // On a busy machine the reason is the verdict.
    let has_reason = lines.len() < said.err.lines().count();
    assert_eq!(lines.len(), if has_reason { 5 } else { 6 }, "{}", said.err);
    assert!(lines[0].starts_with("standard on the embedded server at http://127.0.0.1:"), "{}", lines[0]);
    assert!(lines[0].ends_with(": 2 levels, about 1 s"), "{}", lines[0]);
    assert!(lines[1].starts_with("[1/2] 1 client: ") && lines[1].ends_with(", 0 errors"), "{}", lines[1]);
    assert!(lines[2].starts_with("[2/2] 2 clients: "), "{}", lines[2]);
    assert_eq!(lines[3], format!("record: runs/{}", run.file_name().unwrap().display()));
    assert_eq!(lines[4], format!("report: runs/{}/report.html", run.file_name().unwrap().display()));
    let last = said.err.lines().last().unwrap_or_default();
    let is_verdict = |line: &str| ["VALID", "SOUND", "NOISY"].iter().any(|word| line.starts_with(word));
    assert!(
        if has_reason { is_reason(&last) } else { is_verdict(last) },
        "the verdict is the last line: {last}"
    );
}

#[test]
fn a_verdict_below_the_required_one_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        webstone_in(dir.path(), &[SHORT.as_slice(), &["--require", "valid", "-q", "--no-store"]].concat());
    assert_eq!(said.code, 4, "{}", said.err);
    // Half a second on one host is never valid; how noisy this machine is, nobody knows.
    let first = said.err.lines().next().unwrap_or_default();
    assert!(
        ["sound: --require valid", "noisy: ", "inconclusive: ", "invalid: "]
            .iter()
            .any(|it| first.starts_with(it)),
        "{first}"
    );
    let wrong = webstone_in(dir.path(), &["run", "--require", "perfect"]);
    assert!(wrong.code == 2 && wrong.err.contains("perfect"), "{}", wrong.err);
}

#[test]
fn the_same_report_is_printed_again_from_the_store() {
    for format in ["text", "html", "json", "csv", "hit", "webstone1", "webstone2"] {
        let dir = tempfile::tempdir().unwrap();
        let said = webstone_in(dir.path(), &[SHORT.as_slice(), &["--format", format, "-q"]].concat());
        assert!(is_done(&said), "{format}: {said:?}");
        let run = only_entry(&dir.path().join("runs"));
        let again = webstone_in(dir.path(), &["report", run.to_str().unwrap(), "--format", format]);
        assert_eq!((again.code, again.err.as_str()), (0, ""), "{format}");
        // The hint about the full report differs.
        let report = |out: &str| out.split("\nNot shown: ").next().map(str::to_owned);
        assert!(report(&again.out) == report(&said.out), "{format}: {} and {}", said.out, again.out);
        assert!(!again.out.is_empty());
    }
}

#[test]
fn the_ending_of_a_file_says_which_report_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &[SHORT.as_slice(), &["-o", "out.csv", "-q"]].concat());
    assert!(is_done(&said) && said.out.is_empty(), "{said:?}");
    let beginning = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap()[..10].to_owned();
    assert_eq!(beginning("out.csv"), "run,clients"[..10]);
    let run = only_entry(&dir.path().join("runs"));
    let run = run.to_str().unwrap();
    for (name, begins) in
        [("a.html", "<!doctype "), ("a.json", "{\n  \"schem"), ("a.txt", "webstone 0"), ("a", "webstone 0")]
    {
        assert_eq!(webstone_in(dir.path(), &["report", run, "-o", name]).code, 0, "{name}");
        assert_eq!(beginning(name), begins, "{name}");
    }
    // A given format has precedence over the file's extension.
    assert_eq!(webstone_in(dir.path(), &["report", run, "-o", "b.html", "--format", "csv"]).code, 0);
    assert_eq!(beginning("b.html"), "run,clients"[..10]);
    // Several records are one page.
    assert_eq!(webstone_in(dir.path(), &["report", run, run, "-o", "two.html"]).code, 0);
    let page = std::fs::read_to_string(dir.path().join("two.html")).unwrap();
    assert_eq!(page.matches("<!doctype html>").count(), 1);
    assert!(page.contains("<h1>2 runs compared</h1>"));
    let kept = std::fs::read_to_string(std::path::Path::new(run).join("report.html")).unwrap();
    assert!(
        kept == std::fs::read_to_string(dir.path().join("a.html")).unwrap(),
        "it is the one that the run left"
    );
}

#[test]
fn pages_end_a_level_and_every_one_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "run",
        "-c",
        "1,7",
        "-n",
        "100",
        "-d",
        "0s",
        "--warmup",
        "0s",
        "--format",
        "json",
        "--name",
        "by-pages",
        "--connections",
        "per-request",
    ];
    let said = webstone_in(dir.path(), &arguments);
    assert!(is_whole(&said), "{}", said.err);
    let report = json(&said.out);
    for iteration in report["iterations"].as_array().unwrap() {
        let counts = &iteration["measured"]["counts"];
        assert_eq!(counts["pages_completed"], 100);
        assert_eq!(counts["succeeded"], 100);
        assert_eq!(counts["connections"], 100, "a connection for each request");
        assert_eq!(counts["failed"], 0);
    }
    let run = only_entry(&dir.path().join("runs"));
    assert!(run.file_name().unwrap().to_str().unwrap().ends_with("-by-pages"), "{}", run.display());
    assert_eq!(report["computed"]["levels"].as_array().unwrap().len(), 2);
}

#[test]
fn a_hit_counts_its_requests_keeps_its_connections_and_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/file500.html", server.url);
    let said = webstone_in(dir.path(), &["hit", &url, "-n", "200", "-c", "4", "-t", "1", "--format", "json"]);
    assert!(is_whole(&said), "{}", said.err);
    let report = json(&said.out);
    let counts = &report["iterations"][0]["measured"]["counts"];
    assert_eq!(counts["succeeded"], 200);
    assert_eq!(counts["connections"], 4);
    assert_eq!(report["workload"]["pages"][0]["files"][0]["url"], "/file500.html");
    assert!(!dir.path().join("runs").exists());

    let said =
        webstone_in(dir.path(), &["hit", &url, "-n", "50", "-c", "2", "-K", "--latency", "--store", "-q"]);
    assert!(is_done(&said), "{said:?}");
    assert!(said.out.lines().any(|line| line.starts_with("Requests/sec:")), "{}", said.out);
    let run = only_entry(&dir.path().join("runs"));
    assert!(run.file_name().unwrap().to_str().unwrap().ends_with("-hit"), "{}", run.display());
}

#[test]
fn a_report_can_show_a_part_and_go_into_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        webstone_in(dir.path(), &[SHORT.as_slice(), &["-o", "report.csv", "--format", "csv"]].concat());
    assert!(matches!(said.code, 0 | 4) && said.out.is_empty(), "{said:?}");
    let written = std::fs::read_to_string(dir.path().join("report.csv")).unwrap();
    assert_eq!(written.lines().count(), 3, "a head and two levels: {written}");
    let run = only_entry(&dir.path().join("runs"));
    let run = run.to_str().unwrap();
    let part = webstone_in(dir.path(), &["report", run, "--format", "csv", "-c", "2"]);
    assert_eq!((part.code, part.out.lines().count()), (0, 2), "{}", part.out);
    let pages = webstone_in(dir.path(), &["report", run, "--format", "csv", "--table", "pages"]);
    // A head and, for each level, the pages that were requested: of five, perhaps without the rare ones.
    assert!(pages.code == 0 && (5..=11).contains(&pages.out.lines().count()), "{}", pages.out);
    let none = webstone_in(dir.path(), &["report", run, "-c", "4"]);
    assert_eq!(none.code, 1);
    assert_eq!(
        none.err,
        format!(
            "error: {run}: the record has no level of 4 clients: it holds 1 client (iteration 1), 2 clients (iteration 1)\n\
             hint: leave out the selection, or choose one of these\n"
        )
    );
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let plain = webstone_in(dir.path(), &SHORT);
    assert!(!plain.out.contains('\x1b') && !plain.err.contains('\x1b'), "{plain:?}");
    let run = only_entry(&dir.path().join("runs"));
    let colored = webstone_in(dir.path(), &["report", run.to_str().unwrap(), "--color", "always"]);
    assert!(colored.out.contains("\x1b[1m"), "{}", colored.out);
}

#[test]
fn traces_go_to_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["run", "-c", "1", "-n", "3", "-d", "0s", "--warmup", "0s", "--trace", "1", "--no-store"];
    let said =
        webstone_in(dir.path(), &[arguments.as_slice(), &["-H", "Authorization: Basic c2VjcmV0"]].concat());
    assert!(is_whole(&said), "{}", said.err);
    assert!(said.err.contains("> GET /file") && said.err.contains("< HTTP/1.1 200"), "{}", said.err);
    assert!(!said.err.contains("c2VjcmV0"), "{}", said.err);
    assert!(!said.out.contains("GET /file500.html HTTP"), "{}", said.out);
}

#[test]
fn a_trace_shows_a_template_as_it_was_filled() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("w.toml"), "[[pages]]\nfiles = [\"/item/{{seq}}\"]\n").unwrap();
    let arguments =
        ["run", "-w", "w.toml", "-c", "1", "-n", "2", "-d", "0s", "--warmup", "0s", "--trace", "2"];
    let said = webstone_in(dir.path(), &[&arguments[..], &["--no-check", "--no-store"]].concat());
    assert!(said.err.contains("> GET /item/") && !said.err.contains("{{"), "{}", said.err);
}

#[test]
fn stored_runs_are_listed_and_the_last_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    let none = webstone_in(dir.path(), &["list"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{none:?}");
    assert!(none.err.contains("there is no run in runs"), "{}", none.err);
    let said = webstone_in(dir.path(), &[SHORT.as_slice(), &["-q"]].concat());
    assert!(is_done(&said), "{said:?}");
    let run = only_entry(&dir.path().join("runs"));
    let listed = webstone_in(dir.path(), &["list"]);
    assert!(listed.out.contains(run.file_name().unwrap().to_str().unwrap()), "{}", listed.out);
    assert!(listed.out.contains("/s at "), "{}", listed.out);
    let name = run.file_name().unwrap().to_str().unwrap();
    let tagged =
        webstone_in(dir.path(), &["note", "last", "--tag", "baseline", "--text", "as\u{1b}[2J it was"]);
    assert_eq!(tagged.code, 0, "{tagged:?}");
    assert!(tagged.out.starts_with(&format!("{name}\ntags     baseline\nupdated  20")), "{}", tagged.out);
    assert!(tagged.out.ends_with("\n\nas\\u{1b}[2J it was\n"), "{}", tagged.out);
    let found = |query: &[&str]| webstone_in(dir.path(), &[&["list"], query].concat());
    for query in [&["tag:baseline"][..], &["standard", "command:run"], &["it was"], &["\"it was\""]] {
        let said = found(query);
        assert!(said.out.contains(name) && said.out.contains("baseline"), "{query:?}: {said:?}");
    }
    let none = found(&["tag:other"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{none:?}");
    assert!(none.err.contains("no run in runs matches tag:other"), "{}", none.err);
    let wrong = found(&["tga:baseline"]);
    assert!(wrong.code == 2 && wrong.err.contains("hint: did you mean tag:?"), "{wrong:?}");
    let wrong = webstone_in(dir.path(), &["note", "last", "--tag", "Two Words"]);
    assert!(wrong.code == 2 && wrong.err.contains("--tag: `Two Words` is not a tag"), "{wrong:?}");
    let bare = webstone_in(dir.path(), &["note", "last", "--untag", "baseline", "--text", ""]);
    assert_eq!(bare.out, format!("{name}: no note\n"));
    // Whether the run counts depends on the machine, but it must be one of this server.
    let history = webstone_in(dir.path(), &["history", "--server", "webstone", "--format", "json"]);
    let told = json(&history.out);
    let lines = told["lines"].as_array().unwrap().len() as u64;
    assert_eq!((history.code, lines + told["left_out"].as_u64().unwrap()), (0, 1), "{history:?}");
    let other = webstone_in(dir.path(), &["history", "--server", "nginx"]);
    assert!(other.code == 2 && other.err.contains("hint: it has runs of webstone\n"), "{other:?}");
    let wrong = webstone_in(dir.path(), &["history", "--metric", "p99"]);
    assert!(wrong.code == 2 && wrong.err.contains("--server"), "{wrong:?}");
    let verified = webstone_in(dir.path(), &["verify", "last"]);
    assert!(verified.code == 0 && verified.out.contains("VERIFIED"), "{verified:?}");
    let unknown = webstone_in(dir.path(), &["verify", "last~7"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn the_width_is_that_of_columns() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &[SHORT.as_slice(), &["-q"]].concat());
    assert!(is_done(&said), "{said:?}");
    let wide = |columns: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_webstone"));
        command.current_dir(dir.path()).env("COLUMNS", columns).args(["report", "last", "--full"]);
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        out.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(wide("60") <= 60 && wide("140") > 80 && wide("nonsense") <= 80);
}

#[test]
fn an_open_loop_shows_what_it_offered_in_every_report() {
    let dir = tempfile::tempdir().unwrap();
    let open: &[&str] =
        &["run", "--full", "-R", "100,200", "-d", "1s", "--warmup", "100ms", "--retries", "0"];
    let said = webstone_in(dir.path(), open);
    // On a busy machine the schedule may be late, which gives exit code 4.
    assert!([0, 4].contains(&said.code), "{said:?}");
    for part in ["Open loop", "offered", "schedule lag", "from actual start", "open loop, constant arrivals"]
    {
        assert!(said.out.contains(part), "{part} in {}", said.out);
    }
    let progress: Vec<&str> = said.err.lines().collect();
    assert!(progress[1].starts_with("[1/2] 100 arrivals/s: offered "), "{}", said.err);
    let run = only_entry(&dir.path().join("runs"));
    let run = run.to_str().unwrap();

    let report = json(&webstone_in(dir.path(), &["report", run, "--format", "json"]).out);
    for (index, rate) in [(0, 100), (1, 200)] {
        let iteration = &report["iterations"][index];
        let books = &iteration["measured"]["open_loop"];
        assert_eq!((&iteration["rate"], &books["planned"]), (&rate.to_string().into(), &rate.into()));
        let level = &report["computed"]["levels"][index];
        assert_eq!(level["schedule"]["asked_rate"], f64::from(rate));
        assert_eq!(level["distributions"]["schedule_lag"]["count"], books["lag"]["count"]);
        let uncorrected = &level["distributions"]["response_uncorrected"];
        assert_eq!(uncorrected["count"], iteration["measured"]["counts"]["succeeded"]);
        assert!(iteration["identities"].as_array().unwrap().iter().all(|check| check["holds"] == true));
    }
    let csv = webstone_in(dir.path(), &["report", run, "--format", "csv"]).out;
    let (names, row) = (csv.lines().next().unwrap(), csv.lines().nth(1).unwrap());
    let at = |name: &str| {
        let place = names.split(',').position(|column| column == name).unwrap();
        row.split(',').nth(place).unwrap().to_owned()
    };
    assert_eq!(
        (at("rate_per_s"), at("arrivals_planned"), at("asked_per_s")),
        ("100".into(), "100".into(), "100".into())
    );
    assert!(!at("schedule_lag_p99_s").is_empty() && !at("latency_uncorrected_p50_s").is_empty());
    let hit = webstone_in(dir.path(), &["report", run, "--format", "hit"]).out;
    assert!(
        hit.contains("from the intended start, from the actual start") && hit.contains("schedule lag"),
        "{hit}"
    );
}

/// The paper's repetition test, with pages from the command line: each is fetched a given number of times, whatever
/// its weight, and then the report is printed.
#[test]
fn a_repetition_test_fetches_each_page_as_often() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "general-and-media"]);
    let typed = ["40:/file3k.html,/file4k.html", "/file10k.html", "5:/file6k.html"];
    let arguments =
        [&["run", &server.url][..], &typed, &["--repetitions", "7", "-c", "3", "--no-store"]].concat();
    let said = webstone_in(dir.path(), &[&arguments[..], &["--format", "webstone2"]].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    assert_eq!(said.out.matches("Total number of times page was hit 7\n").count(), 3, "{}", said.out);
    assert!(said.out.contains("Total number of pages read:\t21\n"), "{}", said.out);
    assert!(said.out.contains("\nPage size 7168 \n"), "{}", said.out);
    let both = webstone_in(dir.path(), &[&arguments[..], &["-n", "5"]].concat());
    assert_eq!(both.code, 2, "{both:?}");
    server.end();
}

#[test]
fn a_documents_tables_stand_with_and_without_runs_and_results_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let squeezed = |said: &Said| said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let own = "[[document]]\nid = 'iis'\ntitle = 'IIS'\nauthors = 'Haynes'\npublished = '1996'\n[document.wording]\n\
               [[result]]\nid = 'iis-html'\ndocument = 'iis'\nbeside = 'fasttrack-1cpu-html'\nserver = 'IIS'\nload = 'HTML'\n\
               system = ''\nsoftware = ''\ntool = ''\nplace = ''\ncolumns = ['clients', 'connection-rate']\nrows = \"16 255\"\n";
    std::fs::write(dir.path().join("iis.toml"), own).unwrap();
    let said = webstone_in(dir.path(), &["report", "--like", "fasttrack", "--published", "iis.toml"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(
        squeezed(&said).contains("16 1996 262 0.000 0.06 14.1 IIS 255 NA NA NA 32 1996 263"),
        "{}",
        said.out
    );
    let said = webstone_in(dir.path(), &["report", "--like", "iis"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("`iis` is not a document") && said.err.contains("hint: "), "{}", said.err);
    std::fs::write(dir.path().join("iis.toml"), own.replace("fasttrack-1cpu-html", "fasttrack")).unwrap();
    let said = webstone_in(dir.path(), &["report", "--like", "fasttrack", "--published", "iis.toml"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("there is no published result `fasttrack`"), "{}", said.err);
    // A run that was measured as the row was.
    let run =
        ["run", "-w", "workout-0k", "-c", "1", "-n", "200", "-d", "0", "--warmup", "0", "--http", "1.0"];
    let run = [&run[..], &["--connections", "per-request", "--server-no-cache", "--name", "mine"]].concat();
    webstone_in(dir.path(), &run);
    let stored = crate::program::only_entry(&dir.path().join("runs"));
    let said = webstone_in(dir.path(), &["report", stored.to_str().unwrap(), "--like", "wasd"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let text = squeezed(&said);
    assert!(text.contains("0K 10 printed 1.95 103 mine NA NA"), "{text}");
    // Seconds that 200 requests took; a star says that the machine was busy.
    let mine = text.split("0K 1 printed 2.30 87 mine ").nth(1).and_then(|rest| rest.split(' ').next());
    let seconds: f64 = mine.unwrap_or_default().trim_end_matches('*').parse().expect(&text);
    assert!(seconds > 0.0, "{text}");
}
