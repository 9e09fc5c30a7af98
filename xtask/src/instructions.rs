//! Instructions that operations of the engine take, counted by callgrind and compared with a stored baseline.
//!
//! Counts do not depend on what else the machine does, so continuous integration sees a regression of a few percent, which noise
//! would hide in times. Each operation runs `n` and `2 n` times; the difference, divided by `n`, leaves start-up out. It
//! does not contain the kernel's work, which `benchsuite` measures.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::packages;
use crate::steps::{Failure, Options, Outcome, cargo, failure, file_failure, run, target_directory};
use crate::tree::root;

/// Where the baseline is kept.
const BASELINE: &str = "benchsuite/instructions.toml";
/// Which packages are compiled as in a release: settings for cargo.
const RELEASED: &str = "benchsuite/operations/released.toml";
/// A rise beyond this share of the baseline fails.
const TOLERANCE: f64 = 0.05;
/// How often an operation is counted that seems to be beyond it. Answers come in other batches each time, which moves a count by a
/// few percent; what the code itself takes is in every count, so the least is judged.
const COUNTS_MAX: usize = 3;
const HOW_TO_ACCEPT: &str = "fix it; or, if the rise is worth it, accept it by `cargo xtask instructions --update` and say why \
                             in the commit's message";
/// What to do about a baseline that cannot be read.
const HOW_TO_WRITE: &str = "write it by `cargo xtask instructions --update`";

/// One thing that is counted.
struct Operation {
    name: &'static str,
    /// How often the smaller of its two runs does it.
    times: u64,
    /// Options of the server that it needs.
    server: Option<&'static [&'static str]>,
}

const OPERATIONS: [Operation; 12] = [
    Operation { name: "keep-alive", times: 20_000, server: Some(&[]) },
    Operation { name: "per-request", times: 5_000, server: Some(&["--close"]) },
    Operation { name: "https", times: 10_000, server: Some(&["--tls"]) },
    Operation { name: "h2c", times: 10_000, server: Some(&["--http2"]) },
    Operation { name: "h2", times: 10_000, server: Some(&["--tls"]) },
    Operation { name: "h3", times: 5_000, server: Some(&["--tls"]) },
    Operation { name: "parse-response", times: 20_000, server: None },
    Operation { name: "recall-response", times: 20_000, server: None },
    Operation { name: "write-request", times: 20_000, server: None },
    Operation { name: "render-request", times: 20_000, server: None },
    Operation { name: "pick-page", times: 100_000, server: None },
    Operation { name: "record-latency", times: 100_000, server: None },
];

/// Counts every operation and compares with the baseline, or overwrites it.
pub fn count(arguments: &[String]) -> Outcome {
    let update = Options::read(arguments, &["--update"], &[])?.has("--update");
    packages::ensure_one("valgrind");
    if packages::find("valgrind").is_none() {
        if update {
            return Err(failure("valgrind is not installed", "as root, apt-get install valgrind"));
        }
        println!("skipped: instructions: valgrind is not installed");
        return Ok(());
    }
    let here = conditions()?;
    let path = root().join(BASELINE);
    let stored = if update {
        None
    } else {
        let text = fs::read_to_string(&path).map_err(file_failure(BASELINE))?;
        Some(read(&text).ok_or_else(|| failure(format!("{BASELINE} is damaged"), HOW_TO_WRITE))?)
    };
    let baseline = stored.as_ref().filter(|(conditions, _)| *conditions == here).map(|(_, counts)| counts);
    let programs = build()?;
    let mut counted = BTreeMap::new();
    for operation in &OPERATIONS {
        let before = baseline.and_then(|baseline| baseline.get(operation.name));
        let limit = before.map_or(f64::INFINITY, |before| before * (1.0 + TOLERANCE));
        let count = least(|| programs.count(operation), limit)?;
        println!("{:<16} {count:>10.1} instructions", operation.name);
        counted.insert(operation.name.to_owned(), count);
    }
    match (&stored, baseline) {
        (None, _) => {
            fs::write(&path, text(&here, &counted)).map_err(file_failure(BASELINE))?;
            println!("{BASELINE} is written");
            Ok(())
        }
        (Some(_), Some(baseline)) => verdict(baseline, &counted),
        // Another compiler makes other code from the same source, which is not a regression.
        (Some((conditions, _)), None) => {
            println!(
                "skipped: instructions: the baseline is of {}, this is {}",
                conditions.join(" for "),
                here.join(" for ")
            );
            println!(
                "hint: `cargo xtask instructions --update` on the commit before yours makes a baseline for this compiler"
            );
            Ok(())
        }
    }
}

