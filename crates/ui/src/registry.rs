//! `RUNS/.live/`: a directory for each run that can be watched, started here or in a terminal. What a front knows of a run
//! stands there and in the run's record, so that nothing depends on a front that stays.
//!
//! ```text
//! .live/20260131T123005Z-webstone-4711/
//!   run.json        what was started, as which process (Entry)
//!   events.ndjson   what it tells (docs/events.md)
//!   watched_by      how many pages at most watched it at a time, where any did
//!   output.txt      what it printed
//!   ended.json      how the process ended, where its front was still there to see it
//! ```

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use webstone_measure::strict;
use webstone_store::clock;
use webstone_store::plain_file::{self, Links};

use crate::process::Process;

/// The file that marks a directory as the place of a run.
const RUN: &str = "run.json";
/// Its largest size in bytes: a command line may be long.
const ENTRY_BYTES_MAX: u64 = 1 << 20;
const WATCHED_BY: &str = "watched_by";
/// Below the directory of runs.
const DIRECTORY: &str = ".live";
/// At most this many places are read, newest first.
const PLACES_MAX: usize = 200;
/// Runs that are over and still kept; older ones are in their records.
const KEPT: usize = 20;

/// A run that can be watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The command: `run`, `find`, `servers` …
    pub command: String,
    /// The run's name.
    pub name: String,
    /// As it was typed or made up, without secrets.
    pub command_line: Vec<String>,
    /// When it was started (RFC 3339, UTC).
    pub started: String,
    /// Whether somebody watches it in a terminal.
    pub in_terminal: bool,
    /// The process; absent while it is being started.
    pub process: Option<Process>,
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    /// Its exit code; absent where a signal ended it.
    pub(crate) code: Option<i32>,
}

/// [`Place::watched_by`] of the run that writes these events, if they are written into a place.
pub fn watched_by(events: &Path) -> Option<PathBuf> {
    let directory = events.parent()?;
    directory.join(RUN).exists().then(|| directory.join(WATCHED_BY))
}

/// The place of a run.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
}

impl Place {
    /// A new place for a run.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(runs_dir: &Path, entry: &Entry) -> io::Result<Place> {
        let stamp = clock::file_name_stamp(SystemTime::now());
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = entry.name.chars().take(60).map(safe).collect();
        let all = runs_dir.join(DIRECTORY);
        fs::create_dir_all(runs_dir)?;
        // What runs print and tell is for their user alone.
        let private = |directory: &Path| DirBuilder::new().mode(0o700).create(directory);
        match private(&all) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => own_alone(&all)?,
            made => made?,
        }
        for number in 0..1000 {
            let directory = all.join(format!("{stamp}-{name}-{}", std::process::id() * 1000 + number));
            match private(&directory) {
                Ok(()) => {
                    let place = Place { directory };
                    place.write(entry)?;
                    return Ok(place);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Says what runs.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        self.replace(RUN, entry)
    }

    /// Where the run writes its events.
    pub fn events(&self) -> PathBuf {
        self.directory.join("events.ndjson")
    }

    /// Where a front keeps how many pages at most watched the run at a time.
    pub fn watched_by(&self) -> PathBuf {
        self.directory.join(WATCHED_BY)
    }

    /// Keeps that number.
    pub(crate) fn note_watched(&self, pages: u32) -> io::Result<()> {
        self.replace(WATCHED_BY, &pages)
    }

    /// Removes it: nothing was started.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Where it prints.
    pub(crate) fn output(&self) -> PathBuf {
        self.directory.join("output.txt")
    }

    /// Its name.
    pub(crate) fn id(&self) -> String {
        self.directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// What is known of the run.
    pub(crate) fn entry(&self) -> io::Result<Entry> {
        Ok(strict::json(&self.read(RUN)?)?)
    }

    /// How the process ended, where that was seen.
    pub(crate) fn process_end(&self) -> Option<ProcessEnd> {
        strict::json(&self.read("ended.json").ok()?).ok()
    }

    /// Notes how the process ended.
    pub(crate) fn note_end(&self, end: &ProcessEnd) -> io::Result<()> {
        self.replace("ended.json", end)
    }

    /// Whether this user made it: others who may write to the directory of runs could claim that any process is a run.
    pub(crate) fn is_own(&self) -> bool {
        let owner = |file: &Path| Some(file.symlink_metadata().ok()?.uid());
        let own = Some(rustix::process::geteuid().as_raw());
        owner(&self.directory) == own && owner(&self.directory.join(RUN)) == own
    }

    /// A new file of it, for this user alone.
    pub(crate) fn new_file(&self, path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).mode(0o600).open(path)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        plain_file::read(&self.directory.join(name), Links::Refused, ENTRY_BYTES_MAX)
    }

    /// A reader sees the old file or the new one.
    fn replace<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.new"));
        // One that was never finished, or a link that somebody else put there.
        let _ = fs::remove_file(&new);
        self.new_file(&new)?.write_all(&serde_json::to_vec(value)?)?;
        fs::rename(&new, self.directory.join(name))
    }
}

