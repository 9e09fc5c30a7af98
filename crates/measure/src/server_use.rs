//! What the processes of a server did in a window, and its busiest threads. Part of a record; it is read from a
//! kernel in `lab`.

use serde::{Deserialize, Serialize};

use crate::metrics::add_all;

/// What the processes of the server under test did in a window, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProcessUse {
    /// How often a thread gave up its CPU by itself, to wait.
    pub switches_voluntary: u64,
    /// How often the kernel took a CPU from a thread and gave it to another.
    pub switches_involuntary: u64,
    /// Page faults that needed no disk.
    pub faults_minor: u64,
    /// Page faults that waited for a disk.
    pub faults_major: u64,
    /// Bytes that disks read for it; absent without permission.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that disks have written or will write for it; absent without permission.
    pub disk_written_bytes: Option<u64>,
    /// Time for which at least one of its threads waited for a disk, in nanoseconds (`some` of `io.pressure` of its own control group);
    /// absent without such a group, or if the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_wait_ns: Option<u64>,
    /// How often its threads were read while the window was open or when it closed, and at how many of these readings one of them was
    /// blocked in the kernel (uninterruptible sleep, state D): by a disk, a lock, a frozen file system.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub readings: u64,
    /// See `readings`.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub readings_blocked: u64,
    /// Time for which a control group's CPU quota throttled it at most, in nanoseconds; absent if the kernel does not count
    /// it.
    pub throttled_ns: Option<u64>,
    /// Maximum number of processes in a sample.
    pub processes_max: u64,
    /// Maximum number of threads in a sample.
    pub threads_max: u64,
    /// Maximum number of open descriptors in a sample; absent without permission.
    pub descriptors_max: Option<u64>,
    /// Resident memory when the window closed, in bytes: the sum over its processes.
    pub resident_bytes: u64,
    /// The same with shared pages divided among the processes that share them; absent without permission.
    pub proportional_bytes: Option<u64>,
    /// Time for which its threads were ready to run while something else had the CPU, in nanoseconds, summed over
    /// threads; absent if the kernel does not report it. Without threads that ended before the window closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_ns: Option<u64>,
    /// CPU time of the threads that still exist when the window closes, for which the former is known, in
    /// nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_cpu_ns: Option<u64>,
    /// The threads that used most CPU time, the busiest first; absent if the kernel does not report it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<ThreadUse>,
}

impl ProcessUse {
    /// Number of busiest threads that are kept.
    pub const BUSIEST_MAX: usize = 4;
    /// The same of a slice: those of a window may be others in each.
    pub const BUSIEST_OF_SLICE_MAX: usize = 64;

    /// The same with no more threads than a record has.
    pub fn of_window(mut self) -> ProcessUse {
        self.busiest.truncate(ProcessUse::BUSIEST_MAX);
        self
    }

    /// The same window limited to a part of it. Peaks and states stay those of the whole.
    pub fn limited_to(self, part: &ProcessUse) -> ProcessUse {
        ProcessUse {
            processes_max: self.processes_max,
            threads_max: self.threads_max,
            descriptors_max: self.descriptors_max,
            resident_bytes: self.resident_bytes,
            proportional_bytes: self.proportional_bytes,
            ..part.clone()
        }
        .of_window()
    }

    /// Adds what was counted in another window, or on another host; what is unknown of one is unknown of both.
    pub(crate) fn add_counts(&mut self, other: &ProcessUse) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        add_all!(self, other, ProcessUse {
            switches_voluntary, switches_involuntary, faults_minor, faults_major, readings, readings_blocked;
            disk_read_bytes, disk_written_bytes, disk_wait_ns, throttled_ns, run_queue_ns, threads_cpu_ns,
            processes_max, threads_max, descriptors_max, resident_bytes, proportional_bytes, busiest
        });
        self.disk_read_bytes = sum(self.disk_read_bytes, other.disk_read_bytes);
        self.disk_written_bytes = sum(self.disk_written_bytes, other.disk_written_bytes);
        self.disk_wait_ns = sum(self.disk_wait_ns, other.disk_wait_ns);
        self.throttled_ns = sum(self.throttled_ns, other.throttled_ns);
        self.run_queue_ns = sum(self.run_queue_ns, other.run_queue_ns);
        self.threads_cpu_ns = sum(self.threads_cpu_ns, other.threads_cpu_ns);
    }

    /// Adds a later slice of the same window.
    fn append(&mut self, later: &ProcessUse) {
        self.add_counts(later);
        for thread in &later.busiest {
            match self.busiest.iter_mut().find(|mine| mine.thread == thread.thread) {
                Some(mine) => {
                    add_all!(mine, thread, [cpu_ns, run_queue_ns]);
                }
                None => self.busiest.push(thread.clone()),
            }
        }
        self.busiest.sort_by_key(|thread| std::cmp::Reverse((thread.cpu_ns, thread.run_queue_ns)));
        self.busiest.truncate(ProcessUse::BUSIEST_OF_SLICE_MAX);
    }

    /// Limits what an agent reports of a server as for readings on this host.
    pub fn bounded(mut self) -> ProcessUse {
        self.busiest.truncate(ProcessUse::BUSIEST_OF_SLICE_MAX);
        for thread in &mut self.busiest {
            thread.name = ThreadUse::plain_name(&thread.name);
        }
        self
    }
}

