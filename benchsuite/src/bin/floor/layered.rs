//! The least client over TLS, in HTTP/2, or both: rustls's connection and one `send` and one `recv` for each time that there is
//! something to send or to receive. Of the server's certificate the signature is checked, which proves that the server has its key,
//! but no chain: wrk and ab do the same. In HTTP/3, where oha alone makes a connection per request, nothing is checked, as by oha.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConnection, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, SignatureScheme, StreamOwned};

use super::http2::{Blocks, Talk};
use super::{Drive, Load, Way, length_of_answer, unlike};

/// All connections.
pub(crate) struct Clients<'a> {
    load: &'a Load,
    config: Option<Arc<ClientConfig>>,
    request: String,
    blocks: Blocks,
    /// Bytes of an answer in HTTP/1.
    length: usize,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// Bytes that were decrypted, and bytes to be encrypted.
    plain: Vec<u8>,
    out: Vec<u8>,
    requests: u64,
}

struct Connection {
    socket: OwnedFd,
    /// Absent without TLS, and before the first connection.
    tls: Option<Box<ClientConnection>>,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    state: State,
    talk: Option<Talk>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Shaking,
    /// Bytes of an answer in HTTP/1 that are still to come; 0 in HTTP/2.
    Asked(usize),
    /// The answer is whole, and the server is to end the connection.
    Ended,
}

