//! The nouns of webstone: what is asked for ([`spec`]), what is requested ([`workload`]), what is counted ([`metrics`],
//! [`errors`]), the figures made of it ([`figures`], [`metric`], [`identities`]), what is told meanwhile ([`event`]) and what is kept ([`record`]).
//!
//! Nothing here performs I/O, reads a clock, spawns a thread or uses `unsafe`. That is what makes every figure
//! reproducible from a stored record, and every test of one a plain function call.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod agents;
pub mod arrivals;
pub mod connection_identity;
pub mod disturbance;
pub mod errors;
pub mod event;
pub mod figures;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod generators;
pub mod host_use;
pub mod http2_settings;
pub mod identities;
pub mod interfaces;
pub mod iteration;
pub mod json_tree;
pub mod keys;
pub mod kubernetes;
pub mod live;
pub mod load;
pub mod metric;
pub mod metrics;
mod one_or_several;
pub mod origin_figures;
pub mod pages;
pub mod parts;
pub mod powers;
pub mod rate;
pub mod record;
pub mod redacted;
#[cfg(any(test, feature = "fixture"))]
pub mod run_fixture;
pub mod search;
pub mod series;
pub mod server_figures;
pub mod server_hosts;
pub mod server_tls;
pub mod server_use;
pub mod servers;
pub mod shown;
pub mod spec;
pub mod strict;
pub mod target;
pub mod threshold;
pub mod tls;
pub mod tls_names;
pub mod toml_text;
pub mod units;
pub mod workload;
