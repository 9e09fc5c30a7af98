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
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::backend::{Backend, Event, Outgoing, Setup};
use super::ring_buffers::RingBuffers;
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
    /// A multishot receive is under way.
    is_armed: bool,
    /// The end of its stream was seen.
    has_ended: bool,
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
    /// Tokens of watched descriptors.
    watched: Vec<u64>,
    completions: Vec<cqueue::Entry>,
    brought: Brought,
    /// The buffer that [`Backend::bytes`] shows.
    shown: Option<u16>,
}

impl Ring {
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to outlives the operation: request bytes are held by `self.requests`, buffers
            // by `self.buffers`, both until `Drop` has ended all operations; descriptors are held by the kernel.
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
        let receive = opcode::RecvMulti::new(Fd(slot.target), GROUP).build();
        let flags = slot.flags();
        self.push(&receive.flags(flags).user_data(data))
    }

    fn await_writable(&mut self, index: u32, socket: &Socket) -> io::Result<()> {
        let data = user_data(Kind::Writable, self.slot(index).generation, index);
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
        let buffer = cqueue::buffer_select(entry.flags());
        if !self.is_current(index, generation) {
            if let Some(buffer) = buffer {
                self.buffers.give_back(buffer);
            }
            return None;
        }
        let slot = self.slot(index);
        slot.is_armed = cqueue::more(entry.flags());
        slot.has_ended = result == 0;
        let token = u64::from(index);
        match (result, buffer) {
            (1.., Some(buffer)) => {
                self.brought = Brought::Bytes { index, length: result as u32 };
                self.shown = Some(buffer);
                Some(Event { token, readable: true, ..Event::default() })
            }
            (0, _) => Some(Event { token, ended: true, ..Event::default() }),
            // No buffer was free: some are by now, and the worker arms again as it receives.
            _ if result == -libc::ENOBUFS => Some(Event { token, readable: true, ..Event::default() }),
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
        let registered_max = if setup.keeps_connections { setup.connections as u32 } else { 0 };
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
        })
    }

    fn watch(&mut self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        let data = user_data(Kind::Watch, 0, self.watched.len() as u32);
        self.watched.push(token);
        let descriptor = Fd(descriptor.as_fd().as_raw_fd());
        let poll = opcode::PollAdd::new(descriptor, libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(data))
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
    fn receive(&mut self, index: u32, _: &Socket) -> io::Result<Received> {
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

    #[inline]
    fn receives_most(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn bytes(&self, n: usize) -> &[u8] {
        match self.shown {
            Some(buffer) => &self.buffers.bytes(buffer)[..n],
            None => &[],
        }
    }

    fn discard(&mut self, _: &Socket, _: usize) -> io::Result<Received> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn forget(&mut self, index: u32, _: &Socket) {
        let slot = self.slot(index);
        let armed = std::mem::take(&mut slot.is_armed);
        let is_registered = std::mem::take(&mut slot.is_registered);
        let data = user_data(Kind::Receive, slot.generation, index);
        slot.generation = slot.generation.wrapping_add(1);
        if armed {
            // Else the kernel would hold the socket open. If this fails, so will the next wait, and the level with it.
            let cancel = opcode::AsyncCancel::new(data).build();
            let _ = self.push(&cancel.flags(squeue::Flags::SKIP_SUCCESS).user_data(NOTHING));
        }
        // What was queued for this socket must not find the next one under its number.
        if !self.ring.submission().is_empty() {
            let _ = self.ring.submit();
        }
        if is_registered {
            // The table, too, would hold it open. It cannot fail for an index that was set.
            let _ = self.ring.submitter().register_files_update(index, &[-1]);
        }
    }

    #[inline]
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.recycle();
        if timeout_ns == 0 {
            return self.poll();
        }
        let timeout =
            Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
        let arguments = SubmitArgs::new().timespec(&timeout);
        match self.ring.submitter().submit_with_args(1, &arguments) {
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
                let token = *self.watched.get(index as usize).filter(|_| data != NOTHING)?;
                Some(Event { token, readable: true, ..Event::default() })
            }
            _ if !self.is_current(index, generation) => None,
            kind if kind == Kind::Writable as u64 => {
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
        // The kernel must not write to buffers, nor read requests, that are gone. Where it has nothing to cancel it says so.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
    }
}
