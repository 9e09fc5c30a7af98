//! A histogram with the layout of HdrHistogram (three significant digits, unit 1 ns), filled in chunks on demand.
//!
//! `hdrhistogram::Histogram` would need 280 KB of counters for this range, always. webstone has four histograms
//! overall and four per page, for each worker; most of them use three or four octaves. Here an octave's 1,024
//! counters (8 KiB) are allocated with its first value, so a typical histogram takes 24 to 40 KiB, and recording is
//! an index and an addition. The buckets are exactly the same, so import and export (HdrHistogram V2) lose nothing; a
//! test compares both.
//!
//! A histogram that is only read can be [packed](Histogram::pack): its counts become the variable-length numbers of
//! the V2 encoding, one to two bytes per filled bucket. A record of 1,000 levels has thousands of histograms: tens of
//! megabytes packed, hundreds otherwise. Recording does not become slower: a packed histogram has no chunks, so its
//! first value takes the path of a new chunk, where it is unpacked.

use std::fmt;
use std::ops::ControlFlow;

use super::{hdr, packed};

/// Larger values are counted in the topmost bucket: 2⁴⁴ ns, 4.9 hours, beyond any request timeout.
const VALUE_MAX: u64 = (1 << 44) - 1;
/// log₂ of the counters in a chunk: 2,048 sub-buckets give three significant digits; every octave adds half of them.
const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;
const SUB_BUCKET_MASK: u64 = 2 * CHUNK as u64 - 1;
const CHUNKS: usize = (44 - CHUNK_BITS + 1) as usize;

/// Counts of values in nanoseconds (or bytes), to three significant digits. See the module comment.
#[derive(Clone)]
pub struct Histogram {
    chunks: [Option<Box<[u64; CHUNK]>>; CHUNKS],
    /// All counts in the form of [`packed`]; then there are no chunks.
    packed: Option<Box<[u8]>>,
    count: u64,
    max: u64,
}

/// Why a serialised histogram could not be read.
#[derive(Debug, thiserror::Error)]
#[error("not an HdrHistogram V2 encoding in base64: {0}")]
pub struct HistogramError(String);

impl Histogram {
    /// An empty histogram, which allocates nothing before the first value.
    pub const fn new() -> Histogram {
        Histogram { chunks: [const { None }; CHUNKS], packed: None, count: 0, max: 0 }
    }

    /// Maximum memory of one histogram, in bytes.
    pub const fn bytes_max() -> usize {
        CHUNKS * CHUNK * size_of::<u64>() + size_of::<Histogram>()
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        let (chunk, slot) = position(value);
        self.count += n;
        self.max = self.max.max(value);
        match &mut self.chunks[chunk] {
            Some(counters) => counters[slot] += n,
            None => self.first_of_chunk(chunk, slot, n),
        }
    }

    #[cold]
    fn first_of_chunk(&mut self, chunk: usize, slot: usize, n: u64) {
        self.unpack();
        self.chunks[chunk].get_or_insert_with(zeros)[slot] += n;
    }

    /// Reduces its memory to a minimum, if it is only read from now on. Reading is about as fast as before.
    pub fn pack(&mut self) {
        if self.packed.is_none() {
            self.packed = (self.count > 0).then(|| packed::pack(self.counters()).into_boxed_slice());
            self.chunks = [const { None }; CHUNKS];
        }
    }

