//! Servers, files and directories that are not as they should be.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::own_servers::was_read;
use crate::program::{Running, Server, program, webstone, webstone_in};

/// A port where nobody listens: it was free a moment ago.
fn dead_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_dead_server_is_found_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let port = dead_port();
    let said = webstone_in(dir.path(), &["run", &format!("http://127.0.0.1:{port}"), "-c", "1"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(
        said.err,
        format!(
            "error: http://127.0.0.1:{port}: connection refused by 127.0.0.1:{port}: nothing listens on port {port}\n\
             hint: start the server, or check the port; `webstone run` without a URL measures a server of its own\n"
        )
    );
    assert!(!dir.path().join("runs").exists());
}

/// A window in which the server dies is not repeated until it is fine, and later levels have figures of the server that took its place.
#[test]
fn a_server_that_dies_under_load_and_comes_back_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--threads", "1"]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let arguments = ["run", &server.url, "-c", "2,4", "-d", "6s", "--warmup", "100ms", "--events", "events"];
    // Nothing is repeated: on a busy machine every window may be void.
    let run = Running::start(dir.path(), &[&arguments[..], &["--retries", "0", "--format", "json"]].concat());
    run.wait_for_window(&dir.path().join("events"));
    std::thread::sleep(Duration::from_millis(300));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let _again = Server::start(dir.path(), &["--threads", "1", "--listen", &address]);
    let said = run.end();
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let first = &report["iterations"][0];
    assert_eq!(
        (first["clients"].as_u64(), &first["server_ended"]),
        (Some(2), &Value::Bool(true)),
        "{said:?}"
    );
    // The slices with the failures may be left out for what the new server's start took.
    let is_left_out = |slice: &Value| !slice["left_out"].is_null();
    let are_left_out = first["slices"].as_array().is_some_and(|slices| slices.iter().any(is_left_out));
    assert!(are_left_out || first["measured"]["counts"]["failed"].as_u64().unwrap() > 0, "{first}");
    let why = "the server's processes ended or were replaced in this window";
    assert!(said.err.contains(&format!("figures of the server are missing: {why}")), "{}", said.err);
    let second = &report["iterations"][1];
    assert_eq!(second["clients"], 4, "{said:?}");
    if was_read(second) {
        assert!(second["server"]["user_ns"].as_u64() > Some(0), "{second}");
    }
}

#[test]
fn an_invalid_workload_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("filelist"), "/a 3 #10\n/b -1 #20\n").unwrap();
    for (workload, text) in [
        (
            "filelist",
            "error: filelist:2:4: found `-1`, expected a weight (a whole number from 1)\n\
             hint: a negative number has no meaning here\n",
        ),
        (
            "generall",
            "error: there is no workload `generall`: it is not a built-in one, and there is no such file\n\
             hint: did you mean `general`? `webstone workloads` lists the built-in ones\n",
        ),
        (
            ".",
            "error: the workload .: Is a directory\nhint: give the path of a filelist or TOML workload that you may read\n",
        ),
    ] {
        let said = webstone_in(dir.path(), &["run", "-w", workload]);
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (2, "", text));
    }
}

#[test]
fn a_directory_of_runs_that_cannot_be_made_stops_the_run_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let said = webstone_in(dir.path(), &["run", "-c", "1", "-d", "10m", "--runs-dir", "file/runs"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(
        said.err,
        "error: cannot create file/runs: Not a directory\n\
         hint: a file is in the way: name another directory with --runs-dir DIR\n"
    );
}

#[test]
fn a_report_that_cannot_be_written_stops_the_run_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &["run", "-d", "10m", "-o", "nowhere/report"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(said.err, "error: cannot write the report to nowhere/report: No such file or directory\n");
}

#[test]
fn an_invalid_record_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &["report", "."]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(
        said.err,
        "error: . is not a record: it is a directory without record.json\nhint: give a directory below runs/, or its record.json\n"
    );
}

