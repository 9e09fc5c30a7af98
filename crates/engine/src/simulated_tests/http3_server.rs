//! An HTTP/3 server on the simulated network: quinn-proto's QUIC in virtual time, and frames by hand. It answers each request after a
//! delay, and counts what has arrived.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event,
    ServerConfig, Side, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;

use super::network::{Act, Attempt, DatagramTotals, Peer};
use crate::h3::frames::{Reader, Step, code, kind, write_number};
use crate::h3::qpack;
use crate::sys::Address;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answer,
    /// Reset with this code.
    Reset(u64),
    /// These, one after the other.
    Play(Vec<Deed>),
}

/// What a server does on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Says this on the request's stream.
    Answer(Vec<u8>),
    /// Ends the request's stream.
    Finish,
    Reset(u64),
    /// Says this on the control stream.
    Control(Vec<u8>),
    EndControl,
    ResetControl,
    /// Asks the client to end its control stream (STOP_SENDING).
    StopControl,
    /// Opens a unidirectional stream that says this.
    Open(Vec<u8>),
    OpenAndEnd(Vec<u8>),
    /// Closes the connection.
    Close(u64),
    /// Loses the next datagrams that the connection sends, this many of them.
    Lose(u64),
    /// Continues a millisecond later.
    Wait,
}

/// The type of a control stream, and SETTINGS with an unknown one.
const BEGINS: [u8; 5] = [0, 4, 2, 0x21, 1];

/// See the module comment.
pub(super) struct Http3Server<F> {
    endpoint: Endpoint,
    tls: rustls::ServerConfig,
    base: Instant,
    connections: HashMap<ConnectionHandle, Connection>,
    /// What has arrived of requests.
    requests: BTreeMap<(ConnectionHandle, StreamId), Vec<u8>>,
    /// Answers to come, in order.
    due: BTreeMap<(u64, u64), (ConnectionHandle, StreamId, Fate)>,
    /// Answers that are being written.
    writing: BTreeMap<(ConnectionHandle, StreamId), Vec<u8>>,
    out: Vec<(usize, Vec<u8>, u8)>,
    control: HashMap<ConnectionHandle, StreamId>,
    /// What the control stream of the next connection says at first.
    pub(super) begins: Vec<u8>,
    delay_ns: u64,
    body_bytes: usize,
    fate: F,
    /// Datagrams that connections will lose.
    losing: HashMap<ConnectionHandle, u64>,
    /// Whether datagrams of unknown connections get no stateless reset.
    pub(super) resets_none: bool,
    /// If set, a request is answered as soon as this many bytes of it have come.
    pub(super) answers_after: Option<usize>,
    /// If set, requests in early data are answered with status 425, after these deeds.
    pub(super) refuses_early: Option<Vec<Deed>>,
    /// After this many connections, early data is rejected.
    pub(super) takes_early: Option<u64>,
    /// From then on, this many bytes of a stream are allowed at first.
    pub(super) then_allows: Option<u32>,
    pub(super) accepted: u64,
    pub(super) answered: u64,
    pub(super) request_body_bytes: u64,
    pub(super) farewells: u64,
    /// Codes that clients sent, other than H3_NO_ERROR, and whether each ended the connection or only a stream.
    pub(super) told: Vec<(bool, u64)>,
    pub(super) totals: DatagramTotals,
}

