//! Failures of commands, and how commands end: messages for people, exit codes for scripts.

use std::fmt;
use std::path::Path;

use webstone_measure::shown::{indented, lines};
use webstone_store::library::LibraryError;
use webstone_store::{StoreError, redaction, without_number};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// webstone could not do what was requested: a file, a port, a system call; or a command that looks for problems
    /// has found some.
    Failed,
    /// The command line, or a file given there, does not say what to do.
    Usage,
    /// A threshold or a condition of `--fail-if` failed.
    Gate,
    /// The run ended as planned, but its figures cannot be trusted.
    Invalid,
    /// A run rule is not met, so the run was not certified.
    Uncertified,
    /// Whether a condition holds could not be told in the time given.
    Untold,
    /// A record was changed, or contradicts itself.
    Unverified,
    /// Ended by a signal with this number; what was measured before is kept.
    Signal(u8),
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Gate => 3,
            Exit::Invalid => 4,
            Exit::Uncertified | Exit::Untold => 5,
            Exit::Unverified => 6,
            // 128 + the signal's number, as in shells.
            Exit::Signal(number) => 128_u8.saturating_add(number),
        }
    }
}

/// Why a command could not do what was requested: one sentence with the option or file, the value and the rule, and
/// the remedy if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The sentence.
    pub message: String,
    /// The remedy, printed on a line of its own.
    pub hint: Option<String>,
}

impl Failure {
    /// The command line, or a file given there, is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// webstone could not do it.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, message: message.into(), hint: None }
    }

    /// A message that may have its remedy after `\nhint: `, as in errors of the other crates.
    pub fn from_message(exit: Exit, text: &str) -> Failure {
        match text.split_once("\nhint: ") {
            Some((message, hint)) => {
                Failure { exit, message: message.to_owned(), hint: Some(hint.trim_end().to_owned()) }
            }
            None => Failure { exit, message: text.trim_end().to_owned(), hint: None },
        }
    }

    /// A file that could not be read or written: `verb` says which, such as "read".
    pub fn file(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
        let failure = Failure::failed(format!("cannot {verb} {}: {}", path.display(), without_number(error)));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                failure.hint("change the permissions, or name a place that you may use")
            }
            std::io::ErrorKind::NotADirectory => {
                failure.hint("part of this path is a file where a directory is needed")
            }
            std::io::ErrorKind::StorageFull => failure.hint("free some space, or name another disk"),
            _ => failure,
        }
    }

    /// The same with a remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A file name or a server's words in it cannot begin a line.
        write!(f, "error: {}", harmless(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {}", harmless(hint)),
            None => Ok(()),
        }
    }
}

fn harmless(text: &str) -> String {
    indented(&lines(&redaction::message(text), |_| 0)).replace("\nhint: ", "\n  hint: ")
}

impl std::error::Error for Failure {}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure { hint: error.hint().map(str::to_owned), ..Failure::failed(error.to_string()) }
    }
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Failure {
        Failure { hint: error.hint().map(str::to_owned), ..Failure::failed(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_the_help_states() {
        let codes = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Gate,
            Exit::Invalid,
            Exit::Uncertified,
            Exit::Unverified,
        ];
        assert_eq!(codes.map(Exit::code), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!([Exit::Signal(2), Exit::Signal(15)].map(Exit::code), [130, 143]);
    }

    #[test]
    fn a_hint_has_a_line_of_its_own() {
        let failure = Failure::from_message(Exit::Failed, "it broke\nhint: mend it");
        assert_eq!(failure.to_string(), "error: it broke\nhint: mend it");
        assert_eq!(Failure::usage("no").to_string(), "error: no");
    }

    #[test]
    fn a_file_error_speaks_without_numbers() {
        let error = std::io::Error::from_raw_os_error(13);
        assert_eq!(
            Failure::file("write", Path::new("/x"), &error).to_string(),
            "error: cannot write /x: Permission denied\nhint: change the permissions, or name a place that you may use"
        );
    }
}
