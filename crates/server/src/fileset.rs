//! The files that are served when no directory is named: the workload's own, made from their names alone.
//!
//! Content is a function of path and offset, so a file needs no memory until it is asked for, and the client can check
//! every byte without having the file.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::SystemTime;

use bytes::Bytes;

/// Writes the content of the file `path` from `offset` on into the buffer, all of it.
pub type Fill = fn(path: &str, offset: u64, out: &mut [u8]);

/// A set of files that exist by rule: path, size and the function that makes their content.
#[derive(Debug)]
pub struct Fileset {
    entries: HashMap<Box<str>, GeneratedFile>,
    fill: Fill,
    /// Last-Modified of every file: the moment when the set was made.
    pub(crate) modified: SystemTime,
}

/// One file of the set.
#[derive(Debug)]
pub(crate) struct GeneratedFile {
    pub(crate) size: u64,
    /// Content, once it was made and where it is kept; all threads share it.
    pub(crate) content: OnceLock<Bytes>,
}

impl Fileset {
    /// The files `(path, size in bytes)`. A path starts with `/` and has no query; it is matched as it is written and,
    /// failing that, percent-decoded. Of two entries with one path the later counts.
    pub fn from_entries(entries: Vec<(String, u64)>, fill: Fill) -> Fileset {
        let file = |(path, size): (String, u64)| {
            (path.into_boxed_str(), GeneratedFile { size, content: OnceLock::new() })
        };
        Fileset { entries: entries.into_iter().map(file).collect(), fill, modified: SystemTime::now() }
    }

    /// No files at all: for a server that only answers from its handlers.
    pub fn empty() -> Fileset {
        Fileset::from_entries(Vec::new(), |_, _, _| {})
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of a path, with the path as the set has it.
    pub(crate) fn find(&self, path: &str) -> Option<(&str, &GeneratedFile)> {
        self.entries.get_key_value(path).map(|(path, file)| (&**path, file))
    }

    /// Makes `out.len()` bytes of a file's content.
    pub(crate) fn fill(&self, path: &str, offset: u64, out: &mut [u8]) {
        (self.fill)(path, offset, out);
    }
}
