//! Whether the warm-up was enough: MSER-5 over the seconds of a window.
//!
//! K. P. White: *An Effective Truncation Heuristic for Bias Reduction in Simulation Output*, Simulation 69(6), 1997; in
//! batches of five: K. P. White, M. Cobb, S. Spratt, *A Comparison of Five Steady-State Truncation Heuristics*, WSC 2000.
//! The truncation point is where the standard error of what remains is least. They reject points in the second half,
//! where a few batches are alike by chance; so only the first half is searched here, and whether the rest is steady is
//! judged by comparing its two halves.

use serde::{Deserialize, Serialize};

use super::mean;

/// Observations of a batch.
pub const MSER_BATCH: usize = 5;
/// Fewest batches that can be judged: below, the rule picks a point by chance.
pub const MSER_BATCHES_MIN: usize = 10;
/// Change of the mean by cutting, in percent, up to which the window counts as steady from its start.
pub const SHIFT_PERCENT_MAX: f64 = 1.0;
/// Difference of two parts' means in standard errors of it, up to which it may be chance. High, because the point is
/// chosen to make the difference large.
const APART_ERRORS_MIN: f64 = 4.0;
/// Fewest batches whose spread says something.
const SPREAD_BATCHES_MIN: usize = 5;

/// What MSER-5 says of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteadyState {
    /// Observations judged: whole batches only.
    pub observations: usize,
    /// Observations before the truncation point: what should have been warm-up still.
    pub truncate: usize,
    /// Mean of all observations that were judged.
    pub mean: f64,
    /// Mean of those after the truncation point.
    pub mean_steady: f64,
    /// How much the former is off the latter, in percent of it.
    pub shift_percent: f64,
    /// What follows.
    pub steadiness: Steadiness,
}

/// Whether a series is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Steadiness {
    /// From its first observation on, or as nearly as makes no difference to its mean.
    FromTheStart,
    /// Only after the truncation point: the warm-up was too short by this much.
    Later,
    /// What follows the truncation point still drifts: there is no steady state in this series.
    Never,
}

/// Judges a series of equally long observations. `None` below [`MSER_BATCHES_MIN`] batches of [`MSER_BATCH`].
pub fn mser5(series: &[f64]) -> Option<SteadyState> {
    let batches: Vec<f64> = series.chunks_exact(MSER_BATCH).map(mean).collect();
    let n = batches.len();
    if n < MSER_BATCHES_MIN || !series.iter().all(|value| value.is_finite()) {
        return None;
    }
    // From the back, so that each step adds one batch (B. P. Welford, Technometrics 4(3), 1962).
    let (mut centre, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (remaining, first) in (0..n).rev().enumerate() {
        let remaining = remaining + 1;
        let delta = batches[first] - centre;
        centre += delta / remaining as f64;
        squares += delta * (batches[first] - centre);
        let error = squares / (remaining as f64).powi(2);
        // Of equal points the earlier: nothing is cut without a gain.
        if first <= n / 2 && error <= best.0 {
            best = (error, first);
        }
    }
    let cut = best.1;
    let (all, steady) = (mean(&batches), mean(&batches[cut..]));
    let shift_percent = shift(all, steady);
    let moved = |before: &[f64], behind: &[f64], shift: f64| {
        shift.abs() > SHIFT_PERCENT_MAX && is_apart(before, behind)
    };
    let (first, second) = batches[cut..].split_at((n - cut) / 2);
    let steadiness = if moved(first, second, shift(mean(first), mean(second))) {
        Steadiness::Never
    } else if moved(&batches[..cut], &batches[cut..], shift_percent) {
        Steadiness::Later
    } else {
        Steadiness::FromTheStart
    };
    Some(SteadyState {
        observations: n * MSER_BATCH,
        truncate: cut * MSER_BATCH,
        mean: all,
        mean_steady: steady,
        shift_percent,
        steadiness,
    })
}

/// How much a mean is off another, in percent of the latter.
fn shift(mean: f64, from: f64) -> f64 {
    if from == 0.0 { 0.0 } else { 100.0 * (mean - from) / from }
}

/// Whether two parts differ by more than chance. The spread is that of the steadier of the two, as a part that holds a
/// step or a slope spreads by it; a part of few batches is steady by chance and does not count.
fn is_apart(before: &[f64], behind: &[f64]) -> bool {
    if before.is_empty() {
        return false;
    }
    let spread = match before.len() {
        SPREAD_BATCHES_MIN.. => super::variance(behind).min(super::variance(before)),
        _ => super::variance(behind),
    };
    let error = (spread / before.len() as f64 + spread / behind.len() as f64).sqrt();
    (mean(before) - mean(behind)).abs() > APART_ERRORS_MIN * error
}
