//! A connection that may send early data: rustls's own, including buffers and records, because its unbuffered
//! connection does not report whether early data was accepted.

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error};

use super::records::Scratch;

/// See the module comment.
#[derive(Debug)]
pub(super) struct Buffered {
    connection: Box<ClientConnection>,
    /// Bytes of the session from before the end of the handshake, and how many of them were sent as early data.
    early: Vec<u8>,
    early_sent: usize,
    /// The end of the handshake was noticed.
    is_over: bool,
    was_close_heard: bool,
}

impl Buffered {
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Buffered, Error> {
        let mut connection = Box::new(ClientConnection::new(config, name)?);
        // A request is sealed as a whole, however long it is.
        connection.set_buffer_limit(None);
        Ok(Buffered { connection, early: Vec::new(), early_sent: 0, is_over: false, was_close_heard: false })
    }

    pub(super) fn connection(&self) -> &ClientConnection {
        &self.connection
    }

    /// Whether bytes of the session may be sent before the end of the handshake.
    pub(super) fn sends_early(&mut self) -> bool {
        self.connection.early_data().is_some()
    }

    /// Whether the server accepted early data; `None` if none was sent.
    pub(super) fn took_early_data(&self) -> Option<bool> {
        (self.early_sent > 0).then(|| self.connection.is_early_data_accepted())
    }

    /// Appends what is to be sent.
    pub(super) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        if self.is_over {
            // Into memory without a limit: all of it is taken.
            let _ = self.connection.writer().write_all(plain);
        } else if !plain.is_empty() {
            // What exceeds the server's limit waits for the end of the handshake.
            let taken = self.connection.early_data().and_then(|mut early| early.write(plain).ok());
            self.early_sent += taken.unwrap_or(0);
            self.early.extend_from_slice(plain);
        }
        while self.connection.wants_write() {
            // Into memory, which takes it all.
            if self.connection.write_tls(out).is_err() {
                break;
            }
        }
    }

    pub(super) fn must_send(&self) -> bool {
        self.connection.wants_write()
    }

    pub(super) fn close(&mut self) {
        self.connection.send_close_notify();
    }

    pub(super) fn was_close_heard(&self) -> bool {
        self.was_close_heard
    }

    /// Takes bytes of the wire. The session's bytes are appended to `scratch`, or stay with rustls if `keeps` is set.
    pub(super) fn read(&mut self, mut wire: &[u8], keeps: bool, scratch: &mut Scratch) -> Result<(), Error> {
        loop {
            let n = if wire.is_empty() { 0 } else { self.connection.read_tls(&mut wire).unwrap_or(0) };
            let state = self.connection.process_new_packets()?;
            if !self.is_over && !self.connection.is_handshaking() {
                self.is_over = true;
                // Early data that the server rejected is sent again.
                let seen = if self.connection.is_early_data_accepted() { self.early_sent } else { 0 };
                let _ = self.connection.writer().write_all(&self.early[seen..]);
                self.early = Vec::new();
            }
            self.was_close_heard |= state.peer_has_closed();
            if !keeps {
                let mut reader = self.connection.reader();
                while let Ok(piece @ [_, ..]) = reader.fill_buf() {
                    let n = piece.len();
                    scratch.append(piece);
                    reader.consume(n);
                }
            }
            if n == 0 || wire.is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether the handshake has succeeded.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}
