//! The two ways in which the store writes: appending to a log, so that half a line at its end is never mistaken for a whole one, and
//! replacing a file as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{StoreError, steps};
use tracing::debug;

/// A log that only grows, by whole pieces.
#[derive(Debug)]
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    /// Length up to which the content is whole and on the disk.
    kept: u64,
}

impl AppendFile {
    /// A new, empty log.
    pub(super) fn create(path: PathBuf) -> Result<AppendFile, StoreError> {
        let opened =
            steps::next().and_then(|()| OpenOptions::new().append(true).create_new(true).open(&path));
        match opened {
            Ok(file) => Ok(AppendFile { path, file, kept: 0 }),
            Err(error) => Err(StoreError::io("create", &path, error)),
        }
    }

    /// Opens an existing log and cuts it off after `kept` bytes, because the rest belongs to no iteration.
    pub(super) fn reopen(path: PathBuf, kept: u64) -> Result<AppendFile, StoreError> {
        // A record may come from elsewhere: neither a link nor a FIFO is written to.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let opened = OpenOptions::new().append(true).custom_flags(flags).open(&path).and_then(|file| {
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("it is not a plain file"));
            }
            steps::next()?;
            file.set_len(kept)?;
            file.sync_data()?;
            Ok(file)
        });
        match opened {
            Ok(file) => Ok(AppendFile { path, file, kept }),
            Err(error) => Err(StoreError::io("write", &path, error)),
        }
    }

    /// Appends and waits until the disk has it. After an error the log is what it was before.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = steps::next().and_then(|()| self.file.write_all(bytes));
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            self.roll_back(self.kept);
            return Err(StoreError::io("write", &self.path, error));
        }
        self.kept += bytes.len() as u64;
        debug!(file = %self.path.display(), bytes = bytes.len(), "appended and synced");
        Ok(())
    }

    /// Where the next piece will begin: the file's end, which is beyond what is kept if a rollback failed.
    pub(super) fn end(&self) -> Result<u64, StoreError> {
        let length = self.file.metadata().map(|metadata| metadata.len());
        length.map_err(|error| StoreError::io("read", &self.path, error))
    }

    /// Length of what is kept, to return to with [`AppendFile::roll_back`].
    pub(super) fn mark(&self) -> u64 {
        self.kept
    }

    /// Removes everything after a mark.
    pub(super) fn roll_back(&mut self, mark: u64) {
        // Where even that fails, a reader ignores lines of iterations that were not stored, and half a line.
        if steps::is_alive() && self.file.set_len(mark).is_ok() {
            let _ = self.file.sync_data();
        }
        self.kept = mark;
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Replaces a file: readers see the old content or the new, never a part. The old one survives every error.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = temporary(path);
    let attempt = || -> io::Result<()> {
        // One that a killed writer left behind, or that somebody else put there: never written through.
        remove_if_there(&temporary)?;
        steps::next()?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        steps::next()?;
        std::fs::rename(&temporary, path)
    };
    attempt().inspect(|()| debug!(file = %path.display(), "replaced")).map_err(|error| {
        if steps::is_alive() {
            let _ = std::fs::remove_file(&temporary);
        }
        StoreError::io("write", path, error)
    })
}

/// Where a file is written before it takes the place of the one at `path`.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    temporary.into()
}

/// Removes a file, if it exists.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    steps::next()?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the disk has a directory's names.
pub fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| StoreError::io("sync", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_log_never_keeps_half_a_piece() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = AppendFile::create(directory.path().join("log")).unwrap();
        log.append(b"one\n").unwrap();
        let mark = log.mark();
        log.append(b"two\n").unwrap();
        log.roll_back(mark);
        log.append(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "one\nthree\n");
    }

    #[test]
    fn a_full_disk_is_told_as_one() {
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut log = AppendFile { path: "/dev/full".into(), file, kept: 0 };
        let error = log.append(b"one\n").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
        assert!(error.hint().unwrap().starts_with("free some space"));
    }

    #[test]
    fn replacing_keeps_the_old_content_when_it_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        // First it cannot be begun, because its place is taken; then it is written, but cannot be moved.
        let temporary = temporary(&path);
        fs::create_dir(&temporary).unwrap();
        assert!(replace(&path, b"newer").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        fs::remove_dir(&temporary).unwrap();
        let taken = directory.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(replace(&taken, b"new").is_err());
        let mut names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "taken"]);
        assert!(taken.join("inside").is_dir());
    }
}
