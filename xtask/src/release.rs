//! `cargo xtask release`, `packages` and `site`: what people install and read, and whether it works. Not part of continuous
//! integration: programs optimised as a whole take minutes to compile, and a clean root needs an administrator.
//!
//! Scripts (`xtask/release`) do it, as nearly all of it is done by other programs.

use std::process::Command;

use crate::packages;
use crate::steps::{Outcome, failure, run};
use crate::tree::root;

/// Runs one of the scripts, when the programs that it needs are there.
pub fn script(name: &str, arguments: &[String]) -> Outcome {
    let missing = packages::ensure_for_release();
    if !missing.is_empty() {
        return Err(failure(format!("missing: {}", missing.join(", ")), "install what is named above"));
    }
    start(name, arguments)
}

/// Builds the site, which needs less.
pub fn site(arguments: &[String]) -> Outcome {
    packages::ensure_one("pip3");
    start("site.sh", arguments)
}

fn start(name: &str, arguments: &[String]) -> Outcome {
    let mut command = Command::new(root().join("xtask/release").join(name));
    command.args(arguments);
    run(command, "read what it says above")
}
