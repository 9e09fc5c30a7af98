//! What the contestants of a duel have used so far, read twice for each slice of some 20 ms, so in microseconds: by the CPU clocks of their
//! processes, or by the control group that they have to themselves.
//!
//! Which processes and threads there are is looked up only now and then, after a slice: a process that began in between counts from its
//! beginning, in that slice, because servers make processes for load. One that ended counts where its parent waited for it, in ticks;
//! else up to its last reading. A control group needs none of this: it forgets nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use webstone_engine::{SideMeter, SideUse, process_cpu_ns};

use crate::machine::number_after;
use crate::own_group;
use crate::process_tree::ProcessTree;
use crate::process_use::Stat;

/// Processes and threads are looked up again after this many slices of a side.
const SLICES_PER_LOOK: u32 = 5;
/// Most threads whose waits are read: each costs a system call.
const THREADS_MAX: usize = 64;

/// See the module comment. A side without processes is not seen.
pub struct SliceMeter {
    sides: Vec<Option<Processes>>,
}

impl SliceMeter {
    /// For these contestants, in order; `None` for one whose processes cannot be seen.
    pub fn new(sides: impl IntoIterator<Item = Option<ProcessTree>>) -> SliceMeter {
        SliceMeter { sides: sides.into_iter().map(|tree| tree.map(Processes::new)).collect() }
    }
}

impl SideMeter for SliceMeter {
    fn open(&mut self) {
        for processes in self.sides.iter_mut().flatten() {
            processes.look(Since::Now);
        }
    }

    fn before(&mut self, side: usize) -> SideUse {
        self.sides[side].as_mut().map(Processes::used).unwrap_or_default()
    }

    fn after(&mut self, side: usize) -> SideUse {
        self.sides[side].as_mut().map(Processes::used_in_slice).unwrap_or_default()
    }
}

/// Since when the CPU time of a process that is found counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Now,
    ItsBeginning,
}

struct Processes {
    tree: ProcessTree,
    /// The group's account of CPU time, if there is one.
    group: Option<PathBuf>,
    clocks: BTreeMap<u32, Clock>,
    /// CPU time of ended processes that was already counted. Their parents' counters contain it again.
    ended_ns: u64,
    /// By process and thread: its `schedstat`, and the time that it has waited.
    threads: BTreeMap<(u32, u32), (File, u64)>,
    slices: u32,
    used: SideUse,
}

/// A process when it was read last.
struct Clock {
    cpu_ns: u64,
    /// Its `stat`, and what it says of the children that the process has waited for.
    stat: Option<File>,
    of_children_ns: u64,
}

impl Clock {
    fn of_process(pid: u32, since: Since) -> Clock {
        let stat = File::open(format!("/proc/{pid}/stat")).ok();
        let new = Clock { cpu_ns: 0, stat, of_children_ns: 0 };
        match new.read(pid).filter(|_| since == Since::Now) {
            Some((cpu_ns, of_children_ns)) => Clock { cpu_ns, of_children_ns, ..new },
            None => new,
        }
    }

    /// `None`: it has ended.
    fn read(&self, pid: u32) -> Option<(u64, u64)> {
        let of_children_ns = self.stat.as_ref().and_then(of_children_ns).unwrap_or(self.of_children_ns);
        Some((process_cpu_ns(pid)?, of_children_ns))
    }
}

impl Processes {
    fn new(tree: ProcessTree) -> Processes {
        let group = match tree.heads.as_slice() {
            [supervisor] if !tree.with_heads => own_group::account(&tree.root, *supervisor),
            _ => None,
        };
        let mut processes = Processes {
            tree,
            group,
            clocks: BTreeMap::new(),
            ended_ns: 0,
            threads: BTreeMap::new(),
            slices: 0,
            used: SideUse::default(),
        };
        processes.look(Since::Now);
        processes
    }

