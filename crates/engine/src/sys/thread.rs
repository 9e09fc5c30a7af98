//! System calls of a worker thread about itself.

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
    /// Time that it was ready to run but had to wait for a CPU, in nanoseconds; absent if the kernel does not report
    /// it.
    pub(crate) run_queue_ns: Option<u64>,
    /// How often it slept until something woke it.
    pub(crate) sleeps: u64,
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Makes the calling thread's sleeps end on time, not up to 50 µs later to save a wake-up.
pub(crate) fn wake_punctually() {
    // Without permission sleeps end late, and the schedule lag shows it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives the calling thread its own table of open files, with standard input, output and error only; returns whether
/// the kernel allowed it.
///
/// While threads share a table, each system call on a descriptor begins and ends with an atomic operation on the
/// file's reference count (`fdget` of Linux, `fs/file.c`), a table that grows waits for every CPU, and the limit on
/// open files is for all threads together. From then on the thread must not use anything that was opened before.
pub(crate) fn own_descriptors() -> bool {
    let behind_standard_streams: libc::c_uint = 3;
    // SAFETY: it closes descriptors in a table that no other thread shares; this one, by contract, uses none of them.
    unsafe { close_range(behind_standard_streams, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) }
}

/// Whether [`own_descriptors`] works: since Linux 5.9.
pub(crate) fn may_own_descriptors() -> bool {
    // SAFETY: no descriptor has this number, so that nothing is closed.
    unsafe { close_range(libc::c_uint::MAX, libc::c_uint::MAX, 0) }
}

/// `close_range(2)`, which C libraries older than 2021 do not have.
///
/// # Safety
/// Nobody may use the descriptors that it closes.
unsafe fn close_range(first: libc::c_uint, last: libc::c_uint, flags: libc::c_uint) -> bool {
    // SAFETY: three integers, as the call expects; the caller vouches for what is closed.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
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
        sleeps: usage.ru_nvcsw as u64,
    }
}

/// CPU time that a process of this host has used so far, in nanoseconds: all its threads, including ended ones, but
/// not its children. `/proc` has the same in ticks of 10 ms. A thread that is running on another CPU counts up to its
/// last timer interrupt. `None` if there is no such process.
pub fn process_cpu_ns(process: u32) -> Option<u64> {
    let process = libc::pid_t::try_from(process).ok().filter(|process| *process > 0)?;
    let mut clock: libc::clockid_t = 0;
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: both pointers are to writable values of the types that the calls take. An all-zero `timespec` is valid,
    // so it may be read whether or not the calls succeed.
    let (found, time) = unsafe {
        let found = libc::clock_getcpuclockid(process, &mut clock) == 0
            && libc::clock_gettime(clock, time.as_mut_ptr()) == 0;
        (found, time.assume_init())
    };
    found.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The second number of `schedstat`, after the time on the CPU: the time spent waiting for it (Linux,
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
    fn sleeps_are_counted() {
        let before = cpu_use();
        (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        let slept = cpu_use().sleeps - before.sleeps;
        // Page faults that read the program from disk are sleeps, too.
        assert!((5..50).contains(&slept), "{slept}");
    }

    #[test]
    fn the_clock_of_a_process_is_finer_than_its_ticks() {
        let before = process_cpu_ns(std::process::id()).unwrap();
        let start = super::super::clock::now_ns();
        let used = || process_cpu_ns(std::process::id()).unwrap() - before;
        while used() == 0 && super::super::clock::now_ns() - start < 1_000_000_000 {}
        assert!(used() > 0);
        // Larger than any process identifier of Linux (`PID_MAX_LIMIT` is 2²²).
        assert_eq!(
            (process_cpu_ns(0), process_cpu_ns(1 << 23), process_cpu_ns(u32::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn a_table_of_its_own_is_empty_and_leaves_the_others_alone() {
        use std::io::{Read as _, Write as _};
        if !may_own_descriptors() {
            println!("skipped: this kernel gives a thread no table of its own");
            return;
        }
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let table = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
        let all = table();
        let own = std::thread::spawn(move || {
            assert!(own_descriptors());
            let before = table();
            let _open = std::fs::File::open("/dev/null").unwrap();
            (before, table())
        });
        // Each count includes the directory being read.
        assert_eq!(own.join().unwrap(), (4, 5));
        assert!(all >= 6 && table() >= 6, "the pipe is still in this thread's table");
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "x", "and no other thread kept its end open");
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
        // Three threads on one CPU, with 90 ms of work each: at least one of them waits for 90 ms or more.
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
