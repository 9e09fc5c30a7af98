//! Completion by io_uring: what a round of the loop sends is written by the one system call that waits for the next
//! round, and what comes in is received by the kernel, ahead of being asked for.
//!
//! Chosen where that wins: small answers on connections that are kept. A large body is cheaper thrown away unseen, and a
//! connection per request is cheaper on a descriptor used again, neither of which this back end can do: a socket that a
//! multishot receive is armed on must not be connected anew beneath it, because the kernel may or may not notice.
//!
//! What an operation is told apart by is its user data: kind, generation and index. The generation of an index grows
//! with each socket, so that what an earlier one still had to tell is known for what it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::backend::{Backend, Event, Outgoing, Setup, WITHOUT_END};
use super::ring_buffers::{RingBuffers, Taken};
use super::{Address, Connect, Received, Socket};

/// Completions handled in one round.
const BATCH: usize = 256;
/// Operations that may wait to be submitted; more are submitted in between.
const SUBMISSIONS_MAX: u32 = 4096;
/// Longer requests are written at once, so that what the socket took is known.
const QUEUED_BYTES_MAX: usize = 16 * 1024;
/// From the kernel's `io_uring.h`: look for completions, too.
const IORING_ENTER_GETEVENTS: u32 = 1;
/// The only group of buffers.
const GROUP: u16 = 0;
/// Most places in the table of registered files (`IORING_MAX_FIXED_FILES` of Linux).
const REGISTERED_MAX: u64 = 1 << 20;
/// Room for one read on a connection whose bytes are stamped.
const STAMPED_BYTES: usize = 64 * 1024;

/// What an operation was for: the two topmost bits of its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Receive = 0,
    Send = 1,
    /// Waiting for a socket to become writable.
    Writable = 2,
    /// A watched descriptor, or nothing of interest ([`NOTHING`]).
    Watch = 3,
}

/// User data of operations whose end does not matter.
const NOTHING: u64 = user_data(Kind::Watch, 1, 0);
const GENERATION_MASK: u32 = (1 << 30) - 1;

const fn user_data(kind: Kind, generation: u32, index: u32) -> u64 {
    (kind as u64) << 62 | ((generation & GENERATION_MASK) as u64) << 32 | index as u64
}

/// What is known of the socket of an index.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    generation: u32,
    /// A multishot receive is under way; or, where bytes are stamped, one wait for them.
    is_armed: bool,
    /// A wait for it to become writable is under way.
    awaits_writable: bool,
    /// Something was sent by the kernel, which tells only of failures: it may still be at it.
    may_be_sending: bool,
    /// The end of its stream was seen.
    has_ended: bool,
    /// What comes in is stamped, so it is waited for and read: a multishot receive would tell nothing of stamps.
    is_stamped: bool,
    /// Its descriptor, or its index in the table of registered files: then an operation need not look it up.
    target: i32,
    is_registered: bool,
}

impl Slot {
    #[inline]
    fn flags(self) -> squeue::Flags {
        if self.is_registered { squeue::Flags::FIXED_FILE } else { squeue::Flags::empty() }
    }
}

/// What the event taken last brought along.
#[derive(Clone, Copy, Debug)]
enum Brought {
    Nothing,
    Bytes { index: u32, length: u32 },
    Error { index: u32, errno: i32 },
}

/// See the module comment.
pub(crate) struct Ring {
    ring: IoUring,
    /// Behind `ring`: dropped after it.
    buffers: RingBuffers,
    requests: Arc<Vec<u8>>,
    slots: Vec<Slot>,
    /// Indices below it have a place in the table of registered files.
    registered_max: u32,
    /// Watched descriptors with their tokens.
    watched: Vec<(RawFd, u64)>,
    completions: Vec<cqueue::Entry>,
    brought: Brought,
    /// The buffer that [`Backend::bytes`] shows; without one, it shows what was read last.
    shown: Option<Taken>,
    /// What is read on connections whose bytes are stamped; without memory until there is one.
    read: Vec<u8>,
    /// Why the loop cannot go on, found where it could not be told; the next [`Backend::wait`] does.
    failure: Option<io::Error>,
}