/// What one thread of the server did in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ThreadUse {
    /// Identifier of its process, on its own host.
    pub process: u32,
    /// Its own identifier; for the first thread the same as its process's.
    pub thread: u32,
    /// Its name (`comm`), for the first thread the program's unless it renamed itself; made by
    /// [`ThreadUse::plain_name`].
    pub name: String,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Time for which it was ready to run while something else had the CPU, in nanoseconds.
    pub run_queue_ns: u64,
}

impl ThreadUse {
    /// Number of characters of a name that are kept. The kernel has 15 bytes.
    const NAME_CHARS_MAX: usize = 32;

    /// A name that is safe within a sentence: a program can give its threads any names, and an agent can report
    /// anything.
    pub fn plain_name(name: &str) -> String {
        let shown = name.trim().chars().take(ThreadUse::NAME_CHARS_MAX);
        shown.map(|c| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '?' } else { c }).collect()
    }
}

/// What the server under test used while a level ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServerUse {
    /// User CPU time of its processes, in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of its processes, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory, in bytes.
    pub resident_bytes_max: u64,
    /// Connections that it reports to have accepted, over the whole level.
    pub accepted: Option<u64>,
    /// Bytes that it reports to have sent, over the whole level.
    pub sent_bytes: Option<u64>,
    /// Requests that it reports to have answered, over the whole level.
    pub requests: Option<u64>,
    /// What its processes did besides using CPU time; absent if they were not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessUse>,
}

impl ServerUse {
    /// Whether its processes were read when the window opened and when it closed. If not, it has only what the server
    /// counted itself, and its zeros were not measured.
    pub fn was_read(&self) -> bool {
        self.processes.is_some() || self.user_ns > 0 || self.system_ns > 0 || self.resident_bytes_max > 0
    }
}

impl ServerUse {
    /// Adds what its processes did in a later slice of the same window.
    pub fn append(&mut self, later: &ServerUse) {
        add_all!(self, later, [user_ns, system_ns]);
        self.resident_bytes_max = self.resident_bytes_max.max(later.resident_bytes_max);
        match (&mut self.processes, &later.processes) {
            (Some(mine), Some(theirs)) => mine.append(theirs),
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

/// What the server behind a proxy did while a window was open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginUse {
    /// What its processes used; absent if they are not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// What it counted; absent if it does not report that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<OriginCounts>,
}

impl OriginUse {
    /// Adds a later slice of the same window. What is unknown of one is unknown of both.
    pub fn append(&mut self, later: &OriginUse) {
        match (&mut self.server, &later.server) {
            (Some(mine), Some(theirs)) => mine.append(theirs),
            (mine, _) => *mine = None,
        }
        self.counted = self.counted.zip(later.counted).map(|(mut mine, theirs)| {
            add_all!(
                mine,
                theirs,
                [requests, not_modified, connections, body_bytes, sent_bytes, received_bytes, elapsed_ns]
            );
            mine
        });
    }
}

/// What the server behind a proxy counted between two readings, when the window opened and when it closed. The
/// readings themselves are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginCounts {
    /// Requests that the proxy forwarded to it.
    pub requests: u64,
    /// The part answered with a status of class 3xx, which for files is `304 Not Modified`.
    pub not_modified: u64,
    /// Connections that the proxy made to it.
    pub connections: u64,
    /// Bytes of bodies in complete answers.
    pub body_bytes: u64,
    /// Bytes of answers, including heads and framing.
    pub sent_bytes: u64,
    /// Bytes that it read: the proxy's requests.
    pub received_bytes: u64,
    /// Time between the two readings by its own clock, in nanoseconds.
    pub elapsed_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight threads are equally busy, but in each slice other ones come first.
    #[test]
    fn the_busiest_threads_of_a_window_need_not_be_those_of_its_slices() {
        let slice = |number: u64| ProcessUse {
            busiest: (0..8)
                .map(|thread| ThreadUse {
                    thread: thread as u32,
                    cpu_ns: 95 + u64::from((number + thread).is_multiple_of(2)),
                    ..ThreadUse::default()
                })
                .collect(),
            ..ProcessUse::default()
        };
        let mut kept = slice(0);
        (1..10).for_each(|number| kept.append(&slice(number)));
        let window = ProcessUse::default().limited_to(&kept);
        assert_eq!(window.busiest.iter().map(|thread| thread.cpu_ns).collect::<Vec<_>>(), [955; 4]);
    }
}
