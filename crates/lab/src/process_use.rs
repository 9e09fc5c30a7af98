//! One process in `/proc`: its CPU time, page faults and threads, and which others descend from it. A server's processes
//! taken together are `process_tree`'s.
//!
//! `/proc/<pid>/stat` has user and system time in ticks of 10 ms, of all threads. `/proc/<pid>/task/*/schedstat` has the sum of
//! both in nanoseconds, of living threads. So the sum is taken from there, unless it is smaller. What was used between two
//! readings is the difference of their sums, divided as the ticks in between are: if each reading were divided alone, time
//! could move from one part to the other, and the parts would not add up.

use crate::machine::Root;

/// Nanoseconds of one tick in `/proc/<pid>/stat`: USER_HZ is 100 on every architecture that Linux 5 and later and this
/// program run on.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// CPU time of a process tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel, in nanoseconds.
    pub system_ns: u64,
}

impl CpuTime {
    /// Both together.
    pub fn plus(self, other: CpuTime) -> CpuTime {
        CpuTime { user_ns: self.user_ns + other.user_ns, system_ns: self.system_ns + other.system_ns }
    }

    fn whole(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// What has been used up to a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuReading {
    /// In nanoseconds, user and system together.
    pub(crate) whole_ns: u64,
    /// What is known of user and system apart.
    parts: CpuTime,
}

impl CpuReading {
    /// Where both parts are known as exactly as their sum.
    pub(crate) fn exact(parts: CpuTime) -> CpuReading {
        CpuReading { whole_ns: parts.whole(), parts }
    }

    /// Both together.
    pub(crate) fn plus(self, other: CpuReading) -> CpuReading {
        CpuReading { whole_ns: self.whole_ns + other.whole_ns, parts: self.parts.plus(other.parts) }
    }

    /// What was used since an earlier reading. Without a tick in between, it is divided like the total so far.
    pub(crate) fn since(self, earlier: CpuReading) -> CpuTime {
        let between = CpuTime {
            user_ns: self.parts.user_ns.saturating_sub(earlier.parts.user_ns),
            system_ns: self.parts.system_ns.saturating_sub(earlier.parts.system_ns),
        };
        let parts = if between.whole() > 0 { between } else { self.parts };
        let whole_ns = self.whole_ns.saturating_sub(earlier.whole_ns);
        let user_ns = match parts.whole() {
            0 => whole_ns / 2,
            whole => (u128::from(whole_ns) * u128::from(parts.user_ns) / u128::from(whole)) as u64,
        };
        CpuTime { user_ns, system_ns: whole_ns - user_ns }
    }
}

/// What `/proc/<pid>/stat` has of a process: of all its threads, ended ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Its own CPU time, in whole ticks.
    ticks: CpuTime,
    /// That of the children that it has waited for.
    of_children: CpuTime,
    /// Page faults that needed no disk, of those children too.
    pub(crate) faults_minor: u64,
    /// Page faults that waited for a disk, of those children too.
    pub(crate) faults_major: u64,
    /// Living threads.
    pub(crate) threads: u64,
    /// When it started, in ticks since the machine did: process ids are used again.
    started: u64,
    /// It has ended, and is listed until its parent waits for it.
    has_ended: bool,
}

impl Stat {
    /// `None` when there is no such process.
    pub(crate) fn read(root: &Root, pid: u32) -> Option<Stat> {
        Stat::parse(&root.lossy_text(&format!("/proc/{pid}/stat"))?)
    }

    /// The text of the file; `None` for anything else.
    pub(crate) fn parse(stat: &str) -> Option<Stat> {
        // The second field is the name in parentheses, which may hold spaces and parentheses itself (proc(5)).
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
        // Numbers of proc_pid_stat(5); the third field is the first here.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        Some(Stat {
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            faults_minor: field(10)? + field(11)?,
            faults_major: field(12)? + field(13)?,
            ticks: CpuTime { user_ns: field(14)? * TICK_NS, system_ns: field(15)? * TICK_NS },
            of_children: CpuTime { user_ns: field(16)? * TICK_NS, system_ns: field(17)? * TICK_NS },
            threads: field(20)?,
            started: field(22)?,
        })
    }

    /// When a process started, in ticks since the machine did; `None` of one that has ended.
    pub(crate) fn started(root: &Root, pid: u32) -> Option<u64> {
        let stat = Stat::read(root, pid).filter(|stat| !stat.has_ended)?;
        Some(stat.started)
    }

    /// CPU time of the children that it has waited for, and of theirs, in whole ticks.
    pub(crate) fn of_children_ns(&self) -> u64 {
        self.of_children.whole()
    }

    /// CPU time of the process, and of the children that it has waited for. `scheduled_ns`: what its threads have run. Ticks
    /// are rounded down, so a smaller sum means that it misses the time of ended threads.
    pub(crate) fn cpu(&self, scheduled_ns: u64) -> CpuReading {
        let own = CpuReading { whole_ns: self.ticks.whole().max(scheduled_ns), parts: self.ticks };
        own.plus(CpuReading::exact(self.of_children))
    }
}

/// Scheduling statistics of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// Nanoseconds that it has run.
    pub(crate) cpu_ns: u64,
    /// Nanoseconds that it waited in the run queue.
    pub(crate) run_queue_ns: u64,
}

