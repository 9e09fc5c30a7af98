//! How long a process was throttled by the CPU quota of a control group: a throttled server answers late on a CPU that looks
//! idle.

use crate::machine::{Root, ancestors};

/// Nanoseconds for which the control group of a process has been throttled so far, or a group around it: the largest of them,
/// because a group waits with its parent. `None` if the kernel does not count it.
pub(crate) fn throttled_ns(root: &Root, pid: u32) -> Option<u64> {
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
            Some(value.trim().parse::<u64>().ok()? * unit_ns)
        };
        files.filter_map(counted).max()
    };
    membership.lines().filter_map(of_line).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn the_longest_of_all_groups_around_counts() {
        let (_keep, root) = root_with(&[
            ("/proc/5/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nthrottled_usec 7\n"),
            ("/sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 12\n"),
        ]);
        assert_eq!(throttled_ns(&root, 5), Some(12_000));
        let (_keep, root) = root_with(&[
            ("/proc/5/cgroup", "4:memory:/x\n2:cpu,cpuacct:/a\n0::/\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 77\n"),
        ]);
        assert_eq!(throttled_ns(&root, 5), Some(77));
        let (_keep, root) =
            root_with(&[("/proc/5/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n")]);
        assert_eq!((throttled_ns(&root, 5), throttled_ns(&root, 6)), (None, None));
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
        let throttled = || throttled_ns(&root, child.id()).unwrap();
        let before = throttled();
        let began = std::time::Instant::now();
        std::io::Write::write_all(&mut child.stdin.as_ref().unwrap(), b"go\n").unwrap();
        while throttled() - before < 300_000_000 && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (throttled, elapsed) = (throttled() - before, began.elapsed().as_nanos() as u64);
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
