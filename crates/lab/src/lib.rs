//! Servers under test and their hosts: drivers that configure, start, pin and stop servers ([`servers`], [`embedded`],
//! [`origin`]), what their processes and their host used in a window ([`window`]), facts about the host
//! ([`environment`]), a path between clients and a server ([`path`]), and the agent that does all this elsewhere ([`agent`]).
//!
//! Every process that is started here ends, however this program ends.
#![forbid(unsafe_code)]

pub mod agent;
mod aside;
pub mod attended;
pub mod child;
mod control_group;
mod cpu_watch;
pub mod cpus;
pub mod embedded;
pub mod endpoint;
pub mod environment;
pub mod fetch;
pub mod fileset;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod host_use;
pub mod interrupt;
pub mod limits;
mod link_speed;
pub mod listeners;
mod listening_sockets;
pub mod machine;
pub mod measured;
pub mod origin;
pub mod others;
mod own_group;
mod pair_ports;
pub mod path;
pub mod priority;
pub mod process_tree;
pub mod process_use;
pub mod servers;
pub mod slice_meter;
pub mod sock_diag;
pub mod supervisor;
pub mod thread_share;
pub mod window;

pub use interrupt::Interrupt;
