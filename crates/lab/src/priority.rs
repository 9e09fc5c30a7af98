//! The CPU priority of a run: load generator and server before other programs, so that a busy machine takes less from both. Threads and
//! processes inherit it from the thread that has it raised.
//!
//! The kernel weighs a thread at -20 eighty-seven times as much as one at 0. Where it groups threads by session (autogroup,
//! `man 7 sched`), it weighs a thread against those of its own session only, and sessions against each other, so both are raised.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{getpriority_process, setpriority_process};

const HIGHEST: i32 = -20;
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Priority that is raised until this is dropped.
#[derive(Debug)]
pub struct Raised {
    before: i32,
    nice: i32,
    _session: Option<Session>,
}

impl Raised {
    /// Raises the priority of the calling thread, and of those that it starts, as far as the kernel allows. `None` if it does not, or with
    /// `WEBSTONE_PRIORITY=normal` in the environment.
    pub fn by_thread() -> Option<Raised> {
        if stays_normal() {
            return None;
        }
        let before = getpriority_process(None).ok()?;
        let nice = (HIGHEST..before).find(|nice| setpriority_process(None, *nice).is_ok())?;
        Some(Raised { before, nice, _session: Session::raise(nice) })
    }

    /// The raised value; -20 is the highest priority.
    pub fn nice(&self) -> i32 {
        self.nice
    }
}

/// Whether other programs are to lose nothing to this one: `WEBSTONE_PRIORITY=normal` in the environment.
pub fn stays_normal() -> bool {
    std::env::var("WEBSTONE_PRIORITY").is_ok_and(|word| word == "normal")
}

impl Drop for Raised {
    fn drop(&mut self) {
        // Lowering it is always allowed.
        let _ = setpriority_process(None, self.before);
    }
}

/// The raised priority of a session. A process of its own gives it back when its standard input ends, even if this one was killed: the
/// user's shell is of the same session.
#[derive(Debug)]
struct Session(Child);

/// In a process group of its own, because Ctrl-C ends all of this one's.
const KEEPER: &str = "trap '' INT TERM HUP; read -r _; echo \"$0\" > /proc/self/autogroup";

impl Session {
    fn raise(nice: i32) -> Option<Session> {
        let before = session_nice().filter(|before| *before > nice)?;
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, &before.to_string()]).process_group(0);
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let session = Session(keeper.spawn().ok()?);
        std::fs::write(AUTOGROUP, nice.to_string()).ok().map(|()| session)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The session's: `/autogroup-333 nice 0`.
fn session_nice() -> Option<i32> {
    let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    let text = std::fs::read_to_string(AUTOGROUP).ok().filter(|_| enabled.trim() == "1")?;
    text.trim().rsplit_once("nice ")?.1.parse().ok()
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
                println!("skipped: this user may not raise the priority, or WEBSTONE_PRIORITY says normal");
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
