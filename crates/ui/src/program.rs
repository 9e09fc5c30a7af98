//! What the program itself does with a stored run: `verify`, `archive`, `certify`. These are commands of the command line, run without a
//! shell.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

/// What a command printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Printed {
    /// Whether it ended well.
    pub(crate) ok: bool,
    /// Its exit code; absent where a signal ended it.
    pub(crate) code: Option<i32>,
    /// Line by line.
    pub(crate) lines: Vec<String>,
}

/// Runs `PROGRAM COMMAND PATH…` and waits for it.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run(program: &Path, command: &str, path: &Path) -> io::Result<Printed> {
    let mut run = Command::new(program);
    run.args(["--color", "never", command]).stdin(Stdio::null());
    if command == "archive" {
        // A page does not know where the front was started, so the command prints the whole path.
        let mut file = path.file_name().unwrap_or_default().to_owned();
        file.push(".tar.gz");
        run.arg("--output").arg(std::env::current_dir()?.join(file));
    }
    run.arg("--").arg(path);
    let done = run.output()?;
    let text = [done.stdout, done.stderr].concat();
    let lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    Ok(Printed { ok: done.status.success(), code: done.status.code(), lines })
}
