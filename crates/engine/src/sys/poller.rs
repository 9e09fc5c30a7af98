//! Readiness, edge-triggered: a descriptor is registered once and never again, whatever it waits for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::Timespec;

/// Events taken from the kernel at once.
const BATCH: usize = 256;

/// One descriptor's readiness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// What the descriptor was registered under.
    pub(crate) token: u64,
    /// The peer will send no more: end of stream, hang-up or error. Read to learn which.
    pub(crate) ended: bool,
    /// An error is pending.
    pub(crate) error: bool,
    /// Bytes, or the end, can be read.
    pub(crate) readable: bool,
    /// Bytes can be written; a connection stands.
    pub(crate) writable: bool,
}

/// A set of descriptors whose changes of readiness are reported.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(BATCH) })
    }

    /// Adds a descriptor for good; closing it removes it.
    pub(crate) fn add(&self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        let interest =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(token), interest)?)
    }

    /// Waits up to `timeout_ns` and returns how many events there are; see [`Poller::event`].
    #[inline]
    pub(crate) fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.events.clear();
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as _,
        };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// The event of an index below what [`Poller::wait`] returned.
    #[inline]
    pub(crate) fn event(&self, index: usize) -> Event {
        let event = &self.events[index];
        let flags = event.flags;
        let has = |flag: epoll::EventFlags| flags.intersects(flag);
        Event {
            token: event.data.u64(),
            ended: has(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            error: has(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
            readable: has(epoll::EventFlags::IN),
            writable: has(epoll::EventFlags::OUT),
        }
    }
}
