//! Whether a server answers over TLS or in HTTP/2, asked without the load generator, which must not decide whether there is
//! something to measure. It verifies the certificate, as clients do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The beginning of an HTTP/2 connection: the preface, and empty SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Type of SETTINGS, in the fourth byte of a frame.
const SETTINGS: u8 = 4;
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How a server is asked.
pub(crate) struct Asked<'a> {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The certificates that are trusted, as PEM; `None`: without TLS.
    pub(crate) trusted: Option<&'a str>,
    /// The certificate is the user's, and need not be one for `localhost`.
    pub(crate) may_be_unverified: bool,
    /// Nothing but HTTP/2 is spoken.
    pub(crate) http2_alone: bool,
    /// Longest wait for anything.
    pub(crate) patience: Duration,
}

impl Asked<'_> {
    /// Whether the server answers a request for `/` in the protocol. A certificate that only clients can verify counts, too.
    pub(crate) fn answers(&self) -> io::Result<()> {
        match self.attempt() {
            Err(error) if self.may_be_unverified && is_unverified(&error) => Ok(()),
            outcome => outcome,
        }
    }

    fn attempt(&self) -> io::Result<()> {
        if !self.http2_alone {
            return self.body("/").map(drop);
        }
        let mut stream = self.connect(b"h2")?;
        stream.write_all(PREFACE)?;
        stream.flush()?;
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        if head[3] == SETTINGS { Ok(()) } else { Err(io::Error::other("it does not speak HTTP/2")) }
    }

    /// The status and the body of a file, by HTTP/1.1.
    pub(crate) fn body(&self, path: &str) -> io::Result<(u16, Vec<u8>)> {
        let mut stream = self.connect(b"http/1.1")?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        stream.flush()?;
        let mut answer = Vec::new();
        // An answer without close_notify at its end counts.
        match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
        let wrong = || io::Error::other("it does not speak HTTP/1.1");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(wrong)?;
        let status = std::str::from_utf8(&answer[..end]).ok().and_then(|head| {
            head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "))?.get(..3)?.parse().ok()
        });
        Ok((status.ok_or_else(wrong)?, answer.split_off(end + 4)))
    }

    fn connect(&self, protocol: &[u8]) -> io::Result<Box<dyn ReadWrite>> {
        let socket = TcpStream::connect_timeout(&self.address, self.patience)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(self.patience))?;
        let Some(trusted) = self.trusted else { return Ok(Box::new(socket)) };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(connection, socket)))
    }
}

fn is_unverified(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}
