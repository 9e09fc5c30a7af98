//! Reads histograms written by another HdrHistogram library: version 2 of the encoding, plain or deflated, with any
//! bounds that the format allows.
//!
//! Encodings come from records, and records come from strangers, so nothing in them is trusted: numbers are read one
//! by one from the inflated stream, no array is allocated with a size taken from a header, and inflating stops at the
//! maximum that a histogram with those bounds can need. The decoder of the `hdrhistogram` crate is not used, because
//! its sums overflow on forged counts, which panics if overflow checks are on. Tests compare this reader with what
//! that crate writes.
//!
//! What this program wrote itself is handled by `packed`, without decoding.

use std::io::{BufRead, BufReader, Read};

use flate2::bufread::ZlibDecoder;

use super::packed::{COOKIE, COOKIE_DEFLATED, HEADER};

/// Maximum number of significant digits in the format.
const DIGITS_MAX: u32 = 5;

/// The layout of a histogram: which values belong to which counter.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// log₂ of the unit, the width of the narrowest counter.
    unit_magnitude: u32,
    /// log₂ of half the number of counters with the same width.
    half_magnitude: u32,
    /// Number of counters.
    counters: u64,
}

impl Layout {
    /// HdrHistogram's layout for these bounds.
    fn for_range(lowest: u64, highest: u64, digits: u32) -> Result<Layout, &'static str> {
        if lowest == 0 || lowest > u64::MAX / 2 || highest < 2 * lowest {
            return Err("its bounds are not those of a histogram");
        }
        if digits > DIGITS_MAX {
            return Err("it has more than five significant digits");
        }
        let unit_magnitude = lowest.ilog2();
        let magnitude = (2 * 10_u64.pow(digits)).next_power_of_two().ilog2();
        if unit_magnitude + magnitude > 63 {
            return Err("its lowest value has no room for so many digits");
        }
        let mut buckets = 1;
        let mut beyond = 1_u64 << (unit_magnitude + magnitude);
        while beyond <= highest {
            buckets += 1;
            if beyond > u64::MAX / 2 {
                break;
            }
            beyond <<= 1;
        }
        let half_magnitude = magnitude - 1;
        Ok(Layout { unit_magnitude, half_magnitude, counters: (buckets + 1) << half_magnitude })
    }

    /// The highest value that belongs to the counter with this index.
    fn highest_of(self, index: u64) -> u64 {
        let half = 1_u64 << self.half_magnitude;
        // The first two halves are one wide; each following one is twice as wide as the one before.
        let doublings = (index >> self.half_magnitude).saturating_sub(1) as u32;
        let place = if index < half { index } else { half + (index & (half - 1)) };
        let shift = self.unit_magnitude + doublings;
        (place << shift) + ((1 << shift) - 1)
    }
}

/// Calls `each` with the highest value and the count of every counter that is not 0, in ascending order.
///
/// # Errors
/// If the bytes are not a valid encoding, or `each` fails.
pub(super) fn read(
    bytes: &[u8],
    mut each: impl FnMut(u64, u64) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let (frame, rest) = bytes.split_at_checked(8).ok_or(CUT)?;
    match word(frame, 0) {
        COOKIE => plain(&mut &bytes[..], &mut each),
        COOKIE_DEFLATED if word(frame, 4) as usize == rest.len() => {
            plain(&mut BufReader::new(ZlibDecoder::new(rest)), &mut each)
        }
        COOKIE_DEFLATED => Err("its length is not the one that it names"),
        _ => Err("it does not begin as version 2 of the encoding does"),
    }
}

const CUT: &str = "it is cut short, or cannot be inflated";

fn plain(
    input: &mut impl BufRead,
    each: &mut impl FnMut(u64, u64) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(|_| CUT)?;
    if word(&header, 0) != COOKIE {
        return Err("it does not begin as version 2 of the encoding does");
    }
    if word(&header, 8) != 0 || long(&header, 32) != 1.0_f64.to_bits() {
        return Err("it is shifted or scaled, which is not supported");
    }
    let layout = Layout::for_range(long(&header, 16), long(&header, 24), word(&header, 12))?;
    let mut numbers = input.take(u64::from(word(&header, 4)));
    let mut index = 0_u64;
    while let Some(number) = next_number(&mut numbers)? {
        // Each step advances by at least one counter, so the loop ends after the last counter at the latest.
        let steps = if number < 0 { number.unsigned_abs() } else { 1 };
        let last = index.checked_add(steps).filter(|next| *next <= layout.counters);
        let next = last.ok_or("it has more counters than its bounds need")?;
        if number > 0 {
            each(layout.highest_of(index), number.unsigned_abs())?;
        }
        index = next;
    }
    if numbers.limit() > 0 { Err(CUT) } else { Ok(()) }
}

