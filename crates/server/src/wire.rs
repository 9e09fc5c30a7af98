//! The stream of one connection, with its counts, and for handlers that write past hyper.
//!
//! hyper reads and writes through [`WireIo`]; a handler that produces a fault uses the same [`Wire`] directly. Both
//! run on the connection's one task, so a `RefCell` is enough. In HTTP/2 each stream has a task of its own, on the same thread.
//!
//! Over TLS there is a layer between [`Wire`] and [`Socket`]; what is counted as sent and received is what the socket took and
//! gave, records and handshakes included.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use hyper::header::HeaderValue;
use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::counters::{Count, Tally};
use crate::h3::code;
use crate::shard::Shard;

/// Bytes read at once. A request head is far smaller; a larger read saves calls on request bodies.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// How long a client may take to close its side once it was told that nothing more comes.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
/// What a client of HTTP/2 that knows the server begins with; no request of HTTP/1 begins with the word.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket of either kind, as it was accepted.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The socket of a connection. Counts every byte that the operating system gives and takes, encrypted or not.
#[derive(Debug)]
pub(crate) struct Socket {
    accepted: Accepted,
    tally: Rc<Tally>,
    /// Bytes sent from now on are for a client that has gone, and not counted.
    uncounted: bool,
}

impl Socket {
    /// A new connection, which is counted as accepted.
    pub(crate) fn new(accepted: Accepted, shard: &Shard) -> Socket {
        Socket { accepted, tally: Rc::new(Tally::accepted(&shard.tally)), uncounted: false }
    }

    /// What the connection adds to the counters.
    pub(crate) fn tally(&self) -> &Rc<Tally> {
        &self.tally
    }

    fn local(&self) -> Option<SocketAddr> {
        match &self.accepted {
            Accepted::Tcp(stream) => stream.local_addr().ok(),
            Accepted::Unix(_) => None,
        }
    }

