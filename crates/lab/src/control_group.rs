//! How long a process was throttled by the CPU quota of a control group: a throttled server answers late on a CPU that looks
//! idle.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::machine::{Root, ancestors, number_after};

/// A quota's period unless somebody set another (`Documentation/scheduler/sched-bwc.rst`).
const PERIOD_NS: u64 = 100_000_000;

/// For how long the control group of a process, and each group around it, has been throttled so far, by the group's file: a group waits
/// with its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    at: Instant,
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    /// What it lost on each CPU, added up by the kernel, in nanoseconds: on four CPUs, four times the time for which it waited.
    all_cpus_ns: u64,
    /// Number of periods in which it waited.
    periods: u64,
    /// Length of a period, in nanoseconds.
    period_ns: u64,
}

impl Group {
    /// For how long it waited at most, from this reading to a later one: no longer than the periods in which it did, and the one that
    /// has not ended.
    fn until(self, later: Group) -> u64 {
        let periods = later.periods.saturating_sub(self.periods).saturating_add(1);
        let all_cpus_ns = later.all_cpus_ns.saturating_sub(self.all_cpus_ns);
        all_cpus_ns.min(periods.saturating_mul(later.period_ns))
    }
}

impl Throttled {
    /// `None` if the kernel does not count it.
    pub(crate) fn of_process(root: &Root, pid: u32) -> Option<Throttled> {
        let at = Instant::now();
        let membership = root.text(&format!("/proc/{pid}/cgroup"))?;
        let of_line = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?);
            // Version 2 counts in microseconds, version 1 in nanoseconds.
            let (mounts, name, unit_ns) = match controllers {
                "" => (&["", "/unified"][..], "throttled_usec ", 1_000),
                _ if controllers.split(',').any(|name| name == "cpu") => {
                    (&["/cpu", "/cpu,cpuacct"][..], "throttled_time ", 1)
                }
                _ => return None,
            };
            let directories = ancestors(group)
                .into_iter()
                .flat_map(|group| mounts.iter().map(move |mount| format!("/sys/fs/cgroup{mount}{group}")));
            let counted = |directory: String| {
                let text = root.text(&format!("{directory}/cpu.stat"))?;
                let all_cpus_ns = number_after(&text, name)?.saturating_mul(unit_ns);
                let (periods, period_ns) = match number_after(&text, "nr_throttled ") {
                    Some(periods) => (periods, period_ns(root, &directory)),
                    None => (0, u64::MAX),
                };
                Some((directory, Group { all_cpus_ns, periods, period_ns }))
            };
            Some(directories.filter_map(counted).collect::<Vec<_>>())
        };
        let groups: BTreeMap<String, Group> = membership.lines().filter_map(of_line).flatten().collect();
        (!groups.is_empty()).then_some(Throttled { at, groups })
    }

    /// For how long the group that waited longest was throttled from this reading to a later one; `None` without a group that both
    /// have.
    pub(crate) fn until(&self, later: &Throttled) -> Option<u64> {
        self.within(later, later.at.saturating_duration_since(self.at).as_nanos() as u64)
    }

    /// The same where the later reading is later by this time.
    fn within(&self, later: &Throttled, elapsed_ns: u64) -> Option<u64> {
        let waited =
            |(path, after): (&String, &Group)| Some(self.groups.get(path)?.until(*after).min(elapsed_ns));
        later.groups.iter().filter_map(waited).max()
    }
}

