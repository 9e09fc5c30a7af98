//! `webstone find` against a server whose limit is known, and `webstone calibrate`, both through the program itself.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Running, only_entry, webstone, webstone_in};

/// A server that answers one request at a time, first come first served, and takes this long for each: n clients wait n
/// times as long. It ends with the tests.
fn one_at_a_time(each: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (ask, asked) = channel::<Sender<()>>();
    std::thread::spawn(move || {
        for answer in asked {
            std::thread::sleep(each);
            let _ = answer.send(());
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let ask = ask.clone();
            std::thread::spawn(move || serve(&stream, &ask));
        }
    });
    url
}

fn serve(stream: &TcpStream, ask: &Sender<Sender<()>>) {
    let (done, is_done) = channel();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty() {
            ask.send(done.clone()).unwrap();
            is_done.recv().unwrap();
            if (&*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

const SHORT: [&str; 4] = ["-d", "400ms", "--warmup", "200ms"];

#[test]
fn the_known_limit_is_found_and_every_level_is_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    // 20 ms each: 4 clients wait 80 ms, 5 wait 100 ms.
    let url = one_at_a_time(Duration::from_millis(20));
    let arguments = ["find", &url, "--slo", "med<90ms,errors<1%", "--to", "64", "--format", "json"];
    let said = webstone_in(dir.path(), &[&arguments[..], &SHORT].concat());
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let search = &report["computed"]["search"];
    assert_eq!(
        (&search["answer"], &search["kept"], &search["broken"]),
        (&"between".into(), &4.into(), &5.into())
    );
    assert_eq!(
        search["sentence"],
        "med<90ms,errors<1% is kept with 4 clients and broken with 5 clients (by med<90ms): the limit lies between."
    );
    let iterations = report["iterations"].as_array().unwrap();
    assert_eq!(search["iterations"], iterations.len());
    assert!(search["iterations"].as_u64() <= search["iterations_max"].as_u64());
    assert_eq!(search["useful_peak"]["load"].as_u64().unwrap_or(9).min(4), search["useful_peak"]["load"]);
    for edge in [4, 5] {
        assert!(iterations.iter().filter(|run| run["clients"] == edge).count() >= 3, "{edge}");
    }
    assert!(said.err.contains("searching for the most clients with which"), "{}", said.err);
    assert!(said.err.contains("never more than"), "{}", said.err);

    // The record is one like any other.
    let run = only_entry(&dir.path().join("runs"));
    let text = webstone_in(dir.path(), &["report", run.to_str().unwrap()]).out;
    assert!(text.contains("Search") && text.contains("kept with 4 clients"), "{text}");
    let html = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(html.contains("chart-latency-rate") && html.contains("kept with 4 clients"));
}

#[test]
fn never_kept_is_exit_code_3_and_always_kept_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let url = one_at_a_time(Duration::from_millis(20));
    let never = ["find", &url, "--slo", "med<10ms", "--to", "2", "--no-store", "-q"];
    let said = webstone_in(dir.path(), &[&never[..], &SHORT].concat());
    assert_eq!(said.code, 3, "{said:?}");
    assert!(
        said.err.contains("never kept: med<10ms is never kept: it is broken with 1 client already."),
        "{}",
        said.err
    );
    let always = ["find", &url, "--slo", "med<90ms", "--to", "2", "--no-store", "-q"];
    let said = webstone_in(dir.path(), &[&always[..], &SHORT].concat());
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    assert!(said.out.contains("kept up to 2 clients, the highest load that was allowed"), "{}", said.out);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn an_interrupted_search_keeps_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let url = one_at_a_time(Duration::from_millis(20));
    let arguments = ["find", &url, "--slo", "med<90ms"];
    let mut running = Running::start(dir.path(), &[&arguments[..], &SHORT].concat());
    running.wait_for("[2/");
    running.signal("INT");
    let said = running.end();
    assert_eq!(said.code, 130, "{said:?}");
    assert!(said.out.contains("The search did not end: nothing is decided yet."), "{}", said.out);
    let record = std::fs::read_to_string(only_entry(&dir.path().join("runs")).join("record.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert!(record["iterations"].as_array().unwrap().len() >= 2);
}

#[test]
fn what_makes_no_search_is_refused() {
    for (arguments, message) in [
        (&["--slo", "p(99)<50"][..], "the limit of `p(99)` needs a unit"),
        (&["--slo", "server-cpu<1ms"], "`server-cpu<1ms` is nothing that clients see"),
        (&["--slo", "p(99){clients:4}<50ms"], "selects a level, and a search looks for one"),
        (&["--slo", "avg<1s", "--from", "20", "--to", "10"], "--from 20 is above --to 10"),
        (&["--slo", "avg<1s", "--repeats", "2"], "write 3 to 100"),
        (&["--slo", "avg<1s", "--resolution", "0"], "is not a percentage from 0.01 to 100"),
        (&["--slo", "avg<1s", "--over", "users"], "--over"),
        (&[], "--slo"),
    ] {
        let said = webstone(&[&["find", "http://127.0.0.1:1/"], arguments].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}");
        assert!(said.err.contains(message), "{}", said.err);
    }
}

#[test]
fn a_calibration_is_stored_shown_and_quoted_by_runs_that_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    let missing = webstone_in(dir.path(), &["calibrate", "--show"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing.err.contains("no calibration is stored in") && missing.err.contains("hint: make one"),
        "{}",
        missing.err
    );

    let said = webstone_in(dir.path(), &["calibrate", "-d", "100ms", "-i", "2"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("calibrating the load generator of this host:"), "{}", said.err);
    for word in ["keep-alive", "per-request", "reset", "large", "epoll", "Gbit/s"] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    let stored = std::fs::read_to_string(dir.path().join("data/webstone/calibration.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let rows = stored["rows"].as_array().unwrap();
    assert!(rows.len() >= 4 && rows.iter().all(|row| row["requests_per_s"].as_f64() > Some(0.0)), "{stored}");
    let shown = webstone_in(dir.path(), &["calibrate", "--show", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown.out).unwrap(), stored);

    let run = ["run", "-c", "2", "-d", "200ms", "--warmup", "0", "-t", "1", "--no-store", "--format"];
    let report = webstone_in(dir.path(), &[&run[..], &["json"]].concat()).out;
    let report: Value = serde_json::from_str(&report).unwrap();
    let percent = report["computed"]["calibration"]["levels"][0]["percent"].as_f64().unwrap();
    assert!(percent > 0.0, "{percent}");
    assert_eq!(report["environment"]["calibration"], stored);
    let text = webstone_in(dir.path(), &[&run[..], &["text"]].concat()).out;
    assert!(text.contains("of what this generator can do here"), "{text}");
}

#[test]
fn an_interrupted_calibration_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["calibrate", "-d", "300ms", "-i", "1"]);
    running.wait_for("[1/");
    running.signal("INT");
    let said = running.end();
    assert_eq!((said.code, said.out.as_str()), (130, ""), "{said:?}");
    assert!(said.err.contains("interrupted: nothing was stored"), "{}", said.err);
    assert!(!dir.path().join("data").exists());
}
