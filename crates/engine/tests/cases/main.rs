//! Truth, requests and the corners of HTTP: levels against servers whose answers are all known in advance.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue must fail")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

mod booked_time;
mod byte_peer;
mod connect_lag;
mod corners;
mod echoes;
mod floods;
mod frame_peer;
mod h2_corners;
mod h2_servers;
mod h2_settings;
mod h3_servers;
mod hpack;
mod open_loop;
mod opinions;
pub(crate) mod peer;
mod protocols;
mod requests;
mod several_hosts;
mod tls;
mod tls_ends;
mod tls_peer;
mod truth;
mod unanswered;
