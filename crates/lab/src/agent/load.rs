//! Messages to and from an agent that makes load. A level has steps: it is armed, starts, warms up, opens its window at an
//! agreed instant, and ends. Every instant in a message is on the agent's own monotonic clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use webstone_measure::metrics::WorkerUse;
use webstone_measure::rate::RateProfile;
use webstone_model::event::Live;
use webstone_model::record::{CodedSample, HostUse};

use super::frames::Payload;

/// When an echo arrived and was sent back, on the agent's monotonic clock in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echoed {
    /// When the question was read.
    pub received_ns: u64,
    /// When the answer was about to be written.
    pub sent_ns: u64,
}

/// What the role is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum LoadAsk {
    /// To say what host it is on.
    Describe,
    /// What will be made; the payload is a [`Plan`] as JSON. The server gets only a connection, to see that it can be reached.
    Prepare(Payload),
    /// To ask the target for the workload's files, as a run does that makes its load itself; after [`LoadAsk::Prepare`].
    CheckFiles,
    /// A level: its workers are set up, and wait.
    Arm(Arm),
    /// When the load begins.
    Go(u64),
    /// When the window opens.
    Open(u64),
    /// Whether the next slice of the window, in order, is kept.
    Judge(bool),
    /// After the close, once every slice is judged: whether figures are of all slices (`true`) or of those that are kept.
    Settle(bool),
    /// To close the window now, and to say what was measured.
    End,
    /// To end the load at once.
    Abort,
}

/// What is made, the same on every host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The specification, completed.
    pub spec: webstone_model::spec::RunSpec,
    /// The pages.
    pub workload: webstone_workload::Workload,
    /// The machine that the server runs on, by the boot of its kernel, and the CPUs that it has there: an agent on that machine
    /// leaves them alone.
    pub server: Option<(String, Vec<u32>)>,
    /// Contents of the files that the specification names, by the paths that they have on the controller's host.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The host was lost in this run, and begins again: its file of transactions is continued.
    pub again: bool,
}

/// An agent's part of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Clients of all hosts together.
    pub clients: u32,
    /// Open loop: arrivals of all hosts together.
    pub rate: Option<RateProfile>,
    /// Slots of the hosts before this one.
    pub first: u32,
    /// Slots of each worker here.
    pub each: u32,
    /// Workers here.
    pub workers: u32,
    /// Slots of all hosts.
    pub of: u32,
    /// Which of the level's iterations, for the file of transactions.
    pub iteration: u32,
    /// Length of the slices of its window in nanoseconds, 0 for none.
    pub slice_ns: u64,
}

/// What the role says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum LoadAnswer {
    /// To [`LoadAsk::Describe`].
    Described(Box<Described>),
    /// To [`LoadAsk::Prepare`].
    Prepared(Box<Prepared>),
    /// To [`LoadAsk::CheckFiles`].
    FilesChecked(Box<FilesChecked>),
    /// To [`LoadAsk::Arm`]: workers are set up.
    Armed,
    /// Warm-up is over, and every worker has had an answer.
    Warm,
    /// The agreed instant had already passed, by this many nanoseconds: the level has ended.
    Late(u64),
    /// Once a second while a level lasts.
    Beat(Box<Beat>),
    /// A slice of the window has ended.
    Slice(Box<HostSlice>),
    /// The level is over; the payload is a measured window.
    Ended(Box<Ended>),
    /// To [`LoadAsk::Prepare`] and [`LoadAsk::CheckFiles`]: the target cannot be put under load.
    NoTarget {
        /// What was tried and what came of it.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// It could not be made.
    Failed(String),
}

/// A host that makes load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// The host's name.
    pub name: String,
    /// Version of webstone, with its commit.
    pub version: String,
    /// SHA-256 of the program, in hex.
    pub program_sha256: String,
    /// The boot of its kernel.
    pub boot: Option<String>,
    /// CPUs that the agent may run on.
    pub cpus: Vec<u32>,
    /// The time of the host's calibration, or why it does not count; `None` where the host was never calibrated.
    pub calibration: Option<Result<String, String>>,
}

/// What a host will make its part with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// CPUs of its workers, in turn.
    pub cpus: Vec<u32>,
    /// Its workers.
    pub workers: u32,
    /// Whether the target's addresses are this host's.
    pub has_server: bool,
    /// Addresses of the target, as this host resolves it.
    pub addresses: BTreeSet<SocketAddr>,
    /// Facts about the host, by name.
    pub environment: BTreeMap<String, Value>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// How the target answered when it was asked for the workload's files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesChecked {
    /// `Server` field of its first answer.
    pub server: Option<String>,
    /// Offer of HTTP/3 in an answer over TCP.
    pub offers_http3: Option<String>,
    /// Answers that were coded.
    pub coded: Vec<CodedSample>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// How a level goes on a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// Totals over the open window so far.
    pub live: Live,
    /// The response times that its percentiles are of, in few bytes ([`webstone_measure::metrics::Histogram::to_base64_within`]).
    pub response: Option<String>,
    /// The busiest worker's share of a CPU in the last second.
    pub busiest_worker: Option<f64>,
}

/// What a host did in a slice of the window, by which the slice is judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSlice {
    /// Its number, from 0.
    pub number: u32,
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Valid responses that ended in it.
    pub requests: u64,
    /// Failures in it.
    pub errors: u64,
    /// Time that requests were in progress in it, in nanoseconds.
    pub busy_ns: u64,
    /// What each worker used.
    pub workers: Vec<WorkerUse>,
    /// What its kernel counted that concerns the workers; `None` if it was read too late.
    pub host: Option<HostUse>,
}

/// What a host did in a level, beside what it measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The window's measurements, as the payload has them.
    pub measured: Payload,
    /// When the window opened; 0 where it never did.
    pub opened_ns: u64,
    /// Wall-clock time at which it opened, in nanoseconds since 1970, by the host's own clock.
    pub opened_at_unix_ns: u64,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// Number of its first client.
    pub first_client: u32,
    /// What its kernel counted.
    pub host: HostUse,
}