    fn unpack(&mut self) {
        for (index, count) in packed::counters(&self.packed.take().unwrap_or_default()) {
            self.chunks[index / CHUNK].get_or_insert_with(zeros)[index % CHUNK] += count;
        }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The maximum, exactly; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Adds the counts of another histogram.
    #[inline] // with the engine, which is optimised for speed: it merges those of each worker
    pub fn merge(&mut self, other: &Histogram) {
        self.unpack();
        for (index, count) in other.packed.iter().flat_map(|bytes| packed::counters(bytes)) {
            let counters = self.chunks[index / CHUNK].get_or_insert_with(zeros);
            counters[index % CHUNK] = counters[index % CHUNK].saturating_add(count);
        }
        for (mine, theirs) in self.chunks.iter_mut().zip(&other.chunks) {
            let Some(theirs) = theirs else { continue };
            match mine {
                Some(mine) => mine.iter_mut().zip(theirs.iter()).for_each(|(a, b)| *a = a.saturating_add(*b)),
                empty => *empty = Some(theirs.clone()),
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.max = self.max.max(other.max);
    }

    /// The lowest value at which two histograms differ, with the count of each there; 0 and 0 if only the exact
    /// maximum differs. `None` if they are equal.
    pub fn first_difference(&self, other: &Histogram) -> Option<(u64, u64, u64)> {
        let (mut ours, mut theirs) = (self.buckets().peekable(), other.buckets().peekable());
        loop {
            let lowest = match (ours.peek(), theirs.peek()) {
                (None, None) => return (self.max != other.max).then_some((self.max.max(other.max), 0, 0)),
                (Some((value, ..)), None) | (None, Some((value, ..))) => *value,
                (Some((one, ..)), Some((other, ..))) => *one.min(other),
            };
            let of_ours = ours.next_if(|(value, ..)| *value == lowest).map_or(0, |(.., count)| count);
            let of_theirs = theirs.next_if(|(value, ..)| *value == lowest).map_or(0, |(.., count)| count);
            if of_ours != of_theirs {
                return Some((lowest, of_ours, of_theirs));
            }
        }
    }

    /// The value at a quantile from 0 to 1: the highest value equivalent to the first bucket whose cumulative count
    /// reaches `quantile × len`, but not more than [`Histogram::max`]. 0 without values.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        self.values_at_quantiles(&[quantile])[0]
    }

    /// The values at several ascending quantiles, computed in one pass. See [`Histogram::value_at_quantile`].
    pub fn values_at_quantiles(&self, ascending: &[f64]) -> Vec<u64> {
        let mut reading = Quantiles::new(ascending, self.count, self.max);
        // Not a loop: the iterator is chained and flattened, which is slow if asked element by element.
        let _ = self.bounds().try_for_each(|(highest, count)| reading.bucket(highest, count));
        reading.values
    }

    /// The values at several ascending quantiles of the values of two histograms together.
    pub(super) fn values_at_quantiles_with(&self, other: &Histogram, ascending: &[f64]) -> Vec<u64> {
        let (count, max) = (self.count.saturating_add(other.count), self.max.max(other.max));
        let mut reading = Quantiles::new(ascending, count, max);
        // Collected, because only one of two iterators can be looped over from inside; see above.
        let mut theirs = other.bounds().collect::<Vec<_>>().into_iter().peekable();
        let mut read = || {
            self.bounds().try_for_each(|(highest, count)| {
                while let Some((lower, count)) = theirs.next_if(|(theirs, _)| *theirs < highest) {
                    reading.bucket(lower, count)?;
                }
                reading.bucket(highest, count)
            })?;
            theirs.try_for_each(|(highest, count)| reading.bucket(highest, count))
        };
        let _ = read();
        reading.values
    }

    /// The filled buckets in ascending order: the highest value of each, and its count.
    fn bounds(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets().map(|(lowest, width, count)| ((lowest + width - 1).min(self.max), count))
    }

    /// The value at a percentile from 0 to 100. See [`Histogram::value_at_quantile`].
    pub fn value_at_percentile(&self, percentile: f64) -> u64 {
        self.value_at_quantile(percentile / 100.0)
    }

    /// The filled buckets in ascending order: lowest value, width, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counters().map(|(index, count)| {
            // Chunk 0 is the lower half of the first 2,048 exact values; each following chunk doubles the width.
            let (chunk, slot) = (index / CHUNK, index % CHUNK);
            let shift = chunk.saturating_sub(1) as u32;
            let first = if chunk == 0 { 0 } else { CHUNK as u64 };
            ((first + slot as u64) << shift, 1 << shift, count)
        })
    }

    /// The filled buckets by their index in HdrHistogram's array of counts.
    fn counters(&self) -> impl Iterator<Item = (usize, u64)> {
        let packed = self.packed.iter().flat_map(|bytes| packed::counters(bytes));
        let open = self.chunks.iter().enumerate().flat_map(|(chunk, counters)| {
            let counters = counters.iter().flat_map(|counters| counters.iter().enumerate());
            counters.filter(|(_, count)| **count > 0).map(move |(slot, count)| (chunk * CHUNK + slot, *count))
        });
        packed.chain(open)
    }

    /// The HdrHistogram V2 encoding, deflated, in base64: the payload of an `.hlog` line.
    pub fn to_base64(&self) -> String {
        use base64::Engine as _;
        let bytes = packed::to_v2_deflated(self.counters());
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    /// Reads what [`Histogram::to_base64`] (or another HdrHistogram library, with at most three digits) wrote. The
    /// exact maximum is not part of the encoding: it is the bound of the top bucket until [`Histogram::set_max`].
    pub fn from_base64(text: &str) -> Result<Histogram, HistogramError> {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text.trim())
            .map_err(|error| HistogramError(error.to_string()))?;
        // What this program wrote is used as it is.
        if let Some(own) = packed::from_v2_deflated(&bytes) {
            return Histogram::of_packed(own);
        }
        let mut histogram = Histogram::new();
        hdr::read(&bytes, |value, count| {
            histogram.room_for(count)?;
            histogram.record_n(value, count);
            Ok(())
        })
        .map_err(|what| HistogramError(what.to_owned()))?;
        histogram.pack();
        Ok(histogram)
    }

    fn of_packed(bytes: Vec<u8>) -> Result<Histogram, HistogramError> {
        let mut histogram = Histogram::new();
        let mut last = None;
        for (index, count) in packed::counters(&bytes) {
            histogram.room_for(count).map_err(|what| HistogramError(what.to_owned()))?;
            histogram.count += count;
            last = Some(index);
        }
        let Some(last) = last else { return Ok(histogram) };
        histogram.packed = Some(bytes.into_boxed_slice());
        // The bucket's bound, until the exact maximum is known.
        let shift = (last / CHUNK).saturating_sub(1) as u32;
        let first = if last < CHUNK { 0 } else { CHUNK as u64 };
        histogram.max = ((first + (last % CHUNK) as u64 + 1) << shift) - 1;
        Ok(histogram)
    }

    /// The encoding has 63 bits for a count, and several counters of another layout may become one here.
    fn room_for(&self, count: u64) -> Result<(), &'static str> {
        let sum = self.count.checked_add(count).filter(|sum| i64::try_from(*sum).is_ok());
        sum.map(|_| ()).ok_or("its counts add up to more than 63 bits")
    }

    /// Restores the exact maximum that a record stores beside the encoding. It can only lower the bucket's bound.
    pub fn set_max(&mut self, max: u64) {
        if self.count > 0 && position(max) == position(self.max) {
            self.max = max;
        }
    }
}

