//! HTTP/3 as machines without I/O (RFC 9114), over the connections of `quic`.

pub mod frames;
pub mod qpack;
