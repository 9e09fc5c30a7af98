//! What a process and its descendants used: CPU time and peak memory, from `/proc`.
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
    /// What was used since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// CPU time that a process, all its threads (ended ones too), its living descendants and the ones that it waited for
/// have used. `None` when there is no such process.
pub fn cpu_time(root: &Root, pid: u32) -> Option<CpuTime> {
    let mut total = own_cpu_time(root, pid)?;
    for child in descendants(root, pid) {
        let time = own_cpu_time(root, child).unwrap_or_default();
        total.user_ns += time.user_ns;
        total.system_ns += time.system_ns;
    }
    Some(total)
}

/// Peak resident memory of a process and its descendants, in bytes: the sum of their own peaks since the last
/// [`reset_peak`].
pub fn resident_bytes_max(root: &Root, pid: u32) -> Option<u64> {
    let peak = |pid: u32| {
        let status = root.text(&format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    let own = peak(pid)?;
    Some(own + descendants(root, pid).into_iter().filter_map(peak).sum::<u64>())
}

/// Starts peaks of resident memory anew (`/proc/<pid>/clear_refs`, value 5). Where the kernel does not allow it, the
/// peak is that of the process' whole life.
pub fn reset_peak(root: &Root, pid: u32) {
    for pid in descendants(root, pid).into_iter().chain([pid]) {
        root.write(&format!("/proc/{pid}/clear_refs"), "5");
    }
}

fn own_cpu_time(root: &Root, pid: u32) -> Option<CpuTime> {
    let stat = root.text(&format!("/proc/{pid}/stat"))?;
    // The second field is the name in parentheses, which may hold spaces and parentheses itself (proc(5)).
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    // Fields 14 to 17 of proc(5): utime, stime, and those of children that were waited for.
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let of_children = CpuTime { user_ns: ticks(16)? * TICK_NS, system_ns: ticks(17)? * TICK_NS };
    let own = CpuTime { user_ns: ticks(14)? * TICK_NS, system_ns: ticks(15)? * TICK_NS };
    let own = refined(own, scheduled_ns(root, pid));
    Some(CpuTime {
        user_ns: own.user_ns + of_children.user_ns,
        system_ns: own.system_ns + of_children.system_ns,
    })
}

/// Nanoseconds that the living threads of a process have run.
fn scheduled_ns(root: &Root, pid: u32) -> u64 {
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

fn descendants(root: &Root, pid: u32) -> Vec<u32> {
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
    use std::process::Command;

    fn stat(pid: u32, times: [u64; 4]) -> String {
        let [utime, stime, cutime, cstime] = times;
        format!("{pid} (a) b c) S 1 2 3 4 5 6 7 8 9 10 {utime} {stime} {cutime} {cstime} 20 0 1 0 99\n")
    }

    #[test]
    fn the_whole_tree_counts() {
        let (_keep, root) = root_with(&[
            ("/proc/10/stat", &stat(10, [1, 2, 3, 4])),
            ("/proc/10/status", "VmHWM:\t     8 kB\n"),
            ("/proc/10/task/10/children", "11 "),
            ("/proc/10/task/12/children", ""),
            ("/proc/11/stat", &stat(11, [10, 20, 0, 0])),
            ("/proc/11/status", "VmPeak: 99 kB\nVmHWM:\t     2 kB\n"),
            ("/proc/11/task/11/children", "13"),
            ("/proc/13/stat", &stat(13, [100, 200, 0, 0])),
        ]);
        let expected = CpuTime { user_ns: 114 * TICK_NS, system_ns: 226 * TICK_NS };
        assert_eq!(cpu_time(&root, 10), Some(expected));
        assert_eq!(expected.since(CpuTime { user_ns: TICK_NS, system_ns: 0 }).user_ns, 113 * TICK_NS);
        assert_eq!(resident_bytes_max(&root, 10), Some(10 << 10));
        assert_eq!((cpu_time(&root, 99), resident_bytes_max(&root, 99)), (None, None));
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
        let expected = CpuTime { user_ns: 12_000_000, system_ns: 5 * TICK_NS };
        assert_eq!(cpu_time(&root, 10), Some(expected));
    }

    #[test]
    fn a_real_child_that_works_uses_cpu_time() {
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while :; do i=$((i+1)); done"])
            .spawn()
            .expect("every system has a shell");
        let root = Root::default();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let used = || cpu_time(&root, child.id()).map_or(0, |time| time.user_ns + time.system_ns);
        while used() < 5 * TICK_NS && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let (used, memory) = (used(), resident_bytes_max(&root, child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used >= 5 * TICK_NS, "{used}");
        assert!(memory.unwrap() > 4096);
    }
}
