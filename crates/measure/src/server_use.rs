//! What the processes of a server did in a window, and which of their threads were busiest. Part of a record; how it is read of a
//! kernel stands in the runner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the processes of the server under test did in a window, and what there was of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessUse {
    /// Times that a thread gave up its CPU of its own accord, to wait.
    pub switches_voluntary: u64,
    /// Times that the kernel took a thread's CPU away and gave it to another.
    pub switches_involuntary: u64,
    /// Page faults that needed no disk.
    pub faults_minor: u64,
    /// Page faults that waited for a disk.
    pub faults_major: u64,
    /// Bytes that disks read for it; absent where this user may not ask.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that disks have written or shall write for it; absent where this user may not ask.
    pub disk_written_bytes: Option<u64>,
    /// Time for which a control group's CPU quota throttled it, in nanoseconds; absent where the kernel counts none.
    pub throttled_ns: Option<u64>,
    /// Most processes that were seen at one look.
    pub processes_max: u64,
    /// Most threads that were seen at one look.
    pub threads_max: u64,
    /// Most descriptors that were seen open at one look; absent where this user may not see them.
    pub descriptors_max: Option<u64>,
    /// Resident memory when the window closed, in bytes: the sum over its processes.
    pub resident_bytes: u64,
    /// The same with each page that several processes share divided among them; absent where this user may not look.
    pub proportional_bytes: Option<u64>,
    /// Time for which its threads were ready to run and something else had the CPU, in nanoseconds, summed over threads; absent
    /// where the kernel does not tell. Threads that ended before the window closed are not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_ns: Option<u64>,
    /// CPU time of the threads that live when the window closes, of which the former is known, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_cpu_ns: Option<u64>,
    /// The threads that used most CPU time, the busiest first; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<ThreadUse>,
}

impl ProcessUse {
    /// How many of the busiest threads are kept.
    pub const BUSIEST_MAX: usize = 4;

    /// What an agent says of a server, within the bounds that the reading on this host keeps.
    pub fn bounded(mut self) -> ProcessUse {
        self.busiest.truncate(ProcessUse::BUSIEST_MAX);
        for thread in &mut self.busiest {
            thread.name = ThreadUse::plain_name(&thread.name);
        }
        self
    }
}

/// What one thread of the server did in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadUse {
    /// Its process, as its own host numbers it.
    pub process: u32,
    /// Its own number; that of its process for the first thread.
    pub thread: u32,
    /// Its name (`comm`), which for the first thread is the program's unless it named itself; made by [`ThreadUse::plain_name`].
    pub name: String,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Time for which it was ready to run and something else had the CPU, in nanoseconds.
    pub run_queue_ns: u64,
}

impl ThreadUse {
    /// How many characters of a name are kept. The kernel keeps 15 bytes of it.
    const NAME_CHARS_MAX: usize = 32;

    /// A name that may stand in a sentence: a program can name its threads anything, and an agent can tell anything.
    pub fn plain_name(name: &str) -> String {
        let shown = name.trim().chars().take(ThreadUse::NAME_CHARS_MAX);
        shown.map(|c| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '?' } else { c }).collect()
    }
}

/// What the server under test used while a level ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerUse {
    /// User CPU time of its processes, in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of its processes, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory, in bytes.
    pub resident_bytes_max: u64,
    /// Connections that it says it accepted, over the whole level.
    pub accepted: Option<u64>,
    /// Bytes that it says it sent, over the whole level.
    pub sent_bytes: Option<u64>,
    /// Requests that it says it answered, over the whole level.
    pub requests: Option<u64>,
    /// What its processes did besides using CPU time; absent where they could not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessUse>,
}

impl ServerUse {
    /// Whether its processes were read where the window opened and where it closed. If not, it has nothing but what the server counted
    /// itself, and its zeros were never measured.
    pub fn was_read(&self) -> bool {
        self.processes.is_some() || self.user_ns > 0 || self.system_ns > 0 || self.resident_bytes_max > 0
    }
}

/// What the server behind a proxy did while a window was open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OriginUse {
    /// What its processes used; absent where they cannot be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// What it counted; absent where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<OriginCounts>,
}

/// What the server behind a proxy counted between two readings, where the window opened and where it closed. Reading leaves
/// no trace in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OriginCounts {
    /// Requests that the proxy sent on to it.
    pub requests: u64,
    /// Of those: answered by a status of class 3xx, which of files is `304 Not Modified`.
    pub not_modified: u64,
    /// Connections that the proxy made to it.
    pub connections: u64,
    /// Bytes of bodies of whole answers.
    pub body_bytes: u64,
    /// Bytes of answers, heads and framing included.
    pub sent_bytes: u64,
    /// Bytes that it read: the proxy's requests.
    pub received_bytes: u64,
    /// Time between the two readings by its own clock, in nanoseconds.
    pub elapsed_ns: u64,
}
