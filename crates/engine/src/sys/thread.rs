//! What a worker thread asks of the system about itself.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

/// CPU time that a thread has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuUse {
    /// In user mode, in nanoseconds.
    pub(crate) user_ns: u64,
    /// In the kernel on its behalf, in nanoseconds.
    pub(crate) system_ns: u64,
    /// Time that it was ready to run and not let run, in nanoseconds; absent where the kernel does not tell.
    pub(crate) run_queue_ns: Option<u64>,
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread's sleeps end when they shall, and not up to 50 µs later to save a wake-up.
pub(crate) fn wake_punctually() {
    // Where the kernel does not let us, sleeps end late, and the schedule lag shows it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// CPU time that the calling thread has used, and waited for, so far.
pub(crate) fn cpu_use() -> CpuUse {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable `rusage`; RUSAGE_THREAD is a valid `who`. All-zero is a valid `rusage`, so it may
    // be read even if the call failed, which it cannot with these arguments.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    CpuUse {
        user_ns: nanos(usage.ru_utime),
        system_ns: nanos(usage.ru_stime),
        run_queue_ns: std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| run_queue(&text)),
    }
}

/// The second number of `schedstat`: time on the CPU, time waiting for it, times that it was given (Linux,
/// Documentation/scheduler/sched-stats.rst).
fn run_queue(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_cpu_time() {
        let before = cpu_use();
        let start = super::super::clock::now_ns();
        while super::super::clock::now_ns() - start < 30_000_000 {}
        let after = cpu_use();
        assert!(after.user_ns + after.system_ns > before.user_ns + before.system_ns);
    }

    #[test]
    fn waiting_for_the_cpu_is_the_second_number() {
        assert_eq!(run_queue("360183 97150 2\n"), Some(97150));
        assert_eq!(run_queue(""), None);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_each_other() {
        if cpu_use().run_queue_ns.is_none() {
            println!("skipped: this kernel tells no run-queue delay");
            return;
        }
        // Three threads on one CPU: in any 90 ms of work at least one of them waits for as long.
        let barrier = std::sync::Barrier::new(3);
        let work = || {
            pin(0)?;
            let before = cpu_use();
            barrier.wait();
            while cpu_use().user_ns + cpu_use().system_ns < before.user_ns + before.system_ns + 90_000_000 {}
            Ok::<u64, io::Error>(cpu_use().run_queue_ns.unwrap_or(0) - before.run_queue_ns.unwrap_or(0))
        };
        let waited: Vec<io::Result<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let Ok(waited) = waited.into_iter().collect::<io::Result<Vec<u64>>>() else {
            println!("skipped: this process may not run on CPU 0");
            return;
        };
        assert!(waited.iter().max() >= Some(&90_000_000), "{waited:?}");
    }
}
