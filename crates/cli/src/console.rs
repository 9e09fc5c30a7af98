//! The two output streams: what goes where, how a terminal is handled, and what happens when the reader has gone.
//!
//! Standard output has only what was requested; everything else goes to standard error. A reader that has gone (`|
//! head`) is not an error: the program continues silently.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use webstone_measure::shown::{indented, lines};
use webstone_report::{Charset, Format, Options};
use webstone_store::redaction;

use crate::args::ColorChoice;
use crate::failure::Failure;

/// Width of a report that is not for a terminal, in columns.
const WIDTH_DEFAULT: usize = 80;
/// Maximum width of a report for a terminal, unless COLUMNS says otherwise; longer lines are hard to read.
const WIDTH_MAX: usize = 160;
/// Maximum value of COLUMNS.
const COLUMNS_MAX: usize = 1000;

/// How to talk to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    color: ColorChoice,
    quiet: bool,
}

impl Console {
    pub(crate) fn new(color: Option<ColorChoice>, quiet: bool) -> Console {
        Console { color: color.unwrap_or_default(), quiet }
    }

    /// Whether progress and notes are suppressed.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a note about what is being done, unless --quiet was given.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            complain(text);
        }
    }

    /// Whether standard error shows a display that is redrawn.
    pub(crate) fn is_live(&self) -> bool {
        !self.quiet
            && io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// How to draw a report: as the terminal can show it, or plainly if standard output is not a terminal.
    pub(crate) fn report_options(&self, to_file: bool) -> Options {
        let terminal = !to_file && io::stdout().is_terminal();
        let own = || if terminal { width(io::stdout()).map(|width| width.min(WIDTH_MAX)) } else { None };
        Options {
            width: columns().or_else(own).unwrap_or(WIDTH_DEFAULT),
            color: self.colors(terminal),
            charset: if to_file || speaks_utf8() { Charset::Utf8 } else { Charset::Ascii },
            ..Options::default()
        }
    }

    fn colors(&self, terminal: bool) -> bool {
        // https://no-color.org: set and not empty.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !refused,
        }
    }
}

/// Writes a message to standard error. A failure is ignored: there is no other place to report it. Text from servers
/// and files in it can neither begin a line nor control the terminal, and nobody's password is in it.
pub(crate) fn complain(text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr(), "{}", indented(&lines(&redaction::message(&text), |_| 0)));
}

/// Writes a failure to standard error that does not end the command.
pub(crate) fn fail(failure: &Failure) {
    // Its text is already escaped; its hint begins a line on purpose.
    let _ = writeln!(io::stderr(), "{failure}");
}

/// The width in `COLUMNS`, which overrides the terminal's.
pub(crate) fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| (1..=COLUMNS_MAX).contains(columns))
}

/// The width of a terminal; `None` if the stream is not one.
pub(crate) fn width(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Refuses to send binary formats to a terminal.
pub(crate) fn can_be_shown(format: Format, file: Option<&Path>) -> Result<(), Failure> {
    if format.is_binary() && file.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "--format {format}: it is not text, and a terminal cannot show it"
        ))
        .hint(format!("write it to a file: -o report.{format}")));
    }
    Ok(())
}

/// A result that is written as it is made: to a file if one is given, otherwise to standard output. The file is not
/// changed before there is something to write.
pub(crate) struct Delivery<'a> {
    file: Option<&'a Path>,
    out: Option<BufWriter<Box<dyn Write>>>,
    failed: Option<io::Error>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn to(file: Option<&'a Path>) -> Delivery<'a> {
        Delivery { file, out: None, failed: None }
    }

    /// Writes more; an error is reported at the [end](Delivery::end).
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
    }

    /// Whether a write has failed.
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Flushes. A reader that has gone is not an error.
    ///
    /// # Errors
    /// The first failed write.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        // An empty result empties the file.
        let _ = self.write(&[]).and_then(|_| self.flush());
        match (&self.failed, self.file) {
            (None, _) => Ok(()),
            (Some(error), Some(path)) => Err(Failure::file("write", path, error)),
            (Some(error), None) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (Some(error), None) => Err(Failure::file("write to", Path::new("standard output"), error)),
        }
    }

    fn keep<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            let kept = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            self.failed.get_or_insert(kept);
        })
    }
}

impl Write for Delivery<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = &self.failed {
            return Err(error.kind().into());
        }
        if self.out.is_none() {
            let opened = match self.file {
                Some(path) => File::create(path).map(|file| Box::new(file) as Box<dyn Write>),
                None => Ok(Box::new(io::stdout()) as Box<dyn Write>),
            };
            let opened = self.keep(opened)?;
            self.out = Some(BufWriter::with_capacity(1 << 16, opened));
        }
        let written = self.out.as_mut().map_or(Ok(0), |out| out.write(bytes));
        self.keep(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.as_mut().map_or(Ok(()), |out| out.flush());
        self.keep(flushed)
    }
}

/// Writes a result to a file if one is given, otherwise to standard output. Reports escape their own text.
pub(crate) fn deliver(bytes: &[u8], file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(path) => std::fs::write(path, bytes).map_err(|error| Failure::file("write", path, &error)),
        None => print_as_is(bytes),
    }
}

/// Writes text to standard output, without anything that controls a terminal. A reader that has gone is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_as_is(lines(text, |_| 0).as_bytes())
}

/// Writes to standard output what is already escaped, or meant for a program.
pub(crate) fn print_as_is(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::file("write to", Path::new("standard output"), &error)),
        Ok(()) => Ok(()),
    }
}

/// Whether terminal and locale show more than ASCII. POSIX: the first of the three that is set and not empty; without any, the locale
/// is C.
pub(crate) fn speaks_utf8() -> bool {
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return false;
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}
