//! CPU time of other programs on this host in a window, by name: everything but this program, the server under test and threads
//! of the kernel.
//!
//! CPU time is read per process, once where the window opens and once where it closes. A child that ends in between is in the
//! time of the parent that waited for it, so the difference of the two sums holds it as well.
//!
//! In a container, and for a user from whom `/proc` hides the processes of others (`hidepid`), `/proc` does not show all of them. How
//! busy CPUs were it says of the whole host even then, so there other programs, and the kernel's threads with them, used what the CPUs
//! were busy without this program and the server.
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
/// What `/proc/self/ns/pid` leads to on the host itself: the number of the first PID namespace is fixed (`PROC_PID_INIT_INO` in
/// `linux/proc_ns.h`).
const HOSTS_OWN: &str = "pid:[4026531836]";
/// The host's first process, which another user may not be allowed to see.
const INIT: u32 = 1;

/// CPU time of every process, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OthersReading {
    processes: BTreeMap<u32, Process>,
    /// Threads of the kernel, which are not read again.
    kernel: BTreeSet<u32>,
    /// Whether processes of this host may be missing.
    hides_some: bool,
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

    /// What all but this program and its descendants used since it began, as far as `/proc` shows them, and how long that was: for this
    /// long at least, for which it waits. `None` where no process could be read.
    pub fn end(self, at_least: Duration) -> Option<(OthersUse, Duration)> {
        std::thread::sleep(at_least.saturating_sub(self.since.elapsed()));
        let (later, took) = (OthersReading::take(&Root::default()), self.since.elapsed());
        let used = self.reading.until(&later, &BTreeSet::from([std::process::id()]), 0)?;
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
        let is_hosts_own = root.link("/proc/self/ns/pid").is_none_or(|link| link.to_str() == Some(HOSTS_OWN));
        reading.hides_some = !is_hosts_own || !reading.processes.contains_key(&INIT);
        reading
    }

    /// What all processes used until a later reading, without those of `own` and their descendants. `None` where no process
    /// could be read. `busy_ns`: how long programs kept the CPUs of this host busy meanwhile, which tells of those that `/proc` hides.
    pub(crate) fn until(
        &self,
        later: &OthersReading,
        own: &BTreeSet<u32>,
        busy_ns: u64,
    ) -> Option<OthersUse> {
        if self.processes.is_empty() || later.processes.is_empty() {
            return None;
        }
        let is_own = |reading: &OthersReading, process: u32| reading.descends(process, own);
        let mut busiest = Vec::new();
        for (process, now) in later.processes.iter().filter(|(process, _)| !is_own(later, **process)) {
            // By its own time: a shell, or init, did not use the time of its children.
            let before_ns = self.processes.get(process).map_or(0, |before| before.own_ns);
            let cpu_ns = now.own_ns.saturating_sub(before_ns);
            if cpu_ns > 0 {
                busiest.push(OtherUse { process: *process, name: now.name.clone(), cpu_ns });
            }
        }
        busiest.sort_by_key(|other| std::cmp::Reverse(other.cpu_ns));
        busiest.truncate(OthersUse::NAMED_MAX);
        let seen_ns = self.used_by(later, |reading, process| !is_own(reading, process));
        let cpu_ns = match self.hides_some || later.hides_some {
            true => seen_ns.max(busy_ns.saturating_sub(self.used_by(later, is_own))),
            false => seen_ns,
        };
        Some(OthersUse { cpu_ns, busiest })
    }

    /// What the processes that belong used until a later reading.
    fn used_by(&self, later: &OthersReading, belongs: impl Fn(&OthersReading, u32) -> bool) -> u64 {
        let (mut sum_ns, mut of_children_ns) = (0_u64, BTreeMap::new());
        for (process, now) in later.processes.iter().filter(|(process, _)| belongs(later, **process)) {
            let (own_ns, all_ns) =
                self.processes.get(process).map_or((0, 0), |before| (before.own_ns, before.cpu_ns));
            let children_ns = (now.cpu_ns - now.own_ns).saturating_sub(all_ns - own_ns);
            sum_ns = sum_ns.saturating_add(now.own_ns.saturating_sub(own_ns)).saturating_add(children_ns);
            of_children_ns.insert(*process, children_ns);
        }
        // The time of an ended process is in its parent's, with what it had used before. Only if the parent waited for it, though, so no
        // more is taken off than came to that: otherwise one that nobody waited for would hide what all others used.
        let ended = self.processes.iter().filter(|(process, _)| !later.processes.contains_key(process));
        for (process, before) in ended.filter(|(process, _)| belongs(self, **process)) {
            let mut left_ns = before.cpu_ns;
            for heir in self.heirs(*process, later) {
                if let Some(children_ns) = of_children_ns.get_mut(&heir) {
                    let known_ns = left_ns.min(*children_ns);
                    *children_ns -= known_ns;
                    left_ns -= known_ns;
                    sum_ns -= known_ns;
                }
            }
        }
        sum_ns
    }

    /// Who may have waited for a process that has ended: its parent; if that has ended as well, those around it, because one that is left
    /// alone is given to one of them.
    fn heirs(&self, process: u32, later: &OthersReading) -> Vec<u32> {
        let mut heirs = Vec::new();
        let mut at = process;
        let mut is_left_alone = false;
        // As in `descends`.
        for _ in 0..=self.processes.len() {
            let Some(parent) = self.processes.get(&at).map(|process| process.parent) else { break };
            let is_there = later.processes.contains_key(&parent);
            if is_there {
                heirs.push(parent);
            }
            if is_there && !is_left_alone {
                break;
            }
            is_left_alone = true;
            at = parent;
        }
        heirs
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

    /// A process: its number, its parent's, its name, ticks of its own and of children that it waited for, flags.
    type Stat<'a> = (u32, u32, &'a str, [u64; 2], u64);

    fn reading_with(processes: &[Stat<'_>], namespace: Option<&str>) -> OthersReading {
        let stats: Vec<(String, String)> = processes
            .iter()
            .map(|(process, parent, name, [own, children], flags)| {
                let text = format!(
                    "{process} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {own} 0 {children} 0 20 0 1 0"
                );
                (format!("/proc/{process}/stat"), text)
            })
            .collect();
        let files: Vec<(&str, &str)> =
            stats.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (keep, root) = root_with(&files);
        if let Some(namespace) = namespace {
            let directory = keep.path().join("proc/self/ns");
            std::fs::create_dir_all(&directory).unwrap();
            std::os::unix::fs::symlink(namespace, directory.join("pid")).unwrap();
        }
        OthersReading::take(&root)
    }

    fn reading(processes: &[Stat<'_>]) -> OthersReading {
        reading_with(processes, None)
    }

    fn used(before: &[Stat<'_>], after: &[Stat<'_>]) -> (u64, Vec<String>) {
        let others = reading(before).until(&reading(after), &BTreeSet::from([10]), 0).unwrap();
        (others.cpu_ns / TICK_NS, others.busiest.into_iter().map(|other| other.name).collect())
    }

    #[test]
    fn only_others_count_and_the_busiest_is_named_first() {
        let before = [
            (1, 0, "init", [5, 0], 0),
            (10, 1, "own", [10, 0], 0),
            (11, 10, "server", [7, 0], 0),
            (20, 1, "a) b", [100, 0], 0),
        ];
        let after = [
            (1, 0, "init", [6, 0], 0),
            (10, 1, "own", [90, 0], 0),
            (11, 10, "server", [80, 0], 0),
            (20, 1, "a) b", [130, 0], 0),
            (30, 1, "new", [9, 0], 0),
            (40, 2, "ksoftirqd/0", [70, 0], KERNEL_THREAD),
        ];
        assert_eq!(used(&before, &after), (40, vec!["a) b".to_owned(), "new".to_owned(), "init".to_owned()]));
        assert_eq!(reading(&[]).until(&reading(&after), &BTreeSet::new(), 0), None);
    }

    #[test]
    fn a_child_that_ended_counts_once() {
        // It had used 50 before, and 20 in the window; its parent has waited for it.
        let before = [(1, 0, "make", [3, 0], 0), (2, 1, "cc", [50, 0], 0)];
        let after = [(1, 0, "make", [3, 70], 0)];
        assert_eq!(used(&before, &after).0, 20);
        // Nobody waited for it: what it used is lost, and nothing is made up.
        assert_eq!(used(&before, &[(1, 0, "make", [3, 0], 0)]).0, 0);
        // Its parent ended as well: it was init's in the end, and init waited for both.
        let before = [(1, 0, "init", [3, 0], 0), (2, 1, "make", [4, 9], 0), (3, 2, "cc", [500, 0], 0)];
        assert_eq!(used(&before, &[(1, 0, "init", [3, 533], 0)]).0, 20);
    }

    /// Its parent ignores the end of its children, so that the kernel forgets what they used.
    #[test]
    fn a_process_that_nobody_waited_for_hides_no_other() {
        let before = [
            (1, 0, "init", [5, 7], 0),
            (2, 1, "fcgiwrap", [3, 0], 0),
            (3, 2, "cgi", [9_000, 0], 0),
            (4, 1, "make", [8, 70], 0),
            (5, 4, "cc", [50, 0], 0),
        ];
        let after = [
            (1, 0, "init", [5, 7], 0),
            (2, 1, "fcgiwrap", [4, 0], 0),
            (4, 1, "make", [8, 150], 0),
            (6, 1, "yes", [40, 0], 0),
        ];
        assert_eq!(used(&before, &after).0, 1 + 30 + 40);
    }

    #[test]
    fn programs_that_proc_hides_are_told_by_how_busy_the_cpus_were() {
        let before = [(1, 0, "sh", [5, 0], 0), (10, 1, "own", [10, 0], 0), (11, 10, "server", [7, 3], 0)];
        let after = [(1, 0, "sh", [9, 0], 0), (10, 1, "own", [30, 0], 0), (11, 10, "server", [17, 13], 0)];
        let used = |namespace: &str, from: usize, busy: u64| {
            let reading = |processes: &[Stat<'_>]| reading_with(&processes[from..], Some(namespace));
            let others =
                reading(&before).until(&reading(&after), &BTreeSet::from([10]), busy * TICK_NS).unwrap();
            others.cpu_ns / TICK_NS
        };
        // This program and the server used 40.
        assert_eq!(used(HOSTS_OWN, 0, 100), 4, "nothing is hidden");
        assert_eq!(used("pid:[4026532311]", 0, 100), 60, "in a container");
        assert_eq!(used(HOSTS_OWN, 1, 100), 60, "hidden by hidepid");
        // Ticks may say a little less than the clocks of processes.
        assert_eq!(used("pid:[4026532311]", 0, 39), 4);
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
            (before.until(&after, own, 0).unwrap().cpu_ns, burnt)
        };
        let (others, burnt) = seen(&own);
        assert!(burnt > 0 && others >= burnt, "{others} {burnt}");
        let (without, _) = seen(&BTreeSet::from([std::process::id()]));
        assert!(without + burnt <= others, "{without} {others}");
    }
}
