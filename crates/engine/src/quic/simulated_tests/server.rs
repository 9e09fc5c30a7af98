//! quinn-proto's server on virtual time. A request says what to answer: how many bytes, and whether to reset the stream or to stop
//! the request. The answer's bytes depend on the stream and their place.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::path::Path;

/// Bytes of a request's head: length of the answer, and what to do.
pub(super) const HEAD_BYTES: usize = 5;
/// Requests' last byte of the head.
pub(super) const ANSWER: u8 = 0;
/// Reset the stream after the answer's bytes, with this code.
pub(super) const RESET: u8 = 1;
/// STOP_SENDING as soon as the head has arrived, and the answer.
pub(super) const STOP: u8 = 2;
pub(super) const CODE: u64 = 0x77;

/// The byte of an answer at a place.
pub(super) fn content(stream: u64, at: u64) -> u8 {
    (stream.wrapping_mul(31) ^ at ^ at >> 8) as u8
}

/// A certificate and its key, made once.
pub(in crate::quic) static IDENTITY: LazyLock<(CertificateDer<'static>, Vec<u8>)> = LazyLock::new(|| {
    // Ed25519: signatures of one length, so that schedules repeat.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    (certificate.der().clone(), key.serialize_der())
});

/// TLS of a client that trusts that certificate.
pub(in crate::quic) fn client_tls(has_early_data: bool) -> Arc<ClientConfig> {
    let mut config = client_with(Arc::new(default_provider()));
    config.enable_early_data = has_early_data;
    Arc::new(config)
}

pub(super) fn client_with(provider: Arc<CryptoProvider>) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(IDENTITY.0.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"test".to_vec()];
    config
}

/// TLS of the server. Tickets of one are worth nothing to another.
pub(in crate::quic) fn server_tls() -> Arc<rustls::ServerConfig> {
    Arc::new(server_with(Arc::new(default_provider())))
}

pub(super) fn server_with(provider: Arc<CryptoProvider>) -> rustls::ServerConfig {
    let key = PrivateKeyDer::Pkcs8(IDENTITY.1.clone().into());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![IDENTITY.0.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"test".to_vec()];
    config.max_early_data_size = u32::MAX;
    config
}

/// An answer in progress.
#[derive(Debug, Default)]
struct Exchange {
    request: Vec<u8>,
    request_bytes: u64,
    is_answering: bool,
    answered: u64,
}

/// See the module comment.
pub(super) struct Server {
    endpoint: Endpoint,
    base: Instant,
    pub(super) connections: HashMap<ConnectionHandle, Connection>,
    exchanges: BTreeMap<(ConnectionHandle, StreamId), Exchange>,
    pub(super) retries: bool,
    pub(super) answered: u64,
    /// Bytes of whole requests.
    pub(super) request_bytes: u64,
    /// Why connections ended.
    pub(super) lost: Vec<ConnectionError>,
    client: SocketAddr,
}

impl Server {
    pub(super) fn new(tls: Arc<rustls::ServerConfig>, transport: TransportConfig, seed: u64) -> Server {
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(Some([seed as u8; 32]));
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        config.transport_config(Arc::new(transport));
        Server {
            endpoint: Endpoint::new(Arc::new(endpoint), Some(Arc::new(config)), true, None),
            base: Instant::now(),
            connections: HashMap::new(),
            exchanges: BTreeMap::new(),
            retries: false,
            answered: 0,
            request_bytes: 0,
            lost: Vec::new(),
            client: "192.0.2.1:1000".parse().unwrap(),
        }
    }

    fn at(&self, now_ns: u64) -> Instant {
        self.base + Duration::from_nanos(now_ns)
    }

