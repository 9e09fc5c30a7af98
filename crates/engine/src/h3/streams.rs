//! The exchanges of a link that carries many: a slab whose slots are used again. QUIC names a stream's slot by itself.

use std::collections::VecDeque;

use super::frames::Reader;
use crate::exchange::{Exchange, Exchanges, Progress};

/// An exchange and its stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) exchange: Exchange,
    /// [`NONE`] without an open stream.
    pub(super) id: u64,
    pub(super) reader: Reader,
    refusals: u8,
    pub(super) is_head: bool,
    pub(super) has_final_head: bool,
    pub(super) has_trailers: bool,
    /// Its body must be empty, whatever length is announced.
    pub(super) has_no_body: bool,
    /// The body length from Content-Length; [`u64::MAX`] without that field.
    pub(super) content_length: u64,
    /// The part of a HEADERS frame that has come, with the size of the frame's head.
    pub(super) section: Vec<u8>,
    pub(super) section_head_bytes: u8,
    /// Bytes of the request's body that QUIC has not taken yet.
    pub(super) unsent: usize,
}

/// In place of the identifier of a stream.
pub(super) const NONE: u64 = u64::MAX;

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            exchange: Exchange::default(),
            id: NONE,
            reader: Reader::default(),
            refusals: 0,
            is_head: false,
            has_final_head: false,
            has_trailers: false,
            has_no_body: false,
            content_length: u64::MAX,
            section: Vec::new(),
            section_head_bytes: 0,
            unsent: 0,
        }
    }
}

impl Stream {
    /// A request begins on a stream.
    #[inline]
    pub(super) fn open(&mut self, id: u64, is_head: bool) {
        self.id = id;
        self.reader = Reader::default();
        self.is_head = is_head;
        self.has_final_head = false;
        self.has_trailers = false;
        self.has_no_body = false;
        self.content_length = u64::MAX;
        self.section.clear();
        self.unsent = 0;
    }
}

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    in_progress: u32,
}

impl Streams {
    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &Stream {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Stream {
        &mut self.slots[slot as usize]
    }
}

impl Exchanges for Streams {
    const MANY: bool = true;

    #[inline]
    fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    fn at(&self, slot: u32) -> &Exchange {
        &self.slots[slot as usize].exchange
    }

    #[inline]
    fn at_mut(&mut self, slot: u32) -> &mut Exchange {
        &mut self.slots[slot as usize].exchange
    }

    #[inline]
    fn vacant_slot(&mut self) -> u32 {
        self.in_progress += 1;
        if let Some(slot) = self.vacant.pop() {
            self.slots[slot as usize].refusals = 0;
            return slot;
        }
        self.slots.push(Stream::default());
        self.slots.len() as u32 - 1
    }

    fn take(&mut self, slot: u32) -> Exchange {
        let (progress, exchange) = {
            let exchange = self.at_mut(slot);
            (exchange.progress, std::mem::take(exchange))
        };
        // What it waits for is in `progress`.
        self.at_mut(slot).progress = progress;
        self.over(slot);
        exchange
    }

    #[inline]
    fn over(&mut self, slot: u32) {
        let stream = &mut self.slots[slot as usize];
        if stream.exchange.progress == Progress::Waiting {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        stream.exchange.end();
        stream.id = NONE;
        self.vacant.push(slot);
        self.in_progress -= 1;
    }

    fn wait(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    #[inline]
    fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    fn refusals(&mut self, slot: u32) -> Option<&mut u8> {
        Some(&mut self.slots[slot as usize].refusals)
    }

    #[inline]
    fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    #[inline]
    fn any_in_progress(&self) -> bool {
        self.in_progress > 0
    }
}
