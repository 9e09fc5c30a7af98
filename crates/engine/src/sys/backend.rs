//! What a platform must provide to an event loop: this trait, and nothing else, is where a back end plugs in.
//!
//! It is edge-triggered readiness. A worker is compiled once for each back end: no call through here is dynamic. There is one,
//! beside those of tests that need a network which does as it is told.

use std::io;
use std::os::fd::AsFd;

use super::{Address, Connect, Received, Socket};

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

/// An event loop's half of the operating system: descriptors that report, sockets that are written and read.
///
/// Connections are known by their index, which is small and dense. Within one index there is one socket at a time.
pub(crate) trait Backend: Sized {
    /// Its name in records.
    const NAME: &'static str;

    /// An event loop. `receives_bodies`: they are received, and not thrown away.
    fn new(receives_bodies: bool) -> io::Result<Self>;

    /// Watches a descriptor that is no connection, as long as the loop lives: it reports `readable` under `token`.
    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()>;

    /// Takes on a new socket under an index whose last socket, if any, is about to be closed.
    fn add(&mut self, index: u32, socket: &Socket) -> io::Result<()>;

    /// Starts to connect; `writable` or `error` tells the end.
    fn connect(&mut self, index: u32, socket: &Socket, address: &Address) -> io::Result<Connect>;

    /// Writes what the socket takes: how many bytes, 0 when it takes none for now; `writable` tells when it does again.
    fn send(&mut self, index: u32, socket: &Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Receives; the bytes are in [`Backend::bytes`] until the next call that receives.
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

    /// Waits up to `timeout_ns`, or until there is an event where that is [`WITHOUT_END`], and returns how many there are.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// The event of a number below what [`Backend::wait`] returned.
    fn event(&self, number: usize) -> Event;
}

/// A wait that only an event ends: it arms no timer.
pub(crate) const WITHOUT_END: u64 = u64::MAX;
/// Most body bytes thrown away by one call.
pub(crate) const DISCARD_BYTES: usize = 4 * 1024 * 1024;
