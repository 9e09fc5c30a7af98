//! Readiness by epoll, edge-triggered except for datagrams: each descriptor is registered once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use rustix::net;
use rustix::time::Timespec;

use super::backend::{Backend, DISCARD_BYTES, Event, WITHOUT_END};
use super::clock::now_ns;
use super::datagrams::{self, Datagrams, Inbox, Spare};
use super::ticker::{Ticker, Ticks};
use super::{Address, Connect, Received, Socket, Source};

/// Maximum number of events taken from the kernel at once.
pub(crate) const EVENTS_PER_WAIT: usize = 256;
/// Buffer for one read if bodies are discarded: it holds a head and a small body. Copying more would cost more than
/// the second call that discards the rest.
const HEAD_BYTES: usize = 16 * 1024;
/// Buffer for one read if bodies are received: about what the receive queue mostly holds on a loopback interface if
/// it is emptied as it fills. With 64 KiB each read opens the TCP window a little, the server is woken to fill just
/// that, and nginx serves two fifths fewer large files per second. With 256 KiB a server that writes from memory
/// waits for a queue that is emptied in bursts, and serves a quarter fewer.
const BODY_BYTES: usize = 160 * 1024;

/// Events of a socket for datagrams: reported until it is empty, so that nobody has to read once more to find that out.
const DATAGRAMS: epoll::EventFlags = epoll::EventFlags::IN;
/// Maximum number of sockets for datagrams that are kept for other connections: those that end in one round are few.
const SPARES_MAX: usize = 64;

/// See the module comment.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// Whether `epoll_pwait2` is missing: before Linux 5.11, and in valgrind.
    waits_by_poll: bool,
    /// Watched for as long as it exists.
    ticker: Option<Ticker>,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
    /// Its content is never used; [`Socket::discard`] needs its length.
    scratch: Vec<u8>,
    /// Present once datagrams were received.
    inbox: Option<Inbox>,
    /// Whether the kernel cuts what is sent into datagrams (UDP_SEGMENT).
    cuts_datagrams: bool,
    spares: Vec<Spare<Socket>>,
}

impl Epoll {
    /// An event loop. `receives_bodies`: bodies are received, not discarded.
    pub(crate) fn new(receives_bodies: bool) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // rustix waits in whole milliseconds unless its feature `linux_5_11` says that `epoll_pwait2` exists.
        let mut none = Vec::with_capacity(1);
        let tried = epoll::wait(&epoll, spare_capacity(&mut none), Some(&Timespec::default()));
        Ok(Epoll {
            epoll,
            waits_by_poll: tried == Err(Errno::NOSYS),
            ticker: None,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            buffer: vec![0; if receives_bodies { BODY_BYTES } else { HEAD_BYTES }].into_boxed_slice(),
            scratch: vec![0; DISCARD_BYTES],
            inbox: None,
            cuts_datagrams: true,
            spares: Vec::new(),
        })
    }

    /// Connects a socket for datagrams again.
    fn reconnect(
        &self,
        spare: Spare<Socket>,
        index: u32,
        address: &SocketAddr,
        is_ect: bool,
    ) -> io::Result<Socket> {
        if spare.is_ect != is_ect {
            datagrams::mark(spare.socket.as_fd(), spare.is_v4, is_ect);
        }
        if spare.index != index {
            let token = epoll::EventData::new_u64(u64::from(index));
            epoll::modify(&self.epoll, &spare.socket, token, DATAGRAMS)?;
        }
        net::connect(&spare.socket, address)?;
        Ok(spare.socket)
    }

    /// Whether the kernel is to cut what is sent into datagrams.
    #[cfg(test)]
    pub(super) fn cuts_datagrams(&mut self, cuts: bool) {
        self.cuts_datagrams = cuts;
    }
}

impl Backend for Epoll {
    type Socket = Socket;

    const NAME: &'static str = "epoll";

