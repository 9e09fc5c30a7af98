//! Whether the user that servers run as can run a program: found by asking the kernel as that user, because modes, access
//! control lists and mounts all matter. A program that this user cannot run does not count as installed, even if root can run
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::only_inherited;
use super::program::folders;
use super::site::{self, User};
use crate::machine::Root;

/// The kernel follows this many interpreters of interpreters (`BINPRM_MAX_RECURSION`).
const INTERPRETERS_MAX: u32 = 4;
/// Links that the kernel follows (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;
/// Bytes of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE_MAX: u64 = 256;

/// A program, or a file that one loads, that is there and that the user of servers cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Where it is.
    pub path: PathBuf,
    /// The user that servers run as.
    pub user: String,
    /// What that user cannot do, in words: `cannot enter /root`.
    pub why: String,
}

impl fmt::Display for Unusable {
    /// `/root/bin/uvicorn: www-data, as which servers run, cannot enter /root`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, as which servers run, {}", self.path.display(), self.user, self.why)
    }
}

impl Unusable {
    /// What to do about it.
    pub const HINT: &'static str =
        "install it where every user can run it, as in /usr/local/bin, or let that user into its directory";
}

/// Checks that the user of servers can run a program, with the interpreter that it names.
///
/// # Errors
/// What keeps that user from it.
pub(super) fn runs(program: &Path) -> Result<(), Unusable> {
    checked(program, |path| refused_to_run(path, 0))
}

/// Checks that the user of servers can read a file.
///
/// # Errors
/// What keeps that user from it.
pub(super) fn reads(file: &Path) -> Result<(), Unusable> {
    checked(file, |path| refused(path, Access::READ_OK, "read"))
}

/// Checks that a program starts as the user of servers, asked for its version: a script may lack what it imports. Each is started
/// once.
///
/// # Errors
/// The last that it said.
pub(super) fn starts(program: &Path) -> Result<(), Unusable> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Option<String>>> = Mutex::new(BTreeMap::new());
    let user = site::user(&Root::default());
    let ask = || {
        let mut command = Command::new(program);
        only_inherited(&mut command);
        command.arg("--version").current_dir("/").stdin(Stdio::null());
        if let Some(user) = &user {
            command.uid(user.id).gid(user.group);
        }
        match command.output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Some(said.lines().last().unwrap_or("it ended at once").to_owned())
            }
            Err(error) => Some(error.to_string()),
        }
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match known.entry(program.to_owned()).or_insert_with(ask) {
        None => Ok(()),
        Some(said) => Err(Unusable {
            path: program.to_owned(),
            user: user.as_ref().map_or_else(|| "this user".to_owned(), |user| user.name.clone()),
            why: format!("cannot start it: {said}"),
        }),
    }
}

/// Checks that the user of servers can make files in a directory.
///
/// # Errors
/// What keeps that user from it.
pub(super) fn writes(directory: &Path) -> Result<(), Unusable> {
    checked(directory, |path| refused(path, Access::WRITE_OK | Access::EXEC_OK, "write to"))
}

fn checked(path: &Path, why: impl Fn(&Path) -> Option<String> + Send + Sync) -> Result<(), Unusable> {
    // As webstone's own user if it has no more rights.
    let Some(user) = site::user(&Root::default()) else { return Ok(()) };
    match as_user(&user, || why(path)) {
        Some(why) => Err(Unusable { path: path.to_owned(), user: user.name, why }),
        None => Ok(()),
    }
}

/// Checks something as another user, on a thread of its own, because identities are per thread. `None` if the thread cannot
/// become that user: then the server will fail with a message.
fn as_user<T: Send>(user: &User, ask: impl FnOnce() -> Option<T> + Send) -> Option<T> {
    let becomes = || {
        let (group, id) = (Gid::from_raw(user.group), Uid::from_raw(user.id));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(id, id, id)
    };
    std::thread::scope(|scope| scope.spawn(|| becomes().ok().and_then(|()| ask())).join().ok()?)
}

