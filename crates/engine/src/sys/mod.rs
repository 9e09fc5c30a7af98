//! All calls of the operating system, and all unsafe code of this crate.
//!
//! What a platform must provide: a [`Backend`] (edge-triggered readiness, sockets and the worker's clock), [`clock::now_ns`],
//! [`thread::pin`] and [`thread::cpu_use`]. Nothing outside this folder assumes Linux, or a kind of processor ([`vector`]).
#![allow(unsafe_code, reason = "system calls that rustix does not have, and vector instructions")]

mod backend;
pub(crate) mod clock;
mod datagrams;
mod epoll;
mod handshake;
mod interface;
pub(crate) mod network;
mod socket;
mod stamps;
pub(crate) mod thread;
mod ticker;
pub(crate) mod vector;
mod waker;

pub(crate) use backend::{Backend, DISCARD_BYTES, Event, WITHOUT_END};
pub(crate) use datagrams::{BATCHES_MAX, Datagrams, Spare, datagrams_to, is_too_long};
pub(crate) use epoll::{EVENTS_PER_WAIT, Epoll};
pub(crate) use interface::interface_number;
pub(crate) use socket::{Address, Connect, Received, Socket, Source, connect_within};
pub(crate) use ticker::Ticks;
pub(crate) use waker::Waker;
