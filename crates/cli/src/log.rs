//! The log for finding out why something failed: what was decided, started and waited for. Off unless `--log` or
//! `WEBSTONE_LOG` is given; without them there is no subscriber, so that an event costs one comparison.
//!
//! Directives are `RUST_LOG`'s, without patterns on fields (`Targets`): the filter with patterns would bring a second
//! regular expression engine. Every line is redacted like a record before it is written.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use webstone_measure::shown::lines;
use webstone_store::redaction;

use crate::failure::Failure;

/// The variable that holds the directives.
const DIRECTIVES: &str = "WEBSTONE_LOG";
/// What `--log` writes if the variable is not set: everything of webstone's own crates.
const EVERYTHING: &str = "webstone=debug";

/// Starts the log, if requested.
///
/// # Errors
/// If the directives cannot be parsed, or the file cannot be written.
pub(crate) fn start(file: Option<&Path>) -> Result<(), Failure> {
    let asked = std::env::var(DIRECTIVES).ok().filter(|text| !text.trim().is_empty());
    let directives = match (&asked, file) {
        (None, None) => return Ok(()),
        (Some(text), _) => text.as_str(),
        (None, Some(_)) => EVERYTHING,
    };
    let targets: Targets = directives.parse().map_err(|error| {
        Failure::usage(format!("{DIRECTIVES}: `{directives}` is not a list of directives: {error}")).hint(
            format!(
                "write a level, or targets with levels: {DIRECTIVES}=info, {DIRECTIVES}=webstone_lab=debug"
            ),
        )
    })?;
    let out: Box<dyn Write + Send> = match file {
        Some(path) => {
            Box::new(File::create(path).map_err(|error| Failure::file("write the log to", path, &error))?)
        }
        None => Box::new(io::stderr()),
    };
    let layer =
        tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Mutex::new(WithoutSecrets(out)));
    // A program that uses this library may have its own subscriber, which then gets the events.
    let _ = tracing_subscriber::registry().with(targets).with(layer).try_init();
    Ok(())
}

/// Removes from each line secrets and everything that controls a terminal. An event is written in one piece.
struct WithoutSecrets<W>(W);

impl<W: Write> Write for WithoutSecrets<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = redaction::text(&String::from_utf8_lossy(event)).text;
        self.0.write_all(lines(&text, |_| 0).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_written_without_secrets_and_commands_no_terminal() {
        let mut out = WithoutSecrets(Vec::new());
        let event =
            "INFO started words=[\"curl\", \"http://ann:hunter2-x@host/?token=hunter2-y\"] \u{1b}[2J\n";
        out.write_all(event.as_bytes()).unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert!(text.starts_with("INFO started") && text.ends_with('\n'), "{text}");
        assert!(!text.contains("hunter2") && !text.contains('\u{1b}'), "{text}");
    }
}
