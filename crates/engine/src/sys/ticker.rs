//! Wakes an event loop every so often, so that its waits need no time-out.
//!
//! A wait with a time-out arms a timer of the kernel's and takes it back when something happens before: on a virtual machine
//! that was 7 to 9 % of what a request on a kept connection cost (benchsuite, `keep-alive`). One that fires a hundred times a
//! second by itself costs nothing that can be measured.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A descriptor that reports once in a period, as long as [`Ticker::take`] follows each report.
#[derive(Debug)]
pub(crate) struct Ticker {
    descriptor: OwnedFd,
}

impl Ticker {
    /// One that starts now. `period_ns`: less than a second.
    pub(crate) fn every(period_ns: u64) -> io::Result<Ticker> {
        let descriptor =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let period = Timespec { tv_sec: 0, tv_nsec: period_ns as _ };
        let times = Itimerspec { it_interval: period, it_value: period };
        timerfd_settime(&descriptor, TimerfdTimerFlags::empty(), &times)?;
        Ok(Ticker { descriptor })
    }

    /// Takes a report back: the kernel sets its timer again when it is read.
    pub(crate) fn take(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
    }
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
    use crate::sys::{Backend, Epoll, Ring, Setup, WITHOUT_END};

    fn wakes_again_and_again<B: Backend>() {
        let mut backend =
            B::new(Setup { connections: 1, keeps_connections: true, ..Setup::default() }).unwrap();
        let began = Instant::now();
        let ticker = Ticker::every(2_000_000).unwrap();
        backend.watch(&ticker, 7).unwrap();
        for _ in 0..5 {
            // A wait may end for nothing (a signal, a completion that says nothing).
            while backend.wait(WITHOUT_END).unwrap() == 0 {}
            assert_eq!(backend.event(0).map(|event| (event.token, event.readable)), Some((7, true)));
            ticker.take();
        }
        assert!(began.elapsed() >= Duration::from_millis(9), "{:?}", began.elapsed());
    }

    #[test]
    fn a_wait_without_end_is_ended_by_each_tick() {
        wakes_again_and_again::<Epoll>();
        match Ring::new(Setup { connections: 1, ..Setup::default() }) {
            Ok(_) => wakes_again_and_again::<Ring>(),
            Err(error) => println!("skipped: io_uring: {error}"),
        }
    }
}
