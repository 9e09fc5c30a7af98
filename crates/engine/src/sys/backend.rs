//! What a platform must provide to an event loop: this trait, and nothing else, is where a back end plugs in.
//!
//! It is shaped like edge-triggered readiness, because a back end that completes operations can imitate that at no cost
//! (an event brings its bytes along, and [`Backend::receive`] hands them out), while the reverse would cost a copy or a
//! state machine. A worker is compiled once for each back end: no call through here is dynamic.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use webstone_model::spec;

use super::{Address, Connect, Received, Ring, Socket};

/// What one descriptor has to tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The connection's index, or what a descriptor was watched under.
    pub(crate) token: u64,
    /// The peer will send no more: end of stream, hang-up or error. Receive to learn which.
    pub(crate) ended: bool,
    /// An error is pending.
    pub(crate) error: bool,
    /// Bytes, or the end, can be received.
    pub(crate) readable: bool,
    /// Bytes can be written; a connection stands.
    pub(crate) writable: bool,
}

/// What an event loop needs to know beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Request bytes that do not change while the loop lives; [`Outgoing::Planned`] points into them.
    pub(crate) requests: Arc<Vec<u8>>,
    /// Connections that are to be expected at a time.
    pub(crate) connections: usize,
    /// Connections last, so that what is paid once for each is worth it.
    pub(crate) keeps_connections: bool,
    /// Bodies are received, and not thrown away where [`Backend::DISCARDS`] allows it.
    pub(crate) receives_bodies: bool,
}

/// Bytes to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing<'a> {
    /// From `start` up to `end` of [`Setup::requests`].
    Planned { start: usize, end: usize },
    /// Bytes that may change as soon as the call returns.
    Filled(&'a [u8]),
}

impl Outgoing<'_> {
    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Outgoing::Planned { start, end } => end - start,
            Outgoing::Filled(bytes) => bytes.len(),
        }
    }
}

/// An event loop's half of the operating system: descriptors that report, sockets that are written and read.
///
/// Connections are known by their index, which is small and dense. Within one index there is one socket at a time.
pub(crate) trait Backend: Sized {
    /// Its name in records.
    const NAME: &'static str;
    /// Whether [`Backend::discard`] works. Where not, every body is received.
    const DISCARDS: bool;
    /// Whether a socket that was disconnected may be connected again.
    const REUSES_SOCKETS: bool;

    /// An event loop. Must be called by the thread that will run it.
    fn new(setup: Setup) -> io::Result<Self>;

    /// Watches a descriptor that is no connection, as long as the loop lives: it reports `readable` under `token`.
    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()>;

    /// Takes on a new socket under an index whose last socket, if any, was forgotten.
    fn add(&mut self, index: u32, socket: &Socket) -> io::Result<()>;

    /// Starts to connect; `writable` or `error` tells the end.
    fn connect(&mut self, index: u32, socket: &Socket, address: &Address) -> io::Result<Connect>;

    /// Writes what the socket takes: how many bytes, 0 when it takes none for now; `writable` tells when it does again.
    /// A back end may take over all bytes and write them before it next waits; if that fails, [`Backend::receive`] tells.
    fn send(&mut self, index: u32, socket: &Socket, bytes: Outgoing<'_>) -> io::Result<usize>;

    /// Receives; the bytes are in [`Backend::bytes`] until the next call that receives, discards or takes an event.
    /// A result shorter than [`Backend::receives_most`] proves that nothing more is there for now.
    fn receive(&mut self, index: u32, socket: &Socket) -> io::Result<Received>;

    /// Has the kernel note when what this socket receives came in; before its first use for a connection.
    fn stamp(&mut self, index: u32, socket: &Socket) -> io::Result<()>;

    /// [`Backend::receive`] on a socket that [`Backend::stamp`] was called for. Beside what it gives: how long the last of
    /// these bytes had been in the kernel, in nanoseconds.
    fn receive_stamped(&mut self, index: u32, socket: &Socket) -> io::Result<(Received, Option<u64>)>;

    /// The most that one [`Backend::receive`] gives.
    fn receives_most(&self) -> usize;

    /// The first `n` bytes of what was received last.
    fn bytes(&self, n: usize) -> &[u8];

    /// Throws up to `most` bytes of a TCP stream away, unseen; at most [`DISCARD_BYTES`].
    fn discard(&mut self, socket: &Socket, most: usize) -> io::Result<Received>;

    /// The socket of an index is about to be closed: nothing that it still has to tell matters.
    fn forget(&mut self, index: u32, socket: &Socket);

    /// Waits up to `timeout_ns`, or until there is an event where that is [`WITHOUT_END`], and returns how many there are.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// The event of a number below what [`Backend::wait`] returned; each is taken once, in order. `None` for those that
    /// mean nothing any more.
    fn event(&mut self, number: usize) -> Option<Event>;
}

/// The back ends that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Epoll,
    IoUring,
}

impl Choice {
    /// The one that is asked for, or that serves best.
    ///
    /// # Errors
    /// If io_uring is asked for and the kernel lacks it, or what is needed of it.
    pub(crate) fn of(asked: spec::Backend) -> io::Result<Choice> {
        match asked {
            // See ARCHITECTURE.md: io_uring is as cheap for small answers on kept connections, and dearer elsewhere.
            spec::Backend::Auto | spec::Backend::Epoll => Ok(Choice::Epoll),
            spec::Backend::IoUring => {
                Ring::new(Setup { connections: 1, ..Setup::default() })?;
                Ok(Choice::IoUring)
            }
        }
    }
}

/// A wait that only an event ends: it arms no timer.
pub(crate) const WITHOUT_END: u64 = u64::MAX;
/// Most body bytes thrown away by one call.
pub(crate) const DISCARD_BYTES: usize = 4 * 1024 * 1024;
