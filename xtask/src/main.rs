//! `cargo xtask`: what is done to the repository rather than by the program. Tests with their set-up, house rules,
//! generated files, and the whole of continuous integration, all by the same functions that `.ci/run` calls.

mod fuzzing;
mod instructions;
mod kubernetes;
mod packages;
mod release;
mod rules;
mod soundness;
mod source;
mod steps;
mod tally;
mod tree;

use std::process::ExitCode;

use steps::{Outcome, Step, timed};

const HELP: &str = "\
usage: cargo xtask <command>

  test [--ci] [--no-install]   install the servers and load generators that tests run against (as root, by apt-get,
                               only what is missing), then run every test with nextest; --ci demands that Cargo.lock is in
                               step
  check                        the house rules
  lint                         formatting, lints, documentation, house rules, dependencies
  docs                         write the generated files again: command line reference, schema
  fuzz [--runs N] [--seed N] [--target NAME]
                               replay the fuzz corpus and N mutations of it for each target
  fuzz --minutes N [--target NAME] [--keep]
                               search each target for N minutes under libFuzzer, with coverage (needs a nightly compiler and
                               cargo-fuzz); --keep adds to fuzz/corpus what reaches further
  instructions [--update]      count instructions of the engine's operations under callgrind and compare with the baseline
                               in benchsuite/instructions.toml; --update overwrites it
  sanitize                     the engine's tests under AddressSanitizer and LeakSanitizer
  soak [--minutes N]           full rate with every fault injected; fails if memory, descriptors, threads or connections
                               leak, an identity breaks or an error comes from nowhere. One minute by default
  kubernetes [TEST]            load generators in pods of a real Kubernetes cluster of one node, which is built here with Go (once,
                               five minutes), started, tested (all tests, or those whose name contains TEST) and stopped again;
                               as root
  release [--target TRIPLE]… [--key FILE] [--no-build]
                               make what a release offers, in target/packages: static programs for x86-64 and aarch64 as .tar.gz,
                               .deb, .rpm, wheel and container image, bills of materials, check sums, signed with an OpenSSH key
                               (needs rustup; minutes); --no-build packs the programs that are there
  packages                     install each of them in a clean root without a network, and run a benchmark; as root
  site                         build the documents as a site with mdBook, in target/site
  msrv                         check that the workspace compiles with the oldest compiler that Cargo.toml allows (needs rustup)
  ci                           lint, fuzz, instructions, sanitize, test: what .ci/run does
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(c, rest)| (c.as_str(), rest));
    let outcome = match command {
        "test" => steps::tests(rest),
        "check" => steps::house_rules(),
        "lint" => lint(),
        "docs" => timed("generated files", steps::generated_files),
        "fuzz" if rest.iter().any(|argument| argument == "--minutes") => fuzzing::search(rest),
        "fuzz" => steps::fuzz(rest),
        "instructions" => instructions::count(rest),
        "sanitize" => soundness::sanitize(),
        "soak" => soundness::soak(rest),
        "kubernetes" => kubernetes::test(rest),
        "release" => release::script("build.sh", rest),
        "packages" => release::script("try.sh", rest),
        "site" => release::site(rest),
        "msrv" => timed("oldest compiler", steps::oldest_compiler),
        "ci" => ci(),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprintln!("error: `{unknown}` is not a command of xtask\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Every check that needs no test to run. All of them run, so that one look shows everything.
fn lint() -> Outcome {
    let steps: [Step; 5] = [
        ("house rules", steps::house_rules),
        ("formatting", steps::formatting),
        ("lints", steps::lints),
        ("documentation", steps::documentation),
        ("dependencies", steps::dependencies),
    ];
    let mut first = Ok(());
    for (name, step) in steps {
        if let Err(failure) = timed(name, step) {
            eprintln!("error: {failure}");
            first = first.and(Err(failure));
        }
    }
    first
}

fn ci() -> Outcome {
    lint()?;
    timed("fuzz", || steps::fuzz(&[]))?;
    timed("instructions", || instructions::count(&[]))?;
    timed("sanitize", soundness::sanitize)?;
    timed("tests", || steps::tests(&["--ci".to_owned()]))
}
