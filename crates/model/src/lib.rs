//! The nouns of webstone: what is specified ([`spec`], [`series`], [`search`]) for which servers ([`servers`]), what
//! is reported during a run ([`event`]), what is stored ([`record`]) and what it is checked against ([`threshold`]).
//!
//! Nothing here performs I/O, reads a clock, spawns a thread or uses `unsafe`.
#![forbid(unsafe_code)]

pub mod agents;
pub mod connection_identity;
pub mod duel;
pub mod event;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod generators;
pub mod interfaces;
pub mod kubernetes;
pub mod network_path;
pub mod pages;
pub mod paths;
pub mod powers;
pub mod record;
pub mod redacted;
pub mod search;
pub mod series;
pub mod server_tls;
pub mod servers;
pub mod spec;
pub mod threshold;
pub mod toml_text;
