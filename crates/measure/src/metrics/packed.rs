//! Counts of a histogram in HdrHistogram's V2 encoding: numbers of one to nine bytes (zigzag LEB128: seven bits in
//! each byte, eight in the ninth). A positive number is the count of the next bucket, a negative one a number of
//! empty buckets. Also the frame in which they are stored, deflated.
//!
//! The `hdrhistogram` crate would encode and decode by way of an array of 280 KB of counters for each histogram, and
//! a large record has a hundred thousand histograms. Encodings of other programs with other bounds are read by `hdr`.
//! The format is that of HdrHistogram's `V2DeflateSerializer`; tests compare both with that crate.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// First word of an encoding with counts of one to nine bytes.
pub(super) const COOKIE: u32 = 0x1c84_9313;
/// First word of a deflated encoding.
pub(super) const COOKIE_DEFLATED: u32 = 0x1c84_9314;
/// Cookie, length, normalising offset, digits, lowest and highest value, ratio.
pub(super) const HEADER: usize = 40;
/// Significant digits.
const DIGITS: u32 = 3;
/// Greatest value that is counted exactly.
const VALUE_MAX: u64 = (1 << 44) - 1;
/// Number of buckets up to that value.
const BUCKETS: usize = 35 << 10;
/// Maximum size of an encoding with this many buckets.
const BYTES_MAX: usize = HEADER + 9 * BUCKETS;

/// Counts by ascending index, packed.
pub(super) fn pack(counters: impl Iterator<Item = (usize, u64)>) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), 0);
    for (index, count) in counters {
        match index - next {
            0 => {}
            // As in the original: one empty bucket is a count of 0, several are a negative number.
            1 => bytes.push(0),
            gap => number(&mut bytes, -(gap as i64)),
        }
        number(&mut bytes, i64::try_from(count).unwrap_or(i64::MAX));
        next = index + 1;
    }
    bytes
}

/// Index and count of every filled bucket. Ends before a number that is truncated or beyond the last bucket;
/// [`from_v2_deflated`] rejects such bytes.
pub(super) fn counters(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    let (mut rest, mut next) = (bytes, 0_usize);
    std::iter::from_fn(move || {
        loop {
            let value = take(&mut rest)?;
            match value {
                0 => next += 1,
                ..0 => {
                    next = next.saturating_add(usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX))
                }
                count => {
                    let index = next;
                    next += 1;
                    return (index < BUCKETS).then_some((index, count as u64));
                }
            }
        }
    })
}

/// The whole encoding, deflated.
pub(super) fn to_v2_deflated(counters: impl Iterator<Item = (usize, u64)>) -> Vec<u8> {
    let mut counts = pack(counters);
    // An empty histogram has the count 0 for its first bucket.
    if counts.is_empty() {
        counts.push(0);
    }
    let mut plain = Vec::with_capacity(HEADER + counts.len());
    plain.extend(COOKIE.to_be_bytes());
    plain.extend((counts.len() as u32).to_be_bytes());
    plain.extend(0_u32.to_be_bytes());
    plain.extend(DIGITS.to_be_bytes());
    plain.extend(1_u64.to_be_bytes());
    plain.extend(VALUE_MAX.to_be_bytes());
    plain.extend(1.0_f64.to_be_bytes());
    plain.extend(counts);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(&plain).and_then(|()| encoder.finish());
    let deflated = deflated.expect("a Vec accepts every write");
    let mut bytes = Vec::with_capacity(8 + deflated.len());
    bytes.extend(COOKIE_DEFLATED.to_be_bytes());
    bytes.extend((deflated.len() as u32).to_be_bytes());
    bytes.extend(deflated);
    bytes
}

/// The packed counts of an encoding with this program's bounds; `None` if it has others or is damaged.
pub(super) fn from_v2_deflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (cookie, length) = (word(bytes, 0)?, word(bytes, 4)? as usize);
    if cookie != COOKIE_DEFLATED || bytes.len() - 8 != length {
        return None;
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(&bytes[8..]).take(BYTES_MAX as u64 + 1).read_to_end(&mut plain).ok()?;
    let header = plain.get(..HEADER)?;
    let same = word(header, 0)? == COOKIE
        && word(header, 4)? as usize == plain.len() - HEADER
        && word(header, 8)? == 0
        && word(header, 12)? == DIGITS
        && header[16..24] == 1_u64.to_be_bytes()
        && header[24..32] == VALUE_MAX.to_be_bytes();
    let counts = plain.split_off(HEADER);
    (same && is_whole(&counts)).then_some(counts)
}

/// Whether no number is truncated or beyond the last bucket.
fn is_whole(mut rest: &[u8]) -> bool {
    let mut next = 0_u64;
    while !rest.is_empty() {
        let Some(value) = take(&mut rest) else { return false };
        next = next.saturating_add(if value < 0 { value.unsigned_abs() } else { 1 });
        if next > BUCKETS as u64 {
            return false;
        }
    }
    true
}

fn number(bytes: &mut Vec<u8>, value: i64) {
    let mut folded = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if folded < 0x80 {
            bytes.push(folded as u8);
            return;
        }
        bytes.push(folded as u8 | 0x80);
        folded >>= 7;
    }
    bytes.push(folded as u8);
}

fn take(rest: &mut &[u8]) -> Option<i64> {
    let mut folded = 0_u64;
    for place in 0..9 {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        if place == 8 || *byte < 0x80 {
            folded |= u64::from(*byte) << (7 * place);
            break;
        }
        folded |= u64::from(byte & 0x7f) << (7 * place);
    }
    Some((folded >> 1) as i64 ^ -((folded & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_back_whatever_is_between_them() {
        let wanted = vec![(0, 1), (1, 63), (3, 64), (5, 1 << 20), (1000, 7), (BUCKETS - 1, i64::MAX as u64)];
        let bytes = pack(wanted.iter().copied());
        assert!(is_whole(&bytes));
        assert_eq!(counters(&bytes).collect::<Vec<_>>(), wanted);
        assert_eq!(from_v2_deflated(&to_v2_deflated(wanted.into_iter())), Some(bytes));
    }

    #[test]
    fn damaged_encodings_are_rejected() {
        let good = to_v2_deflated([(5, 9), (700, 12)].into_iter());
        let counts = from_v2_deflated(&good);
        assert!(counts.is_some());
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x10;
            // The bits after the end of a deflated stream have no meaning.
            let taken = from_v2_deflated(&bad);
            assert!(taken.is_none() || taken == counts, "byte {place}");
        }
        for end in 0..good.len() {
            assert_eq!(from_v2_deflated(&good[..end]), None);
        }
        let mut beyond = Vec::new();
        number(&mut beyond, -(BUCKETS as i64));
        assert!(is_whole(&beyond));
        number(&mut beyond, 1);
        assert!(!is_whole(&beyond) && !is_whole(&[0x80]));
        assert_eq!(counters(&beyond).count(), 0);
    }
}
