//! Response heads that were parsed before. A server answers a file with the same head again and again (its `Date`
//! changes once per second), so most heads need one comparison of bytes and no parsing, which was two thirds of the
//! instructions of a small request.
//!
//! The result is the same: equal bytes parse equally, every other head is parsed as usual, and only valid heads are
//! kept.

use super::response::Fields;

/// Number of heads that are kept; requests share them by their number modulo this. A power of two.
const SLOTS: usize = 64;
/// Longest head that is kept, in bytes.
const BYTES_MAX: usize = 1024;

/// The last head that was parsed for each of a few requests.
#[derive(Debug, Default)]
pub struct KnownHeads {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    bytes: Vec<u8>,
    fields: Fields,
}

impl KnownHeads {
    /// Space for `requests` different requests, up to a limit.
    pub fn new(requests: usize) -> KnownHeads {
        KnownHeads { slots: vec![Slot::default(); requests.next_power_of_two().clamp(1, SLOTS)] }
    }

    /// The length and fields of the head at the front of `input`, if it is the one kept for `request`.
    #[inline]
    pub(super) fn recall(&self, request: u32, input: &[u8]) -> Option<(usize, Fields)> {
        let slot = &self.slots[request as usize & (self.slots.len() - 1)];
        let is_known = !slot.bytes.is_empty() && input.starts_with(&slot.bytes);
        is_known.then_some((slot.bytes.len(), slot.fields))
    }

    /// Keeps a whole head that was parsed.
    pub(super) fn keep(&mut self, request: u32, head: &[u8], fields: &Fields) {
        if head.len() > BYTES_MAX {
            return;
        }
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[request as usize & mask];
        slot.bytes.clear();
        // Once per slot: heads that differ only in their date have the same length.
        slot.bytes.reserve(BYTES_MAX);
        slot.bytes.extend_from_slice(head);
        slot.fields = *fields;
    }
}
