//! The rule by which sizes are made up if a source only states properties: skewed towards small sizes like real
//! files, between given ends, with a given sum. Integers only, so that every machine makes the same list.
//!
//! A size is `low + (high − low) × u^k`, with `u` uniform in [0, 1) (16 bits of SplitMix64) and `k` an integer such
//! that the mean of `u^k`, which is `1 / (k + 1)`, comes close to the mean that the sum requires. The remaining
//! difference from the sum is removed by scaling all distances from `low` by the same factor, and finally by single
//! bytes in order.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A seeded sequence of random numbers.
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// Uniform below 2^16.
    fn uniform(&mut self) -> u64 {
        self.0.next_u64() >> 48
    }
}

/// Sizes from `low` to `high` bytes, both included, with the sum `total`.
pub(super) struct Sizes {
    pub(super) files: u64,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) total: u64,
    /// Whether the first file has the lowest size and the second the highest.
    pub(super) ends: bool,
}

impl Sizes {
    /// Draws the sizes. The sum must be possible: `files × low ≤ total ≤ files × high`, apart from the ends.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<u64> {
        let mut sizes = Vec::new();
        let (mut files, mut total) = (self.files, self.total);
        if self.ends {
            sizes.extend([self.low, self.high]);
            files -= 2;
            total -= self.low + self.high;
        }
        let span = self.high - self.low;
        let excess = total - files * self.low;
        let power = (span * files / excess.max(1)).saturating_sub(1).clamp(1, 40);
        let mut drawn: Vec<u64> = (0..files)
            .map(|_| {
                let u = random.uniform();
                let skewed = (1..power).fold(u, |product, _| (product * u) >> 16);
                (span * skewed) >> 16
            })
            .collect();
        let sum: u64 = drawn.iter().sum();
        for distance in &mut drawn {
            *distance = (*distance * excess / sum.max(1)).min(span);
        }
        // Clamping and rounding down leave a little; it is distributed in turn, at least one byte per file and turn.
        loop {
            let rest = excess - drawn.iter().sum::<u64>();
            if rest == 0 {
                break;
            }
            let mut left = rest;
            let share = (rest / files).max(1);
            for distance in &mut drawn {
                let step = share.min(left).min(span - *distance);
                *distance += step;
                left -= step;
            }
            assert!(left < rest, "the sum is out of reach");
        }
        sizes.extend(drawn.iter().map(|distance| self.low + distance));
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_ends_and_their_sum() {
        for (files, low, high, total, ends) in [
            (100, 10, 1000, 20_000, true),
            (100, 10, 1000, 90_000, false),
            (3, 5, 5, 15, false),
            (2, 1, 9, 10, true),
        ] {
            let sizes = Sizes { files, low, high, total, ends }.draw(&mut Random::new(1));
            assert_eq!(sizes.len() as u64, files);
            assert_eq!(sizes.iter().sum::<u64>(), total);
            assert!(sizes.iter().all(|size| (low..=high).contains(size)));
            if ends {
                assert_eq!(sizes[..2], [low, high]);
            }
        }
    }

    #[test]
    fn sizes_are_skewed_towards_small_ones() {
        let mut sizes = Sizes { files: 1001, low: 0, high: 100_000, total: 10_010_000, ends: false }
            .draw(&mut Random::new(2));
        sizes.sort_unstable();
        assert!(sizes[500] < 5_000, "the median lies far below the mean of 10,000: {}", sizes[500]);
    }
}
