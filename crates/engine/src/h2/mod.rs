//! HTTP/2 as machines without I/O: bytes in, bytes out (RFC 9113).

pub mod frames;
pub mod hpack;
mod incoming;
pub(crate) mod request;
mod resets;
pub(crate) mod session;
pub(crate) mod single;
mod streams;
