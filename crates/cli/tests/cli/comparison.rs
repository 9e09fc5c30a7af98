//! `compare` and thresholds through the program: what is printed, and the exit codes. Records are made by one run of
//! the embedded server and then edited, so that the differences are known.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Said, only_entry, webstone, webstone_in};

/// Runs below `runs/`: a, b (a, but 5 % slower), c (a with another policy), d (a with one iteration), e (a again), f
/// (a at another level).
fn records() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let ran = ["run", "-c", "2", "-d", "100ms", "-i", "3", "--warmup", "0", "--name", "a", "-q"];
    let said = webstone_in(dir.path(), &ran);
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let made = only_entry(&dir.path().join("runs"));
    for (name, change) in [
        ("1-a", (|_: &mut Value| {}) as fn(&mut Value)),
        ("2-b", |record| windows(record, 1.05)),
        ("3-c", |record| record["spec"]["client"]["connections"] = "per-request".into()),
        ("4-d", |record| record["iterations"].as_array_mut().unwrap().truncate(1)),
        ("5-e", |record| windows(record, 1.0)),
        ("0-f", |record| {
            record["iterations"].as_array_mut().unwrap().iter_mut().for_each(|i| i["clients"] = 4.into())
        }),
    ] {
        let run = dir.path().join("runs").join(name);
        fs::create_dir(&run).unwrap();
        let mut record: Value =
            serde_json::from_str(&fs::read_to_string(made.join("record.json")).unwrap()).unwrap();
        record["id"] = name.into();
        even(&mut record);
        change(&mut record);
        fs::write(run.join("record.json"), record.to_string()).unwrap();
        // The other files keep only what the first iteration has, so that they fit every change above.
        for file in ["histograms.hlog", "intervals.ndjson"] {
            fs::write(run.join(file), "").unwrap();
        }
    }
    fs::remove_dir_all(made).unwrap();
    dir
}

/// Makes iterations equal except for a scatter of 0.1 %, with nothing that could make them invalid.
fn even(record: &mut Value) {
    let first = record["iterations"][0].clone();
    for (index, run) in record["iterations"].as_array_mut().unwrap().iter_mut().enumerate() {
        let number = run["iteration"].clone();
        *run = first.clone();
        run["iteration"] = number;
        // The rows of pages are left out, and all that tells of noise: this machine may be busy.
        for key in ["pages_at", "host", "server", "server_missing"] {
            run.as_object_mut().unwrap().remove(key);
        }
        for worker in run["measured"]["generator"]["workers"].as_array_mut().unwrap() {
            for key in ["run_queue_ns", "stalled_ns", "stalled_ns_max"] {
                worker.as_object_mut().unwrap().remove(key);
            }
        }
        run["identities"] = Value::Array(Vec::new());
        run["measured"]["window_ns"] = (100_000_000 + 100_000 * index).into();
    }
}

/// Makes windows longer by a factor, and so every rate lower.
fn windows(record: &mut Value, factor: f64) {
    for run in record["iterations"].as_array_mut().unwrap() {
        let window = run["measured"]["window_ns"].as_u64().unwrap() as f64;
        run["measured"]["window_ns"] = ((window * factor).round() as u64).into();
    }
}

fn compare(dir: &Path, arguments: &[&str]) -> Said {
    webstone_in(dir, &[&["compare"], arguments].concat())
}