impl Scheduled {
    /// `/proc/<pid>/task/<thread>/schedstat` (Linux, `Documentation/scheduler/sched-stats.rst`). `None` where there is no such
    /// thread, or a kernel that keeps no account: it says zero to a thread that has run.
    pub(crate) fn read(root: &Root, pid: u32, thread: &str) -> Option<Scheduled> {
        let text = root.text(&format!("/proc/{pid}/task/{thread}/schedstat"))?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Scheduled { cpu_ns: next()?, run_queue_ns: next()? }).filter(|it| it.cpu_ns > 0)
    }
}

/// Every process that descends from this one, by their identifiers.
pub(crate) fn descendants(root: &Root, pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for thread in root.names(&format!("/proc/{parent}/task")) {
            let children = root.text(&format!("/proc/{parent}/task/{thread}/children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            for child in children.filter(|child| *child != pid) {
                if !found.contains(&child) {
                    found.push(child);
                    open.push(child);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    fn stat(pid: u32, times: [u64; 4]) -> String {
        let [utime, stime, cutime, cstime] = times;
        format!("{pid} (a) b c) S 1 2 3 4 5 6 7 8 9 10 {utime} {stime} {cutime} {cstime} 20 0 5 0 99\n")
    }

    #[test]
    fn fields_are_those_of_the_manual_whatever_the_name() {
        let (_keep, root) = root_with(&[("/proc/10/stat", &stat(10, [1, 2, 3, 4]))]);
        let found = Stat::read(&root, 10).unwrap();
        assert_eq!((found.faults_minor, found.faults_major, found.threads), (7 + 8, 9 + 10, 5));
        assert_eq!(found.cpu(0), CpuReading::exact(CpuTime { user_ns: 4 * TICK_NS, system_ns: 6 * TICK_NS }));
        assert_eq!(Stat::read(&root, 99), None);
        assert_eq!((Stat::started(&root, 10), Stat::started(&root, 99)), (Some(99), None));
    }

    #[test]
    fn descendants_of_every_thread_are_found() {
        let (_keep, root) = root_with(&[
            ("/proc/10/task/10/children", "11 "),
            ("/proc/10/task/12/children", "14"),
            ("/proc/11/task/11/children", "13"),
        ]);
        let mut found = descendants(&root, 10);
        found.sort_unstable();
        assert_eq!(found, [11, 13, 14]);
    }

    #[test]
    fn the_sum_is_the_exact_one_where_no_thread_has_ended() {
        let (_keep, root) = root_with(&[
            ("/proc/10/stat", &stat(10, [1, 2, 0, 5])),
            ("/proc/10/task/10/schedstat", "30000000 7 3\n"),
            ("/proc/10/task/11/schedstat", "2000000 9 1\n"),
            ("/proc/10/task/12/schedstat", "0 0 0\n"),
        ]);
        let stat = Stat::read(&root, 10).unwrap();
        let of = |thread| Scheduled::read(&root, 10, thread);
        assert_eq!(of("11"), Some(Scheduled { cpu_ns: 2_000_000, run_queue_ns: 9 }));
        assert_eq!((of("12"), of("13")), (None, None), "none has zero but one that is not counted");
        let scheduled_ns = ["10", "11"].iter().filter_map(|thread| of(thread)).map(|it| it.cpu_ns).sum();
        assert_eq!(stat.cpu(scheduled_ns).whole_ns, 32_000_000 + 5 * TICK_NS);
        assert_eq!(stat.cpu(3 * TICK_NS - 1).whole_ns, 8 * TICK_NS, "a thread has ended");
    }

    #[test]
    fn what_was_used_between_readings_is_divided_as_its_ticks_are_and_adds_up() {
        let reading = |whole_ns: u64, user: u64, system: u64| CpuReading {
            whole_ns,
            parts: CpuTime { user_ns: user * TICK_NS, system_ns: system * TICK_NS },
        };
        let between = |later: CpuReading, earlier: CpuReading| {
            let CpuTime { user_ns, system_ns } = later.since(earlier);
            (user_ns, system_ns)
        };
        // First read when younger than a tick: neither half of that is subtracted later.
        assert_eq!(between(reading(306_000_000, 30, 0), reading(6_000_000, 0, 0)), (300_000_000, 0));
        assert_eq!(between(reading(90_000_001, 3, 5), reading(50_000_000, 2, 2)), (10_000_000, 30_000_001));
        // No tick in between, and none ever.
        assert_eq!(between(reading(48_000_000, 1, 3), reading(44_000_000, 1, 3)), (1_000_000, 3_000_000));
        assert_eq!(between(reading(9_000_001, 0, 0), reading(0, 0, 0)), (4_500_000, 4_500_001));
        // Once a process has ended, its time is known in ticks only.
        assert_eq!(between(reading(40_000_000, 1, 3), reading(44_000_000, 1, 3)), (0, 0));
        let exact = |user_ns, system_ns| CpuReading::exact(CpuTime { user_ns, system_ns });
        assert_eq!(between(exact(5_000, 9_000), exact(1_000, 2_000)), (4_000, 7_000));
    }
}
