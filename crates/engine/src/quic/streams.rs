//! The streams of a connection: found by ID, in slots that are reused. Both tables grow only with the number of streams in use.

use std::collections::VecDeque;

use super::connection::Stream;
use super::error::Fault;
use super::receive::ReceiveHalf;
use super::send::SendHalf;

/// Larger send buffers are not kept with a slot.
const KEPT_BYTES_MAX: usize = 4096;
const EMPTY: u32 = u32::MAX;

/// Frames to send of a stream, besides data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// RESET_STREAM.
    pub(super) reset: bool,
    /// STOP_SENDING.
    pub(super) stop: bool,
    /// MAX_STREAM_DATA.
    pub(super) window: bool,
}

/// A stream in use.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) tag: u32,
    pub(super) is_used: bool,
    /// Has a place in `Streams::pending`.
    is_pending: bool,
    /// The owner gave it up: nothing more is told of it.
    pub(super) is_silent: bool,
    /// A write took fewer bytes than it was given.
    pub(super) is_short: bool,
    /// RESET_STREAM was sent and is not acknowledged.
    pub(super) is_reset_open: bool,
    pub(super) owed: Owed,
    /// Code of RESET_STREAM and STOP_SENDING.
    pub(super) code: u64,
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
}

impl Slot {
    #[inline]
    pub(super) fn named(&self) -> Stream {
        Stream { id: self.id, tag: self.tag }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.receive.is_over() && self.send.is_acknowledged() && !self.is_reset_open
    }

    #[inline]
    fn wants(&self) -> bool {
        self.owed != Owed::default() || self.send.wants()
    }
}

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Hash table by ID, with open addressing: the places of slots.
    table: Vec<u32>,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots with something to send, in order.
    pub(super) pending: VecDeque<u32>,
    /// Numbers of the next stream of each type, and the limits.
    pub(super) next_bi: u64,
    pub(super) max_bi: u64,
    pub(super) next_uni: u64,
    pub(super) max_uni: u64,
    /// For the server's unidirectional streams: number of the next, the limit, and how many are over.
    peer_next: u64,
    pub(super) peer_max: u64,
    peer_over: u64,
    peer_window: u64,
    /// Whether more data is expected on the stream heard last.
    pub(super) is_last_open: bool,
    /// How many bidirectional streams are in use.
    pub(super) awaited: u32,
}

