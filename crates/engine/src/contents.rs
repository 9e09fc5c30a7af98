//! What the bodies of generated files must hold, where contents are checked: kept ready, because to compare with memory
//! costs an eighth of computing the bytes again. What is beyond [`HELD_BYTES`] is computed.

use std::collections::HashMap;

use webstone_model::workload::content::Content;

/// Most memory for contents, in bytes, all files together; shared by all workers.
const HELD_BYTES: u64 = 64 * 1024 * 1024;

/// The contents of a plan's requests, in their order.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    requests: Vec<Option<Expected>>,
    held: Vec<u8>,
}

/// One file; the first `held` bytes stand in [`Contents::held`] from `start` on.
#[derive(Clone, Copy, Debug)]
struct Expected {
    content: Content,
    start: usize,
    held: usize,
}

impl Contents {
    /// From each request's content and size in bytes; `None` where any content will do.
    pub(crate) fn new(requests: &[Option<(Content, u64)>]) -> Contents {
        Contents::within(HELD_BYTES, requests)
    }

    fn within(budget: u64, requests: &[Option<(Content, u64)>]) -> Contents {
        // The longest that a file is requested with: one cut short is a prefix of it.
        let mut sizes: HashMap<Content, u64> = HashMap::new();
        for (content, size) in requests.iter().flatten() {
            let longest = sizes.entry(*content).or_default();
            *longest = (*size).max(*longest);
        }
        let mut places: HashMap<Content, (usize, usize)> = HashMap::new();
        let mut held = Vec::new();
        let mut expected = Vec::with_capacity(requests.len());
        for request in requests {
            expected.push(request.map(|(content, _)| {
                let (start, length) = *places.entry(content).or_insert_with(|| {
                    let start = held.len();
                    let length = sizes[&content].min(budget - start as u64) as usize;
                    held.resize(start + length, 0);
                    content.fill(0, &mut held[start..]);
                    (start, length)
                });
                Expected { content, start, held: length }
            }));
        }
        Contents { requests: expected, held }
    }

    /// Whether `bytes` are those of the request's file from `offset` on; any are, where it has none.
    #[inline]
    pub(crate) fn matches(&self, request: u32, offset: u64, bytes: &[u8]) -> bool {
        let Some(Expected { content, start, held }) = self.requests[request as usize] else { return true };
        let from = offset.min(held as u64) as usize;
        let (ready, beyond) = bytes.split_at(bytes.len().min(held - from));
        *ready == self.held[start + from..][..ready.len()]
            && (beyond.is_empty() || content.matches(offset + ready.len() as u64, beyond))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_and_computed_contents_are_the_same() {
        let (a, b) = (Content::of("/a.html"), Content::of("/b.html"));
        let requests = [Some((a, 300)), None, Some((b, 5000)), Some((a, 1000)), Some((a, 10))];
        for budget in [0, 1, 999, 1003, 4000, 100_000] {
            let contents = Contents::within(budget, &requests);
            assert_eq!(contents.held.len() as u64, budget.min(6000));
            for (request, content, size) in [(0, a, 300), (2, b, 5000), (3, a, 1000), (4, a, 10)] {
                let mut whole = vec![0; size];
                content.fill(0, &mut whole);
                for (from, to) in [(0, size), (0, 7), (size - 1, size), (size / 2, size), (size, size)] {
                    let mut piece = whole[from..to].to_vec();
                    assert!(
                        contents.matches(request, from as u64, &piece),
                        "{budget} {request} {from}..{to}"
                    );
                    for at in [0, piece.len() / 2, piece.len().saturating_sub(1)] {
                        let Some(byte) = piece.get_mut(at) else { continue };
                        *byte ^= 1;
                        assert!(!contents.matches(request, from as u64, &piece), "{budget} {request} {at}");
                        piece[at] ^= 1;
                    }
                }
            }
            assert!(contents.matches(1, 3, b"anything"));
        }
    }

    #[test]
    fn a_body_longer_than_its_file_is_held_against_what_would_follow() {
        let content = Content::of("/a.html");
        let contents = Contents::new(&[Some((content, 100))]);
        let mut longer = [0; 200];
        content.fill(0, &mut longer);
        assert!(contents.matches(0, 0, &longer));
        longer[150] ^= 1;
        assert!(!contents.matches(0, 0, &longer));
    }
}
