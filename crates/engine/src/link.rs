//! A link: a socket's place in a worker, where it leads, and how far its connection has come. What is asked for on it is an
//! [`Exchange`].
//!
//! A place outlives connections. When one has ended cleanly its socket stays here, to be connected again.

use std::net::SocketAddr;

use crate::exchange::Exchange;
use crate::h1::response::ResponseParser;
use crate::sys::Address;

/// Where a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Nobody's: no socket, or one that may be connected again.
    Free,
    /// The host's name is being resolved.
    Resolving,
    /// The connection is being established.
    Connecting,
    /// Exchanges may be carried; none is under way where it is kept alive for its client's next request.
    Up,
    /// Behind its last response, waiting for the server to close first: TIME_WAIT is then the server's.
    Lingering,
}

/// Whether a link used up what it may bring in a round, so that it is read on in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldOver {
    No,
    /// The server may send more.
    Open,
    /// The server has closed: what is in the queue is all.
    Ended,
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
pub(crate) struct Link<S> {
    pub(crate) socket: Option<S>,
    pub(crate) family: Family,
    pub(crate) state: LinkState,
    /// The request in progress announced that it is the last.
    pub(crate) is_last: bool,
    /// The response's head says that the server keeps the connection.
    pub(crate) server_keeps: bool,
    /// It stands in [`crate::worker::Worker::held_over`].
    pub(crate) held_over: HeldOver,
    /// The round of the event loop in which the socket was connected: older events of it mean its predecessor.
    pub(crate) opened_in_round: u32,
    pub(crate) origin: u32,
    /// Index of the address within the origin.
    pub(crate) address: u32,
    /// Index of the local address that it comes from, where some are given.
    pub(crate) source: u32,
    /// Number of its question to the resolver.
    pub(crate) ticket: u32,
    /// Requests sent on this connection.
    pub(crate) uses: u32,
    /// Bytes of the request that were written.
    pub(crate) sent: u32,
    /// The address found for this connection alone, where names are resolved for each.
    pub(crate) resolved: Option<Box<SocketAddr>>,
    pub(crate) parser: ResponseParser,
    /// When the connect began; later than the start of an exchange that is sent again.
    pub(crate) connect_begun_ns: u64,
    /// When the connect, or the wait for the server to close, must have ended by.
    pub(crate) deadline_ns: u64,
    /// The part of a head that has come so far. Empty, and without memory, for nearly all links.
    pub(crate) kept: Vec<u8>,
    /// The request as filled from its template. Without memory where there is none.
    pub(crate) rendered: Vec<u8>,
    pub(crate) exchange: Exchange,
}

impl<S> Link<S> {
    pub(crate) fn vacant() -> Link<S> {
        Link {
            socket: None,
            family: Family::V4,
            state: LinkState::Free,
            is_last: false,
            server_keeps: false,
            held_over: HeldOver::No,
            opened_in_round: 0,
            origin: 0,
            address: 0,
            source: 0,
            ticket: 0,
            uses: 0,
            sent: 0,
            resolved: None,
            parser: ResponseParser::new(false),
            connect_begun_ns: 0,
            deadline_ns: u64::MAX,
            kept: Vec::new(),
            rendered: Vec::new(),
            exchange: Exchange::over(),
        }
    }

    /// Makes the protocol's state ready for the next exchange.
    #[inline]
    pub(crate) fn begin(&mut self, to_head: bool) {
        self.sent = 0;
        self.server_keeps = false;
        self.parser = ResponseParser::new(to_head);
        self.kept.clear();
        self.rendered.clear();
    }
}