/// How many of `count` values must be at or below the value at a quantile from 0 to 1: `quantile × count`, rounded up; at least one, as in
/// HdrHistogram.
pub fn rank(quantile: f64, count: u64) -> u64 {
    let wanted = quantile.clamp(0.0, 1.0) * count as f64;
    // 99.9 / 100 is a little more than 0.999, and times 1,000 a little more than 999: the decimal fraction, its hundredth and the product are
    // each off by at most half of a double's precision.
    let excess = wanted - wanted.floor();
    let rank = if excess <= wanted * 2.0 * f64::EPSILON { wanted.floor() } else { wanted.ceil() };
    (rank as u64).clamp(1, count.max(1))
}

/// Computes values at quantiles from buckets in ascending order.
struct Quantiles {
    /// Ranks that have not been reached, the next one last.
    wanted: Vec<u64>,
    seen: u64,
    /// The values at ranks that have been reached; all others are the maximum.
    values: Vec<u64>,
    reached: usize,
}

impl Quantiles {
    fn new(ascending: &[f64], count: u64, max: u64) -> Quantiles {
        Quantiles {
            wanted: ascending.iter().rev().map(|quantile| rank(*quantile, count)).collect(),
            seen: 0,
            values: vec![max; ascending.len()],
            reached: 0,
        }
    }

