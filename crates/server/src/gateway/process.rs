//! A handler's process: started in a group of its own, ended with everything that is in the group, waited for without
//! holding up the event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, ready};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    prlimit, waitid,
};
use tokio::io::unix::AsyncFd;
use webstone_model::servers::is_inherited;

use crate::readiness;

/// Waits for killed processes, on a thread of its own, because others must not block.
#[derive(Clone, Debug)]
pub(super) struct Reaper(Sender<Child>);

impl Reaper {
    pub(super) fn start() -> io::Result<Reaper> {
        let (sender, children) = channel::<Child>();
        std::thread::Builder::new().name("reaper".to_owned()).spawn(move || {
            for mut child in children {
                // Killed already: this takes as long as the kernel does.
                let _ = child.wait();
            }
        })?;
        Ok(Reaper(sender))
    }
}

/// A handler gets only those variables of the server's environment that every program needs.
pub(super) fn only_inherited(command: &mut Command) {
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_inherited)));
}

/// A process. When it ends, what it left behind in its group is killed; dropped before that, it is killed with its group.
#[derive(Debug)]
pub(super) struct Process {
    /// `None` when it has been waited for.
    child: Option<Child>,
    ended: Option<AsyncFd<OwnedFd>>,
    reaper: Reaper,
}

impl Process {
    /// Starts it. Blocks for as long as the kernel takes to start a program.
    pub(super) fn spawn(mut command: Command, reaper: Reaper) -> io::Result<Process> {
        let child = command.process_group(0).spawn()?;
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        // A program that crashes for each request would fill the disk with core files.
        let _ = prlimit(Some(Pid::from_child(&child)), Resource::Core, none);
        Ok(Process { child: Some(child), ended: None, reaper })
    }

    /// The process, to take its pipes from.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// How it ended, when it has.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        loop {
            let Some(child) = &mut self.child else {
                return Poll::Ready(Err(io::Error::other("it was waited for before")));
            };
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if waitid(WaitId::Pid(Pid::from_child(child)), look)?.is_some() {
                kill_group(child);
                let status = child.wait()?;
                self.child = None;
                return Poll::Ready(Ok(status));
            }
            let ended = match &self.ended {
                Some(ended) => ended,
                None => {
                    let descriptor = pidfd_open(Pid::from_child(child), PidfdFlags::NONBLOCK)?;
                    self.ended.insert(readiness::readable(descriptor)?)
                }
            };
            // Once it can be read, it stays so.
            ready!(ended.poll_read_ready(cx))?.retain_ready();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        kill_group(&child);
        // The reaper lives as long as there is anybody to send to it.
        let _ = self.reaper.0.send(child);
    }
}

/// Kills what is in the group of a process that has not been waited for yet, so that the number is still its own.
fn kill_group(child: &Child) {
    // There may be nobody left in it.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}
