//! `webstone completions`: a completion script for a shell.

use clap_complete::Shell;

use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::command(), "webstone", &mut script);
    console::print_as_is(&script)?;
    Ok(Exit::Done)
}
