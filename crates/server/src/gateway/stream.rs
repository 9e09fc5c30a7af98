//! A stream socket to a handler: output is written while input is read, so that neither side waits for the other to read first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// Bytes read at once: what a pipe holds.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// One end of the stream.
#[derive(Debug)]
pub(super) struct Stream {
    socket: UnixStream,
    outbound: Vec<u8>,
    written: usize,
    /// What came and has not been used.
    pub(super) inbound: BytesMut,
}

impl Stream {
    pub(super) fn new(socket: UnixStream) -> Stream {
        Stream { socket, outbound: Vec::new(), written: 0, inbound: BytesMut::new() }
    }

    /// Sends this, after what was sent before.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        if self.written == self.outbound.len() {
            self.outbound.clear();
            self.written = 0;
        }
        self.outbound.extend_from_slice(bytes);
    }

    /// Whether the other side has closed, or sends unrequested data.
    pub(super) fn is_spoilt(&self) -> bool {
        let mut byte = [0];
        let read = self.socket.try_read(&mut byte);
        !self.inbound.is_empty() || !read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes what it can and reads once: how many bytes came, 0 at the end.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.written < self.outbound.len() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.outbound[self.written..]) {
                Poll::Ready(Ok(written)) => self.written += written,
                // It may have answered without reading to the end.
                Poll::Ready(Err(_)) => self.written = self.outbound.len(),
                Poll::Pending => break,
            }
        }
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
        self.inbound.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }
}
