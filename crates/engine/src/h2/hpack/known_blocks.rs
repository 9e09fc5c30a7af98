//! Header blocks that were decoded before; [`h1::known_heads`](crate::h1::known_heads) is the same for HTTP/1. A
//! server that inserts its fields again in every answer, such as nginx, sends the same block until its `date`
//! changes. Then one comparison of bytes is enough, and the insertions are repeated.

use super::decoder::{Entry, Fields};

/// Number of blocks that are kept; requests share them by their number modulo this. A power of two.
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
    /// The entries that it inserts into the table, in order.
    inserted: Vec<Entry>,
}

impl KnownBlocks {
    /// Space for `requests` different requests, up to a limit.
    pub fn new(requests: usize) -> KnownBlocks {
        KnownBlocks { slots: vec![Slot::default(); requests.next_power_of_two().clamp(1, SLOTS)] }
    }

    /// Fields and inserted entries of the block kept for `request`, if `block` is the same.
    #[inline]
    pub(crate) fn recall(&self, request: u32, block: &[u8]) -> Option<(&Fields, &[Entry])> {
        let slot = &self.slots[request as usize & (self.slots.len() - 1)];
        (!block.is_empty() && slot.bytes == block).then_some((&slot.fields, &slot.inserted))
    }

    /// Keeps a block that was decoded.
    pub(crate) fn keep<'a>(
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
        // Once per slot: blocks that differ only in their date have the same length.
        slot.bytes.reserve(BYTES_MAX);
        slot.bytes.extend_from_slice(block);
        slot.fields = fields;
        slot.inserted.clear();
        slot.inserted.extend(inserted);
    }
}