impl Streams {
    /// Forgets all streams.
    pub(super) fn clear(&mut self, peer_max: u64) {
        self.table.fill(EMPTY);
        self.free.clear();
        self.pending.clear();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            slot.is_used = false;
            slot.is_pending = false;
            slot.send.shrink(KEPT_BYTES_MAX);
            slot.receive.open(0);
            self.free.push(place as u32);
        }
        (self.next_bi, self.max_bi, self.next_uni, self.max_uni) = (0, 0, 0, 0);
        (self.peer_next, self.peer_max, self.peer_over, self.peer_window) = (0, peer_max, 0, peer_max);
        (self.is_last_open, self.awaited) = (false, 0);
    }

    /// Whether more data is expected, so that the server may wait for acknowledgements.
    #[inline]
    pub(super) fn awaits_more(&self) -> bool {
        self.is_last_open || self.awaited > 0
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Where the search for an ID begins. Consecutive IDs are spread (Knuth, volume 3, section 6.4), as a run of them would have to be
    /// searched to its end.
    #[inline]
    fn place(&self, id: u64) -> usize {
        let bits = self.table.len().trailing_zeros();
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    /// The slot of a stream in use.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        let mut place = self.place(id);
        loop {
            let slot = self.table[place];
            if slot == EMPTY {
                return None;
            }
            if self.slots[slot as usize].id == id {
                return Some(slot);
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }

    /// The slot, if it is still the stream's.
    #[inline]
    pub(super) fn at(&mut self, slot: u32, id: u64) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize).filter(|found| found.is_used && found.id == id)
    }

    fn enter(&mut self, id: u64, tag: u32) -> u32 {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot::default());
        }
        // At most half full, so that searches end soon.
        if self.table.len() < 2 * (self.used() + 1) {
            let size = (2 * self.table.len()).max(8);
            self.table.clear();
            self.table.resize(size, EMPTY);
            for slot in 0..self.slots.len() {
                if self.slots[slot].is_used {
                    self.link(self.slots[slot].id, slot as u32);
                }
            }
        }
        let slot = self.free.pop().expect("one was made if there was none");
        let entered = &mut self.slots[slot as usize];
        (entered.id, entered.tag, entered.is_used, entered.code) = (id, tag, true, 0);
        (entered.is_silent, entered.is_short, entered.is_reset_open) = (false, false, false);
        entered.owed = Owed::default();
        self.link(id, slot);
        slot
    }

    #[inline]
    fn link(&mut self, id: u64, slot: u32) {
        let mut place = self.place(id);
        while self.table[place] != EMPTY {
            place = (place + 1) & (self.table.len() - 1);
        }
        self.table[place] = slot;
    }

    /// Takes an ID out of the table, and moves those after it that could no longer be found.
    fn unlink(&mut self, id: u64) {
        let mask = self.table.len() - 1;
        let mut hole = self.place(id);
        while self.slots[self.table[hole] as usize].id != id {
            hole = (hole + 1) & mask;
        }
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let slot = self.table[place];
            if slot == EMPTY {
                break;
            }
            let home = self.place(self.slots[slot as usize].id);
            // Whether `home` is not between the hole and here.
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                self.table[hole] = slot;
                hole = place;
            }
        }
        self.table[hole] = EMPTY;
    }

    /// Opens a bidirectional stream.
    #[inline]
    pub(super) fn open_bi(&mut self, tag: u32, send_max: u64, receive_max: u64) -> Option<u64> {
        if self.next_bi >= self.max_bi {
            return None;
        }
        let id = self.next_bi << 2;
        self.next_bi += 1;
        self.awaited += 1;
        let slot = self.enter(id, tag);
        self.slots[slot as usize].send.open(send_max);
        self.slots[slot as usize].receive.open(receive_max);
        Some(id)
    }

    /// Opens a unidirectional stream.
    pub(super) fn open_uni(&mut self, tag: u32, send_max: u64) -> Option<u64> {
        if self.next_uni >= self.max_uni {
            return None;
        }
        let id = self.next_uni << 2 | 2;
        self.next_uni += 1;
        let slot = self.enter(id, tag);
        self.slots[slot as usize].send.open(send_max);
        let receive = &mut self.slots[slot as usize].receive;
        receive.open(0);
        let _ = receive.end_at(0);
        Some(id)
    }

    /// The slot of a stream that the server sends on; `None`: it is over.
    #[inline]
    pub(super) fn heard(&mut self, id: u64, receive_max: u64) -> Result<Option<u32>, Fault> {
        if let Some(slot) = self.find(id) {
            return match id & 3 {
                2 => Err(Fault::StreamState("data for a stream on which only the client sends")),
                _ => Ok(Some(slot)),
            };
        }
        let number = id >> 2;
        match id & 3 {
            0 if number < self.next_bi => Ok(None),
            0 => Err(Fault::StreamState("data for a stream that was not opened")),
            3 if number >= self.peer_max => Err(Fault::StreamLimit),
            3 if number < self.peer_next => Ok(None),
            3 => {
                // All before it are open as well (RFC 9000 section 3.2).
                let mut last = 0;
                while self.peer_next <= number {
                    last = self.enter(self.peer_next << 2 | 3, 0);
                    let slot = &mut self.slots[last as usize];
                    slot.send.open(0);
                    slot.send.abandon();
                    slot.receive.open(receive_max);
                    self.peer_next += 1;
                }
                Ok(Some(last))
            }
            2 => Err(Fault::StreamState("data for a stream on which only the client sends")),
            _ => Err(Fault::StreamLimit),
        }
    }

    /// The slot of a stream that this side sends on; `None`: it is over.
    #[inline]
    pub(super) fn told(&mut self, id: u64) -> Result<Option<u32>, Fault> {
        let is_opened = match id & 3 {
            0 => id >> 2 < self.next_bi,
            2 => id >> 2 < self.next_uni,
            1 => return Err(Fault::StreamLimit),
            _ => false,
        };
        if is_opened {
            Ok(self.find(id))
        } else {
            Err(Fault::StreamState("a frame for a stream that was not opened"))
        }
    }

    /// Queues a stream if it has something to send.
    #[inline]
    pub(super) fn queue(&mut self, slot: u32) {
        let queued = &mut self.slots[slot as usize];
        if !queued.is_pending && queued.is_used && queued.wants() {
            queued.is_pending = true;
            self.pending.push_back(slot);
        }
    }

    /// Removes the stream at a place in the queue if it has nothing more to send. Returns whether it did.
    #[inline]
    pub(super) fn unqueue(&mut self, place: usize) -> bool {
        let Some(slot) = self.pending.get(place).copied() else { return false };
        let queued = &mut self.slots[slot as usize];
        if queued.is_used && queued.wants() {
            return false;
        }
        queued.is_pending = false;
        if place == 0 {
            self.pending.pop_front()
        } else {
            self.pending.remove(place)
        };
        true
    }

    /// Frees the slot of a stream that is over. Returns whether the server may open more streams.
    #[inline]
    pub(super) fn settle(&mut self, slot: u32) -> bool {
        let settled = &mut self.slots[slot as usize];
        if !settled.is_used || !settled.is_over() {
            return false;
        }
        settled.is_used = false;
        settled.owed = Owed::default();
        settled.send.shrink(KEPT_BYTES_MAX);
        let id = settled.id;
        self.unlink(id);
        self.free.push(slot);
        self.awaited -= u32::from(id & 3 == 0);
        if id & 3 != 3 {
            return false;
        }
        self.peer_over += 1;
        let max = self.peer_over + self.peer_window;
        let is_worth_saying = max - self.peer_max > self.peer_window / 2;
        if is_worth_saying {
            self.peer_max = max;
        }
        is_worth_saying
    }

    /// Bytes kept on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let buffers: usize = self.slots.iter().map(|slot| slot.send.buffer.capacity()).sum();
        let tables = 4 * (self.table.capacity() + self.free.capacity() + self.pending.capacity());
        self.slots.capacity() * size_of::<Slot>() + buffers + tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;

    #[test]
    fn slots_are_found_and_used_again() {
        let mut streams = Streams::default();
        streams.clear(3);
        (streams.max_bi, streams.max_uni) = (u64::MAX, 1);
        let mut live = Vec::new();
        let mut draws = Draws(11);
        for _ in 0..20_000 {
            let draw = draws.below(1 << 31) as usize;
            if draw % 40 >= live.len() {
                let id = streams.open_bi(7, 0, 100).unwrap();
                assert_eq!(streams.find(id + 4), None);
                live.push(id);
            } else {
                let id = live.swap_remove(draw / 40 % live.len());
                let slot = streams.find(id).unwrap();
                let found = streams.at(slot, id).unwrap();
                found.send.abandon();
                found.receive.reset(0).unwrap();
                assert!(!streams.settle(slot));
                assert_eq!(streams.find(id), None);
                assert!(streams.at(slot, id).is_none());
            }
            assert!(live.iter().all(|id| streams.find(*id).is_some()));
        }
        assert!(streams.slots.len() <= 41 && streams.table.len() <= 128, "{}", streams.table.len());
        assert_eq!((streams.open_uni(0, 0), streams.open_uni(0, 0)), (Some(2), None));
    }

    #[test]
    fn a_server_opens_as_many_as_it_may() {
        let mut streams = Streams::default();
        streams.clear(3);
        assert!(streams.heard(11, 100).unwrap().is_some());
        assert_eq!(streams.used(), 3);
        assert_eq!(streams.heard(15, 100), Err(Fault::StreamLimit));
        assert_eq!(streams.heard(1, 100), Err(Fault::StreamLimit));
        for id in [3, 7] {
            let slot = streams.find(id).unwrap();
            streams.at(slot, id).unwrap().receive.reset(0).unwrap();
            assert_eq!(streams.settle(slot), id == 7);
            assert_eq!(streams.heard(id, 100), Ok(None));
        }
        assert_eq!(streams.peer_max, 5);
        assert!(matches!(streams.heard(0, 100), Err(Fault::StreamState(_))));
        assert!(matches!(streams.told(3), Err(Fault::StreamState(_))));
        assert!(matches!(streams.told(2), Err(Fault::StreamState(_))));
    }
}
