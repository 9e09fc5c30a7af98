//! The log for those who have to find out why: what was decided and started, and what was waited for. Off unless `--log` or
//! `WEBSTONE_LOG` asks for it; a run without either has no subscriber, so that an event costs one comparison.
//!
//! Directives are `RUST_LOG`'s, without patterns on fields (`Targets`): the filter that knows patterns brings a second
//! engine of regular expressions. A line goes through the same redaction as a record before it is written anywhere.

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
/// What `--log` writes where the variable is not set: everything of webstone's own crates.
const EVERYTHING: &str = "webstone=debug";

/// Starts it, where it is asked for.
///
/// # Errors
/// If the directives cannot be read, or the file not be written.
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

/// Takes secrets out of each line, and whatever would command a terminal. An event is written in one piece.
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
