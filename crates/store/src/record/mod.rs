//! The result store: one directory per run, readable forever and by other tools.
//!
//! ```text
//! runs/20260131T123005Z-webstone/
//!   record.json        the run, whole, without what outgrows JSON (model::record::RunRecord)
//!   histograms.hlog    every distribution, HdrHistogram log format 1.3, tags clients=…;iteration=…;kind=…[;page=…]
//!   intervals.ndjson   the seconds, one JSON object each of each iteration
//!   pages.csv          what each page did over the whole run
//!   page-rows.csv.gz   what each page did in each iteration
//!   environment.json   facts about the machine
//!   figures.json       every figure and the verdict, as the program that measured computed them
//!   report.html        the report for a browser
//!   MANIFEST.sha256    check sums, as `sha256sum -c` reads them
//!   certificate.json   the run rules, each met or not (written by `webstone certify`)
//!   MANIFEST.sha256.sig  OpenSSH's signature of the manifest, as `ssh-keygen -Y verify` reads it
//! ```
//!
//! Reports are made from the first five alone, and only reports that list iterations page by page read the last of these. `figures.json`
//! and `report.html` can be compared with what the five files give.
//!
//! During a run the name of its directory ends in `.partial`, `record.json` holds no iterations, and each one is
//! appended to `iterations.ndjson` as it ends: rewriting a growing `record.json` after each of 1,000 levels would cost
//! the square of their number. An iteration is stored when its line there is: histograms, intervals and rows of pages are
//! appended and synced before it, and a reader ignores what belongs to no stored iteration. So a run that is killed, or whose
//! disk fills up, keeps every iteration that had ended. At the end `record.json` is replaced by the whole record,
//! `iterations.ndjson` is removed, and the directory gets its final name.
//!
//! What is stored and no longer needed in memory is freed: rows and distributions of single pages.

mod append;
mod hlog;
pub(crate) mod manifest;
mod pages;
mod read;
mod reopen;
mod steps;
mod write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use webstone_model::pages::PageRowsError;

use crate::duel::{DUEL, SLICES};
use crate::plain_file::{self, Links};

pub use append::{replace, sync_directory};
pub use manifest::{Damage, Integrity};
pub use write::{Store, directory_name};
pub(crate) use write::{held, reserve};

/// The whole run, without what is too large for JSON.
pub const RECORD: &str = "record.json";
const HISTOGRAMS: &str = "histograms.hlog";
const INTERVALS: &str = "intervals.ndjson";
/// What each page did over the whole run.
pub const PAGES: &str = "pages.csv";
/// What each page did in each iteration.
pub const PAGE_ROWS: &str = "page-rows.csv.gz";
pub(crate) const ITERATIONS: &str = "iterations.ndjson";
/// Facts about the machine.
pub const ENVIRONMENT: &str = "environment.json";
/// The figures as they were computed when the run ended.
pub const FIGURES: &str = "figures.json";
/// The record checked against the run rules.
pub const CERTIFICATE: &str = "certificate.json";
/// Check sums of all the others.
pub const MANIFEST: &str = "MANIFEST.sha256";
/// The signature over the former.
pub const SIGNATURE: &str = "MANIFEST.sha256.sig";
/// Ending of a directory's name until its run has ended.
pub(crate) const PARTIAL: &str = ".partial";

/// Bytes of a line of `iterations.ndjson`: 100 to 200 for each client.
const ITERATION_LINE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of any other line; a distribution of every bucket there is takes some 400,000.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The report for a browser, as the program that measured made it.
pub const REPORT: &str = "report.html";

/// A file that is computed from a record and kept beside it: [`FIGURES`] or [`REPORT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Its name.
    pub name: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Maximum size of a record's file that is read as a whole, in bytes; `u64::MAX` for those read piece by piece.
pub fn bytes_max(name: &str) -> u64 {
    match name {
        RECORD => 1 << 30,
        ENVIRONMENT => 64 << 20,
        FIGURES | REPORT | DUEL | SLICES => 256 << 20,
        HISTOGRAMS | INTERVALS | PAGES | PAGE_ROWS | ITERATIONS => u64::MAX,
        _ => 16 << 20,
    }
}

/// Reads a file of a record as a whole. `directory` is the record's own.
///
/// # Errors
/// As [`plain_file::read`]: what is not a plain file is refused, and so is what is larger than such a file can be.
pub fn read_file(directory: &Path, name: &str) -> io::Result<Vec<u8>> {
    plain_file::read(&directory.join(name), Links::Refused, bytes_max(name))
}

/// Opens a file of a record to read it to its end, piece by piece.
///
/// # Errors
/// As [`plain_file::open_dense`]: also what is larger than a file of that name can be, or has a hole, is refused.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    plain_file::open_dense(path, Links::Refused, bytes_max(&name))
}

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {doing} {path}: {}", without_number(source))]
    Io {
        /// What was tried, as a verb: "write".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{file}:{line}: {what}")]
    Content {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A newer program wrote the record.
    #[error("{file}: the record has schema {found}; this version of webstone reads schemas up to {known}")]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest that can be read.
        known: u32,
    },
    /// The rows of pages cannot be read.
    #[error(transparent)]
    PageRows(#[from] PageRowsError),
    /// The path is not a record.
    #[error("{path} is not a record: it is {}", of_no_record(.path))]
    NoRecord {
        /// The path.
        path: PathBuf,
    },
}

impl StoreError {
    /// What to do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::Io { source, doing, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    Some("free some space, or name a directory on another disk: --runs-dir DIR")
                }
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    Some("a file is in the way: name another directory with --runs-dir DIR")
                }
                _ if *doing == "read" => None,
                _ => Some("name a directory that you may write to: --runs-dir DIR"),
            },
            StoreError::Content { .. } | StoreError::PageRows(_) => {
                Some("the file was changed or damaged; `sha256sum -c MANIFEST.sha256` shows which one")
            }
            StoreError::Newer { .. } => Some("read it with the version that wrote it, or a later one"),
            StoreError::NoRecord { .. } => Some("give a directory below runs/, or its record.json"),
        }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { doing, path: path.to_owned(), source }
    }

    fn content(file: &Path, line: u64, what: impl Into<String>) -> StoreError {
        StoreError::Content { file: file.to_owned(), line, what: what.into() }
    }
}

/// Describes a path that is not a record.
fn of_no_record(path: &Path) -> String {
    match path.is_dir() {
        true => format!("a directory without {RECORD}"),
        false => format!("a file, and a record is a directory with {RECORD}"),
    }
}

/// The operating system's words without its number: "No space left on device".
pub fn without_number(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;
