//! The control flow of a run: checks before it, placement, sweeps, rounds, series, searches, calibration, workout. The load
//! itself is the engine's, servers and hosts are the laboratory's, records on disk the store's.
//!
//! [`run()`] is the way through all of it: a specification in, a [`RunOutcome`] out, progress to an
//! [`observer::Observer`], ended early by an [`Interrupt`](webstone_lab::Interrupt).
#![forbid(unsafe_code)]

mod awake;
pub mod calibrate;
pub mod check;
pub mod checkfiles;
pub mod duel;
pub mod fleet;
mod generator;
mod kept_on_hosts;
pub mod mining;
pub mod observer;
pub mod order;
mod overtime;
pub mod placement;
pub mod preflight;
pub mod record_all;
mod rounds;
mod run;
mod run_error;
mod run_time;
pub mod series;
mod slice_watch;
mod slicing;
mod speeds;
mod sweep;
mod trace;
mod under_test;
mod waiting;
mod workload_source;
pub mod workout;

pub use generator::LevelError;
pub use run::{Part, RunError, RunOutcome, RunnerOptions, resolve_workload, run};
pub use sweep::SweepError;
pub use workload_source::{Feeds, WorkloadSourceError, load_workload};
