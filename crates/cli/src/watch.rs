//! `--watch`: a run that was started in a terminal, watched in a browser. The run writes its events where every front
//! for the same directory of runs looks for them, and starts a front.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use webstone_store::{clock, redaction};
use webstone_ui::Process;
use webstone_ui::registry::{Entry, Place};

use crate::console::Console;
use crate::events::EventLines;
use crate::failure::Failure;

/// The run to be started.
#[derive(Debug)]
pub(crate) struct Announcement<'a> {
    pub(crate) command: &'a str,
    pub(crate) name: &'a str,
    pub(crate) command_line: &'a [String],
}

impl Announcement<'_> {
    /// Announces it to fronts, starts one, and prints its address. Returns the writer of events, and the file with
    /// the number of pages that watch.
    pub(crate) fn begin(&self, runs_dir: &Path, console: &Console) -> Result<(EventLines, PathBuf), Failure> {
        let runs_dir =
            std::path::absolute(runs_dir).map_err(|error| Failure::file("find", runs_dir, &error))?;
        let own = Process::own().map_err(|error| Failure::failed(format!("--watch: {error}")))?;
        let entry = Entry {
            command: self.command.to_owned(),
            name: self.name.to_owned(),
            command_line: redaction::command_line(self.command_line),
            started: clock::rfc3339(SystemTime::now()),
            in_terminal: true,
            process: Some(own),
        };
        let place =
            Place::create(&runs_dir, &entry).map_err(|error| Failure::file("write to", &runs_dir, &error))?;
        let address = front(&runs_dir).map_err(|error| {
            Failure::failed(format!("--watch: the front does not start: {error}"))
                .hint("start `webstone ui` yourself, with the same --runs-dir; it finds the run")
        })?;
        console.note(format!("watch: {address}"));
        let events = EventLines::open(&place.events().to_string_lossy())?;
        Ok((events, place.watched_by()))
    }
}

/// Starts a front in its own process group, so that Ctrl-C only reaches the run; returns its address.
fn front(runs_dir: &Path) -> std::io::Result<String> {
    let mut front = Command::new(std::env::current_exe()?);
    front.args(["--quiet", "ui", "--until-idle", "--runs-dir"]).arg(runs_dir);
    let front = front.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = front.spawn()?;
    let mut address = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut address)?;
    }
    match address.trim() {
        "" => Err(std::io::Error::other("it printed no address")),
        address => Ok(address.to_owned()),
    }
}
