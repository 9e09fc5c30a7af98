//! Runs the program as a shell would do, and keeps its output.

use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The result of one call of the program.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error, without what is said of a busy machine: what other programs use, and that the check takes longer than a second.
    pub(crate) err: String,
}

/// The program's path.
pub(crate) fn program() -> String {
    assert_cmd::cargo::cargo_bin!("webstone").display().to_string()
}

/// A call of the program in a directory, with an environment that does not depend on a developer's shell.
pub(crate) fn command(dir: &Path, arguments: &[&str]) -> Command {
    // `env` becomes the program. Signals that are ignored here, as with `nohup` or in the background of a script,
    // would also be ignored there.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT").arg(assert_cmd::cargo::cargo_bin!("webstone"));
    command.current_dir(dir).args(arguments).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    // No calibration of this machine must be quoted.
    command.env("XDG_DATA_HOME", dir.join("data"));
    // Every record that a test measures must verify; records that a test forges or damages were valid before.
    command.env("WEBSTONE_VERIFY_RECORDS", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Calls the program in a directory.
pub(crate) fn webstone_in(dir: &Path, arguments: &[&str]) -> Said {
    said(&mut command(dir, arguments))
}

/// Runs a command to its end.
pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let is_of_machine = |line: &&str| {
        line.starts_with("warning: other programs used ")
            || (line.starts_with("checking ") && line.ends_with(" …\n"))
    };
    let said = Said {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: err.split_inclusive('\n').filter(|line| !is_of_machine(line)).collect(),
    };
    assert_verified(&said);
    said
}

/// Every record that a test leaves must verify, whatever it expects.
fn assert_verified(said: &Said) {
    assert!(!said.err.contains("the record that was just stored does not verify"), "{}", said.err);
}

/// Calls the program in an empty directory that is removed afterwards.
pub(crate) fn webstone(arguments: &[&str]) -> Said {
    webstone_in(tempfile::tempdir().unwrap().path(), arguments)
}

/// `webstone serve`, ended when this is dropped.
pub(crate) struct Server {
    /// The process.
    pub(crate) child: Child,
    /// Its URL.
    pub(crate) url: String,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the server on a free port and waits until it is ready.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Server {
        let mut command =
            command(dir, &[&["serve", "--until-stdin-closes", "--test-handlers"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line.strip_prefix("READY ").unwrap_or_else(|| panic!("{line:?}")).trim_end().to_owned();
        Server { stdin: child.stdin.take(), child, url, out }
    }

    /// Closes its standard input and waits: the exit code, and the rest of its output.
    pub(crate) fn end(mut self) -> Said {
        drop(self.stdin.take());
        let code = self.child.wait().unwrap().code().expect("ended by itself");
        let mut said = Said { code, out: String::new(), err: String::new() };
        self.out.read_to_string(&mut said.out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut said.err).unwrap();
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A running run, whose progress is read line by line.
pub(crate) struct Running {
    /// The process.
    pub(crate) child: Child,
    err: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts a run.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Running {
        Running::spawn(&mut command(dir, arguments))
    }

    /// Starts a run from a command.
    pub(crate) fn spawn(command: &mut Command) -> Running {
        let mut child = command.spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, err }
    }

    /// Waits for a line of standard error with this beginning, and returns it.
    pub(crate) fn wait_for(&mut self, start: &str) -> String {
        let found = self.err.by_ref().map_while(Result::ok).find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no line begins with {start:?}"))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until the window of its first level is open, by the file of its `--events`.
    pub(crate) fn wait_for_window(&self, events: &Path) {
        let until = Instant::now() + Duration::from_secs(60);
        while !std::fs::read_to_string(events).unwrap_or_default().contains("\"measuring\"") {
            assert!(Instant::now() < until, "the window opens");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for its end: the exit code (−1 if a signal ended it), and the rest of its output.
    pub(crate) fn end(mut self) -> Said {
        let mut stdout = self.child.stdout.take().unwrap();
        // Both at the same time: neither pipe may fill up while the other is read.
        let reader = std::thread::spawn(move || {
            let mut out = String::new();
            stdout.read_to_string(&mut out).unwrap();
            out
        });
        let err: Vec<String> = self.err.by_ref().map_while(Result::ok).collect();
        let out = reader.join().unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let said = Said { code, out, err: err.join("\n") };
        assert_verified(&said);
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The only entry of a directory.
pub(crate) fn only_entry(dir: &Path) -> std::path::PathBuf {
    let entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].clone()
}

/// A short run on a slow machine may have figures that cannot be trusted, but the test is not about figures.
pub(crate) fn assert_ended(said: &Said) {
    assert!([0, 4].contains(&said.code), "{}: {}", said.code, said.err);
}
