//! A link: a socket's place in a worker, where it leads, and how far its connection has come. What is asked for on it is an
//! [exchange](crate::exchange::Exchange).
//!
//! A place outlives connections. When one has ended cleanly its socket stays here, to be connected again.

use std::net::SocketAddr;

use crate::layer::Layer;
use crate::session::Session;
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
    /// It stands, and the layer over it is not open yet.
    Handshaking,
    /// Exchanges may be carried; none is under way where it is kept alive for its client's next request.
    Up,
    /// The same, and the socket took less than was to be sent.
    Full,
    /// Behind its last response, waiting for the server to close first: TIME_WAIT is then the server's.
    Lingering,
}

impl LinkState {
    /// Whether exchanges may be carried.
    #[inline]
    pub(crate) fn is_up(self) -> bool {
        matches!(self, LinkState::Up | LinkState::Full)
    }
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
    pub(crate) fn of_address(address: &Address) -> Family {
        match address {
            Address::Internet(address) if address.is_ipv4() => Family::V4,
            Address::Internet(_) => Family::V6,
            Address::Unix(_) => Family::Unix,
        }
    }
}

/// See the module comment.
pub(crate) struct Link<S, L, P: Session> {
    pub(crate) socket: Option<S>,
    pub(crate) family: Family,
    pub(crate) state: LinkState,
    /// It stands in [`crate::links::Links`].
    pub(crate) held_over: HeldOver,
    /// The round of the event loop in which the socket was connected: older events of it mean its predecessor.
    pub(crate) opened_in_round: u32,
    pub(crate) origin: u32,
    /// Index of the address within the origin.
    pub(crate) address: u32,
    /// Index of the local address that it comes from, where some are given.
    pub(crate) source: u32,
    /// Number of the connection: another each time that one is begun in this place.
    pub(crate) connection: u32,
    /// A request on this connection had a valid answer.
    pub(crate) answered: bool,
    /// Requests sent on this connection.
    pub(crate) uses: u32,
    /// The address found for this connection alone, where names are resolved for each.
    pub(crate) resolved: Option<Box<SocketAddr>>,
    /// When the connect began, and once it stands the layer's handshake, where there is one; later than the start of an exchange that is sent again.
    pub(crate) connect_begun_ns: u64,
    /// When the connect, or the wait for the server to close, must have ended by.
    pub(crate) deadline_ns: u64,
    pub(crate) layer: L,
    pub(crate) session: P,
    pub(crate) exchanges: P::Exchanges,
}

impl<S, L: Layer, P: Session> Link<S, L, P> {
    pub(crate) fn vacant() -> Link<S, L, P> {
        Link {
            socket: None,
            family: Family::V4,
            state: LinkState::Free,
            held_over: HeldOver::No,
            opened_in_round: 0,
            origin: 0,
            address: 0,
            source: 0,
            connection: 0,
            answered: false,
            uses: 0,
            resolved: None,
            connect_begun_ns: 0,
            deadline_ns: u64::MAX,
            layer: L::default(),
            session: P::default(),
            exchanges: P::Exchanges::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::session::Http1;
    use crate::layer::Plain;
    use crate::sys::Socket;

    /// It is most of what a kept connection costs in memory.
    #[test]
    fn a_link_of_http1_is_small() {
        assert!(
            size_of::<Link<Socket, Plain, Http1>>() <= 256,
            "{}",
            size_of::<Link<Socket, Plain, Http1>>()
        );
    }
}
