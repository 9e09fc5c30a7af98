//! A directory of runs as a library: a row for each run, series and duel ([`LibraryRow`]), searched with a [`Query`], with notes and
//! tags beside the records ([`Notes`]) and a trash ([`trash`]).
//!
//! The directories are the truth. `RUNS/.index.ndjson` caches the rows, each with size and times of its sources, and rows that no longer
//! match are made again; so opening ten thousand runs reads one file. A directory that cannot be read is a row that says why.
//!
//! ```text
//! runs/20260131T123005Z-webstone/              a run, as before
//! runs/20260131T123005Z-webstone.notes.toml    its notes: no file of the record, so that its signature stays valid
//! runs/.index.ndjson                           the rows; derived
//! runs/.trash/20260130T090000Z-webstone/       a run that was thrown away, with its notes beside it
//! ```

mod duel;
mod files;
mod history;
mod index;
mod noise;
mod notes;
mod query;
mod row;
#[cfg(test)]
mod tests;
pub mod trash;
mod written;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::debug;

pub use files::Listing;
pub use history::{Histories, History, HistoryMetric, HistoryRun};
pub use index::INDEX;
pub use notes::{Notes, NotesError, TAG_BYTES_MAX, TAGS_MAX, TEXT_BYTES_MAX};
pub use query::{Query, QueryError};
pub use row::{Kept, LevelNoise, LibraryRow, Peak, RowKind, SERIES};

use files::{Folder, Stamp};

/// Why an operation on the library failed.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {}", path.display(), crate::without_number(source))]
    Io {
        /// What was tried, as a verb: "read".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The name cannot be that of a run.
    #[error("`{name}` is not the name of a run: {rule}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// Notes break a rule, or cannot be read.
    #[error(transparent)]
    Notes(#[from] NotesError),
    /// What is in the way, or is not there.
    #[error("{what}")]
    Refused {
        /// What and why.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
}

impl LibraryError {
    /// What to do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LibraryError::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                Some("part of this path is a file where a directory is needed")
            }
            LibraryError::Io { doing: "read", .. } => None,
            LibraryError::Io { source, .. } if notes::is_full(source) => Some("free some space"),
            LibraryError::Io { .. } => Some("name a directory that you may write to"),
            LibraryError::Name { .. } => {
                Some("give the name of a directory below runs/, as `webstone list` prints it")
            }
            LibraryError::Notes(error) => error.hint(),
            LibraryError::Refused { hint, .. } => Some(hint),
        }
    }

    fn io(doing: &'static str, path: &Path, source: io::Error) -> LibraryError {
        LibraryError::Io { doing, path: path.to_owned(), source }
    }
}

/// Time between two writings of the index while rows are still unread.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// The runs, series and duels of a directory.
#[derive(Debug)]
pub struct Library {
    runs_dir: PathBuf,
    rows: Vec<LibraryRow>,
    stamps: Vec<Option<Stamp>>,
    notes: BTreeMap<String, (Option<Stamp>, Option<Notes>)>,
    /// When the listing began that this was made from.
    begun: Option<Instant>,
    /// When the index was written last, and whether rows have changed since.
    written: Option<Instant>,
    is_unwritten: bool,
}

impl Library {
    /// Opens a directory of runs: every row is current. The first time, every record is read, which takes some
    /// milliseconds each; later only those that changed.
    ///
    /// # Errors
    /// [`LibraryError::Io`] where the directory itself cannot be read. An index that cannot be written is no error.
    pub fn open(runs_dir: &Path) -> Result<Library, LibraryError> {
        Library::open_newest(runs_dir, usize::MAX)
    }

    /// As [`Library::open`], but rows that are not in the index are made only for the newest `rows`. The others exist,
    /// [unread](LibraryRow::unread), until [`Library::refresh`].
    ///
    /// # Errors
    /// As [`Library::open`].
    pub fn open_newest(runs_dir: &Path, rows: usize) -> Result<Library, LibraryError> {
        let kept = index::read(runs_dir);
        let (runs_dir, notes) = (runs_dir.to_owned(), BTreeMap::new());
        let (none, stamps) = (Vec::new(), Vec::new());
        let mut library =
            Library { runs_dir, rows: none, stamps, notes, begun: None, written: None, is_unwritten: false };
        library.take(kept, rows)?;
        Ok(library)
    }

    /// Every run, series and duel, the newest first.
    pub fn rows(&self) -> &[LibraryRow] {
        &self.rows
    }

    /// The row of a name.
    pub fn row(&self, name: &str) -> Option<&LibraryRow> {
        // Names are in descending order.
        self.rows.binary_search_by(|row| name.cmp(&row.name)).ok().map(|place| &self.rows[place])
    }

