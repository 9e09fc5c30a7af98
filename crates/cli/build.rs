//! Tells the program which commit it is built from, where that is known: a source archive has none, and that is fine.

use std::process::Command;

/// What the program is built from, seen from here.
const SOURCES: [&str; 4] = ["../../Cargo.toml", "../../Cargo.lock", "../../crates", "../../docs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(mut commit) => {
            // A commit does not tell what was built from sources that it lacks, new files among them. The suffix is the
            // model's `MODIFIED`.
            let status = ["--no-optional-locks", "status", "--porcelain", "--"];
            if git(&[&status[..], &SOURCES].concat()).is_some() {
                commit += "-modified";
            }
            println!("cargo::rustc-env=WEBSTONE_COMMIT={commit}");
            println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version} ({commit})");
        }
        None => println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version}"),
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // The log of HEAD grows with every commit and checkout. Naming a file that does not exist would make every
    // build start anew, so it is named only if it is there.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
