//! One connection's place in a worker: its socket, where its exchange stands, and the instants of that exchange.
//!
//! A place outlives connections. When one has ended cleanly its socket stays here, to be connected again.

use std::net::SocketAddr;

use crate::body_sum::BodySum;
use crate::h1::response::ResponseParser;
use crate::sys::Address;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody's: no socket, or one that may be connected again.
    Free,
    /// A request waits for the host's name to be resolved.
    Resolving,
    /// A request waits for the connection to be established.
    Connecting,
    /// A request is partly written.
    Sending,
    /// A response is awaited or being read.
    Receiving,
    /// Kept alive for its client's next request.
    Idle,
    /// Behind its last response, waiting for the server to close first: TIME_WAIT is then the server's.
    Lingering,
}

/// Whether a connection used up what it may bring in a round, so that it is read on in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldOver {
    No,
    /// The server may send more.
    Open,
    /// The server has closed: what is in the queue is all.
    Ended,
}

impl State {
    /// Whether a request is in progress.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, State::Resolving | State::Connecting | State::Sending | State::Receiving)
    }
}

/// Which kinds of address a socket can be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
    Unix,
}

impl Family {
    pub(crate) fn of(address: &Address) -> Family {
        match address {
            Address::Internet(address) if address.is_ipv4() => Family::V4,
            Address::Internet(_) => Family::V6,
            Address::Unix(_) => Family::Unix,
        }
    }
}

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) socket: Option<S>,
    pub(crate) family: Family,
    pub(crate) state: State,
    /// Requests were answered on this connection before the one in progress.
    pub(crate) reused: bool,
    /// The request in progress announced that it is the last.
    pub(crate) is_last: bool,
    /// The response's head says that the server keeps the connection.
    pub(crate) server_keeps: bool,
    /// The response's head has been read.
    pub(crate) has_head: bool,
    /// It stands in [`crate::worker::Worker::held_over`].
    pub(crate) held_over: HeldOver,
    /// The round of the event loop in which the socket was connected: older events of it mean its predecessor.
    pub(crate) opened_in_round: u32,
    /// Client, by its index in the worker.
    pub(crate) client: u32,
    pub(crate) origin: u32,
    /// Index of the address within the origin.
    pub(crate) address: u32,
    /// Index of the local address that it comes from, where some are given.
    pub(crate) source: u32,
    /// The address found for this connection alone, where names are resolved for each.
    pub(crate) resolved: Option<SocketAddr>,
    /// Number of its question to the resolver.
    pub(crate) ticket: u32,
    pub(crate) request: u32,
    /// Requests sent on this connection.
    pub(crate) uses: u32,
    /// Bytes of the request that were written.
    pub(crate) sent: u32,
    pub(crate) status: u16,
    /// Number of the exchange in the trace; 0 when it is not traced.
    pub(crate) traced: u32,
    pub(crate) parser: ResponseParser,
    /// When the request was to start, from where its latency counts: in closed loop its start.
    pub(crate) intended_ns: u64,
    pub(crate) start_ns: u64,
    /// When this connection's own connect began; later than the start where a request is sent again.
    pub(crate) connect_begun_ns: u64,
    pub(crate) connected_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) headers_done_ns: u64,
    /// When the state must have ended by.
    pub(crate) deadline_ns: u64,
    pub(crate) head_bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) framing_bytes: u64,
    /// The part of a head that has come so far. Empty, and without memory, for nearly all connections.
    pub(crate) kept: Vec<u8>,
    /// Check sum of the body so far; without memory where contents are not checked.
    pub(crate) body_sum: Option<Box<BodySum>>,
    /// The request as filled from its template. Without memory where there is none.
    pub(crate) rendered: Vec<u8>,
}

impl<S> Connection<S> {
    pub(crate) fn vacant() -> Connection<S> {
        Connection {
            socket: None,
            family: Family::V4,
            state: State::Free,
            reused: false,
            is_last: false,
            server_keeps: false,
            has_head: false,
            held_over: HeldOver::No,
            opened_in_round: 0,
            client: 0,
            origin: 0,
            address: 0,
            source: 0,
            resolved: None,
            ticket: 0,
            request: 0,
            uses: 0,
            sent: 0,
            status: 0,
            traced: 0,
            parser: ResponseParser::new(false),
            intended_ns: 0,
            start_ns: 0,
            connect_begun_ns: 0,
            connected_ns: 0,
            sent_ns: 0,
            first_byte_ns: 0,
            headers_done_ns: 0,
            deadline_ns: u64::MAX,
            head_bytes: 0,
            body_bytes: 0,
            framing_bytes: 0,
            kept: Vec::new(),
            body_sum: None,
            rendered: Vec::new(),
        }
    }

    /// Forgets the last exchange; `now` is the start of the next.
    #[inline]
    pub(crate) fn begin(&mut self, client: u32, request: u32, to_head: bool, intended_ns: u64, now: u64) {
        self.client = client;
        self.request = request;
        self.sent = 0;
        self.status = 0;
        self.traced = 0;
        self.server_keeps = false;
        self.has_head = false;
        self.parser = ResponseParser::new(to_head);
        self.intended_ns = intended_ns;
        self.start_ns = now;
        self.connected_ns = 0;
        self.sent_ns = 0;
        self.first_byte_ns = 0;
        self.headers_done_ns = 0;
        self.head_bytes = 0;
        self.body_bytes = 0;
        self.framing_bytes = 0;
        self.kept.clear();
        self.rendered.clear();
    }

    /// Bytes of the response that were read so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes + self.kept.len() as u64
    }
}
