//! What a platform must provide to a worker: this trait, and nothing else, is where a back end plugs in. Sockets, the clock
//! and sleep all lie behind it, so that the same worker runs on the kernel's network or on a simulated one.
//!
//! It is edge-triggered readiness. A worker is compiled once for each back end: no call through here is dynamic.

use std::io;
use std::os::fd::AsFd;

use super::{Address, Connect, Received, Source, Ticks};

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

/// A worker's half of the operating system: a clock, descriptors that report, sockets that are written and read.
///
/// Connections are known by their index, which is small and dense. Within one index there is one socket at a time.
pub(crate) trait Backend {
    /// A non-blocking stream socket.
    type Socket;

    /// Its name in records.
    const NAME: &'static str;

    /// The clock: monotonic, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Sleeps until the clock shows `at_ns`. For the time before a level begins: nothing is reported meanwhile.
    fn sleep_until(&mut self, at_ns: u64);

    /// Stays awake until the clock shows `at_ns`, and gives what it shows then.
    fn spin_until(&mut self, at_ns: u64) -> u64;

    /// Watches a descriptor that is not a connection, as long as the loop lives: it reports `readable` under `token`.
    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()>;

    /// From now on reports `readable` under `token` once in `period_ns`, less than a second, as long as
    /// [`Backend::take_ticks`] follows each report. Called once.
    fn tick_every(&mut self, period_ns: u64, token: u64) -> io::Result<()>;

    /// Takes the reports of [`Backend::tick_every`] so far back; `None` where there was none.
    fn take_ticks(&mut self) -> Option<Ticks>;

    /// A new socket for an address, bound to `source` where one is given, which reports under `index`.
    fn open(&mut self, index: u32, address: &Address, source: Option<Source>) -> io::Result<Self::Socket>;

    /// Closes a socket.
    fn close(&mut self, socket: Self::Socket);

    /// Starts to connect; `writable` or `error` tells the end.
    fn connect(&mut self, socket: &Self::Socket, address: &Address) -> io::Result<Connect>;

    /// The error that an attempt to connect ended in.
    fn connect_error(&mut self, socket: &Self::Socket) -> Option<io::Error>;

    /// How long the handshake took for the kernel, in nanoseconds. Asked before anything is sent. `None` where that is not known.
    fn handshake_ns(&self, socket: &Self::Socket) -> Option<u64>;

    /// Writes what the socket takes: how many bytes, 0 when it takes none for now; `writable` tells when it does again.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Receives; the bytes are in [`Backend::bytes`] until the next call that receives.
    /// A result shorter than [`Backend::receives_most`] proves that nothing more is there for now.
    fn receive(&mut self, socket: &Self::Socket) -> io::Result<Received>;

    /// Has the kernel note when what this socket receives came in; before its first use for a connection.
    fn stamp(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// [`Backend::receive`] on a socket that [`Backend::stamp`] was called for. Beside what it gives: how long the last of
    /// these bytes had been in the kernel, in nanoseconds.
    fn receive_stamped(&mut self, socket: &Self::Socket) -> io::Result<(Received, Option<u64>)>;

    /// The most that one [`Backend::receive`] gives.
    fn receives_most(&self) -> usize;

    /// From now on says `readable` when this many bytes are there, or the end, and not before. A kernel that cannot goes on to say so
    /// of each byte.
    fn awaits(&mut self, socket: &Self::Socket, bytes: u32);

    /// The first `n` bytes of what was received last.
    fn bytes(&self, n: usize) -> &[u8];

    /// Throws up to `most` bytes of a TCP stream away, unseen; at most [`DISCARD_BYTES`].
    fn discard(&mut self, socket: &Self::Socket, most: usize) -> io::Result<Received>;

    /// Says farewell: no more bytes from this side.
    fn shutdown_write(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Ends the connection so that [`Backend::connect`] may be called again. The peer sees a reset unless both sides had said
    /// farewell before.
    fn disconnect(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Makes closing the socket end its connection with a reset, at once and without TIME_WAIT.
    fn reset_on_close(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Waits up to `timeout_ns`, or until there is an event where that is [`WITHOUT_END`], and returns how many there are.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// The event of a number below what [`Backend::wait`] returned.
    fn event(&self, number: usize) -> Event;
}

/// A wait that only an event ends: it arms no timer.
pub(crate) const WITHOUT_END: u64 = u64::MAX;
/// Most body bytes thrown away by one call.
pub(crate) const DISCARD_BYTES: usize = 4 * 1024 * 1024;
