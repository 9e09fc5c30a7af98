//! Statistics over iterations and over seconds: intervals, outliers, steady state, the noise floor. Pure arithmetic on
//! slices; what is put in, and what follows from it, is decided by [`crate::verdict`] and by reports.
//!
//! Definitions and sources are in `docs/measurement.md`, "Statistics". Every routine is checked against values of SciPy in
//! `tests/statistics.rs`. The distributions' quantiles are those of the `statrs` crate.

mod bootstrap;
mod covariance;
mod interval;
mod level;
mod noise;
mod outliers;
mod steady;
mod student;

pub use bootstrap::{
    BOOTSTRAP_CONFIDENCE_MAX, BOOTSTRAP_SAMPLES_MIN, RESAMPLES, bootstrap_mean, bootstrap_ratio,
    bootstrap_ratio_at,
};
pub use covariance::{AdjustedRatio, Paired, Prior};
pub use interval::{CONFIDENCE, Interval, Method};
pub use level::{LevelStatistics, request_rate_noise, steady_state};
pub use noise::{NoiseFloor, noise_floor};
pub use outliers::{OUTLIER_SAMPLES_MIN, OUTLIER_SHARE_MIN, OUTLIER_Z, modified_z, outliers};
pub use steady::{MSER_BATCH, MSER_BATCHES_MIN, SHIFT_PERCENT_MAX, Steadiness, SteadyState, mser5};
pub(crate) use student::log_reach_at;
pub use student::{student_difference_at, student_mean, student_mean_at, student_ratio, student_ratio_at};

/// The 95 % interval of the mean of a sample, by the bootstrap from [`BOOTSTRAP_SAMPLES_MIN`] values on and by
/// Student's t below. `None` below two values, or where a value is not finite.
pub fn mean_interval(samples: &[f64]) -> Option<Interval> {
    match samples.len() {
        BOOTSTRAP_SAMPLES_MIN.. => bootstrap_mean(samples).or_else(|| student_mean(samples)),
        _ => student_mean(samples),
    }
}

/// The 95 % interval of the mean of `a` over the mean of `b`: by the bootstrap where both have
/// [`BOOTSTRAP_SAMPLES_MIN`] values, by Student's t on the logarithm of the ratio otherwise. Exchanging `a` and `b` gives
/// the reciprocal. `None` where one has fewer than two values, a value is negative or not finite, or a mean is 0.
pub fn ratio_interval(a: &[f64], b: &[f64]) -> Option<Interval> {
    ratio_interval_at(a, b, CONFIDENCE)
}

/// [`ratio_interval`] with another confidence, above 0 and below 1: what a correction for many comparisons asks for. Above
/// [`BOOTSTRAP_CONFIDENCE_MAX`] by Student's t, however many values there are.
pub fn ratio_interval_at(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    match a.len().min(b.len()) {
        BOOTSTRAP_SAMPLES_MIN.. if confidence <= BOOTSTRAP_CONFIDENCE_MAX => {
            bootstrap_ratio_at(a, b, confidence).or_else(|| student_ratio_at(a, b, confidence))
        }
        _ => student_ratio_at(a, b, confidence),
    }
}

/// The interval of the mean of `a` minus the mean of `b`, by Student's t with Welch's degrees of freedom; for what may be
/// 0, as a share of errors. `None` where one has fewer than two values, or a value is not finite.
pub fn difference_interval_at(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    student_difference_at(a, b, confidence)
}

/// The sample's standard deviation, divisor n − 1; 0 below two values.
pub fn standard_deviation(samples: &[f64]) -> f64 {
    variance(samples).sqrt()
}

/// The arithmetic mean; 0 of nothing.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The median; the mean of the middle two of an even number. `None` of nothing.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The sample's variance, divisor n − 1; 0 below two values. In two passes, so that a small spread around a large mean
/// is not lost.
fn variance(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    samples.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64
}

/// The ratio of two means, where there is one and both sides can have an interval.
fn interval_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let fit = |samples: &[f64]| {
        samples.len() >= 2
            && samples.iter().all(|value| value.is_finite() && *value >= 0.0)
            && mean(samples) > 0.0
    };
    (fit(a) && fit(b)).then(|| mean(a) / mean(b)).filter(|ratio| ratio.is_finite())
}
