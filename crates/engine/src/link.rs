//! A link: a place for a socket in a worker, its destination, and the state of its connection. What is requested on
//! it is an [exchange](crate::exchange::Exchange).
//!
//! A link outlives its connections. When one has ended cleanly its socket stays here, to be connected again.

use std::net::SocketAddr;

use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Address;

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Not in use: without a socket, or with one that may be connected again.
    Free,
    /// The host's name is being resolved.
    Resolving,
    /// The connection is being established.
    Connecting,
    /// It is established, but the layer over it is not open yet.
    Handshaking,
    /// Exchanges may be carried; none is in progress if it is kept alive for its client's next request.
    Up,
    /// As `Up`, but the socket took less than was to be sent.
    Full,
    /// After its last response, waiting for the server to close first: TIME_WAIT is then the server's.
    Lingering,
}

impl LinkState {
    /// Whether exchanges may be carried.
    #[inline]
    pub(crate) fn is_up(self) -> bool {
        matches!(self, LinkState::Up | LinkState::Full)
    }
}

/// Whether a link has read as much as it may in a round, so that reading continues in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldOver {
    No,
    /// The server may send more.
    Open,
    /// The server has closed: no more will arrive than what is in the queue.
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
    /// Whether it is in the queue of [`crate::links::Links`].
    pub(crate) held_over: HeldOver,
    /// The round of the event loop in which the socket was connected: older events are about its previous connection.
    pub(crate) opened_in_round: u32,
    pub(crate) origin: u32,
    /// Index of the address within the origin.
    pub(crate) address: u32,
    /// Index of its local address, if any are given.
    pub(crate) source: u32,
    /// Number of the connection: changes with each connection on this link.
    pub(crate) connection: u32,
    /// A request on this connection had a valid answer.
    pub(crate) answered: bool,
    /// Requests sent on this connection.
    pub(crate) uses: u32,
    /// The address resolved for this connection, if names are resolved for each.
    pub(crate) resolved: Option<Box<SocketAddr>>,
    /// When the connect began; once established, when the layer's handshake began, if there is one. For an exchange
    /// that is sent again this is later than its start.
    pub(crate) connect_begun_ns: u64,
    /// When the connect, or the wait for the server to close, times out.
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

    /// The link is most of the memory that a kept connection costs.
    #[test]
    fn a_link_of_http1_is_small() {
        assert!(
            size_of::<Link<Socket, Plain, Http1>>() <= 256,
            "{}",
            size_of::<Link<Socket, Plain, Http1>>()
        );
    }
}