    #[inline]
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn sleep_until(&mut self, at_ns: u64) {
        while let left_ns @ 1.. = at_ns.saturating_sub(now_ns()) {
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
    }

    #[inline]
    fn spin_until(&mut self, at_ns: u64) -> u64 {
        loop {
            let now = now_ns();
            if now >= at_ns {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        watch(&self.epoll, descriptor, token)
    }

    fn tick_every(&mut self, period_ns: u64, token: u64) -> io::Result<()> {
        let ticker = self.ticker.insert(Ticker::every(period_ns)?);
        watch(&self.epoll, ticker, token)
    }

    #[inline]
    fn take_ticks(&mut self) -> Option<Ticks> {
        self.ticker.as_mut()?.take()
    }

    #[inline]
    fn open(&mut self, index: u32, address: &Address, source: Option<Source>) -> io::Result<Socket> {
        let socket = Socket::new(address, source)?;
        watch(&self.epoll, &socket, u64::from(index))?;
        Ok(socket)
    }

    #[inline]
    fn close(&mut self, socket: Socket) {
        drop(socket);
    }

    #[inline]
    fn connect(&mut self, socket: &Socket, address: &Address) -> io::Result<Connect> {
        socket.connect(address)
    }

    fn connect_error(&mut self, socket: &Socket) -> Option<io::Error> {
        socket.take_error()
    }

    fn local_address(&self, socket: &Socket) -> Option<SocketAddr> {
        socket.local_address()
    }

    fn handshake_ns(&self, socket: &Socket) -> Option<u64> {
        socket.handshake_ns()
    }

    #[inline]
    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        socket.send(bytes)
    }

    #[inline]
    fn receive(&mut self, socket: &Socket) -> io::Result<Received> {
        socket.receive(&mut self.buffer)
    }

    #[inline]
    fn receive_up_to(&mut self, socket: &Socket, most: usize) -> io::Result<Received> {
        let most = most.min(self.buffer.len());
        socket.receive(&mut self.buffer[..most])
    }

    fn queued(&self, socket: &Socket) -> usize {
        socket.queued()
    }

    fn bound_queue(&mut self, socket: &Socket, bytes: u32) {
        socket.bound_queue(bytes);
    }

    fn stamp(&mut self, socket: &Socket) -> io::Result<()> {
        socket.stamp()
    }

    #[inline]
    fn receive_stamped(&mut self, socket: &Socket) -> io::Result<(Received, Option<u64>)> {
        socket.receive_stamped(&mut self.buffer)
    }

    #[inline]
    fn receives_most(&self) -> usize {
        self.buffer.len()
    }

    fn awaits(&mut self, socket: &Socket, bytes: u32) {
        socket.awaits(bytes);
    }

    #[inline]
    fn bytes(&self, n: usize) -> &[u8] {
        &self.buffer[..n]
    }

    #[inline]
    fn discard(&mut self, socket: &Socket, most: usize) -> io::Result<Received> {
        socket.discard(&mut self.scratch[..most])
    }

    #[inline]
    fn shutdown_write(&mut self, socket: &Socket) -> io::Result<()> {
        socket.shutdown_write()
    }

    #[inline]
    fn disconnect(&mut self, socket: &Socket) -> io::Result<()> {
        socket.disconnect()
    }

    fn reset_on_close(&mut self, socket: &Socket) -> io::Result<()> {
        socket.reset_on_close()
    }

    fn open_datagrams(
        &mut self,
        index: u32,
        address: &SocketAddr,
        source: Option<Source>,
        is_ect: bool,
    ) -> io::Result<Socket> {
        if let Some(spare) = self.spares.pop() {
            if source.is_none() && spare.is_v4 == address.is_ipv4() {
                return self.reconnect(spare, index, address, is_ect);
            }
            drop(spare);
        }
        let socket = Socket::from(datagrams::open(address, source, is_ect)?);
        datagrams::receive_many(socket.as_fd());
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(u64::from(index)), DATAGRAMS)?;
        Ok(socket)
    }

    fn spare_datagrams(&mut self, spare: Spare<Socket>) {
        if self.spares.len() < SPARES_MAX && datagrams::disconnect(spare.socket.as_fd()).is_ok() {
            self.spares.push(spare);
        }
    }

    fn lengthen_queue(&mut self, socket: &Socket) {
        datagrams::lengthen_queue(socket.as_fd());
    }

    fn mark_datagrams(&mut self, socket: &Socket, address: &SocketAddr, is_ect: bool) {
        datagrams::mark(socket.as_fd(), address.is_ipv4(), is_ect);
    }

    fn send_datagrams(&mut self, socket: &Socket, bytes: &[u8], segment: usize) -> io::Result<bool> {
        if bytes.len() > segment && self.cuts_datagrams {
            let send = || datagrams::send_segments(socket.as_fd(), bytes, segment as u16);
            match datagrams::send_past_report(send) {
                Ok(()) => return Ok(true),
                // The kernel is too old, or the interface cannot compute check sums.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO)) => {
                    self.cuts_datagrams = false;
                }
                Err(error) => return lost(error),
            }
        }
        let mut were_all = true;
        for datagram in bytes.chunks(segment.max(1)) {
            let send = || Ok(net::send(socket, datagram, net::SendFlags::NOSIGNAL)?);
            match datagrams::send_past_report(send) {
                Ok(_) => {}
                Err(error) => were_all = lost(error)?,
            }
        }
        Ok(were_all)
    }

