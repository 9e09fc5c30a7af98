//! Tests of the facts about the machine, and directories in place of `/proc` and `/sys` for other tests.

use super::*;

/// A root with the given files, in a directory that lives as long as the first value.
pub(crate) fn root_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = Root::at(directory.path());
    (directory, root)
}

#[test]
fn cpus_are_grouped_by_core() {
    let sibling = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
    let (_keep, root) = root_with(&[
        ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,5\n"),
        (&sibling(0), "0,4\n"),
        (&sibling(1), "1,5\n"),
        (&sibling(2), "2,6\n"),
        (&sibling(5), "1,5\n"),
    ]);
    assert_eq!(cpus(&root), Cpus { cores: vec![vec![0], vec![1, 5], vec![2]], quota: None });
}

#[test]
fn without_any_file_there_is_one_cpu_and_no_bound() {
    let (_keep, root) = root_with(&[]);
    assert_eq!(cpus(&root), Cpus { cores: vec![vec![0]], quota: None });
    assert_eq!(control_group(&root), ControlGroup::default());
}

#[test]
fn the_tightest_group_of_version_2_counts() {
    let (_keep, root) = root_with(&[
        ("/proc/self/cgroup", "0::/outer/inner\n"),
        ("/sys/fs/cgroup/outer/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/outer/memory.max", "1000\n"),
        ("/sys/fs/cgroup/outer/memory.current", "400\n"),
        ("/sys/fs/cgroup/outer/memory.stat", "file 90\ninactive_file 60\n"),
        ("/sys/fs/cgroup/outer/inner/memory.max", "max\n"),
        ("/sys/fs/cgroup/outer/inner/pids.max", "77\n"),
    ]);
    let expected = ControlGroup {
        cpus: Some(1.5),
        memory_bytes_max: Some(1000),
        memory_bytes: Some(340),
        tasks_max: Some(77),
    };
    assert_eq!(control_group(&root), expected);
}

#[test]
fn unlimited_values_of_version_1_are_read_as_no_limit() {
    let (_keep, root) = root_with(&[
        ("/proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n"),
        ("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n"),
        ("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(control_group(&root), ControlGroup { cpus: Some(0.5), ..ControlGroup::default() });
}