    /// What they have used after a slice.
    fn used_in_slice(&mut self) -> SideUse {
        if self.slices.is_multiple_of(SLICES_PER_LOOK) {
            self.look(Since::ItsBeginning);
        }
        self.slices += 1;
        self.used()
    }

    fn used(&mut self) -> SideUse {
        match &self.group {
            Some(path) => self.used.cpu_ns = group_ns(path).or(self.used.cpu_ns),
            None => self.read_clocks(),
        }
        for (file, last) in self.threads.values_mut() {
            if let Some(now) = waited_ns(file) {
                *self.used.waited_ns.get_or_insert(0) += now.saturating_sub(*last);
                *last = now;
            }
        }
        self.used
    }

    fn read_clocks(&mut self) {
        let mut of_children_ns = 0;
        self.clocks.retain(|pid, last| {
            let Some((cpu_ns, children_ns)) = last.read(*pid) else {
                self.ended_ns += last.cpu_ns + last.of_children_ns;
                return false;
            };
            *self.used.cpu_ns.get_or_insert(0) += cpu_ns.saturating_sub(last.cpu_ns);
            of_children_ns += children_ns.saturating_sub(last.of_children_ns);
            (last.cpu_ns, last.of_children_ns) = (cpu_ns, children_ns);
            true
        });
        let known_ns = of_children_ns.min(self.ended_ns);
        self.ended_ns -= known_ns;
        if let Some(cpu_ns) = &mut self.used.cpu_ns {
            *cpu_ns += of_children_ns - known_ns;
        }
    }

    fn look(&mut self, since: Since) {
        let present = self.tree.own();
        self.clocks.retain(|pid, _| present.contains(pid) || process_cpu_ns(*pid).is_none());
        self.threads.retain(|(pid, _), (file, _)| present.contains(pid) && waited_ns(file).is_some());
        for pid in present {
            if self.group.is_none() {
                self.clocks.entry(pid).or_insert_with(|| Clock::of_process(pid, since));
            }
            for name in self.tree.root.names(&format!("/proc/{pid}/task")) {
                let Ok(thread) = name.parse() else { continue };
                if self.threads.len() >= THREADS_MAX || self.threads.contains_key(&(pid, thread)) {
                    continue;
                }
                if let Ok(file) = File::open(format!("/proc/{pid}/task/{name}/schedstat"))
                    && let Some(waited) = waited_ns(&file)
                {
                    self.threads.insert((pid, thread), (file, waited));
                }
            }
        }
    }
}

/// All CPU time of a control group (`Documentation/admin-guide/cgroup-v2.rst`, `cpu.stat`), in nanoseconds.
fn group_ns(path: &PathBuf) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(number_after(&text, "usage_usec ")? * 1_000)
}

/// What a process's `stat` says of the children that it has waited for.
fn of_children_ns(stat: &File) -> Option<u64> {
    let mut text = [0; 1024];
    let length = stat.read_at(&mut text, 0).ok()?;
    Some(Stat::parse(&String::from_utf8_lossy(&text[..length]))?.of_children_ns())
}