impl<'a> Drive<'a> for Clients<'a> {
    fn new(load: &'a Load) -> io::Result<Clients<'a>> {
        let config = load.is_secure.then(|| config(load)).transpose()?.map(Arc::new);
        let length = match (&config, load.way) {
            (_, Way::Http2 { .. }) | (None, _) => 0,
            (Some(config), _) => {
                let stream = TcpStream::connect(load.address)?;
                length_of_answer(load, &mut StreamOwned::new(connection(config, load)?, stream))?
            }
        };
        Ok(Clients {
            load,
            config,
            request: load.request(),
            blocks: Blocks::new(load),
            length,
            connections: Vec::with_capacity(load.clients),
            buffer: vec![0; load.buffer_bytes()],
            plain: Vec::new(),
            out: Vec::new(),
            requests: 0,
        })
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        let state = State::Connecting;
        self.connections.push(Connection { socket, tls: None, unsent: Vec::new(), state, talk: None });
        self.connect(self.connections.len() - 1)
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn handle(&mut self, number: usize, flags: epoll::EventFlags) -> io::Result<()> {
        let ended = flags.contains(epoll::EventFlags::RDHUP);
        let connection = &mut self.connections[number];
        if connection.state == State::Connecting {
            return if flags.contains(epoll::EventFlags::OUT) { self.connected(number) } else { Ok(()) };
        }
        if flags.contains(epoll::EventFlags::OUT) && !connection.unsent.is_empty() {
            connection.flush()?;
        }
        if connection.state == State::Ended {
            return if ended { self.reconnect(number) } else { Ok(()) };
        }
        if flags.contains(epoll::EventFlags::IN) { self.receive(number, ended) } else { Ok(()) }
    }
}

impl Clients<'_> {
    fn connect(&mut self, number: usize) -> io::Result<()> {
        match net::connect(&self.connections[number].socket, &self.load.address) {
            // The socket becomes writable when it is connected.
            Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn connected(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        match &self.config {
            Some(config) => {
                connection.tls = Some(Box::new(self::connection(config, self.load)?));
                connection.state = State::Shaking;
                connection.send(&[])
            }
            None => self.ask_first(number),
        }
    }

    /// The first requests of a connection.
    fn ask_first(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        self.out.clear();
        if let Way::Http2 { streams } = self.load.way {
            let talk = connection.talk.insert(Talk::begin(&mut self.out));
            (0..streams).for_each(|_| talk.ask(&self.blocks, &mut self.out));
            connection.state = State::Asked(0);
            return connection.send(&self.out);
        }
        connection.state = State::Asked(self.length);
        connection.send(self.request.as_bytes())
    }

    fn receive(&mut self, number: usize, ended: bool) -> io::Result<()> {
        loop {
            let connection = &mut self.connections[number];
            let n = match net::recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(unlike()),
                Ok((n, _)) => n,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if let Some(tls) = &mut connection.tls {
                self.plain.clear();
                unseal(tls, &self.buffer[..n], &mut self.plain)?;
                if connection.state == State::Shaking {
                    if tls.is_handshaking() {
                        connection.send(&[])?;
                        continue;
                    }
                    // The end of the handshake is sent with the request.
                    self.ask_first(number)?;
                }
            }
            if self.heard(number, n)? {
                return if ended { self.reconnect(number) } else { Ok(()) };
            }
            if n < self.buffer.len() {
                return Ok(());
            }
        }
    }

    /// Takes `number` bytes that were received. Returns whether the connection is to be ended.
    fn heard(&mut self, number: usize, wire_bytes: usize) -> io::Result<bool> {
        let connection = &mut self.connections[number];
        let plain = if connection.tls.is_some() { &self.plain } else { &self.buffer[..wire_bytes] };
        if let Some(talk) = &mut connection.talk {
            self.out.clear();
            let answers = talk.take(plain, &mut self.out)?;
            self.requests += answers as u64;
            (0..answers).for_each(|_| talk.ask(&self.blocks, &mut self.out));
            if !self.out.is_empty() {
                connection.send(&self.out)?;
            }
            return Ok(false);
        }
        let State::Asked(due) = connection.state else { return Err(unlike()) };
        let due = due.checked_sub(plain.len()).ok_or_else(unlike)?;
        connection.state = State::Asked(due);
        if due > 0 {
            return Ok(false);
        }
        self.requests += 1;
        if self.load.way.keeps() {
            connection.state = State::Asked(self.length);
            connection.send(self.request.as_bytes())?;
            return Ok(false);
        }
        connection.state = State::Ended;
        Ok(true)
    }

    /// Ends the connection once the server has, and begins the next.
    fn reconnect(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        net::shutdown(&connection.socket, Shutdown::Write)?;
        net::connect_unspec(&connection.socket)?;
        connection.tls = None;
        connection.unsent.clear();
        connection.state = State::Connecting;
        self.connect(number)
    }
}

impl Connection {
    /// Sends bytes, over TLS sealed, after those that still wait.
    fn send(&mut self, plain: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.unsent.extend_from_slice(plain),
            Some(tls) => {
                tls.writer().write_all(plain)?;
                while tls.wants_write() {
                    tls.write_tls(&mut self.unsent)?;
                }
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        match net::send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
            Ok(n) if n == self.unsent.len() => self.unsent.clear(),
            Ok(n) => drop(self.unsent.drain(..n)),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Has rustls read bytes of the wire, and appends what is in them.
fn unseal(tls: &mut ClientConnection, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
    while !wire.is_empty() {
        tls.read_tls(&mut wire)?;
        tls.process_new_packets().map_err(io::Error::other)?;
        let mut reader = tls.reader();
        // Where the end of the stream was announced, it reads as no bytes; before that, as an error.
        while let Ok(piece @ [_, ..]) = reader.fill_buf() {
            let n = piece.len();
            plain.extend_from_slice(piece);
            reader.consume(n);
        }
    }
    Ok(())
}

fn connection(config: &Arc<ClientConfig>, load: &Load) -> io::Result<ClientConnection> {
    let name = ServerName::IpAddress(load.address.ip().into());
    ClientConnection::new(config.clone(), name).map_err(io::Error::other)
}

/// As webstone's own: the cheapest suite and group alone.
pub(crate) fn config(load: &Load) -> io::Result<ClientConfig> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    });
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(SignatureAlone {
            provider,
            is_checked: load.way != Way::Http3PerRequest,
        }))
        .with_no_client_auth();
    let alpn: &[u8] = match load.way {
        Way::Http2 { .. } => b"h2",
        Way::Http3 { .. } | Way::Http3PerRequest => b"h3",
        _ => b"http/1.1",
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = match load.way {
        Way::Resume => Resumption::store(Arc::new(Tickets::default())),
        _ => Resumption::disabled(),
    };
    Ok(config)
}

/// Accepts any certificate whose key the peer has, or any at all.
#[derive(Debug)]
struct SignatureAlone {
    provider: Arc<CryptoProvider>,
    is_checked: bool,
}

impl ServerCertVerifier for SignatureAlone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !self.is_checked {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Tickets for any number of connections; rustls's own store keeps eight.
#[derive(Debug, Default)]
struct Tickets(Mutex<VecDeque<Tls13ClientSessionValue>>);

impl Tickets {
    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.kept().push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().pop_back()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use webstone_model::server_tls::ServerTls;
    use webstone_model::spec::ServerSpec;
    use webstone_server::{ServeOptions, Server};

    use clap::Parser as _;

    use super::*;

    #[test]
    fn answers_and_handshakes_are_those_that_the_server_counts() {
        for (is_secure, way) in [
            (true, "keep-alive"),
            (true, "receive"),
            (true, "per-request"),
            (true, "resume"),
            (true, "h2 10"),
            (false, "h2 10"),
        ] {
            let spec = ServerSpec {
                threads: 1,
                http2: true,
                tls: is_secure.then(ServerTls::default),
                ..ServerSpec::default()
            };
            let options = ServeOptions { test_handlers: true, ..ServeOptions::new(spec) };
            let server = Server::start(options).unwrap();
            let size = if way == "receive" { 300_000 } else { 500 };
            let words = format!("x 3 0 {}/test?size={size} {way}", server.url());
            let arguments = crate::Arguments::parse_from(words.split(' '));
            let load = Load { duration: Duration::from_millis(100), ..crate::load(arguments).unwrap() };
            assert!(load.is_layered());
            let report = crate::measure::<Clients<'_>>(&load).unwrap();
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            let (requests, counted) = (report["requests"].as_u64().unwrap(), server.stop().counters);
            // One was for the length alone, and of each stream the last may be under way.
            assert!(requests > 3, "{way} {report}");
            assert!(
                (requests..=requests + 31).contains(&counted.responses),
                "{way}: {requests} of {counted:?}"
            );
            let (full, resumed) = (counted.handshakes_full, counted.handshakes_resumed);
            match way {
                "resume" => assert!(resumed > full && full > 0, "{counted:?}"),
                "per-request" => assert!(full >= requests && resumed == 0, "{counted:?}"),
                _ => assert!(
                    full == if is_secure { counted.accepted } else { 0 } && resumed == 0,
                    "{counted:?}"
                ),
            }
        }
    }
}
