//! A handshake by rustls over buffers of our own, and the takeover after it. From then on rustls keeps only what new
//! keys and tickets need.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, Error};

use super::records;
use super::traffic::Traffic;

/// See the module comment.
pub(super) struct Shaking {
    connection: Box<UnbufferedClientConnection>,
    /// Received bytes that rustls has not processed yet.
    part: Vec<u8>,
    was_close_heard: bool,
}

impl fmt::Debug for Shaking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaking").finish_non_exhaustive()
    }
}

impl Shaking {
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Shaking, Error> {
        let connection = Box::new(UnbufferedClientConnection::new(config, name)?);
        Ok(Shaking { connection, part: Vec::new(), was_close_heard: false })
    }

    /// What was agreed on; to be called once [`Shaking::is_over`].
    pub(super) fn connection(&self) -> &UnbufferedClientConnection {
        &self.connection
    }

    /// Takes received bytes. Bytes to send are appended to `out`, even if the handshake fails: then the alert with
    /// the reason. Bytes of the session that came with the end of the handshake are appended to `ahead`.
    pub(super) fn step(&mut self, wire: &[u8], out: &mut Vec<u8>, ahead: &mut Vec<u8>) -> Result<(), Error> {
        self.part.extend_from_slice(wire);
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.part);
            let goes_on = match state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, out);
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::ReadTraffic(mut data)) => {
                    while let Some(record) = data.next_record() {
                        ahead.extend_from_slice(record?.payload);
                    }
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.was_close_heard = true;
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    self.part.clear();
                    self.say_why(out);
                    return Err(error);
                }
            };
            self.part.drain(..discard);
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Appends the alert of a failed handshake. rustls must not read any further then.
    fn say_why(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(data)) = self.connection.process_tls_records(&mut []).state
            else {
                return;
            };
            encode(data, out);
        }
    }

    /// Whether the handshake has succeeded, and rustls has processed every whole record. It keeps a record that holds the
    /// beginning of a message until the rest arrives.
    pub(super) fn is_over(&self) -> bool {
        let holds_record = matches!(records::length(&self.part), Ok(Some(bytes)) if bytes <= self.part.len());
        !self.connection.is_handshaking() && !holds_record
    }

    /// The connection after a completed handshake.
    pub(super) fn traffic(self) -> Result<Traffic, Error> {
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection()?;
        // Copied: the buffer held the server's certificates, and is far larger than what is left in it.
        let part = self.part.as_slice().into();
        Traffic::new(&secrets, kernel, part, self.was_close_heard)
    }
}

fn encode(mut data: EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(error)) = data.encode(&mut []) {
        let start = out.len();
        out.resize(start + error.required_size, 0);
        let encoded = data.encode(&mut out[start..]);
        debug_assert!(encoded.is_ok(), "it has the size that was asked for");
    }
}
