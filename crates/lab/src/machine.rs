//! What this machine grants this process: CPUs with their cores, limits of the control group. Read from `/proc` and `/sys`
//! below a root that tests replace; nothing here decides anything.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use webstone_model::spec::parse_cpu_list;

use crate::cpus::Cpus;

/// Room for most of the kernel's files, in bytes.
const FILE_BYTES: usize = 1024;

/// The file system below which `/proc` and `/sys` are found: `/`, except in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// Another root, with files laid out as under `/`.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// A file's text without its last newline; `None` where it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = String::from_utf8(self.bytes(path)?).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// A whole file with names given by others, which may not be UTF-8.
    pub fn lossy_text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }

    /// The kernel's files do not tell their sizes. With room from the beginning each takes two reads; a look at all processes has
    /// hundreds of files.
    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        fs::File::open(self.path(path)).ok()?.take(u64::MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// A file that holds one number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The last name of what a symbolic link leads to.
    pub fn link_name(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    /// Writes to one of the kernel's files; a refusal is ignored.
    pub fn write(&self, path: &str, text: &str) {
        // Opened without creating: below a root of files, a missing one stays missing.
        if let Ok(mut file) = fs::OpenOptions::new().write(true).open(self.path(path)) {
            let _ = file.write_all(text.as_bytes());
        }
    }

    /// Whether there is a file or directory.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// What a symbolic link names; `None` where it cannot be read.
    pub fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.path(path)).ok()
    }

    /// Names in a directory, sorted; empty where it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Number of files that a process has open; `None` if this user may not see them.
    pub fn descriptors(&self, pid: u32) -> Option<u64> {
        self.descriptors_in(&format!("/proc/{pid}/fd"))
    }

    /// Open files in the fullest table of this process, of which each worker has its own; `None` if the kernel does not
    /// report them.
    pub(crate) fn fullest_table(&self) -> Option<u64> {
        let threads = self.names("/proc/self/task").into_iter();
        threads.filter_map(|thread| self.descriptors_in(&format!("/proc/self/task/{thread}/fd"))).max()
    }

    fn descriptors_in(&self, directory: &str) -> Option<u64> {
        let path = self.path(directory);
        let is_kernels =
            rustix::fs::statfs(&path).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC);
        // Since Linux 6.2 the size of the directory is their number; listing ten thousand takes milliseconds.
        let size = path.metadata().map_or(0, |found| found.len());
        let open = if is_kernels && size > 0 { size } else { self.names(directory).len() as u64 };
        // A process has its standard streams at least.
        Some(open).filter(|open| *open > 0)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

/// What follows a name at the beginning of a line, in one of the kernel's files.
pub(crate) fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A number after a name.
pub(crate) fn number_after(text: &str, name: &str) -> Option<u64> {
    after(text, name)?.parse().ok()
}

