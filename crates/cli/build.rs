//! Tells the program which commit it is built from, where that is known: a source archive has none, and that is fine.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // A commit does not tell what was built from a tree with changes that it lacks. The suffix is the model's `MODIFIED`.
    match git(&["describe", "--always", "--exclude", "*", "--abbrev=12", "--dirty=-modified"]) {
        Some(commit) => {
            println!("cargo::rustc-env=WEBSTONE_COMMIT={commit}");
            println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version} ({commit})");
        }
        None => println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version}"),
    }
    for source in ["../../Cargo.toml", "../../Cargo.lock", "../../crates", "../../docs"] {
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
