//! Buffers that the kernel takes from as bytes come in and that are given back as they were read: a ring of provided
//! buffers (`IORING_REGISTER_PBUF_RING`), in one mapping of memory with the buffers themselves behind it.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{Submitter, cqueue};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Room for one receive: a head and a small body fit.
const BUFFER_BYTES: usize = 8 * 1024;
/// Fewest and most buffers. What exceeds them waits in its socket until one is given back.
const COUNT: std::ops::RangeInclusive<usize> = 64..=1024;

/// A buffer that the kernel has handed over: ours until it is given back, which uses this up.
#[derive(Debug)]
pub(super) struct Taken(u16);

/// See the module comment.
#[derive(Debug)]
pub(super) struct RingBuffers {
    /// The ring's entries, then the buffers.
    memory: NonNull<u8>,
    /// How many buffers: a power of two.
    count: u16,
    /// How many were ever given.
    tail: u16,
}

impl RingBuffers {
    /// Buffers for so many connections, all in the kernel's hands.
    pub(super) fn register(
        submitter: &Submitter<'_>,
        group: u16,
        connections: usize,
    ) -> io::Result<RingBuffers> {
        let count = (connections * 2).next_power_of_two().clamp(*COUNT.start(), *COUNT.end());
        let length = length(count);
        // SAFETY: a fresh anonymous mapping overlaps nothing.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let memory = NonNull::new(memory.cast::<u8>()).expect("the kernel maps nothing at address 0");
        let mut buffers = RingBuffers { memory, count: count as u16, tail: 0 };
        // SAFETY: the ring lies at the page-aligned start of the mapping and is zeroed, so its tail is 0. The mapping lives
        // until `drop`; the owner ends all operations and drops the io_uring, and with it the registration, first. (The kernel
        // holds the pages of the entries by itself; it writes to buffers only in operations.)
        unsafe { submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, count as u16, group, 0) }?;
        for buffer in 0..count as u16 {
            buffers.give_back(Taken(buffer));
        }
        Ok(buffers)
    }

    /// The buffer that a completion brought, if it brought one. To be asked once for each completion.
    #[inline]
    pub(super) fn taken(&self, completion: &cqueue::Entry) -> Option<Taken> {
        let number = cqueue::buffer_select(completion.flags())?;
        assert!(number < self.count, "the kernel hands over buffers that it was given");
        Some(Taken(number))
    }

    /// The bytes of a buffer.
    pub(super) fn bytes(&self, buffer: &Taken) -> &[u8] {
        // SAFETY: the place lies within the mapping (see `place`), and is zeroed or was written by the kernel. There is one
        // `Taken` for each buffer that the kernel handed over, and the kernel does not touch the buffer again before that
        // was used up by `give_back`, which takes `&mut self`: so not while this slice lives.
        unsafe { std::slice::from_raw_parts(self.place(buffer.0), BUFFER_BYTES) }
    }

    /// Lets the kernel use a buffer again.
    #[inline]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a buffer that was given back must not be looked at again"
    )]
    pub(super) fn give_back(&mut self, buffer: Taken) {
        let buffer = buffer.0;
        let place = self.place(buffer) as u64;
        let base = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `tail % count` is an entry within the ring, at the front of the mapping and aligned as the page is. Nobody
        // else writes it, and the kernel reads entries below the tail only: this one was read when its last buffer was
        // taken, as there are never more buffers than entries. The tail itself lies in the first entry's reserved bytes,
        // which the setters do not touch and the kernel does not write; no other reference to either exists here.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (self.count - 1)));
            entry.set_addr(place);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 within the mapping (`base` is its start) that is written here alone and that the
        // kernel reads atomically; released, so that it sees the entry first.
        unsafe {
            let tail = BufRingEntry::tail(base).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    fn place(&self, buffer: u16) -> *mut u8 {
        let offset = entries_length(usize::from(self.count)) + usize::from(buffer) * BUFFER_BYTES;
        // SAFETY: `Taken` holds numbers below `count` only, and the mapping has room for so many buffers behind the entries.
        unsafe { self.memory.as_ptr().add(offset) }
    }
}

impl Drop for RingBuffers {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `register`, whole, which is unmapped here alone; slices of it borrow `self`, and the
        // kernel uses it no longer, as the owner ended all operations before.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), length(usize::from(self.count))) };
    }
}

/// Bytes of the ring's entries, rounded up so that buffers begin on a page.
fn entries_length(count: usize) -> usize {
    (count * size_of::<BufRingEntry>()).next_multiple_of(4096)
}

fn length(count: usize) -> usize {
    entries_length(count) + count * BUFFER_BYTES
}