    /// The directory.
    pub fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }

    /// Notes of a run, if it has readable ones.
    pub fn notes(&self, name: &str) -> Option<&Notes> {
        self.notes.get(files::final_name(name)).and_then(|(_, notes)| notes.as_ref())
    }

    /// The rows that a query finds, the newest first.
    pub fn find<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = &'a LibraryRow> {
        self.rows.iter().filter(|row| query.matches(row, self.notes(&row.name)))
    }

    /// Reads the directory again and makes the rows of changed runs again. Returns whether any row or note changed.
    ///
    /// # Errors
    /// As [`Library::open`]; the rows are then what they were.
    pub fn refresh(&mut self) -> Result<bool, LibraryError> {
        self.refresh_newest(usize::MAX)
    }

    /// As [`Library::refresh`], but what is [unread](LibraryRow::unread) and not among the newest `rows` stays so: to fill a large
    /// library piece by piece.
    ///
    /// # Errors
    /// As [`Library::refresh`].
    pub fn refresh_newest(&mut self, rows: usize) -> Result<bool, LibraryError> {
        let listing = Library::look(&self.runs_dir)?;
        Ok(self.refresh_from(listing, rows))
    }

    /// Lists a directory of runs. This takes most of the time of a refresh, and needs no library.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn look(runs_dir: &Path) -> Result<Listing, LibraryError> {
        files::list(runs_dir).map_err(|error| LibraryError::io("read", runs_dir, error))
    }

    /// As [`Library::refresh_newest`], from a listing made before; nothing if the library has a newer one.
    pub fn refresh_from(&mut self, listing: Listing, rows: usize) -> bool {
        if listing.begun < self.begun {
            return false;
        }
        let stamps = std::mem::take(&mut self.stamps);
        let kept = std::mem::take(&mut self.rows).into_iter().zip(stamps);
        let kept = kept.map(|(row, stamp)| (row.name.clone(), (row, stamp))).collect();
        self.fill(listing, kept, rows)
    }

    /// Whether a name may be one of a run below the directory: no path, nothing hidden.
    ///
    /// # Errors
    /// [`LibraryError::Name`] with the rule that it breaks.
    pub fn confined(name: &str) -> Result<&str, LibraryError> {
        let rule = match name {
            "" => "it is empty",
            _ if name.starts_with('.') => "it begins with a dot",
            _ if name.contains('/') => "it is a path",
            _ if name.contains('\0') => "it has a zero byte",
            _ if name.len() > 255 => "it has more than 255 bytes",
            _ if name.ends_with(files::NOTES) => "it is that of notes",
            _ => return Ok(name),
        };
        Err(LibraryError::Name { name: name.to_owned(), rule })
    }

    fn take(&mut self, kept: HashMap<String, index::Kept>, rows: usize) -> Result<(), LibraryError> {
        let listing = Library::look(&self.runs_dir)?;
        self.fill(listing, kept, rows);
        Ok(())
    }

    /// Makes the rows of a listing. Rows that were kept and are current are reused.
    fn fill(&mut self, listing: Listing, mut kept: HashMap<String, index::Kept>, rows: usize) -> bool {
        let (mut changed, mut made) = (false, 0_usize);
        self.begun = listing.begun;
        self.rows = Vec::with_capacity(listing.folders.len());
        self.stamps = Vec::with_capacity(listing.folders.len());
        for (place, folder) in listing.folders.iter().enumerate() {
            let old = kept.remove(&folder.name).filter(|(row, _)| !row.unread);
            if let Some((row, stamp)) = old.as_ref()
                && folder.problem.is_none()
                && row.kind == folder.kind
                && folder.stamp.is_some()
                && *stamp == folder.stamp
            {
                let (row, stamp) = old.expect("it was looked at just now");
                self.rows.push(row);
                self.stamps.push(stamp);
                continue;
            }
            let row = if place < rows || folder.problem.is_some() {
                made += 1;
                make(&self.runs_dir, folder)
            } else {
                let (name, kind) = (folder.name.clone(), folder.kind);
                LibraryRow { name, kind, unread: true, ..LibraryRow::default() }
            };
            changed |= old.is_none_or(|(old, stamp)| old != row || stamp != folder.stamp);
            self.rows.push(row);
            self.stamps.push(folder.stamp);
        }
        changed |= !kept.is_empty();
        self.is_unwritten |= changed;
        // While thousands are read for the first time, the whole index would be written after every few of them.
        let is_due = self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY)
            || !self.rows.iter().any(|row| row.unread);
        if self.is_unwritten && is_due {
            (self.written, self.is_unwritten) = (Some(Instant::now()), false);
            let rows = self.rows.iter().zip(self.stamps.iter().copied()).filter(|(row, _)| !row.unread);
            written::tidy(&self.runs_dir);
            // Without an index the next start is only slower.
            if let Err(error) = index::write(&self.runs_dir, rows) {
                debug!(runs = %self.runs_dir.display(), %error, "the index cannot be written");
            }
        }
        debug!(rows = self.rows.len(), made, "the library is current");
        let notes_changed = self.fill_notes(listing.notes);
        changed || notes_changed
    }

    fn fill_notes(&mut self, found: BTreeMap<String, Option<Stamp>>) -> bool {
        let mut old = std::mem::take(&mut self.notes);
        let mut changed = false;
        for (name, stamp) in found {
            let before = old.remove(&name);
            if let Some((then, notes)) = &before
                && stamp.is_some()
                && *then == stamp
            {
                self.notes.insert(name, (stamp, notes.clone()));
                continue;
            }
            let read = Notes::load(&self.runs_dir.join(&name)).ok();
            changed |= before.is_none_or(|(_, notes)| notes != read);
            self.notes.insert(name, (stamp, read));
        }
        changed || !old.is_empty()
    }
}

fn make(runs_dir: &Path, folder: &Folder) -> LibraryRow {
    match &folder.problem {
        Some(problem) => LibraryRow::unreadable(&folder.name, folder.kind, problem.clone()),
        None => LibraryRow::read(folder, &runs_dir.join(&folder.name)),
    }
}
