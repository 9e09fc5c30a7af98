//! Readiness, edge-triggered, by epoll: a descriptor is registered once and never again, whatever it waits for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::Timespec;

use super::backend::{Backend, DISCARD_BYTES, Event, Outgoing, Setup};
use super::{Address, Connect, Received, Socket};

/// Events taken from the kernel at once.
const BATCH: usize = 256;
/// Room for one read. A head and a small body fit; the rest of a large one is thrown away unread.
const BUFFER_BYTES: usize = 64 * 1024;

/// See the module comment.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    requests: Arc<Vec<u8>>,
    buffer: Box<[u8]>,
    /// Never touched; its length is what [`Socket::discard`] needs.
    scratch: Vec<u8>,
}

impl Backend for Epoll {
    const NAME: &'static str = "epoll";
    const DISCARDS: bool = true;
    const REUSES_SOCKETS: bool = true;

    fn new(setup: Setup) -> io::Result<Epoll> {
        Ok(Epoll {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(BATCH),
            requests: setup.requests,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            scratch: vec![0; DISCARD_BYTES],
        })
    }

    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        let interest =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(token), interest)?)
    }

    fn add(&mut self, index: u32, socket: &Socket) -> io::Result<()> {
        self.watch(socket, u64::from(index))
    }

    fn connect(&mut self, _: u32, socket: &Socket, address: &Address) -> io::Result<Connect> {
        socket.connect(address)
    }

    #[inline]
    fn send(&mut self, _: u32, socket: &Socket, bytes: Outgoing<'_>) -> io::Result<usize> {
        match bytes {
            Outgoing::Planned { start, end } => socket.send(&self.requests[start..end]),
            Outgoing::Filled(bytes) => socket.send(bytes),
        }
    }

    #[inline]
    fn receive(&mut self, _: u32, socket: &Socket) -> io::Result<Received> {
        socket.receive(&mut self.buffer)
    }

    fn stamp(&mut self, _: u32, socket: &Socket) -> io::Result<()> {
        socket.stamp()
    }

    fn receive_stamped(&mut self, _: u32, socket: &Socket) -> io::Result<(Received, Option<u64>)> {
        socket.receive_stamped(&mut self.buffer)
    }

    #[inline]
    fn receives_most(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    fn bytes(&self, n: usize) -> &[u8] {
        &self.buffer[..n]
    }

    #[inline]
    fn discard(&mut self, socket: &Socket, most: usize) -> io::Result<Received> {
        socket.discard(&mut self.scratch[..most])
    }

    /// Closing a descriptor removes it.
    fn forget(&mut self, _: u32, _: &Socket) {}

    #[inline]
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
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

    #[inline]
    fn event(&mut self, number: usize) -> Option<Event> {
        let event = &self.events[number];
        let flags = event.flags;
        let has = |flag: epoll::EventFlags| flags.intersects(flag);
        Some(Event {
            token: event.data.u64(),
            ended: has(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            error: has(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
            readable: has(epoll::EventFlags::IN),
            writable: has(epoll::EventFlags::OUT),
        })
    }
}