/// A number of KiB after a name, in bytes.
pub(crate) fn kibibytes_after(text: &str, name: &str) -> Option<u64> {
    Some(after(text, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Limits that the control group sets for this process, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlGroup {
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
    /// Memory, in bytes.
    pub memory_bytes_max: Option<u64>,
    /// Memory in use, in bytes, without file cache that the kernel would give up.
    pub memory_bytes: Option<u64>,
    /// Number of tasks.
    pub tasks_max: Option<u64>,
}

/// The CPUs that this process may use, by core, with the control group's quota.
pub fn cpus(root: &Root) -> Cpus {
    Cpus { cores: cores(root, &allowed_cpus(root)), quota: control_group(root).cpus }
}

/// CPUs that this process may run on: the affinity mask, which a cpuset narrows as well.
pub fn allowed_cpus(root: &Root) -> Vec<u32> {
    // Without /proc there is still at least the CPU that runs this.
    allowed_cpus_of(root, "self").filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| vec![0])
}

/// CPUs of this host that are switched on; `None` if the kernel does not say.
pub fn online_cpus(root: &Root) -> Option<Vec<u32>> {
    parse_cpu_list(root.text("/sys/devices/system/cpu/online")?.trim()).ok()
}

/// CPUs that a process may run on. The kernel lists those that are switched off as well.
pub(crate) fn allowed_cpus_of(root: &Root, process: &str) -> Option<Vec<u32>> {
    let status = root.text(&format!("/proc/{process}/status"))?;
    let mut cpus = parse_cpu_list(after(&status, "Cpus_allowed_list:")?).ok()?;
    if let Some(online) = online_cpus(root) {
        cpus.retain(|cpu| online.contains(cpu));
    }
    Some(cpus)
}

fn cores(root: &Root, allowed: &[u32]) -> Vec<Vec<u32>> {
    let mut cores: Vec<Vec<u32>> = Vec::new();
    for cpu in allowed {
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        let siblings = root
            .text(&format!("{topology}/core_cpus_list"))
            .or_else(|| root.text(&format!("{topology}/thread_siblings_list")))
            .and_then(|list| parse_cpu_list(&list).ok())
            .unwrap_or_default();
        match cores.iter_mut().find(|core| core.iter().any(|other| siblings.contains(other))) {
            Some(core) => core.push(*cpu),
            None => cores.push(vec![*cpu]),
        }
    }
    cores
}

/// The tightest bounds along the path from this process' group to the root, in version 2 or version 1 of the
/// interface.
pub fn control_group(root: &Root) -> ControlGroup {
    let mut bounds = ControlGroup::default();
    let membership = root.text("/proc/self/cgroup").unwrap_or_default();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        for group in ancestors(group) {
            match controllers {
                "" => {
                    version_2(root, &format!("/sys/fs/cgroup{group}"), &mut bounds);
                    version_2(root, &format!("/sys/fs/cgroup/unified{group}"), &mut bounds);
                }
                _ => version_1(root, controllers, &group, &mut bounds),
            }
        }
    }
    bounds
}

fn version_2(root: &Root, directory: &str, bounds: &mut ControlGroup) {
    if let Some(text) = root.text(&format!("{directory}/cpu.max")) {
        let mut words = text.split_whitespace().map(|word| word.parse::<f64>().ok());
        if let (Some(Some(quota)), Some(Some(period))) = (words.next(), words.next()) {
            tighten_cpus(&mut bounds.cpus, quota / period);
        }
    }
    if let Some(max) = root.number(&format!("{directory}/memory.max")) {
        let used = in_use(root, &directory_file(directory, "memory.current"), directory, "inactive_file ");
        tighten_memory(bounds, max, used);
    }
    tighten(&mut bounds.tasks_max, root.number(&format!("{directory}/pids.max")));
}

fn version_1(root: &Root, controllers: &str, group: &str, bounds: &mut ControlGroup) {
    for controller in controllers.split(',') {
        let directory = format!("/sys/fs/cgroup/{controller}{group}");
        match controller {
            "cpu" => {
                let quota = root.number(&format!("{directory}/cpu.cfs_quota_us"));
                let period = root.number(&format!("{directory}/cpu.cfs_period_us"));
                // An unlimited group says -1, which does not parse.
                if let (Some(quota), Some(period @ 1..)) = (quota, period) {
                    tighten_cpus(&mut bounds.cpus, quota as f64 / period as f64);
                }
            }
            "memory" => {
                let max = root.number(&format!("{directory}/memory.limit_in_bytes"));
                // An unlimited group says the largest multiple of the page size below 2⁶³.
                if let Some(max) = max.filter(|max| *max < 1 << 62) {
                    let usage = directory_file(&directory, "memory.usage_in_bytes");
                    let used = in_use(root, &usage, &directory, "total_inactive_file ");
                    tighten_memory(bounds, max, used);
                }
            }
            "pids" => tighten(&mut bounds.tasks_max, root.number(&format!("{directory}/pids.max"))),
            _ => {}
        }
    }
}

/// A group and the groups that hold it: `/a/b`, `/a`, and the root as an empty text. In a container the path is often
/// the host's and does not exist below the mount; the root then is the container's own group.
pub(crate) fn ancestors(group: &str) -> Vec<String> {
    Path::new(group)
        .ancestors()
        .filter_map(Path::to_str)
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect()
}

fn tighten(bound: &mut Option<u64>, other: Option<u64>) {
    if let Some(other) = other {
        *bound = Some(bound.map_or(other, |bound| bound.min(other)));
    }
}

fn tighten_cpus(bound: &mut Option<f64>, other: f64) {
    if other.is_finite() && other > 0.0 {
        *bound = Some(bound.map_or(other, |bound| bound.min(other)));
    }
}

/// Memory in use without the file cache that has not been touched lately.
fn in_use(root: &Root, usage: &str, directory: &str, cache: &str) -> Option<u64> {
    let statistics = root.text(&directory_file(directory, "memory.stat")).unwrap_or_default();
    Some(root.number(usage)?.saturating_sub(number_after(&statistics, cache).unwrap_or(0)))
}

fn directory_file(directory: &str, name: &str) -> String {
    format!("{directory}/{name}")
}

/// Usage belongs to the group whose limit is the tightest.
fn tighten_memory(bounds: &mut ControlGroup, max: u64, used: Option<u64>) {
    if bounds.memory_bytes_max.is_none_or(|bound| max < bound) {
        bounds.memory_bytes_max = Some(max);
        bounds.memory_bytes = used;
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
pub(crate) mod tests;