/// Why the user of this thread cannot run a program.
fn refused_to_run(program: &Path, depth: u32) -> Option<String> {
    let why = refused(program, Access::EXEC_OK, "run");
    if why.is_some() || depth == INTERPRETERS_MAX {
        return why;
    }
    // A file that this user cannot read counts as a program: the kernel runs those, too.
    let line = first_line(program)?;
    let mut words = line.split_ascii_whitespace();
    let interpreter = Path::new(words.next()?);
    let interpreter = match interpreter.file_name() {
        Some(name) if name == "env" => {
            let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
            let name = words.find(is_name)?;
            // An absolute path is itself in every folder.
            let all: Vec<PathBuf> = folders().map(|folder| folder.join(name)).collect();
            let runs = all.iter().find(|path| access(path.as_path(), Access::EXEC_OK).is_ok());
            let is_closed = |path: &&PathBuf| access(path.as_path(), Access::EXEC_OK) == Err(Errno::ACCESS);
            runs.or_else(|| all.iter().find(is_closed)).cloned().unwrap_or_else(|| interpreter.to_owned())
        }
        _ => interpreter.to_owned(),
    };
    refused_to_run(&interpreter, depth + 1)
        .map(|why| format!("{why} (its interpreter is {})", interpreter.display()))
}

/// What the user of this thread may not do with a file, in words.
fn refused(path: &Path, wanted: Access, verb: &str) -> Option<String> {
    access(path, wanted).err()?;
    // Where a link leads is a way of its own.
    let mut way = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = way.parent().unwrap_or(&way);
        let folders: Vec<&Path> = folder.ancestors().collect();
        let closed = folders.iter().rev().find(|folder| access(**folder, Access::EXEC_OK).is_err());
        if let Some(folder) = closed {
            return Some(format!("cannot enter {}", folder.display()));
        }
        let Ok(target) = way.read_link() else { break };
        way = folder.join(target);
    }
    Some(format!("may not {verb} {}", path.display()))
}

/// What follows `#!` in a script's first line.
fn first_line(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn script(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_the_servers_user_cannot_run_is_told_with_what_keeps_it_from_it() {
        let Some(user) = site::user(&Root::default()) else {
            println!("skipped: servers run as this user, who may run what it finds");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let (hidden, open) = (closed.join("uvicorn"), dir.path().join("open"));
        script(&hidden, "#!/bin/sh\n", 0o755);
        script(&open, "#!/bin/sh\n", 0o755);
        let why = |path: &Path| runs(path).err().map(|found| found.why);
        assert_eq!(why(&open), None);
        assert_eq!(why(Path::new("/bin/sh")), None);
        let is_closed = Some(format!("cannot enter {}", closed.display()));
        assert_eq!(why(&hidden), is_closed);
        let link = dir.path().join("link");
        symlink(&hidden, &link).unwrap();
        assert_eq!(why(&link), is_closed, "where a link leads");
        let own = dir.path().join("own");
        script(&own, "#!/bin/sh\n", 0o700);
        assert_eq!(why(&own), Some(format!("may not run {}", own.display())));
        for line in [format!("{} -x", hidden.display()), format!("/usr/bin/env {}", hidden.display())] {
            script(&open, &format!("#! {line}\nx\n"), 0o755);
            let told = format!("cannot enter {} (its interpreter is {})", closed.display(), hidden.display());
            assert_eq!(why(&open), Some(told));
        }
        assert_eq!(
            reads(&hidden).unwrap_err().to_string(),
            format!(
                "{}: {}, as which servers run, cannot enter {}",
                hidden.display(),
                user.name,
                closed.display()
            )
        );
        assert_eq!(
            writes(&closed.join("own")).unwrap_err().why,
            format!("cannot enter {}", closed.display())
        );
        assert_eq!(writes(dir.path()).unwrap_err().why, format!("may not write to {}", dir.path().display()));
        let lacking = dir.path().join("lacking");
        script(
            &lacking,
            "#!/bin/sh\necho 'Traceback:' >&2\necho \"No module named 'x'\" >&2\nexit 1\n",
            0o755,
        );
        assert_eq!(starts(&lacking).unwrap_err().why, "cannot start it: No module named 'x'");
        assert_eq!(starts(Path::new("/bin/true")), Ok(()));
        // This thread has its own identity again.
        assert!(rustix::process::geteuid().is_root() && fs::read(&hidden).is_ok());
    }
}
