//! The steps of continuous integration: each a command or a check, timed.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::licences::Demands;
use crate::packages;
use crate::programs::{self, Program};
use crate::rules::RULES;
use crate::source::Source;
use crate::tally::Tally;
use crate::tree::{Tree, root};

/// The test programs that take longest, which are begun first: what is begun last decides when all have ended.
const LONGEST: [&str; 10] = [
    "crates/cli/tests/cli/main.rs",
    "crates/cli/tests/hostile/main.rs",
    "crates/ui/tests/browser/main.rs",
    EXAMPLES,
    "crates/engine/src/lib.rs",
    "crates/engine/tests/cases/main.rs",
    "crates/runner/tests/processes.rs",
    "crates/judge/src/lib.rs",
    "crates/report/tests/selection.rs",
    "crates/report/tests/browser/main.rs",
];
/// Test programs that run with no other beside them, and why.
const ALONE: [(&str, &str); 2] = [
    ("crates/engine/tests/soak.rs", "it has the kernel's tables of connections and memory to itself"),
    ("crates/engine/tests/scale.rs", "ten thousand connections at once, whose memory is counted"),
];
/// Tests of one program that judge what bounds a server. They pass over themselves where other programs have the CPUs, so nothing
/// runs beside them.
const QUIET: (&str, [&str; 3]) = ("crates/cli/tests/cli/main.rs", ["bottlenecks::", "find::", "full_link::"]);
/// The examples in comments, which cargo runs.
const EXAMPLES: &str = "examples in comments";

/// Why a step failed, and what to do.
#[derive(Debug)]
pub struct Failure {
    what: String,
    hint: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if !self.hint.is_empty() { write!(f, "\nhint: {}", self.hint) } else { Ok(()) }
    }
}

/// What a step returns.
pub type Outcome = Result<(), Failure>;
/// A step with its name.
pub type Step = (&'static str, fn() -> Outcome);

/// A failure from its parts; an empty hint is left out.
pub fn failure(what: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure { what: what.into(), hint: hint.into() }
}

/// Runs one step under its name and prints how long it took.
pub fn timed(name: &str, step: impl FnOnce() -> Outcome) -> Outcome {
    println!("== {name}");
    let start = Instant::now();
    let outcome = step();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("== {name}: {verdict}, {:.1} s", start.elapsed().as_secs_f64());
    outcome
}

/// Formatting, of the workspace and of the fuzzers' wrappers, which are a workspace of their own.
pub fn formatting() -> Outcome {
    run(
        cargo(&["fmt", "--all", "--check"]),
        "run `cargo fmt --all`; `rustup component add rustfmt` where it is missing",
    )?;
    let mut wrappers: Vec<_> = std::fs::read_dir(root().join("fuzz/fuzz_targets"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    wrappers.sort();
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]).args(wrappers).current_dir(root());
    run(rustfmt, "run `rustfmt --edition 2024 fuzz/fuzz_targets/*.rs`")
}

/// Lints of the compiler and of clippy, over everything that is built.
pub fn lints() -> Outcome {
    let command = cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    run(command, "mend what it names; `rustup component add clippy` where it is missing")
}

/// The documentation of every crate builds, and its links resolve.
pub fn documentation() -> Outcome {
    let mut command =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command, "mend the comment that it names")
}

/// The house rules.
pub fn house_rules() -> Outcome {
    let tree = read_tree()?;
    let mut broken = 0;
    for rule in RULES {
        let violations = (rule.check)(&tree);
        println!("{} {}", if violations.is_empty() { "ok    " } else { "BROKEN" }, rule.name);
        violations.iter().for_each(|violation| println!("{violation}"));
        broken += violations.len();
    }
    if broken == 0 { Ok(()) } else { Err(failure(format!("house rules broken in {broken} places"), "")) }
}

fn read_tree() -> Result<Tree, Failure> {
    Tree::read(&root()).map_err(|error| failure(format!("cannot read the repository: {error}"), ""))
}

