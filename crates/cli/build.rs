//! Gives the program the commit that it is built from, if known: a source archive has none, which is fine.

use std::process::Command;

/// The sources of the program, relative to this crate.
const SOURCES: [&str; 4] = ["../../Cargo.toml", "../../Cargo.lock", "../../crates", "../../docs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(mut commit) => {
            // A commit does not describe a build from sources with uncommitted changes, including new files. The
            // suffix is the model's `MODIFIED`.
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
    // The log of HEAD grows with every commit and checkout. Cargo would rebuild every time for a file that does not
    // exist, so it is named only if it does.
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
