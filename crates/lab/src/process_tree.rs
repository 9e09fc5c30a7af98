//! The processes of a server together: what they have used so far, their number, their memory. Here is where the kernel keeps
//! each number and what is lost with ended processes; `window` uses them.
//!
//! A reading costs some system calls per thread, so it is taken where the window opens and where it closes. A sample counts processes,
//! threads and open files, of which the kernel keeps no peaks; it is taken while the window is open. Memory is read after the
//! window, because the kernel walks page tables for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use webstone_model::record::{ProcessUse, ThreadUse};

use crate::control_group::Throttled;
use crate::machine::{Root, kibibytes_after, number_after};
use crate::own_group;
use crate::process_use::{CpuReading, Scheduled, Stat, descendants};

/// The processes of a server, given by those that all others descend from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTree {
    /// Where `/proc` is read.
    pub root: Root,
    /// Process ids that all others descend from.
    pub heads: Vec<u32>,
    /// Whether the heads are the server's own. False for a supervisor: its counters include ended servers, but it is not one of
    /// them.
    pub with_heads: bool,
}

/// What all processes have used since they started, including the children that they waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeReading {
    pub(crate) cpu: CpuReading,
    faults_minor: u64,
    faults_major: u64,
    /// Bytes that disks read and wrote for them; `None` where this user may not ask.
    disk: Option<(u64, u64)>,
    /// By thread: the counts of ended threads are lost.
    threads: BTreeMap<u32, ThreadReading>,
    disk_wait_ns: Option<u64>,
    /// Whether a thread was blocked in the kernel.
    pub(crate) is_blocked: bool,
    throttled: Option<Throttled>,
}

/// What one thread has done in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ThreadReading {
    process: u32,
    name: String,
    /// Voluntary and involuntary context switches.
    switches: (u64, u64),
    /// In uninterruptible sleep.
    is_blocked: bool,
    /// `None` if the kernel does not report it.
    scheduled: Option<Scheduled>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Processes.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// `None` where this user may not see them all.
    pub descriptors: Option<u64>,
}

