//! Which page a client requests next: by weight, in constant time, from the client's own sequence; or, in a
//! repetition test, the next in turn over all clients.
//!
//! Integers only, so that the same seed gives the same pages on any machine. A client's sequence depends on the run's
//! seed and the client's number, not on its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Picks an index with a probability proportional to its weight, by the alias method.
///
/// A. J. Walker, "An efficient method for generating discrete random variables with general distributions", ACM TOMS
/// 3(3), 1977; the table is built in linear time as M. D. Vose, IEEE TSE 17(9), 1991, with exact integers.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// For each column: the part of `total` that is its own; the rest is its alias's.
    columns: Vec<(u64, u32)>,
    total: u64,
    /// In a repetition test: the number of pages picked by all clients.
    turn: Option<Arc<AtomicU64>>,
}

impl Sampler {
    /// A sampler for weights. `None` if there are no weights, one is 0, or number × sum of weights exceeds 2⁶³.
    pub fn new(weights: impl ExactSizeIterator<Item = u64>) -> Option<Sampler> {
        let n = weights.len() as u64;
        // Scaled by n, the mean of a column is exactly the sum of the weights.
        let mut scaled = Vec::with_capacity(weights.len());
        let mut total = 0_u64;
        for weight in weights {
            if weight == 0 {
                return None;
            }
            total = total.checked_add(weight)?;
            scaled.push(weight.checked_mul(n)?);
        }
        if scaled.is_empty() || total.checked_mul(n)? > 1 << 63 || u32::try_from(n).is_err() {
            return None;
        }
        let mut columns: Vec<(u64, u32)> = (0..n as u32).map(|index| (total, index)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..n as u32).partition(|index| scaled[*index as usize] < total);
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            columns[low as usize] = (scaled[low as usize], high);
            scaled[high as usize] -= total - scaled[low as usize];
            if scaled[high as usize] < total {
                large.pop();
                small.push(high);
            }
        }
        Some(Sampler { columns, total, turn: None })
    }

    /// The same indices, in their order, each in turn over all clients.
    #[must_use]
    pub fn in_turn(self) -> Sampler {
        Sampler { turn: Some(Arc::default()), ..self }
    }

    /// In turn: how many were picked before, elsewhere.
    pub fn begin_turn(&self, picked: u64) {
        if let Some(turn) = &self.turn {
            turn.store(picked, Ordering::Relaxed);
        }
    }

    /// Number of indices.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is nothing to pick, which never happens.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    #[inline(always)]
    fn pick(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        if self.columns.len() == 1 {
            return 0;
        }
        if let Some(turn) = &self.turn {
            return (turn.fetch_add(1, Ordering::Relaxed) % self.columns.len() as u64) as u32;
        }
        let column = below(rng, self.columns.len() as u64) as usize;
        let (own, alias) = self.columns[column];
        if below(rng, self.total) < own { column as u32 } else { alias }
    }
}

/// A uniform integer below `bound`, without bias: D. Lemire, "Fast random integer generation in an interval", ACM
/// TOMACS 29(1), 2019.
#[inline(always)]
fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    let mut product = u128::from(rng.next_u64()) * u128::from(bound);
    if (product as u64) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (product as u64) < threshold {
            product = u128::from(rng.next_u64()) * u128::from(bound);
        }
    }
    (product >> 64) as u64
}

/// One client's own sequence of pages, and of random numbers for templates.
#[derive(Clone, Debug)]
pub struct PageSequence {
    pages: Xoshiro256PlusPlus,
}

impl PageSequence {
    /// The sequence of client `client` for the run's seed.
    pub fn new(seed: u64, client: u64) -> PageSequence {
        // SplitMix64 makes the states of neighbouring clients unrelated; xoshiro's authors recommend it for seeding.
        let mut mixer = SplitMix64::seed_from_u64(seed);
        let mut mixer =
            SplitMix64::seed_from_u64(mixer.next_u64() ^ client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        PageSequence { pages: Xoshiro256PlusPlus::seed_from_u64(mixer.next_u64()) }
    }

    /// Index of the next page.
    #[inline]
    pub fn next_page(&mut self, sampler: &Sampler) -> u32 {
        sampler.pick(&mut self.pages)
    }

    /// A uniform number from 0 up to, but not including, 1: all multiples of 2⁻⁵³ are equally likely.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.pages.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A uniform integer from `low` to `high`, both included: the template `{{rand low high}}`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.wrapping_sub(low).checked_add(1) {
            Some(span) => low + below(&mut self.pages, span),
            None => self.pages.next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[u64], draws: u64) -> Vec<u64> {
        let sampler = Sampler::new(weights.iter().copied()).unwrap();
        let mut sequence = PageSequence::new(1, 0);
        let mut counts = vec![0; weights.len()];
        (0..draws).for_each(|_| counts[sequence.next_page(&sampler) as usize] += 1);
        counts
    }

    #[test]
    fn the_table_has_exactly_the_weights() {
        for weights in
            [vec![350, 500, 140, 9, 1], vec![40, 5, 5, 20, 20, 10], vec![1], vec![7, 7, 7], vec![1, 1 << 40]]
        {
            let sampler = Sampler::new(weights.iter().copied()).unwrap();
            let mut mass = vec![0_u64; weights.len()];
            for (index, (own, alias)) in sampler.columns.iter().enumerate() {
                mass[index] += own;
                mass[*alias as usize] += sampler.total - own;
            }
            let n = weights.len() as u64;
            assert_eq!(mass, weights.iter().map(|w| w * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [350, 500, 140, 9, 1];
        let draws = 1_000_000;
        for (count, weight) in counts(&weights, draws).iter().zip(weights) {
            let expected = draws as f64 * weight as f64 / 1000.0;
            // Five standard deviations of the binomial; the seed is fixed, so the result is always the same.
            assert!((*count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{count} for {expected}");
        }
    }

    #[test]
    fn the_sequence_is_the_same_on_any_machine() {
        let sampler = Sampler::new([350, 500, 140, 9, 1].into_iter()).unwrap();
        let pages = |client| {
            let mut sequence = PageSequence::new(1995, client);
            (0..16).map(|_| sequence.next_page(&sampler)).collect::<Vec<_>>()
        };
        assert_eq!(pages(0), pages(0));
        assert_ne!(pages(0), pages(1));
        // Fixed for ever: a change would change the pages of every seed.
        assert_eq!(pages(0), PAGES_OF_CLIENT_0);
    }

    const PAGES_OF_CLIENT_0: [u32; 16] = [1, 1, 1, 1, 1, 1, 2, 0, 1, 1, 0, 1, 1, 1, 1, 0];

    #[test]
    fn in_turn_every_page_comes_equally_often_for_any_clients() {
        let sampler = Sampler::new([90, 9, 1].into_iter()).unwrap().in_turn();
        let mut clients: Vec<PageSequence> = (0..2).map(|client| PageSequence::new(7, client)).collect();
        let picked: Vec<u32> = (0..9).map(|turn| clients[turn % 2].next_page(&sampler)).collect();
        assert_eq!(picked, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn impossible_weights_are_refused() {
        assert!(Sampler::new([].into_iter()).is_none());
        assert!(Sampler::new([1, 0].into_iter()).is_none());
        assert!(Sampler::new([u64::MAX, 1].into_iter()).is_none());
    }

    #[test]
    fn between_includes_both_ends() {
        let mut sequence = PageSequence::new(3, 4);
        let draws: Vec<u64> = (0..200).map(|_| sequence.between(5, 7)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&5), Some(&7)));
        assert_eq!(sequence.between(9, 9), 9);
        sequence.between(0, u64::MAX);
    }
}