/// The least of up to [`COUNTS_MAX`] counts, until one is within the limit.
fn least(mut count: impl FnMut() -> Result<f64, Failure>, limit: f64) -> Result<f64, Failure> {
    let mut least = count()?;
    for _ in 1..COUNTS_MAX {
        if least <= limit {
            break;
        }
        least = least.min(count()?);
    }
    Ok(least)
}

/// Compares counts by operation; an error names each that rose by more than [`TOLERANCE`].
fn verdict(baseline: &BTreeMap<String, f64>, counted: &BTreeMap<String, f64>) -> Outcome {
    let mut worse = Vec::new();
    for (name, now) in counted {
        let Some(before) = baseline.get(name) else {
            worse.push(format!("{name}: {now:.1} instructions, and none in {BASELINE}"));
            continue;
        };
        let change = now / before - 1.0;
        let line =
            format!("{name}: {now:.1} instructions, {before:.1} in {BASELINE}: {:+.1} %", 100.0 * change);
        if change > TOLERANCE {
            worse.push(line);
        } else if change < -TOLERANCE {
            println!("better: {line}\nhint: keep it by `cargo xtask instructions --update`");
        }
    }
    let gone = baseline.keys().filter(|name| !counted.contains_key(*name));
    worse.extend(gone.map(|name| format!("{name}: in {BASELINE}, and nothing counts it")));
    if worse.is_empty() {
        println!("none is more than {:.0} % above {BASELINE}", 100.0 * TOLERANCE);
        Ok(())
    } else {
        Err(failure(worse.join("\n"), HOW_TO_ACCEPT))
    }
}

/// What the counts depend on besides the source: the compiler's release and its target.
type Conditions = [String; 2];

fn conditions() -> Result<Conditions, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .map_err(|error| failure(format!("cannot start rustc: {error}"), ""))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
    match (field("release:"), field("host:")) {
        (Some(rustc), Some(target)) => Ok([rustc, target]),
        _ => Err(failure("`rustc -vV` names no release and host", "")),
    }
}

/// The baseline as a file.
fn text([rustc, target]: &Conditions, instructions: &BTreeMap<String, f64>) -> String {
    let mut text = format!(
        "# Instructions in user mode that one operation takes, as `cargo xtask instructions` counts them with callgrind.\n\
         # Written by `cargo xtask instructions --update`. They hold for code as in a release, this compiler\n\
         # and this target; with others they are printed and not judged. A rise beyond {:.0} % fails.\n\n\
         rustc = \"{rustc}\"\ntarget = \"{target}\"\n\n[instructions]\n",
        100.0 * TOLERANCE
    );
    instructions.iter().for_each(|(name, count)| text.push_str(&format!("{name} = {count:.1}\n")));
    text
}

/// Reads what [`text`] writes; `None` for anything else.
fn read(text: &str) -> Option<(Conditions, BTreeMap<String, f64>)> {
    let (head, table) = text.split_once("[instructions]")?;
    let values = |part: &str| -> Option<Vec<(String, String)>> {
        let lines = part.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                line.split_once(" = ").map(|(name, value)| (name.into(), value.trim_matches('"').into()))
            })
            .collect()
    };
    let [(_, rustc), (_, target)]: [(String, String); 2] = values(head)?.try_into().ok()?;
    let counts = values(table)?
        .into_iter()
        .map(|(name, count)| Some((name, count.parse().ok().filter(|c| *c > 0.0)?)));
    Some(([rustc, target], counts.collect::<Option<_>>()?))
}

/// What was built to be counted.
struct Programs {
    operations: PathBuf,
    server: PathBuf,
}

/// The operations as a release has them; the server, which is not counted, as the tests have it. All of it is built with the
/// features and in the place of the tests, so that what they need besides is compiled once.
fn build() -> Result<Programs, Failure> {
    let hint = "see what the compiler says";
    let operations = ["--workspace", "--bin", "webstone-operations", "--config", RELEASED];
    let mut command = cargo("build --quiet --locked");
    // As continuous integration builds: what is compiled in increments is inlined less, and counts more.
    command.args(operations).env("CARGO_INCREMENTAL", "0");
    run(command, hint)?;
    let built = target_directory().join("debug");
    // The next build of the workspace would put another program there.
    let kept = built.join("webstone-operations-counted");
    fs::copy(built.join("webstone-operations"), &kept).map_err(file_failure("webstone-operations"))?;
    // With a test, so that features are those that tests have.
    let server = ["--workspace", "--bin", "webstone-canned", "--test", "workload_memory"];
    let mut command = cargo("build --quiet --locked");
    command.args(server).env("CARGO_INCREMENTAL", "0");
    run(command, hint)?;
    Ok(Programs { operations: kept, server: built.join("webstone-canned") })
}

