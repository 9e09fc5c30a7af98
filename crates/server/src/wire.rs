//! The stream of one connection: counted, and open to handlers that have to write past hyper.
//!
//! hyper reads and writes through [`WireIo`]; a handler that produces a fault uses the same [`Wire`] directly. Both
//! run on the connection's one task, so a `RefCell` is enough.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::counters::{Count, Tally};
use crate::shard::Shard;

/// Bytes read at once. A request head is far smaller; a larger read saves calls on request bodies.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// An accepted connection of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, slices) {
            (Stream::Tcp(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Stream::Tcp(stream), many) => Pin::new(stream).poll_write_vectored(cx, many),
            (Stream::Unix(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Stream::Unix(stream), many) => Pin::new(stream).poll_write_vectored(cx, many),
        }
    }
}

/// One connection's stream with what is known of it.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: RefCell<Stream>,
    shard: Rc<Shard>,
    /// Who is at the other end; `None` for Unix sockets.
    pub(crate) peer: Option<IpAddr>,
    /// What this connection has added to the counters.
    pub(crate) tally: Tally,
    /// How often everything that hyper had buffered was handed over.
    flushes: Cell<u64>,
    flushed: RefCell<Option<Waker>>,
    /// hyper holds bytes that the operating system did not take.
    blocked: Cell<bool>,
    /// A handler ended the connection: hyper must not touch it again.
    ended: Cell<bool>,
    /// The client has closed its side, or the connection failed.
    read_to_end: Cell<bool>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, peer: Option<IpAddr>, shard: Rc<Shard>) -> Wire {
        let tally = Tally::accepted(&shard.tally);
        Wire {
            stream: RefCell::new(stream),
            shard,
            peer,
            tally,
            flushes: Cell::new(0),
            flushed: RefCell::new(None),
            blocked: Cell::new(false),
            ended: Cell::new(false),
            read_to_end: Cell::new(false),
        }
    }

    /// This end's address; `None` for Unix sockets.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match &*self.stream.borrow() {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Whether a handler ended the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// How often everything buffered has been handed to the operating system.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.get()
    }

    /// Ready once everything was handed over after the moment at which `flushes` was read.
    pub(crate) fn poll_flushed(&self, cx: &mut Context<'_>, flushes: u64) -> Poll<()> {
        if self.flushes.get() != flushes {
            return Poll::Ready(());
        }
        *self.flushed.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until hyper holds no bytes of earlier answers, so that bytes written now follow them.
    pub(crate) async fn drained(&self) {
        while self.blocked.get() {
            let flushes = self.flushes.get();
            poll_fn(|cx| self.poll_flushed(cx, flushes)).await;
        }
    }

    /// Writes past hyper, all of it.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write_counted(cx, &[IoSlice::new(bytes)])).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Reads and drops what the client sends: `Ok(0)` when it has closed its side.
    pub(crate) async fn discard(&self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_counted(cx, READ_BYTES, |_| {})).await
    }

    /// Ends the connection with a reset instead of a FIN: what the kernel has not sent yet is lost.
    pub(crate) fn reset(&self) {
        if let Stream::Tcp(stream) = &*self.stream.borrow() {
            // A Unix socket has no reset; its peer sees the end of the stream. Nor can setting it fail on an open
            // TCP socket; were it to, the connection would end with a FIN.
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
        self.ended.set(true);
    }

    /// Ends the connection with a FIN after what was written.
    pub(crate) fn close(&self) {
        self.ended.set(true);
    }

    /// Before the descriptor is closed: where the client has sent more than was read, closing would reset the
    /// connection and might destroy the answer on its way. Then the sending side is shut first and the rest is read.
    /// Costs no system call where nothing has arrived.
    pub(crate) async fn linger(&self) {
        if self.has_ended() || self.read_to_end.get() {
            return;
        }
        let arrived = poll_fn(|cx| Poll::Ready(self.poll_read_counted(cx, READ_BYTES, |_| {}))).await;
        let Poll::Ready(Ok(1..)) = arrived else { return };
        let shut = match &*self.stream.borrow() {
            Stream::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
            Stream::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
        };
        let rest = async { while let Ok(1..) = self.discard().await {} };
        if shut.is_ok() {
            // Whether the client closes in time or not, the connection ends here.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), rest).await;
        }
    }

    /// One read of at most `limit` bytes, given to `use_bytes` and counted.
    fn poll_read_counted(
        &self,
        cx: &mut Context<'_>,
        limit: usize,
        use_bytes: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        // The thread's one buffer: hyper's own is uninitialised memory, which safe code cannot hand to a system call.
        // Copying the few hundred bytes of a request head costs less than clearing a buffer for it.
        let mut scratch = self.shard.scratch.borrow_mut();
        let limit = limit.min(scratch.len());
        let mut buffer = ReadBuf::new(&mut scratch[..limit]);
        let result = ready!(self.stream.borrow_mut().poll_read(cx, &mut buffer));
        let bytes = buffer.filled();
        if bytes.is_empty() {
            self.read_to_end.set(true);
        }
        result?;
        self.tally.add(Count::BytesReceived, bytes.len() as u64);
        use_bytes(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// One write, counted before it is made and corrected afterwards (see `counters`).
    fn poll_write_counted(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        self.tally.add(Count::BytesSent, offered as u64);
        let result = self.stream.borrow_mut().poll_write(cx, slices);
        let written = if let Poll::Ready(Ok(written)) = &result { *written } else { 0 };
        if written < offered {
            self.tally.take_back(Count::BytesSent, (offered - written) as u64);
        }
        result
    }

    fn set_blocked(&self, blocked: bool) {
        if self.blocked.replace(blocked) != blocked {
            self.tally.block().set_blocked(blocked);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.set_blocked(false);
    }
}

/// What hyper sees of a [`Wire`].
#[derive(Debug)]
pub(crate) struct WireIo(pub(crate) Rc<Wire>);

impl hyper::rt::Read for WireIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let limit = buffer.remaining();
        self.0.poll_read_counted(cx, limit, |bytes| buffer.put_slice(bytes)).map_ok(|_| ())
    }
}

impl hyper::rt::Write for WireIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let result = self.0.poll_write_counted(cx, slices);
        if !matches!(&result, Poll::Ready(Ok(written)) if *written == offered) {
            self.0.set_blocked(true);
        }
        result
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper calls this when its own buffer is empty; a socket has none of its own.
        self.0.set_blocked(false);
        self.0.flushes.set(self.0.flushes.get().wrapping_add(1));
        if let Some(waker) = self.0.flushed.borrow_mut().take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Closing the descriptor sends the FIN; a shutdown before it would be one more system call a connection.
        Poll::Ready(Ok(()))
    }
}