/// The period of a group's quota: in version 2 the second number of `cpu.max`.
fn period_ns(root: &Root, directory: &str) -> u64 {
    let of_version_2 = || {
        let max = root.text(&format!("{directory}/cpu.max"))?;
        max.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let period_us = of_version_2().or_else(|| root.number(&format!("{directory}/cpu.cfs_period_us")));
    period_us.map_or(PERIOD_NS, |us| us.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn the_group_that_waited_longest_in_between_counts() {
        // The outer group was throttled for long, but before.
        let at = |outer_us: u64, own_us: u64| {
            let (own, outer) = (
                format!("usage_usec 9\nthrottled_usec {own_us}\n"),
                format!("usage_usec 9\nnr_throttled 3\nthrottled_usec {outer_us}\n"),
            );
            let (_keep, root) = root_with(&[
                ("/proc/5/cgroup", "0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/cpu.stat", own.as_str()),
                ("/sys/fs/cgroup/a/cpu.stat", outer.as_str()),
            ]);
            Throttled::of_process(&root, 5).unwrap()
        };
        let before = at(500_000, 5);
        assert_eq!(before.within(&at(500_000, 12), u64::MAX), Some(7_000));
        assert_eq!(before.within(&at(500_009, 12), u64::MAX), Some(9_000));
        assert_eq!(before.until(&before), Some(0));
        let (_keep, root) = root_with(&[
            ("/proc/5/cgroup", "4:memory:/x\n2:cpu,cpuacct:/a\n0::/\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 77\n"),
        ]);
        let elsewhere = Throttled::of_process(&root, 5).unwrap();
        let nothing = Throttled { at: Instant::now(), groups: BTreeMap::new() };
        let until = |before: &Throttled| before.until(&elsewhere);
        assert_eq!([until(&nothing), until(&before), until(&elsewhere)], [None, None, Some(0)]);
        let (_keep, root) =
            root_with(&[("/proc/5/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n")]);
        assert_eq!((Throttled::of_process(&root, 5), Throttled::of_process(&root, 6)), (None, None));
    }

    /// The kernel adds up what a group lost on each CPU.
    #[test]
    fn a_group_on_four_cpus_waits_no_longer_than_time_passes() {
        const SECOND: u64 = 1_000_000_000;
        let at = |periods: u64, throttled_us: u64, max: &str| {
            let counted = format!("nr_periods 900\nnr_throttled {periods}\nthrottled_usec {throttled_us}\n");
            let (_keep, root) = root_with(&[
                ("/proc/5/cgroup", "0::/a\n"),
                ("/sys/fs/cgroup/a/cpu.stat", counted.as_str()),
                ("/sys/fs/cgroup/a/cpu.max", max),
            ]);
            Throttled::of_process(&root, 5).unwrap()
        };
        let before = at(7, 5, "200000 100000");
        // In each of ten periods it waited on four CPUs.
        let after = at(17, 4_000_005, "200000 100000");
        assert_eq!(before.within(&after, SECOND), Some(SECOND));
        assert_eq!(before.within(&after, 10 * SECOND), Some(11 * SECOND / 10), "and in one that goes on");
        assert_eq!(before.within(&at(17, 4_000_005, "50000 20000"), 10 * SECOND), Some(11 * SECOND / 50));
        assert_eq!(before.within(&at(17, 600_005, "200000 100000"), 10 * SECOND), Some(6 * SECOND / 10));
    }

    /// A group of its own with 1 % of a CPU, where this user may make one. A kernel throttles only a process that gets more than
    /// its quota, and on the busiest machine each gets more than that.
    fn small_group() -> Option<std::path::PathBuf> {
        let name = format!("webstone-test-{}", std::process::id());
        for (mount, file, quota) in [
            ("cpu", "cpu.cfs_quota_us", "1000"),
            ("cpu,cpuacct", "cpu.cfs_quota_us", "1000"),
            ("", "cpu.max", "1000 100000"),
        ] {
            let directory = std::path::Path::new("/sys/fs/cgroup").join(mount).join(&name);
            if std::fs::create_dir(&directory).is_err() {
                continue;
            }
            let quota = std::fs::OpenOptions::new()
                .write(true)
                .open(directory.join(file))
                .and_then(|mut file| std::io::Write::write_all(&mut file, quota.as_bytes()));
            if quota.is_ok() {
                return Some(directory);
            }
            let _ = std::fs::remove_dir(&directory);
        }
        None
    }

    #[test]
    fn a_busy_process_with_a_small_quota_is_throttled() {
        let Some(group) = small_group() else {
            println!("skipped: this user may not make a control group with a quota");
            return;
        };
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read word; while :; do :; done"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("every system has a shell");
        std::fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        let (root, began) = (Root::default(), Instant::now());
        let before = Throttled::of_process(&root, child.id()).unwrap();
        let throttled = || before.until(&Throttled::of_process(&root, child.id()).unwrap()).unwrap();
        std::io::Write::write_all(&mut child.stdin.as_ref().unwrap(), b"go\n").unwrap();
        while throttled() < 300_000_000 && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (throttled, elapsed) = (throttled(), began.elapsed().as_nanos() as u64);
        child.kill().unwrap();
        child.wait().unwrap();
        let ended = Instant::now();
        while group.exists() && ended.elapsed().as_secs() < 10 {
            let _ = std::fs::remove_dir(&group);
        }
        assert!((300_000_000..=elapsed).contains(&throttled), "throttled for {throttled} ns in {elapsed} ns");
    }
}
