//! Gives the program the commit that it is built from, if known: a source archive has none, which is fine.

use std::path::Path;
use std::process::Command;

/// The sources of the program, relative to this crate.
const SOURCES: [&str; 4] = ["../../Cargo.toml", "../../Cargo.lock", "../../crates", "../../docs"];
/// What cargo writes into a package: the commit that it was made from.
const PACKAGED: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match packaged_commit().or_else(checked_out_commit) {
        Some(commit) => {
            println!("cargo::rustc-env=WEBSTONE_COMMIT={commit}");
            println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version} ({commit})");
        }
        None => println!("cargo::rustc-env=WEBSTONE_VERSION_LINE={version}"),
    }
}

/// The commit of a package of crates.io. Cargo marks one that had uncommitted changes as dirty.
fn packaged_commit() -> Option<String> {
    let text = std::fs::read_to_string(PACKAGED).ok()?;
    let hash = text.split_once("\"sha1\": \"")?.1.get(..12)?;
    Some(if text.contains("\"dirty\": true") { format!("{hash}-modified") } else { hash.to_owned() })
}

/// The commit of this repository; not that of another one which the sources happen to lie in, as a home directory's.
fn checked_out_commit() -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--path-format=absolute", "--show-toplevel"])?) != root {
        return None;
    }
    let mut commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // A commit does not describe a build from sources with uncommitted changes, including new files. The suffix is the
    // model's `MODIFIED`.
    let status = ["--no-optional-locks", "status", "--porcelain", "--"];
    if git(&[&status[..], &SOURCES].concat()).is_some() {
        commit += "-modified";
    }
    // The log of HEAD grows with every commit and checkout. Cargo would rebuild every time for a file that does not
    // exist, so files are named only if they do.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    for path in SOURCES.into_iter().map(str::to_owned).chain(log).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    Some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
