//! Notes of a run: text and tags in `NAME.notes.toml` beside its directory. Not in it: the record is signed, and a note that is
//! written years later must not break it.
//!
//! ```toml
//! text = "Before the new kernel."
//! tags = ["baseline", "vm2"]
//! updated = "2026-01-31T12:30:05.250Z"
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use webstone_model::toml_text;

use super::files::{self, final_name};
use super::written::write_beside;
use crate::clock;
use crate::plain_file::{self, Links};

/// Most bytes of a note's text.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most tags of a run.
pub const TAGS_MAX: usize = 20;
/// Most bytes of a tag.
pub const TAG_BYTES_MAX: usize = 40;
/// Largest file of notes that is read: every byte of the text may be written in six.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What somebody wrote about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// The text; empty: none.
    pub text: String,
    /// The tags, each of `a` to `z`, `0` to `9`, `.`, `_` and `-`.
    pub tags: BTreeSet<String>,
    /// When they were written last (RFC 3339, UTC).
    pub updated: String,
}

/// Why notes cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {}", path.display(), crate::without_number(source))]
    Io {
        /// What was tried, as a verb: "read".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file does not hold notes.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A tag breaks the rule.
    #[error("`{0}` is not a tag: a tag has 1 to {TAG_BYTES_MAX} characters of a-z, 0-9, `.`, `_` and `-`")]
    Tag(String),
    /// There are too many.
    #[error("the run would have {0} tags; at most {TAGS_MAX} are possible")]
    TooManyTags(usize),
    /// The text is too long.
    #[error("the text has {0} bytes; at most {TEXT_BYTES_MAX} are possible")]
    TooLong(usize),
}

/// Whether there is no room for what was to be written.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl NotesError {
    /// What to do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            NotesError::Io { doing: "read", .. } => None,
            NotesError::Io { source, .. } if is_full(source) => Some("free some space"),
            NotesError::Io { .. } => {
                Some("notes lie beside the run's directory: that must be a place that you may write to")
            }
            NotesError::Content { .. } => Some("mend the file, or remove it"),
            NotesError::Tag(_) => Some("write it in small letters, with `-` for spaces"),
            NotesError::TooManyTags(_) => Some("remove some: --untag TAG"),
            NotesError::TooLong(_) => Some("keep what is longer in a file of your own, and name that here"),
        }
    }
}

impl Notes {
    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tags.is_empty()
    }

    /// The file of the notes of a run. `None` where the path does not end in a name.
    pub fn path_of(directory: &Path) -> Option<PathBuf> {
        let name = directory.file_name()?.to_str()?;
        Some(directory.with_file_name(format!("{}{}", final_name(name), files::NOTES)))
    }

    /// Reads the notes of a run's directory; empty ones if there are none.
    ///
    /// # Errors
    /// [`NotesError::Io`] where the file cannot be read or is not a plain one, [`NotesError::Content`] where it does not hold notes,
    /// and the limits.
    pub fn load(directory: &Path) -> Result<Notes, NotesError> {
        let path = named(directory)?;
        let text = match plain_file::read_text(&path, Links::Refused, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Notes::default()),
            Err(source) => return Err(NotesError::Io { doing: "read", path, source }),
        };
        let content = |what: String| NotesError::Content { path: path.clone(), what };
        let notes: Notes = toml_text::read(&text)
            .map_err(|error| content(format!("line {}: {}", error.line(&text), error.rule)))?;
        notes.check().map_err(|error| content(error.to_string()))?;
        Ok(notes)
    }

    /// Reads the notes of a run's directory, has them changed, and writes them; where nothing is left, the file is removed. Concurrent
    /// writers wait for each other.
    ///
    /// # Errors
    /// As [`Notes::load`]; the limits; [`NotesError::Io`] where the file cannot be written. The notes are then what they were.
    pub fn edit(directory: &Path, change: impl FnOnce(&mut Notes)) -> Result<Notes, NotesError> {
        let path = named(directory)?;
        let io = |source| NotesError::Io { doing: "write", path: path.clone(), source };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let lock = File::open(parent).map_err(io)?;
        // A file system without locks usually has no two writers either.
        let _ = lock.lock();
        let mut notes = Notes::load(directory)?;
        let before = notes.clone();
        change(&mut notes);
        if notes == before {
            return Ok(notes);
        }
        notes.check()?;
        if notes.is_empty() {
            notes.updated.clear();
            fs::remove_file(&path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(io(error)),
            })?;
            return Ok(notes);
        }
        notes.updated = clock::rfc3339(SystemTime::now());
        let text = toml::to_string(&notes).expect("notes are two strings and a list of strings");
        write_beside(&path, |file| file.write_all(text.as_bytes())).map_err(io)?;
        Ok(notes)
    }

    /// Checks a tag.
    ///
    /// # Errors
    /// [`NotesError::Tag`] with the rule.
    pub fn check_tag(tag: &str) -> Result<(), NotesError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        match (1..=TAG_BYTES_MAX).contains(&tag.len()) && tag.bytes().all(fits) {
            true => Ok(()),
            false => Err(NotesError::Tag(tag.chars().take(2 * TAG_BYTES_MAX).collect())),
        }
    }

    fn check(&self) -> Result<(), NotesError> {
        self.tags.iter().try_for_each(|tag| Notes::check_tag(tag))?;
        if self.tags.len() > TAGS_MAX {
            return Err(NotesError::TooManyTags(self.tags.len()));
        }
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(NotesError::TooLong(self.text.len()));
        }
        Ok(())
    }
}

