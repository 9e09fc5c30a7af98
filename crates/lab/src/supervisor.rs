//! The process between webstone and another server, so that the server never outlives the run: not if webstone is killed
//! (SIGKILL, too), and not if the server forks, daemonises or changes its process group.
//!
//! It is webstone's own executable, started as a [`Child`]. It holds the reading end of a pipe whose other end only webstone
//! has: when that closes, for whatever reason, it ends the server and all its descendants, removes the run's directory of the
//! server, and ends. Orphans come to it because it is a subreaper (`PR_SET_CHILD_SUBREAPER`), so none escapes by a double fork.
//! The server itself is started through a second, short step in the child: it asks the kernel for SIGKILL in case the
//! supervisor dies first (`PR_SET_PDEATHSIG`), takes its CPUs, and becomes the server.
//!
//! What it says on standard output is read by `servers::running`: `STARTED <pid>`, later `ENDED <how>`.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::attended::in_words;
use crate::child::{CHILD, Child};
use crate::limits::raise_descriptors;
use crate::machine::Root;
use crate::own_group::OwnGroup;
use crate::process_use::descendants;
use webstone_store::plain_file;

/// Printed when the server's process runs, with its identifier.
pub(crate) const STARTED: &str = "STARTED ";
/// Printed when nothing of the server runs any more, with how its first process ended.
pub(crate) const ENDED: &str = "ENDED ";
/// The supervisor's executable, even if the server's user may not enter its directory.
const SELF: &str = "/proc/self/exe";
/// How long a server may take to end on SIGTERM.
const TERM_PATIENCE: Duration = Duration::from_millis(1_500);
/// How long the kernel may take to end killed processes.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Descriptors that a server may open, as far as the hard limit lets it: services have more than a login's 1,024.
const SERVER_DESCRIPTORS: u64 = 65_536;

/// A server to be supervised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Supervision {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Programs that it needs and their arguments, started before it. They end with it, and it with any of them.
    pub companions: Vec<Vec<OsString>>,
    /// CPUs to run on; empty: all that this process may use.
    pub cpus: Vec<u32>,
    /// User and group to become; only a privileged process can.
    pub user: Option<(u32, u32)>,
    /// File that receives the server's standard output.
    pub output: Option<PathBuf>,
    /// Directory to remove in the end.
    pub remove: Option<PathBuf>,
}

/// What wakes the supervisor.
enum Event {
    /// The run is over: its end of the pipe closed, or a signal came.
    Over,
    /// A child ended.
    Ended(Pid, ExitStatus),
    /// No child is left.
    Alone,
}

/// Starts the server and waits for it. Returns when it and all its descendants have ended and the run is over. `say` tells the
/// run what happened.
///
/// # Errors
/// The operating system's error if the server cannot be started at all.
pub fn supervise(what: &Supervision, say: &mut dyn FnMut(String)) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // Before the server starts, so that a signal in between cannot leave one running.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    raise_descriptors(SERVER_DESCRIPTORS);
    let group = OwnGroup::join();
    let companions =
        what.companions.iter().map(|words| start(what, words, None)).collect::<io::Result<Vec<Pid>>>()?;
    let server = start(what, &what.words, what.output.as_deref())?;
    say(format!("{STARTED}{}", server.as_raw_nonzero()));
    let events = listen(signals);
    let mut supervisor =
        Supervisor { server, companions, status: None, broken: None, alone: false, is_over: false };
    supervisor.until_over(&events, say);
    supervisor.end_all(&events);
    drop(group);
    if let Some(directory) = &what.remove {
        // Files of the server's user may be in use for a moment longer; a missing directory is no error.
        for _ in 0..3 {
            if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The second step, in the child, before it becomes the server. Returns only if it fails.
pub fn become_server(words: &[OsString], cpus: &[u32], supervisor: u32) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // If the supervisor died before that, no signal comes.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != supervisor) {
        return io::Error::other("the supervisor is gone");
    }
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu as usize));
        if let Err(error) = sched_setaffinity(None, &set) {
            return error.into();
        }
    }
    let [program, arguments @ ..] = words else {
        return io::Error::other("no program was given");
    };
    Command::new(program).args(arguments).stdin(Stdio::null()).exec()
}

