//! TLS: a plan's settings, each worker's sessions, and the `Layer` on a link. Handshakes are rustls's, which is named
//! nowhere outside this folder and `quic`; the records after them are our own (`records`, `traffic`).

#[cfg(test)]
mod against_rustls_tests;
mod buffered;
mod config;
mod failure;
mod key_log;
mod layer;
mod quic;
pub mod records;
mod sessions;
mod shaking;
mod stream;
pub mod traffic;
#[cfg(test)]
mod traffic_tests;
mod tunnel;
mod verifier;

pub(crate) use config::{Secure, TlsPlan};
pub(crate) use layer::Tls;
pub(crate) use quic::{QuicTls, random_id};
pub use stream::TlsStream;
pub(crate) use stream::told as told_of_stream;
