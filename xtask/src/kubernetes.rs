//! `cargo xtask kubernetes`: the tests in `crates/cli/tests/cli/cluster.rs`, on a Kubernetes cluster of one node that is built, started
//! and stopped here. Not part of continuous integration: it needs root, Go and minutes.
//!
//! The scripts beside this (`xtask/kubernetes`) run the cluster, so that a trap stops it whatever ends this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages;
use crate::steps::{Outcome, cargo, failure, run, timed};
use crate::tree::root;

/// What runs in containers: from scratch, so nothing may be linked dynamically.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The image of the tests.
const IMAGE: &str = "docker.io/library/webstone:test";

/// Builds what is missing, and runs the tests.
pub fn test(arguments: &[String]) -> Outcome {
    let (filter, others) =
        arguments.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    if filter.starts_with('-') || !others.is_empty() {
        let unknown = others.first().map_or(filter, String::as_str);
        return Err(failure(
            format!("`{unknown}` is not an argument of kubernetes"),
            "part of a test's name, or nothing for all tests",
        ));
    }
    if !packages::is_root() {
        return Err(failure(
            "a cluster's containers and bridge need root",
            "sudo --preserve-env=PATH cargo xtask kubernetes",
        ));
    }
    let missing = packages::ensure_cluster();
    if !missing.is_empty() {
        return Err(failure(format!("missing: {}", missing.join(", ")), "install what is named above"));
    }
    if packages::find("go").is_none() {
        return Err(failure(
            "Kubernetes is built with Go, which is not installed",
            "https://go.dev/dl/, 1.23 or later",
        ));
    }
    let dir = root().join("target/kubernetes");
    timed("Kubernetes", || run(script("build.sh", &dir), "see what go says above"))?;
    let program = root().join("target").join(TARGET).join("release/webstone");
    timed("webstone for containers", || build(&program, &dir))?;
    // Before the cluster is there, so that it is there for as short as may be.
    run(cargo(&["test", "--package", "webstone", "--test", "cli", "--no-run"]), "read what it says above")?;
    timed("tests", || {
        let mut tests = script("with.sh", &dir);
        let cargo = cargo(&[]).get_program().to_owned();
        tests.arg(cargo).args([
            "test",
            "--package",
            "webstone",
            "--test",
            "cli",
            "--",
            "--ignored",
            "--nocapture",
        ]);
        // One after another: they have one node, and one of them ends its API server.
        tests.args(["--test-threads", "1"]).arg(format!("cluster::{filter}"));
        tests.env("WEBSTONE_CLUSTER", &dir);
        tests.env("WEBSTONE_CLUSTER_PROGRAM", &program);
        tests.env("WEBSTONE_CLUSTER_UP", scripts().join("up.sh"));
        run(tests, &format!("what the cluster's programs said is in {}/*.log", dir.display()))
    })
}

fn scripts() -> PathBuf {
    root().join("xtask/kubernetes")
}

fn script(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(scripts().join(name));
    command.arg(dir).current_dir(root());
    command
}

/// The program, linked statically, and its image.
fn build(program: &Path, dir: &Path) -> Outcome {
    let installed =
        Command::new("rustup").args(["target", "list", "--installed"]).stderr(Stdio::null()).output();
    let is_there = installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(TARGET));
    if !is_there {
        let mut add = Command::new("rustup");
        add.args(["target", "add", TARGET]);
        run(add, "install Rust's standard library for it as this system does")?;
    }
    run(
        cargo(&["build", "--release", "--target", TARGET, "--package", "webstone", "--bin", "webstone"]),
        "read what it says above",
    )?;
    let mut image = Command::new("python3");
    image.arg(scripts().join("image.py")).arg(IMAGE).arg(program).arg(dir.join("webstone.tar"));
    run(image, "read what it says above")
}
