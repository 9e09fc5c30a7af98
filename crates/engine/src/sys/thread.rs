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

/// CPU time that the calling thread has used so far.
pub(crate) fn cpu_use() -> CpuUse {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable `rusage`; RUSAGE_THREAD is a valid `who`. All-zero is a valid `rusage`, so it may
    // be read even if the call failed, which it cannot with these arguments.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    CpuUse { user_ns: nanos(usage.ru_utime), system_ns: nanos(usage.ru_stime) }
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
}
