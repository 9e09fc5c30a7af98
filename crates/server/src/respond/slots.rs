//! Processes for request slots: one that listens and starts the others, each of which is the same program with the
//! listening socket as its standard input, as FastCGI has it (`FCGI_LISTENSOCK_FILENO`). The first ends when one of the
//! others does, and the others end with the first.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, WaitOptions, getppid, set_parent_process_death_signal, wait};
use rustix::stdio::stdin;

use super::answer::Opening;
use super::listening::serve;
use super::protocol::{FastCgi, Scgi, Uwsgi};
use crate::error::ServeError;
use crate::listener::{Address, Listener};

/// Connections that may wait for a free slot.
const BACKLOG: u32 = 1024;
/// Stands in an address for the number of the slot.
const SLOT: &str = "{slot}";

webstone_measure::named! {
    /// A protocol of a listening responder.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Responder:
    /// FastCGI 1.0.
    FastCgi "fastcgi",
    /// SCGI.
    Scgi "scgi",
    /// The protocol of uwsgi.
    Uwsgi "uwsgi",
}

impl Responder {
    fn serve(self, listener: &OwnedFd) -> io::Result<()> {
        match self {
            Responder::FastCgi => serve::<FastCgi>(listener, Opening::StatusField),
            Responder::Scgi => serve::<Scgi>(listener, Opening::StatusField),
            Responder::Uwsgi => serve::<Uwsgi>(listener, Opening::StatusLine),
        }
    }
}

/// Slots to be opened.
#[derive(Clone, Debug)]
pub struct Slots {
    /// The protocol.
    pub responder: Responder,
    /// Where: `unix:/path`, or an address and port. With `{slot}` in it, each process listens at an address of its own,
    /// numbered from 0; without, all share one.
    pub listen: String,
    /// Processes; at least one.
    pub processes: u32,
    /// This program.
    pub program: PathBuf,
}

/// Why there is no responder.
#[derive(Debug, thiserror::Error)]
pub enum RespondError {
    /// The address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ServeError),
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
    /// A process ended that should not.
    #[error("a process of the responder ended")]
    Ended,
}

/// Listens and keeps the slots. Returns only if something fails; the processes then end.
///
/// # Errors
/// See [`RespondError`].
pub fn respond_listening(slots: &Slots) -> Result<std::convert::Infallible, RespondError> {
    let system = |what| move |source: io::Error| RespondError::System { what, source };
    let processes = slots.processes.max(1);
    let addresses: Vec<String> = match slots.listen.contains(SLOT) {
        true => (0..processes).map(|slot| slots.listen.replace(SLOT, &slot.to_string())).collect(),
        false => vec![slots.listen.clone()],
    };
    let mut listeners = Vec::new();
    for address in &addresses {
        for address in Address::parse_list(address)? {
            listeners.push(Listener::bind(&address, BACKLOG)?);
        }
    }
    let mut children = Vec::new();
    for (_, listener) in (0..processes).zip(listeners.iter().cycle()) {
        let start = || -> io::Result<Child> {
            let mut command = Command::new(&slots.program);
            command.args(["respond", slots.responder.name(), "--beneath", &std::process::id().to_string()]);
            command.stdin(Stdio::from(listener.socket.try_clone()?)).stdout(Stdio::null()).spawn()
        };
        children.push(start().map_err(system("cannot start a process of the responder"))?);
    }
    // Whichever ends first.
    let ended = wait(WaitOptions::empty());
    for child in &mut children {
        // One that has ended already needs no signal.
        let _ = child.kill();
    }
    ended.map_err(io::Error::from).map_err(system("cannot wait for the processes of the responder"))?;
    Err(RespondError::Ended)
}

/// One slot: answers at the listening socket that is its standard input. With `beneath`, it ends with that parent.
/// Returns only if something fails.
///
/// # Errors
/// Standard input is not a listening socket, or the parent is gone.
pub fn respond_slot(responder: Responder, beneath: Option<u32>) -> io::Result<()> {
    if let Some(parent) = beneath {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // If the parent ended before that, no signal comes.
        if getppid().is_none_or(|found| found.as_raw_nonzero().get().unsigned_abs() != parent) {
            return Err(io::Error::other("the process that started it has ended"));
        }
    }
    responder.serve(&stdin().try_clone_to_owned()?)
}
