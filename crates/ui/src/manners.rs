//! Staying out of the way of what is measured: the lowest priority, and none of the CPUs that a load generator's workers are pinned
//! to; where there are others, none of the server's either.
//!
//! Priority and CPUs are of threads, not of the process, and a new thread or program inherits them from the thread that starts
//! it. The thread that starts runs keeps both as they were at the beginning, so that no run has the front's.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use webstone_lab::priority::stays_normal;

use crate::launch;

/// Lowest priority that there is, setpriority(2).
const NICE: i32 = 19;
/// What the names of the load generator's workers begin with.
const WORKER: &str = "worker-";

/// Takes the lowest priority, unless all priorities are to stay normal.
pub(crate) fn step_back() {
    if !stays_normal() {
        take_lowest_priority();
    }
}

/// Of this thread, and those that it starts. A failure is ignored.
fn take_lowest_priority() {
    // On Linux "this process" is this thread.
    if let Err(error) = setpriority_process(None, NICE) {
        tracing::debug!(%error, "the front keeps its priority");
    }
}

/// The CPUs that this thread may use now: before [`keep_off`], all that the front was given.
pub(crate) fn own_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Keeps the front's threads on those of its CPUs that no worker of these runs is pinned to; all of its CPUs where no run is on.
pub(crate) fn keep_off(runs: &[u32], all: &[usize]) {
    let mut workers = BTreeSet::new();
    let mut servers = BTreeSet::new();
    for run in runs {
        for (name, cpus) in threads(*run) {
            // The run's other threads avoid the workers' CPUs, so that on two CPUs they have one, too.
            if let ([cpu], true) = (cpus.as_slice(), name.starts_with(WORKER)) {
                workers.insert(*cpu);
            }
        }
        for child in children(*run) {
            servers.extend(
                threads(child)
                    .into_iter()
                    .map(|(_, cpus)| cpus)
                    .filter(|cpus| cpus.len() < all.len())
                    .flatten(),
            );
        }
    }
    let free = |taken: &[&BTreeSet<usize>]| -> Vec<usize> {
        all.iter().copied().filter(|cpu| !taken.iter().any(|set| set.contains(cpu))).collect()
    };
    let mut cpus = free(&[&workers, &servers]);
    if cpus.is_empty() {
        cpus = free(&[&workers]);
    }
    if cpus.is_empty() {
        cpus = all.to_vec();
    }
    let mut set = CpuSet::new();
    cpus.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    for thread in own_threads() {
        if let Err(error) = sched_setaffinity(Some(thread), &set) {
            tracing::debug!(%error, "a thread of the front keeps its CPUs");
        }
    }
}

/// All threads of the front but the one that starts runs. Threads that read files for pages start at any time, and have the CPUs of that
/// time.
fn own_threads() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let is_other = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() != launch::THREAD)
    };
    let id = |task: fs::DirEntry| Pid::from_raw(task.file_name().to_str()?.parse().ok()?);
    tasks.filter(is_other).filter_map(id).collect()
}

/// Name and CPUs of each thread of a process.
fn threads(process: u32) -> Vec<(String, Vec<usize>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(Result::ok);
    let look = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((name, allowed(&task.path().join("status").to_string_lossy())?))
    };
    tasks.filter_map(look).collect()
}

fn children(process: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// `Cpus_allowed_list` of a status file, proc(5).
fn allowed(status: &str) -> Option<Vec<usize>> {
    let text = fs::read_to_string(status).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cpus = webstone_model::spec::parse_cpu_list(list.trim()).ok()?;
    Some(cpus.into_iter().map(|cpu| cpu as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_priority_is_inherited() {
        let nice = std::thread::spawn(|| {
            take_lowest_priority();
            let started = std::thread::spawn(|| rustix::process::getpriority_process(None).unwrap());
            started.join().unwrap()
        });
        assert_eq!(nice.join().unwrap(), NICE);
    }

    #[test]
    fn the_front_leaves_the_cpus_of_workers_alone() {
        let own = std::process::id();
        let cpus = allowed(&format!("/proc/{own}/status")).unwrap();
        if cpus.len() < 2 {
            println!("skipped: one CPU cannot be shared out");
            return;
        }
        // A program that is pinned as a worker is.
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("worker-0");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut pinned = std::process::Command::new("taskset")
            .args(["-c", &cpus[0].to_string()])
            .arg(&program)
            .arg("60")
            .spawn()
            .unwrap();
        let left = std::thread::spawn({
            let process = pinned.id();
            move || {
                // Pinned some time after it was started.
                for _ in 0..6000 {
                    if threads(process).iter().any(|(name, cpus)| name.starts_with(WORKER) && cpus.len() == 1)
                    {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                let all = own_cpus();
                let launcher = std::thread::Builder::new().name(launch::THREAD.to_owned());
                let (look, looked) = std::sync::mpsc::channel::<()>();
                let (begins, begun) = std::sync::mpsc::channel::<()>();
                let launcher = launcher.spawn(move || {
                    begins.send(()).unwrap();
                    looked.recv().unwrap();
                    own_cpus()
                });
                begun.recv().unwrap();
                // As the front does it: on the thread whose CPUs are meant, again and again.
                keep_off(&[process], &all);
                keep_off(&[process], &all);
                let pinned = sched_getaffinity(None).unwrap();
                look.send(()).unwrap();
                let of_launcher = launcher.unwrap().join().unwrap();
                keep_off(&[], &all);
                assert_eq!(of_launcher, all, "what is started later gets all CPUs");
                (pinned, sched_getaffinity(None).unwrap())
            }
        });
        let (while_on, afterwards) = left.join().unwrap();
        pinned.kill().unwrap();
        pinned.wait().unwrap();
        assert!(!while_on.is_set(cpus[0]) && while_on.is_set(cpus[1]));
        assert!(cpus.iter().all(|cpu| afterwards.is_set(*cpu)));
    }
}
