//! Expected check sums of generated files, for runs that check contents: a [`BodySum`] of each file, computed once. A
//! wrong body of the right length passes with a probability below 2⁻³². Comparing byte by byte would read twice as
//! much memory for each body, and reading memory is what a check costs.

use std::collections::HashMap;

use webstone_workload::content::Content;

use crate::body_sum::BodySum;

/// Bytes of a file that are generated at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// Check sums by request, in the plan's order; `None` for requests that do not ask for a generated file.
#[derive(Debug)]
pub(crate) struct Contents(Vec<Option<u64>>);

impl Contents {
    /// From each request's content and size in bytes.
    pub(crate) fn new(requests: &[Option<(Content, u64)>]) -> Contents {
        let mut known = HashMap::new();
        let mut sum =
            |(content, size)| *known.entry((content, size)).or_insert_with(|| check_sum(content, size));
        Contents(requests.iter().copied().map(|file| file.map(&mut sum)).collect())
    }

    /// Whether a whole body with this check sum is the right answer to the request.
    pub(crate) fn accepts(&self, request: u32, sum: u64) -> bool {
        self.0[request as usize].is_none_or(|expected| expected == sum)
    }
}

fn check_sum(content: Content, size: u64) -> u64 {
    let mut piece = [0; PIECE_BYTES as usize];
    let mut sum = BodySum::default();
    let mut at = 0;
    while at < size {
        let length = (size - at).min(PIECE_BYTES);
        let piece = &mut piece[..length as usize];
        content.fill(at, piece);
        sum.extend(piece);
        at += length;
    }
    sum.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(body: &[u8], pieces: usize) -> u64 {
        let mut sum = BodySum::default();
        body.chunks(pieces).for_each(|piece| sum.extend(piece));
        sum.value()
    }

    #[test]
    fn a_body_is_accepted_in_any_pieces_and_only_as_it_is() {
        let (a, b) = (Content::of_url("/a.html"), Content::of_url("/b.html"));
        let size = 2 * PIECE_BYTES as usize + 5;
        let contents = Contents::new(&[Some((a, size as u64)), None, Some((b, 10)), Some((a, 10))]);
        let mut body = vec![0; size];
        a.fill(0, &mut body);
        for pieces in [1, 7, 1000, 65_536, size] {
            let sum = sum_of(&body, pieces);
            assert!(contents.accepts(0, sum), "{pieces}");
            assert!(contents.accepts(1, sum) && !contents.accepts(2, sum) && !contents.accepts(3, sum));
        }
        assert!(contents.accepts(3, sum_of(&body[..10], 10)));
        for at in [0, 1, size / 2, size - 1] {
            body[at] ^= 1;
            assert!(!contents.accepts(0, sum_of(&body, size)), "byte {at}");
            body[at] ^= 1;
        }
        body.swap(100, 101);
        assert!(!contents.accepts(0, sum_of(&body, size)));
    }
}
