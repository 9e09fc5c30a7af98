//! The fuzz targets under libFuzzer, which sees what each input reaches: `cargo xtask fuzz --minutes N`. The replay of the
//! corpus with any compiler is `steps::fuzz`.
//!
//! `fuzz/corpus/<target>` holds inputs with names that say what they are, `fuzz/found/<target>.tar.gz` those that searches kept:
//! nobody reviews thousands of files without names, so they are one archive of a few kilobytes. What a search finds stays in
//! `fuzz/target/found/<target>`, from where the next one continues; `--keep` packs the fewest inputs that reach all code.

use std::fs;
use std::process::{Command, Stdio};

use crate::steps::{Failure, Options, Outcome, failure, file_failure, run};
use crate::tree::root;

/// Where the targets and the sizes of their inputs are listed.
const TARGETS: &str = "fuzz/targets/src/lib.rs";
/// Memory of one input beyond which something is wrong, in megabytes: fuzzing checks that bounds hold.
const MEMORY_MB_MAX: u32 = 2048;
/// Seconds that no input may take.
const SECONDS_MAX: u32 = 25;

/// A target, and the longest input that is worth trying.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    bytes_max: String,
}

/// Searches with coverage: every target for this many minutes, or one.
pub fn search(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--keep"], &["--minutes", "--target"])?;
    let minutes = options.minutes()?.unwrap_or_default();
    let mut targets = listed(&fs::read_to_string(root().join(TARGETS)).map_err(file_failure(TARGETS))?);
    if let Some(only) = options.value("--target") {
        targets.retain(|target| target.name == only);
        if targets.is_empty() {
            return Err(failure(format!("--target: there is no target `{only}`"), format!("see {TARGETS}")));
        }
    }
    demand_fuzzer()?;
    for target in &targets {
        fuzz(target, (minutes * 60.0).ceil() as u64, options.has("--keep"))?;
    }
    Ok(())
}

fn fuzz(target: &Listed, seconds: u64, keep: bool) -> Outcome {
    let found = root().join("fuzz/target/found").join(&target.name);
    let corpus = root().join("fuzz/corpus").join(&target.name);
    fs::create_dir_all(&found).map_err(file_failure(&found.to_string_lossy()))?;
    let kept = root().join("fuzz/found").join(format!("{}.tar.gz", target.name));
    if kept.exists() {
        let mut command = Command::new("tar");
        command.arg("--extract").arg("--gzip").arg("--file").arg(&kept).arg("--directory").arg(&found);
        run(command, "the archive is damaged; `--keep` makes a new one")?;
    }
    let begin = |first: &std::path::Path, second: &std::path::Path| {
        let mut command = Command::new("cargo");
        // `cargo xtask` sets the project's toolchain, and this command needs the nightly one.
        command.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        command.args(["+nightly", "fuzz", "run", &target.name]).arg(first).arg(second);
        command.args(["--", &format!("-max_len={}", target.bytes_max)]);
        command.args([format!("-rss_limit_mb={MEMORY_MB_MAX}"), format!("-timeout={SECONDS_MAX}")]);
        command
    };
    let mut command = begin(&found, &corpus);
    command.args([format!("-max_total_time={seconds}"), "-print_final_stats=1".to_owned()]);
    run(command, "the failing input is in fuzz/artifacts/; add it to the corpus when the defect is fixed")?;
    if keep {
        let fewest = emptied(target)?;
        let mut command = begin(&fewest, &found);
        // The fewest that reach all code. If counts of visits distinguished them, as in a search, they would be ten times as many.
        command.args(["-set_cover_merge=1", "-use_counters=0"]);
        run(command, "see what libFuzzer says")?;
        let mut command = Command::new("tar");
        command.args("--create --gzip --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner".split(' '));
        command.arg("--file").arg(&kept).arg("--directory").arg(&fewest).arg(".");
        run(command, "is there room, and may the file be written?")?;
    }
    Ok(())
}

/// An empty directory for what is kept of a target.
fn emptied(target: &Listed) -> Result<std::path::PathBuf, Failure> {
    let path = root().join("fuzz/target/fewest").join(&target.name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).map_err(file_failure(&path.to_string_lossy()))?;
    Ok(path)
}

/// Names and sizes from the list of targets.
fn listed(text: &str) -> Vec<Listed> {
    let field = |entry: &str, name: &str| {
        let rest = entry.split(name).nth(1)?;
        let value: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        (!value.is_empty()).then_some(value)
    };
    let entry = |entry: &str| {
        let bytes_max = field(entry, "bytes_max: ")?.replace('_', "");
        Some(Listed { name: field(entry, "name: \"")?, bytes_max })
    };
    text.split("Target {").filter_map(entry).collect()
}

fn demand_fuzzer() -> Outcome {
    let tried = Command::new("cargo")
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["+nightly", "fuzz", "--version"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(failure(
            "a search with coverage needs a nightly compiler and cargo-fuzz, and one of them is missing",
            "rustup toolchain install nightly --profile minimal && cargo install cargo-fuzz",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_listed_with_its_size() {
        let text = "pub struct Target {\n    pub name: &'static str,\n}\n[\n    Target { name: \"response\", bytes_max: 70_000, cost: 1 },\n    \
                    // Files.\n    Target { name: \"a_b\", bytes_max: 256, cost: 1 },\n]";
        let found = listed(text);
        let pairs: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.bytes_max.as_str())).collect();
        assert_eq!(pairs, [("response", "70000"), ("a_b", "256")]);
    }
}
