//! `webstone-front`: the browser front in numbers. How fast a library of 10,000 runs is, how soon an event is on the screen, what the
//! front takes of which CPU, and whether a run that is watched differs from one that is not. See `docs/benchmarks.md`.

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

const HELP: &str = "\
webstone-front [OPTIONS]
  --webstone PATH   the program; default: the one beside this
  --only PART       library, screen, cpu or watched; default: all
  --iterations N    pairs of runs, one watched and one not; default: 10
  --seconds N       length of each of them; default: 5
  --runs N          runs in the library; default: 10000
  --browser         watch with a browser on this host, too; default: only with the stream that one reads
";

/// What was asked for.
#[derive(Debug)]
struct Arguments {
    webstone: PathBuf,
    only: Option<String>,
    iterations: usize,
    seconds: u64,
    runs: usize,
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
    match arguments() {
        Ok(Some(arguments)) => match measure(&arguments) {
            Ok(found) => tell(&found),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: --help lists the options");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Option<Arguments>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut all = Arguments {
        webstone: own.with_file_name("webstone"),
        only: None,
        iterations: 10,
        seconds: 5,
        runs: 10_000,
        browser: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
        let number =
            |text: String| text.parse::<usize>().map_err(|_| format!("{word}: `{text}` is not a number"));
        match word.as_str() {
            "--help" => return Ok(None),
            "--webstone" => all.webstone = value()?.into(),
            "--only" => all.only = Some(value()?),
            "--iterations" => all.iterations = number(value()?)?.max(2),
            "--seconds" => all.seconds = number(value()?)?.max(1) as u64,
            "--runs" => all.runs = number(value()?)?.max(1),
            "--browser" => all.browser = true,
            _ => return Err(format!("{word}: there is no such option")),
        }
    }
    all.webstone = std::path::absolute(&all.webstone).map_err(|error| error.to_string())?;
    Ok(Some(all))
}

fn measure(arguments: &Arguments) -> Result<Vec<Found>, String> {
    let is_wanted = |part: &str| arguments.only.as_deref().is_none_or(|only| only == part);
    let mut found = Vec::new();
    if is_wanted("library") {
        found.extend(library::measure(&arguments.webstone, arguments.runs)?);
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