/// The next number: seven bits per byte, all eight of the ninth byte, zigzag-encoded. `None` at the end.
fn next_number(input: &mut impl BufRead) -> Result<Option<i64>, &'static str> {
    let mut folded = 0_u64;
    for place in 0..9 {
        let Some(byte) = input.fill_buf().map_err(|_| CUT)?.first().copied() else {
            return if place == 0 { Ok(None) } else { Err(CUT) };
        };
        input.consume(1);
        let is_last = place == 8 || byte < 0x80;
        folded |= u64::from(if place == 8 { byte } else { byte & 0x7f }) << (7 * place);
        if is_last {
            break;
        }
    }
    Ok(Some((folded >> 1) as i64 ^ -((folded & 1) as i64)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |long, byte| long << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<(u64, u64)>, &'static str> {
        let mut counters = Vec::new();
        read(bytes, |value, count| {
            counters.push((value, count));
            Ok(())
        })?;
        Ok(counters)
    }

    /// A histogram of HdrHistogram's own library in both encodings.
    fn encoded(hdr: &hdrhistogram::Histogram<u64>) -> [Vec<u8>; 2] {
        let (mut plain, mut deflated) = (Vec::new(), Vec::new());
        V2Serializer::new().serialize(hdr, &mut plain).unwrap();
        V2DeflateSerializer::new().serialize(hdr, &mut deflated).unwrap();
        [plain, deflated]
    }

    proptest! {
        #[test]
        fn every_layout_reads_as_its_own_library_wrote_it(
            lowest_magnitude in 0..40_u32,
            lowest_rest in 0..1000_u64,
            range in 1..24_u32,
            digits in 0..=5_u8,
            values in prop::collection::vec((any::<u64>(), 1..1_000_000_u64), 0..60),
        ) {
            let lowest = (1_u64 << lowest_magnitude) + lowest_rest % (1 << lowest_magnitude);
            let highest = (lowest << range) - 1 + lowest;
            let Ok(mut hdr) = hdrhistogram::Histogram::<u64>::new_with_bounds(lowest, highest, digits) else {
                return Ok(());
            };
            for (value, count) in values {
                hdr.record_n(value % highest, count).unwrap();
            }
            let expected: Vec<(u64, u64)> = hdr
                .iter_recorded()
                .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()))
                .collect();
            for bytes in encoded(&hdr) {
                prop_assert_eq!(read_all(&bytes), Ok(expected.clone()));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(header in prop::collection::vec(any::<u8>(), 36), rest in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_all(&[&COOKIE.to_be_bytes()[..], &header, &rest].concat());
            let _ = read_all(&[&COOKIE_DEFLATED.to_be_bytes()[..], &header, &rest].concat());
        }
    }

    #[test]
    fn the_highest_values_of_64_bits_read_back() {
        let mut hdr = hdrhistogram::Histogram::<u64>::new_with_bounds(1, u64::MAX, 3).unwrap();
        hdr.record_n(u64::MAX, 7).unwrap();
        hdr.record(1).unwrap();
        for bytes in encoded(&hdr) {
            assert_eq!(read_all(&bytes), Ok(vec![(1, 1), (u64::MAX, 7)]));
        }
    }

    fn forged(lowest: u64, highest: u64, digits: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(lowest.to_be_bytes());
        bytes.extend(highest.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn impossible_bounds_and_counters_are_refused() {
        assert_eq!(read_all(&forged(1, 1000, 3, &[2, 4])), Ok(vec![(0, 1), (1, 2)]));
        for (lowest, highest, digits) in
            [(0, 10, 3), (1, 1, 3), (u64::MAX, u64::MAX, 0), (1, 10, 6), (1 << 62, u64::MAX, 5)]
        {
            assert!(read_all(&forged(lowest, highest, digits, &[2])).is_err(), "{lowest} {highest} {digits}");
        }
        // 2⁶³ empty counters, counters after the last, a truncated number.
        for payload in [&[0xff; 9][..], &[0; 5000], &[0x80], &[2, 0xff]] {
            assert!(read_all(&forged(1, 1000, 3, payload)).is_err(), "{payload:?}");
        }
        let mut short = forged(1, 1000, 3, &[2]);
        short[7] = 9;
        assert_eq!(read_all(&short), Err(CUT));
    }
}