impl Ring {
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to outlives the operation. Only sends point anywhere: to request bytes, which
            // `self.requests` holds, unchanged, until `drop` has ended all operations. Receives name a group of buffers,
            // which `self.buffers` holds as long. A descriptor is no pointer, but must mean the same socket when the kernel
            // takes the entry: `forget`, which comes before a socket is closed, submits what is queued. From then on the
            // kernel holds the socket itself.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn slot(&mut self, index: u32) -> &mut Slot {
        let index = index as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::default());
        }
        &mut self.slots[index]
    }

    fn is_current(&self, index: u32, generation: u32) -> bool {
        let slot = self.slots.get(index as usize);
        slot.is_some_and(|slot| slot.generation & GENERATION_MASK == generation)
    }

    fn arm(&mut self, index: u32) -> io::Result<()> {
        let slot = self.slot(index);
        if slot.is_armed || slot.has_ended {
            return Ok(());
        }
        slot.is_armed = true;
        let data = user_data(Kind::Receive, slot.generation, index);
        let target = Fd(slot.target);
        let receive = if slot.is_stamped {
            opcode::PollAdd::new(target, (libc::POLLIN | libc::POLLRDHUP) as u32).build()
        } else {
            opcode::RecvMulti::new(target, GROUP).build()
        };
        let flags = slot.flags();
        self.push(&receive.flags(flags).user_data(data))
    }

    /// Has the kernel give an operation up, if it is still at it.
    fn cancel(&mut self, data: u64) {
        // Of no interest whether there was anything left to cancel.
        let cancel = opcode::AsyncCancel::new(data).build().flags(squeue::Flags::SKIP_SUCCESS);
        let pushed = self.push(&cancel.user_data(NOTHING));
        self.must(pushed);
    }

    /// Hands everything that is queued to the kernel.
    fn submit_all(&mut self) {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.must(Err(error)),
                Ok(_) => {}
            }
        }
    }

    /// Keeps an error for the next [`Backend::wait`] to tell.
    fn must(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    fn watch_again(&mut self, number: u32) -> io::Result<()> {
        let (descriptor, _) = self.watched[number as usize];
        let poll = opcode::PollAdd::new(Fd(descriptor), libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(user_data(Kind::Watch, 0, number)))
    }

    fn await_writable(&mut self, index: u32, socket: &Socket) -> io::Result<()> {
        let slot = self.slot(index);
        slot.awaits_writable = true;
        let data = user_data(Kind::Writable, slot.generation, index);
        let descriptor = Fd(socket.as_fd().as_raw_fd());
        self.push(&opcode::PollAdd::new(descriptor, libc::POLLOUT as u32).build().user_data(data))
    }

    /// Gives back the buffer that was shown.
    #[inline]
    fn recycle(&mut self) {
        if let Some(buffer) = self.shown.take() {
            self.buffers.give_back(buffer);
        }
    }

    /// A multishot receive brought something, or ended.
    fn received(&mut self, index: u32, generation: u32, entry: &cqueue::Entry) -> Option<Event> {
        let result = entry.result();
        let buffer = self.buffers.taken(entry);
        if !self.is_current(index, generation) {
            if let Some(buffer) = buffer {
                self.buffers.give_back(buffer);
            }
            return None;
        }
        let token = u64::from(index);
        let slot = self.slot(index);
        slot.is_armed = cqueue::more(entry.flags());
        if slot.is_stamped && result > 0 {
            let ended = result & i32::from(libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0;
            return Some(Event { token, readable: true, ended, ..Event::default() });
        }
        slot.has_ended = result == 0;
        match (result, buffer) {
            (1.., Some(buffer)) => {
                self.brought = Brought::Bytes { index, length: result as u32 };
                self.shown = Some(buffer);
                Some(Event { token, readable: true, ..Event::default() })
            }
            (0, _) => Some(Event { token, ended: true, ..Event::default() }),
            // No buffer was free: some will be before the kernel sees this. Nothing was received, so there is no event:
            // it would look like the end of a connection that is kept.
            _ if result == -libc::ENOBUFS => {
                let armed = self.arm(index);
                self.must(armed);
                None
            }
            _ => self.failed(index, -result),
        }
    }

    /// Submits, runs what the kernel has put off until it is asked, and takes what completed; without a wait, which even
    /// for no time at all would go through the scheduler.
    fn poll(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and what the queued entries point to lives, as in `push`.
        let result =
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, IORING_ENTER_GETEVENTS, None) };
        match result {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
        Ok(self.take_completions())
    }

    #[inline]
    fn take_completions(&mut self) -> usize {
        self.completions.clear();
        self.completions.extend(self.ring.completion().take(BATCH));
        self.completions.len()
    }

    fn failed(&mut self, index: u32, errno: i32) -> Option<Event> {
        self.brought = Brought::Error { index, errno };
        Some(Event { token: u64::from(index), ended: true, ..Event::default() })
    }
}

