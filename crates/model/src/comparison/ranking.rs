//! Ranks of several things that were measured alike, only as far as measurement can tell them apart.
//!
//! Every two are compared as two records are (the interval of the ratio against the noise floor), all pairs as one family of
//! findings. A rank is 1 + the number of those that are *shown* to be better: who is not shown to be worse than anybody is
//! first, and several may be. What cannot be told apart therefore shares a rank wherever the same ones are ahead of it.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ITERATIONS_MIN, Noise, Row, holm, judging, row};
use crate::metric::Metric;
use crate::record::IterationRecord;
use crate::statistics::Interval;

/// Two of a ranking, held against each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// Place of the first among what was ranked, from 0.
    pub first: usize,
    /// Place of the second.
    pub second: usize,
    /// Mean of the first / mean of the second.
    pub ratio: Option<Interval>,
    /// What of the ratio is noise, in percent.
    pub noise_percent: f64,
    /// Whether it is shown that they differ.
    pub differ: bool,
}

/// A ranking.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ranking {
    /// The rank of each, from 1.
    pub ranks: Vec<u32>,
    /// Every pair.
    pub pairs: Vec<Pair>,
}

/// Why there are no ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRanking {
    /// There is nothing to be told apart.
    #[error("there are fewer than two to be ranked")]
    TooFew,
    /// Iterations are the samples.
    #[error("ranks take {ITERATIONS_MIN} iterations or more of each (-i), and there are {0}")]
    TooFewIterations(usize),
}

/// Ranks levels by a figure, each given by its iterations.
///
/// # Errors
/// With fewer than two, and where one has fewer than [`ITERATIONS_MIN`] iterations with such a figure.
pub fn rank(metric: Metric, levels: &[Vec<&IterationRecord>]) -> Result<Ranking, NoRanking> {
    if levels.len() < 2 {
        return Err(NoRanking::TooFew);
    }
    let read: Vec<Vec<judging::Armed<'_>>> = levels.iter().map(|runs| judging::read(runs)).collect();
    let mut places = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for first in 0..read.len() {
        for second in first + 1..read.len() {
            let (candidate, baseline) = (&read[first], &read[second]);
            let noise = judging::LevelNoise::of(Noise::Records, 0, baseline, candidate);
            let row = row(metric, baseline, candidate, &noise);
            let fewest = row.baseline.samples.len().min(row.candidate.samples.len());
            if fewest < ITERATIONS_MIN {
                return Err(NoRanking::TooFewIterations(fewest));
            }
            places.push((first, second));
            rows.push(row);
        }
    }
    let differ = holm(rows.len(), |place, confidence| rows[place].shown_at(confidence));
    let mut ranks = vec![1; read.len()];
    let mut pairs = Vec::with_capacity(rows.len());
    for ((row, (first, second)), differ) in rows.into_iter().zip(places).zip(differ) {
        if differ {
            let first_is_more = row.candidate.mean > row.baseline.mean;
            let behind = if first_is_more == metric.more_is_better() { second } else { first };
            ranks[behind] += 1;
        }
        pairs.push(Pair { first, second, ratio: row.ratio, noise_percent: row.floor.value, differ });
    }
    Ok(Ranking { ranks, pairs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counts, Measured};
    use crate::units::NANOS_PER_SECOND;

    fn level(rates: &[u64]) -> Vec<IterationRecord> {
        let run = |(place, rate): (usize, &u64)| IterationRecord {
            clients: 10,
            iteration: place as u32 + 1,
            measured: Measured {
                window_ns: NANOS_PER_SECOND,
                counts: Counts { succeeded: *rate, ..Counts::default() },
                ..Measured::default()
            },
            ..IterationRecord::default()
        };
        rates.iter().enumerate().map(run).collect()
    }

    fn ranked(levels: &[&[u64]]) -> Result<Ranking, NoRanking> {
        let levels: Vec<Vec<IterationRecord>> = levels.iter().map(|rates| level(rates)).collect();
        rank(Metric::Rate, &levels.iter().map(|runs| runs.iter().collect()).collect::<Vec<_>>())
    }

    #[test]
    fn what_cannot_be_told_apart_shares_a_rank() {
        let ranking = ranked(&[
            &[1000, 1010, 990, 1005],
            &[2000, 2020, 1990, 2010],
            &[1003, 1013, 993, 1001],
            &[500, 505, 495, 502],
        ])
        .unwrap();
        assert_eq!(ranking.ranks, [2, 1, 2, 4]);
        let told: Vec<(usize, usize)> =
            ranking.pairs.iter().filter(|pair| !pair.differ).map(|pair| (pair.first, pair.second)).collect();
        assert_eq!(told, [(0, 2)]);
    }

    #[test]
    fn scatter_wide_enough_makes_all_first() {
        assert_eq!(ranked(&[&[1000, 2000, 1500], &[1600, 1100, 2100]]).unwrap().ranks, [1, 1]);
    }

    #[test]
    fn what_is_between_two_and_told_from_neither_is_first_with_the_better() {
        // The middle one scatters over both others, which are shown to differ.
        let ranking = ranked(&[&[1000, 1001, 999], &[1250, 900, 1100], &[1100, 1101, 1099]]).unwrap();
        assert_eq!(ranking.ranks, [2, 1, 1]);
    }

    #[test]
    fn too_little_is_told() {
        assert_eq!(ranked(&[&[1000, 1001]]), Err(NoRanking::TooFew));
        assert_eq!(ranked(&[&[1000, 1001], &[2000, 2001]]), Err(NoRanking::TooFewIterations(2)));
        assert_eq!(
            NoRanking::TooFewIterations(2).to_string(),
            "ranks take 3 iterations or more of each (-i), and there are 2"
        );
    }
}
