//! A library of many runs in a browser: until the first row is there, and until a keystroke shows in the rows.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::devtools::{self, Browser};
use crate::process::Front;
use crate::{Found, spread};

/// Notes when the first row of a page is in the document.
const FIRST_ROW: &str = "new MutationObserver(() => { if (!window.firstRow && document.querySelector('main tbody tr')) \
    requestAnimationFrame(() => { window.firstRow ??= performance.now(); }); }).observe(document, { childList: true, subtree: true });";
/// Notes how long it takes from a keystroke to other rows.
const KEYSTROKE: &str = "window.took = []; document.getElementById('search').addEventListener('input', () => { window.typed = performance.now(); }, true); \
    new MutationObserver(() => { if (window.typed && document.querySelector('main tbody tr')) { const from = window.typed; window.typed = 0; \
    requestAnimationFrame(() => window.took.push(performance.now() - from)); } }).observe(document.querySelector('main .with-drawer'), { childList: true, subtree: true });";
/// What is typed, letter by letter; every run has all of it in its name.
const TYPED: &str = "webstone";
const LOADS: usize = 7;

pub fn measure(webstone: &Path, runs: usize) -> Result<Vec<Found>, String> {
    let program = devtools::installed().ok_or("no chromium is installed")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    fill(webstone, directory.path(), runs)?;
    let front = Front::start(webstone, directory.path())?;
    let mut browser = Browser::start(&program);
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": FIRST_ROW }));
    let mut first_row = |path: &str| {
        browser.open_url(path);
        browser.until("Boolean(window.firstRow)");
        browser.evaluate("window.firstRow").as_f64().unwrap_or(f64::NAN)
    };
    // First start: rows are made from records until all have been read once.
    let cold = first_row(&front.url);
    while front.get("/api/library?limit=1")?["unread"] != json!(0) {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let mut loads: Vec<f64> = (0..LOADS).map(|_| first_row(&front.page("/library"))).collect();
    browser.evaluate(KEYSTROKE);
    browser.evaluate("document.getElementById('search').focus()");
    for (typed, letter) in (1..).zip(TYPED.chars()) {
        browser.type_text(&letter.to_string());
        browser.until(&format!("window.took.length >= {typed}"));
    }
    let took = browser.evaluate("window.took");
    let mut keys: Vec<f64> =
        took.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect();
    // Second start: the front has an index.
    drop(front);
    let again = Front::start(webstone, directory.path())?;
    browser.open_url("about:blank");
    browser.open_url(&again.url);
    browser.until("Boolean(window.firstRow)");
    let new_front = browser.evaluate("window.firstRow").as_f64().unwrap_or(f64::NAN);
    let (load, load_max) = spread(&mut loads);
    let (key, key_max) = spread(&mut keys);
    let found = |what: String, value: f64, most: f64, limit: f64, text| Found {
        what,
        value: format!("{value:.0} ms (at most {most:.0})"),
        limit: text,
        is_met: value <= limit,
    };
    Ok(vec![
        found(format!("library of {runs} runs, first row"), load, load_max, 300.0, "300 ms"),
        found("the same of a front that has just started".to_owned(), new_front, new_front, 300.0, "300 ms"),
        Found {
            what: "the same where no run has been read before".to_owned(),
            value: format!("{cold:.0} ms"),
            limit: "",
            is_met: true,
        },
        found("keystroke in its search until the rows are there".to_owned(), key, key_max, 50.0, "50 ms"),
    ])
}

/// One short run, and links to its files under as many names as asked for.
fn fill(webstone: &Path, directory: &Path, runs: usize) -> Result<(), String> {
    let made = tempfile::tempdir_in(directory).map_err(|error| error.to_string())?;
    let mut run = Command::new(webstone);
    run.args(["run", "-q", "-c", "1", "-d", "200ms", "--warmup", "0s", "-w", "workout-0k", "--runs-dir"])
        .arg(made.path());
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().map_err(|error| error.to_string())?;
    let entries = fs::read_dir(made.path()).map_err(|error| error.to_string())?.filter_map(Result::ok);
    let run = entries.map(|entry| entry.path()).find(|path| path.join("record.json").is_file());
    let run = run.ok_or("the run that the library is made of was not stored")?;
    let files: Vec<_> =
        fs::read_dir(&run).map_err(|error| error.to_string())?.filter_map(Result::ok).collect();
    for number in 0..runs {
        let (day, second) = (1 + number / 86_400, number % 86_400);
        let stamp = format!("202601{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
        let target = directory.join(format!("{stamp}-webstone"));
        fs::create_dir(&target).map_err(|error| error.to_string())?;
        for file in &files {
            fs::hard_link(file.path(), target.join(file.file_name())).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