fn named(directory: &Path) -> Result<PathBuf, NotesError> {
    Notes::path_of(directory).ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a run's name");
        NotesError::Io { doing: "find the notes of", path: directory.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_taken_for_a_place_that_nobody_may_write_to() {
        let hint = |kind: io::ErrorKind| {
            NotesError::Io { doing: "write", path: PathBuf::new(), source: kind.into() }.hint().unwrap()
        };
        assert_eq!(hint(io::ErrorKind::StorageFull), "free some space");
        assert!(hint(io::ErrorKind::PermissionDenied).contains("may write to"));
    }

    #[test]
    fn notes_lie_beside_the_record_and_go_when_they_are_empty() {
        let runs = tempfile::tempdir().unwrap();
        let run = runs.path().join("20260131T123005Z-w");
        fs::create_dir(&run).unwrap();
        assert_eq!(Notes::load(&run).unwrap(), Notes::default());
        let hostile = "\"\"\"\n\u{1b}[2J tags = [\"x\"]\r\n<script>\u{0}";
        let wanted: BTreeSet<String> = ["b".to_owned(), "a.1_-".to_owned()].into();
        let written = Notes::edit(&run, |notes| {
            notes.text = hostile.to_owned();
            notes.tags = wanted.clone();
        });
        let written = written.unwrap();
        assert_eq!(Notes::load(&run).unwrap(), written);
        assert_eq!((written.text.as_str(), &written.tags), (hostile, &wanted));
        assert!(clock::parse_rfc3339(&written.updated).is_some());
        assert_eq!(Notes::load(&runs.path().join("20260131T123005Z-w.partial")).unwrap(), written);
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0, "nothing is written into the record");
        Notes::edit(&run, |notes| *notes = Notes::default()).unwrap();
        let left: Vec<_> = fs::read_dir(runs.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn limits_are_told_and_nothing_is_written() {
        let runs = tempfile::tempdir().unwrap();
        let run = runs.path().join("r");
        let said =
            |change: &dyn Fn(&mut Notes)| Notes::edit(&run, |notes| change(notes)).unwrap_err().to_string();
        let rule = "a tag has 1 to 40 characters of a-z, 0-9, `.`, `_` and `-`";
        for tag in ["", "Big", "a b", "a/b", "ä", &"x".repeat(41)] {
            let error = said(&|notes| {
                notes.tags.insert(tag.to_owned());
            });
            assert_eq!(error, format!("`{tag}` is not a tag: {rule}"));
        }
        let error = said(&|notes| notes.tags.extend((0..21).map(|n| n.to_string())));
        assert_eq!(error, "the run would have 21 tags; at most 20 are possible");
        let error = said(&|notes| notes.text = "x".repeat(TEXT_BYTES_MAX + 1));
        assert_eq!(error, "the text has 65537 bytes; at most 65536 are possible");
        assert!(!Notes::path_of(&run).unwrap().exists());
        // A text is read even if every byte of it is escaped.
        Notes::edit(&run, |notes| notes.text = "\u{1}".repeat(TEXT_BYTES_MAX)).unwrap();
        assert_eq!(Notes::load(&run).unwrap().text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn invalid_notes_are_refused() {
        let runs = tempfile::tempdir().unwrap();
        let run = runs.path().join("r");
        let path = Notes::path_of(&run).unwrap();
        let said = || Notes::load(&run).unwrap_err().to_string();
        fs::write(&path, "text = \"a\"\ntags = 7\n").unwrap();
        assert!(said().contains(".notes.toml: line 2: "), "{}", said());
        fs::write(&path, "tags = [\"NO\"]").unwrap();
        assert!(said().contains("`NO` is not a tag"), "{}", said());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(said().ends_with("it is a symbolic link; only plain files are read"), "{}", said());
        assert!(Notes::edit(&run, |notes| notes.text = "x".to_owned()).is_err());
        assert!(Notes::path_of(Path::new("..")).is_none());
        assert!(Notes::load(Path::new("..")).is_err());
    }
}