impl<F: FnMut(u64) -> Fate> Http3Server<F> {
    /// Answers after a delay with a body of this many bytes; `fate` decides by the number of the request.
    pub(super) fn new(delay_ns: u64, body_bytes: usize, fate: F) -> Http3Server<F> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.max_early_data_size = u32::MAX;
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(Some([7; 32]));
        let config = configuration(tls.clone(), None);
        Http3Server {
            endpoint: Endpoint::new(Arc::new(endpoint), Some(config), true, None),
            tls,
            base: Instant::now(),
            connections: HashMap::new(),
            requests: BTreeMap::new(),
            due: BTreeMap::new(),
            writing: BTreeMap::new(),
            out: Vec::new(),
            control: HashMap::new(),
            begins: BEGINS.to_vec(),
            delay_ns,
            body_bytes,
            fate,
            losing: HashMap::new(),
            resets_none: false,
            answers_after: None,
            refuses_early: None,
            takes_early: None,
            then_allows: None,
            accepted: 0,
            answered: 0,
            request_body_bytes: 0,
            farewells: 0,
            told: Vec::new(),
            totals: DatagramTotals::default(),
        }
    }

    /// Rejects early data from now on, though sessions may allow it.
    fn reject_early_data(&mut self) {
        self.tls.max_early_data_size = 0;
        self.endpoint.set_server_config(Some(configuration(self.tls.clone(), self.then_allows)));
    }

    fn at(&self, now_ns: u64) -> Instant {
        self.base + Duration::from_nanos(now_ns)
    }

    fn send(&mut self, transmit: &Transmit, bytes: &[u8]) {
        let bytes = &bytes[..transmit.size];
        let socket = usize::from(transmit.destination.port()) - 1;
        for datagram in bytes.chunks(transmit.segment_size.unwrap_or(bytes.len())) {
            self.out.push((socket, datagram.to_vec(), transmit.ecn.map_or(0, |ecn| ecn as u8)));
        }
    }

    /// Reads what has arrived on a stream; schedules the answer to a whole request.
    fn read(&mut self, now_ns: u64, key: (ConnectionHandle, StreamId)) {
        let connection = self.connections.get_mut(&key.0).unwrap();
        let mut stream = connection.recv_stream(key.1);
        let Ok(mut chunks) = stream.read(true) else {
            self.requests.remove(&key);
            return;
        };
        let request = self.requests.entry(key).or_default();
        let had = request.len();
        let mut is_whole = false;
        let mut is_reset = false;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => request.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    is_whole = true;
                    break;
                }
                Err(quinn_proto::ReadError::Blocked) => break,
                Err(quinn_proto::ReadError::Reset(_)) => {
                    is_reset = true;
                    break;
                }
            }
        }
        let _ = chunks.finalize();
        if is_reset {
            self.requests.remove(&key);
        } else if let Some(bytes) = self.answers_after {
            if had < bytes && request.len() >= bytes {
                self.answered += 1;
                let fate = Fate::Play(vec![Deed::Answer(answer(200, 10)), Deed::Finish]);
                self.due.insert((now_ns + self.delay_ns, self.answered), (key.0, key.1, fate));
            }
        } else if is_whole {
            let request = self.requests.remove(&key).unwrap();
            self.request_body_bytes += body_of(&request);
            self.answered += 1;
            let is_early = self.connections[&key.0].is_handshaking();
            let fate = match &self.refuses_early {
                Some(deeds) if is_early => {
                    let refusal = [Deed::Answer(answer(425, 10)), Deed::Finish];
                    Fate::Play(deeds.iter().cloned().chain(refusal).collect())
                }
                _ => (self.fate)(self.answered),
            };
            self.due.insert((now_ns + self.delay_ns, self.answered), (key.0, key.1, fate));
        }
    }

    /// Does what a test wants on the stream of a request.
    fn play(&mut self, now_ns: u64, (handle, id): (ConnectionHandle, StreamId), deeds: &[Deed]) {
        let now = self.at(now_ns);
        let control = self.control[&handle];
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        let code = |code: u64| VarInt::from_u64(code).unwrap();
        for (place, deed) in deeds.iter().enumerate() {
            match deed {
                Deed::Answer(bytes) => _ = connection.send_stream(id).write(bytes),
                Deed::Finish => _ = connection.send_stream(id).finish(),
                Deed::Reset(number) => _ = connection.send_stream(id).reset(code(*number)),
                Deed::Control(bytes) => _ = connection.send_stream(control).write(bytes),
                Deed::EndControl => _ = connection.send_stream(control).finish(),
                Deed::ResetControl => _ = connection.send_stream(control).reset(code(code::NO_ERROR)),
                Deed::StopControl => {
                    let stream = StreamId::new(Side::Client, Dir::Uni, 0);
                    connection.recv_stream(stream).stop(code(code::NO_ERROR)).unwrap();
                }
                Deed::Open(bytes) | Deed::OpenAndEnd(bytes) => {
                    let stream = connection.streams().open(Dir::Uni).unwrap();
                    let _ = connection.send_stream(stream).write(bytes);
                    if matches!(deed, Deed::OpenAndEnd(_)) {
                        let _ = connection.send_stream(stream).finish();
                    }
                }
                Deed::Close(number) => connection.close(now, code(*number), bytes::Bytes::new()),
                Deed::Lose(number) => _ = self.losing.insert(handle, *number),
                Deed::Wait => {
                    let rest = Fate::Play(deeds[place + 1..].to_vec());
                    self.due.insert((now_ns + 1_000_000, u64::MAX), (handle, id, rest));
                    return;
                }
            }
        }
    }

    fn write(&mut self, key: (ConnectionHandle, StreamId)) {
        let Some(connection) = self.connections.get_mut(&key.0) else { return };
        let Some(rest) = self.writing.get_mut(&key) else { return };
        let mut stream = connection.send_stream(key.1);
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(written) => _ = rest.drain(..written),
                Err(quinn_proto::WriteError::Blocked) => return,
                Err(_) => {
                    self.writing.remove(&key);
                    return;
                }
            }
        }
        let _ = stream.finish();
        self.writing.remove(&key);
    }
}

