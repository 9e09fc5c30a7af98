//! Wakes an event loop from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that becomes readable when [`Waker::wake`] is called.
#[derive(Debug)]
pub(crate) struct Waker {
    descriptor: OwnedFd,
}

impl Waker {
    /// A waker that has not been woken.
    pub(crate) fn new() -> io::Result<Waker> {
        Ok(Waker { descriptor: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Wakes the loop; from any thread, any number of times.
    pub(crate) fn wake(&self) {
        // It can fail only when 2⁶⁴ − 1 wakes are pending, and then the loop is awake.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Clears all wakes so far.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