    /// Makes closing it send a reset.
    pub(crate) fn reset(&self) {
        if let Accepted::Tcp(stream) = &self.accepted {
            // A Unix socket has no reset; its peer sees the end of the stream. Setting it cannot fail on an open TCP socket; if
            // it did, the connection would end with a FIN.
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
    }

    fn shut(&self) -> bool {
        match &self.accepted {
            Accepted::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
            Accepted::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
        }
        .is_ok()
    }

    /// Ends the connection with a FIN, whatever the client still sends: closing with bytes unread would reset it, and might
    /// destroy what is on its way to the client.
    pub(crate) async fn end(mut self) {
        if self.shut() {
            let rest = async { while let Ok(1..) = poll_fn(|cx| self.poll_discard(cx)).await {} };
            // The connection ends here, even if the client does not close in time.
            let _ = tokio::time::timeout(LINGER, rest).await;
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [0; 4096];
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// One write, counted before it is made and corrected afterwards (see `counters`).
    fn poll_write_counted(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: usize = match self.uncounted {
            true => 0,
            false => slices.iter().map(|slice| slice.len()).sum(),
        };
        self.tally.add(Count::BytesSent, offered as u64);
        let result = match (&mut self.accepted, slices) {
            (Accepted::Tcp(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Accepted::Tcp(stream), many) => Pin::new(stream).poll_write_vectored(cx, many),
            (Accepted::Unix(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Accepted::Unix(stream), many) => Pin::new(stream).poll_write_vectored(cx, many),
        };
        let written = if let Poll::Ready(Ok(written)) = &result { *written } else { 0 };
        if written < offered {
            self.tally.take_back(Count::BytesSent, (offered - written) as u64);
        }
        result
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match &mut self.accepted {
            Accepted::Tcp(stream) => ready!(Pin::new(stream).poll_read(cx, buffer))?,
            Accepted::Unix(stream) => ready!(Pin::new(stream).poll_read(cx, buffer))?,
        }
        self.tally.add(Count::BytesReceived, (buffer.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_counted(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_counted(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Closing the descriptor sends the FIN; a shutdown before it would be one more system call per connection.
        Poll::Ready(Ok(()))
    }
}

/// What bytes of HTTP are read from and written to.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    /// Bytes of HTTP/3 go over streams of their own: there is nothing to read and write here.
    Quic(QuicSide),
}

/// What handlers see of a connection of HTTP/3.
#[derive(Debug)]
pub(crate) struct QuicSide {
    pub(crate) tally: Rc<Tally>,
    pub(crate) local: SocketAddr,
    /// The code by which it is closed.
    pub(crate) code: Cell<u64>,
}

impl Stream {
    fn socket(&self) -> Option<&Socket> {
        match self {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(stream) => Some(stream.get_ref().0),
            Stream::Quic(_) => None,
        }
    }

    fn socket_mut(&mut self) -> Option<&mut Socket> {
        match self {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(stream) => Some(stream.get_mut().0),
            Stream::Quic(_) => None,
        }
    }

    fn tally(&self) -> &Rc<Tally> {
        match self {
            Stream::Plain(socket) => socket.tally(),
            Stream::Tls(stream) => stream.get_ref().0.tally(),
            Stream::Quic(side) => &side.tally,
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket_mut().map_or(Poll::Ready(Ok(0)), |socket| socket.poll_discard(cx))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Quic(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(socket) => socket.poll_write_counted(cx, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Quic(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Ready when the operating system has all that was written. A socket keeps nothing for itself.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) | Stream::Quic(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Over TLS, tells the client that nothing more comes.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) | Stream::Quic(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    /// Whether records were made that the operating system has not taken yet.
    fn holds_records(&self) -> bool {
        match self {
            Stream::Plain(_) | Stream::Quic(_) => false,
            Stream::Tls(stream) => stream.get_ref().1.wants_write(),
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
    pub(crate) tally: Rc<Tally>,
    /// Bytes that were read to detect the protocol, and that its reader gets first.
    seen: RefCell<Vec<u8>>,
    /// How often everything that hyper had buffered was handed over.
    flushes: Cell<u64>,
    flushed: RefCell<Vec<Waker>>,
    /// The connection's task, where handlers run on others.
    task: RefCell<Option<Waker>>,
    /// No more requests are wanted: HTTP/2 says so by GOAWAY.
    last: Cell<bool>,
    /// hyper holds bytes that the operating system did not take.
    blocked: Cell<bool>,
    /// A handler ended the connection: hyper must not touch it again.
    ended: Cell<bool>,
    /// The client has closed its side, or the connection failed.
    read_to_end: Cell<bool>,
    /// Something was sent after that, which the client waits for.
    answered_late: Cell<bool>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, peer: Option<IpAddr>, shard: Rc<Shard>) -> Wire {
        let tally = Rc::clone(stream.tally());
        Wire {
            stream: RefCell::new(stream),
            shard,
            peer,
            tally,
            seen: RefCell::default(),
            flushes: Cell::new(0),
            flushed: RefCell::default(),
            task: RefCell::new(None),
            last: Cell::new(false),
            blocked: Cell::new(false),
            ended: Cell::new(false),
            read_to_end: Cell::new(false),
            answered_late: Cell::new(false),
        }
    }

    /// This end's address; `None` for Unix sockets.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match &*self.stream.borrow() {
            Stream::Quic(side) => Some(side.local),
            stream => stream.socket().and_then(Socket::local),
        }
    }

    /// Whether HTTP/3 is spoken.
    pub(crate) fn is_quic(&self) -> bool {
        matches!(&*self.stream.borrow(), Stream::Quic(_))
    }

    /// What the field Alt-Svc says on this connection: where HTTP/3 is spoken, if it is. What comes without TLS might be changed on
    /// its way, so that clients ignore it there.
    pub(crate) fn alternative(&self) -> Option<HeaderValue> {
        match &*self.stream.borrow() {
            Stream::Tls(_) => self.shard.shared.alternative.clone(),
            Stream::Plain(_) | Stream::Quic(_) => None,
        }
    }

    /// The code by which a connection of HTTP/3 is closed.
    pub(crate) fn close_code(&self) -> u64 {
        match &*self.stream.borrow() {
            Stream::Quic(side) => side.code.get(),
            _ => 0,
        }
    }

    /// Closes a connection of HTTP/3 by a code.
    pub(crate) fn close_with(&self, code: u64) {
        if let Stream::Quic(side) = &*self.stream.borrow() {
            side.code.set(code);
        }
        self.close();
    }

    /// Everything so far was handed over.
    pub(crate) fn count_flush(&self) {
        self.flushes.set(self.flushes.get().wrapping_add(1));
        if !self.flushed.borrow().is_empty() {
            self.flushed.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        !matches!(&*self.stream.borrow(), Stream::Plain(_))
    }

    /// Whether a connection without TLS begins as HTTP/2 does. The bytes that were read stay for the reader.
    pub(crate) async fn begins_with_preface(&self) -> bool {
        loop {
            let seen = self.seen.borrow().len();
            if !PREFACE.starts_with(&self.seen.borrow()) {
                return false;
            }
            if seen == PREFACE.len() {
                return true;
            }
            let limit = PREFACE.len() - seen;
            let read = poll_fn(|cx| {
                self.poll_read_stream(cx, limit, |bytes| self.seen.borrow_mut().extend_from_slice(bytes))
            });
            if !matches!(read.await, Ok(1..)) {
                return false;
            }
        }
    }

    /// Keeps the task that must notice what handlers on other tasks do to the connection.
    pub(crate) fn wake_on_change(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if task.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// No more requests are wanted on this connection.
    pub(crate) fn refuse_more(&self) {
        self.last.set(true);
        self.changed();
    }

    /// Whether no more requests are wanted.
    pub(crate) fn wants_no_more(&self) -> bool {
        self.last.get()
    }

    fn changed(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
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
        let mut waiting = self.flushed.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
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
            let written =
                poll_fn(|cx| self.stream.borrow_mut().poll_write(cx, &[IoSlice::new(bytes)])).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
        }
        poll_fn(|cx| self.stream.borrow_mut().poll_flush(cx)).await
    }

    /// Over TLS, tells the client that nothing more comes (`close_notify`).
    pub(crate) async fn end_encryption(&self) {
        // If that fails, the client has gone.
        let _ = poll_fn(|cx| self.stream.borrow_mut().poll_end(cx)).await;
    }

    /// Reads and drops what the client sends: `Ok(0)` when it has closed its side.
    pub(crate) async fn discard(&self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_counted(cx, READ_BYTES, |_| {})).await
    }

    /// Ends the connection with a reset instead of a FIN: what the kernel has not sent yet is lost.
    pub(crate) fn reset(&self) {
        if let Some(socket) = self.stream.borrow().socket() {
            socket.reset();
        }
        self.close_with(code::INTERNAL_ERROR);
    }

    /// Ends the connection with a FIN after what was written.
    pub(crate) fn close(&self) {
        self.ended.set(true);
        self.changed();
    }

    /// Before the descriptor is closed: if the client has sent more than was read, closing would reset the connection and might
    /// destroy the answer on its way. Then the sending side is shut first and the rest is read. Costs no system call where
    /// nothing has arrived.
    pub(crate) async fn linger(&self) {
        if self.has_ended() || self.read_to_end.get() {
            return;
        }
        let discard = |cx: &mut Context<'_>| self.stream.borrow_mut().poll_discard(cx);
        let arrived = poll_fn(|cx| Poll::Ready(discard(cx))).await;
        if matches!(arrived, Poll::Ready(Ok(1..))) && self.stream.borrow().socket().is_some_and(Socket::shut)
        {
            let rest = async { while let Ok(1..) = poll_fn(discard).await {} };
            // The connection ends here, even if the client does not close in time.
            let _ = tokio::time::timeout(LINGER, rest).await;
        }
    }

    /// One read of at most `limit` bytes, given to `use_bytes`: bytes that were read to detect the protocol come first.
    fn poll_read_counted(
        &self,
        cx: &mut Context<'_>,
        limit: usize,
        use_bytes: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut seen = self.seen.borrow_mut();
        if !seen.is_empty() {
            let some = limit.min(seen.len());
            use_bytes(&seen[..some]);
            seen.drain(..some);
            return Poll::Ready(Ok(some));
        }
        drop(seen);
        self.poll_read_stream(cx, limit, use_bytes)
    }

    fn poll_read_stream(
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
        use_bytes(bytes);
        Poll::Ready(Ok(bytes.len()))
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
        if self.0.read_to_end.get() {
            self.0.answered_late.set(true);
        }
        let mut stream = self.0.stream.borrow_mut();
        let result = stream.poll_write(cx, slices);
        let is_whole = matches!(&result, Poll::Ready(Ok(written)) if *written == offered);
        if !is_whole || stream.holds_records() {
            self.0.set_blocked(true);
        }
        result
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper calls this when its own buffer is empty.
        ready!(self.0.stream.borrow_mut().poll_flush(cx))?;
        self.0.set_blocked(false);
        self.0.count_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.0.read_to_end.get() && !self.0.answered_late.get() {
            // The client ended the connection, and need not read the answer to that (RFC 8446, 6.1).
            if let Some(socket) = self.0.stream.borrow_mut().socket_mut() {
                socket.uncounted = true;
            }
        }
        self.0.stream.borrow_mut().poll_end(cx)
    }
}
