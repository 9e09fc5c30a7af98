//! Whether the engine's unsafe code is sound and nothing leaks: its tests under sanitizers, and the soak.
//!
//! AddressSanitizer sees what this program does to memory, and what it lets `recvmsg` do; LeakSanitizer, a part of it, what
//! nobody owns any more at the end. Miri knows none of the system calls that this code is about.

use crate::programs;
use crate::steps::{Failure, Outcome, cargo, failure, run, threads};
use crate::tally::Tally;
use crate::tree::root;

/// The sanitizers' runtime is part of every toolchain for this target; elsewhere the step is skipped.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The engine's unit tests and its levels against known servers. The crates of this workspace are built with
/// AddressSanitizer, their dependencies are not: allocations are watched all the same, whoever makes them.
pub fn sanitize() -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        println!("skipped: the sanitizers run on {TARGET} only");
        return Ok(());
    }
    // Of the whole workspace, although it is the engine's tests alone: asked for one package, cargo would build many of its
    // dependencies again, with fewer features than the tests have them.
    let asked = ["--workspace", "--locked", "--test", "units", "--test", "cases"];
    let wrapper = root().join("xtask/sanitized-rustc");
    let mut programs = programs::build(&asked, Some(&wrapper))?;
    // These are about times and schedules, and reach no unsafe code that the others do not; they take the longest.
    let skipped = ["truth::", "open_loop::", "simulated_tests::schedules"];
    for program in &mut programs {
        program.command.args(skipped.into_iter().flat_map(|name| ["--skip", name]));
        program
            .command
            .env("RUST_TEST_THREADS", threads())
            .env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1");
    }
    let at_once = programs.len();
    let (mut failed, mut tally) = (Vec::new(), Tally::default());
    programs::run(programs, at_once, &mut |ran| {
        println!("\n--- {}: {:.1} s", ran.name, ran.seconds);
        let output = String::from_utf8_lossy(&ran.output);
        let shown = output.lines().filter(|line| tally.line(line));
        if ran.status.success() {
            return shown.filter(|line| line.starts_with("test result")).for_each(|line| println!("{line}"));
        }
        shown.for_each(|line| println!("{line}"));
        failed.push(format!("{}: {}", ran.name, ran.status));
    })?;
    tally.details().iter().for_each(|line| println!("{line}"));
    let hint = "the report above names the access or the leak, and where the memory came from";
    if failed.is_empty() { Ok(()) } else { Err(failure(failed.join("\n"), hint)) }
}

/// The value of `--minutes`.
pub(crate) fn minutes_of(value: &str, options: &'static str) -> Result<f64, Failure> {
    let parsed = value.parse().ok().filter(|minutes| *minutes > 0.0 && f64::is_finite(*minutes));
    parsed.ok_or_else(|| failure(format!("--minutes: `{value}` is not a number of minutes"), options))
}

/// The soak, for as long as is asked.
pub fn soak(arguments: &[String]) -> Outcome {
    const OPTIONS: &str = "--minutes N";
    let mut command = cargo(&["test", "--package", "webstone-engine", "--test", "soak", "--", "--nocapture"]);
    let mut minutes = 1.0;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| failure(format!("{argument} needs a value"), OPTIONS))?;
        match argument.as_str() {
            "--minutes" => {
                minutes = minutes_of(value, OPTIONS)?;
            }
            other => return Err(failure(format!("`{other}` is not an option of soak"), OPTIONS)),
        }
    }
    command.env("WEBSTONE_SOAK_SECONDS", (minutes * 60.0).to_string());
    run(command, "what leaked, or which error came where it was not injected, is said above")
}
