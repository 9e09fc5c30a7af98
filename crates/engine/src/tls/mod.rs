//! TLS: what a plan says of it, each worker's sessions, and the [`Layer`](crate::layer::Layer) over a link. The protocol itself is
//! rustls's; nothing outside of this folder names it.

mod config;
mod failure;
mod key_log;
mod layer;
mod sessions;
mod stream;
mod tunnel;
mod verifier;

pub(crate) use config::{Secure, TlsPlan};
pub(crate) use layer::Tls;
pub use stream::TlsStream;
pub(crate) use stream::told as told_of_stream;
