//! CPU time of other programs on this host in a window, by name: everything but this program, the server under test and threads
//! of the kernel.
//!
//! CPU time is read per process, once where the window opens and once where it closes. A child that ends in between is in the
//! time of the parent that waited for it, so the difference of the two sums holds it as well.
//!
//! A process' own time is read from its clock, in nanoseconds: in a window of 50 ms, ticks of 10 ms would hide all that matters.
//! That of its children that ended is in ticks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use webstone_model::record::{OtherUse, OthersUse};

use crate::machine::Root;
use crate::process_use::TICK_NS;

/// Flag of a thread of the kernel (`PF_KTHREAD` in `linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// CPU time of every process, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OthersReading {
    processes: BTreeMap<u32, Process>,
    /// Threads of the kernel, which are not read again.
    kernel: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    /// Its own.
    own_ns: u64,
    /// Of it and the children that it waited for.
    cpu_ns: u64,
}

/// A look at what other programs use, from its beginning on.
#[derive(Debug)]
pub struct Look {
    since: Instant,
    reading: OthersReading,
}

impl Look {
    /// Begins now.
    pub fn begin() -> Look {
        Look { since: Instant::now(), reading: OthersReading::take(&Root::default()) }
    }

    /// What all but this program and its descendants used since it began, and how long that was: for this long at least, for which it
    /// waits. `None` where no process could be read.
    pub fn end(self, at_least: Duration) -> Option<(OthersUse, Duration)> {
        std::thread::sleep(at_least.saturating_sub(self.since.elapsed()));
        let (later, took) = (OthersReading::take(&Root::default()), self.since.elapsed());
        let used = self.reading.until(&later, &BTreeSet::from([std::process::id()]))?;
        Some((used, took))
    }
}

impl OthersReading {
    /// Reads all processes but the kernel's.
    pub(crate) fn take(root: &Root) -> OthersReading {
        OthersReading::default().again(root)
    }

    /// The same later, without looking again at what is known to be the kernel's: half of all on many hosts.
    pub(crate) fn again(&self, root: &Root) -> OthersReading {
        let mut reading = OthersReading { kernel: self.kernel.clone(), ..OthersReading::default() };
        for process in root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
            if self.kernel.contains(&process) {
                continue;
            }
            match read(root, process) {
                Some(Some(read)) => drop(reading.processes.insert(process, read)),
                Some(None) => drop(reading.kernel.insert(process)),
                None => {}
            }
        }
        reading
    }

    /// What all processes used until a later reading, without those of `own` and their descendants. `None` where no process
    /// could be read.
    pub(crate) fn until(&self, later: &OthersReading, own: &BTreeSet<u32>) -> Option<OthersUse> {
        if self.processes.is_empty() || later.processes.is_empty() {
            return None;
        }
        let other = |reading: &OthersReading, process: u32| !reading.descends(process, own);
        let mut sum: i128 = 0;
        let mut busiest = Vec::new();
        for (process, now) in later.processes.iter().filter(|(process, _)| other(later, **process)) {
            let before = self.processes.get(process);
            sum += i128::from(now.cpu_ns) - i128::from(before.map_or(0, |before| before.cpu_ns));
            // By its own time: a shell, or init, did not use the time of its children.
            let cpu_ns = now.own_ns.saturating_sub(before.map_or(0, |before| before.own_ns));
            if cpu_ns > 0 {
                busiest.push(OtherUse { process: *process, name: now.name.clone(), cpu_ns });
            }
        }
        // The time of an ended process is in its parent's, including what it had used before.
        let ended = self.processes.iter().filter(|(process, _)| !later.processes.contains_key(process));
        sum -= ended
            .filter(|(process, _)| other(self, **process))
            .map(|(_, before)| i128::from(before.cpu_ns))
            .sum::<i128>();
        busiest.sort_by_key(|other| std::cmp::Reverse(other.cpu_ns));
        busiest.truncate(OthersUse::NAMED_MAX);
        Some(OthersUse { cpu_ns: u64::try_from(sum).unwrap_or(0), busiest })
    }

    fn descends(&self, process: u32, from: &BTreeSet<u32>) -> bool {
        let mut at = process;
        // A chain of parents is at most as long as the number of processes; a slow reading may contain a cycle.
        for _ in 0..=self.processes.len() {
            if from.contains(&at) {
                return true;
            }
            match self.processes.get(&at) {
                Some(process) if process.parent != 0 => at = process.parent,
                _ => return false,
            }
        }
        false
    }
}

