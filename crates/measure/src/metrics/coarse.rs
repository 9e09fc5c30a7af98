//! A distribution in few bytes, for watchers on other hosts: buckets are joined until it fits. Counts stay exact, so
//! distributions of several hosts can be added; only the position of a value within its bucket is lost.

use std::borrow::Cow;

use super::Histogram;

/// Binary digits that three significant decimal digits need: the precision of a bucket.
const DIGITS: u32 = 10;
/// Maximum number of filled buckets per byte: deflated runs of single counts.
const BUCKETS_PER_BYTE_MAX: usize = 4;

impl Histogram {
    /// The finest encoding with at most `bytes_max` bytes, as [`Histogram::to_base64`]; if there is none, the
    /// coarsest, with a few hundred bytes. Values are rounded up: by less than a thousandth if no buckets were
    /// joined, by an eighth with eight buckets per octave.
    pub fn to_base64_within(&self, bytes_max: usize) -> String {
        let mut text = String::new();
        for joined in 0..=DIGITS {
            let coarse = if joined == 0 { Cow::Borrowed(self) } else { Cow::Owned(self.coarser(joined)) };
            if coarse.buckets().count() > bytes_max * BUCKETS_PER_BYTE_MAX && joined < DIGITS {
                continue;
            }
            text = coarse.to_base64();
            if text.len() <= bytes_max {
                break;
            }
        }
        text
    }

    /// The same counts with each 2^`joined` buckets made one.
    fn coarser(&self, joined: u32) -> Histogram {
        let mut coarse = Histogram::default();
        for (lowest, _, count) in self.buckets() {
            let octave = lowest.checked_ilog2().unwrap_or_default();
            let dropped = octave.saturating_sub(DIGITS.saturating_sub(joined));
            coarse.record_n((lowest | ((1 << dropped) - 1)).min(self.max()), count);
        }
        coarse
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    use super::*;

    /// A distribution like that of response times: about ten octaves.
    fn wide(seed: u64, values: usize) -> Histogram {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut histogram = Histogram::default();
        for _ in 0..values {
            let octave = 14 + (random.next_u64() % 12).min(random.next_u64() % 12);
            histogram.record((1 << octave) + random.next_u64() % (1 << octave));
        }
        histogram
    }

    #[test]
    fn it_fits_and_its_percentiles_are_rounded_up() {
        let quantiles = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0];
        for values in [1, 10, 1_000, 100_000] {
            let (one, two) = (wide(1, values), wide(2, values));
            let mut whole = one.clone();
            whole.merge(&two);
            let mut merged = Histogram::default();
            for part in [&one, &two] {
                let text = part.to_base64_within(1_200);
                assert!(text.len() <= 1_200, "{values}: {}", text.len());
                let mut back = Histogram::from_base64(&text).unwrap();
                back.set_max(part.max());
                assert_eq!((back.len(), back.max()), (part.len(), part.max()));
                merged.merge(&back);
            }
            assert_eq!((merged.len(), merged.max()), (whole.len(), whole.max()));
            let (found, truth) =
                (merged.values_at_quantiles(&quantiles), whole.values_at_quantiles(&quantiles));
            for (found, truth) in found.into_iter().zip(truth) {
                assert!(
                    found >= truth && found as f64 <= truth as f64 * 1.04,
                    "{values}: {found} for {truth}"
                );
            }
        }
    }

    #[test]
    fn a_distribution_that_fits_loses_nothing_and_others_are_as_short_as_possible() {
        let few = wide(3, 20);
        assert_eq!(few.to_base64_within(1_200), few.to_base64());
        let mut all = Histogram::default();
        (0..44).for_each(|octave| all.record_n((1 << octave) + 1, u64::MAX >> 8));
        let least = all.to_base64_within(10);
        assert!(least.len() < 700, "{}", least.len());
        assert_eq!(
            Histogram::from_base64(&least).unwrap().buckets().count(),
            all.coarser(DIGITS).buckets().count()
        );
        assert_eq!(Histogram::from_base64(&Histogram::default().to_base64_within(10)).unwrap().len(), 0);
    }
}
