//! TLS of the server: its configuration, and the handshake of a connection. It is rustls, as in the load generator; tests with
//! OpenSSL's programs find misreadings that would cancel out.

mod certificate;

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{Acceptor, NoServerSessionStorage, ServerSessionMemoryCache};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_workload::tls::TlsVersion;

pub use certificate::Certificate;

use crate::connection_faults::Misdeed;
use crate::counters::Count;
use crate::error::ServeError;
use crate::h3::Quic;
use crate::listener::Address;
use crate::wire::Socket;

/// Protocols that are agreed on by ALPN.
const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";
/// Sessions kept where they are resumed by identifier.
const SESSIONS_MAX: usize = 100_000;
/// Tickets after a handshake of TLS 1.3: what OpenSSL's servers send.
const TICKETS: usize = 2;

/// What all connections over TLS share.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    /// The certificate that was made, where none was named.
    pub(crate) made: Option<Certificate>,
    /// Whether sessions are resumed.
    resumes: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("made", &self.made).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads or makes the certificate, and configures TLS with it.
    pub(crate) fn new(tls: &ServerTls, spec: &ServerSpec, listen: &[Address]) -> Result<Tls, ServeError> {
        let made = match &tls.cert {
            Some(_) => None,
            None => {
                let more: Vec<_> = listen.iter().filter_map(Address::ip).collect();
                let made = Certificate::make(tls.certificate, &more);
                Some(made.map_err(|what| ServeError { what: format!("--tls: {what}"), hint: None })?)
            }
        };
        let versions = [(&TLS12, tls.has(TlsVersion::Tls12)), (&TLS13, tls.has(TlsVersion::Tls13))];
        let versions: Vec<_> =
            versions.into_iter().filter(|(_, has)| *has).map(|(version, _)| version).collect();
        let failed = |error: rustls::Error| ServeError {
            what: format!("--tls: {error}"),
            hint: Some("check that the key belongs to the certificate, and that both are PEM".to_owned()),
        };
        let (chain, key) = match (&made, &tls.cert, &tls.key) {
            (Some(made), ..) => {
                (chain("--tls", made.cert_pem.as_bytes())?, key("--tls", made.key_pem.as_bytes())?)
            }
            (None, Some(cert), Some(key_file)) => {
                (chain(cert, &read("--cert", cert)?)?, key(key_file, &read("--key", key_file)?)?)
            }
            _ => {
                let hint = "give both files, or neither to have both made";
                return Err(ServeError::option("--cert", "", "it needs --key, and --key needs it", hint));
            }
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&versions).map_err(failed)?;
        let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(failed)?;
        config.alpn_protocols =
            if spec.http2 { vec![H2.to_vec(), HTTP_1_1.to_vec()] } else { vec![HTTP_1_1.to_vec()] };
        let (tickets, cache) = (tls.tickets.unwrap_or(true), tls.session_cache.unwrap_or(false));
        if tickets {
            config.ticketer = Ticketer::new().map_err(failed)?;
        }
        config.session_storage = match cache {
            true => ServerSessionMemoryCache::new(SESSIONS_MAX),
            false => Arc::new(NoServerSessionStorage {}),
        };
        config.send_tls13_tickets = if tickets || cache { TICKETS } else { 0 };
        let resumes = tickets || cache;
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), made, resumes })
    }

    /// QUIC with the same certificate.
    pub(crate) fn quic(&self) -> Result<Quic, ServeError> {
        Quic::new(ServerConfig::clone(self.acceptor.config()), self.resumes)
            .map_err(|what| ServeError { what: format!("--http 3: {what}"), hint: None })
    }

    /// The handshake of a connection, with a fault if one is due. `None`: the connection has ended.
    pub(crate) async fn accept(
        &self,
        socket: Socket,
        fault: Option<Misdeed>,
    ) -> Option<Box<TlsStream<Socket>>> {
        let tally = std::rc::Rc::clone(socket.tally());
        let result = match fault {
            None => self.acceptor.accept(socket).into_fallible().await.map_err(|(_, socket)| Some(socket)),
            Some(fault) => self.accept_spoilt(socket, fault).await,
        };
        match result {
            Ok(stream) => {
                let kind = match stream.get_ref().1.handshake_kind() {
                    Some(HandshakeKind::Resumed) => Count::HandshakesResumed,
                    _ => Count::HandshakesFull,
                };
                tally.add(kind, 1);
                Some(Box::new(stream))
            }
            Err(socket) => {
                tally.add(Count::HandshakesFailed, 1);
                if let Some(socket) = socket {
                    socket.end().await;
                }
                None
            }
        }
    }

    async fn accept_spoilt(
        &self,
        mut socket: Socket,
        misdeed: Misdeed,
    ) -> Result<TlsStream<Socket>, Option<Socket>> {
        if misdeed.is_at_start() {
            misdeed.perform(&mut socket).await;
            return Err(misdeed.ends_in_order().then_some(socket));
        }
        let mut lazy = LazyConfigAcceptor::new(Acceptor::default(), socket);
        let Ok(mut start) = (&mut lazy).await else { return Err(lazy.take_io()) };
        if misdeed.perform(&mut start.io).await {
            let config = Arc::clone(self.acceptor.config());
            return start.into_stream(config).into_fallible().await.map_err(|(_, socket)| Some(socket));
        }
        Err(misdeed.ends_in_order().then_some(start.io))
    }
}

/// Whether HTTP/2 was agreed on.
pub(crate) fn is_http2(stream: &TlsStream<Socket>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(H2)
}

fn read(option: &str, path: &str) -> Result<Vec<u8>, ServeError> {
    let hint = "name a readable file in PEM format";
    std::fs::read(path).map_err(|error: io::Error| ServeError::option(option, path, &error.to_string(), hint))
}

fn chain(path: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(ServeError::option(
            "--cert",
            path,
            "it has no certificate",
            "a certificate in PEM begins with -----BEGIN CERTIFICATE-----",
        )),
    }
}

fn key(path: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>, ServeError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        let text = String::from_utf8_lossy(pem);
        if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
            let hint = "write the key without it to another file: openssl pkey -in KEY -out FILE";
            return ServeError::option("--key", path, "the private key has a passphrase", hint);
        }
        let hint = "a key in PEM begins with -----BEGIN PRIVATE KEY-----";
        ServeError::option("--key", path, "there is no private key in it", hint)
    })
}
