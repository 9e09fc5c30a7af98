//! What a run asks of an agent, and what it answers. An agent answers every question once, in order, with its number.
//!
//! An agent has two roles: it watches a server, or it makes load ([`super::load`]). A change of a message, or a new one that an older
//! agent must understand, raises [`PROTOCOL`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load::{Echoed, LoadAnswer, LoadAsk};
use crate::listeners::Ports;
use webstone_model::record::{HostUse, ServerUse};

/// Version of the protocol. Both sides must have the same.
pub const PROTOCOL: u32 = 8;

/// A message with its number, which its answer has too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) message: T,
}

/// What an agent is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Ask {
    /// Nothing but an answer, to time the way.
    Echo,
    /// The server that listens on these ports, and its host.
    Find(Find),
    /// A level is about to start: [`crate::window::Window::before`].
    Level,
    /// Its window has opened: a reading, and counts from now on.
    Open,
    /// A slice of its window has ended: a reading, and what was used since the one before.
    Slice,
    /// Its window has closed: the last reading, and what was used since the first.
    Close,
    /// To the role that makes load.
    Load(LoadAsk),
}

/// Where the server is, seen from the generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Find {
    /// Ports that it listens on.
    pub(super) ports: Ports,
    /// Addresses that the load goes to.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Addresses that the load comes from.
    pub(super) generator: BTreeSet<IpAddr>,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Answer {
    /// To [`Ask::Echo`]; named otherwise, so that a program that repeats what it reads is not taken for an agent.
    Echoed(Echoed),
    /// To [`Ask::Find`].
    Found(Box<Found>),
    /// To [`Ask::Level`].
    Ready,
    /// To [`Ask::Open`].
    Opened(Age),
    /// To [`Ask::Slice`].
    Slice(Box<Interval>),
    /// To [`Ask::Close`].
    Closed(Box<Closed>),
    /// From the role that makes load.
    Load(LoadAnswer),
    /// To what cannot be done.
    Refused(String),
}

/// How long before its answer was sent a reading was taken, by the agent's monotonic clock: the rest of a round trip bounds
/// how late it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Age {
    pub(super) nanos: u64,
}

/// The server and its host, before the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Found {
    /// The ports that the server was looked for by: the agent's own where it was given some, else those of the question.
    pub(super) ports: BTreeSet<u16>,
    /// Whether anything listens on the ports.
    pub(super) listens: bool,
    /// The program that holds the ports and only forwards what arrives there.
    pub(super) forwarder: Option<String>,
    /// What identifies another agent that monitors the same.
    pub(super) identity: Identity,
    /// CPUs that the processes which listen may run on; `None` where they cannot be seen.
    pub(super) cpus: Option<Vec<u32>>,
    /// Which of the addresses that the load goes to this host does not have.
    pub(super) strange: BTreeSet<IpAddr>,
    /// The boot of the kernel that the agent runs on.
    pub(super) boot: Option<String>,
    /// Facts about the host.
    pub(super) environment: BTreeMap<String, Value>,
}

/// What an agent monitors, by numbers that are unique on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// The network namespace that it counts in.
    pub(super) network: Option<String>,
    /// The server's listening sockets, by inode, which is unique over all namespaces of a machine.
    pub(super) sockets: BTreeSet<u64>,
    /// The server's processes, by their namespace and number.
    pub(super) processes: BTreeSet<(String, u32)>,
}

/// What was used between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interval {
    /// By the host.
    pub(super) host: HostUse,
    /// By the server; `None` where its processes could not be read both times.
    pub(super) server: Option<ServerUse>,
    /// Of the second reading.
    pub(super) age: Age,
}

/// What was used in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Closed {
    /// In all of it.
    pub(super) window: Interval,
    /// In its last slice, if the ends of others were asked for.
    pub(super) last_slice: Option<Interval>,
}
