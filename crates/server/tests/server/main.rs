//! The reference server against raw TCP peers: every behaviour seen from outside, byte by byte.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests are tests; the lint's own exception covers #[test] functions only"
)]

mod counting;
mod faults;
mod files;
mod http;
mod http2;
mod http3;
mod peer;
mod process;
mod schedules;
mod stability;
mod tls;
