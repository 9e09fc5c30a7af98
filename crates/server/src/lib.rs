//! The reference web server, `webstone serve`: what the benchmark runs against when no other target is named, and what
//! its tests are measured against.
//!
//! **Why hyper.** The load generator has an HTTP implementation of its own. If the server shared it, one wrong reading
//! of the standard would cancel out and no test would see it. hyper is an independent implementation that many others
//! use. What hyper rightly refuses to produce (truncated bodies, resets, garbage) is written past it, straight to the
//! connection, by the module `faults`.
//!
//! **Why these threads.** Each thread owns one event loop, its connections, its file table and its counters, so that
//! nothing is locked and no cache line is shared while a request is answered. *One* listening socket serves them all:
//! thread 0 accepts and hands each connection to the thread that has fewest. The alternatives were weighed:
//! - A listening socket for each thread (`SO_REUSEPORT`) spreads connections by a hash of their addresses. With few
//!   connections that is a lottery (five clients on two threads all fall on one thread in 1 of 16 runs), which shows up
//!   as noise between runs and as unfairness between clients, the very things that are measured. It also makes
//!   several short listen queues out of one, so that `backlog` no longer means what it says.
//! - All threads accepting from one socket wakes every idle thread for each connection, and lets whichever wakes first
//!   take a whole burst.
//!
//! The price is a hand-over between threads of about a microsecond per connection, and one thread's limit on accepting (well over 100,000
//! connections per second); with one thread there is no hand-over at all.
//!
//! What is left out: certificates of clients, ranges, directory listings, and timeouts of idle connections.
#![forbid(unsafe_code)]

mod accept;
mod access_log;
mod body;
mod connection;
mod connection_faults;
mod control;
mod counters;
mod delay;
mod directory;
mod error;
mod exchange;
mod fastcgi;
mod faults;
mod files;
mod fileset;
mod fill;
mod gateway;
mod h3;
mod handlers;
mod host;
mod listener;
mod media_types;
mod names;
mod null_server;
mod options;
mod path;
mod persistent;
mod query;
mod readiness;
mod respond;
mod send;
mod serve;
mod server;
mod shard;
mod stream_faults;
mod test_answer;
mod tls;
mod wire;

pub use control::{COUNTERS_PATH, FAULT_PATH, REFUSE_PATH};
pub use counters::{Counters, StatusClasses};
pub use error::ServeError;
pub use fileset::{Fileset, Fill};
pub use gateway::{GatewayOptions, Interface};
pub use null_server::{NullOptions, serve_null};
pub use options::ServeOptions;
pub use respond::{
    RespondError, Responder, Slots, respond_cgi, respond_listening, respond_persistent, respond_slot,
};
pub use serve::serve;
pub use server::{Ready, RunningServer, ServeReport, Server};
pub use tls::Certificate;
