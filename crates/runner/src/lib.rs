//! Processes, files and machines: everything around the load that has effects. Sweeps, the embedded server, the result
//! store, checks before a run, facts about the host. The load itself is the engine's, what numbers mean the model's.
//!
//! [`run()`] is the way through all of it: a specification in, a [`RunOutcome`] out, progress to an
//! [`observer::Observer`], ended early by an [`Interrupt`].
#![forbid(unsafe_code)]

pub mod agent;
mod attended;
pub mod calibrate;
pub mod certify;
pub mod checkfiles;
pub mod clock;
mod control_group;
mod cpu_watch;
pub mod embedded;
pub mod environment;
mod fetch;
pub mod fileset;
mod generator;
mod host_use;
mod interrupt;
mod listeners;
mod listening_sockets;
pub mod machine;
pub mod mining;
pub mod observer;
pub mod order;
mod origin;
mod others;
mod own_group;
mod pair_ports;
pub mod placement;
pub mod plain_file;
pub mod preflight;
mod process_tree;
pub mod process_use;
pub mod record_all;
pub mod redaction;
mod rounds;
mod run;
mod run_error;
pub mod scratch;
pub mod series;
pub mod servers;
mod sock_diag;
mod sole_file;
pub mod store;
pub mod supervisor;
mod sweep;
mod trace;
mod under_test;
mod window;
mod workload_source;
pub mod workout;

pub use interrupt::Interrupt;
pub use run::{Part, RunError, RunOutcome, RunnerOptions, resolve_workload, run};
pub use sweep::SweepError;
pub use workload_source::{WorkloadSourceError, load_workload};

// The command line starts the reference server and shows the engine's totals; these are its way to both.
pub use webstone_engine::{Live, Phase};
pub use webstone_server as server;
