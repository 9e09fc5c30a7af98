//! Why a server could not be started or used, and what to do about it.

use std::time::Duration;

use super::Refusal;
use crate::fileset::{FilesetError, STATE_SIZE};

/// Why a server could not be put under test.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot be run as asked.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its files could not be written.
    #[error("the files for {server}: {source}")]
    Files {
        /// The server.
        server: &'static str,
        /// Why.
        source: FilesetError,
    },
    /// The operating system refused.
    #[error("cannot {doing} for {server}: {}", webstone_store::without_number(source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The server.
        server: &'static str,
        /// The answer.
        source: std::io::Error,
    },
    /// It ended before it answered.
    #[error("{server} ended before it answered: {how}{said}")]
    Ended {
        /// The server.
        server: &'static str,
        /// How it ended.
        how: String,
        /// What it said.
        said: String,
        /// What to do, if the command line was the user's own.
        by_hand: Option<String>,
    },
    /// It does not answer.
    #[error("{server} did not answer within {patience:?}{said}")]
    NotReady {
        /// The server.
        server: &'static str,
        /// How long it was waited for.
        patience: Duration,
        /// What it said.
        said: String,
        /// What to do, if the command line was the user's own.
        by_hand: Option<String>,
    },
}

impl ServerError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServerError::Refused(refusal) => Some(refusal.hint.clone()),
            ServerError::Files { source: FilesetError::NoSize { .. }, .. } => {
                Some(format!("{STATE_SIZE}, or serve files of your own with server.root"))
            }
            ServerError::Files { source, .. } => source.hint(),
            ServerError::Io { .. } => Some(
                "webstone writes the server's files to the directory for temporary files; set TMPDIR to use another"
                    .to_owned(),
            ),
            ServerError::Ended { by_hand: Some(line), .. }
            | ServerError::NotReady { by_hand: Some(line), .. } => Some(line.clone()),
            ServerError::Ended { server, .. } | ServerError::NotReady { server, .. } => Some(format!(
                "`webstone servers show {server}` prints its configuration; --server-program names another program"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_missing_has_a_remedy_that_a_run_has() {
        let source = FilesetError::NoSize { page: 1, url: "/b".to_owned() };
        assert!(source.hint().unwrap().contains("--default-size"), "of genfiles");
        let error = ServerError::Files { server: "nginx", source };
        let hint = error.hint().unwrap();
        assert!(hint.contains("`size = 500`") && hint.contains("server.root"), "{hint}");
        assert!(!hint.contains("--default-size"), "{hint}");
    }
}
