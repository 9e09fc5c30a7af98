//! How long a process was throttled by the CPU quota of a control group: a throttled server answers late on a CPU that looks
//! idle.

use std::collections::BTreeMap;

use crate::machine::{Root, ancestors};

/// Nanoseconds for which the control group of a process, and each group around it, has been throttled so far, by the group's file: a
/// group waits with its parent. The kernel adds up what the group lost on each CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttled(BTreeMap<String, u64>);

impl Throttled {
    /// `None` if the kernel does not count it.
    pub(crate) fn of(root: &Root, pid: u32) -> Option<Throttled> {
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
            let files = ancestors(group).into_iter().flat_map(|group| {
                mounts.iter().map(move |mount| format!("/sys/fs/cgroup{mount}{group}/cpu.stat"))
            });
            let counted = |path: String| {
                let text = root.text(&path)?;
                let value = text.lines().find_map(|line| line.strip_prefix(name))?;
                let throttled_ns = value.trim().parse::<u64>().ok()?.saturating_mul(unit_ns);
                Some((path, throttled_ns))
            };
            Some(files.filter_map(counted).collect::<Vec<_>>())
        };
        let groups: BTreeMap<String, u64> = membership.lines().filter_map(of_line).flatten().collect();
        (!groups.is_empty()).then_some(Throttled(groups))
    }

    /// For how long the group that waited longest was throttled from this reading to a later one; `None` without a group that both
    /// have.
    pub(crate) fn until(&self, later: &Throttled) -> Option<u64> {
        let waited = |(path, after): (&String, &u64)| Some(after.saturating_sub(*self.0.get(path)?));
        later.0.iter().filter_map(waited).max()
    }
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
            Throttled::of(&root, 5).unwrap()
        };
        let before = at(500_000, 5);
        assert_eq!(before.until(&at(500_000, 12)), Some(7_000));
        assert_eq!(before.until(&at(500_009, 12)), Some(9_000));
        assert_eq!(before.until(&before), Some(0));
        let (_keep, root) = root_with(&[
            ("/proc/5/cgroup", "4:memory:/x\n2:cpu,cpuacct:/a\n0::/\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 77\n"),
        ]);
        let elsewhere = Throttled::of(&root, 5).unwrap();
        assert_eq!(Throttled::default().until(&elsewhere), None);
        assert_eq!((before.until(&elsewhere), elsewhere.until(&elsewhere)), (None, Some(0)));
        let (_keep, root) =
            root_with(&[("/proc/5/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n")]);
        assert_eq!((Throttled::of(&root, 5), Throttled::of(&root, 6)), (None, None));
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
        let root = Root::default();
        let before = Throttled::of(&root, child.id()).unwrap();
        let throttled = || before.until(&Throttled::of(&root, child.id()).unwrap()).unwrap();
        let began = std::time::Instant::now();
        std::io::Write::write_all(&mut child.stdin.as_ref().unwrap(), b"go\n").unwrap();
        while throttled() < 300_000_000 && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (throttled, elapsed) = (throttled(), began.elapsed().as_nanos() as u64);
        child.kill().unwrap();
        child.wait().unwrap();
        let ended = std::time::Instant::now();
        while group.exists() && ended.elapsed().as_secs() < 10 {
            let _ = std::fs::remove_dir(&group);
        }
        assert!(
            (300_000_000..=2 * elapsed).contains(&throttled),
            "throttled for {throttled} ns in {elapsed} ns"
        );
    }
}
