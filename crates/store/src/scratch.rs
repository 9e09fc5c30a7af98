//! Directories that are removed after a run, however this process ends.
//!
//! A process that is killed with SIGKILL removes nothing. So before a directory is made, webstone's own executable is started
//! once more as its guard (`webstone supervise --remove DIR`), holding the reading end of a pipe. When that closes, the guard
//! removes the directory and ends. Git keeps a list of its worktrees: a guard that was told of a repository has git forget
//! those that are gone with the directory. If both are killed at once, the directory stays; making a new one removes those that no
//! process has locked any more.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};

/// Beginning of the name of every such directory.
const PREFIX: &str = "webstone-";
/// How old a directory must be to count as abandoned: it is locked microseconds after it is made.
const ABANDONED_AGE: Duration = Duration::from_secs(60);
/// How long the guard tries to remove a directory that a server may still be writing into.
const GUARD_TRIES: u32 = 200;
const GUARD_PAUSE: Duration = Duration::from_millis(50);

/// A directory, removed when dropped, or when this process has died.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    guard: Option<Child>,
    /// Locked, so that it does not look abandoned.
    _lock: File,
}

impl Scratch {
    /// Makes one in the system's directory for temporary files, for this user alone. `webstone` is this program's executable.
    pub fn create(kind: &str, webstone: &Path) -> io::Result<Scratch> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent);
        // Nobody can guess the name, and an existing file makes the next step fail.
        let number = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let path = parent.join(format!("{PREFIX}{kind}-{number:016x}"));
        let guard = Command::new(webstone)
            .args([OsStr::new("supervise"), OsStr::new("--remove"), path.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on a terminal is for the guarded process.
            .process_group(0)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .spawn();
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| {
            let lock = open(&path)?;
            flock(&lock, FlockOperation::NonBlockingLockShared)?;
            Ok(lock)
        });
        // Without a guard it is still removed, except after SIGKILL.
        let mut guard = guard.ok();
        match made {
            Ok(lock) => Ok(Scratch { path, guard, _lock: lock }),
            Err(error) => {
                guard.iter_mut().for_each(dismiss);
                Err(error)
            }
        }
    }

    /// Has the guard tell a repository, by its absolute path, that worktrees in the directory are gone with it.
    pub fn holds_worktrees_of(&mut self, repository: &Path) {
        if let Some(stdin) = self.guard.as_mut().and_then(|guard| guard.stdin.as_mut()) {
            let _ = stdin.write_all(&[repository.as_os_str().as_bytes(), b"\n"].concat());
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        self.guard.iter_mut().for_each(dismiss);
    }
}

/// Lets a guard end, and waits for it.
fn dismiss(guard: &mut Child) {
    drop(guard.stdin.take());
    let _ = guard.wait();
}

/// The guard's program: waits for the end of standard input, then removes the directory, and has the repositories that it read
/// there, a path in a line, forget worktrees that are gone.
///
/// # Errors
/// If webstone did not make the directory, or it cannot be removed.
pub fn guard(directory: &Path) -> io::Result<()> {
    let named = directory.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX));
    if !named {
        return Err(io::Error::other(format!("its name does not begin with {PREFIX}")));
    }
    // Only the end of the pipe counts: a signal to all processes would end its holder, too.
    let _signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ])?;
    let mut repositories = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut repositories);
    let removed = removed(directory);
    for repository in repositories.split(|byte| *byte == b'\n').filter(|path| !path.is_empty()) {
        let mut git = Command::new("git");
        let git = git.arg("-C").arg(OsStr::from_bytes(repository)).args(["worktree", "prune"]);
        let _ = git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    removed
}

fn removed(directory: &Path) -> io::Result<()> {
    let mut last = Ok(());
    for _ in 0..GUARD_TRIES {
        last = fs::remove_dir_all(directory);
        match &last {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !directory.exists() => return Ok(()),
            Err(_) => std::thread::sleep(GUARD_PAUSE),
        }
    }
    last
}

/// Opens a directory itself, not what a link leads to.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Removes the directories of runs that were killed together with their guards.
fn remove_abandoned(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let kinds = ["server-", "archive-", "agent-", "duel-"].map(|kind| format!("{PREFIX}{kind}"));
        let is_ours = |name: &str| kinds.iter().any(|kind| name.starts_with(kind.as_str()));
        if !name.to_str().is_some_and(is_ours) {
            continue;
        }
        let path = entry.path();
        let Ok(held) = open(&path) else { continue };
        let Ok(found) = held.metadata() else { continue };
        let now = SystemTime::now();
        let is_old =
            found.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ABANDONED_AGE));
        if found.uid() == own && is_old && flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_directory_is_removed_and_one_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("x"), "").unwrap();
            let opened = open(&path).unwrap();
            opened.set_modified(SystemTime::now() - 2 * ABANDONED_AGE).unwrap();
            (path, opened)
        };
        let (abandoned, opened) = make("webstone-server-1");
        drop(opened);
        let (held, lock) = make("webstone-archive-2");
        flock(&lock, FlockOperation::NonBlockingLockShared).unwrap();
        // A controller sends private keys.
        let (keys, opened) = make("webstone-agent-5");
        drop(opened);
        let (other, _opened) = make("webstone-results");
        let young = parent.path().join("webstone-server-3");
        fs::create_dir(&young).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("webstone-server-4")).unwrap();
        remove_abandoned(parent.path());
        assert!(!abandoned.exists() && !keys.exists() && held.exists() && young.exists());
        assert!(other.join("x").exists(), "a link is not followed");
        drop(lock);
    }

    #[test]
    fn nothing_but_its_own_is_guarded() {
        let directory = tempfile::tempdir().unwrap();
        assert!(guard(directory.path()).is_err());
        assert!(directory.path().exists());
    }

    #[test]
    fn it_is_gone_with_its_owner() {
        let scratch = Scratch::create("test", Path::new("/bin/true")).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(path.join("x"), "").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
