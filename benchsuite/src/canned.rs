//! The canned server as this program starts it: its own second binary, in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::children::{Cpus, Group};
use crate::modes::Mode;

/// A running canned server; it ends with this value.
#[derive(Debug)]
pub struct Canned {
    _process: Group,
    base_url: String,
}

impl Canned {
    /// Starts one with the answer that the mode asks for.
    ///
    /// # Errors
    /// If it cannot be started or tells no address.
    pub fn start(program: &Path, mode: Mode, cpus: &Cpus) -> Result<Canned, String> {
        let (path, bytes) = mode.file().ok_or("a canned server has one answer")?;
        let mut command = vec![program.display().to_string()];
        command.extend(["--path", path, "--body", &bytes.to_string()].map(str::to_owned));
        if !mode.keeps_alive() {
            command.push("--close".to_owned());
        }
        let on = if mode.shares_cpus() { cpus.both() } else { cpus.server.map(|cpu| cpu.to_string()) };
        if let Some(on) = on {
            command.extend(["--cpus".to_owned(), on]);
        }
        let mut process = Group::start(&command, None, Stdio::piped())?;
        let mut line = String::new();
        if let Some(output) = process.process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|error| format!("webstone-canned: {error}"))?;
        }
        if !line.starts_with("http://") {
            return Err(format!("webstone-canned told no address but `{}`", line.trim()));
        }
        Ok(Canned { _process: process, base_url: line.trim().to_owned() })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}
