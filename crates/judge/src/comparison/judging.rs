//! When a change is more than noise.
//!
//! A change is shown when the whole interval of the ratio lies outside the noise floor: the interval excludes chance,
//! the floor what differs between two runs of the same thing. (So does Criterion.rs, "Analysis process": the interval of
//! the change against a noise threshold.)
//!
//! Each figure, each level of a sweep, and each of several candidates, is a chance to find by luck what is not there. So all
//! findings of a comparison are one family, whose error is bounded by the step-down procedure of S. Holm, *A Simple Sequentially
//! Rejective Multiple Test Procedure*, Scandinavian Journal of Statistics 6(2), 1979, which needs no independence: figures
//! move together. The leading figure has a larger share of that error, as the procedure allows by weights. Intervals are printed uncorrected.

use serde::Serialize;

use super::{Candidate, Noise, Row, Side};
use crate::statistics::{self, CONFIDENCE};
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::{Metric, Reading};
use webstone_model::record::{Arm, IterationRecord};

/// Iterations of each record below which the absence of a difference is not claimed.
pub const ITERATIONS_MIN: usize = 3;

/// How far apart two equal response times can be read from histograms of three significant digits, in percent.
const HISTOGRAM_PERCENT: f64 = 0.1;

/// The share of the error that the leading figure has, where each other one has 1. With some twelve figures a change of the leading one
/// shows from 2.7 standard errors in place of 3.3, and one of the others from 3.4.
const LEADING_WEIGHT: usize = 4;

/// What is concluded of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The candidate is better.
    Better,
    /// The candidate is worse.
    Worse,
    /// Whatever differs is within the noise, or the interval.
    NoDifferenceShown,
    /// Too little was measured to say either.
    CannotTell,
}

impl Finding {
    /// The word for it, of a metric.
    pub fn word(self, metric: Metric) -> &'static str {
        let (better, worse) = metric.words();
        match self {
            Finding::Better => better,
            Finding::Worse => worse,
            Finding::NoDifferenceShown => "no difference shown",
            Finding::CannotTell => "cannot tell",
        }
    }

    /// Whether a difference was shown.
    pub fn is_difference(self) -> bool {
        matches!(self, Finding::Better | Finding::Worse)
    }
}

/// What kept a change from being shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// One of the two has no such value.
    NotMeasured,
    /// One of the two is INVALID at this level.
    Invalid,
    /// One of the two has fewer than two iterations, or fewer than [`ITERATIONS_MIN`] and nothing was shown.
    TooFewIterations,
    /// The mean of one of the two is 0: there is no ratio.
    NoRatio,
    /// The interval of one of the two is wider than its mean: nothing can be concluded from it.
    TooWide,
    /// The interval contains no change at all.
    WithinInterval,
    /// The interval excludes no change, and not the noise floor.
    WithinNoise,
    /// The change is large enough, but noise, which has no bound for this figure, may have made it.
    Unbounded,
    /// Alone it would have been shown; among this many figures, levels and records it may be chance.
    Corrected,
}

/// Where a noise floor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FloorSource {
    /// It was typed.
    Given,
    /// What parts the two arms of A/A runs (`--aa`): the end of the interval of their ratio that is farther from 1, of the
    /// run where it is larger.
    Arms,
    /// The standard error of the mean of iterations, of the record where it is larger.
    Iterations,
    /// The resolution of the histograms, which is coarser than the iterations' standard error.
    Histogram,
}

/// What of a change is noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Floor {
    /// In percent; of errors in percentage points.
    pub value: f64,
    /// Where it comes from.
    pub source: FloorSource,
}

/// An iteration's values, and the arm of an A/A run that it belongs to.
pub(super) type Armed<'a> = (Option<Arm>, Reading<'a>);

/// Reads every iteration of a level.
pub(super) fn read<'a>(runs: &[&'a IterationRecord]) -> Vec<Armed<'a>> {
    runs.iter().map(|run| (run.arm, Reading::of_run(run))).collect()
}

/// What is known of the noise at one level.
pub(super) enum LevelNoise<'a> {
    Percent(f64),
    /// The levels of A/A runs, each of which measured one thing twice.
    Arms(Vec<&'a [Armed<'a>]>),
    Run(Vec<Vec<Armed<'a>>>),
}

