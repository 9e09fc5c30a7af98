//! A client of QUIC (RFC 9000, 9001, 9002, 9369): connections that carry streams of bytes. No I/O, no clock, and no
//! allocation per request: datagrams and instants come from the caller, and buffers stay with the connection. Keys and the
//! handshake are rustls's. What streams mean (HTTP/3) is not known here.
//!
//! A connection is used like this:
//!
//! 1. [`Connection::open`], then [`Connection::pack`] until it returns `None`: send what it made.
//! 2. [`Connection::hear`] for each datagram. It decrypts in place and tells an [`Events`] of streams.
//! 3. Once [`Connection::is_open`]: [`Connection::open_bi`], [`Connection::write`], and `pack` again. Acknowledgements ride on what is
//!    packed anyway, so write before you pack.
//! 4. At [`Connection::due_ns`]: [`Connection::timeout`], and `pack`.
//! 5. After each `hear` and `timeout`: [`Connection::failure`]. After [`Connection::close`], or a failure, `pack` still has
//!    something to say, once.

mod congestion;
mod connection;
mod counts;
mod cubic;
mod ecn;
mod error;
mod filling;
pub mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod hearing;
mod ids;
mod keys;
mod mtu;
mod packet;
mod packing;
mod ranges;
mod receive;
mod recorder;
mod recovery;
mod retry;
mod rtt;
#[cfg(test)]
mod scripted_tests;
mod send;
mod sent;
mod settings;
#[cfg(test)]
mod simulated_tests;
mod space;
mod streams;
mod transport_parameters;
pub mod varint;

pub use connection::{Connection, Events, Packed, Stream};
pub use counts::{Counts, DirectionCounts};
pub use error::{Fault, QuicFailure, alert, code_name};
pub use recorder::{FrameRecord, LossReason, PacketKind, PacketRecord, Recorder, RecoveryRecord};
pub use settings::{Settings, Version};
