//! HTTP/3 on quinn, with frames and QPACK of our own: the crate `h3` produces valid answers only, and the load generator's own code
//! would make the same mistakes as the load generator.
//!
//! One UDP socket, at the address and port of TCP, serves all threads: the accepting thread reads it, and deals connections to
//! threads as it deals those of TCP. A connection's thread encrypts and sends what belongs to it.

pub(crate) mod code;
mod connection;
mod endpoint;
mod frames;
mod huffman;
mod qpack;
mod request;
mod response;
mod static_table;

pub(crate) use connection::run;
pub(crate) use endpoint::{Quic, accept};

use quinn::VarInt;

/// An error code on the wire. Codes are checked where they are read.
fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// How the layer of HTTP/3 spoils an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spoilt {
    /// A frame that no answer may have, instead of the answer.
    Garbage,
    /// This many bytes of body after those that were announced.
    Extra(u64),
    /// The frame of the head in two halves, with this time between.
    SplitHead(std::time::Duration),
}