/// Makes sure that a directory is this user's alone. In somebody else's directory, or through a link, files would be made wherever that
/// user wants.
fn own_alone(directory: &Path) -> io::Result<()> {
    let found = directory.symlink_metadata()?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let what = format!(
            "{} is not a directory of this user's; remove it, or name another --runs-dir",
            directory.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(directory, Permissions::from_mode(0o700)),
    }
}

/// The places in a directory of runs, the newest first.
pub(crate) fn places(runs_dir: &Path) -> Vec<Place> {
    let mut places = all_places(runs_dir);
    places.truncate(PLACES_MAX);
    places
}

fn all_places(runs_dir: &Path) -> Vec<Place> {
    let all = runs_dir.join(DIRECTORY);
    // A link leads to other directories.
    let entries = all.symlink_metadata().is_ok_and(|found| found.is_dir()).then(|| fs::read_dir(all));
    let entries = entries.into_iter().flatten().flatten().filter_map(Result::ok);
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut places: Vec<Place> = directories.map(|entry| Place { directory: entry.path() }).collect();
    places.sort_by(|a, b| b.directory.cmp(&a.directory));
    places
}

/// Removes the places of runs that ended long ago. Their records are elsewhere.
pub(crate) fn tidy(runs_dir: &Path) {
    let is_over = |place: &Place| {
        let process = place.entry().ok().and_then(|entry| entry.process);
        process.is_none_or(|process| !process.is_alive())
    };
    for place in all_places(runs_dir).into_iter().filter(Place::is_own).filter(is_over).skip(KEPT) {
        if let Err(error) = fs::remove_dir_all(&place.directory) {
            tracing::warn!(place = %place.directory.display(), %error, "not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry {
            command: "run".to_owned(),
            name: name.to_owned(),
            command_line: vec!["webstone".to_owned(), "run".to_owned()],
            started: "2026-01-01T00:00:00.000Z".to_owned(),
            in_terminal: false,
            process: None,
        }
    }

    #[test]
    fn a_place_keeps_its_entry_and_is_confined() {
        let runs = tempfile::tempdir().unwrap();
        let place = Place::create(runs.path(), &entry("../../etc/x y")).unwrap();
        assert!(place.directory.starts_with(runs.path().join(DIRECTORY)));
        assert_eq!(place.directory.parent(), Some(runs.path().join(DIRECTORY).as_path()));
        assert_eq!(place.entry().unwrap(), entry("../../etc/x y"));
        let live = Entry { process: Some(Process::own().unwrap()), ..entry("b") };
        place.write(&live).unwrap();
        assert_eq!(place.entry().unwrap(), live);
    }

    #[test]
    fn a_link_in_the_place_of_the_registry_is_not_followed() {
        let runs = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        for number in 0..KEPT + 5 {
            fs::create_dir(elsewhere.path().join(number.to_string())).unwrap();
        }
        std::os::unix::fs::symlink(elsewhere.path(), runs.path().join(DIRECTORY)).unwrap();
        tidy(runs.path());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), KEPT + 5, "nothing is removed there");
        assert_eq!(places(runs.path()).len(), 0);
        let error = Place::create(runs.path(), &entry("a")).unwrap_err().to_string();
        assert!(error.contains("is not a directory of this user's"), "{error}");
        // Other files there stay as well; the mode of an existing directory is fixed.
        fs::remove_file(runs.path().join(DIRECTORY)).unwrap();
        for number in 0..KEPT + 5 {
            fs::create_dir_all(runs.path().join(DIRECTORY).join(number.to_string())).unwrap();
        }
        tidy(runs.path());
        assert_eq!(places(runs.path()).len(), KEPT + 5);
        fs::set_permissions(runs.path().join(DIRECTORY), Permissions::from_mode(0o755)).unwrap();
        Place::create(runs.path(), &entry("a")).unwrap();
        assert_eq!(fs::metadata(runs.path().join(DIRECTORY)).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn those_of_runs_that_are_on_stay() {
        let runs = tempfile::tempdir().unwrap();
        let live = Entry { process: Some(Process::own().unwrap()), ..entry("a-live") };
        let kept = Place::create(runs.path(), &live).unwrap();
        for _ in 0..KEPT + 5 {
            Place::create(runs.path(), &entry("z")).unwrap();
        }
        tidy(runs.path());
        assert_eq!(places(runs.path()).len(), KEPT + 1);
        assert!(kept.entry().is_ok());
    }
}
