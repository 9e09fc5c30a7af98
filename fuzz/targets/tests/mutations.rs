//! Every target on its corpus and on seeded mutations of it, with any compiler.
//!
//! A few thousand inputs per target by default; `cargo xtask fuzz` runs more. `WEBSTONE_FUZZ_RUNS`, `WEBSTONE_FUZZ_SEED`
//! and `WEBSTONE_FUZZ_TARGET` set the number of inputs, the seed, and the only target to run. A panic or a hang fails
//! the test and leaves the input in `fuzz/artifacts/<target>/`.
#![expect(clippy::unwrap_used, reason = "all of this file is a test; its helper functions panic for it")]

use std::fs;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use webstone_fuzz::{Mutator, Target, target};

const RUNS: u64 = 2_000;
const SEED: u64 = 1995;
/// No input of these sizes takes a tenth of this, even on a machine busy with other tests.
const HANG: Duration = Duration::from_secs(30);

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                fuzz(stringify!($name));
            }
        )*

        #[test]
        fn every_target_runs() {
            let here = [$(stringify!($name)),*];
            let listed: Vec<&str> = webstone_fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here.as_slice(), listed);
        }
    };
}

targets! {
    response h2 h3 tls quic filelist workload_toml access_log record duel histogram specification values archive manifest signature agent testbed
}

/// A defect in a target is seen: the runner itself must be able to fail.
#[test]
fn a_panic_is_seen_and_its_input_kept() {
    fn breaks(data: &[u8]) {
        assert!(data.first() != Some(&b'!'), "exclamation");
    }
    let broken = Target { name: "self_test", bytes_max: 8, cost: 1, run: breaks };
    assert!(attempt(&broken, b"fine").is_ok());
    let path = attempt(&broken, b"!").unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"!");
    fs::remove_file(path).unwrap();
}

fn fuzz(name: &str) {
    if std::env::var("WEBSTONE_FUZZ_TARGET").is_ok_and(|only| only != name) {
        return;
    }
    let target = target(name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} is empty");
    let asked = number("WEBSTONE_FUZZ_RUNS", RUNS);
    let (runs, seed) = (asked / target.cost, number("WEBSTONE_FUZZ_SEED", SEED));

    // The inputs run in a thread of their own, so that one which never returns is noticed. It cannot be ended then,
    // which is why it is not scoped; the test program ends it.
    let current = Arc::new(Mutex::new(Vec::new()));
    let (progress, watched) = channel();
    let running = Arc::clone(&current);
    std::thread::spawn(move || {
        let mut mutator = Mutator::new(seed);
        let mutations = (0..runs).map(|_| mutator.next(&corpus, target.bytes_max));
        for input in corpus.iter().cloned().chain(mutations) {
            running.lock().unwrap().clone_from(&input);
            let outcome = attempt(target, &input);
            let failed = outcome.is_err();
            if progress.send(outcome).is_err() || failed {
                return;
            }
        }
    });
    let mut done = 0;
    loop {
        let path = match watched.recv_timeout(HANG) {
            Ok(Ok(())) => {
                done += 1;
                continue;
            }
            Ok(Err(path)) => path,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let path = keep(name, &current.lock().unwrap());
                panic!("target {name} took more than {HANG:?} for the input {}", path.display());
            }
        };
        let again = format!("cargo xtask fuzz --target {name} --seed {seed} --runs {asked}");
        panic!("target {name} failed for the input {}\nhint: {again}", path.display());
    }
    assert!(done > runs, "only {done} inputs of {runs} and the corpus");
}

/// Runs one input; if it panics, the error is the file that keeps the input.
fn attempt(target: &Target, input: &[u8]) -> Result<(), PathBuf> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|_| keep(target.name, input))
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = root().join("artifacts").join(name);
    fs::create_dir_all(&folder).unwrap();
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let path = folder.join(format!("{hash:016x}"));
    fs::write(&path, input).unwrap();
    path
}

/// The inputs that somebody named, and those that searches with coverage found.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(root().join("corpus").join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    // A target that was never searched has found nothing.
    let Ok(found) = fs::File::open(root().join("found").join(format!("{name}.tar.gz"))) else {
        return inputs;
    };
    for entry in tar::Archive::new(flate2::read::GzDecoder::new(found)).entries().unwrap() {
        let mut input = Vec::new();
        entry.unwrap().read_to_end(&mut input).unwrap();
        inputs.push(input);
    }
    inputs
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}