#[test]
fn a_file_that_ends_in_html_is_a_page_with_the_same_judgement() {
    let dir = records();
    let said = compare(dir.path(), &["1-a", "2-b", "-o", "page.html"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("B against A: slower; request rate -4."),
        "{page}"
    );
    let other = compare(dir.path(), &["1-a", "2-b", "-o", "page.txt", "--format", "html"]);
    assert_eq!(other.code, 0);
    assert!(
        page == fs::read_to_string(dir.path().join("page.txt")).unwrap(),
        "the format that is named goes first"
    );
}

#[test]
fn slower_runs_are_called_slower_and_gates_have_an_exit_code() {
    let dir = records();
    let dir = dir.path();
    let said = compare(dir, &["1-a", "2-b"]);
    assert_eq!(said.code, 0, "{said:?}");
    // 1 / 1.05 is 4.76 % less.
    assert!(said.out.contains("B against A: slower; request rate -4.8 % (-"), "{}", said.out);
    let said = compare(dir, &["2-b", "last"]);
    assert!(said.out.contains("B against A: faster; request rate +5.0 % (+"), "{}", said.out);
    let said = compare(dir, &["1-a", "5-e"]);
    assert!(said.out.contains("B against A: no difference shown; request rate 0.0"), "{}", said.out);

    for (arguments, code) in [
        (&["--force", "--fail-if", "rate<-3%"][..], 3),
        (&["--force", "--fail-if", "rate<-5%"], 0),
        (&["--force", "--fail-if", "rate<-4%", "--noise-floor", "6%"], 0),
        (&["--force", "--fail-if", "rate<-4%", "--noise-floor", "6%", "--fail-when", "measured"], 3),
        (&["--force", "--fail-if", "rate<-4.8%", "--fail-when", "possible"], 3),
        (&["--force", "--fail-if", "rate>+3%,errors>+0.1pp"], 0),
        (&["--force", "--threshold", "errors<=0,rate>1"], 0),
        (&["--force", "--threshold", "rate{clients:2}<1"], 3),
    ] {
        let said = compare(dir, &[&["1-a", "2-b"], arguments].concat());
        assert_eq!(said.code, code, "{arguments:?} {said:?}");
        assert_eq!(said.err.contains("failed: "), code == 3, "{arguments:?} {}", said.err);
    }
}

#[test]
fn formats_say_the_same() {
    let dir = records();
    let said = compare(dir.path(), &["1-a", "2-b", "--format", "json"]);
    let json: Value = serde_json::from_str(&said.out).unwrap();
    let row = &json["candidates"][0]["levels"][0]["rows"][0];
    assert_eq!((row["metric"].as_str(), row["finding"].as_str()), (Some("rate"), Some("worse")), "{row}");
    assert!((row["ratio"]["point"].as_f64().unwrap() - 1.0 / 1.05).abs() < 1e-6, "{row}");
    let said = compare(dir.path(), &["1-a", "2-b", "--format", "markdown", "-o", "pr.md"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    let markdown = fs::read_to_string(dir.path().join("pr.md")).unwrap();
    assert!(
        markdown.starts_with("### Comparison: 2-b (B) against 1-a (A)\n\n")
            && markdown.contains("**B against A: slower; request rate -4.8 % ("),
        "{markdown}"
    );
    assert!(markdown.contains("<details><summary>") && markdown.ends_with("</details>\n"), "{markdown}");
}

#[test]
fn incomparable_runs_are_refused_or_labelled() {
    let dir = records();
    let dir = dir.path();
    let said = compare(dir, &["1-a", "3-c"]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (
            2,
            "",
            "error: 3-c cannot be compared with 1-a:\n  connection policy: per-request against keep-alive\n\
             hint: measure both alike, or use --force to compare them anyway\n"
        )
    );
    let said = compare(dir, &["1-a", "3-c", "--force"]);
    assert_eq!(said.code, 0);
    assert!(
        said.out.contains("not comparable  connection policy: keep-alive against per-request"),
        "{}",
        said.out
    );
}

#[test]
fn runs_without_a_level_in_common_are_refused() {
    let dir = records();
    for force in [&[][..], &["--force"]] {
        let said = compare(dir.path(), &[&["1-a", "0-f"], force].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert_eq!(
            said.err,
            "error: no level is in both: 1-a has 2 clients, and 0-f has 4 clients\n\
             hint: run both with the same levels: -c, or -R in open loop\n"
        );
    }
}

#[test]
fn one_iteration_is_not_enough() {
    let dir = records();
    let dir = dir.path();
    let said = compare(dir, &["1-a", "4-d"]);
    assert!(said.out.contains("cannot tell"), "{}", said.out);
    let said = compare(dir, &["1-a", "4-d", "--force", "--fail-if", "rate<-3%"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains(
            "error: --fail-if: `rate<-3%` cannot be judged at 2 clients\nhint: to pass takes three iterations"
        ),
        "{}",
        said.err
    );
}

#[test]
fn wrong_words_name_the_option_the_place_and_the_remedy() {
    let dir = records();
    for (arguments, message) in [
        (
            &["1-a"][..],
            "error: only one run is named, `1-a`\nhint: name two or more: the first is the baseline\n",
        ),
        (
            &["1-a", "1-a"],
            "error: 1-a and 1-a are the same run\nhint: name two runs; to see the noise of one, make it with --aa\n",
        ),
        (
            &["1-a", "2-b", "--noise-floor", "2"],
            "error: --noise-floor: `2` has no unit\nhint: write 2%, or a run made with --aa\n",
        ),
        (
            &["1-a", "2-b", "--noise-floor", "5-e"],
            "error: --noise-floor: `5-e` is a run without two arms\n\
             hint: make one with `webstone run --aa -i 6`, or write a percentage, as in 2%\n",
        ),
        (
            &["1-a", "2-b", "--fail-if", "rate{clients:3}<-3%"],
            "error: --fail-if: `rate{clients:3}<-3%` selects 3 clients, but there is no such level\n\
             hint: the levels are 2\n",
        ),
        (
            &["1-a", "2-b", "--fail-if", "rate<-3"],
            "error: --fail-if: `rate<-3`, column 8: the change of `rate` needs its unit, %\n\
             hint: write a change against the baseline in percent, as in rate<-3% or p(99)>+10%\n",
        ),
        (
            &["last~9", "last"],
            "error: last~9: runs has 6 runs\n\
             hint: `last` is the newest, `last~1` the one before; --runs-dir names another directory\n",
        ),
    ] {
        let said = compare(dir.path(), arguments);
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (2, "", message), "{arguments:?}");
    }
}

#[test]
fn a_stored_run_is_checked_against_thresholds() {
    let dir = records();
    let dir = dir.path();
    let said = webstone_in(dir, &["report", "1-a", "--threshold", "rate>1,avg<10s"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("Thresholds") && said.out.contains("pass  rate>1"), "{}", said.out);
    let said = webstone_in(dir, &["report", "1-a", "--format", "csv", "--threshold", "rate<1"]);
    assert_eq!(said.code, 3);
    assert!(!said.out.contains("Thresholds") && said.err.contains("FAIL  rate<1"), "{said:?}");
    assert!(said.err.ends_with("threshold failed: rate<1 at 2 clients\n"), "{}", said.err);
    let said = webstone_in(dir, &["report", "1-a", "--threshold", "rate{clients:7}<1"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
}

#[test]
fn a_wrong_threshold_is_reported_before_the_run() {
    let said = webstone(&["run", "-c", "5", "--threshold", "p(99)<50"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: --threshold: `p(99)<50`, column 9: the limit of `p(99)` needs a unit\n\
             hint: write ns, us, ms, s or m after the number\n"
        )
    );
    let said = webstone(&["run", "-c", "5", "--threshold", "p(99){clients:6}<50ms"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: --threshold: `p(99){clients:6}<50ms` selects 6 clients, but there is no such level\n\
             hint: the levels are 5\n"
        )
    );
}
