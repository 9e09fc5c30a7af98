//! Buffers that the kernel takes from as bytes come in and that are given back as they were read: a ring of provided
//! buffers (`IORING_REGISTER_PBUF_RING`), in one mapping of memory with the buffers themselves behind it.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Room for one receive: a head and a small body fit.
const BUFFER_BYTES: usize = 8 * 1024;
/// Fewest and most buffers. What exceeds them waits in its socket until one is given back.
const COUNT: std::ops::RangeInclusive<usize> = 64..=1024;

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
        // SAFETY: the ring lies at the page-aligned start of the mapping, which lives until `drop`; the owner drops the
        // io_uring, and with it the registration, first.
        unsafe { submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, count as u16, group, 0) }?;
        for buffer in 0..count as u16 {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// The bytes of a buffer that the kernel has handed over.
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        // SAFETY: the place lies within the mapping, and was zeroed or written by the kernel. The kernel does not touch it
        // before it is given back, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.place(buffer), BUFFER_BYTES) }
    }

    /// Lets the kernel use a buffer again.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: u16) {
        let place = self.place(buffer) as u64;
        let base = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `tail % count` is an entry within the ring, which no one else writes: the kernel reads entries below the
        // tail only. Its tail shares the first entry's reserved bytes, which the setters do not touch.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (self.count - 1)));
            entry.set_addr(place);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 within the mapping that the kernel reads atomically; released, so that it sees
        // the entry first.
        unsafe {
            let tail = BufRingEntry::tail(base).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    fn place(&self, buffer: u16) -> *mut u8 {
        assert!(buffer < self.count, "the kernel returns buffers that it was given");
        let offset = entries_length(usize::from(self.count)) + usize::from(buffer) * BUFFER_BYTES;
        // SAFETY: within the mapping, as `buffer < count`.
        unsafe { self.memory.as_ptr().add(offset) }
    }
}

impl Drop for RingBuffers {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `register`, whole; no slice of it outlives `self`.
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