impl<'a> LevelNoise<'a> {
    pub(super) fn of_level(
        noise: Noise<'a>,
        level: LevelKey,
        baseline: &'a [Armed<'a>],
        candidate: &'a [Armed<'a>],
    ) -> LevelNoise<'a> {
        match noise {
            Noise::Percent(value) => LevelNoise::Percent(value),
            Noise::Records => LevelNoise::Arms(vec![baseline, candidate]),
            Noise::Run(record) => {
                let mut levels = record.levels();
                if levels.iter().any(|(other, _)| *other == level) {
                    levels.retain(|(other, _)| *other == level);
                }
                LevelNoise::Run(levels.iter().map(|(_, runs)| read(runs)).collect())
            }
        }
    }

    /// The floor of one figure; `None` where nothing tells it, because one of the two has fewer than two iterations. A floor that was
    /// typed is relative, and so does not apply to figures that are compared by difference, such as errors. `scatter` is the standard error of
    /// the mean of iterations, the larger of the two.
    pub(super) fn floor(&self, metric: Metric, scatter: Option<f64>) -> Option<Floor> {
        let known = match self {
            LevelNoise::Percent(value) if !metric.differs() => {
                Some(Floor { value: *value, source: FloorSource::Given })
            }
            LevelNoise::Percent(_) => None,
            LevelNoise::Arms(levels) => between_arms(metric, levels.iter().copied()),
            LevelNoise::Run(levels) => between_arms(metric, levels.iter().map(Vec::as_slice)),
        };
        let of_iterations = || Some(Floor { value: scatter?, source: FloorSource::Iterations });
        let floor = known.or_else(of_iterations)?;
        Some(match metric {
            Metric::Percentile(_) if floor.value < HISTOGRAM_PERCENT => {
                Floor { value: HISTOGRAM_PERCENT, source: FloorSource::Histogram }
            }
            _ => floor,
        })
    }
}

/// The largest difference between the two arms of A/A runs.
fn between_arms<'a>(metric: Metric, levels: impl Iterator<Item = &'a [Armed<'a>]>) -> Option<Floor> {
    let of_level = |level: &[Armed<'_>]| {
        let arm = |wanted: Arm| -> Vec<f64> {
            let of_arm = level.iter().filter(|(arm, _)| *arm == Some(wanted));
            of_arm.filter_map(|(_, reading)| metric.value(reading)).collect()
        };
        let (a, b) = (arm(Arm::A), arm(Arm::B));
        match metric.differs() {
            true => statistics::difference_interval_at(&a, &b, CONFIDENCE)
                .map(|difference| difference.high.abs().max(difference.low.abs())),
            false => statistics::noise_floor(&a, &b).map(|noise| noise.percent),
        }
    };
    let value = levels.filter_map(of_level).reduce(f64::max)?;
    Some(Floor { value, source: FloorSource::Arms })
}

/// The standard error of the mean: in percent of it, or in the unit of differences. One sample has none.
pub(super) fn scatter(metric: Metric, samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = statistics::mean(samples);
    let error = statistics::standard_deviation(samples) / (samples.len() as f64).sqrt();
    Some(match metric.differs() {
        true => error,
        false if mean > 0.0 => 100.0 * error / mean,
        false => 0.0,
    })
}

/// Whether the whole interval lies outside the noise floor. Where there is an interval, there is a floor.
fn is_outside((low, high): (f64, f64), floor: Option<Floor>) -> bool {
    floor.is_some_and(|floor| low > floor.value || high < -floor.value)
}

impl Row {
    /// Whether the 95 % interval of either mean is wider than the mean. A figure that is compared by
    /// difference may be 0, and then has no relative width.
    pub(crate) fn is_inconclusive(&self) -> bool {
        let is_wide = |samples: &[f64]| {
            statistics::mean_interval(samples).is_some_and(|interval| interval.is_wider_than_its_value())
        };
        !self.metric.differs() && (is_wide(&self.baseline.samples) || is_wide(&self.candidate.samples))
    }

    /// Whether the figure of one of the two is not to be used. How many requests failed is what it is.
    pub(crate) fn is_invalid(&self) -> bool {
        !self.metric.differs() && (self.baseline.is_invalid || self.candidate.is_invalid)
    }

    /// Iterations of the one of the two that has fewer.
    pub(crate) fn fewest_iterations(&self) -> usize {
        self.baseline.samples.len().min(self.candidate.samples.len())
    }

    /// The standard error of the mean of iterations, of the record where it is larger. What scatters with the speed of the machine is not in it where
    /// that is taken out.
    pub(super) fn scatter(&self) -> Option<f64> {
        if let Some(at_one_speed) = self.at_one_speed() {
            return Some(at_one_speed.error_of_mean_percent());
        }
        let of = |side: &Side| scatter(self.metric, &side.samples);
        Some(of(&self.baseline)?.max(of(&self.candidate)?))
    }

    /// Whether a difference can be found at all: not in what was not measured, nor where all values are equal, as without any errors.
    fn can_differ(&self) -> bool {
        self.change.is_some_and(|change| (change.point, change.low, change.high) != (0.0, 0.0, 0.0))
    }

    /// Whether a change is shown with some confidence.
    pub(crate) fn shown_at(&self, confidence: f64) -> bool {
        self.change_at(confidence).is_some_and(|change| is_outside(self.ends(&change), self.floor))
    }
}

