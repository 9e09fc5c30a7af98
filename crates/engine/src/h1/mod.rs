//! HTTP/1.0 and 1.1 as machines without I/O: bytes in, bytes out (RFC 9112).

pub mod chunked;
pub mod known_heads;
pub(crate) mod pipeline;
pub mod request;
pub mod response;
pub(crate) mod session;
