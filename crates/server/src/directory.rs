//! A directory tree that is served, and the check that files stay inside it.
//!
//! Files are opened by `openat2` with `RESOLVE_BENEATH`: the kernel itself refuses every path out of the root, including by
//! symbolic links and concurrent renames. A link that stays inside is followed; an absolute one is not. Where the kernel
//! (before 5.6) or a sandbox has no `openat2`, the path is walked segment by segment and no symbolic link is followed at all.
//!
//! Reads first ask for what the page cache holds (`RESOLVE_CACHED`, `RWF_NOWAIT`), which never waits for a disk; only
//! what is not there is left to a thread that may wait.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::error::ServeError;

/// The root of what is served.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    has_openat2: AtomicBool,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) descriptor: OwnedFd,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may: the caller is on a thread for that.
    Allowed,
    /// It must not, and fails with `EAGAIN` instead.
    Never,
}

/// `openat2` may fail because of a rename in the tree meanwhile; then it is tried again.
const ATTEMPTS: u32 = 8;
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

impl Root {
    /// Opens the root.
    pub(crate) fn open(path: &Path) -> Result<Root, ServeError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
            let (rule, hint) = match errno {
                Errno::NOENT => {
                    ("the directory does not exist", "`webstone genfiles` creates the files of a workload")
                }
                Errno::NOTDIR => ("this is not a directory", "name the directory with the files"),
                Errno::ACCESS => ("permission denied", "make it readable for this user"),
                _ => ("the directory cannot be opened", "check the path"),
            };
            ServeError::option("--root", &path.display().to_string(), rule, hint)
        })?;
        Ok(Root { directory, has_openat2: AtomicBool::new(true) })
    }

    /// Opens a regular file by its path below the root, which `path::below_root` made. Anything else than a regular
    /// file, and anything outside, is `ENOENT`.
    pub(crate) fn open_file(&self, below: &[u8], wait: Wait) -> Result<OpenFile, Errno> {
        let descriptor = self.open_below(below, wait)?;
        let stat = rustix::fs::fstat(&descriptor)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::NOENT);
        }
        let since_epoch = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
        Ok(OpenFile {
            descriptor,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: UNIX_EPOCH + since_epoch,
        })
    }

    fn open_below(&self, below: &[u8], wait: Wait) -> Result<OwnedFd, Errno> {
        if !self.has_openat2.load(Ordering::Relaxed) {
            return self.walk(below);
        }
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if wait == Wait::Never {
            resolve |= ResolveFlags::CACHED;
        }
        let mut attempt = 1;
        loop {
            match rustix::fs::openat2(&self.directory, below, READ, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if wait == Wait::Allowed && attempt < ATTEMPTS => attempt += 1,
                Err(Errno::NOSYS | Errno::PERM) => {
                    // A sandbox answers EPERM for calls that it does not know; a file answers EACCES.
                    self.has_openat2.store(false, Ordering::Relaxed);
                    return self.walk(below);
                }
                // A path out of the root is "not found", which says nothing about what is there.
                Err(Errno::XDEV | Errno::LOOP) => return Err(Errno::NOENT),
                result => return result,
            }
        }
    }

    /// Opens segment by segment, following no symbolic link.
    fn walk(&self, below: &[u8]) -> Result<OwnedFd, Errno> {
        let mut segments = below.split(|byte| *byte == b'/').peekable();
        let mut directory: Option<OwnedFd> = None;
        while let Some(segment) = segments.next() {
            // `below_root` removes both; checked again here, because here they would lead out.
            if matches!(segment, b"" | b"." | b"..") {
                return Err(Errno::NOENT);
            }
            let at: BorrowedFd<'_> = directory.as_ref().map_or(self.directory.as_fd(), AsFd::as_fd);
            let last = segments.peek().is_none();
            let flags = if last { READ } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
            let next = rustix::fs::openat(at, segment, flags | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| if errno == Errno::LOOP { Errno::NOENT } else { errno })?;
            if last {
                return Ok(next);
            }
            directory = Some(next);
        }
        Err(Errno::NOENT)
    }
}

impl OpenFile {
    /// Reads at most `limit` bytes at `offset`; fewer only if the page cache or the file ends.
    pub(crate) fn read_at(&self, offset: u64, limit: usize, wait: Wait) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; limit];
        let flags = if wait == Wait::Never { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
        let read = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            match rustix::io::preadv2(&self.descriptor, &mut slices, offset, flags) {
                Err(Errno::INTR) => {}
                // This file system cannot tell what is in memory.
                Err(Errno::OPNOTSUPP) if wait == Wait::Never => return Err(Errno::AGAIN),
                result => break result?,
            }
        };
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads the whole file; `None` if it became shorter meanwhile. May wait for the disk.
    pub(crate) fn read_whole(&self) -> Result<Option<Vec<u8>>, Errno> {
        let size = usize::try_from(self.size).map_err(|_| Errno::FBIG)?;
        let mut whole = self.read_at(0, size, Wait::Allowed)?;
        while whole.len() < size {
            let more = self.read_at(whole.len() as u64, size - whole.len(), Wait::Allowed)?;
            if more.is_empty() {
                return Ok(None);
            }
            whole.extend_from_slice(&more);
        }
        Ok(Some(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Root) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("sub/file"), "inside").unwrap();
        symlink("../secret", root.join("out-relative")).unwrap();
        symlink(outer.path().join("secret"), root.join("out-absolute")).unwrap();
        symlink("..", root.join("out-directory")).unwrap();
        symlink("sub/file", root.join("inside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        let opened = Root::open(&root).unwrap();
        (outer, opened)
    }

    fn read(root: &Root, path: &str) -> Result<String, Errno> {
        let file = root.open_file(path.as_bytes(), Wait::Allowed)?;
        Ok(String::from_utf8(file.read_whole()?.unwrap()).unwrap())
    }

    #[test]
    fn the_kernel_keeps_links_inside() {
        let (_outer, root) = tree();
        assert_eq!(read(&root, "sub/file").unwrap(), "inside");
        assert_eq!(read(&root, "inside").unwrap(), "inside");
        for path in [
            "out-relative",
            "out-absolute",
            "out-directory/secret",
            "../secret",
            "sub/../../secret",
            "/etc/passwd",
            "magic/etc/passwd",
            "loop",
            "sub",
            "missing",
        ] {
            assert_eq!(read(&root, path).unwrap_err(), Errno::NOENT, "{path}");
        }
        assert_eq!(read(&root, "sub/file/x").unwrap_err(), Errno::NOTDIR);
    }

    #[test]
    fn without_openat2_no_link_is_followed() {
        let (_outer, root) = tree();
        root.has_openat2.store(false, Ordering::Relaxed);
        assert_eq!(read(&root, "sub/file").unwrap(), "inside");
        for path in
            ["inside", "out-relative", "out-absolute", "out-directory/secret", "../secret", "loop", "sub", ""]
        {
            assert!(read(&root, path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_root_that_is_missing_is_named() {
        let error = Root::open(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.what.contains("--root /no/such/directory"), "{error}");
        assert!(error.hint.unwrap().contains("genfiles"));
        assert!(Root::open(Path::new("/etc/passwd")).unwrap_err().what.contains("not a directory"));
    }
}