impl<F: FnMut(u64) -> Fate> Http3Server<F> {
    /// Serves over a real socket until told to stop, and then until nothing arrives for a while.
    pub(super) fn serve(&mut self, socket: &UdpSocket, stops: &AtomicBool) {
        let began = Instant::now();
        let mut buffer = vec![0; 65_536];
        let mut peer = self;
        loop {
            let now_ns = || began.elapsed().as_nanos() as u64;
            let due_ns = peer.datagrams_due_ns().unwrap_or(u64::MAX);
            let wait_ns = due_ns.saturating_sub(now_ns()).clamp(100_000, 50_000_000);
            socket.set_read_timeout(Some(Duration::from_nanos(wait_ns))).unwrap();
            match socket.recv_from(&mut buffer) {
                Ok((n, from)) => {
                    peer.hear_datagram(now_ns(), usize::from(from.port()) - 1, &buffer[..n], 0);
                }
                Err(_) if stops.load(Ordering::SeqCst) => return,
                Err(_) => {}
            }
            for (number, bytes, _) in peer.drive_datagrams(now_ns()) {
                // Fails if the client has gone.
                let _ = socket.send_to(&bytes, (std::net::Ipv4Addr::LOCALHOST, number as u16 + 1));
            }
        }
    }
}

fn configuration(tls: rustls::ServerConfig, stream_window: Option<u32>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(Arc::new(tls)).unwrap()));
    let mut transport = TransportConfig::default();
    if let Some(bytes) = stream_window {
        transport.stream_receive_window(VarInt::from_u32(bytes));
    }
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

/// Bytes of a request's body; its frames must be valid.
fn body_of(request: &[u8]) -> u64 {
    let (mut reader, mut rest, mut bytes, mut section) = (Reader::default(), request, 0, Vec::new());
    while !rest.is_empty() {
        let (taken, step) = reader.step(rest);
        rest = &rest[taken..];
        match step {
            Step::Payload { kind: kind::DATA, piece, .. } => bytes += piece.len() as u64,
            Step::Payload { kind: kind::HEADERS, piece, .. } => section.extend_from_slice(piece),
            _ => {}
        }
    }
    assert!(reader.is_between_frames());
    let mut text = Vec::new();
    qpack::decode(&section, Some(&mut text)).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(":scheme: https\r\n:authority: 1"), "{text}");
    bytes
}

pub(super) fn answer(status: u16, body_bytes: usize) -> Vec<u8> {
    let mut section = qpack::PREFIX.to_vec();
    qpack::write_field(":status", status.to_string().as_bytes(), &mut section);
    qpack::write_field("content-length", body_bytes.to_string().as_bytes(), &mut section);
    // An unknown frame, which is to be ignored.
    let mut bytes = vec![0x21, 2, 1, 2];
    bytes.push(kind::HEADERS as u8);
    write_number(section.len() as u64, &mut bytes);
    bytes.extend(section);
    bytes.push(kind::DATA as u8);
    write_number(body_bytes as u64, &mut bytes);
    bytes.resize(bytes.len() + body_bytes, b'x');
    bytes
}