    fn bucket(&mut self, highest: u64, count: u64) -> ControlFlow<()> {
        self.seen = self.seen.saturating_add(count);
        while self.wanted.pop_if(|rank| self.seen >= *rank).is_some() {
            self.values[self.reached] = highest;
            self.reached += 1;
        }
        if self.wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        (self.count, self.max) == (other.count, other.max) && self.counters().eq(other.counters())
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.value_at_quantile(0.5))
            .field("p99", &self.value_at_quantile(0.99))
            .field("max", &self.max)
            .finish()
    }
}

/// A chunk without values, zeroed by the allocator.
#[inline]
fn zeros() -> Box<[u64; CHUNK]> {
    vec![0; CHUNK].into_boxed_slice().try_into().expect("the slice has the length of a chunk")
}

/// Chunk and slot of a value.
#[inline]
fn position(value: u64) -> (usize, usize) {
    let value = value.min(VALUE_MAX);
    let shift = (u64::BITS - CHUNK_BITS - 1) - (value | SUB_BUCKET_MASK).leading_zeros();
    let sub_bucket = (value >> shift) as usize;
    // Values below 1,024 are chunk 0; otherwise the top bit of the sub-bucket is set and selects the upper half.
    let chunk = shift as usize + (sub_bucket >> CHUNK_BITS);
    (chunk, sub_bucket & (CHUNK - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
    use proptest::prelude::*;

    fn reference(values: &[u64]) -> hdrhistogram::Histogram<u64> {
        let mut hdr = hdrhistogram::Histogram::new_with_bounds(1, VALUE_MAX, 3).unwrap();
        values.iter().for_each(|value| hdr.record(*value).unwrap());
        hdr
    }

    /// The same counts in a histogram of HdrHistogram's own library.
    fn to_hdr(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
        let mut hdr = reference(&[]);
        for (lowest, _, count) in histogram.buckets() {
            hdr.record_n(lowest, count).unwrap();
        }
        hdr
    }

    proptest! {
        #[test]
        fn agrees_with_hdrhistogram(
            values in prop::collection::vec(prop_oneof![0..5000_u64, 0..10_000_000_u64, 0..VALUE_MAX], 1..200),
            quantile in 0.0..1.0_f64,
        ) {
            let mut ours = Histogram::new();
            values.iter().for_each(|value| ours.record(*value));
            let theirs = reference(&values);
            prop_assert_eq!(&to_hdr(&ours), &theirs);
            let exact_max = *values.iter().max().unwrap();
            prop_assert_eq!(ours.max(), exact_max);
            prop_assert_eq!(ours.value_at_quantile(quantile), theirs.value_at_quantile(quantile).min(exact_max));
        }

        #[test]
        fn ranks_of_decimal_percentiles_are_exact(thousandths in 0..=100_000_u64, count in 1..1_000_000_000_000_u64) {
            let round = count.next_multiple_of(1_000);
            for count in [count, round] {
                let exact = (u128::from(thousandths) * u128::from(count)).div_ceil(100_000).max(1);
                let percentile: f64 = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000).parse().unwrap();
                prop_assert_eq!(u128::from(rank(percentile / 100.0, count)), exact, "{} of {}", percentile, count);
            }
        }

        #[test]
        fn the_first_difference_is_where_one_value_was_added(
            mut values in prop::collection::vec(0..VALUE_MAX, 1..50),
            value in 0..VALUE_MAX,
        ) {
            let fill = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            };
            let (one, mut packed) = (fill(&values), fill(&values));
            packed.pack();
            prop_assert_eq!(one.first_difference(&packed), None);
            values.push(value);
            let (at, of_one, of_other) = one.first_difference(&fill(&values)).unwrap();
            prop_assert!(at <= value && position(at) == position(value));
            prop_assert_eq!(of_one + 1, of_other);
        }

        #[test]
        fn quantiles_of_two_are_those_of_both_merged(
            a in prop::collection::vec(0..5000_u64, 0..100),
            b in prop::collection::vec(prop_oneof![0..5000_u64, 0..VALUE_MAX], 0..100),
            packs in any::<bool>(),
        ) {
            let [mut one, mut other] = [&a, &b].map(|values| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            });
            if packs {
                one.pack();
                other.pack();
            }
            let mut both = one.clone();
            both.merge(&other);
            let ascending = [0.0, 0.1, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
            let of_both = both.values_at_quantiles(&ascending);
            for found in [one.values_at_quantiles_with(&other, &ascending), other.values_at_quantiles_with(&one, &ascending)] {
                // The maximum of each, which is exact, bounds its own topmost bucket.
                for (found, of_both) in found.iter().zip(&of_both) {
                    prop_assert!(found <= of_both && position(*found) == position(*of_both), "{} {}", found, of_both);
                }
            }
        }

        #[test]
        fn merging_equals_recording_in_one(
            a in prop::collection::vec(0..VALUE_MAX, 0..100),
            b in prop::collection::vec(0..VALUE_MAX, 0..100),
        ) {
            let fill = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            };
            let mut merged = fill(&a);
            merged.merge(&fill(&b));
            prop_assert_eq!(merged, fill(&[a, b].concat()));
        }

        #[test]
        fn survives_encoding(values in prop::collection::vec(0..VALUE_MAX, 0..100)) {
            let mut ours = Histogram::new();
            values.iter().for_each(|value| ours.record(*value));
            let mut back = Histogram::from_base64(&ours.to_base64()).unwrap();
            back.set_max(ours.max());
            prop_assert_eq!(&back, &ours);
            // HdrHistogram's own library writes and reads the same.
            let text = ours.to_base64();
            let bytes = base64::engine::general_purpose::STANDARD.decode(&text).unwrap();
            let theirs: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            prop_assert_eq!(theirs, to_hdr(&ours));
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&to_hdr(&ours), &mut bytes).unwrap();
            prop_assert!(packed::from_v2_deflated(&bytes).is_some());
            let mut back = Histogram::from_base64(&base64::engine::general_purpose::STANDARD.encode(bytes)).unwrap();
            back.set_max(ours.max());
            prop_assert_eq!(back, ours);
        }
    }

    #[test]
    fn a_packed_histogram_reads_the_same_and_can_count_on() {
        let mut open = Histogram::new();
        for value in 0..5_000_u64 {
            open.record_n(value * value * value, value % 300);
        }
        let mut packed = open.clone();
        packed.pack();
        assert_eq!(packed, open);
        assert!(packed.chunks.iter().all(Option::is_none));
        for percentile in [0.0, 1.0, 50.0, 99.0, 99.99, 100.0] {
            assert_eq!(packed.value_at_percentile(percentile), open.value_at_percentile(percentile));
        }
        let mut sum = Histogram::new();
        sum.merge(&packed);
        sum.merge(&open);
        for histogram in [&mut packed, &mut open] {
            histogram.record(77);
            histogram.record(1 << 40);
        }
        assert_eq!(packed, open);
        let (of_packed, mut twice) = (sum, open.clone());
        twice.merge(&packed);
        assert_eq!(of_packed.len() + 4, twice.len());
    }

    #[test]
    fn values_beyond_the_range_count_at_the_top_and_stay_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!((histogram.len(), histogram.max()), (1, u64::MAX));
    }

    #[test]
    fn one_slow_answer_of_a_thousand_is_beyond_the_percentile_of_the_others() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000_000, 999);
        histogram.record(1_000_000_000);
        assert!(histogram.value_at_percentile(99.9) < 1_001_000);
        assert_eq!(histogram.value_at_percentile(99.91), 1_000_000_000);
        let mut hundred = Histogram::new();
        (1..=100).for_each(|value| hundred.record(value));
        assert!((1..=100).all(|percent| hundred.value_at_percentile(percent as f64) == percent));
    }

    #[test]
    fn no_percentile_exceeds_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.record(1_000_001);
        assert_eq!(histogram.value_at_percentile(50.0), 1_000_001);
        assert_eq!(histogram.value_at_percentile(100.0), 1_000_001);
    }

    #[test]
    fn anything_but_a_histogram_is_an_error() {
        for text in ["", "%%%", "AAAA"] {
            assert!(Histogram::from_base64(text).is_err(), "{text}");
        }
    }
}
