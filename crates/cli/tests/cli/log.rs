//! The log for finding out why something failed: it names what was started and each phase, and contains no secret.

use std::fs;

use serde_json::Value;

use crate::program::{command, webstone_in};

const SECRET: &str = "hunter2-Tr0ub4dor";

#[test]
fn the_log_names_the_servers_process_and_the_phases_of_each_level() {
    let dir = tempfile::tempdir().unwrap();
    let load = ["-c", "1,2", "-i", "1", "-d", "400ms", "--warmup", "200ms"];
    let said =
        webstone_in(dir.path(), &[&["run", "--format", "json", "--log", "why.log"], &load[..]].concat());
    let record: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err));
    let log = fs::read_to_string(dir.path().join("why.log")).unwrap();
    let ready = log.split("embedded server is ready pid=").nth(1).unwrap_or_else(|| panic!("{log}"));
    let pid: u64 = ready.split(' ').next().unwrap().parse().unwrap();
    // On a machine so busy that a window of 400 ms was over by then, the server was not read in it.
    for iteration in record["iterations"].as_array().unwrap() {
        let busiest = &iteration["server"]["processes"]["busiest"][0]["process"];
        assert!(busiest.is_null() || *busiest == pid, "{iteration}");
    }
    for wanted in [
        format!("process started pid={pid} command="),
        format!("embedded server is ready pid={pid} urls=\"http://127.0.0.1:"),
        format!("process ended pid={pid} how="),
        "CPUs are placed workers=".to_owned(),
        "preflight: the target answers as it should".to_owned(),
        "phase level=1 client iteration=1 phase=WarmUp".to_owned(),
        "phase level=1 client iteration=1 phase=Measuring".to_owned(),
        "phase level=2 clients iteration=1 phase=Measuring".to_owned(),
        "level is in the record run=2 clients, iteration 1".to_owned(),
        "iterations.ndjson bytes=".to_owned(),
    ] {
        assert!(log.contains(&wanted), "`{wanted}` is missing in\n{log}");
    }
    assert!(!said.err.contains("process started"), "{}", said.err);
}

#[test]
fn the_variable_logs_to_standard_error_and_says_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let run = |directives: &str| {
        let arguments = ["run", "-q", "-c", "1", "-i", "1", "-d", "100ms", "--warmup", "0s"];
        let output = command(dir.path(), &arguments).env("WEBSTONE_LOG", directives).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (_, lab) = run("webstone_lab=info");
    assert!(lab.contains("INFO webstone_lab") && !lab.contains("webstone_runner"), "{lab}");
    assert!(!run("").1.contains("INFO"));
    let (code, refused) = run("webstone=lots");
    assert_eq!(code, Some(2), "{refused}");
    assert!(
        refused.starts_with("error: WEBSTONE_LOG: `webstone=lots` is not a list of directives: "),
        "{refused}"
    );
}

#[test]
fn no_secret_gets_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let server = crate::program::Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let url = format!("{}/echo?password={SECRET}", server.url);
    let agent = format!("sh -c 'echo no agent; exit 3' --password={SECRET} http://ann:{SECRET}@host/");
    let field = format!("Authorization: Bearer {SECRET}");
    let load = ["-c", "1", "-d", "100ms", "-H", &field, "--server-agent", &agent];
    let output = command(dir.path(), &[&["hit", &url, "--log", "why.log"], &load[..]].concat())
        .env("WEBSTONE_LOG", "trace")
        .output()
        .unwrap();
    let log = fs::read_to_string(dir.path().join("why.log")).unwrap();
    assert!(log.contains("process started pid=") && log.contains("[redacted]"), "{log}");
    assert!(!log.contains(SECRET), "{log}{}", String::from_utf8_lossy(&output.stderr));
}
