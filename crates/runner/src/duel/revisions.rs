//! Revisions of a repository, each in a worktree of its own, built there. The worktrees go when the duel is over, even one that is killed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use webstone_lab::interrupt::Interrupt;
use webstone_store::scratch::Scratch;
use webstone_store::without_number;

use super::DuelNews;
use super::contestants::Build;
use crate::run::RunError;
use crate::under_test::program;

/// Last lines of a failed build that are shown.
const LINES_SHOWN: usize = 20;
/// How often it is checked whether a build has ended.
const POLL: Duration = Duration::from_millis(50);

/// How long an interrupted build may take to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// See the module comment.
pub(super) struct Revisions {
    repository: PathBuf,
    /// By revision, as given: its directory and its commit.
    there: BTreeMap<String, (PathBuf, Option<String>)>,
    _scratch: Scratch,
}

/// Whether git knows it as a commit.
pub(super) fn is_revision(repository: &Path, word: &str) -> bool {
    !word.starts_with('-') && commit(repository, word).is_some()
}

fn commit(repository: &Path, word: &str) -> Option<String> {
    git(repository, &["rev-parse", "--verify", "--quiet", &format!("{word}^{{commit}}")]).ok()
}

impl Revisions {
    /// Checks out and builds each revision once. `None` without revisions.
    pub(super) fn check_out(
        asked: &[(&str, &Build)],
        told: &mut dyn FnMut(DuelNews<'_>),
        interrupt: &Interrupt,
    ) -> Result<Option<Revisions>, RunError> {
        let Some((_, build)) = asked.first() else { return Ok(None) };
        let failed = |what: String, hint: &str| RunError::Refused { what, hint: hint.to_owned() };
        // Servers are started in directories of their own.
        let repository = std::path::absolute(&build.repository).map_err(|error| {
            failed(
                format!("{}: {}", build.repository.display(), without_number(&error)),
                "give the repository's path: --repository DIR",
            )
        })?;
        let mut scratch = Scratch::create("duel", &program()?).map_err(|error| {
            failed(format!("cannot make a directory for worktrees: {error}"), "name another: TMPDIR=/var/tmp")
        })?;
        // The user that servers run as has to get to them; nobody can guess the name.
        let open = std::fs::Permissions::from_mode(0o711);
        let _ = std::fs::set_permissions(scratch.path(), open);
        scratch.holds_worktrees_of(&repository);
        // Duels that were killed together with their guards left worktrees that git still lists.
        let _ = git(&repository, &["worktree", "prune"]);
        let mut revisions = Revisions { repository, there: BTreeMap::new(), _scratch: scratch };
        for (number, (revision, build)) in asked.iter().enumerate() {
            if revisions.there.contains_key(*revision) {
                continue;
            }
            let (directory, commit) = match *revision {
                "." => (revisions.repository.clone(), None),
                revision => {
                    let directory = revisions._scratch.path().join(number.to_string());
                    let commit = commit(&revisions.repository, revision);
                    let path = directory.display().to_string();
                    let at = commit.clone().unwrap_or_default();
                    git(&revisions.repository, &["worktree", "add", "--quiet", "--detach", &path, &at])
                        .map_err(|said| {
                            failed(
                                format!("{revision} cannot be checked out: {said}"),
                                "see `git worktree list`",
                            )
                        })?;
                    (directory, commit)
                }
            };
            revisions.there.insert((*revision).to_owned(), (directory.clone(), commit));
            if let Some(command) = &build.command {
                told(DuelNews::Preparing(&format!("building {revision}: {command}")));
                built(&directory, command, interrupt).map_err(|what| {
                    failed(
                        format!("{revision}: {what}"),
                        "the build runs in a fresh checkout: what it needs must be committed",
                    )
                })?;
            }
        }
        Ok(Some(revisions))
    }

    /// The command line that serves a revision from its directory, and the commit that it is.
    pub(super) fn served(&self, revision: &str, build: &Build) -> Result<(String, Option<String>), RunError> {
        let (directory, commit) = &self.there[revision];
        let serve = build.serve.clone().unwrap_or_default();
        if !serve.contains("{port}") {
            return Err(RunError::Refused {
                what: format!(
                    "--serve: `{serve}`: {{port}} is missing: the server could not know where to listen"
                ),
                hint: "write it as for a shell: --serve './target/release/app --port {port}'".to_owned(),
            });
        }
        let path = directory.display().to_string();
        let path = shlex::try_quote(&path).map(|path| path.into_owned()).unwrap_or_default();
        Ok((format!("env --chdir={path} {serve}"), commit.clone()))
    }
}

impl Drop for Revisions {
    fn drop(&mut self) {
        for (directory, _) in self.there.values().filter(|(directory, _)| *directory != self.repository) {
            let path = directory.display().to_string();
            let _ = git(&self.repository, &["worktree", "remove", "--force", &path]);
        }
    }
}

/// Runs a build, through a shell as it was typed, in a process group of its own, with which all of it ends. What it prints goes nowhere
/// unless it fails.
fn built(directory: &Path, command: &str, interrupt: &Interrupt) -> Result<(), String> {
    let log = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let (out, err) = (log.reopen(), log.reopen());
    let (Ok(out), Ok(err)) = (out, err) else { return Err("its output cannot be kept".to_owned()) };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("`{command}` cannot be started: {error}"))?;
    let status = loop {
        if interrupt.count() > 0 {
            end(&mut child, interrupt);
            return Err("the build was interrupted".to_owned());
        }
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read(log.path()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n  ");
    Err(format!("`{command}` failed ({status}); it said:\n  {last}"))
}

/// Ends a build with all that it started: it may tidy up first, unless the user interrupts again.
fn end(child: &mut Child, interrupt: &Interrupt) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < END_PATIENCE && interrupt.count() < 2 && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(POLL);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Runs git, and returns what it prints, or what it complains of.
fn git(repository: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git cannot be started: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| git(directory.path(), arguments).unwrap();
        run(&["init", "--quiet"]);
        for text in ["one", "two"] {
            std::fs::write(directory.path().join("file"), text).unwrap();
            run(&["add", "file"]);
            run(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", text]);
        }
        directory
    }

    #[test]
    fn a_build_that_fails_says_what_it_said() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        assert_eq!(built(directory.path(), "echo x > made", &interrupt), Ok(()));
        assert!(directory.path().join("made").exists());
        let error = built(directory.path(), "echo no such crate >&2; exit 7", &interrupt).unwrap_err();
        assert!(error.contains("exit status: 7") && error.contains("\n  no such crate"), "{error}");
        interrupt.raise();
        assert!(built(directory.path(), "sleep 60", &interrupt).unwrap_err().contains("interrupted"));
    }

    /// Whether a process is there, and no zombie.
    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    }

