//! The load generator: one event loop per core, with many clients on each.
//!
//! [`Plan::compile`] turns a specification and a workload into request bytes and addresses; [`run_level`] runs one
//! level against the target, or one host's part of it, and returns what was measured in one window. With [`Control`]
//! another thread ends a level early, watches it live, and passes on the instants that hosts agreed on. Protocols
//! (`h1`, `h2`, `h3`, `quic`) do no I/O; system calls and all unsafe code are in `sys`.

mod announced;
mod body_sum;
mod client;
mod clients;
mod connecting;
mod contents;
mod control;
mod datagrams;
mod dispatch;
mod disturbance;
mod draws;
mod duel;
mod echo;
mod exchange;
mod failing;
mod failure;
mod feeds;
mod fixed_work;
pub mod h1;
pub mod h2;
pub mod h3;
mod layer;
mod level;
mod line;
mod link;
mod links;
mod live;
mod loop_clock;
mod observe;
mod origin;
mod origins;
mod pacing;
mod paging;
mod parting;
mod plan;
mod plan_error;
mod probe;
mod probe_exchange;
mod proxy_protocol;
pub mod quic;
mod receiving;
mod recorder;
mod request_template;
mod resolver;
mod sampling;
mod seats;
mod sending;
mod session;
mod shared;
mod sharing;
#[cfg(test)]
mod simulated_tests;
mod slab;
mod slice;
mod slices;
mod stalls;
mod sys;
mod timers;
pub mod tls;
mod too_early;
mod transactions;
mod worker;

pub use clients::{STARTED_AT_ONCE, STARTED_PER_SECOND};
pub use control::{Control, InstantError, Opening};
pub use disturbance::disturbance;
pub use duel::{DuelJob, Ending, SideMeter, SideUse, run_duel};
pub use echo::Echo;
pub use fixed_work::fixed_work;
pub use level::{EngineError, LevelJob, LevelOutcome, run_level, workers_own_descriptors};
pub use origin::addresses;
pub use plan::Plan;
pub use plan_error::PlanError;
pub use probe::{Extent, Probe, ProbeError, ProbeResponse, ProbeTls, ReadTo, connect_like};
pub use seats::Seats;
pub use slices::{Sliced, WorkerSlice, slice_length_ns};
pub use sys::network::{own_network, tun_device};
pub use sys::thread::process_cpu_ns;
pub use tls::TlsStream;
pub use transactions::{TraceEvent, TraceKind, Transaction};