    pub(super) fn hear(&mut self, now_ns: u64, bytes: &[u8], ecn: u8, path: &mut Path) {
        let now = self.at(now_ns);
        let mut out = Vec::new();
        let ecn = EcnCodepoint::from_bits(ecn);
        match self.endpoint.handle(now, self.client, None, ecn, BytesMut::from(bytes), &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.connections.get_mut(&handle).unwrap().handle_event(event);
            }
            Some(DatagramEvent::Response(transmit)) => send(now_ns, &transmit, &out, path),
            Some(DatagramEvent::NewConnection(incoming)) => {
                if self.retries && incoming.may_retry() {
                    let transmit = self.endpoint.retry(incoming, &mut out).unwrap();
                    return send(now_ns, &transmit, &out, path);
                }
                match self.endpoint.accept(incoming, now, &mut out, None) {
                    Ok((handle, connection)) => _ = self.connections.insert(handle, connection),
                    Err(error) => {
                        if let Some(transmit) = error.response {
                            send(now_ns, &transmit, &out, path);
                        }
                    }
                }
            }
            None => {}
        }
    }

    pub(super) fn due_ns(&mut self) -> Option<u64> {
        let base = self.base;
        self.connections
            .values_mut()
            .filter_map(Connection::poll_timeout)
            .min()
            .map(|at| (at - base).as_nanos() as u64)
    }

    /// Whether a connection has completed its handshake and never says so. Where early data and answers to it were lost, quinn-proto 0.11.19
    /// may then be left with the idle timeout alone: no HANDSHAKE_DONE, no probes, no acknowledgements.
    pub(super) fn is_mute(&self) -> bool {
        self.connections.values().any(|connection| {
            let is_complete = !connection.is_handshaking() && !connection.is_closed();
            is_complete && connection.stats().frame_tx.handshake_done == 0
        })
    }

    /// Lets time pass, answers, and sends what is to be sent.
    pub(super) fn drive(&mut self, now_ns: u64, path: &mut Path) {
        let now = self.at(now_ns);
        let handles: Vec<ConnectionHandle> = self.connections.keys().copied().collect();
        for handle in handles {
            let connection = self.connections.get_mut(&handle).unwrap();
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            let mut is_over = false;
            loop {
                let connection = self.connections.get_mut(&handle).unwrap();
                let mut has_news = false;
                while let Some(event) = connection.poll_endpoint_events() {
                    is_over |= event.is_drained();
                    if let Some(event) = self.endpoint.handle_event(handle, event) {
                        connection.handle_event(event);
                        has_news = true;
                    }
                }
                while let Some(event) = connection.poll() {
                    match event {
                        Event::ConnectionLost { reason } => self.lost.push(reason),
                        Event::Stream(StreamEvent::Opened { dir }) => {
                            while let Some(id) = connection.streams().accept(dir) {
                                if dir == Dir::Bi {
                                    self.exchanges.insert((handle, id), Exchange::default());
                                }
                            }
                        }
                        _ => {}
                    }
                }
                let keys: Vec<_> = self.exchanges.keys().copied().filter(|key| key.0 == handle).collect();
                for key in keys {
                    has_news |= self.serve(key);
                }
                let mut out = Vec::new();
                let connection = self.connections.get_mut(&handle).unwrap();
                while let Some(transmit) = connection.poll_transmit(now, 10, &mut out) {
                    send(now_ns, &transmit, &out, path);
                    out.clear();
                    has_news = true;
                }
                if !has_news {
                    break;
                }
            }
            if is_over {
                self.connections.remove(&handle);
            }
        }
    }

    /// Continues an exchange. Returns whether something happened.
    fn serve(&mut self, key: (ConnectionHandle, StreamId)) -> bool {
        let connection = self.connections.get_mut(&key.0).unwrap();
        let exchange = self.exchanges.get_mut(&key).unwrap();
        let had = (exchange.request_bytes, exchange.answered, exchange.is_answering);
        if !exchange.is_answering {
            let mut stream = connection.recv_stream(key.1);
            let Ok(mut chunks) = stream.read(true) else {
                self.exchanges.remove(&key);
                return true;
            };
            let mut is_over = false;
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        exchange.request_bytes += chunk.bytes.len() as u64;
                        exchange.request.extend_from_slice(&chunk.bytes);
                    }
                    Ok(None) => {
                        exchange.is_answering = true;
                        break;
                    }
                    Err(quinn_proto::ReadError::Blocked) => break,
                    Err(quinn_proto::ReadError::Reset(_)) => {
                        is_over = true;
                        break;
                    }
                }
            }
            let _ = chunks.finalize();
            if is_over {
                let _ = connection.send_stream(key.1).reset(VarInt::from_u32(1));
                self.exchanges.remove(&key);
                return true;
            }
            if exchange.request.len() >= HEAD_BYTES && exchange.request[4] == STOP && !exchange.is_answering {
                let _ = connection.recv_stream(key.1).stop(VarInt::from_u64(CODE).unwrap());
                exchange.is_answering = true;
            }
            let new_from = (had.0 as usize).max(HEAD_BYTES);
            for (at, byte) in exchange.request.iter().enumerate().skip(new_from) {
                assert_eq!(
                    *byte,
                    content(key.1.into(), at as u64),
                    "stream {}, byte {at} of the request",
                    key.1
                );
            }
        }
        if exchange.is_answering {
            let wanted = u64::from(u32::from_be_bytes(exchange.request[..4].try_into().unwrap()));
            let mut stream = connection.send_stream(key.1);
            while exchange.answered < wanted {
                let end = wanted.min(exchange.answered + 4096);
                let piece: Vec<u8> = (exchange.answered..end).map(|at| content(key.1.into(), at)).collect();
                match stream.write(&piece) {
                    Ok(written) => exchange.answered += written as u64,
                    Err(quinn_proto::WriteError::Blocked) => break,
                    Err(_) => {
                        // The client does not want more.
                        let _ = stream.reset(VarInt::from_u32(1));
                        self.exchanges.remove(&key);
                        return true;
                    }
                }
            }
            if exchange.answered == wanted {
                if exchange.request[4] == RESET {
                    stream.reset(VarInt::from_u64(CODE).unwrap()).unwrap();
                } else {
                    let _ = stream.finish();
                }
                self.answered += 1;
                self.request_bytes += exchange.request_bytes;
                self.exchanges.remove(&key);
                return true;
            }
        }
        had != (exchange.request_bytes, exchange.answered, exchange.is_answering)
    }
}

fn send(now_ns: u64, transmit: &Transmit, bytes: &[u8], path: &mut Path) {
    let bytes = &bytes[..transmit.size];
    for datagram in bytes.chunks(transmit.segment_size.unwrap_or(bytes.len())) {
        path.send(now_ns, false, datagram, transmit.ecn.map_or(0, |ecn| ecn as u8));
    }
}
