//! `cargo xtask kubernetes`: the tests in `crates/cli/tests/cli/cluster.rs`, on a Kubernetes cluster of one node. Not part of
//! continuous integration: it needs root, Go and minutes.
//!
//! Scripts (`xtask/kubernetes`) run the cluster, so that a trap stops it however they end.

use std::process::Command;

use crate::packages;
use crate::steps::{Outcome, failure, run};
use crate::tree::root;

/// Builds what is missing, and runs the tests.
pub fn test(arguments: &[String]) -> Outcome {
    let missing = packages::ensure_cluster();
    if !missing.is_empty() {
        return Err(failure(format!("missing: {}", missing.join(", ")), "install what is named above"));
    }
    let mut tests = Command::new(root().join("xtask/kubernetes/test.sh"));
    tests.args(arguments);
    run(tests, "read what it says above")
}
