//! HTTP/3 as machines without I/O (RFC 9114), over the connections of `quic`.

mod control;
mod failure;
pub mod frames;
mod incoming;
mod order;
pub(crate) mod qlog;
pub mod qpack;
pub(crate) mod session;
pub(crate) mod single;
mod streams;
