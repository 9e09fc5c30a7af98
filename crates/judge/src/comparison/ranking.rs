//! Ranks of several things that were measured alike, only as far as measurement can distinguish them.
//!
//! A rank is a range of places. **Two differ** when the interval of the ratio of their means lies beyond the noise floor, all
//! pairs as one family (Holm). **The worst place** is that of the last one, by estimates, from which it does not differ. **The
//! best place** is 1 + the number of those that are ahead of its *estimate*: their own interval, beyond their own noise floor,
//! lies above it. A result's own scatter does not count there, so that no place is gained by being measured badly.
//!
//! Where noise took time from server or load generator, a result may be better than measured by a factor that is known, and two
//! differ only if the better one is ahead of that, too. Where the load generator was the bottleneck, nobody knows that factor: the
//! result is ahead of what is lower, differs from nothing that is higher, and nobody is ahead of it.
//!
//! From this follows, for any change of noise that leaves the means where they are (tested as properties):
//! more noise never narrows a range; a result's own noise never moves the best place of its range; a pair that does not
//! differ has ranges that overlap. Sources and limits: `docs/measurement.md`, "Ranks".

use serde::Serialize;

use super::{ITERATIONS_MIN, holm, judging};
use crate::statistics::{self, CONFIDENCE, Interval, Method};
use webstone_measure::metric::Metric;
use webstone_model::record::IterationRecord;

/// The places that one of a ranking may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankRange {
    /// The best, from 1.
    pub best: u32,
    /// The worst.
    pub worst: u32,
}

/// Two of a ranking, compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// The rank of each.
    pub ranks: Vec<RankRange>,
    /// Every pair.
    pub pairs: Vec<Pair>,
}

/// Why there are no ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRanking {
    /// There is nothing to compare.
    #[error("there are fewer than two to rank")]
    TooFew,
    /// Iterations are the samples.
    #[error("ranks need {ITERATIONS_MIN} or more iterations of each (-i); this has {0}")]
    TooFewIterations(usize),
}

/// A level that is ranked.
#[derive(Clone, Debug)]
pub struct RankedLevel<'a> {
    /// Its iterations.
    pub runs: Vec<&'a IterationRecord>,
    /// By which factor it may be better than measured: because of noise; 1 where there was none. Infinite where what was measured is only
    /// the least.
    pub better_by: f64,
}

