//! `webstone-front`: the browser front in numbers. How fast a library of 10,000 runs is, how soon an event is on the screen, what the
//! front takes of which CPU, and whether a run that is watched differs from one that is not. See `benchsuite/benchmarks.md`.

#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the reports' tests, where a panic is how they fail"
)]
#[path = "../../../../crates/report/tests/browser/devtools.rs"]
mod devtools;
mod library;
mod live;
mod process;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The browser front in numbers.
#[derive(Debug, Parser)]
struct Arguments {
    /// The program; by default the one beside this.
    #[arg(long, default_value_os_t = beside(), value_parser = |path: &str| std::path::absolute(path))]
    webstone: PathBuf,
    /// Only one part.
    #[arg(long, value_parser = ["library", "screen", "cpu", "watched"])]
    only: Option<String>,
    /// Pairs of runs, one watched and one not.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..))]
    iterations: u64,
    /// Length of each of them, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Runs in the library.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Watch with a browser on this host, too; by default only with the stream that one reads.
    #[arg(long)]
    browser: bool,
}

/// A number and its limit.
#[derive(Debug)]
struct Found {
    what: String,
    value: String,
    limit: &'static str,
    is_met: bool,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(found) => tell(&found),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("webstone")
}

fn measure(arguments: &Arguments) -> Result<Vec<Found>, String> {
    let is_wanted = |part: &str| arguments.only.as_deref().is_none_or(|only| only == part);
    let mut found = Vec::new();
    if is_wanted("library") {
        found.extend(library::measure(&arguments.webstone, arguments.runs as usize)?);
    }
    if is_wanted("screen") {
        found.extend(live::screen(&arguments.webstone)?);
    }
    if is_wanted("cpu") {
        found.extend(live::cpu(&arguments.webstone, arguments.browser)?);
    }
    if is_wanted("watched") {
        found.extend(watched::measure(arguments)?);
    }
    Ok(found)
}

fn tell(found: &[Found]) -> ExitCode {
    println!("| what | found | limit | |\n|---|---|---|---|");
    for one in found {
        let word = if one.limit.is_empty() {
            ""
        } else if one.is_met {
            "met"
        } else {
            "missed"
        };
        println!("| {} | {} | {} | {word} |", one.what, one.value, one.limit);
    }
    if found.iter().all(|one| one.is_met) { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// The middle value and the largest, in milliseconds.
fn spread(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    (middle, values.last().copied().unwrap_or(f64::NAN))
}
