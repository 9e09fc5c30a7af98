//! A control group for one server alone, so that the kernel counts its processes even if nobody waits for them: fcgiwrap and
//! Apache's mod_cgid ignore the end of the CGI processes that they start, and `/proc` then forgets what those used (`wait(2)`,
//! notes on SIGCHLD).
//!
//! Its supervisor makes the group beneath its own, moves into it before it starts anything, and removes it in the end. Only
//! version 2 of control groups is used: there a group counts CPU time whether or not anybody enabled a controller, so no
//! setting of the host changes. Where version 2 is not mounted, or this user may not make a group, there is none, and what
//! processes used is added up from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::{Root, number_after};
use crate::process_use::CpuTime;

/// Where version 2 is mounted: alone, or beside version 1 (`man 7 cgroups`).
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Name of a group, before the identifier of the supervisor that made it.
const PREFIX: &str = "webstone-";
/// Accounts of a group: of CPU time, and of waiting for disks (pressure stall information).
const CPU: &str = "cpu.stat";
const DISK_WAIT: &str = "io.pressure";
/// The file that takes a process into a group.
const MEMBERS: &str = "cgroup.procs";

/// The group that this process made and is in, until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnGroup {
    parent: PathBuf,
    path: PathBuf,
}

impl OwnGroup {
    /// Makes one and moves this process into it. `None` where the kernel or the rights of this user do not allow it.
    pub(crate) fn join() -> Option<OwnGroup> {
        let root = Root::default();
        let own = group_of(&root, std::process::id())?;
        let parent = MOUNTS
            .iter()
            .map(|mount| PathBuf::from(format!("{mount}{}", own.trim_end_matches('/'))))
            // Version 1 has no such file.
            .find(|path| path.join("cgroup.controllers").exists())?;
        remove_abandoned(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = OwnGroup { parent, path };
        // If this fails, it moves back and removes the group.
        group.enter(&group.path).then_some(group)
    }

    fn enter(&self, group: &Path) -> bool {
        fs::write(group.join(MEMBERS), std::process::id().to_string()).is_ok()
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        self.enter(&self.parent);
        // An ended process may stay in it for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// CPU time of all processes that a supervisor ever started, ended ones too; `None` where it has no group of its own.
pub(crate) fn cpu_time(root: &Root, supervisor: u32) -> Option<CpuTime> {
    let text = own_accounts(root, supervisor, CPU)?.find_map(|path| root.text(&path))?;
    let nanoseconds = |name: &str| Some(number_after(&text, name)? * 1_000);
    Some(CpuTime { user_ns: nanoseconds("user_usec ")?, system_ns: nanoseconds("system_usec ")? })
}

/// Time for which at least one thread of these processes waited for a disk, in nanoseconds.
pub(crate) fn disk_wait_ns(root: &Root, supervisor: u32) -> Option<u64> {
    let text = own_accounts(root, supervisor, DISK_WAIT)?.find_map(|path| root.text(&path))?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()? * 1_000)
}

/// The file with the account of CPU time.
pub(crate) fn account(root: &Root, supervisor: u32) -> Option<PathBuf> {
    own_accounts(root, supervisor, CPU)?.map(PathBuf::from).find(|path| path.exists())
}

/// Where an account of its group may be.
fn own_accounts(
    root: &Root,
    supervisor: u32,
    account: &'static str,
) -> Option<impl Iterator<Item = String> + use<>> {
    let group = group_of(root, supervisor)?;
    let is_own = group.ends_with(&format!("/{PREFIX}{supervisor}"));
    is_own.then(|| MOUNTS.iter().map(move |mount| format!("{mount}{group}/{account}")))
}

/// The group of version 2 that a process is in, as `/proc` names it.
fn group_of(root: &Root, pid: u32) -> Option<String> {
    let membership = root.text(&format!("/proc/{pid}/cgroup"))?;
    membership.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// Removes groups whose supervisors were killed. One that still has members stays: the kernel refuses.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn only_a_group_of_its_own_counts() {
        let (_keep, root) = root_with(&[
            ("/proc/7/cgroup", "4:memory:/x\n0::/a/webstone-7\n"),
            ("/proc/8/cgroup", "0::/a/webstone-7\n"),
            ("/proc/9/cgroup", "4:memory:/x\n"),
            (
                "/sys/fs/cgroup/unified/a/webstone-7/cpu.stat",
                "usage_usec 12\nuser_usec 5\nsystem_usec 7\nnice_usec 0\n",
            ),
            (
                "/sys/fs/cgroup/unified/a/webstone-7/io.pressure",
                "some avg10=0.00 avg60=0.10 avg300=0.00 total=31\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=30\n",
            ),
        ]);
        assert_eq!([7, 8, 9].map(|pid| disk_wait_ns(&root, pid)), [Some(31_000), None, None]);
        assert_eq!(cpu_time(&root, 7), Some(CpuTime { user_ns: 5_000, system_ns: 7_000 }));
        assert_eq!((cpu_time(&root, 8), cpu_time(&root, 9), cpu_time(&root, 10)), (None, None, None));
    }
}
