//! TLS over a blocking stream, for the probe's single requests and for requests that clients of a run never send.

use std::io::{self, Read, Write};

use rustls::client::{ClientConnection, Resumption};
use rustls::{ClientConfig, StreamOwned};
use webstone_measure::errors::ErrorClass;
use webstone_workload::target::Target;

use super::config::TlsPlan;
use super::failure;

/// TLS over a blocking stream. The handshake takes place when the first byte is sent, or on request.
#[derive(Debug)]
pub struct TlsStream<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl<S: Read + Write> TlsStream<S> {
    /// Over a stream to a target whose URL is `https`.
    pub(crate) fn new(tls: &TlsPlan, target: &Target, stream: S) -> io::Result<TlsStream<S>> {
        let other = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let secure = tls.secure(target, false).map_err(|error| other(error.what))?;
        let secure = secure.ok_or_else(|| other(format!("{target} is not an https:// URL")))?;
        let mut config = ClientConfig::clone(&tls.config);
        config.resumption = Resumption::disabled();
        // A single request is not load.
        config.enable_early_data = false;
        let connection = ClientConnection::new(config.into(), secure.name).map_err(io::Error::other)?;
        Ok(TlsStream(StreamOwned::new(connection, stream)))
    }

    /// The underlying stream.
    pub fn below(&self) -> &S {
        &self.0.sock
    }

    /// The underlying stream, to change how it is read. Writing to it directly breaks the connection.
    pub fn below_mut(&mut self) -> &mut S {
        &mut self.0.sock
    }

    /// Does the handshake, or continues it after a time-out of the underlying stream.
    ///
    /// # Errors
    /// Those of the underlying stream, and of a handshake that fails.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        while self.0.conn.is_handshaking() {
            self.0.conn.complete_io(&mut self.0.sock)?;
        }
        Ok(())
    }

    /// Whether the handshake agreed on HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.0.conn.alpn_protocol() == Some(b"h2")
    }

    /// Writes all bytes in records of their own.
    ///
    /// # Errors
    /// Those of the underlying stream, and of TLS.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// Writes some of the bytes. After a time-out of the underlying stream, it is called again with what is left.
    ///
    /// # Errors
    /// Those of the underlying stream, and of TLS.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// Sends what was written and is not sent yet; may be called again after a time-out.
    ///
    /// # Errors
    /// Those of the underlying stream.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// Reads what the peer wrote; 0 after its close_notify.
    ///
    /// # Errors
    /// Those of the underlying stream, and of TLS; `UnexpectedEof` if the connection ends without close_notify.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    /// Sends close_notify: nothing more will be written.
    ///
    /// # Errors
    /// Those of the underlying stream.
    pub fn close_notify(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut self.0.sock)?;
        }
        Ok(())
    }
}

/// Class and words of an error of TLS; `None` if it is the system's.
pub(crate) fn told(tls: &TlsPlan, error: &io::Error) -> Option<(ErrorClass, String)> {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        let what = "the server closed the connection without TLS's close_notify";
        return Some((ErrorClass::TlsTruncated, what.to_owned()));
    }
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(failure::told(error, &tls.offered, None))
}