#[test]
fn a_fileset_that_is_not_served_is_found_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let url = &server.url;
    let said = webstone_in(dir.path(), &["run", url, "-w", "workout-16k", "-c", "1", "-d", "10m"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    let path = "/exercise/16k.txt";
    assert_eq!(
        said.err,
        format!(
            "error: 1 of the workload's 1 files is not served as the workload has them:\n  \
             page 0: {url}{path}: missing (status 404)\n\
             hint: write the files with `webstone genfiles DIR -w WORKLOAD`, let the server serve DIR as its root, and see \
             what is still missing with `webstone checkfiles URL -w WORKLOAD`; --no-check measures anyway, and counts such answers \
             as errors\n"
        )
    );
    let said = webstone_in(dir.path(), &["hit", &format!("{url}/nowhere")]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(
        said.err,
        format!(
            "error: {url}/nowhere answers with status 404, but only a status from 200 to 299 counts as a success\n\
             hint: check the path; --expect-status 404 counts such answers as valid; --no-check measures anyway, and counts such answers as errors\n"
        )
    );
    let said = webstone_in(dir.path(), &["hit", &format!("{url}/test?size=1&fault=status&status=302")]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(
        said.err,
        format!(
            "error: {url}/test?size=1&fault=status&status=302 answers with status 302, but only a status from 200 to 299 \
             counts as a success\n\
             hint: --follow follows redirects; --expect-status 302 counts such answers as valid; --no-check measures anyway, and counts such \
             answers as errors\n"
        )
    );
}

#[test]
fn unchecked_files_are_measured_and_counted_as_errors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let url = format!("{}/nowhere", server.url);
    let said =
        webstone_in(dir.path(), &["hit", &url, "--no-check", "-n", "7", "-c", "1", "-q", "--format", "json"]);
    // On a busy machine, noise is another reason.
    assert_eq!(said.code, 4);
    assert!(said.err.starts_with("invalid: 1 client: no request succeeded, 7 failed\n"), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let measured = &report["iterations"][0]["measured"];
    assert_eq!((&measured["counts"]["succeeded"], &measured["counts"]["failed"]), (&0.into(), &7.into()));
    let run = [
        "run",
        &server.url,
        "-w",
        "workout-16k",
        "--no-check",
        "-n",
        "3",
        "-c",
        "1",
        "-d",
        "0",
        "--warmup",
        "0",
    ];
    let said = webstone_in(dir.path(), &[&run[..], &["-q", "--no-store", "--format", "json"]].concat());
    assert_eq!(said.code, 4);
    assert!(said.err.starts_with("invalid: 1 client: no request succeeded, 3 failed\n"), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["iterations"][0]["measured"]["errors"][0]["count"], 3);
}

#[test]
fn fewer_requests_than_clients_starve_no_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let url = format!("{}/test?size=10", server.url);
    let said = webstone_in(dir.path(), &["hit", &url, "-n", "1", "-c", "10", "-q"]);
    assert!(matches!(said.code, 0 | 4) && !said.err.contains("starve"), "{}", said.err);
    assert!(said.out.contains("  1 valid response, ") && !said.out.contains("STARVED"), "{}", said.out);
}

#[test]
fn a_directory_that_cannot_be_made_for_files_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for (place, text) in [
        (
            "/proc/x",
            "error: cannot create the directory /proc/x: No such file or directory\n\
             hint: name a directory on a disk; some file systems, such as /proc, have no room for files\n",
        ),
        (
            "file/x",
            "error: cannot create the directory file/x: Not a directory\n\
             hint: a file is in the way: name another directory\n",
        ),
    ] {
        let said = webstone_in(dir.path(), &["genfiles", place]);
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (1, "", text));
    }
}

#[test]
fn too_many_errors_make_the_measurement_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/test?size=10&fault=status&status=500&every=10", server.url);
    let said = webstone_in(dir.path(), &["hit", &url, "-n", "100", "-c", "1", "-q", "--format", "json"]);
    let reason = "1 client: 10.0 % of the requests failed (10 of 100; limit 1 %)";
    // On a busy machine, noise is another reason.
    assert!(said.code == 4 && said.err.starts_with(&format!("invalid: {reason}\n")), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let measured = &report["iterations"][0]["measured"];
    assert_eq!((&measured["counts"]["succeeded"], &measured["counts"]["failed"]), (&90.into(), &10.into()));
    let verdict = &report["computed"]["verdict"];
    assert_eq!(
        (&verdict["standing"], &verdict["reasons"][0]["cause"]),
        (&"invalid".into(), &"errors".into())
    );
    assert_eq!(verdict["reasons"][0]["sentence"], reason);
    assert_eq!(measured["errors"][0]["class"], "wrong-status");
    assert_eq!(measured["errors"][0]["count"], 10);
}

/// Every 20th answer never comes: in the end both clients wait for one, which the number of answered requests hides.
#[test]
fn a_server_that_falls_silent_fails_what_it_kept_before() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/test?size=10&fault=stall&every=20", server.url);
    let limits = ["--threshold", "p(99)<900ms,errors<1%"];
    let hit = ["hit", &url, "-d", "2s", "-c", "2", "-q", "--warmup", "0"];
    let said = webstone_in(dir.path(), &[&hit[..], &limits].concat());
    assert_eq!(said.code, 4, "{}", said.err);
    for text in ["INVALID", "2 in flight at the end, the oldest for ", "≥\u{a0}", "% unanswered"] {
        assert!(said.out.contains(text), "{text} is not in\n{}", said.out);
    }
    let said = webstone_in(dir.path(), &[&hit[..], &["--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let causes: Vec<&str> = report["computed"]["verdict"]["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason["cause"].as_str().unwrap())
        .collect();
    assert!(causes.contains(&"unanswered"), "{causes:?}");
    let response = &report["computed"]["levels"][0]["distributions"]["response"];
    assert!(response["at_least_from_percentile"].as_f64().is_some(), "{response}");
}

#[test]
fn the_verdict_is_above_the_rate_and_the_report_repeats_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/test?size=10&delay=2ms&fault=status&status=500&every=20", server.url);
    let said = webstone_in(dir.path(), &["hit", &url, "-n", "100", "-c", "2", "-q", "--warmup", "0"]);
    assert_eq!(said.code, 4, "{}", said.err);
    let place = |text: &str| said.out.find(text).unwrap_or_else(|| panic!("{text} is in\n{}", said.out));
    // On a busy machine, iterations are named besides levels.
    assert!(place("INVALID: ") < place("bottleneck"), "{}", said.out);
    assert!(place("bottleneck") < place("Requests/sec:"), "{}", said.out);
}

