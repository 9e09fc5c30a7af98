//! Wakes an event loop periodically, so that its waits need no time-out.
//!
//! A wait with a time-out arms a kernel timer and cancels it if something happens earlier: on a virtual machine that
//! was 7 to 9 % of the cost of a request on a kept connection (benchsuite, `keep-alive`). A timer that fires a
//! hundred times per second has no measurable cost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::clock::now_ns;

/// A descriptor that reports once per period, provided that [`Ticker::take`] follows each report.
#[derive(Debug)]
pub(super) struct Ticker {
    descriptor: OwnedFd,
    period_ns: u64,
    /// When the next report is due, on the clock of [`now_ns`].
    due_ns: u64,
}

/// Reports acknowledged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// When the first of them was due.
    pub(crate) due_ns: u64,
    /// Number of reports: more than one if more than a period has passed since the last call.
    pub(crate) count: u64,
}

impl Ticker {
    /// A ticker that starts now. `period_ns`: less than a second.
    pub(super) fn every(period_ns: u64) -> io::Result<Ticker> {
        let descriptor =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // An absolute time, so that it is known when each report is due, however late this thread runs.
        let due_ns = now_ns() + period_ns;
        let times = Itimerspec { it_interval: time(period_ns), it_value: time(due_ns) };
        timerfd_settime(&descriptor, TimerfdTimerFlags::ABSTIME, &times)?;
        Ok(Ticker { descriptor, period_ns, due_ns })
    }

    /// Acknowledges the reports so far: reading the timer resets it. `None` if there was none.
    pub(super) fn take(&mut self) -> Option<Ticks> {
        let mut count = [0; 8];
        let read = rustix::io::read(&self.descriptor, &mut count).unwrap_or(0);
        let count = u64::from_ne_bytes(count);
        if read != count.to_ne_bytes().len() || count == 0 {
            return None;
        }
        let ticks = Ticks { due_ns: self.due_ns, count };
        self.due_ns += count * self.period_ns;
        Some(ticks)
    }
}

fn time(nanos: u64) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    Timespec { tv_sec: (nanos / SECOND) as _, tv_nsec: (nanos % SECOND) as _ }
}

impl AsFd for Ticker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::{Backend, Epoll, WITHOUT_END};

    #[test]
    fn a_wait_without_end_is_ended_by_each_tick() {
        let mut backend = Epoll::new(false).unwrap();
        let began = Instant::now();
        let mut ticker = Ticker::every(2_000_000).unwrap();
        backend.watch(&ticker, 7).unwrap();
        let (mut due_ns, mut ticks) = (0, 0);
        while ticks < 5 {
            // A signal may end a wait without an event.
            while backend.wait(WITHOUT_END).unwrap() == 0 {}
            let event = backend.event(0);
            assert_eq!((event.token, event.readable), (7, true));
            let taken = ticker.take().expect("it reported");
            if ticks > 0 {
                assert_eq!(taken.due_ns, due_ns);
            }
            due_ns = taken.due_ns + taken.count * 2_000_000;
            ticks += taken.count;
        }
        assert!(began.elapsed() >= Duration::from_millis(9), "{:?}", began.elapsed());
    }

    #[test]
    fn untaken_reports_are_counted() {
        assert_eq!(Ticker::every(900_000_000).unwrap().take(), None);
        let mut ticker = Ticker::every(1_000_000).unwrap();
        std::thread::sleep(Duration::from_millis(12));
        let taken = ticker.take().expect("twelve periods have passed");
        assert!(taken.count >= 11 && taken.due_ns + (taken.count - 1) * 1_000_000 <= now_ns(), "{taken:?}");
    }
}
