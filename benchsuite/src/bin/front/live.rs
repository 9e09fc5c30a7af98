//! A run that is watched: how soon an event is on the screen, and what the front takes of which CPU meanwhile.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::devtools::{self, Browser};
use crate::process::{Front, began, cpu_seconds, threads};
use crate::{Found, spread};

/// Events that are waited for.
const EVENTS: u64 = 20;
/// Length of the window in which the front's CPU time is measured.
const WINDOW_SECONDS: u64 = 60;

fn now_ms() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e3)
}

/// From an event's line in the file until the page shows it. The run is this process, which writes what a run would.
pub fn screen(webstone: &Path) -> Result<Vec<Found>, String> {
    let program = devtools::installed().ok_or("no chromium is installed")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let place = directory.path().join(".live/20260101T000000Z-screen-1");
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let own = std::process::id();
    let process = json!({ "id": own, "began": began(own).ok_or("when this process began is not known")? });
    let entry = json!({
        "command": "run", "name": "screen", "command_line": [], "started": "2026-01-01T00:00:00.000Z", "in_terminal": true,
        "process": process,
    });
    fs::write(place.join("run.json"), entry.to_string()).map_err(|error| error.to_string())?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(place.join("events.ndjson"))
        .map_err(|error| error.to_string())?;
    let at = json!({ "step": 1, "steps": 1, "clients": 20, "iteration": 1 });
    let mut say = |event: Value| {
        let mut line = json!({ "schema": 1, "time": "2026-01-01T00:00:00.000Z" });
        if let (Value::Object(line), Value::Object(event)) = (&mut line, event) {
            line.extend(event);
        }
        writeln!(file, "{line}").map_err(|error| error.to_string())
    };
    say(json!({ "event": "level-started", "at": at }))?;
    let front = Front::start(webstone, directory.path())?;
    let mut browser = Browser::start(&program);
    browser.open_url(&front.url);
    browser.open_url(&front.page("/live/20260101T000000Z-screen-1"));
    browser.until("document.querySelector('.tiles.live dd.value') !== null");
    browser.evaluate(
        "window.shown = []; new MutationObserver(() => requestAnimationFrame(() => window.shown.push(Date.now()))).observe(document.querySelector('.tiles.live dd.value'), { childList: true, characterData: true, subtree: true })",
    );
    let mut took = Vec::new();
    for number in 1..=EVENTS {
        // Not in step with the front's second.
        std::thread::sleep(Duration::from_millis(1000 + 137 * (number % 8)));
        let requests = 100 * number * (number + 1) / 2;
        let live = json!({
            "elapsed_ns": 1_000_000_000 * number, "oldest_in_flight_ns": 0, "planned": 0, "offered": 0, "requests": requests, "errors": 0, "connections": 0,
            "pages": 0, "bytes": 0, "response_ns": 1_000_000 * requests,
        });
        let written = now_ms();
        say(json!({ "event": "tick", "at": at, "phase": "measuring", "live": live }))?;
        browser.until(&format!("window.shown.length >= {number}"));
        let shown = browser.evaluate(&format!("window.shown[{}]", number - 1)).as_f64().unwrap_or(f64::NAN);
        took.push(shown - written);
    }
    let (middle, most) = spread(&mut took);
    Ok(vec![Found {
        what: format!("from an event to the screen, {EVENTS} events"),
        value: format!("{middle:.0} ms (at most {most:.0})"),
        limit: "1200 ms",
        is_met: most <= 1200.0,
    }])
}

/// What the front takes while a page watches a run, and of which CPUs.
pub fn cpu(webstone: &Path, with_browser: bool) -> Result<Vec<Found>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let front = Front::start(webstone, directory.path())?;
    let spec = json!({
        "name": "cpu", "workload": "workout-0k", "client": { "connections": "keep-alive" },
        "load": { "clients": "16", "duration": format!("{}s", WINDOW_SECONDS + 15), "retries": 0 },
    });
    let begun = front.post("/api/runs", &json!({ "command": "run", "spec": spec }))?;
    let id = begun["id"].as_str().ok_or_else(|| begun.to_string())?.to_owned();
    let mut stream = front.stream(&id)?;
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
    let mut browser =
        with_browser.then(devtools::installed).flatten().map(|program| Browser::start(&program));
    if let Some(browser) = &mut browser {
        browser.open_url(&front.url);
        browser.open_url(&front.page(&format!("/live/{id}")));
    }
    // Workers are pinned, and the front has seen it.
    std::thread::sleep(Duration::from_secs(10));
    let runs = front.get("/api/live")?;
    let run = run_process(directory.path(), &id).ok_or_else(|| format!("the run has no process: {runs}"))?;
    // Of the run's threads, only workers: the others are pinned, too, to the remaining CPUs.
    let workers: Vec<String> = threads(run)
        .into_iter()
        .filter(|(name, cpus, _)| name.starts_with("worker-") && cpus.parse::<u32>().is_ok())
        .map(|(_, cpus, _)| cpus)
        .collect();
    let (began, before) = (Instant::now(), cpu_seconds(front.id()).ok_or("the front is gone")?);
    let used = |threads: Vec<(String, String, u64)>| -> u64 {
        let on_workers = |cpus: &str| workers.iter().any(|worker| holds(cpus, worker));
        threads.iter().filter(|(_, cpus, _)| on_workers(cpus)).map(|(_, _, used)| used).sum()
    };
    let mut beside = Vec::new();
    let first = used(threads(front.id()));
    while began.elapsed() < Duration::from_secs(WINDOW_SECONDS) {
        std::thread::sleep(Duration::from_secs(1));
        beside.push(used(threads(front.id())).saturating_sub(first));
    }
    let after = cpu_seconds(front.id()).ok_or("the front is gone")?;
    let share = (after - before) / began.elapsed().as_secs_f64() * 100.0;
    let on_workers_ms = beside.into_iter().max().unwrap_or(0) as f64 / 1e6;
    front.post(&format!("/api/live/{id}/stop"), &json!({ "now": true }))?;
    reader.join().map_err(|_| "the reader of the stream failed")?;
    Ok(vec![
        Found {
            what: format!("the front's CPU time in {WINDOW_SECONDS} s of a watched run"),
            value: format!("{share:.2} % of a CPU"),
            limit: "0.3 %",
            is_met: share <= 0.3,
        },
        Found {
            what: format!("of it by threads that may use the generator's CPU ({})", workers.join(", ")),
            value: format!("{on_workers_ms:.1} ms"),
            limit: "0 ms",
            is_met: on_workers_ms < 0.05 && !workers.is_empty(),
        },
    ])
}

/// The process of a run, from its place.
fn run_process(runs_dir: &Path, id: &str) -> Option<u32> {
    let text = fs::read_to_string(runs_dir.join(".live").join(id).join("run.json")).ok()?;
    let entry: Value = serde_json::from_str(&text).ok()?;
    entry["process"]["id"].as_u64()?.try_into().ok()
}

/// Whether a list of CPUs such as `0-1,4` has one.
fn holds(list: &str, cpu: &str) -> bool {
    let Ok(cpu) = cpu.parse::<u32>() else { return false };
    list.split(',').any(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        matches!((from.parse::<u32>(), to.parse::<u32>()), (Ok(from), Ok(to)) if (from..=to).contains(&cpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert!(holds("0-1,4", "1") && holds("0-1,4", "4") && holds("2", "2"));
        assert!(!holds("0-1,4", "3") && !holds("", "0") && !holds("0", "x"));
    }
}
