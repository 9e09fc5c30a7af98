//! Starting runs. A run inherits neither the front's low priority nor its CPUs nor its terminal: the thread that starts runs keeps those
//! that the front was started with. A run outlives the front.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use webstone_store::clock;

use crate::process::Process;
use crate::registry::{Entry, Place, ProcessEnd};

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The command: `run`, `servers` …
    pub(crate) command: String,
    /// The run's name.
    pub(crate) name: String,
    /// What is run.
    pub(crate) what: What,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A testbed file, by its text.
    Testbed(String),
    /// The unmeasured rest of a series, by its directory.
    Rest(PathBuf),
}

type Answer = io::Result<Place>;

/// Where a run finds its testbed: what it is given as standard input is a file without a name, which is gone with the run. So a
/// secret in it is in memory only, and nobody has to remove it.
const TESTBED: &str = "/dev/stdin";

/// Name of the thread that starts runs.
pub(crate) const THREAD: &str = "launcher";

/// The thread that starts runs.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    orders: Sender<(Order, Sender<Answer>)>,
}

impl Launcher {
    /// Starts the thread, which keeps the priority and the CPUs of its caller.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(crate) fn start(program: PathBuf, runs_dir: PathBuf) -> io::Result<Launcher> {
        let (orders, to_start) = channel();
        let (begins, begun) = channel();
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        thread.spawn(move || {
            let _ = begins.send(());
            obey(&to_start, &program, &runs_dir);
        })?;
        // A thread has its name, by which its CPUs are left alone, only once it runs.
        let _ = begun.recv();
        Ok(Launcher { orders })
    }

    /// Starts a run.
    ///
    /// # Errors
    /// If its files cannot be written, or the program cannot be started.
    pub(crate) fn launch(&self, order: Order) -> Answer {
        let (answer, answered) = channel();
        let gone = || io::Error::other("the thread that starts runs has ended");
        self.orders.send((order, answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

fn obey(orders: &Receiver<(Order, Sender<Answer>)>, program: &Path, runs_dir: &Path) {
    for (order, answer) in orders {
        // The caller may have gone; the run continues.
        let _ = answer.send(start(&order, program, runs_dir));
    }
}

fn start(order: &Order, program: &Path, runs_dir: &Path) -> Answer {
    let mut entry = Entry {
        command: order.command.clone(),
        name: order.name.clone(),
        command_line: Vec::new(),
        started: clock::rfc3339(SystemTime::now()),
        in_terminal: false,
        process: None,
    };
    let place = Place::create(runs_dir, &entry)?;
    let output = place.new_file(&place.output())?;
    // If the run made this file, everybody could read it.
    place.new_file(&place.events())?;
    let mut run = Command::new(program);
    run.arg(&order.command);
    match &order.what {
        What::Testbed(text) => run.args(["-f", TESTBED]).stdin(nameless(text)?),
        What::Rest(series) => run.arg("--resume").arg(series).stdin(Stdio::null()),
    };
    run.arg("--events").arg(place.events()).arg("--runs-dir").arg(runs_dir);
    run.args(["--color", "never"]);
    // A group of its own: Ctrl-C in the front's terminal is the front's.
    run.stdout(output.try_clone()?).stderr(output).process_group(0);
    let words = std::iter::once(program.as_os_str()).chain(run.get_args());
    entry.command_line = words.map(|word| word.to_string_lossy().into_owned()).collect();
    // Without its process it would look like a run that is on.
    let mut child = run.spawn().inspect_err(|_| place.remove())?;
    entry.process = Process::by_id(child.id()).ok();
    place.write(&entry)?;
    let watched = place.clone();
    let waits = std::thread::Builder::new().name("waits".to_owned()).spawn(move || {
        let end = child.wait().map_or_else(|_| ProcessEnd::default(), |end| ProcessEnd { code: end.code() });
        if let Err(error) = watched.note_end(&end) {
            tracing::warn!(%error, "how a run ended was not noted");
        }
    });
    waits.map(|_| place)
}

/// A text as a file in memory, for this user alone.
fn nameless(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("testbed", MemfdFlags::CLOEXEC)?);
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that stands for webstone: it prints what it was given and ends with a code.
    fn program(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn waited_for(place: &Place) -> ProcessEnd {
        for _ in 0..6000 {
            if let Some(end) = place.process_end() {
                return end;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the process did not end within a minute");
    }

    #[test]
    fn a_run_is_given_its_testbed_and_its_end_is_noted() {
        let directory = tempfile::tempdir().unwrap();
        let runs = directory.path().join("runs");
        let program =
            program(directory.path(), "echo \"$@\"; cat \"$3\"; stat -L -c %a \"$3\"; echo gone >&2; exit 4");
        let launcher = Launcher::start(program, runs.clone()).unwrap();
        let order =
            Order { command: "run".into(), name: "a".into(), what: What::Testbed("name = \"a\"\n".into()) };
        let place = launcher.launch(order).unwrap();
        assert_eq!(waited_for(&place), ProcessEnd { code: Some(4) });
        let printed = std::fs::read_to_string(place.output()).unwrap();
        let words = format!(
            "run -f /dev/stdin --events {} --runs-dir {} --color never\nname = \"a\"\n600\ngone\n",
            place.events().display(),
            runs.display()
        );
        assert_eq!(printed, words);
        assert!(!place.entry().unwrap().process.unwrap().is_alive());
        // What a run was given, and what it says, is for its user alone.
        for (path, mode) in [(place.output(), 0o600), (place.events(), 0o600), (runs.join(".live"), 0o700)] {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
        }
        assert_eq!(
            std::fs::metadata(place.output().parent().unwrap()).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let launcher = Launcher::start("/nonexistent".into(), directory.path().join("runs")).unwrap();
        let order = Order { command: "run".into(), name: "a".into(), what: What::Testbed(String::new()) };
        assert_eq!(launcher.launch(order).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(
            crate::registry::places(&directory.path().join("runs")).is_empty(),
            "nothing looks as if it ran"
        );
    }
}
