//! One process in `/proc`: its CPU time, page faults and threads, and which others descend from it. A server's processes
//! taken together are `process_tree`'s.
//!
//! `/proc/<pid>/stat` has user and system time in ticks of 10 ms, of all threads. `/proc/<pid>/task/*/schedstat` has the
//! sum of both in nanoseconds, of living threads. So the sum is taken from there, where it is not less, and divided as
//! the ticks are.

use crate::machine::Root;

/// Nanoseconds of one tick in `/proc/<pid>/stat`: USER_HZ is 100 on every architecture that Linux 5 and later and this
/// program run on.
const TICK_NS: u64 = 10_000_000;

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

    /// What was used since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
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
}

impl Stat {
    /// `None` when there is no such process.
    pub(crate) fn read(root: &Root, pid: u32) -> Option<Stat> {
        let stat = root.text(&format!("/proc/{pid}/stat"))?;
        // The second field is the name in parentheses, which may hold spaces and parentheses itself (proc(5)).
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
        // Numbers of proc_pid_stat(5); the third field is the first here.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        Some(Stat {
            faults_minor: field(10)? + field(11)?,
            faults_major: field(12)? + field(13)?,
            ticks: CpuTime { user_ns: field(14)? * TICK_NS, system_ns: field(15)? * TICK_NS },
            of_children: CpuTime { user_ns: field(16)? * TICK_NS, system_ns: field(17)? * TICK_NS },
            threads: field(20)?,
        })
    }

    /// CPU time of the process, and of the children that it has waited for. `scheduled_ns`: what its threads have run.
    pub(crate) fn cpu(&self, scheduled_ns: u64) -> CpuTime {
        refined(self.ticks, scheduled_ns).plus(self.of_children)
    }
}

/// Nanoseconds that the living threads of a process have run.
pub(crate) fn scheduled_ns(root: &Root, pid: u32) -> u64 {
    let threads = root.names(&format!("/proc/{pid}/task")).into_iter();
    let run = |thread: String| {
        let text = root.text(&format!("/proc/{pid}/task/{thread}/schedstat"))?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.filter_map(run).sum()
}

/// Time in ticks, stretched to a sum that is known more exactly. Ticks round down, so a smaller sum means that threads
/// have ended whose time it lacks.
fn refined(ticks: CpuTime, sum_ns: u64) -> CpuTime {
    let whole = ticks.user_ns + ticks.system_ns;
    if sum_ns <= whole {
        return ticks;
    }
    let user_ns = match whole {
        0 => sum_ns / 2,
        _ => (u128::from(sum_ns) * u128::from(ticks.user_ns) / u128::from(whole)) as u64,
    };
    CpuTime { user_ns, system_ns: sum_ns - user_ns }
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
        assert_eq!(found.cpu(0), CpuTime { user_ns: 4 * TICK_NS, system_ns: 6 * TICK_NS });
        assert_eq!(Stat::read(&root, 99), None);
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
    fn a_more_exact_sum_is_divided_as_the_ticks_are() {
        let ticks = CpuTime { user_ns: TICK_NS, system_ns: 3 * TICK_NS };
        assert_eq!(refined(ticks, 44_000_000), CpuTime { user_ns: 11_000_000, system_ns: 33_000_000 });
        assert_eq!(refined(ticks, 4 * TICK_NS - 1), ticks, "a thread has ended");
        let short = refined(CpuTime::default(), 9_000_001);
        assert_eq!((short.user_ns, short.system_ns), (4_500_000, 4_500_001));
        let (_keep, root) = root_with(&[
            ("/proc/10/stat", &stat(10, [1, 0, 0, 5])),
            ("/proc/10/task/10/schedstat", "10000000 7 3\n"),
            ("/proc/10/task/11/schedstat", "2000000 9 1\n"),
        ]);
        let used = Stat::read(&root, 10).unwrap().cpu(scheduled_ns(&root, 10));
        assert_eq!(used, CpuTime { user_ns: 12_000_000, system_ns: 5 * TICK_NS });
    }
}
