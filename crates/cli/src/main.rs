//! The program `webstone`. Everything is in the library.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    webstone::main(&arguments)
}