/// The second number of `schedstat`: time in the run queue.
fn waited_ns(file: &File) -> Option<u64> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).ok().filter(|length| *length > 0)?;
    std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::machine::Root;
    use crate::process_use::TICK_NS;

    #[test]
    fn a_process_that_works_is_seen_within_a_slice_and_one_that_rests_is_not() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).spawn().expect("every system has a shell")
        };
        let (mut works, mut rests) = (start("while :; do :; done"), start("read word"));
        let tree = |pid| Some(ProcessTree::below(&Root::default(), pid));
        let mut meter = SliceMeter::new([tree(works.id()), tree(rests.id()), None]);
        let before = [meter.before(0), meter.before(1), meter.before(2)];
        let (begun, enough) = (Instant::now(), 20_000_000);
        let mut after = meter.after(0);
        // On a busy machine it may have to wait for its CPU.
        while after.cpu_ns.unwrap() - before[0].cpu_ns.unwrap() < enough
            && begun.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(5));
            after = meter.after(0);
        }
        let rested = meter.after(1).cpu_ns.unwrap() - before[1].cpu_ns.unwrap();
        works.kill().unwrap();
        works.wait().unwrap();
        drop(rests.stdin.take());
        rests.wait().unwrap();
        assert!(after.cpu_ns.unwrap() - before[0].cpu_ns.unwrap() >= enough);
        assert!(after.waited_ns.is_some());
        assert!(rested < enough / 2, "{rested}");
        assert_eq!(before[2], SideUse::default());
        // What is gone has not used less than before.
        assert!(meter.after(0).cpu_ns >= after.cpu_ns);
    }

    /// The parent waits for a word, then for the child that it starts. What the child has used when the slice ends is in the slice, and what
    /// it used in the warm-up is not.
    #[test]
    fn a_process_that_begins_in_a_slice_counts_there_from_its_beginning() {
        let enough = 20_000_000;
        let mut command = Command::new("sh");
        command.args(["-c", "read word; (while :; do :; done) & read word; kill $!; wait"]);
        let mut parent = command.stdin(Stdio::piped()).spawn().unwrap();
        let tree = ProcessTree::below(&Root::default(), parent.id());
        let child_ns = || {
            let child = tree.own().into_iter().find(|pid| *pid != parent.id());
            child.and_then(process_cpu_ns).unwrap_or(0)
        };
        let mut meters = [0; 2].map(|_| SliceMeter::new([Some(tree.clone())]));
        let before = meters[0].before(0);
        writeln!(parent.stdin.as_ref().unwrap(), "go").unwrap();
        let begun = Instant::now();
        while child_ns() < enough && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let begun_ns = child_ns();
        let after = meters[0].after(0);
        let used = meters[0].before(0);
        // The other one warms up meanwhile.
        let warm = child_ns();
        meters[1].open();
        let (opened, end) = (meters[1].before(0), child_ns());
        drop(parent.stdin.take());
        parent.wait().unwrap();
        assert!(begun_ns >= enough, "{begun_ns}");
        let slice_ns = after.cpu_ns.unwrap() - before.cpu_ns.unwrap();
        assert!(slice_ns >= begun_ns, "{slice_ns} and {begun_ns}");
        assert!(used.cpu_ns >= after.cpu_ns);
        assert!(opened.cpu_ns.unwrap_or(0) <= end - warm + enough / 2, "{opened:?}");
    }

    /// Two processes end within the slice; the meter had seen one of them.
    #[test]
    fn processes_that_end_in_a_slice_count_once() {
        let mut command = Command::new("sh");
        let works = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let script =
            format!("sh -c 'read word; {works}' <&3 3<&- & read word; wait; sh -c '{works}'; read word");
        let mut parent =
            command.args(["-c", &format!("exec 3<&0; {script}")]).stdin(Stdio::piped()).spawn().unwrap();
        let tree = ProcessTree::below(&Root::default(), parent.id());
        let begun = Instant::now();
        while tree.own().len() < 2 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let used_ns = |of: fn(&Stat) -> u64| of(&Stat::read(&Root::default(), parent.id()).unwrap());
        let mut meter = SliceMeter::new([Some(tree.clone())]);
        let before = meter.before(0).cpu_ns.unwrap();
        writeln!(parent.stdin.as_ref().unwrap(), "go\ngo").unwrap();
        let mut last_ns = 0;
        while begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
            let children_ns = used_ns(Stat::of_children_ns);
            let is_over = children_ns > 0 && children_ns == last_ns && tree.own().len() == 1;
            last_ns = children_ns;
            let _ = meter.before(0);
            if is_over {
                break;
            }
        }
        let slice_ns = meter.after(0).cpu_ns.unwrap() - before;
        drop(parent.stdin.take());
        parent.wait().unwrap();
        let tolerance = 3 * TICK_NS + last_ns / 10;
        assert!(last_ns > 0 && slice_ns.abs_diff(last_ns) < tolerance, "{slice_ns} of {last_ns}");
    }
}