/// Ranks levels by a figure.
///
/// # Errors
/// With fewer than two, and where one has fewer than [`ITERATIONS_MIN`] iterations with such a figure.
pub fn rank(metric: Metric, levels: &[RankedLevel<'_>]) -> Result<Ranking, NoRanking> {
    let read: Vec<Vec<judging::Armed<'_>>> = levels.iter().map(|level| judging::read(&level.runs)).collect();
    let contestants: Vec<Contestant> = read
        .iter()
        .zip(levels)
        .map(|(readings, level)| {
            let samples: Vec<f64> =
                readings.iter().filter_map(|(_, reading)| metric.value(reading)).collect();
            let noise = judging::LevelNoise::Arms(vec![readings]);
            let noise_percent =
                noise.floor(metric, judging::scatter(metric, &samples)).map_or(0.0, |floor| floor.value);
            Contestant { samples, noise_percent, better_by: level.better_by }
        })
        .collect();
    ranked(&contestants, metric.more_is_better())
}

/// What is known of one that is ranked.
struct Contestant {
    samples: Vec<f64>,
    /// Its noise floor.
    noise_percent: f64,
    /// By which factor it may be better.
    better_by: f64,
}

impl Contestant {
    fn mean(&self) -> f64 {
        statistics::mean(&self.samples)
    }
}

fn ranked(all: &[Contestant], more_is_better: bool) -> Result<Ranking, NoRanking> {
    if all.len() < 2 {
        return Err(NoRanking::TooFew);
    }
    let fewest = all.iter().map(|one| one.samples.len()).min().unwrap_or(0);
    if fewest < ITERATIONS_MIN {
        return Err(NoRanking::TooFewIterations(fewest));
    }
    let places: Vec<(usize, usize)> =
        (0..all.len()).flat_map(|first| (first + 1..all.len()).map(move |second| (first, second))).collect();
    let differ = holm(places.len(), |pair, confidence| {
        let (first, second) = places[pair];
        are_apart(&all[first], &all[second], more_is_better, confidence)
    });
    let means: Vec<f64> = all.iter().map(Contestant::mean).collect();
    let is_better = |one: usize, other: usize| match more_is_better {
        true => means[one] > means[other],
        false => means[one] < means[other],
    };
    let counted = |is_counted: &dyn Fn(usize) -> bool| (0..all.len()).filter(|one| is_counted(*one)).count();
    let best = |one: usize| {
        let ahead = |other: usize| is_better(other, one) && is_ahead(&all[other], &all[one]);
        1 + counted(&ahead)
    };
    let last_place = |one: usize| all.len() - counted(&|other| is_better(one, other));
    let mut worst: Vec<usize> = (0..all.len()).map(last_place).collect();
    for ((first, second), _) in places.iter().zip(&differ).filter(|(_, differ)| !**differ) {
        worst[*first] = worst[*first].max(last_place(*second));
        worst[*second] = worst[*second].max(last_place(*first));
    }
    let range = |one: usize| RankRange { best: best(one) as u32, worst: worst[one] as u32 };
    let pair = |(&(first, second), &differ): (&(usize, usize), &bool)| {
        let (a, b) = (&all[first], &all[second]);
        let noise_percent = a.noise_percent.max(b.noise_percent);
        Pair { first, second, ratio: ratio(a, b), noise_percent, differ }
    };
    Ok(Ranking {
        ranks: (0..all.len()).map(range).collect(),
        pairs: places.iter().zip(&differ).map(pair).collect(),
    })
}

/// How far the interval of the ratio of two means reaches up and down, on the logarithm: as that of a comparison (Welch),
/// and never less than either mean's alone. Welch's degrees of freedom grow when the steadier of two gets noisier, which
/// can make the interval shorter: noise would then show a difference.
fn reach(a: &Contestant, b: &Contestant, confidence: f64) -> Option<f64> {
    let alone = |one: &Contestant| statistics::log_reach_at(&one.samples, confidence);
    let both = statistics::student_ratio_at(&a.samples, &b.samples, confidence)?;
    Some(alone(a)?.max(alone(b)?).max((both.high / both.point).ln()))
}

fn ratio(a: &Contestant, b: &Contestant) -> Option<Interval> {
    if a.better_by.is_infinite() || b.better_by.is_infinite() {
        return None;
    }
    let reach = reach(a, b, CONFIDENCE)?.exp();
    let point = a.mean() / b.mean();
    Some(Interval {
        point,
        low: point / reach,
        high: point * reach,
        confidence: CONFIDENCE,
        method: Method::StudentT,
        samples: a.samples.len() + b.samples.len(),
    })
}

/// Whether two means lie farther apart, as a factor, than a reach and a noise floor.
fn are_beyond(a: &Contestant, b: &Contestant, reach: f64, noise_percent: f64) -> bool {
    (a.mean() / b.mean()).ln().abs() - reach > (noise_percent / 100.0).ln_1p()
}

/// Whether a confidence shows that two differ, even if noise took from the worse one all that it may have taken.
fn are_apart(a: &Contestant, b: &Contestant, more_is_better: bool, confidence: f64) -> bool {
    let noise_percent = a.noise_percent.max(b.noise_percent);
    let worse = if (a.mean() < b.mean()) == more_is_better { a } else { b };
    let reach = reach(a, b, confidence).map(|reach| reach + worse.better_by.ln());
    reach.is_some_and(|reach| are_beyond(a, b, reach, noise_percent))
}

/// Whether one whose mean is better is ahead of the other's estimate: by its own interval and its own noise floor, as if the
/// other had neither. Not corrected for many pairs, so that a contestant that [`are_apart`] separates from it is also ahead of it.
fn is_ahead(better: &Contestant, estimate: &Contestant) -> bool {
    let reach =
        statistics::log_reach_at(&better.samples, CONFIDENCE).filter(|_| estimate.better_by.is_finite());
    reach.is_some_and(|reach| are_beyond(better, estimate, reach, better.noise_percent))
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
