//! What is kept per request, only on demand: traces of whole exchanges, and the instants of every transaction.

/// One piece of an exchange, for `--trace`.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// Number of the traced request, from 1.
    pub exchange: u32,
    /// Client that sent it.
    pub client: u32,
    /// Peer's address.
    pub address: String,
    /// What happened.
    pub kind: TraceKind,
}

/// The kind of a [`TraceEvent`].
#[derive(Clone, Debug)]
pub enum TraceKind {
    /// Bytes sent, secrets masked.
    Sent(Vec<u8>),
    /// Bytes received by one read.
    Received(Vec<u8>),
    /// What a TLS handshake negotiated, in words.
    Secured(String),
    /// How it ended, in words.
    Ended(String),
}

/// The instants of one transaction, in nanoseconds since the window opened (negative: before it). Absent instants are
/// `None`: a reused connection has no connect time, a request that was never answered no first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Client.
    pub client: u32,
    /// Page of the workload.
    pub page: u32,
    /// File of the page.
    pub file: u32,
    /// Open loop: when the schedule starts it. In closed loop, and for a page's other files, its start.
    pub intended_ns: i64,
    /// Connect begins, or the request is handed to a reused connection.
    pub start_ns: i64,
    /// The connection was established.
    pub connected_ns: Option<i64>,
    /// Last request byte written.
    pub sent_ns: Option<i64>,
    /// First byte of the answer.
    pub first_byte_ns: Option<i64>,
    /// End of the answer's head.
    pub headers_done_ns: Option<i64>,
    /// Last byte, or the moment of failure.
    pub end_ns: i64,
    /// Status; 0 if there was none.
    pub status: u16,
    /// Bytes of the head and framing.
    pub head_bytes: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Error, if it failed.
    pub error: Option<webstone_measure::errors::ErrorClass>,
}
