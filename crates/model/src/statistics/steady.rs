//! Whether the warm-up was enough: MSER-5 over the seconds of a window.
//!
//! K. P. White: *An Effective Truncation Heuristic for Bias Reduction in Simulation Output*, Simulation 69(6), 1997; in
//! batches of five: K. P. White, M. Cobb, S. Spratt, *A Comparison of Five Steady-State Truncation Heuristics*, WSC 2000.
//! The truncation point is where the standard error of what remains is least; one in the second half says that the
//! window has no steady state to show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mean;

/// Observations of a batch.
pub const MSER_BATCH: usize = 5;
/// Fewest batches that can be judged: below, the rule picks a point by chance.
pub const MSER_BATCHES_MIN: usize = 10;
/// Batches at the end that are never looked at alone: the few that remain are alike by chance.
const BATCHES_KEPT: usize = 5;
/// Change of the mean by cutting, in percent, up to which the window counts as steady from its start.
pub const SHIFT_PERCENT_MAX: f64 = 1.0;
/// The same in standard errors of the difference between what is cut and what remains: less is chance.
const SHIFT_ERRORS_MIN: f64 = 4.0;

/// What MSER-5 says of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyState {
    /// Observations judged: whole batches only.
    pub observations: usize,
    /// Observations before the truncation point: what should have been warm-up still.
    pub truncate: usize,
    /// Mean of all observations that were judged.
    pub mean: f64,
    /// Mean of those behind the truncation point.
    pub mean_steady: f64,
    /// How much the former is off the latter, in percent of it.
    pub shift_percent: f64,
    /// What follows.
    pub steadiness: Steadiness,
}

/// Whether a series is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Steadiness {
    /// From its first observation on, or as nearly as makes no difference to its mean.
    FromTheStart,
    /// Only behind the truncation point: the warm-up was too short by so much.
    Later,
    /// The truncation point lies in the second half: there is no steady state in this series.
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
        if remaining >= BATCHES_KEPT && error <= best.0 {
            best = (error, first);
        }
    }
    let cut = best.1;
    let (all, steady) = (mean(&batches), mean(&batches[cut..]));
    let shift_percent = if steady == 0.0 { 0.0 } else { 100.0 * (all - steady) / steady };
    let matters = shift_percent.abs() > SHIFT_PERCENT_MAX && is_apart(&batches[..cut], &batches[cut..]);
    let steadiness = match (matters, cut * 2 > n) {
        (false, _) => Steadiness::FromTheStart,
        (true, false) => Steadiness::Later,
        (true, true) => Steadiness::Never,
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

/// Whether what was cut differs from what remains by more than chance. The spread is that of what remains: the cut part
/// may be a single batch, or a slope.
fn is_apart(cut: &[f64], steady: &[f64]) -> bool {
    if cut.is_empty() {
        return false;
    }
    let spread = super::variance(steady);
    let error = (spread / cut.len() as f64 + spread / steady.len() as f64).sqrt();
    (mean(cut) - mean(steady)).abs() > SHIFT_ERRORS_MIN * error
}
