//! Staying out of the way of what is measured: the lowest priority, and none of the CPUs that a load generator's workers are pinned
//! to; where there are others, none of the server's either.
//!
//! Both are of this thread and of those that it starts, not of the process: a run that is started from here has neither.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Lowest priority that there is, setpriority(2).
const NICE: i32 = 19;

/// Takes the lowest priority. That it cannot be had stops nothing.
pub(crate) fn step_back() {
    // On Linux "this process" is this thread.
    if let Err(error) = setpriority_process(None, NICE) {
        tracing::debug!(%error, "the front keeps its priority");
    }
}

/// Keeps this thread off the CPUs that workers of these runs are pinned to.
pub(crate) fn keep_off(runs: &[u32]) {
    let all = online();
    let mut workers = BTreeSet::new();
    let mut servers = BTreeSet::new();
    for run in runs {
        for thread in threads(*run) {
            // A worker has one CPU; what may run anywhere is not pinned.
            if let [cpu] = thread.as_slice() {
                workers.insert(*cpu);
            }
        }
        for child in children(*run) {
            servers.extend(threads(child).into_iter().filter(|cpus| cpus.len() < all.len()).flatten());
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
        cpus = all;
    }
    let mut set = CpuSet::new();
    cpus.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!(%error, "the front keeps its CPUs");
    }
}

/// CPUs that this process may use.
fn online() -> Vec<usize> {
    // The main thread's, since this one's change.
    let own = allowed(&format!("/proc/{}/status", std::process::id()));
    own.unwrap_or_else(|| {
        let set = sched_getaffinity(None).unwrap_or_default();
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    })
}

/// The CPUs of each thread of a process.
fn threads(process: u32) -> Vec<Vec<usize>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(Result::ok);
    tasks.filter_map(|task| allowed(&task.path().join("status").to_string_lossy())).collect()
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
    fn the_front_leaves_the_cpus_of_workers_alone() {
        let own = std::process::id();
        let cpus = allowed(&format!("/proc/{own}/status")).unwrap();
        if cpus.len() < 2 {
            println!("skipped: one CPU cannot be shared out");
            return;
        }
        // A program that is pinned as a worker is.
        let mut pinned = std::process::Command::new("taskset")
            .args(["-c", &cpus[0].to_string(), "sleep", "60"])
            .spawn()
            .unwrap();
        let left = std::thread::spawn({
            let process = pinned.id();
            move || {
                // Pinned some time after it was started.
                for _ in 0..6000 {
                    if threads(process).iter().any(|cpus| cpus.len() == 1) {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                keep_off(&[process]);
                let pinned = sched_getaffinity(None).unwrap();
                keep_off(&[]);
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
