//! QUIC's configuration, and accepting connections.

use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions};
use tokio::sync::mpsc::UnboundedReceiver;

use super::code;
use crate::accept::{Accepted, Dealer, Order};
use crate::connection::{STREAMS_MAX, WINDOW_BYTES};

/// The protocol that is agreed on by ALPN.
const H3: &[u8] = b"h3";
/// After this time without a packet a client has gone: over UDP nothing else says so.
const IDLE: Duration = Duration::from_secs(60);
/// Largest datagram that clients may send, in bytes: they need not probe loopback's MTU.
const DATAGRAM_BYTES_MAX: u16 = 1472;
/// Sessions kept for resumption.
const SESSIONS_MAX: usize = 100_000;
/// How long connections may take to say that they end.
const FAREWELL: Duration = Duration::from_millis(50);

/// What all connections of HTTP/3 share.
pub(crate) struct Quic {
    /// Without a connection's TLS configuration: each connection gets its own.
    server: ServerConfig,
    tls: rustls::ServerConfig,
    /// Sessions are kept here and not in tickets: with tickets, rustls accepts no early data.
    sessions: Arc<dyn StoresServerSessions>,
    /// The endpoints that were opened, to be closed at the end.
    endpoints: Mutex<Vec<Endpoint>>,
}

impl std::fmt::Debug for Quic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quic").finish_non_exhaustive()
    }
}

impl Quic {
    /// For the certificate of `tls`. With `resumes`, clients get tickets, and may send early data with them.
    pub(crate) fn new(mut tls: rustls::ServerConfig, resumes: bool) -> Result<Quic, String> {
        tls.alpn_protocols = vec![H3.to_vec()];
        tls.ticketer = Arc::new(NoTickets);
        tls.max_early_data_size = if resumes { u32::MAX } else { 0 };
        tls.send_tls13_tickets = if resumes { tls.send_tls13_tickets.max(1) } else { 0 };
        let sessions: Arc<dyn StoresServerSessions> = match resumes {
            true => ServerSessionMemoryCache::new(SESSIONS_MAX),
            false => Arc::new(NoServerSessionStorage {}),
        };
        let crypto = QuicServerConfig::try_from(tls.clone()).map_err(|error| error.to_string())?;
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(STREAMS_MAX.into());
        transport.stream_receive_window(WINDOW_BYTES.into());
        transport.max_idle_timeout(IdleTimeout::try_from(IDLE).ok());
        server.transport_config(Arc::new(transport));
        Ok(Quic { server, tls, sessions, endpoints: Mutex::default() })
    }

    /// The configuration of one connection, and what tells later whether it resumed a session.
    pub(super) fn for_one(
        &self,
        early_data: bool,
        speaks_h3: bool,
    ) -> Option<(Arc<ServerConfig>, Arc<Noticing>)> {
        let sessions =
            Arc::new(Noticing { sessions: Arc::clone(&self.sessions), resumed: AtomicBool::new(false) });
        let mut tls = self.tls.clone();
        tls.session_storage = Arc::clone(&sessions) as Arc<dyn StoresServerSessions>;
        if !early_data {
            tls.max_early_data_size = 0;
        }
        if !speaks_h3 {
            tls.alpn_protocols = vec![b"none".to_vec()];
        }
        let mut server = self.server.clone();
        server.crypto = Arc::new(QuicServerConfig::try_from(tls).ok()?);
        Some((Arc::new(server), sessions))
    }

    /// Closes all connections, and returns when they have said so, or after a time.
    pub(crate) fn close(&self) {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter().for_each(|endpoint| endpoint.close(super::varint(code::NO_ERROR), b""));
        let deadline = std::time::Instant::now() + FAREWELL;
        let has_open = || endpoints.iter().any(|endpoint| endpoint.open_connections() > 0);
        while has_open() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// No tickets that hold their session.
#[derive(Debug)]
struct NoTickets;

impl rustls::server::ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }
    fn lifetime(&self) -> u32 {
        0
    }
    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The sessions as one connection sees them. quinn does not report whether its handshake resumed one; it did if it took one.
#[derive(Debug)]
pub(super) struct Noticing {
    sessions: Arc<dyn StoresServerSessions>,
    resumed: AtomicBool,
}

impl Noticing {
    pub(super) fn has_resumed(&self) -> bool {
        self.resumed.load(Ordering::Acquire)
    }

    fn notice(&self, session: Option<Vec<u8>>) -> Option<Vec<u8>> {
        if session.is_some() {
            self.resumed.store(true, Ordering::Release);
        }
        session
    }
}

impl StoresServerSessions for Noticing {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, value)
    }
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.notice(self.sessions.get(key))
    }
    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.notice(self.sessions.take(key))
    }
    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}

enum Event {
    Order(Option<Order>),
    Incoming(Option<Box<quinn::Incoming>>),
}

/// Accepts connections at one socket until the server stops.
pub(crate) async fn accept(
    socket: UdpSocket,
    local: SocketAddr,
    mut orders: UnboundedReceiver<Order>,
    dealer: Rc<Dealer>,
) {
    let Some(quic) = &dealer.shared().quic else { return };
    let mut config = EndpointConfig::default();
    // The constant is an allowed value.
    let _ = config.max_udp_payload_size(DATAGRAM_BYTES_MAX);
    let endpoint = Endpoint::new(config, Some(quic.server.clone()), socket, Arc::new(TokioRuntime));
    let Ok(endpoint) = endpoint else { return dealer.failed() };
    quic.endpoints.lock().unwrap_or_else(PoisonError::into_inner).push(endpoint.clone());
    loop {
        let mut incoming = std::pin::pin!(endpoint.accept());
        let event = std::future::poll_fn(|cx| match orders.poll_recv(cx) {
            Poll::Ready(order) => Poll::Ready(Event::Order(order)),
            Poll::Pending => {
                incoming.as_mut().poll(cx).map(|incoming| Event::Incoming(incoming.map(Box::new)))
            }
        });
        match event.await {
            Event::Incoming(Some(incoming)) => dealer.deal(Accepted::Quic { incoming, local }),
            Event::Incoming(None) | Event::Order(None) => return,
            Event::Order(Some(Order::Refuse { span, done })) => {
                // Over UDP, only silence says that nobody listens.
                endpoint.set_server_config(None);
                // The caller may have gone; the order is carried out anyway.
                let _ = done.send(());
                tokio::time::sleep(span).await;
                endpoint.set_server_config(Some(quic.server.clone()));
            }
        }
    }
}
