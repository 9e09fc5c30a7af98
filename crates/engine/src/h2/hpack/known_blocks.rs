//! Header blocks that were decoded before; [`h1::known_heads`](crate::h1::known_heads) is the same for HTTP/1. A
//! server that inserts its fields again in every answer, such as nginx, sends the same block until its `date`
//! changes. Then one comparison of bytes is enough, and the insertions are repeated.
//!
//! Servers written in Go send the fields of each answer in another order, so several blocks are kept for a request.

use super::decoder::{Entry, Fields};

/// Number of sets of blocks; requests share them by their number modulo this. A power of two.
const SETS: usize = 64;
/// Blocks in a set. Go iterates over eight fields from any of them, and over more from any of 16 places.
const WAYS: usize = 16;
/// Longest block that is kept, in bytes.
const BYTES_MAX: usize = 1024;

/// The last blocks that were decoded for each of a few requests.
#[derive(Debug, Default)]
pub struct KnownBlocks {
    sets: Vec<Set>,
}

#[derive(Clone, Debug, Default)]
struct Set {
    /// The block that was found last, which is looked at first.
    last: u8,
    /// The block that makes room for the next.
    oldest: u8,
    /// A hash of each block, so that few of them are looked at.
    hashes: [u64; WAYS],
    blocks: Vec<Block>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    fields: Fields,
    /// The entries that it inserts into the table, in order.
    inserted: Vec<Entry>,
}

impl KnownBlocks {
    /// Space for `requests` different requests, up to a limit.
    pub fn new(requests: usize) -> KnownBlocks {
        KnownBlocks { sets: vec![Set::default(); requests.next_power_of_two().clamp(1, SETS)] }
    }

    /// Fields and inserted entries of a block kept for `request` that is the same as `block`.
    #[inline]
    pub(crate) fn recall(&mut self, request: u32, block: &[u8]) -> Option<(&Fields, &[Entry])> {
        let mask = self.sets.len() - 1;
        let set = &mut self.sets[request as usize & mask];
        let is_last = set.blocks.get(usize::from(set.last)).is_some_and(|last| last.bytes == block);
        if !is_last {
            set.last = set.find(block)?;
        }
        let found = &set.blocks[usize::from(set.last)];
        Some((&found.fields, &found.inserted))
    }

    /// Keeps a block that was decoded.
    pub(crate) fn keep<'a>(
        &mut self,
        request: u32,
        block: &[u8],
        fields: Fields,
        inserted: impl Iterator<Item = &'a Entry>,
    ) {
        // An empty one is invalid.
        if block.len() > BYTES_MAX || block.is_empty() {
            return;
        }
        let mask = self.sets.len() - 1;
        let set = &mut self.sets[request as usize & mask];
        let place = usize::from(set.oldest);
        set.oldest = ((place + 1) % WAYS) as u8;
        set.last = place as u8;
        set.hashes[place] = hash(block);
        if place == set.blocks.len() {
            set.blocks.push(Block::default());
        }
        let kept = &mut set.blocks[place];
        kept.bytes.clear();
        // Once: blocks that differ only in their date have the same length.
        kept.bytes.reserve(block.len().next_power_of_two());
        kept.bytes.extend_from_slice(block);
        kept.fields = fields;
        kept.inserted.clear();
        kept.inserted.extend(inserted);
    }
}

impl Set {
    #[inline(never)]
    fn find(&self, block: &[u8]) -> Option<u8> {
        let wanted = hash(block);
        let places = self.hashes[..self.blocks.len()].iter().enumerate();
        let mut alike = places.filter(|(_, hash)| **hash == wanted).map(|(place, _)| place);
        alike.find(|place| self.blocks[*place].bytes == block).map(|place| place as u8)
    }
}

/// Not against an adversary: what is found is compared.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, (*byte).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_blocks_of_a_request_are_known() {
        let mut known = KnownBlocks::new(2);
        let block = |number: u16| [number.to_be_bytes(); 20].concat();
        let fields = |number: u16| {
            let mut fields = Fields::default();
            fields.status = number;
            fields
        };
        let recalled = |known: &mut KnownBlocks, request, number| {
            known.recall(request, &block(number)).map(|(fields, _)| fields.status)
        };
        assert_eq!(known.recall(0, &[]).map(|_| ()), None);
        for number in 1..=40 {
            known.keep(0, &block(number), fields(number), std::iter::empty());
            assert_eq!(recalled(&mut known, 0, number), Some(number));
            assert_eq!(recalled(&mut known, 1, number), None, "another request's");
        }
        for number in 1..=40 {
            let expected = (number > 40 - WAYS as u16).then_some(number);
            assert_eq!(recalled(&mut known, 0, number), expected);
            assert_eq!(recalled(&mut known, 0, number), expected, "again");
        }
        // One that begins alike is another.
        assert_eq!(known.recall(0, &block(40)[..39]).map(|_| ()), None);
    }
}
