//! TLS over a blocking stream, for the probe's single requests.

use std::io::{self, Read, Write};

use rustls::client::{ClientConnection, Resumption};
use rustls::{ClientConfig, StreamOwned};
use webstone_model::errors::ErrorClass;
use webstone_model::target::Target;

use super::config::TlsPlan;
use super::failure;

/// See the module comment. The handshake is done with the first byte that is sent.
#[derive(Debug)]
pub(crate) struct TlsStream<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl<S: Read + Write> TlsStream<S> {
    /// Over a stream to a target whose URL is `https`.
    pub(crate) fn new(tls: &TlsPlan, target: &Target, stream: S) -> io::Result<TlsStream<S>> {
        let other = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let secure = tls.secure(target, false).map_err(|error| other(error.what))?;
        let secure = secure.ok_or_else(|| other(format!("{target} is not an https:// URL")))?;
        let mut config = ClientConfig::clone(&tls.config);
        config.resumption = Resumption::disabled();
        // One request is no load.
        config.enable_early_data = false;
        let connection = ClientConnection::new(config.into(), secure.name).map_err(io::Error::other)?;
        Ok(TlsStream(StreamOwned::new(connection, stream)))
    }

    /// The stream below.
    pub(crate) fn below(&self) -> &S {
        &self.0.sock
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Class and words of an error that came of TLS; `None` where it is the system's.
pub(crate) fn told(tls: &TlsPlan, error: &io::Error) -> Option<(ErrorClass, String)> {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        let what = "the server closed the connection without TLS's close_notify";
        return Some((ErrorClass::TlsTruncated, what.to_owned()));
    }
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(failure::told(error, &tls.offered, None))
}
