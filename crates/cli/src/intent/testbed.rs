//! The testbed file that was named, or a message about it.

use std::io::ErrorKind;
use std::path::Path;

use webstone_runner::check::{Testbed, TestbedError};

use crate::failure::{Exit, Failure};
use crate::usage::{BACKEND_GONE, split_remedy};

/// Reads a testbed file.
pub(super) fn read(path: &Path) -> Result<Testbed, Failure> {
    Testbed::read(path).map_err(|error| match error {
        TestbedError::Unreadable(error) => unreadable(path, &error),
        TestbedError::Gone { place } => {
            Failure::usage(format!("{place}: `backend` no longer exists")).hint(BACKEND_GONE)
        }
        TestbedError::Wrong { place, rule } => {
            let (rule, remedy) = split_remedy(&rule);
            Failure::usage(format!("{place}: {rule}"))
                .hint(remedy.unwrap_or("`webstone run --dump-spec` prints every key with its default"))
        }
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure { exit: Exit::Usage, ..Failure::file("read the testbed file", path, error) };
    match error.kind() {
        ErrorKind::NotFound => {
            failure.hint(format!("`webstone run --dump-spec > {}` writes one to begin with", path.display()))
        }
        ErrorKind::InvalidData => failure.hint("a testbed file is UTF-8 text in TOML"),
        ErrorKind::InvalidInput => failure.hint("save it to a file first, and name that"),
        _ => failure,
    }
}