    #[test]
    fn all_that_a_build_started_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let raises = std::sync::Arc::clone(&interrupt);
        let file = directory.path().join("pid");
        let text = move || std::fs::read_to_string(&file).unwrap_or_default();
        let started = text.clone();
        let user = std::thread::spawn(move || {
            let begun = Instant::now();
            while !started().ends_with('\n') && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(POLL);
            }
            raises.raise();
        });
        // The shell waits for a child that does not heed what a terminal sends.
        let build = "(trap '' INT TERM; sleep 600 & echo $! > pid; wait; wait)";
        assert!(built(directory.path(), build, &interrupt).unwrap_err().contains("interrupted"));
        user.join().unwrap();
        let (pid, ended) = (text(), Instant::now());
        while is_alive(pid.trim()) && ended.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(POLL);
        }
        assert!(!pid.is_empty() && !is_alive(pid.trim()), "{pid}");
    }

    #[test]
    fn revisions_are_told_from_other_words() {
        let there = repository();
        assert!(is_revision(there.path(), "HEAD") && is_revision(there.path(), "HEAD~1"));
        assert!(!is_revision(there.path(), "HEAD~7") && !is_revision(there.path(), "--all"));
        assert!(!is_revision(Path::new("/proc"), "HEAD"));
    }
}
