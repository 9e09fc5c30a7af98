//! The streams of a link, and their slots by stream identifier.

use crate::exchange::Exchange;
use crate::slab::{self, Slab, Slot};

/// An exchange and its stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(super) exchange: Exchange,
    /// 0 without an open stream.
    pub(super) id: u32,
    pub(super) is_head: bool,
    pub(super) has_final_head: bool,
    /// Interim heads so far.
    pub(super) interim: u8,
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

/// The exchanges of a link.
pub(crate) type Streams = Slab<Stream>;

impl slab::Stream for Stream {
    /// For each stream identifier modulo the length: the slot of the last stream opened there.
    type Index = Vec<u32>;

    #[inline]
    fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    #[inline]
    fn exchange_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    #[inline]
    fn close(&mut self) {
        self.id = 0;
    }

    fn grown(slots: &[Slot<Stream>], by_id: &mut Vec<u32>) {
        let places = (2 * slots.len()).next_power_of_two();
        if places > by_id.len() {
            *by_id = vec![0; places];
            for (slot, Slot { stream, .. }) in slots.iter().enumerate() {
                by_id[(stream.id >> 1) as usize & (places - 1)] = slot as u32;
            }
        }
    }
}

impl Slab<Stream> {
    /// The slot of an open stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        let place = (id >> 1) as usize & self.index.len().wrapping_sub(1);
        let likely = *self.index.get(place)?;
        if self.slot(likely).id == id {
            return Some(likely);
        }
        // A newer stream has taken its place, or it is not open.
        self.slots.iter().position(|slot| slot.stream.id == id).map(|slot| slot as u32)
    }

    /// Opens a stream in a slot.
    #[inline]
    pub(super) fn opened(&mut self, slot: u32, id: u32) {
        self.slot_mut(slot).id = id;
        let places = self.index.len();
        self.index[(id >> 1) as usize & (places - 1)] = slot;
    }

    /// All open streams. Their windows for sending can change.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().map(|slot| &mut slot.stream).filter(|stream| stream.id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Exchanges as _, Progress};

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