#[test]
fn two_arms_need_an_even_number_of_iterations() {
    for iterations in ["1", "5"] {
        let said = webstone(&["run", "--aa", "-i", iterations]);
        assert_eq!((said.code, said.out.as_str()), (2, ""));
        assert!(
            said.err.contains("--iterations (load.iterations)")
                && said.err.ends_with("hint: write 4, 6 or more\n")
        );
    }
}

#[test]
fn two_arms_report_a_noise_floor() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let run = [
        "run",
        &server.url,
        "-w",
        "workout-0k",
        "--aa",
        "-i",
        "4",
        "-c",
        "2",
        "-d",
        "200ms",
        "--warmup",
        "0",
    ];
    let said = webstone_in(dir.path(), &[&run[..], &["-q", "--no-store", "--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let arms: Vec<&str> =
        report["iterations"].as_array().unwrap().iter().map(|run| run["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["A", "B", "B", "A"]);
    let noise = &report["computed"]["levels"][0]["statistics"]["noise"];
    assert_eq!((&noise["ratio"]["method"], &noise["ratio"]["samples"]), (&"student-t".into(), &4.into()));
    assert!(noise["percent"].as_f64().unwrap() > 0.0);
    // The server is another process on this host, but is monitored, too.
    let first = &report["iterations"][0];
    assert!(!was_read(first) || first["server"]["resident_bytes_max"].as_u64().unwrap() > 0);
    assert!(report["iterations"][0]["host"]["tcp"]["segments_sent"].as_u64().unwrap() > 0);
}

#[test]
fn open_files_and_sockets_are_counted_while_they_are_open() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/test?size=100", server.url);
    let hit = ["hit", &url, "-c", "120", "-t", "2", "-d", "500ms", "--warmup", "300ms"];
    let said = webstone_in(dir.path(), &[&hit[..], &["-q", "--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let host = &report["iterations"][0]["host"];
    // In the fullest table: each worker has its own, or, before Linux 5.9, all share one.
    assert!(host["descriptors"].as_u64().unwrap() >= 60, "{host}");
    // Both ends of each connection are on this host.
    assert!(host["tcp"]["in_use"].as_u64().unwrap() >= 240, "{host}");
}

#[test]
fn unknown_contents_are_not_silently_claimed_to_be_checked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/test?size=100", server.url);
    let hit = |check: &str| {
        webstone_in(
            dir.path(),
            &["hit", &url, "-c", "1", "-n", "10", "--check", check, "-q", "--format", "json"],
        )
    };
    let said = "contents are to be checked, but those of 1 of the workload's 1 files are unknown";
    let checked = hit("content");
    assert!(checked.out.contains(said), "{}\n{}", checked.out, checked.err);
    assert!(!hit("status").out.contains(said));
}

#[test]
fn the_first_generator_reports_what_is_wrong_with_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let agent = format!("{} agent", program());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let told = |url: &str, more: &[&str]| {
        let run = ["run", url, "--generator", &agent, "-w", "workout-16k", "-q"];
        let said = webstone_in(dir.path(), &[&run[..], more].concat());
        assert_eq!(said.code, 1, "{said:?}");
        assert!(!dir.path().join("runs").exists());
        let begin = format!("error: from generator 1 ({}): ", host.trim());
        said.err.strip_prefix(&begin).unwrap_or_else(|| panic!("{said:?}")).to_owned()
    };

    let port = dead_port();
    let said = told(&format!("http://127.0.0.1:{port}"), &[]);
    assert!(said.starts_with(&format!("http://127.0.0.1:{port}: connection refused")), "{said}");
    assert!(said.contains("\nhint: start the server, or check the port"), "{said}");

    let said = told("http://no-such-host.invalid", &[]);
    assert!(said.starts_with("the host `no-such-host.invalid` is unknown"), "{said}");

    let server = Server::start(dir.path(), &["-w", "workout-0k"]);
    let said = told(&server.url, &[]);
    assert!(
        said.starts_with("1 of the workload's 1 files is not served as the workload has them:\n"),
        "{said}"
    );

    // It accepts connections and sends nothing, which is not the agent's fault.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let said = told(&url, &["--timeout", "200ms"]);
    assert!(
        said.contains(&format!("GET {url}/")) && said.contains("not a byte of an answer came within 200ms"),
        "{said}"
    );
    assert!(said.contains("\nhint: the port is open, but nothing answers"), "{said}");
}
