//! The steps of continuous integration: each a command or a check, timed.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::packages;
use crate::rules::RULES;
use crate::tally::Tally;
use crate::tree::{Tree, root};

/// Profiles of nextest, in `.config/nextest.toml`.
const PROFILES: [&str; 2] = ["default", "alone"];

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

/// A failure of reading or writing a file.
pub fn file_failure(path: &str) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| failure(format!("{path}: {error}"), "")
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

/// The options of a subcommand: `flags` stand alone, `valued` take a value, which [`Options::value`] returns.
#[derive(Debug, Default)]
pub struct Options<'a>(Vec<(&'a str, Option<&'a str>)>);

impl<'a> Options<'a> {
    /// Reads the arguments; one that is neither in `flags` nor in `valued` is an error.
    pub fn read(arguments: &'a [String], flags: &[&str], valued: &[&str]) -> Result<Options<'a>, Failure> {
        let mut found = Vec::new();
        let mut arguments = arguments.iter().map(String::as_str);
        while let Some(name) = arguments.next() {
            let all = || format!("options: {}", [valued, flags].concat().join(", "));
            let value = if flags.contains(&name) {
                None
            } else if valued.contains(&name) {
                Some(arguments.next().ok_or_else(|| failure(format!("{name} needs a value"), all()))?)
            } else {
                return Err(failure(format!("unexpected argument `{name}`"), all()));
            };
            found.push((name, value));
        }
        Ok(Options(found))
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The value of an option.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(given, _)| *given == name)?.1
    }

    /// The value of `--minutes`.
    pub fn minutes(&self) -> Result<Option<f64>, Failure> {
        let Some(value) = self.value("--minutes") else { return Ok(None) };
        match value.parse() {
            Ok(minutes) if minutes > 0.0 && f64::is_finite(minutes) => Ok(Some(minutes)),
            _ => Err(failure(format!("--minutes: `{value}` is not a number of minutes"), "")),
        }
    }
}

/// Formatting: of the workspace, of the fuzzers' wrappers, which are a workspace of their own, and of scripts and
/// style sheets of the browser front and of reports.
pub fn formatting() -> Outcome {
    run(
        cargo("fmt --all --check"),
        "run `cargo fmt --all`; `rustup component add rustfmt` where it is missing",
    )?;
    let wrappers = std::fs::read_dir(root().join("fuzz/fuzz_targets")).into_iter().flatten();
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]).current_dir(root());
    rustfmt.args(wrappers.filter_map(|entry| Some(entry.ok()?.path())));
    run(rustfmt, "run `rustfmt --edition 2024 fuzz/fuzz_targets/*.rs`")?;
    let Some(modules) = packages::ensure_modules(true) else { return Ok(()) };
    let mut biome = Command::new(modules.join("@biomejs/biome/bin/biome"));
    biome.args(["format", "--colors=off"]).current_dir(root());
    run(biome, "run `target/axe/node_modules/@biomejs/biome/bin/biome format --write`")
}

/// Lints of the compiler and of clippy, over everything that is built.
pub fn lints() -> Outcome {
    let command = cargo("clippy --workspace --all-targets --locked -- -D warnings");
    run(command, "fix what it names; `rustup component add clippy` where it is missing")
}

/// The documentation of every crate builds, and its links resolve.
pub fn documentation() -> Outcome {
    let mut command = cargo("doc --workspace --no-deps --document-private-items --locked --quiet");
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command, "fix the comment that it names")
}

/// The workspace compiles with the oldest compiler that it allows. Not a part of continuous integration, which would compile
/// everything a second time.
pub fn oldest_compiler() -> Outcome {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).map_err(file_failure("Cargo.toml"))?;
    let version = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.ok_or_else(|| failure("Cargo.toml has no rust-version", ""))?;
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", version, "--profile", "minimal", "--no-self-update"]);
    run(install, "https://rustup.rs")?;
    let mut command = Command::new("rustup");
    command.args(["run", version, "cargo", "check", "--workspace", "--locked"]).current_dir(root());
    // The compiler that runs this must not be asked instead.
    command.env_remove("RUSTC").env("CARGO_TARGET_DIR", target_directory().join("msrv"));
    run(command, "use what that compiler has, or raise rust-version")
}