impl<F: FnMut(u64) -> Fate> Peer for &mut Http3Server<F> {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        unreachable!("HTTP/3 has no TCP connections")
    }

    fn answer(&mut self, _: u64, _: &[u8]) -> Vec<Act> {
        Vec::new()
    }

    fn datagram_totals(&mut self) -> &mut DatagramTotals {
        &mut self.totals
    }

    fn hear_datagram(&mut self, now_ns: u64, socket: usize, bytes: &[u8], ecn: u8) {
        let now = self.at(now_ns);
        let from: SocketAddr = (std::net::Ipv4Addr::new(198, 51, 100, 1), socket as u16 + 1).into();
        let mut out = Vec::new();
        let ecn = EcnCodepoint::from_bits(ecn);
        match self.endpoint.handle(now, from, None, ecn, BytesMut::from(bytes), &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.connections.get_mut(&handle).unwrap().handle_event(event);
            }
            Some(DatagramEvent::Response(_)) if self.resets_none => {}
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &out),
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut out, None) {
                    Ok((handle, connection)) => {
                        self.accepted += 1;
                        if self.takes_early.is_some_and(|most| self.accepted >= most) {
                            self.reject_early_data();
                        }
                        self.connections.insert(handle, connection);
                    }
                    Err(error) => panic!("{:?}", error.cause),
                }
            }
            None => {}
        }
    }

    fn datagrams_due_ns(&mut self) -> Option<u64> {
        let base = self.base;
        let timers = self.connections.values_mut().filter_map(Connection::poll_timeout).min();
        let timer = timers.map(|at| (at - base).as_nanos() as u64);
        timer.into_iter().chain(self.due.keys().next().map(|(at, _)| *at)).min()
    }

    fn drive_datagrams(&mut self, now_ns: u64) -> Vec<(usize, Vec<u8>, u8)> {
        let now = self.at(now_ns);
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now_ns
        {
            let (handle, id, fate) = entry.remove();
            let Some(connection) = self.connections.get_mut(&handle) else { continue };
            match fate {
                Fate::Answer => {
                    self.writing.insert((handle, id), answer(200, self.body_bytes));
                    self.write((handle, id));
                }
                Fate::Reset(code) => {
                    let _ = connection.send_stream(id).reset(VarInt::from_u64(code).unwrap());
                }
                Fate::Play(deeds) => self.play(now_ns, (handle, id), &deeds),
            }
        }
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
                let mut readable = Vec::new();
                while let Some(event) = connection.poll() {
                    has_news = true;
                    match event {
                        Event::Connected => {
                            let control = connection.streams().open(Dir::Uni).unwrap();
                            let begins = std::mem::replace(&mut self.begins, BEGINS.to_vec());
                            let _ = connection.send_stream(control).write(&begins);
                            self.control.insert(handle, control);
                        }
                        Event::ConnectionLost { reason } => {
                            match reason {
                                quinn_proto::ConnectionError::ApplicationClosed(close) => {
                                    match close.error_code.into_inner() {
                                        code::NO_ERROR => self.farewells += 1,
                                        code => self.told.push((true, code)),
                                    }
                                }
                                quinn_proto::ConnectionError::ConnectionClosed(close)
                                    if close.error_code == quinn_proto::TransportErrorCode::NO_ERROR => {}
                                // The client's CONNECTION_CLOSE may be lost.
                                quinn_proto::ConnectionError::TimedOut => {}
                                reason => panic!("{reason:?}"),
                            }
                        }
                        Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                            self.told.push((false, error_code.into_inner()));
                        }
                        Event::Stream(StreamEvent::Opened { dir }) => {
                            while let Some(id) = connection.streams().accept(dir) {
                                if dir == Dir::Bi {
                                    readable.push(id);
                                }
                            }
                        }
                        Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                            readable.push(id);
                        }
                        _ => {}
                    }
                }
                for id in readable {
                    self.read(now_ns, (handle, id));
                }
                let writing: Vec<_> = self.writing.keys().copied().filter(|key| key.0 == handle).collect();
                for key in writing {
                    self.write(key);
                }
                let mut out = Vec::new();
                while let Some(transmit) =
                    self.connections.get_mut(&handle).unwrap().poll_transmit(now, 10, &mut out)
                {
                    let losing = self.losing.entry(handle).or_default();
                    if *losing > 0 {
                        *losing -= 1;
                        self.totals.lost += 1;
                    } else {
                        self.send(&transmit, &out);
                    }
                    out.clear();
                    has_news = true;
                }
                if !has_news {
                    break;
                }
            }
            if is_over {
                self.connections.remove(&handle);
                // Another connection may get its handle.
                self.losing.remove(&handle);
                self.requests.retain(|key, _| key.0 != handle);
                self.writing.retain(|key, _| key.0 != handle);
            }
        }
        std::mem::take(&mut self.out)
    }
}
