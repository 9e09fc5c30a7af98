//! What a platform must provide to a worker. This trait is the only place where a back end plugs in: sockets, the
//! clock and sleep are all part of it, so that the same worker runs on the kernel's network or on a simulated one.
//!
//! Readiness is edge-triggered. A worker is compiled once for each back end: no call through here is dynamic.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::{Address, Connect, Datagrams, Received, Source, Spare, Ticks};

/// What happened on one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The connection's index, or the token that a descriptor is watched under.
    pub(crate) token: u64,
    /// The peer will send no more: end of stream, hang-up or error. Receive to learn which.
    pub(crate) ended: bool,
    /// An error is pending.
    pub(crate) error: bool,
    /// Bytes, or the end, can be received.
    pub(crate) readable: bool,
    /// Bytes can be written; a connection is established.
    pub(crate) writable: bool,
}

/// A worker's operating system: a clock, descriptors that report, sockets to read and write.
///
/// Connections are known by their index, which is small and dense. Within one index there is one socket at a time.
pub(crate) trait Backend {
    /// A non-blocking socket, for a stream or for datagrams.
    type Socket;

    /// Its name in records.
    const NAME: &'static str;

    /// The clock: monotonic, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Sleeps until the clock shows `at_ns`. For the time before a level begins: nothing is reported meanwhile.
    fn sleep_until(&mut self, at_ns: u64);

    /// Spins until the clock shows `at_ns` or later, and returns what it shows.
    fn spin_until(&mut self, at_ns: u64) -> u64;

    /// Watches a descriptor that is not a connection, for as long as the loop exists: it reports `readable` under
    /// `token`.
    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()>;

    /// From now on reports `readable` under `token` once every `period_ns` (less than a second), provided that
    /// [`Backend::take_ticks`] follows each report. To be called once.
    fn tick_every(&mut self, period_ns: u64, token: u64) -> io::Result<()>;

    /// Acknowledges the reports of [`Backend::tick_every`] so far; `None` if there was none.
    fn take_ticks(&mut self) -> Option<Ticks>;

    /// A new socket for an address, bound to `source` if given, whose events have the token `index`.
    fn open(&mut self, index: u32, address: &Address, source: Option<Source>) -> io::Result<Self::Socket>;

    /// Closes a socket.
    fn close(&mut self, socket: Self::Socket);

    /// Starts to connect; `writable` or `error` reports the result.
    fn connect(&mut self, socket: &Self::Socket, address: &Address) -> io::Result<Connect>;

    /// The error of a failed connect.
    fn connect_error(&mut self, socket: &Self::Socket) -> Option<io::Error>;

    /// The address that a connection comes from; `None` where it has none, as over a Unix socket.
    fn local_address(&self, socket: &Self::Socket) -> Option<SocketAddr>;

    /// How long the handshake took for the kernel, in nanoseconds. To be called before anything is sent. `None` if
    /// unknown.
    fn handshake_ns(&self, socket: &Self::Socket) -> Option<u64>;

    /// Sends as much as the socket takes, and returns how many bytes; 0 if it takes none for now. Then `writable`
    /// reports when it does again.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Receives; the bytes are in [`Backend::bytes`] until the next call that receives. A result shorter than
    /// [`Backend::receives_most`] means that there is nothing more for now.
    fn receive(&mut self, socket: &Self::Socket) -> io::Result<Received>;

    /// [`Backend::receive`] of no more than `most` bytes.
    fn receive_up_to(&mut self, socket: &Self::Socket, most: usize) -> io::Result<Received>;

    /// Number of bytes that could be received now.
    fn queued(&self, socket: &Self::Socket) -> usize;

    /// Bounds what the kernel receives ahead of the reader, to about this many bytes. To be called before the socket
    /// is first connected.
    fn bound_queue(&mut self, socket: &Self::Socket, bytes: u32);

    /// Has the kernel note when bytes arrive at this socket. To be called before it is first connected.
    fn stamp(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// [`Backend::receive`] on a socket for which [`Backend::stamp`] was called. Also returns how long the last of
    /// these bytes had been in the kernel, in nanoseconds.
    fn receive_stamped(&mut self, socket: &Self::Socket) -> io::Result<(Received, Option<u64>)>;

    /// The most that one [`Backend::receive`] returns.
    fn receives_most(&self) -> usize;

    /// From now on reports `readable` only when this many bytes have arrived, or the end. A kernel that cannot do
    /// that still reports every byte.
    fn awaits(&mut self, socket: &Self::Socket, bytes: u32);

    /// The first `n` bytes of what was received last.
    fn bytes(&self, n: usize) -> &[u8];

    /// Discards up to `most` bytes of a TCP stream unread; at most [`DISCARD_BYTES`].
    fn discard(&mut self, socket: &Self::Socket, most: usize) -> io::Result<Received>;

    /// Closes the sending side.
    fn shutdown_write(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Ends the connection so that [`Backend::connect`] may be called again. The peer sees a reset unless both sides
    /// had closed their sending sides before.
    fn disconnect(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Makes closing the socket reset its connection, at once and without TIME_WAIT.
    fn reset_on_close(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// A new socket for datagrams to and from this address only, bound to `source` if given; `is_ect`: it marks them ECT(0). Its events
    /// have the token `index`, report `readable` only, and come until the socket is empty.
    fn open_datagrams(
        &mut self,
        index: u32,
        address: &SocketAddr,
        source: Option<Source>,
        is_ect: bool,
    ) -> io::Result<Self::Socket>;

    /// Closes a socket of [`Backend::open_datagrams`] that was bound to no source, or keeps it to be opened again: nothing that arrived
    /// for it is received then, and it has another port.
    fn spare_datagrams(&mut self, spare: Spare<Self::Socket>) {
        self.close(spare.socket);
    }

    /// Makes a socket's queue long enough for what a server sends of large bodies, and has [`Datagrams::dropped`] count.
    fn lengthen_queue(&mut self, _socket: &Self::Socket) {}

    /// From now on, marks datagrams ECT(0) or does not.
    fn mark_datagrams(&mut self, socket: &Self::Socket, address: &SocketAddr, is_ect: bool);

    /// Sends datagrams of `segment` bytes each; the last may be shorter. Returns whether all were sent: those that the socket did not
    /// take are lost.
    fn send_datagrams(&mut self, socket: &Self::Socket, bytes: &[u8], segment: usize) -> io::Result<bool>;

    /// Receives datagrams in batches, `most` or fewer, and returns how many batches. They are in [`Backend::batch`] until the next call
    /// that receives. 0: nothing for now.
    fn receive_datagrams(&mut self, socket: &Self::Socket, most: usize) -> io::Result<usize>;

    /// A batch of what was received last, and its bytes, to be decrypted in place.
    fn batch(&mut self, number: usize) -> (Datagrams, &mut [u8]);

    /// Waits for events up to `timeout_ns`, or without limit if that is [`WITHOUT_END`], and returns how many there
    /// are.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// An event by its number, below what [`Backend::wait`] returned.
    fn event(&self, number: usize) -> Event;
}

/// A wait without limit: it arms no timer.
pub(crate) const WITHOUT_END: u64 = u64::MAX;
/// Maximum number of body bytes discarded by one call.
pub(crate) const DISCARD_BYTES: usize = 4 * 1024 * 1024;