/// Holm's procedure over a family of `members`, all of equal weight.
pub fn holm(members: usize, rejects: impl Fn(usize, f64) -> bool) -> Vec<bool> {
    weighted_holm(&vec![1; members], rejects)
}

/// Holm's procedure over a family whose members have these weights, at least 1: which hypotheses are rejected so that the chance of
/// rejecting a true one anywhere stays below 1 − [`CONFIDENCE`] = α. `rejects` says whether a member alone is rejected at a confidence; if
/// it is, it must be at every lower one.
///
/// The procedure asks whether the surest member that is left falls at α · its weight / the weight of all that are left. With the largest n
/// with which it still falls at α / n, found by halving, a member is the surer the larger n times its weight.
pub(super) fn weighted_holm(weights: &[usize], rejects: impl Fn(usize, f64) -> bool) -> Vec<bool> {
    let mut left: usize = weights.iter().sum();
    let falls = |member: usize, shares: usize| rejects(member, 1.0 - (1.0 - CONFIDENCE) / shares as f64);
    let most_shares = |member: usize| -> usize {
        let (mut falling, mut standing) = (0, left + 1);
        while standing - falling > 1 {
            let middle = falling.midpoint(standing);
            if falls(member, middle) { falling = middle } else { standing = middle }
        }
        falling
    };
    let mut order: Vec<(usize, usize)> =
        (0..weights.len()).map(|member| (most_shares(member), member)).collect();
    order.sort_unstable_by_key(|(shares, member)| (std::cmp::Reverse(*shares * weights[*member]), *member));
    let mut rejected = vec![false; weights.len()];
    for (shares, member) in order {
        // After the first that stands, all others stand.
        if shares < left.div_ceil(weights[member]) {
            break;
        }
        rejected[member] = true;
        left -= weights[member];
    }
    rejected
}

/// The figure that answers what most comparisons ask: in closed loop the request rate, in open loop, where the rate is given, the mean response
/// time.
pub fn leading(is_open_loop: bool) -> Metric {
    if is_open_loop { Metric::MEAN } else { Metric::RATE }
}

/// Makes the findings on all figures, levels and candidates.
pub(super) fn judge(candidates: &mut [Candidate]) {
    let levels = candidates.iter_mut().flat_map(|candidate| &mut candidate.levels);
    let mut rows: Vec<(bool, &mut Row)> = levels
        .flat_map(|level| {
            let leading = leading(level.rate.is_some());
            level.rows.iter_mut().map(move |row| (row.metric == leading, row))
        })
        .collect();
    let members: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].1.can_differ()).collect();
    let weight = |row: &usize| if rows[*row].0 { LEADING_WEIGHT } else { 1 };
    let weights: Vec<usize> = members.iter().map(weight).collect();
    let all: usize = weights.iter().sum();
    let shown = weighted_holm(&weights, |member, confidence| rows[members[member]].1.shown_at(confidence));
    let confidence = 1.0 - (1.0 - CONFIDENCE) / members.len().max(1) as f64;
    for (_, row) in &mut rows {
        row.shows_from = row.shows_from_at(confidence);
        (row.finding, row.why) = unshown(row);
    }
    for ((member, weight), shown) in members.iter().zip(weights).zip(shown) {
        let row = &mut rows[*member].1;
        row.shows_from = row.shows_from_at(1.0 - (1.0 - CONFIDENCE) * weight as f64 / all as f64);
        if !shown || row.is_inconclusive() || row.is_invalid() {
            continue;
        }
        let more = row.change.is_some_and(|change| change.point > 0.0);
        row.why = None;
        row.finding = if more == row.metric.more_is_better() { Finding::Better } else { Finding::Worse };
    }
}

/// What is said of a row in which no difference is shown.
fn unshown(row: &Row) -> (Finding, Option<Why>) {
    let fewest = row.fewest_iterations();
    let (finding, why) = match &row.change {
        None if fewest == 0 => (Finding::CannotTell, Why::NotMeasured),
        None if fewest < 2 => (Finding::CannotTell, Why::TooFewIterations),
        None => (Finding::CannotTell, Why::NoRatio),
        Some(_) if row.is_invalid() => (Finding::CannotTell, Why::Invalid),
        Some(_) if fewest < ITERATIONS_MIN => (Finding::CannotTell, Why::TooFewIterations),
        Some(_) if row.is_inconclusive() => (Finding::CannotTell, Why::TooWide),
        Some(change) if is_outside(row.ends(change), row.floor) => {
            (Finding::NoDifferenceShown, Why::Corrected)
        }
        Some(change) if is_outside((change.low, change.high), row.floor) => {
            (Finding::NoDifferenceShown, Why::Unbounded)
        }
        Some(change) if change.contains(0.0) => (Finding::NoDifferenceShown, Why::WithinInterval),
        Some(_) => (Finding::NoDifferenceShown, Why::WithinNoise),
    };
    (finding, Some(why))
}
