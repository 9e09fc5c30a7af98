//! Intervals by Student's t: for the few iterations that a run usually has.
//!
//! Of a mean: "Student", *The Probable Error of a Mean*, Biometrika 6(1), 1908. Of a ratio of two means: the logarithm
//! of the ratio has, by the delta method, the variance s²ₐ/(nₐ ā²) + s²_b/(n_b b̄²), with the degrees of freedom of
//! B. L. Welch, *The generalization of "Student's" problem*, Biometrika 34, 1947. Fieller's interval agrees with it where
//! means are known to some percent, as here, and is not finite where they are not.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{CONFIDENCE, Interval, Method, mean, variance};

/// The 95 % interval of the mean: x̄ ± t(n − 1) s/√n. `None` below two values, or where a value is not finite.
pub fn student_mean(samples: &[f64]) -> Option<Interval> {
    student_mean_at(samples, CONFIDENCE)
}

/// [`student_mean`] with another confidence, above 0 and below 1.
pub fn student_mean_at(samples: &[f64], confidence: f64) -> Option<Interval> {
    if samples.len() < 2 || !samples.iter().all(|value| value.is_finite()) {
        return None;
    }
    let point = mean(samples);
    let reach =
        quantile(samples.len() as f64 - 1.0, confidence)? * (variance(samples) / samples.len() as f64).sqrt();
    made([point, point - reach, point + reach], samples.len(), confidence)
}

/// The 95 % interval of the mean of `a` over the mean of `b`, symmetric on the logarithm. `None` as for
/// [`super::ratio_interval`].
pub fn student_ratio(a: &[f64], b: &[f64]) -> Option<Interval> {
    student_ratio_at(a, b, CONFIDENCE)
}

/// [`student_ratio`] with another confidence.
pub fn student_ratio_at(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    let point = super::interval_ratio(a, b)?;
    let relative = |samples: &[f64]| variance(samples) / (samples.len() as f64 * mean(samples).powi(2));
    let (va, vb) = (relative(a), relative(b));
    if va + vb == 0.0 {
        return made([point; 3], a.len() + b.len(), confidence);
    }
    let reach = (quantile(freedom(va, vb, a, b), confidence)? * (va + vb).sqrt()).exp();
    made([point, point / reach, point * reach], a.len() + b.len(), confidence)
}

/// The interval of the mean of `a` minus the mean of `b`. `None` as for [`super::difference_interval_at`].
pub fn student_difference_at(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    if a.len().min(b.len()) < 2 {
        return None;
    }
    let point = mean(a) - mean(b);
    let (va, vb) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    if va + vb == 0.0 {
        return made([point; 3], a.len() + b.len(), confidence);
    }
    let reach = quantile(freedom(va, vb, a, b), confidence)? * (va + vb).sqrt();
    made([point, point - reach, point + reach], a.len() + b.len(), confidence)
}

/// How far the interval of a mean reaches, on the logarithm and so relative to the mean. `None` below two values, where a
/// value is negative or not finite, or the mean is 0.
pub(crate) fn log_reach_at(samples: &[f64], confidence: f64) -> Option<f64> {
    super::interval_ratio(samples, samples)?;
    let error = variance(samples) / (samples.len() as f64 * mean(samples).powi(2));
    Some(quantile(samples.len() as f64 - 1.0, confidence)? * error.sqrt())
}

/// Welch's degrees of freedom, from the variances of the two means.
fn freedom(va: f64, vb: f64, a: &[f64], b: &[f64]) -> f64 {
    (va + vb).powi(2) / (va.powi(2) / (a.len() as f64 - 1.0) + vb.powi(2) / (b.len() as f64 - 1.0))
}

/// t such that the share `confidence` of the distribution lies within ±t.
pub(super) fn quantile(freedom: f64, confidence: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf((1.0 + confidence) / 2.0);
    t.is_finite().then_some(t)
}

fn made([point, low, high]: [f64; 3], samples: usize, confidence: f64) -> Option<Interval> {
    let finite = point.is_finite() && low.is_finite() && high.is_finite();
    finite.then_some(Interval { point, low, high, confidence, method: Method::StudentT, samples })
}