impl Present {
    /// The most of either, number by number.
    pub fn most(self, other: Present) -> Present {
        Present {
            processes: self.processes.max(other.processes),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// Resident memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Sum of the processes' own peaks since the last [`ProcessTree::reset_peak`].
    pub resident_max: u64,
    /// Sum of what is resident of each.
    pub resident: u64,
    /// The same with shared pages divided among the processes that share them; `None` if this user may not read every process.
    pub(crate) proportional: Option<u64>,
}

impl ProcessTree {
    /// A process and all that descend from it.
    pub fn below(root: &Root, head: u32) -> ProcessTree {
        ProcessTree { root: root.clone(), heads: vec![head], with_heads: true }
    }

    /// All that descend from a process, without that process.
    pub fn beneath(root: &Root, head: u32) -> ProcessTree {
        ProcessTree { with_heads: false, ..ProcessTree::below(root, head) }
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        let mut all = self.heads.clone();
        all.extend(self.heads.iter().flat_map(|head| descendants(&self.root, *head)));
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(crate) fn own(&self) -> Vec<u32> {
        let mut own = self.all();
        own.retain(|pid| self.with_heads || !self.heads.contains(pid));
        own
    }

    /// Whether none of those that all others descend from is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.heads.iter().all(|pid| Stat::started(&self.root, *pid).is_none())
    }

    /// What they have used so far; `None` when there is none.
    pub fn reading(&self) -> Option<TreeReading> {
        let root = &self.root;
        let mut reading = TreeReading { disk: Some((0, 0)), ..TreeReading::default() };
        let mut found = false;
        for pid in self.all() {
            let Some(stat) = Stat::read(root, pid) else { continue };
            found = true;
            let mut scheduled_ns = 0;
            for name in root.names(&format!("/proc/{pid}/task")) {
                let (Ok(number), Some(thread)) = (name.parse(), ThreadReading::read(root, pid, &name)) else {
                    continue;
                };
                scheduled_ns += thread.scheduled.map_or(0, |scheduled| scheduled.cpu_ns);
                reading.is_blocked |= thread.is_blocked;
                reading.threads.insert(number, thread);
            }
            reading.cpu = reading.cpu.plus(stat.cpu(scheduled_ns));
            reading.faults_minor += stat.faults_minor;
            reading.faults_major += stat.faults_major;
            reading.disk = reading.disk.zip(disk(root, pid)).map(|(all, own)| (all.0 + own.0, all.1 + own.1));
        }
        if let Some(cpu) = self.counted_together() {
            reading.cpu = cpu;
        }
        reading.disk_wait_ns =
            self.supervisor().and_then(|supervisor| own_group::disk_wait_ns(root, supervisor));
        reading.throttled = self.own().first().and_then(|pid| Throttled::of_process(root, *pid));
        found.then_some(reading)
    }

    /// CPU time of all of them together, if they have a control group of their own.
    fn counted_together(&self) -> Option<CpuReading> {
        own_group::cpu_time(&self.root, self.supervisor()?).map(CpuReading::exact)
    }

    /// The process that started all of them, which is not part of the server.
    fn supervisor(&self) -> Option<u32> {
        match self.heads.as_slice() {
            [supervisor] if !self.with_heads => Some(*supervisor),
            _ => None,
        }
    }

    /// How many there are now.
    pub fn present(&self) -> Present {
        let mut present = Present { descriptors: Some(0), ..Present::default() };
        for pid in self.own() {
            let Some(stat) = Stat::read(&self.root, pid) else { continue };
            present.processes += 1;
            present.threads += stat.threads;
            present.descriptors =
                present.descriptors.zip(self.root.descriptors(pid)).map(|(all, own)| all + own);
        }
        present
    }

    /// Their memory now, and its peak.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory { proportional: Some(0), ..Memory::default() };
        for pid in self.own() {
            let status = self.root.text(&format!("/proc/{pid}/status")).unwrap_or_default();
            // An ended process, and a zombie, has none.
            let Some(resident) = kibibytes_after(&status, "VmRSS:") else { continue };
            memory.resident += resident;
            memory.resident_max += kibibytes_after(&status, "VmHWM:").unwrap_or(resident);
            let shared = self.root.text(&format!("/proc/{pid}/smaps_rollup"));
            let shared = shared.and_then(|text| kibibytes_after(&text, "Pss:"));
            memory.proportional = memory.proportional.zip(shared).map(|(all, own)| all + own);
        }
        memory
    }

    /// Resets the peaks of resident memory (`/proc/<pid>/clear_refs`, value 5). Where the kernel does not allow it, the peak is
    /// that of the process' whole life.
    pub fn reset_peak(&self) {
        for pid in self.own() {
            self.root.write(&format!("/proc/{pid}/clear_refs"), "5");
        }
    }
}

impl TreeReading {
    /// What was used from this reading to a later one, besides CPU time, as the record has it; with the numbers of the
    /// processes at most, and their memory.
    pub fn until(&self, later: &TreeReading, present: Present, memory: Memory) -> ProcessUse {
        let mut switches = (0, 0);
        let (mut run_queue_ns, mut threads_cpu_ns) = (None, None);
        let mut busiest = Vec::new();
        for (number, after) in &later.threads {
            // One that ended may have left its number to another.
            let before = self.threads.get(number).filter(|before| before.process == after.process);
            let was = before.map(|before| before.switches).unwrap_or_default();
            switches.0 += after.switches.0.saturating_sub(was.0);
            switches.1 += after.switches.1.saturating_sub(was.1);
            let Some(scheduled) = after.scheduled else { continue };
            let was = before.and_then(|before| before.scheduled).unwrap_or_default();
            let used = ThreadUse {
                process: after.process,
                thread: *number,
                name: after.name.clone(),
                cpu_ns: scheduled.cpu_ns.saturating_sub(was.cpu_ns),
                run_queue_ns: scheduled.run_queue_ns.saturating_sub(was.run_queue_ns),
            };
            run_queue_ns = Some(run_queue_ns.unwrap_or(0) + used.run_queue_ns);
            threads_cpu_ns = Some(threads_cpu_ns.unwrap_or(0) + used.cpu_ns);
            busiest.push(used);
        }
        busiest.sort_by_key(|used| Reverse((used.cpu_ns, used.run_queue_ns)));
        busiest.truncate(ProcessUse::BUSIEST_OF_SLICE_MAX);
        busiest.retain(|used| used.cpu_ns > 0);
        let disk = self.disk.zip(later.disk);
        let since = |before: Option<u64>, after: Option<u64>| {
            before.zip(after).map(|(before, after)| after.saturating_sub(before))
        };
        ProcessUse {
            switches_voluntary: switches.0,
            switches_involuntary: switches.1,
            faults_minor: later.faults_minor.saturating_sub(self.faults_minor),
            faults_major: later.faults_major.saturating_sub(self.faults_major),
            disk_read_bytes: disk.map(|(before, after)| after.0.saturating_sub(before.0)),
            disk_written_bytes: disk.map(|(before, after)| after.1.saturating_sub(before.1)),
            readings: 1,
            readings_blocked: later.is_blocked.into(),
            disk_wait_ns: since(self.disk_wait_ns, later.disk_wait_ns),
            throttled_ns: self.throttled.as_ref().zip(later.throttled.as_ref()).and_then(|(a, b)| a.until(b)),
            processes_max: present.processes,
            threads_max: present.threads,
            descriptors_max: present.descriptors,
            resident_bytes: memory.resident,
            proportional_bytes: memory.proportional,
            run_queue_ns,
            threads_cpu_ns,
            busiest,
        }
    }
}

/// `/proc/<pid>/io`: what disks did for it, not what was found in the page cache. With all threads that have ended, and all
/// children that were waited for.
fn disk(root: &Root, pid: u32) -> Option<(u64, u64)> {
    let text = root.text(&format!("/proc/{pid}/io"))?;
    number_after(&text, "read_bytes:").zip(number_after(&text, "write_bytes:"))
}

impl ThreadReading {
    /// `/proc/<pid>/task/<thread>/status` and `schedstat`; `None` when there is no such thread.
    fn read(root: &Root, pid: u32, thread: &str) -> Option<ThreadReading> {
        let text = root.lossy_text(&format!("/proc/{pid}/task/{thread}/status"))?;
        let name = text.lines().find_map(|line| line.strip_prefix("Name:")).unwrap_or_default();
        let switches = number_after(&text, "voluntary_ctxt_switches:")
            .zip(number_after(&text, "nonvoluntary_ctxt_switches:"));
        Some(ThreadReading {
            process: pid,
            name: ThreadUse::plain_name(name),
            switches: switches.unwrap_or_default(),
            is_blocked: text.lines().any(|line| line.starts_with("State:\tD")),
            scheduled: Scheduled::read(root, pid, thread),
        })
    }
}

#[cfg(test)]
#[path = "process_tree_tests.rs"]
mod tests;
