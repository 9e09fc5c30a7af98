//! URLs with their hits and sizes, in limited memory.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Text is stored in blocks of this size, so that growing never copies it.
const BLOCK_BYTES: usize = 1 << 20;

/// Every distinct URL, numbered in order of appearance.
#[derive(Debug, Default)]
pub(super) struct UrlTable {
    index: HashTable<u32>,
    entries: Vec<Entry>,
    blocks: Vec<String>,
    text_bytes: usize,
    hasher: FixedState,
}

#[derive(Debug)]
struct Entry {
    block: u32,
    start: u32,
    length: u32,
    hits: u64,
    sizes: SizeVotes,
}

impl UrlTable {
    /// The number of a URL, new or known; `None` if it is new and a limit is reached.
    pub(super) fn number(&mut self, url: &str, urls_max: usize, text_bytes_max: usize) -> Option<u32> {
        let hash = self.hasher.hash_one(url);
        let (entries, blocks) = (&self.entries, &self.blocks);
        if let Some(number) = self.index.find(hash, |number| text(entries, blocks, *number) == url) {
            return Some(*number);
        }
        if self.entries.len() >= urls_max || self.text_bytes + url.len() > text_bytes_max {
            return None;
        }
        let number = u32::try_from(self.entries.len()).ok()?;
        if self.blocks.last().is_none_or(|block| block.len() + url.len() > BLOCK_BYTES) {
            self.blocks.push(String::with_capacity(BLOCK_BYTES));
        }
        let block = self.blocks.len() as u32 - 1;
        let last = self.blocks.last_mut()?;
        let (start, length) = (last.len() as u32, url.len() as u32);
        last.push_str(url);
        self.text_bytes += url.len();
        self.entries.push(Entry { block, start, length, hits: 0, sizes: SizeVotes::default() });
        let (entries, blocks, hasher) = (&self.entries, &self.blocks, &self.hasher);
        self.index.insert_unique(hash, number, |other| hasher.hash_one(text(entries, blocks, *other)));
        Some(number)
    }

    pub(super) fn hit(&mut self, number: u32, size: Option<u64>) {
        let entry = &mut self.entries[number as usize];
        entry.hits += 1;
        if let Some(size) = size {
            entry.sizes.add(size);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn url(&self, number: u32) -> &str {
        text(&self.entries, &self.blocks, number)
    }

    pub(super) fn hits(&self, number: u32) -> u64 {
        self.entries[number as usize].hits
    }

    /// The most common size of a URL's answers.
    pub(super) fn size(&self, number: u32) -> Option<u64> {
        self.entries[number as usize].sizes.winner()
    }
}

fn text<'a>(entries: &[Entry], blocks: &'a [String], number: u32) -> &'a str {
    let entry = &entries[number as usize];
    &blocks[entry.block as usize][entry.start as usize..][..entry.length as usize]
}

/// Finds the most common of a stream of sizes in constant memory: J. Misra and D. Gries, "Finding repeated elements",
/// Science of Computer Programming 2(2), 1982. Exact for up to three distinct sizes; with more, any size of more than
/// a quarter of the answers is still a candidate.
#[derive(Clone, Copy, Debug, Default)]
struct SizeVotes {
    sizes: [u64; 3],
    votes: [u32; 3],
}

impl SizeVotes {
    fn add(&mut self, size: u64) {
        for slot in 0..3 {
            if self.votes[slot] > 0 && self.sizes[slot] == size {
                self.votes[slot] = self.votes[slot].saturating_add(1);
                return;
            }
        }
        match self.votes.iter().position(|votes| *votes == 0) {
            Some(slot) => (self.sizes[slot], self.votes[slot]) = (size, 1),
            None => self.votes.iter_mut().for_each(|votes| *votes -= 1),
        }
    }

    /// The candidate with the most votes; if several have the same number, the largest, as a smaller one may be a
    /// transfer cut short.
    fn winner(&self) -> Option<u64> {
        let best = (0..3).max_by_key(|slot| (self.votes[*slot], self.sizes[*slot]))?;
        // All votes may have cancelled out; the sizes left in the slots occurred at least once.
        let seen = self.votes[best] > 0 || self.sizes.iter().any(|size| *size > 0);
        seen.then_some(self.sizes[best])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(sizes: &[u64]) -> Option<u64> {
        let mut votes = SizeVotes::default();
        sizes.iter().for_each(|size| votes.add(*size));
        votes.winner()
    }

    #[test]
    fn the_most_common_size_wins() {
        assert_eq!(winner(&[]), None);
        assert_eq!(winner(&[0]), Some(0));
        assert_eq!(winner(&[5, 7, 7]), Some(7));
        assert_eq!(winner(&[5, 7]), Some(7));
        assert_eq!(winner(&[1, 2, 3, 3, 2, 3]), Some(3));
        // Half of the answers have the same size, the others a different one each.
        let mixed: Vec<u64> = (1..1000).flat_map(|n| [42, 1000 + n]).collect();
        assert_eq!(winner(&mixed), Some(42));
        assert!(winner(&[1, 2, 3, 4]).is_some());
    }

    #[test]
    fn urls_keep_their_numbers_and_limits_hold() {
        let mut table = UrlTable::default();
        for n in 0..1000 {
            assert_eq!(table.number(&format!("/{n}"), 1000, 1 << 20), Some(n));
        }
        assert_eq!(table.number("/7", 1000, 1 << 20), Some(7));
        assert_eq!(table.number("/1000", 1000, 1 << 20), None);
        assert_eq!(table.number("/1000", 2000, table.text_bytes + 4), None);
        assert_eq!(table.number("/1000", 2000, table.text_bytes + 5), Some(1000));
        assert_eq!(table.url(999), "/999");
        table.hit(7, Some(3));
        table.hit(7, None);
        assert_eq!((table.hits(7), table.size(7), table.size(8)), (2, Some(3), None));
    }

    #[test]
    fn text_fills_many_blocks() {
        let mut table = UrlTable::default();
        let long = "x".repeat(8000);
        for n in 0..300 {
            table.number(&format!("/{long}{n}"), 1000, usize::MAX).unwrap();
        }
        assert!(table.blocks.len() > 2 && table.blocks.iter().all(|block| block.capacity() == BLOCK_BYTES));
        assert!((0..300).all(|n| table.url(n).ends_with(&format!("x{n}"))));
    }
}
