//! Whether the engine's unsafe code is sound and nothing leaks: its tests under sanitizers, and the soak.
//!
//! AddressSanitizer sees what this program does to memory, and what it lets `recvmsg` do; LeakSanitizer, a part of it, what is
//! still allocated at the end and owned by nothing. Miri knows none of the system calls that this code is about.

use crate::steps::{Options, Outcome, cargo, run};
use crate::tree::root;

/// The sanitizers' runtime is part of every toolchain for this target; elsewhere the step is skipped.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests of times; those on simulated networks and clocks, which reach no unsafe code: `sys` has all of it; and those of counting and
/// decoding, which reach none that others do not.
const SKIPPED: [&str; 8] = [
    "truth::",
    "open_loop::",
    "booked_time::",
    "several_hosts::",
    "hpack::",
    "simulated_tests",
    "scripted_tests",
    "noise_tests",
];
/// Among those on simulated networks, but over sockets.
const REAL_SOCKETS: &str = "simulated_tests::http3::real_sockets";

/// The engine's unit tests and its levels against known servers. The crates of this workspace are built with
/// AddressSanitizer, their dependencies are not: allocations are watched anyway, whichever crate makes them.
pub fn sanitize() -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        println!("skipped: the sanitizers run on {TARGET} only");
        return Ok(());
    }
    let without = SKIPPED.map(|skipped| ["--skip", skipped]).concat();
    tests(&["--test", "units", "--test", "cases"], &without)?;
    tests(&["--test", "units"], &[REAL_SOCKETS])
}

/// Runs these tests, under the sanitizer.
fn tests(programs: &[&str], filter: &[&str]) -> Outcome {
    // Of the whole workspace, although only the engine's tests run: asked for one package, cargo would build many of its
    // dependencies again, with fewer features than the tests have them.
    let mut command = cargo("test --workspace --locked");
    command.args(programs).args(["--", "--quiet"]).args(filter);
    command
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/sanitized-rustc"))
        .env("RUST_TEST_THREADS", "8") // most of the time they wait
        .env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1");
    run(command, "the report above names the access or the leak, and where the memory came from")
}

/// The soak, for as long as is asked.
pub fn soak(arguments: &[String]) -> Outcome {
    let minutes = Options::read(arguments, &[], &["--minutes"])?.minutes()?.unwrap_or(1.0);
    let mut command = cargo("test --package webstone-engine --test soak -- --nocapture");
    command.env("WEBSTONE_SOAK_SECONDS", (minutes * 60.0).to_string());
    run(command, "what leaked, or which error came where it was not injected, is said above")
}
