//! The CPU priority of a run: load generator and server before other programs, so that a busy machine takes less from both. Threads and
//! processes inherit it from the thread that has it raised.
//!
//! The kernel weighs a thread at -20 eighty-seven times as much as one at 0. Where it groups threads by session (autogroup,
//! `man 7 sched`), it weighs a thread against those of its own session only, and sessions against each other, so both are raised.

use std::path::Path;

use rustix::process::{getpriority_process, setpriority_process};

const HIGHEST: i32 = -20;
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Priority that is raised until this is dropped.
#[derive(Debug)]
pub struct Raised {
    before: i32,
    nice: i32,
    session_before: Option<i32>,
}

impl Raised {
    /// Raises the priority of the calling thread, and of those that it starts, as far as the kernel allows. `None` where it does not, and where
    /// `WEBSTONE_PRIORITY=normal` asks for that.
    pub fn by_thread() -> Option<Raised> {
        if std::env::var("WEBSTONE_PRIORITY").is_ok_and(|word| word == "normal") {
            return None;
        }
        let before = getpriority_process(None).ok()?;
        let nice = (HIGHEST..before).find(|nice| setpriority_process(None, *nice).is_ok())?;
        let session_before = session_nice().filter(|session| *session > nice && set_session(nice));
        Some(Raised { before, nice, session_before })
    }

    /// What it is now: from -20, which comes first, to 19.
    pub fn nice(&self) -> i32 {
        self.nice
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // To lower it is always allowed.
        let _ = setpriority_process(None, self.before);
        self.session_before.map(set_session);
    }
}

/// The session's: `/autogroup-333 nice 0`.
fn session_nice() -> Option<i32> {
    let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    let text = std::fs::read_to_string(AUTOGROUP).ok().filter(|_| enabled.trim() == "1")?;
    text.trim().rsplit_once("nice ")?.1.parse().ok()
}

fn set_session(nice: i32) -> bool {
    std::fs::write(Path::new(AUTOGROUP), nice.to_string()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_inherited_and_given_back() {
        // A thread of its own, because tests share theirs.
        std::thread::spawn(|| {
            let nice = || getpriority_process(None).unwrap();
            let (before, session) = (nice(), session_nice());
            let Some(raised) = Raised::by_thread() else {
                println!("skipped: this user may not raise the priority of a process");
                return;
            };
            assert!(raised.nice() < before && nice() == raised.nice());
            assert_eq!(std::thread::spawn(nice).join().unwrap(), raised.nice());
            drop(raised);
            assert_eq!((nice(), session_nice()), (before, session));
        })
        .join()
        .unwrap();
    }
}