    fn receive_datagrams(&mut self, socket: &Socket, most: usize) -> io::Result<usize> {
        self.inbox.get_or_insert_with(Inbox::new).receive(socket.as_fd(), most)
    }

    fn batch(&mut self, number: usize) -> (Datagrams, &mut [u8]) {
        self.inbox.get_or_insert_with(Inbox::new).batch(number)
    }

    #[inline]
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.events.clear();
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as _,
        };
        let timeout = (timeout_ns != WITHOUT_END).then_some(&timeout);
        let waited = if self.waits_by_poll {
            wait_by_poll(&self.epoll, &mut self.events, timeout)
        } else {
            epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout)
        };
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn event(&self, number: usize) -> Event {
        let event = &self.events[number];
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

/// Whether a datagram that could not be sent counts as lost, not as an error: the socket is full, or the datagram is a probe that is
/// too long for the interface.
fn lost(error: io::Error) -> io::Result<bool> {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EMSGSIZE | libc::ENOBUFS) => Ok(false),
        _ => Err(error),
    }
}

fn watch(epoll: &OwnedFd, descriptor: impl AsFd, token: u64) -> io::Result<()> {
    let interest =
        epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    Ok(epoll::add(epoll, descriptor, epoll::EventData::new_u64(token), interest)?)
}

/// Waits with a resolution of nanoseconds where epoll itself has only milliseconds: poll can wait for the epoll
/// descriptor.
#[cold]
fn wait_by_poll(
    epoll: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    timeout: Option<&Timespec>,
) -> rustix::io::Result<usize> {
    poll(&mut [PollFd::new(epoll, PollFlags::IN)], timeout)?;
    let space = events.spare_capacity_mut();
    // SAFETY: the kernel writes at most `space.len()` events to memory that we own; rustix's event type is the
    // kernel's.
    let count =
        unsafe { libc::epoll_wait(epoll.as_raw_fd(), space.as_mut_ptr().cast(), space.len() as i32, 0) };
    let count = usize::try_from(count)
        .map_err(|_| io::Error::last_os_error())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // SAFETY: this many were written, all within the capacity.
    unsafe { events.set_len(events.len() + count) };
    Ok(count)
}

const _: () = assert!(size_of::<epoll::Event>() == size_of::<libc::epoll_event>());

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_of_less_than_a_millisecond_takes_less() {
        for waits_by_poll in [false, true] {
            waits_shortly(Epoll { waits_by_poll, ..new() });
        }
    }

    #[test]
    fn events_come_by_poll_as_without_it() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        for waits_by_poll in [false, true] {
            let mut epoll = Epoll { waits_by_poll, ..new() };
            let (ours, theirs) =
                socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None).unwrap();
            epoll.watch(&ours, 7).unwrap();
            assert_eq!(epoll.wait(1_000_000_000).unwrap(), 1);
            let event = epoll.event(0);
            assert_eq!((event.token, event.readable, event.writable), (7, false, true));
            assert_eq!(epoll.wait(0).unwrap(), 0, "an edge comes once");
            rustix::io::write(&theirs, b"x").unwrap();
            assert_eq!(epoll.wait(1_000_000_000).unwrap(), 1);
            assert!(epoll.event(0).readable);
        }
    }

    fn new() -> Epoll {
        Epoll::new(false).unwrap()
    }

    fn waits_shortly(mut epoll: Epoll) {
        // On a busy machine any single wait may take longer; with time-outs in whole milliseconds all of them would.
        let shortest = (0..500).map(|_| {
            let start = Instant::now();
            assert_eq!(epoll.wait(100_000).unwrap(), 0);
            start.elapsed()
        });
        let shortest = shortest.min().unwrap();
        assert!((Duration::from_micros(100)..Duration::from_millis(1)).contains(&shortest), "{shortest:?}");
    }
}
