//! The check sum of a body, computed as its pieces arrive.
//!
//! The body is read as rows of sixteen 64-bit words, the last row padded with zeros. Each lane sums its words modulo
//! 2⁶⁴, and also the products of the two halves of these sums, row by row, so that the order of words counts. (The
//! idea is that of Fletcher's check sum, IEEE Transactions on Communications 30 (1982) 247; the product keeps changed
//! bits from cancelling by position alone.) All lanes and the length are then mixed to 64 bits. It is not a
//! cryptographic hash: it detects wrong bodies, not forged ones.
//!
//! A CRC, even with the processor's carry-less multiplication, takes more than one and a half times as long,
//! and four times as long for small bodies. Most of the cost of checking contents is this sum.

use crate::sys::vector::{Lanes, ROW_BYTES};

/// A check sum in progress.
#[derive(Clone, Debug)]
pub(crate) struct BodySum {
    lanes: Lanes,
    /// Bytes so far.
    length: u64,
    /// The beginning of a row that is not complete yet.
    begun: [u8; ROW_BYTES],
}

impl Default for BodySum {
    fn default() -> BodySum {
        BodySum { lanes: Lanes::NONE, length: 0, begun: [0; ROW_BYTES] }
    }
}

impl BodySum {
    /// Starts over.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.lanes = Lanes::NONE;
        self.length = 0;
    }

    /// Takes the next bytes of the body.
    #[inline]
    pub(crate) fn extend(&mut self, mut bytes: &[u8]) {
        let begun = self.begun_bytes();
        self.length += bytes.len() as u64;
        if begun > 0 {
            let taken = bytes.len().min(ROW_BYTES - begun);
            self.begun[begun..begun + taken].copy_from_slice(&bytes[..taken]);
            if begun + taken < ROW_BYTES {
                return;
            }
            self.lanes.absorb(&[self.begun]);
            bytes = &bytes[taken..];
        }
        let (rows, rest) = bytes.as_chunks::<ROW_BYTES>();
        self.lanes.absorb(rows);
        self.begun[..rest.len()].copy_from_slice(rest);
    }

    /// The sum of all bytes so far.
    #[inline]
    pub(crate) fn value(&self) -> u64 {
        let mut lanes = self.lanes;
        let begun = self.begun_bytes();
        if begun > 0 {
            let mut last = self.begun;
            last[begun..].fill(0);
            lanes.absorb(&[last]);
        }
        // Four at a time: each step waits for its multiplication.
        let mut parts = [mixed(self.length); 4];
        for of_lanes in [lanes.sums, lanes.products] {
            for values in of_lanes.as_chunks::<4>().0 {
                parts.iter_mut().zip(values).for_each(|(part, value)| *part = mixed(*part ^ value));
            }
        }
        parts.into_iter().fold(0, |sum, part| mixed(sum ^ part))
    }

    fn begun_bytes(&self) -> usize {
        (self.length % ROW_BYTES as u64) as usize
    }
}

/// A bijection in which each bit affects many: a round of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
#[inline]
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^ (value >> 27)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sum(bytes: &[u8]) -> u64 {
        let mut sum = BodySum::default();
        sum.extend(bytes);
        sum.value()
    }

    fn body(length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| (mixed(at / 8 + 1) >> (at % 8 * 8)) as u8).collect()
    }

    #[test]
    fn the_sum_does_not_depend_on_the_pieces() {
        let body = body(1000);
        for pieces in [1, 3, 63, 64, 65, 127, 128, 500, 999] {
            let mut pieced = BodySum::default();
            body.chunks(pieces).for_each(|piece| pieced.extend(piece));
            assert_eq!(pieced.value(), sum(&body), "{pieces}");
            assert_eq!(pieced.value(), sum(&body), "asked again");
            pieced.clear();
            assert_eq!(pieced.value(), sum(&[]));
        }
    }

    #[test]
    fn each_wrong_bit_and_each_pair_of_the_same_bit_shows() {
        for right in [body(300), vec![0; 300]] {
            let expected = sum(&right);
            let mut wrong = right.clone();
            for at in 0..right.len() {
                for bit in 0..8 {
                    wrong[at] ^= 1 << bit;
                    assert_ne!(sum(&wrong), expected, "bit {bit} of byte {at}");
                    for other in at + 1..right.len() {
                        wrong[other] ^= 1 << bit;
                        assert_ne!(sum(&wrong), expected, "bit {bit} of bytes {at} and {other}");
                        wrong[other] ^= 1 << bit;
                    }
                    wrong[at] ^= 1 << bit;
                }
            }
        }
    }

    #[test]
    fn order_and_length_show() {
        let right = body(4 * 4096 + 17);
        let mut seen = HashSet::from([sum(&right)]);
        for length in [1, 2, 4, 8, 16, 64, 512, 4096] {
            for (a, b) in [(0, length), (0, 2 * length), (length, 3 * length)] {
                let mut swapped = right.clone();
                let (front, back) = swapped.split_at_mut(b);
                front[a..a + length].swap_with_slice(&mut back[..length]);
                assert!(seen.insert(sum(&swapped)), "{length} bytes at {a} and {b}");
            }
            let mut shifted = right.clone();
            shifted.rotate_left(length);
            assert!(seen.insert(sum(&shifted)), "{length} bytes from the front to the end");
            assert!(seen.insert(sum(&right[..right.len() - length])), "{length} bytes less");
            let mut stale = right.clone();
            stale.copy_within(..length, length);
            assert!(seen.insert(sum(&stale)), "{length} bytes twice");
        }
        let zeros: HashSet<u64> = (0..200).map(|length| sum(&vec![0; length])).collect();
        assert_eq!(zeros.len(), 200, "zeros of every length");
    }
}