/// Starts the second step as the server's user.
fn start(what: &Supervision, words: &[OsString], standard_output: Option<&Path>) -> io::Result<Pid> {
    let mut command = Command::new(SELF);
    command.arg(CHILD).stdin(Stdio::piped()).stdout(output(standard_output)?);
    if let Some((user, group)) = what.user {
        command.uid(user).gid(group);
    }
    let mut child = command.spawn().map_err(|error| match what.user {
        // The second step is this program still.
        Some((user, _)) if error.kind() == io::ErrorKind::PermissionDenied => io::Error::other(format!(
            "the user {user} may not execute {}, which starts the server",
            std::env::current_exe().unwrap_or_default().display()
        )),
        _ => error,
    })?;
    // The pipe ends here: the server itself has no standard input.
    if let Some(mut stdin) = child.stdin.take() {
        let supervisor = std::process::id();
        let told = Child::Supervised { supervisor, words: words.to_vec(), cpus: what.cpus.clone() };
        told.tell(&mut stdin)?;
    }
    Ok(Pid::from_child(&child))
}

fn output(file: Option<&Path>) -> io::Result<Stdio> {
    Ok(match file {
        // The server's user may have put a link there.
        Some(path) => plain_file::emptied(path)?.into(),
        None => Stdio::null(),
    })
}

/// Everything that can wake the supervisor, from three threads that sleep.
fn listen(mut signals: Signals) -> Receiver<Event> {
    let (sender, events) = channel();
    let by_signal = sender.clone();
    std::thread::spawn(move || signals.forever().for_each(|_| drop(by_signal.send(Event::Over))));
    let by_pipe = sender.clone();
    std::thread::spawn(move || {
        // Nothing more is sent: only the end of the pipe counts.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        drop(by_pipe.send(Event::Over));
    });
    std::thread::spawn(move || reap(&sender));
    events
}

/// Waits for every child, orphans among them, until there is none.
fn reap(events: &Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                let _ = events.send(Event::Ended(pid, status));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(Event::Alone);
                return;
            }
        }
    }
}

struct Supervisor {
    server: Pid,
    /// First processes of its companions.
    companions: Vec<Pid>,
    /// How one of them ended.
    broken: Option<ExitStatus>,
    /// How the server's first process ended.
    status: Option<ExitStatus>,
    alone: bool,
    is_over: bool,
}

impl Supervisor {
    /// Waits for the end of the run. If the server ends before, that is reported at once; if it fails, its children are ended.
    fn until_over(&mut self, events: &Receiver<Event>, say: &mut dyn FnMut(String)) {
        while !self.is_over {
            let Ok(event) = events.recv() else { return };
            let was_alone = self.alone;
            self.take(event);
            if !self.alone && (self.broken.is_some() || self.status.is_some_and(|status| !status.success())) {
                signal_all(Signal::KILL);
            }
            if self.alone && !was_alone {
                let how = match self.broken {
                    Some(status) => format!("a process behind it ended: {}", in_words(status)),
                    None => self.status.map_or_else(|| "it is gone".to_owned(), in_words),
                };
                say(format!("{ENDED}{how}"));
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Over => self.is_over = true,
            Event::Alone => self.alone = true,
            Event::Ended(pid, status) if pid == self.server => self.status = Some(status),
            // If the server ended first, its end counts.
            Event::Ended(pid, status) if self.companions.contains(&pid) && self.status.is_none() => {
                self.broken = Some(status);
            }
            Event::Ended(..) => {}
        }
    }

    /// Ends all processes: the server's first process gets SIGTERM, so that it can end its workers; the rest is killed, with
    /// all descendants.
    fn end_all(&mut self, events: &Receiver<Event>) {
        if self.alone {
            return;
        }
        match self.status {
            None => {
                for pid in self.companions.iter().chain([&self.server]) {
                    // One that has ended needs no signal.
                    let _ = kill_process(*pid, Signal::TERM);
                }
            }
            // It left others behind, as daemons do.
            Some(_) => signal_all(Signal::TERM),
        }
        if self.alone_within(TERM_PATIENCE, events) {
            return;
        }
        let until = Instant::now() + KILL_PATIENCE;
        while Instant::now() < until {
            signal_all(Signal::KILL);
            // A process that is just being forked is found the next time.
            if self.alone_within(Duration::from_millis(50), events) {
                return;
            }
        }
    }

    fn alone_within(&mut self, patience: Duration, events: &Receiver<Event>) -> bool {
        let until = Instant::now() + patience;
        while !self.alone {
            let left = until.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(event) => self.take(event),
                Err(_) => return false,
            }
        }
        true
    }
}

fn signal_all(signal: Signal) {
    for pid in descendants(&Root::default(), std::process::id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}