/// Licences, bans and sources of dependencies; advisories where `cargo-deny` is installed.
pub fn dependencies() -> Outcome {
    let hint = "see deny.toml for what is allowed and why";
    if packages::find("cargo-deny").is_some() {
        return run(cargo(&["deny", "--workspace", "check"]), hint);
    }
    println!("skipped: advisories: cargo-deny is not installed");
    let read = |name: &str| {
        std::fs::read_to_string(root().join(name)).map_err(|error| failure(format!("{name}: {error}"), ""))
    };
    let demands = Demands::read(&read("deny.toml")?);
    let mut found = demands.sources(&read("Cargo.lock")?);
    let tree = cargo(&["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}|{l}"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failure(format!("cargo tree: {error}"), ""))?;
    let list = String::from_utf8_lossy(&tree.stdout).replace(" (*)", "");
    if !tree.status.success() || list.is_empty() {
        return Err(failure("cargo tree failed", "is Cargo.lock in step with the manifests?"));
    }
    found.extend(demands.licences(&list));
    let count = list.lines().collect::<std::collections::BTreeSet<_>>().len();
    println!("{count} packages: licences, bans and sources checked");
    found.iter().for_each(|line| println!("{line}"));
    if found.is_empty() {
        Ok(())
    } else {
        Err(failure(format!("{} dependencies not allowed", found.len()), hint))
    }
}

/// Replays the corpus and seeded mutations of it, more of them than the ordinary tests do.
pub fn fuzz(arguments: &[String]) -> Outcome {
    // Of the whole workspace, as the tests are built: what it compiles, they need.
    let mut command = cargo(&["test", "--workspace", "--locked", "--test", "mutations", "--", "--nocapture"]);
    let mut arguments = arguments.iter();
    let mut runs = "50000".to_owned();
    while let Some(argument) = arguments.next() {
        let name = match argument.as_str() {
            "--runs" => "WEBSTONE_FUZZ_RUNS",
            "--seed" => "WEBSTONE_FUZZ_SEED",
            "--target" => "WEBSTONE_FUZZ_TARGET",
            other => {
                return Err(failure(
                    format!("`{other}` is not an option of fuzz"),
                    "--runs N, --seed N, --target NAME",
                ));
            }
        };
        let value = arguments.next().ok_or_else(|| {
            failure(format!("{argument} needs a value"), "--runs N, --seed N, --target NAME")
        })?;
        if argument == "--runs" {
            runs.clone_from(value);
        } else {
            command.env(name, value);
        }
    }
    command.env("WEBSTONE_FUZZ_RUNS", runs);
    run(command, "the failing input is in fuzz/artifacts/; add it to the corpus when the defect is mended")
}

/// Writes the generated files again: the tests that compare them with the code do it when they are asked to.
pub fn generated_files() -> Outcome {
    for (variable, test) in [
        ("UPDATE_SCHEMA", &["--test", "schema"][..]),
        ("UPDATE_GOLDEN", &["--test", "documentation"]),
        ("UPDATE_DOCS", &["--lib", "reference::"]),
    ] {
        let mut command = cargo(&["test", "--workspace"]);
        command.args(test).env(variable, "1");
        run(command, "see which test failed above")?;
    }
    Ok(())
}

/// Installs what tests need, runs them all and the examples in comments, and closes with the counts.
pub fn tests(arguments: &[String]) -> Outcome {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let known = ["--ci", "--no-install"];
    if let Some(unknown) = arguments.iter().find(|a| !known.contains(&a.as_str())) {
        return Err(failure(format!("`{unknown}` is not an option of test"), "--ci, --no-install"));
    }
    packages::ensure(!has("--no-install"));
    packages::ensure_modules(!has("--no-install"), &root());
    let start = Instant::now();
    let locked: &[&str] = if has("--ci") { &["--locked"] } else { &[] };
    let mut waiting = programs::build(&[&["--workspace"], locked].concat(), None)?;
    // Without an example, to look for one would build the documentation of every crate once more.
    if read_tree()?.rust.iter().any(Source::has_examples) {
        let mut examples = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
        examples.args(locked);
        waiting.push(Program { name: EXAMPLES.to_owned(), command: examples });
    }
    // Stable, so that cargo's order stays where nothing else is known.
    waiting.sort_by_key(|program| {
        LONGEST.iter().position(|name| *name == program.name).unwrap_or(LONGEST.len())
    });
    let (mut alone, mut together): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|program| ALONE.iter().any(|(name, _)| *name == program.name));
    if let Some(program) = together.iter_mut().find(|program| program.name == QUIET.0) {
        let quiet = QUIET.1.map(str::to_owned);
        alone.push(program.part(format!("{}, {}", program.name, quiet.join(" ")), quiet.clone()));
        *program = program
            .part(program.name.clone(), quiet.into_iter().flat_map(|module| ["--skip".to_owned(), module]));
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for (programs, at_once) in [(together, cpus + 1), (alone, 1)] {
        programs::run(programs.into_iter().map(shown).collect(), at_once, &mut |ran| {
            println!("\n--- {}: {:.1} s", ran.name, ran.seconds);
            for line in String::from_utf8_lossy(&ran.output).lines() {
                if tally.line(line) {
                    println!("{line}");
                }
            }
            if !ran.status.success() {
                failed.push(format!("{}: {}", ran.name, ran.status));
            }
        })?;
    }
    println!();
    tally.details().iter().for_each(|line| println!("{line}"));
    failed.iter().for_each(|line| println!("FAILED  {line}"));
    println!("tests took {:.0} s, compilation included", start.elapsed().as_secs_f64());
    println!("{}", tally.closing());
    if failed.is_empty() && !tally.is_empty() && !tally.has_failures() {
        Ok(())
    } else if tally.has_failures() {
        Err(failure("tests failed", ""))
    } else {
        Err(failure(format!("no test failed, and yet: {}", failed.join(", ")), "read what it says above"))
    }
}

/// Has a program say which tests passed over themselves, and why. Most of the time that the longest ones take they wait, so
/// each runs more tests at a time than there are CPUs.
fn shown(mut program: Program) -> Program {
    if program.name == EXAMPLES {
        program.command.arg("--");
    }
    program.command.arg("--show-output");
    program.command.env("RUST_TEST_THREADS", threads());
    program
}

/// How many tests of a program run at a time, unless `RUST_TEST_THREADS` says it.
pub(crate) fn threads() -> String {
    std::env::var("RUST_TEST_THREADS")
        .unwrap_or_else(|_| (2 * std::thread::available_parallelism().map_or(1, usize::from)).to_string())
}

/// Cargo, in the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir::<&Path>(&root());
    command
}

/// Runs a command whose output is for the reader; `hint` is for the case that it fails.
pub fn run(mut command: Command, hint: &str) -> Outcome {
    let name = command.get_program().to_string_lossy().rsplit('/').next().unwrap_or_default().to_owned();
    let words = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    println!("$ {name} {words}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| failure(format!("cannot start {name}: {error}"), hint))?;
    if status.success() { Ok(()) } else { Err(failure(format!("{name} {words}: {status}"), hint)) }
}
