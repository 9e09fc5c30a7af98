//! Whether a server answers over TLS or in HTTP/2, asked without the load generator, which must not decide whether there is
//! something to measure. Over TLS it takes the certificate that webstone gave the server, and no other: who verifies it, and for which
//! name, is the clients' matter.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    StreamOwned,
};

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
    /// The certificate that it was given, as PEM, perhaps with those above it; `None`: without TLS.
    pub(crate) certificate: Option<&'a str>,
    /// The certificate is the user's, whose own command may have another one.
    pub(crate) may_have_another: bool,
    /// Nothing but HTTP/2 is spoken.
    pub(crate) http2_alone: bool,
    /// Longest wait for anything.
    pub(crate) patience: Duration,
}

impl Asked<'_> {
    /// Whether the server answers a request for `/` in the protocol.
    pub(crate) fn answers(&self) -> io::Result<()> {
        match self.attempt() {
            Err(error) if self.may_have_another && is_of_certificate(&error) => Ok(()),
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
        let Some(certificate) = self.certificate else { return Ok(Box::new(socket)) };
        let given = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let verifier = Arc::new(Given { given, provider });
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(connection, socket)))
    }
}

fn is_of_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    matches!(inner, Some(Error::InvalidCertificate(_)))
}

/// Takes one certificate, whatever its names, its dates and who signed it. That the server has its key is checked.
#[derive(Debug)]
struct Given {
    given: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Given {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match leaf.as_ref() == self.given.as_ref() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    /// A certificate for another name than the server is asked by, and its key, as PEM.
    fn made() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["www.example.org".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// A server that answers this number of connections over TLS, if they get that far.
    fn answering((cert, key): &(String, String), connections: usize) -> SocketAddr {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming().take(connections) {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, socket.unwrap());
                let (mut head, mut piece) = (Vec::new(), [0; 512]);
                // It fails where the client refuses the certificate.
                while !head.ends_with(b"\r\n\r\n")
                    && let Ok(read @ 1..) = stream.read(&mut piece)
                {
                    head.extend_from_slice(&piece[..read]);
                }
                if !head.is_empty() {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
                    stream.conn.send_close_notify();
                    stream.flush().unwrap();
                }
            }
        });
        address
    }

    #[test]
    fn the_certificate_that_was_given_is_taken_for_any_name_and_no_other() {
        let (own, other) = (made(), made());
        let asked = |certificate, may_have_another| Asked {
            address: answering(&own, 1),
            certificate: Some(certificate),
            may_have_another,
            http2_alone: false,
            patience: Duration::from_secs(20),
        };
        assert_eq!(asked(&own.0, false).body("/").unwrap(), (200, b"x".to_vec()));
        assert!(asked(&own.0, false).answers().is_ok());
        let error = asked(&other.0, false).body("/").unwrap_err();
        assert!(is_of_certificate(&error), "{error}");
        assert!(asked(&other.0, false).answers().is_err());
        assert!(asked(&other.0, true).answers().is_ok());
    }
}