impl Programs {
    /// Instructions that the operation takes once.
    fn count(&self, operation: &Operation) -> Result<f64, Failure> {
        let server = operation.server.map(|options| Served::start(&self.server, options)).transpose()?;
        let total = |times: u64| self.collected(operation.name, times, server.as_ref());
        let (once, twice) = if server.is_some() {
            // Two at a time would find other batches of answers.
            (total(operation.times)?, total(2 * operation.times)?)
        } else {
            std::thread::scope(|scope| {
                let twice = scope.spawn(|| total(2 * operation.times));
                let once = total(operation.times)?;
                let twice = twice.join().map_err(|_| failure("a thread of this program panicked", ""))??;
                Ok((once, twice))
            })?
        };
        Ok((twice as f64 - once as f64) / operation.times as f64)
    }

    /// Instructions of a whole run.
    fn collected(&self, name: &str, times: u64, server: Option<&Served>) -> Result<u64, Failure> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(&self.operations).args([name, &times.to_string()]);
        command.args(server.map(|server| &server.url)).stdin(Stdio::null()).stdout(Stdio::null());
        let output =
            command.output().map_err(|error| failure(format!("cannot start valgrind: {error}"), ""))?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(failure(format!("{name} under valgrind: {}\n{text}", output.status), ""));
        }
        collected(&text).ok_or_else(|| failure(format!("callgrind printed no count:\n{text}"), ""))
    }
}

/// The number after `Collected :` in what callgrind says.
fn collected(text: &str) -> Option<u64> {
    let (_, number) = text.lines().find(|line| line.contains("Collected"))?.split_once(" : ")?;
    number.trim().parse().ok()
}

/// A canned server; it ends with this value.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(program: &Path, options: &[&str]) -> Result<Served, Failure> {
        let mut process = Command::new(program)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failure(format!("cannot start {}: {error}", program.display()), ""))?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut url)
                .map_err(|error| failure(format!("{}: {error}", program.display()), ""))?;
        }
        let served = Served { process, url: url.trim().to_owned() };
        if served.url.is_empty() {
            return Err(failure(format!("{} told no address", program.display()), ""));
        }
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_rise_beyond_the_tolerance_fails_and_names_everything() {
        let baseline = counts(&[("a", 1000.0), ("b", 20.0)]);
        assert!(verdict(&baseline, &counts(&[("a", 1049.0), ("b", 10.0)])).is_ok());
        let error = verdict(&baseline, &counts(&[("a", 1051.0), ("b", 20.0)])).unwrap_err().to_string();
        assert!(
            error.starts_with("a: 1051.0 instructions, 1000.0 in benchsuite/instructions.toml: +5.1 %\n")
        );
        assert!(error.contains("hint: fix it") && error.contains("--update"), "{error}");
        let error = verdict(&baseline, &counts(&[("a", 1.0), ("c", 1.0)])).unwrap_err().to_string();
        assert!(error.contains("c: 1.0 instructions, and none in"), "{error}");
        assert!(error.contains("b: in benchsuite/instructions.toml, and nothing counts it"), "{error}");
    }

    #[test]
    fn what_seems_to_be_too_much_is_counted_again() {
        let least_of = |list: &[f64]| {
            let mut counts = list.iter();
            let least = least(|| Ok(*counts.next().unwrap()), 10.0).unwrap();
            (least, counts.len())
        };
        assert_eq!(least_of(&[10.0, 9.0]), (10.0, 1));
        assert_eq!(least_of(&[12.0, 9.0, 8.0]), (9.0, 1));
        assert_eq!(least_of(&[12.0, 11.0, 13.0, 1.0]), (11.0, 1));
    }

    #[test]
    fn a_baseline_reads_what_it_writes() {
        let conditions = ["1.95.0".to_owned(), "x86_64-unknown-linux-gnu".to_owned()];
        let counts = counts(&[("keep-alive", 1234.5), ("pick-page", 20.0)]);
        assert_eq!(read(&text(&conditions, &counts)), Some((conditions, counts)));
        let head = "rustc = \"1\"\ntarget = \"x\"\n";
        assert!(read(&format!("{head}[instructions]\na = 1\n")).is_some());
        for damaged in
            [head.to_owned(), format!("{head}[instructions]\na = x\n"), "[instructions]\na = 1".to_owned()]
        {
            assert_eq!(read(&damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_stored_baseline_has_every_operation() {
        let (_, stored) = read(&fs::read_to_string(root().join(BASELINE)).unwrap()).unwrap();
        let mut counted = OPERATIONS.map(|operation| operation.name);
        counted.sort_unstable();
        assert!(stored.keys().eq(counted), "{stored:?}");
    }

    #[test]
    fn callgrinds_count_is_found() {
        let text = "==5== \n==5== Events    : Ir\n==5== Collected : 2163445\n==5== \n==5== I   refs:      2,163,445\n";
        assert_eq!(collected(text), Some(2_163_445));
        assert_eq!(collected("==5== killed"), None);
    }
}
