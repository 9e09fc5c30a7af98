//! Runs that are watched against runs that are not, in turns: whether a page that follows a run can be seen in its figures.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::devtools::{self, Browser};
use crate::process::stream_of;
use crate::{Arguments, Found};

/// Student's t, two-sided 95 %, by degrees of freedom from 1; beyond, the normal distribution's is near enough.
const T95: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Figures of a run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: f64,
    mean: f64,
    p99: f64,
    watched_by: u64,
}

pub fn measure(arguments: &Arguments) -> Result<Vec<Found>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = arguments.browser.then(devtools::installed).flatten();
    let mut browser = program.map(|program| Browser::start(&program));
    let mut pairs = Vec::new();
    for number in 0..arguments.iterations {
        let mut run = |is_watched| {
            if is_watched {
                watched(arguments, directory.path(), browser.as_mut())
            } else {
                unwatched(arguments, directory.path())
            }
        };
        // In both orders, so that a drift affects both alike.
        let (with, without) = if number % 2 == 0 {
            let with = run(true)?;
            (with, run(false)?)
        } else {
            let without = run(false)?;
            (run(true)?, without)
        };
        eprintln!(
            "[{}/{}] watched by {}: {:.0} requests/s, not watched: {:.0}",
            number + 1,
            arguments.iterations,
            with.watched_by,
            with.rate,
            without.rate
        );
        pairs.push((with, without));
    }
    let by = if arguments.browser { "a browser on this host" } else { "a reader of its stream" };
    let of = |name: &str, value: fn(&Figures) -> f64| {
        let ratios: Vec<f64> =
            pairs.iter().map(|(with, without)| (value(with) / value(without)).ln()).collect();
        let (point, low, high) = interval(&ratios);
        let percent = |ratio: f64| (ratio.exp() - 1.0) * 100.0;
        Found {
            what: format!("{name}, watched by {by} against not watched, {} pairs", pairs.len()),
            value: format!("{:+.2} % (95 %: {:+.2} to {:+.2})", percent(point), percent(low), percent(high)),
            limit: "no difference",
            is_met: low <= 0.0 && high >= 0.0,
        }
    };
    Ok(vec![of("requests/s", |it| it.rate), of("mean latency", |it| it.mean), of("p99 latency", |it| it.p99)])
}

/// Mean and its 95 % interval.
fn interval(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T95.get(values.len().saturating_sub(2)).copied().unwrap_or(1.96);
    let half = t * (variance / count).sqrt();
    (mean, mean - half, mean + half)
}

fn command(arguments: &Arguments, runs_dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(&arguments.webstone);
    let seconds = format!("{}s", arguments.seconds);
    command.args([
        "run",
        "-K",
        "-c",
        "16",
        "-w",
        "workout-0k",
        "--retries",
        "0",
        "--format",
        "json",
        "-d",
        &seconds,
    ]);
    command.args(more).arg("--runs-dir").arg(runs_dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn unwatched(arguments: &Arguments, runs_dir: &Path) -> Result<Figures, String> {
    let done = command(arguments, runs_dir, &["-q"]).output().map_err(|error| error.to_string())?;
    figures(&String::from_utf8_lossy(&done.stdout))
}

fn watched(arguments: &Arguments, runs_dir: &Path, browser: Option<&mut Browser>) -> Result<Figures, String> {
    let mut child = command(arguments, runs_dir, &["--watch"]).spawn().map_err(|error| error.to_string())?;
    let said = BufReader::new(child.stderr.take().ok_or("no messages")?);
    let mut said = said.lines().map_while(Result::ok);
    let address = said.find_map(|line| line.strip_prefix("watch: ").map(str::to_owned));
    let address = address.ok_or("the run printed no address")?;
    let messages = std::thread::spawn(move || said.count());
    let (page, token) = address.split_once("/#token=").ok_or("no token")?;
    let port = page.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
    let live = runs_dir.join(".live");
    let newest = std::fs::read_dir(live).map_err(|error| error.to_string())?.filter_map(Result::ok);
    let id =
        newest.map(|entry| entry.file_name().to_string_lossy().into_owned()).max().ok_or("no run is on")?;
    if let Some(browser) = browser {
        browser.open_url(&address);
        browser.open_url(&format!("{page}/live/{id}"));
    } else {
        // The front finds the run within half a second.
        let stream = (0..50).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut stream = stream_of(port, token, &id).ok()?;
            let mut head = [0; 12];
            stream.read_exact(&mut head).ok()?;
            (&head == b"HTTP/1.1 200").then_some(stream)
        });
        let mut stream = stream.ok_or("the front does not know the run")?;
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
        });
    }
    let mut out = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_to_string(&mut out).map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    messages.join().map_err(|_| "the reader of messages failed")?;
    figures(&out).and_then(|found| match found.watched_by {
        0 => Err("the run was not watched".to_owned()),
        _ => Ok(found),
    })
}

fn figures(output: &str) -> Result<Figures, String> {
    let record: Value = serde_json::from_str(output).map_err(|error| format!("no report: {error}"))?;
    let figures = &record["computed"]["levels"][0]["figures"];
    let number = |name: &str| figures[name].as_f64().ok_or_else(|| format!("the report has no {name}"));
    let percentiles = figures["latency_percentiles_s"].as_array().ok_or("the report has no percentiles")?;
    let at =
        webstone_measure::figures::PERCENTILES.iter().position(|known| *known == 99.0).ok_or("no 99th")?;
    let p99 = percentiles.get(at).and_then(Value::as_f64).ok_or("the report has no 99th percentile")?;
    let watched_by = record["environment"]["watched_by"].as_u64().unwrap_or(0);
    Ok(Figures { rate: number("request_rate")?, mean: number("latency_mean_s")?, p99, watched_by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_as_worked_by_hand() {
        // Mean 2, standard deviation 1, three values: 2 ± 4.303 / √3.
        let (mean, low, high) = interval(&[1.0, 2.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12);
        assert!(
            (high - 2.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-9 && (mean - low - (high - mean)).abs() < 1e-12
        );
    }
}
