//! Keeps a container alive in which agents are started from outside, and ends when no other process of this program has run for
//! a while. It looks for processes, so that a killed agent leaves nothing and nothing need be writable.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::info;

use crate::interrupt::Interrupt;

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(500);

/// Returns after `idle` without another process of this program in this process-id namespace, or on a signal.
pub fn wait(idle: Duration, interrupt: &Interrupt) {
    wait_below(Path::new("/proc"), std::process::id(), idle, interrupt);
}

fn wait_below(proc: &Path, own: u32, idle: Duration, interrupt: &Interrupt) {
    let mut used = Instant::now();
    while interrupt.count() == 0 {
        if is_used(proc, own) {
            used = Instant::now();
        }
        let Some(left) = idle.checked_sub(used.elapsed()).filter(|left| !left.is_zero()) else {
            info!(?idle, "nobody used this container");
            return;
        };
        std::thread::sleep(left.min(LOOK));
    }
}

/// Whether a process beside `own` runs the same file.
fn is_used(proc: &Path, own: u32) -> bool {
    let program = |process: &Path| {
        // The link leads to the file itself, even if its name now belongs to another.
        let file = fs::metadata(process.join("exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let Some(ours) = program(&proc.join(own.to_string())) else { return false };
    fs::read_dir(proc).into_iter().flatten().flatten().any(|entry| {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != own) && program(&entry.path()) == Some(ours)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Processes, and the program of each.
    fn processes(of: &[(u32, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (pid, program) in of {
            let file = proc.path().join(program);
            fs::write(&file, program).unwrap();
            let process = proc.path().join(pid.to_string());
            fs::create_dir(&process).unwrap();
            symlink(file, process.join("exe")).unwrap();
        }
        proc
    }

    #[test]
    fn only_another_process_of_the_same_program_is_a_use() {
        assert!(!is_used(processes(&[(1, "webstone")]).path(), 1));
        assert!(!is_used(processes(&[(1, "webstone"), (7, "sh")]).path(), 1));
        assert!(is_used(processes(&[(1, "webstone"), (7, "sh"), (9, "webstone")]).path(), 1));
    }

    #[test]
    fn it_ends_a_while_after_the_last_use_and_not_before() {
        let proc = processes(&[(1, "webstone"), (7, "webstone")]);
        let idle = Duration::from_millis(200);
        let interrupt = Interrupt::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_below(proc.path(), 1, idle, &interrupt));
            std::thread::sleep(4 * idle);
            assert!(!waiting.is_finished(), "it is used");
            fs::remove_dir_all(proc.path().join("7")).unwrap();
            let gone = Instant::now();
            waiting.join().unwrap();
            assert!(gone.elapsed() < Duration::from_secs(60));
        });
        interrupt.raise();
        wait_below(proc.path(), 1, Duration::from_secs(3_600), &interrupt);
    }
}
