//! The two output streams: what goes where, what a terminal is, and what happens when nobody listens any more.
//!
//! Standard output carries what was asked for and nothing else; everything said about it goes to standard error. A
//! reader that went away (`| head`) is not an error: the program goes on in silence.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use webstone_measure::shown::{indented, lines};
use webstone_report::{Charset, Format, Options};

use crate::args::ColorChoice;
use crate::failure::Failure;

/// Columns of a report that is not for a terminal.
const WIDTH_DEFAULT: usize = 80;
/// Widest report for a terminal, unless COLUMNS asks for more; longer lines are hard to follow with the eye.
const WIDTH_MAX: usize = 160;
/// Most that COLUMNS can ask for.
const COLUMNS_MAX: usize = 1000;

/// How to talk to whoever started the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    color: ColorChoice,
    quiet: bool,
}

impl Console {
    pub(crate) fn new(color: Option<ColorChoice>, quiet: bool) -> Console {
        Console { color: color.unwrap_or_default(), quiet }
    }

    /// Whether progress and notes are wanted.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Says something about what is being done, unless silence was asked for.
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

    /// How a report for standard output is drawn: as the terminal can show it, or plainly where it is none.
    pub(crate) fn report_options(&self, to_file: bool) -> Options {
        let terminal = !to_file && io::stdout().is_terminal();
        let own = || if terminal { width(io::stdout()).map(|width| width.min(WIDTH_MAX)) } else { None };
        Options {
            width: columns().or_else(own).unwrap_or(WIDTH_DEFAULT),
            color: self.colors(terminal),
            charset: if terminal && !speaks_utf8() { Charset::Ascii } else { Charset::Utf8 },
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

/// Writes a message to standard error, whatever becomes of it: there is nobody left to be told. What servers and files brought
/// along in it begins no line and commands no terminal.
pub(crate) fn complain(text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr(), "{}", indented(&lines(&text, |_| 0)));
}

/// Writes a failure to standard error that is not the command's last.
pub(crate) fn fail(failure: &Failure) {
    // It is harmless already, and its hint begins a line.
    let _ = writeln!(io::stderr(), "{failure}");
}

/// What the user asks for by `COLUMNS`, whatever the terminal says and where there is none.
pub(crate) fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| (1..=COLUMNS_MAX).contains(columns))
}

/// Columns of a terminal, where it is one.
pub(crate) fn width(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Refuses to send to a terminal what is no text.
pub(crate) fn can_be_shown(format: Format, file: Option<&Path>) -> Result<(), Failure> {
    if format.is_binary() && file.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "--format {format}: it is not text, and a terminal cannot show it"
        ))
        .hint(format!("write it to a file: -o report.{format}")));
    }
    Ok(())
}

/// A result that is written as it is made: into a file where one is named, to standard output otherwise. The file is not
/// touched before there is something to write.
pub(crate) struct Delivery<'a> {
    file: Option<&'a Path>,
    out: Option<BufWriter<Box<dyn Write>>>,
    failed: Option<io::Error>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn to(file: Option<&'a Path>) -> Delivery<'a> {
        Delivery { file, out: None, failed: None }
    }

    /// Writes some more; what fails is kept and told at the [end](Delivery::end).
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
    }

    /// Whether the stream took no more.
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Everything was written, or is not. A reader that went away is not an error.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        // Nothing at all is a result, too, and empties the file.
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

/// Writes a result: into a file where one is named, to standard output otherwise. Reports were made harmless where they were
/// made.
pub(crate) fn deliver(bytes: &[u8], file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(path) => std::fs::write(path, bytes).map_err(|error| Failure::file("write", path, &error)),
        None => print_as_is(bytes),
    }
}

/// Writes text to standard output: nothing in it commands a terminal. A reader that went away is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_as_is(lines(text, |_| 0).as_bytes())
}

/// Writes to standard output what was made harmless before, or is for a program.
pub(crate) fn print_as_is(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::file("write to", Path::new("standard output"), &error)),
        Ok(()) => Ok(()),
    }
}

/// Whether the locale shows more than ASCII. POSIX: the first of the three that is set and not empty.
fn speaks_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    // Without any locale the terminal's maker decides, and makers have decided for UTF-8.
    locale.is_none_or(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}
