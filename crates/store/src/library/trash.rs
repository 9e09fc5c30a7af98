//! The trash, `RUNS/.trash/NAME`: runs are moved there by renaming, with their notes, and brought back the same way.
//!
//! Names are those of directories in the library and nothing else, and links are not moved.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::files::{NOTES, final_name, is_partial};
use super::{Library, LibraryError};
use crate::PARTIAL;

/// Name of the directory below that of the runs.
pub const TRASH: &str = ".trash";

/// Moves a run or a series to the trash, with its notes.
///
/// # Errors
/// [`LibraryError::Name`] for an invalid name; [`LibraryError::Refused`] where nothing of that name is there, it is not a
/// directory, it is being written, or the trash holds one of its name; [`LibraryError::Io`].
pub fn discard(runs_dir: &Path, name: &str) -> Result<(), LibraryError> {
    let name = Library::confined(name)?;
    let runs = open_runs(runs_dir)?;
    match rustix::fs::mkdirat(&runs, TRASH, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(LibraryError::io("make", &runs_dir.join(TRASH), error.into())),
    }
    let trash = open_trash(runs_dir)?;
    // Kept until it is moved, so that nobody begins to write it meanwhile.
    let _lock = unwritten(&runs, name, runs_dir)?;
    moved(&runs, &trash, name, runs_dir, "the trash already holds a run of this name; empty it first")
}

/// Moves a run or a series back.
///
/// # Errors
/// As [`discard`]; [`LibraryError::Refused`] where the library has one of its name again.
pub fn restore(runs_dir: &Path, name: &str) -> Result<(), LibraryError> {
    let name = Library::confined(name)?;
    let runs = open_runs(runs_dir)?;
    let trash = open_trash(runs_dir)?;
    let in_the_way = "a run of this name is there again; rename one of the two";
    moved(&trash, &runs, name, &runs_dir.join(TRASH), in_the_way)
}

/// Names of what is in the trash, the newest first.
///
/// # Errors
/// [`LibraryError::Io`] where it cannot be read; a trash that is not there is empty.
pub fn list(runs_dir: &Path) -> Result<Vec<String>, LibraryError> {
    let path = runs_dir.join(TRASH);
    let read = |error| LibraryError::io("read", &path, error);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read(error)),
        Ok(found) if !found.is_dir() => return Err(not_a_directory(&path)),
        Ok(_) => {}
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(read)? {
        let entry = entry.map_err(read)?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.extend(entry.file_name().into_string().ok().filter(|_| is_directory));
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

fn open_trash(runs_dir: &Path) -> Result<OwnedFd, LibraryError> {
    let path = runs_dir.join(TRASH);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(opened) => Ok(opened),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(not_a_directory(&path)),
        Err(Errno::NOENT) => Err(LibraryError::Refused {
            what: format!("there is no trash in {}", runs_dir.display()),
            hint: "name the directory of runs from which the run was removed: --runs-dir DIR",
        }),
        Err(error) => Err(LibraryError::io("open", &path, error.into())),
    }
}

fn not_a_directory(path: &Path) -> LibraryError {
    LibraryError::Refused {
        what: format!("{} is not a directory", path.display()),
        hint: "move it away: webstone makes a directory of this name for what is thrown away",
    }
}

fn open_runs(runs_dir: &Path) -> Result<OwnedFd, LibraryError> {
    rustix::fs::open(runs_dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| LibraryError::io("open", runs_dir, error.into()))
}

/// A lock on a directory that no process writes: a process has one on the run, the duel or the series that it writes. `None`
/// where there is nothing to lock.
fn unwritten(runs: &OwnedFd, name: &str, runs_dir: &Path) -> Result<Option<File>, LibraryError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat(runs, name, flags, Mode::empty()).map(File::from) else {
        return Ok(None);
    };
    match directory.try_lock() {
        Err(TryLockError::WouldBlock) => Err(LibraryError::Refused {
            what: format!("{} is being written", runs_dir.join(name).display()),
            hint: "wait until its run has ended, or stop it first",
        }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(directory)),
    }
}

/// Moves a directory and its notes between two others. Nothing is replaced, and no link is followed: renaming moves a link itself,
/// and whatever is not a directory is refused before.
fn moved(
    from: &OwnedFd,
    to: &OwnedFd,
    name: &str,
    told: &Path,
    in_the_way: &str,
) -> Result<(), LibraryError> {
    let path = told.join(name);
    let found = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| match error {
        Errno::NOENT => LibraryError::Refused {
            what: format!("{} is not there", path.display()),
            hint: "`webstone list --all` shows what is",
        },
        error => LibraryError::io("look at", &path, error.into()),
    })?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(LibraryError::Refused {
            what: format!("{} is not a directory", path.display()),
            hint: "only runs and series can be moved to the trash and back",
        });
    }
    rename(from, to, name).map_err(|error| match error {
        Errno::EXIST | Errno::NOTEMPTY => LibraryError::Refused {
            what: format!("{}: {in_the_way}", path.display()),
            hint: "see `webstone list --all`",
        },
        error => LibraryError::io("move", &path, error.into()),
    })?;
    // A run that was resumed may have a partial directory besides; then the notes stay with the one that is left.
    let other = if is_partial(name) { final_name(name).to_owned() } else { format!("{name}{PARTIAL}") };
    if rustix::fs::statat(from, other.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    match rename(from, to, &format!("{}{NOTES}", final_name(name))) {
        // Notes that are there already are of the same run, and newer.
        Ok(()) | Err(Errno::NOENT | Errno::EXIST) => Ok(()),
        Err(error) => Err(LibraryError::io("move the notes of", &path, error.into())),
    }
}

