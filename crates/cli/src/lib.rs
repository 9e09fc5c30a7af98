//! The command line of webstone: arguments ([`args`]), their meaning, commands, messages, exit codes, the live
//! display.
//!
//! This crate is glue, and the only one that prints or exits. It is a library so that the reference of the command
//! line, its manual pages and its completions are made from the definition itself.

pub mod args;
mod commands;
mod console;
mod curl;
mod defect;
mod display;
mod events;
pub mod failure;
mod flags;
mod intent;
mod log;
pub mod reference;
mod signals;
pub mod usage;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::console::Console;
use crate::failure::{Exit, Failure};
use crate::usage::Usage;

/// The whole program: parses, executes, reports, and returns the exit code.
pub fn main(arguments: &[OsString]) -> ExitCode {
    defect::explain();
    if let Some(exit) = commands::as_cgi(arguments) {
        return exit;
    }
    signals::survive_file_size_limit();
    let rewritten = match curl::command(arguments) {
        Ok(rewritten) => rewritten,
        Err(failure) => {
            console::complain(&failure);
            return ExitCode::from(failure.exit.code());
        }
    };
    let rewritten =
        rewritten.or_else(|| usage::help_command(arguments)).or_else(|| usage::hit_command(arguments));
    let arguments = rewritten.as_deref().unwrap_or(arguments);
    let result = match args::parse(arguments).map_err(|error| Usage::from_clap(error, arguments)) {
        Ok(cli) => {
            let console = Console::new(cli.color, cli.quiet);
            log::start(cli.log.as_deref()).and_then(|()| commands::execute(cli.command, arguments, &console))
        }
        Err(Usage::Print(text)) => {
            // A reader that has gone is not an error.
            let _ = text.print();
            Ok(Exit::Done)
        }
        Err(Usage::Wrong(failure)) => Err(failure),
    };
    let exit = result.unwrap_or_else(|failure: Failure| {
        console::complain(&failure);
        failure.exit
    });
    ExitCode::from(exit.code())
}
