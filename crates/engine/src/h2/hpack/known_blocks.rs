//! Header blocks that were decoded before, as [`h1::known_heads`](crate::h1::known_heads) for HTTP/1. A server that inserts its
//! fields again in every answer, as nginx does, sends the same block until its `date` changes: one comparison of bytes, and the
//! insertions once more.

use super::decoder::{Entry, Fields};

/// Blocks that are kept, each for the requests whose number falls on it. A power of two.
const SLOTS: usize = 64;
/// Longest block that is kept, in bytes.
const BYTES_MAX: usize = 1024;

/// The last block that was decoded for each of a few requests.
#[derive(Debug, Default)]
pub struct KnownBlocks {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    bytes: Vec<u8>,
    fields: Fields,
    /// What it inserts into the table, in order.
    inserted: Vec<Entry>,
}

impl KnownBlocks {
    /// With room for `requests` different requests, up to a limit.
    pub fn new(requests: usize) -> KnownBlocks {
        KnownBlocks { slots: vec![Slot::default(); requests.next_power_of_two().clamp(1, SLOTS)] }
    }

    /// What is known of a block that answers `request`.
    #[inline]
    pub(super) fn recall(&self, request: u32, block: &[u8]) -> Option<(&Fields, &[Entry])> {
        let slot = &self.slots[request as usize & (self.slots.len() - 1)];
        (!block.is_empty() && slot.bytes == block).then_some((&slot.fields, &slot.inserted))
    }

    /// Keeps a block that was decoded.
    pub(super) fn keep<'a>(
        &mut self,
        request: u32,
        block: &[u8],
        fields: Fields,
        inserted: impl Iterator<Item = &'a Entry>,
    ) {
        if block.len() > BYTES_MAX {
            return;
        }
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[request as usize & mask];
        slot.bytes.clear();
        // Once for a slot: blocks that differ in their date alone are as long as each other.
        slot.bytes.reserve(BYTES_MAX);
        slot.bytes.extend_from_slice(block);
        slot.fields = fields;
        slot.inserted.clear();
        slot.inserted.extend(inserted);
    }
}
