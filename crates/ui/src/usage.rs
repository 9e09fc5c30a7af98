//! CPU time of a run's process and of those that it started, as the kernel counts it. It is only for watching: the figures come from the
//! record.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use serde::Serialize;

/// Processes that are looked at; of a run with more, the rest is left out.
const PROCESSES_MAX: usize = 512;
/// Clock ticks of `/proc` in a second: USER_HZ, which is 100 on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time in percent of one CPU since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Shares {
    /// Of the run's process, which holds the load generator of this host.
    pub(crate) generator_percent: Option<f64>,
    /// Of the processes that it started, which are the server's, if webstone started one.
    pub(crate) server_percent: Option<f64>,
}

/// Looks at a run from time to time.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    last: Option<(Instant, u64, HashMap<u32, u64>)>,
}

impl Usage {
    /// The shares since the last look; absent in the first.
    pub(crate) fn look(&mut self, process: u32) -> Shares {
        let now = Instant::now();
        let own = ticks(process);
        let mut started = Vec::new();
        descend(process, &mut started);
        let started: HashMap<u32, u64> =
            started.into_iter().filter_map(|child| Some((child, ticks(child)?))).collect();
        let Some(own) = own else {
            self.last = None;
            return Shares::default();
        };
        let before = self.last.replace((now, own, started.clone()));
        let Some((then, own_before, started_before)) = before else { return Shares::default() };
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds < 0.05 {
            return Shares::default();
        }
        let percent = |ticks: u64| (ticks as f64 / TICKS_PER_SECOND / seconds * 1000.0).round() / 10.0;
        // A new process had used nothing before; what a process that has ended used since the last look is lost.
        let used = |(id, ticks): (&u32, &u64)| {
            ticks.saturating_sub(started_before.get(id).copied().unwrap_or_default())
        };
        Shares {
            generator_percent: Some(percent(own.saturating_sub(own_before))),
            server_percent: (!started.is_empty()).then(|| percent(started.iter().map(used).sum())),
        }
    }
}

/// User and system time of a process in clock ticks: fields 14 and 15 of `/proc/PID/stat`, proc(5).
fn ticks(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

/// All processes below one.
fn descend(process: u32, found: &mut Vec<u32>) {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(Result::ok);
    for thread in threads {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|word| word.parse().ok()) {
            if found.len() < PROCESSES_MAX {
                found.push(child);
                descend(child, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_is_seen_and_so_are_those_it_started() {
        let script = "while :; do :; done & echo; wait";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut usage = Usage::default();
        assert_eq!(usage.look(child.id()), Shares::default(), "the first look has nothing to hold against");
        let mut seen = Shares::default();
        for _ in 0..600 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            seen = usage.look(child.id());
            if seen.server_percent.is_some_and(|percent| percent > 0.0) {
                break;
            }
        }
        let mut below = Vec::new();
        descend(child.id(), &mut below);
        for id in below {
            let id = rustix::process::Pid::from_raw(id as i32).unwrap();
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert!(seen.server_percent.is_some_and(|percent| percent > 0.0), "{seen:?}");
        assert!(seen.generator_percent.is_some());
        assert_eq!(usage.look(child.id()), Shares::default(), "it is gone");
    }
}
