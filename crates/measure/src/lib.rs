//! What webstone measures and computes: counters and histograms ([`metrics`]), classes of errors ([`errors`]), what
//! hosts and servers used ([`host_use`], [`server_use`]), one timed run with all of this ([`iteration`]), the figures
//! computed from it ([`figures`], [`metric`]) and the identities that it must satisfy ([`identities`]).
//!
//! Nothing here performs I/O, reads a clock, spawns a thread or uses `unsafe`. That is what makes every figure
//! reproducible from a stored record, and every test of one a plain function call.
#![forbid(unsafe_code)]

mod as_text;
pub mod disturbance;
pub mod errors;
pub mod figures;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod host_use;
pub mod identities;
pub mod iteration;
pub mod keys;
pub mod live;
pub mod metric;
pub mod metrics;
mod named;
pub mod one_or_several;
pub mod origin_figures;
pub mod parts;
pub mod rate;
pub mod server_figures;
pub mod server_hosts;
pub mod server_use;
pub mod shown;
pub mod slices;
pub mod strict;
pub mod tls;
pub mod units;
pub mod window_slices;
