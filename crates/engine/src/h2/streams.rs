//! The exchanges of a link that carries many: a slab whose slots are used again, and the slots by stream identifier.

use std::collections::VecDeque;

use crate::exchange::{Exchange, Exchanges, Progress};

/// An exchange and its stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(super) exchange: Exchange,
    /// 0 without an open stream.
    pub(super) id: u32,
    refusals: u8,
    pub(super) is_head: bool,
    pub(super) has_final_head: bool,
    /// Its body must be empty, whatever length is announced.
    pub(super) has_no_body: bool,
    /// The body length from Content-Length; [`u64::MAX`] without that field.
    pub(super) content_length: u64,
    /// What is left of the stream's window for receiving, in bytes.
    pub(super) window_left: u32,
    /// What is left of the window for sending.
    pub(super) send_window: i64,
    /// Bytes of the request's body that are not buffered yet.
    pub(super) unsent: usize,
}

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    vacant: Vec<u32>,
    /// For each stream identifier modulo the length: the slot of the last stream opened there.
    by_id: Vec<u32>,
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

    /// The slot of an open stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        let place = (id >> 1) as usize & self.by_id.len().wrapping_sub(1);
        let likely = *self.by_id.get(place)?;
        if self.slots[likely as usize].id == id {
            return Some(likely);
        }
        // A newer stream has taken its place, or it is not open.
        self.slots.iter().position(|stream| stream.id == id).map(|slot| slot as u32)
    }

    /// Opens a stream in a slot.
    #[inline]
    pub(super) fn opened(&mut self, slot: u32, id: u32) {
        self.slots[slot as usize].id = id;
        let places = self.by_id.len();
        self.by_id[(id >> 1) as usize & (places - 1)] = slot;
    }

    /// All open streams. Their windows for sending can change.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter(|stream| stream.id != 0)
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
        let places = (2 * self.slots.len()).next_power_of_two();
        if places > self.by_id.len() {
            self.by_id = vec![0; places];
            for (slot, stream) in self.slots.iter().enumerate() {
                self.by_id[(stream.id >> 1) as usize & (places - 1)] = slot as u32;
            }
        }
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
        stream.id = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_however_many_overtake_it() {
        let mut streams = Streams::default();
        let slow = streams.vacant_slot();
        streams.opened(slow, 1);
        for id in (3..2_001).step_by(2) {
            let slot = streams.vacant_slot();
            streams.at_mut(slot).progress = Progress::Receiving;
            streams.opened(slot, id);
            assert_eq!((streams.find(id), streams.find(1)), (Some(slot), Some(slow)));
            assert_eq!((streams.find(id + 2), streams.find(2)), (None, None));
            if id % 10 != 1 {
                streams.over(slot);
                assert_eq!(streams.find(id), None);
            }
        }
        assert_eq!(streams.slots(), 201, "slots are used again");
    }
}
