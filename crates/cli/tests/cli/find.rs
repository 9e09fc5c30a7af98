//! `webstone find` with a server whose limit is known, and `webstone calibrate`, both through the program itself.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Running, Said, only_entry, webstone, webstone_in};

/// A queued request: when it came, and where its answer is awaited.
type Queued = (Instant, Sender<()>);

/// A server that answers `slots` requests at a time, first come first served, and takes this long for each: it
/// carries slots / each requests per second, and n clients wait n / slots times as long. It ends with the tests.
fn slots(slots: usize, each: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (ask, asked) = channel::<Queued>();
    let asked = Arc::new(Mutex::new(asked));
    for _ in 0..slots {
        let asked = asked.clone();
        std::thread::spawn(move || {
            let mut free = Instant::now();
            loop {
                let Ok((came, answer)) = asked.lock().unwrap().recv() else { return };
                // By the slot's own clock: on a busy machine sleeps end late, which must not delay later answers.
                free = free.max(came) + each;
                std::thread::sleep(free.saturating_duration_since(Instant::now()));
                let _ = answer.send(());
            }
        });
    }
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let ask = ask.clone();
            std::thread::spawn(move || serve(&stream, &ask));
        }
    });
    url
}

fn serve(stream: &TcpStream, ask: &Sender<Queued>) {
    let (done, is_done) = channel();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty() {
            ask.send((Instant::now(), done.clone())).unwrap();
            is_done.recv().unwrap();
            if (&*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

/// A server that answers `rate` requests per second, with `burst` more at once, and refuses all others with 429. It ends with the tests.
fn limiter(rate: f64, burst: f64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let bucket = Arc::new(Mutex::new((burst, Instant::now())));
    let is_let_in = Arc::new(move || {
        let (tokens, at) = &mut *bucket.lock().unwrap();
        *tokens = (*tokens + at.elapsed().as_secs_f64() * rate).min(burst);
        *at = Instant::now();
        let is_let_in = *tokens >= 1.0;
        *tokens -= f64::from(u8::from(is_let_in));
        is_let_in
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let is_let_in = is_let_in.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                    let status =
                        if is_let_in_at(&line, &*is_let_in) { "200 OK" } else { "429 Too Many Requests" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
                    if line.is_empty() && (&stream).write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Only the empty line, at which a request is complete, takes a token.
fn is_let_in_at(line: &str, is_let_in: impl Fn() -> bool) -> bool {
    line.is_empty() && is_let_in()
}

/// However busy the machine is: a load that is refused counts as broken and never as in doubt, no load above the
/// limit counts as kept, and the search begins where the probe found the limit.
#[test]
fn a_refused_load_is_broken_however_busy_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let (rate, burst, window_s) = (200.0, 20.0, 0.6);
    let url = limiter(rate, burst);
    let arguments =
        ["find", &url, "--slo", "p(99)<200ms,errors<1%", "--to", "20k", "--repeats", "3", "--format", "json"];
    let said = webstone_in(dir.path(), &[&arguments[..], &["-d", "600ms", "--warmup", "300ms"]].concat());
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let (search, iterations) = (&report["computed"]["search"], report["iterations"].as_array().unwrap());
    // The most that it can let in within a window is its rate and one burst.
    let most = (rate + burst / window_s) / 0.99;
    assert!(search["kept"].as_f64().unwrap_or(0.0) <= most, "{search:#}");
    let refused = |level: &&Value| level["load"].as_f64().unwrap() > 2.0 * most;
    for level in search["levels"].as_array().unwrap().iter().filter(refused) {
        assert_eq!(level["iterations_doubtful"], 0, "{search:#}");
        assert_ne!(level["standing"], "cannot-tell", "{search:#}");
    }
    let find = &report["spec"]["find"];
    let begin = find["begin"].as_u64().unwrap_or_else(|| panic!("{find}"));
    let first = iterations[0]["rate"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(first, begin, "{find}");
    assert!(begin as f64 <= rate + burst + 1.0, "three quarters of what was let in: {begin}");
}

/// Searches until the server's known limit is found. A generator that gets too little CPU time finds another limit.
/// `None` if that happened in four searches, by what their records say about the generator's CPUs; then no found
/// limit may be above the known one (`is_possible`). On an idle machine a wrong limit fails.
#[allow(clippy::print_stdout, reason = "a skipped test says why")]
fn searched(
    dir: &Path,
    arguments: &[&str],
    is_known: impl Fn(&Value) -> bool,
    is_possible: impl Fn(&Value) -> bool,
) -> Option<(Said, Value)> {
    for _ in 0..4 {
        let _ = std::fs::remove_dir_all(dir.join("runs"));
        let said = webstone_in(dir, arguments);
        let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
        let search = &report["computed"]["search"];
        if is_known(search) {
            return Some((said, report));
        }
        assert!(is_possible(search), "{search:#}");
        assert!(was_disturbed(&report), "on a quiet machine: {search:#}");
    }
    println!(
        "skipped: others had the generator's CPUs in four searches, so that no known limit could be found"
    );
    None
}

/// Whether something else used a worker's CPU, or took it before a level, for more than 5 % of the time.
fn was_disturbed(report: &Value) -> bool {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    report["iterations"].as_array().unwrap().iter().any(|run| {
        let workers = run["measured"]["generator"]["workers"].as_array().unwrap();
        let waited = workers.iter().map(|worker| number(&worker["run_queue_ns"])).fold(0.0, f64::max);
        let before = &run["host"]["disturbance"];
        waited > 0.05 * number(&run["measured"]["window_ns"])
            || number(&before["taken_ns"]) > 0.05 * number(&before["looked_ns"])
    })
}

const SHORT: [&str; 4] = ["-d", "400ms", "--warmup", "200ms"];

#[test]
fn the_known_limit_is_found_and_every_level_is_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    // 20 ms each: 4 clients wait 80 ms, 5 wait 100 ms.
    let url = slots(1, Duration::from_millis(20));
    let arguments =
        ["find", &url, "--over", "clients", "--slo", "med<90ms,errors<1%", "--to", "64", "--format", "json"];
    let known = |search: &Value| (&search["kept"], &search["broken"]) == (&4.into(), &5.into());
    // Five clients wait 100 ms, however busy the machine is.
    let possible = |search: &Value| search["kept"].as_u64().unwrap_or(0) <= 4;
    let arguments = [&arguments[..], &SHORT].concat();
    let Some((said, report)) = searched(dir.path(), &arguments, known, possible) else { return };
    let search = &report["computed"]["search"];
    assert_eq!(
        (&search["answer"], &search["kept"], &search["broken"]),
        (&"between".into(), &4.into(), &5.into())
    );
    // On a busy machine there may be more about other loads.
    let sentence = "med<90ms,errors<1% is kept with 4 clients and broken with 5 clients (by med<90ms): the limit lies between.";
    assert!(search["sentence"].as_str().unwrap().starts_with(sentence), "{search}");
    let iterations = report["iterations"].as_array().unwrap();
    assert_eq!(search["iterations"], iterations.len());
    assert!(search["iterations"].as_u64() <= search["iterations_max"].as_u64());
    assert_eq!(search["useful_peak"]["load"].as_u64().unwrap_or(9).min(4), search["useful_peak"]["load"]);
    for edge in [4, 5] {
        assert!(iterations.iter().filter(|run| run["clients"] == edge).count() >= 3, "{edge}");
    }
    assert!(said.err.contains("searching for the most clients with which"), "{}", said.err);
    assert!(said.err.contains("; at most "), "{}", said.err);

    // The record is an ordinary one.
    let run = only_entry(&dir.path().join("runs"));
    let text = webstone_in(dir.path(), &["report", run.to_str().unwrap(), "--full"]).out;
    assert!(text.contains("Search") && text.contains("kept with 4 clients"), "{text}");
    assert!(text.contains("Latency against load") && text.contains("useful peak: "), "{text}");
    let markdown = webstone_in(dir.path(), &["report", "last", "--format", "markdown"]).out;
    assert!(markdown.contains("kept with 4 clients") && markdown.contains("#### Search"), "{markdown}");
    let html = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(
        html.contains("chart-search-0-0")
            && html.contains("chart-latency-rate")
            && html.contains("kept with 4 clients")
    );
}

#[test]
fn the_known_rate_of_a_server_is_between_the_ends() {
    let dir = tempfile::tempdir().unwrap();
    // 4 slots of 20 ms carry 200 requests/s. Up to that rate each takes 20 ms; above it, the queue grows by 5 ms per
    // second for each additional request/s.
    let url = slots(4, Duration::from_millis(20));
    let arguments = ["find", &url, "--slo", "med<35ms", "--from", "30", "--to", "2k", "--format", "json"];
    // Within 0.9 s this slope lets 4 % more than it can carry still look kept.
    let known = |search: &Value| {
        let [kept, broken] = ["kept", "broken"].map(|end| search[end].as_u64().unwrap_or(0));
        (150..=209).contains(&kept) && (190..=240).contains(&broken) && kept < broken
    };
    let arguments = [&arguments[..], &["-d", "600ms", "--warmup", "300ms"]].concat();
    let possible = |search: &Value| search["kept"].as_u64().unwrap_or(0) <= 209;
    let Some((_, report)) = searched(dir.path(), &arguments, known, possible) else { return };
    let search = &report["computed"]["search"];
    assert!(search["sentence"].as_str().unwrap().starts_with("med<35ms is kept at "), "{search}");
    assert_eq!(report["spec"]["find"]["over"], "rate");
    // By Little's law for 35 ms, and at least ten.
    for level in report["computed"]["levels"].as_array().unwrap() {
        let rate = level["rate"].as_str().unwrap().parse::<f64>().unwrap();
        assert_eq!(level["clients"].as_f64().unwrap(), (rate * 0.035).ceil().max(10.0), "{level}");
    }

    let run = only_entry(&dir.path().join("runs"));
    let verified = webstone_in(dir.path(), &["verify", run.to_str().unwrap()]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let text = webstone_in(dir.path(), &["report", run.to_str().unwrap()]).out;
    assert!(text.contains("arrivals/s and broken at") && text.contains("useful peak: "), "{text}");
}

#[test]
fn too_few_clients_are_distinguished_from_a_slow_server() {
    let dir = tempfile::tempdir().unwrap();
    // 2 clients with 20 ms each carry 100 requests/s, whatever the server can do.
    let url = slots(40, Duration::from_millis(20));
    let arguments =
        ["find", &url, "--slo", "med<100ms", "-c", "2", "--from", "30", "--to", "500", "--no-store"];
    let said = webstone_in(dir.path(), &[&arguments[..], &SHORT].concat());
    // Where lines are wrapped depends on the numbers in them.
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.contains("the generator was late or at its limit") {
        println!("skipped: the generator was kept off its CPU, so that nothing is said of clients");
        return;
    }
    assert!(words.contains("All 2 clients were busy there"), "{said:?}");
    assert!(words.contains("use more (-c)"), "{said:?}");
}

#[test]
fn never_kept_is_exit_code_3_and_always_kept_is_success() {
    let dir = tempfile::tempdir().unwrap();
    let url = slots(1, Duration::from_millis(20));
    let never = ["find", &url, "--over", "clients", "--slo", "med<10ms", "--to", "2", "--no-store", "-q"];
    let said = webstone_in(dir.path(), &[&never[..], &SHORT].concat());
    // On a busy machine, such a short window may give no result.
    if said.code == 3 || !said.out.contains("the machine was disturbed") {
        assert_eq!(said.code, 3, "{said:?}");
        let told = "never kept: med<10ms is never kept: it is broken with 1 client already.";
        assert!(said.err.contains(told), "{}", said.err);
    }
    let always = ["find", &url, "--over", "clients", "--slo", "med<90ms", "--to", "2", "--no-store", "-q"];
    let said = webstone_in(dir.path(), &[&always[..], &SHORT].concat());
    if said.code != 1 || !said.out.contains("the machine was disturbed") {
        assert!(said.code == 0 || said.code == 4, "{said:?}");
        assert!(said.out.contains("kept up to 2 clients, the highest load that was allowed"), "{}", said.out);
    }
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn an_interrupted_search_keeps_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let url = slots(1, Duration::from_millis(20));
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
fn invalid_searches_are_refused() {
    for (arguments, message) in [
        (&["--slo", "p(99)<50"][..], "the limit of `p(99)` needs a unit"),
        (&["--slo", "server-cpu<1ms"], "`server-cpu<1ms` is not a figure of clients"),
        (&["--slo", "p(99){clients:4}<50ms"], "selects a level, and a search looks for one"),
        (
            &["--slo", "avg<1s", "--from", "20", "--to", "10"],
            "--from (find.from): `20` is above --to (find.to), 10",
        ),
        (&["--slo", "avg<1s", "--repeats", "2"], "write 3 to 100"),
        (&["--slo", "avg<1s", "--resolution", "0"], "is not a percentage from 0.01 to 100"),
        (&["--slo", "avg<1s", "--over", "users"], "--over"),
        (
            &["--slo", "avg<1s", "--over", "clients", "-c", "5"],
            "--clients (find.clients): `5` stand by for arrivals, but a search over clients has none",
        ),
        (
            &["--slo", "avg<1s", "--over", "clients", "--arrivals", "poisson"],
            "--arrivals (load.arrivals): it spaces the arrivals of an open loop",
        ),
        (&["--slo", "offered>90%", "--over", "clients"], "`offered>90%` is about arrivals"),
        (
            &["--slo", "avg<1s", "--to", "200m"],
            "--to (find.to): `200000000` is more than 100000000 arrivals per second",
        ),
        (
            &["--slo", "avg<1s", "--from", "2", "-d", "400ms"],
            "--from (find.from): `2`: not a single arrival is due within --duration (load.duration)",
        ),
        (&["--slo", "avg<1s", "-c", "0"], "--clients"),
        (&["--slo", "avg<1s", "-d", "0s"], "--duration (load.duration): `0s`: a timed run needs time"),
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
    for word in ["keep-alive", "per-request", "reset", "large", "Gbit/s"] {
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
    let text = webstone_in(dir.path(), &[&run[..], &["text", "--full"]].concat()).out;
    assert!(text.contains("of what this generator can do here"), "{text}");
}

#[test]
fn a_calibration_that_cannot_be_stored_is_still_printed() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["calibrate", "-d", "50ms", "-i", "1", "-o", "/dev/null/calibration.json"];
    let said = webstone_in(dir.path(), &arguments);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("keep-alive") && said.out.contains("Gbit/s"), "{}", said.out);
    let error = said.err.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains("/dev/null/calibration.json"), "{}", said.err);
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