/// `Some(None)`: a thread of the kernel.
fn read(root: &Root, process: u32) -> Option<Option<Process>> {
    let stat = root.text(&format!("/proc/{process}/stat"))?;
    // The name stands in parentheses and may hold any character, parentheses too (proc_pid_stat(5)).
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat[close + 1..].split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
    if field(9)? & KERNEL_THREAD != 0 {
        return Some(None);
    }
    let ticks_ns = (field(14)? + field(15)?) * TICK_NS;
    // At least the ticks: a process that has ended since has no clock any more.
    let clock_ns = if *root == Root::default() { webstone_engine::process_cpu_ns(process) } else { None };
    let own_ns = clock_ns.unwrap_or(0).max(ticks_ns);
    let cpu_ns = own_ns + (field(16)? + field(17)?) * TICK_NS;
    let name = stat.get(open + 1..close)?.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(Some(Process { parent: u32::try_from(field(4)?).ok()?, name, own_ns, cpu_ns }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    fn reading(processes: &[(u32, u32, &str, u64, u64)]) -> OthersReading {
        let stats: Vec<(String, String)> = processes
            .iter()
            .map(|(process, parent, name, ticks, flags)| {
                let text =
                    format!("{process} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0");
                (format!("/proc/{process}/stat"), text)
            })
            .collect();
        let files: Vec<(&str, &str)> =
            stats.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_keep, root) = root_with(&files);
        OthersReading::take(&root)
    }

    fn used(
        before: &[(u32, u32, &str, u64, u64)],
        after: &[(u32, u32, &str, u64, u64)],
    ) -> (u64, Vec<String>) {
        let others = reading(before).until(&reading(after), &BTreeSet::from([10])).unwrap();
        (others.cpu_ns / TICK_NS, others.busiest.into_iter().map(|other| other.name).collect())
    }

    #[test]
    fn only_others_count_and_the_busiest_is_named_first() {
        let before =
            [(1, 0, "init", 5, 0), (10, 1, "own", 10, 0), (11, 10, "server", 7, 0), (20, 1, "a) b", 100, 0)];
        let after = [
            (1, 0, "init", 6, 0),
            (10, 1, "own", 90, 0),
            (11, 10, "server", 80, 0),
            (20, 1, "a) b", 130, 0),
            (30, 1, "new", 9, 0),
            (40, 2, "ksoftirqd/0", 70, KERNEL_THREAD),
        ];
        assert_eq!(used(&before, &after), (40, vec!["a) b".to_owned(), "new".to_owned(), "init".to_owned()]));
        assert_eq!(reading(&[]).until(&reading(&after), &BTreeSet::new()), None);
    }

    #[test]
    fn a_child_that_ended_counts_once() {
        // It had used 50 before, and 20 in the window; its parent has waited for it.
        let before = [(1, 0, "make", 3, 0), (2, 1, "cc", 50, 0)];
        let after = [(1, 0, "make", 3 + 70, 0)];
        assert_eq!(used(&before, &after).0, 20);
        // Nobody waited for it: what it used is lost, and nothing is made up.
        assert_eq!(used(&before, &[(1, 0, "make", 3, 0)]).0, 0);
    }

    #[test]
    fn a_program_that_burns_is_seen() {
        let root = Root::default();
        let mut burner =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        // It is this program's child, so it counts only if this program does.
        let own = BTreeSet::new();
        let before = OthersReading::take(&root);
        std::thread::sleep(std::time::Duration::from_millis(600));
        let after = OthersReading::take(&root);
        burner.kill().unwrap();
        burner.wait().unwrap();
        let seen = |own: &BTreeSet<u32>| {
            let burnt = after.processes[&burner.id()].cpu_ns - before.processes[&burner.id()].cpu_ns;
            (before.until(&after, own).unwrap().cpu_ns, burnt)
        };
        let (others, burnt) = seen(&own);
        assert!(burnt > 0 && others >= burnt, "{others} {burnt}");
        let (without, _) = seen(&BTreeSet::from([std::process::id()]));
        assert!(without + burnt <= others, "{without} {others}");
    }
}
