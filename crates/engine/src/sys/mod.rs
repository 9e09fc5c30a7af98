//! Everything that talks to the operating system, and all unsafe of this crate.
//!
//! What a platform must provide: [`Poller`] (edge-triggered readiness), [`Socket`] operations, [`clock::now_ns`],
//! [`thread::pin`] and [`thread::cpu_use`]. Nothing outside this folder assumes Linux.

pub(crate) mod clock;
mod poller;
mod socket;
pub(crate) mod thread;
mod waker;

pub(crate) use poller::{Event, Poller};
pub(crate) use socket::{Address, Connect, Received, Socket};
pub(crate) use waker::Waker;