fn rename(from: &OwnedFd, to: &OwnedFd, name: &str) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot refuse to replace: there the name is checked first.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => rustix::fs::renameat(from, name, to, name),
        },
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs_with(names: &[&str]) -> tempfile::TempDir {
        let runs = tempfile::tempdir().unwrap();
        for name in names {
            fs::create_dir(runs.path().join(name)).unwrap();
            fs::write(runs.path().join(name).join("record.json"), *name).unwrap();
            fs::write(runs.path().join(format!("{name}.notes.toml")), "text = 'n'").unwrap();
        }
        runs
    }

    #[test]
    fn a_run_goes_to_the_trash_with_its_notes_and_comes_back() {
        let runs = runs_with(&["a", "b"]);
        let at = |name: &str| runs.path().join(name);
        discard(runs.path(), "a").unwrap();
        assert!(!at("a").exists() && !at("a.notes.toml").exists() && at("b").exists());
        assert_eq!(list(runs.path()).unwrap(), ["a"]);
        restore(runs.path(), "a").unwrap();
        assert_eq!(fs::read(at("a/record.json")).unwrap(), b"a");
        assert!(at("a.notes.toml").exists());
        discard(runs.path(), "a").unwrap();
        discard(runs.path(), "b").unwrap();
        fs::remove_dir_all(at(TRASH)).unwrap();
        assert_eq!(list(runs.path()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_being_written_stays_and_what_a_killed_run_left_goes() {
        let runs = tempfile::tempdir().unwrap();
        let mut record = crate::tests::record();
        let store = crate::Store::create(runs.path(), crate::tests::started(), &mut record).unwrap();
        let path = store.path().to_owned();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_refused =
            || discard(runs.path(), name).is_err_and(|error| error.to_string().ends_with("is being written"));
        assert!(is_refused());
        drop(store);
        let (reopened, _) = crate::Store::reopen(&path).unwrap();
        assert!(is_refused());
        drop(reopened);
        discard(runs.path(), name).unwrap();
        assert_eq!(list(runs.path()).unwrap(), [name]);

        let mut duel = webstone_model::fixture::duel("", &[("old", 10_000), ("new", 10_240)], 1);
        let store = crate::duel::DuelStore::create(runs.path(), crate::tests::started(), &mut duel, None);
        let name = format!("{}.partial", duel.id);
        assert!(discard(runs.path(), &name).is_err());
        drop(store);
        discard(runs.path(), &name).unwrap();
    }

    #[test]
    fn nothing_is_replaced_and_nothing_outside_is_touched() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "").unwrap();
        let runs = runs_with(&["a"]);
        let said = |result: Result<(), LibraryError>| result.unwrap_err().to_string();
        for (name, rule) in [
            ("..", "it begins with a dot"),
            (".trash", "it begins with a dot"),
            ("", "it is empty"),
            ("a/../b", "it is a path"),
            ("/etc", "it is a path"),
            ("a.notes.toml", "it is that of notes"),
            ("a\0", "it has a zero byte"),
        ] {
            for result in [discard(runs.path(), name), restore(runs.path(), name)] {
                assert_eq!(said(result), format!("`{name}` is not the name of a run: {rule}"));
            }
        }
        assert!(said(restore(runs.path(), "a")).starts_with("there is no trash in "));
        discard(runs.path(), "a").unwrap();
        fs::create_dir(runs.path().join("a")).unwrap();
        assert!(said(discard(runs.path(), "a")).contains("the trash already holds a run of this name"));
        assert!(said(restore(runs.path(), "a")).contains("is there again"));
        assert!(said(discard(runs.path(), "none")).ends_with("none is not there"));
        std::os::unix::fs::symlink(outside.path(), runs.path().join("link")).unwrap();
        assert!(said(discard(runs.path(), "link")).ends_with("link is not a directory"));
        std::os::unix::fs::symlink(outside.path(), runs.path().join(".trash/link")).unwrap();
        fs::remove_dir_all(runs.path().join(TRASH)).unwrap();
        std::os::unix::fs::symlink(outside.path(), runs.path().join(TRASH)).unwrap();
        for result in
            [discard(runs.path(), "a"), restore(runs.path(), "precious"), list(runs.path()).map(drop)]
        {
            assert!(said(result).ends_with(".trash is not a directory"));
        }
        assert!(outside.path().join("precious").exists() && runs.path().join("a").exists());
    }
}