/// The house rules.
pub fn house_rules() -> Outcome {
    let tree = Tree::read(&root()).map_err(file_failure("the repository"))?;
    let mut broken = 0;
    for rule in RULES {
        let violations = (rule.check)(&tree);
        println!("{} {}", if violations.is_empty() { "ok    " } else { "BROKEN" }, rule.name);
        violations.iter().for_each(|violation| println!("{violation}"));
        broken += violations.len();
    }
    if broken == 0 { Ok(()) } else { Err(failure(format!("house rules broken in {broken} places"), "")) }
}

/// Licences, bans and sources of dependencies, and the arrows between crates. Advisories are not checked: their database is
/// not a package of a registry.
pub fn dependencies() -> Outcome {
    packages::ensure_tools(true)?;
    let command = cargo("deny --workspace --locked check licenses bans sources -A duplicate");
    run(command, "see deny.toml for what is allowed and why")
}

/// Replays the corpus and seeded mutations of it, more of them than the ordinary tests do.
pub fn fuzz(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &[], &["--runs", "--seed", "--target"])?;
    // Of the whole workspace, as the tests are built: what it compiles, they need.
    let mut command = cargo("test --workspace --locked --test mutations -- --nocapture");
    command.env("WEBSTONE_FUZZ_RUNS", options.value("--runs").unwrap_or("10000"));
    for (option, variable) in [("--seed", "WEBSTONE_FUZZ_SEED"), ("--target", "WEBSTONE_FUZZ_TARGET")] {
        command.envs(options.value(option).map(|value| (variable, value)));
    }
    run(command, "the failing input is in fuzz/artifacts/; add it to the corpus when the defect is fixed")
}

/// Writes the generated files again: the tests that compare them with the code do it when they are asked to.
pub fn generated_files() -> Outcome {
    for (variable, test) in [
        ("UPDATE_SCHEMA", &["--test", "reports", "schema::"][..]),
        ("UPDATE_GOLDEN", &["--test", "reports", "documentation::"]),
        ("UPDATE_DOCS", &["--lib", "reference::"]),
    ] {
        let mut command = cargo("test --workspace");
        command.args(test).env(variable, "1");
        run(command, "see which test failed above")?;
    }
    Ok(())
}

/// Installs what tests need, runs them all, and closes with the counts.
pub fn tests(arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--ci", "--no-install"], &[])?;
    let install = !options.has("--no-install");
    packages::ensure(install);
    packages::ensure_modules(install);
    packages::ensure_http3(install);
    packages::ensure_tools(install)?;
    let start = Instant::now();
    let mut tally = Tally::default();
    let mut outcome = Ok(());
    for profile in PROFILES {
        let mut command = cargo(&format!("nextest run --workspace --no-fail-fast --profile {profile}"));
        // Ten at a time, runs would take the CPUs from the tests that wait for them.
        command.env("WEBSTONE_PRIORITY", "normal");
        command.args(options.has("--ci").then_some("--locked"));
        // Nextest keeps reports with the workspace, wherever cargo builds (`store.dir`).
        let report = root().join("target/nextest").join(profile).join("junit.xml");
        let _ = std::fs::remove_file(&report);
        let result = run(command, "read what it says above");
        match std::fs::read_to_string(&report) {
            Ok(junit) => tally.add(&junit),
            Err(error) if result.is_ok() => return Err(file_failure(&report.display().to_string())(error)),
            // The tests did not even compile.
            Err(_) => {}
        }
        outcome = outcome.and(result);
    }
    tally.skipped().for_each(|line| println!("{line}"));
    println!("tests took {:.0} s, compilation included", start.elapsed().as_secs_f64());
    println!("{}", tally.closing());
    outcome
}

/// Cargo with these words, in the repository's root, with the tools that [`packages::ensure_tools`] installs.
pub fn cargo(words: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(words.split(' ')).current_dir(root());
    command.envs(packages::tools_path().map(|path| ("PATH", path)));
    command
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let read = |text: &str| {
            let words = words(text);
            Options::read(&words, &["--keep"], &["--minutes"])
                .and_then(|options| Ok((options.has("--keep"), options.minutes()?)))
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("--minutes 1 --keep --minutes 0.5"), Ok((true, Some(0.5))));
        assert_eq!(read(""), Ok((false, None)));
        for (text, part) in [
            ("--seed 1", "unexpected argument `--seed`"),
            ("--minutes", "--minutes needs a value"),
            ("--minutes 0", "`0` is not a number of minutes"),
        ] {
            assert!(read(text).unwrap_err().contains(part), "{text}");
        }
    }
}