impl Backend for Ring {
    const NAME: &'static str = "io-uring";
    const DISCARDS: bool = false;
    const REUSES_SOCKETS: bool = false;

    fn new(setup: Setup) -> io::Result<Ring> {
        let places = u32::try_from(setup.connections).unwrap_or(u32::MAX).clamp(32, SUBMISSIONS_MAX);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(places.next_power_of_two() * 4)
            .build(places.next_power_of_two())?;
        let registered_max = if setup.keeps_connections { registrable(setup.connections) } else { 0 };
        if registered_max > 0 {
            ring.submitter().register_files_sparse(registered_max)?;
        }
        let buffers = RingBuffers::register(&ring.submitter(), GROUP, setup.connections)?;
        Ok(Ring {
            ring,
            buffers,
            requests: setup.requests,
            registered_max,
            slots: vec![Slot::default(); setup.connections],
            watched: Vec::new(),
            completions: Vec::with_capacity(BATCH),
            brought: Brought::Nothing,
            shown: None,
            read: Vec::new(),
            failure: None,
        })
    }

    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        self.watched.push((descriptor.as_fd().as_raw_fd(), token));
        self.watch_again(self.watched.len() as u32 - 1)
    }

    fn add(&mut self, index: u32, socket: &Socket) -> io::Result<()> {
        let descriptor = socket.as_fd().as_raw_fd();
        let is_registered = index < self.registered_max;
        if is_registered {
            self.ring.submitter().register_files_update(index, &[descriptor])?;
        }
        let target = if is_registered { index as i32 } else { descriptor };
        let generation = self.slot(index).generation.wrapping_add(1);
        *self.slot(index) = Slot { generation, target, is_registered, ..Slot::default() };
        Ok(())
    }

    fn connect(&mut self, index: u32, socket: &Socket, address: &Address) -> io::Result<Connect> {
        let state = socket.connect(address)?;
        if state == Connect::InProgress {
            self.await_writable(index, socket)?;
        }
        Ok(state)
    }

    #[inline]
    fn send(&mut self, index: u32, socket: &Socket, bytes: Outgoing<'_>) -> io::Result<usize> {
        self.arm(index)?;
        let bytes = match bytes {
            Outgoing::Planned { start, end } if end - start <= QUEUED_BYTES_MAX => {
                self.slots[index as usize].may_be_sending = true;
                let slot = self.slots[index as usize];
                let data = user_data(Kind::Send, slot.generation, index);
                let planned = &self.requests[start..end];
                let send = opcode::Send::new(Fd(slot.target), planned.as_ptr(), planned.len() as u32)
                    .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                    .build()
                    // Only a failure reports.
                    .flags(slot.flags() | squeue::Flags::SKIP_SUCCESS)
                    .user_data(data);
                self.push(&send)?;
                return Ok(end - start);
            }
            Outgoing::Planned { start, end } => &self.requests[start..end],
            Outgoing::Filled(bytes) => bytes,
        };
        let written = socket.send(bytes)?;
        if written < bytes.len() {
            self.await_writable(index, socket)?;
        }
        Ok(written)
    }

    #[inline]
    fn receive(&mut self, index: u32, socket: &Socket) -> io::Result<Received> {
        if self.slot(index).is_stamped {
            return self.receive_stamped(index, socket).map(|(received, _)| received);
        }
        match std::mem::replace(&mut self.brought, Brought::Nothing) {
            Brought::Bytes { index: of, length } if of == index => {
                self.arm(index)?;
                Ok(Received::Bytes(length as usize))
            }
            Brought::Error { index: of, errno } if of == index => Err(io::Error::from_raw_os_error(errno)),
            _ if self.slot(index).has_ended => Ok(Received::End),
            _ => {
                self.arm(index)?;
                Ok(Received::WouldBlock)
            }
        }
    }

    fn stamp(&mut self, index: u32, socket: &Socket) -> io::Result<()> {
        socket.stamp()?;
        self.read.resize(STAMPED_BYTES, 0);
        self.slot(index).is_stamped = true;
        Ok(())
    }

    fn receive_stamped(&mut self, index: u32, socket: &Socket) -> io::Result<(Received, Option<u64>)> {
        if let Brought::Error { index: of, errno } = std::mem::replace(&mut self.brought, Brought::Nothing)
            && of == index
        {
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.recycle();
        let (received, lag_ns) = socket.receive_stamped(&mut self.read)?;
        self.slot(index).has_ended = received == Received::End;
        // What is left, if the room did not suffice, fires at once.
        self.arm(index)?;
        Ok((received, lag_ns))
    }

    #[inline]
    fn receives_most(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn bytes(&self, n: usize) -> &[u8] {
        match &self.shown {
            Some(buffer) => &self.buffers.bytes(buffer)[..n],
            None => &self.read[..n],
        }
    }

    fn discard(&mut self, _: &Socket, _: usize) -> io::Result<Received> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn forget(&mut self, index: u32, _: &Socket) {
        let slot = *self.slot(index);
        *self.slot(index) = Slot { generation: slot.generation.wrapping_add(1), ..Slot::default() };
        // Whatever is still under way would hold the socket open, and let a connect go on that was given up. At the end of a
        // stream nothing is received any more, and what is sent fails by itself.
        for (kind, is_under_way) in [
            (Kind::Receive, slot.is_armed),
            (Kind::Writable, slot.awaits_writable),
            (Kind::Send, slot.may_be_sending && !slot.has_ended),
        ] {
            if is_under_way {
                self.cancel(user_data(kind, slot.generation, index));
            }
        }
        // What was queued for this socket must not find the next one under its number.
        self.submit_all();
        if slot.is_registered {
            // The table, too, would hold it open.
            let removed = self.ring.submitter().register_files_update(index, &[-1]);
            self.must(removed.map(|_| ()));
        }
    }

    #[inline]
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.recycle();
        if timeout_ns == 0 {
            return self.poll();
        }
        let timeout =
            Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
        let waited = match timeout_ns {
            WITHOUT_END => self.ring.submitter().submit_and_wait(1),
            _ => self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)),
        };
        match waited {
            Ok(_) => {}
            // Time is up, a signal came, or more completed than there was room for: all of it is picked up below.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) => {}
            Err(error) => return Err(error),
        }
        Ok(self.take_completions())
    }

    #[inline]
    fn event(&mut self, number: usize) -> Option<Event> {
        self.recycle();
        self.brought = Brought::Nothing;
        let entry = self.completions[number].clone();
        let data = entry.user_data();
        let (index, generation) = (data as u32, (data >> 32) as u32 & GENERATION_MASK);
        match data >> 62 {
            kind if kind == Kind::Receive as u64 => self.received(index, generation, &entry),
            kind if kind == Kind::Watch as u64 => {
                let (_, token) = *self.watched.get(index as usize).filter(|_| data != NOTHING)?;
                if !cqueue::more(entry.flags()) {
                    let watched = self.watch_again(index);
                    self.must(watched);
                }
                Some(Event { token, readable: true, ..Event::default() })
            }
            _ if !self.is_current(index, generation) => None,
            kind if kind == Kind::Writable as u64 => {
                self.slot(index).awaits_writable = false;
                let mask = entry.result();
                let has = |flag: i16| mask < 0 || mask & i32::from(flag) != 0;
                let error = has(libc::POLLERR | libc::POLLHUP);
                Some(Event {
                    token: u64::from(index),
                    error,
                    writable: mask >= 0 && has(libc::POLLOUT),
                    ..Event::default()
                })
            }
            // A send that failed, or that a signal cut short: the rest would come out of order.
            _ => self.failed(index, if entry.result() < 0 { -entry.result() } else { libc::EPIPE }),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel must not write to buffers, nor read requests, that are gone. What was not submitted never will be. What was
        // is marked as cancelled when this returns and touches no memory any more; as the ring defers its work to its own
        // thread's waiting (DEFER_TASKRUN), which is over, nothing is halfway through. It can fail only by finding nothing.
        let submitter = self.ring.submitter();
        let _ = submitter.register_sync_cancel(None, CancelBuilder::any());
        // The kernel lets go of a closed ring's sockets when it finds the time, on a busy machine seconds later, and until
        // then servers take them for open. So what was cancelled ends here, and the table of files is emptied here.
        // SAFETY: it submits nothing and has no argument; what it ends is the cancelled operations, as above.
        let _ = unsafe { submitter.enter::<()>(0, 0, EnterFlags::GETEVENTS.bits(), None) };
        let _ = submitter.unregister_files();
    }
}

/// How many of so many connections can have a place in the table of registered files: no more than files may be open.
fn registrable(connections: usize) -> u32 {
    use rustix::process::{Resource, getrlimit};
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(REGISTERED_MAX).min(REGISTERED_MAX);
    (connections as u64).min(allowed) as u32
}
