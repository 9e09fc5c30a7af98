//! Nouns and arithmetic of webstone: what is asked for ([`spec`]), what is requested ([`workload`]), what is counted
//! ([`metrics`], [`errors`]), what is concluded ([`figures`], [`identities`], [`comparison`], [`threshold`], [`search`]) and what is
//! kept ([`record`]).
//!
//! Nothing here performs I/O, reads a clock, spawns a thread or uses `unsafe`. That is what makes every figure
//! reproducible from a stored record, and every test of one a plain function call.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod arrivals;
pub mod calibration;
pub mod comparison;
pub mod consistency;
pub mod errors;
pub mod figures;
pub mod identities;
pub mod interfaces;
pub mod metric;
pub mod metrics;
pub mod origin_figures;
pub mod pages;
pub mod plausible;
mod process_use;
pub mod rate;
pub mod record;
pub mod redacted;
pub mod search;
pub mod series;
pub mod server_figures;
pub mod servers;
pub mod shown;
pub mod spec;
pub mod statistics;
pub mod threshold;
pub mod units;
pub mod verdict;
pub mod workload;
pub mod workout;
