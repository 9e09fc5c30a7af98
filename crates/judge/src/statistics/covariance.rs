//! A ratio of two means at one value of something that moved both: the analysis of covariance of R. A. Fisher, *Statistical Methods for
//! Research Workers*, 4th edition, 1932, section 49.1, on logarithms.
//!
//! Each sample comes with a covariate, and both sides share the slope of one on the other. As few samples say little of the slope, an
//! expected one is drawn in with the weight of its own error, as in the ridge regression of A. E. Hoerl and R. W. Kennard, *Technometrics*
//! 12(1), 1970. Where the covariate hardly moves within a side, its errors of measurement do, and make the slope of the samples too flat: it is
//! corrected by the share of the variance that is no such error (W. A. Fuller, *Measurement Error Models*, 1987, section 1.2).

use super::student::quantile;
use super::{Interval, Method, mean};

/// Few samples cannot tell a stronger correlation of neighbours from a trend.
const CORRELATION_MAX: f64 = 0.8;

/// A sample and its covariate, both above 0.
pub type Paired = (f64, f64);

/// What is known beforehand, all on logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// The slope of samples on their covariate.
    pub slope: f64,
    /// Standard error of the slope.
    pub slope_error: f64,
    /// Standard error with which a covariate is measured.
    pub covariate_error: f64,
    /// Standard deviation of what all samples of a side have in common, beside the covariate.
    pub side_deviation: f64,
}

/// The ratio of two means, with what the covariate did to either taken out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdjustedRatio {
    /// Logarithm of the ratio of the geometric means, the first over the second, at one value of the covariate.
    log_ratio: f64,
    /// Its standard error.
    error: f64,
    /// That of the logarithm of either mean, as far as samples show it.
    error_of_mean: [f64; 2],
    freedom: f64,
    samples: usize,
    /// The slope that was used.
    pub slope: f64,
}

impl AdjustedRatio {
    /// `None` with fewer than two samples of either, or four together, or where a number is not above 0 and finite.
    pub fn between(a: &[Paired], b: &[Paired], prior: Prior) -> Option<AdjustedRatio> {
        let is_usable = |(value, covariate): &Paired| {
            [value, covariate].iter().all(|number| **number > 0.0 && number.is_finite())
        };
        let samples = a.len() + b.len();
        if a.len().min(b.len()) < 2 || samples < 4 || !a.iter().chain(b).all(is_usable) {
            return None;
        }
        let (a, b) = (Centred::of_samples(a), Centred::of_samples(b));
        let freedom = samples as f64 - 3.0;
        let sum = |of: fn(&(f64, f64)) -> f64| a.rest.iter().chain(&b.rest).map(of).sum::<f64>();
        let (xx, xy) = (sum(|(_, x)| x * x), sum(|(y, x)| x * y));
        let variance = |slope: f64| {
            a.rest.iter().chain(&b.rest).map(|(y, x)| (y - slope * x).powi(2)).sum::<f64>() / freedom
        };
        let from_errors = (samples as f64 - 2.0) * prior.covariate_error.powi(2);
        let (reliability, steepest) =
            if xx > 0.0 { ((1.0 - from_errors / xx).max(0.0), xy / xx) } else { (0.0, 0.0) };
        // What the samples say of the slope counts by the inverse of its variance, and so does the prior.
        let prior_weight = variance(steepest) / prior.slope_error.powi(2);
        let weight = reliability.powi(2) * xx + prior_weight;
        let slope = match weight > 0.0 {
            true => (reliability * xy + prior_weight * prior.slope) / weight,
            false => prior.slope,
        };
        // Errors of the covariate flatten the slope within a side. Between the sides, which have means of it, they hardly do.
        let within = reliability * slope;
        let variance = variance(within) * inflation(&a, &b, within);
        let between = a.covariate - b.covariate;
        let error_of_mean = [&a, &b].map(|side| {
            let from_covariate = (slope * prior.covariate_error).powi(2);
            ((variance + from_covariate) / side.rest.len() as f64).sqrt()
        });
        // Samples without any scatter say nothing of the slope's error.
        let slope_variance =
            if weight > prior_weight { variance / weight } else { prior.slope_error.powi(2) };
        let [one, other] = error_of_mean;
        Some(AdjustedRatio {
            log_ratio: a.value - b.value - slope * between,
            error: (one.powi(2)
                + other.powi(2)
                + between.powi(2) * slope_variance
                + 2.0 * prior.side_deviation.powi(2))
            .sqrt(),
            error_of_mean,
            freedom,
            samples,
            slope,
        })
    }

    /// The ratio, the first over the second, with an interval.
    pub fn ratio_at(&self, confidence: f64) -> Option<Interval> {
        let reach = quantile(self.freedom, confidence)? * self.error;
        let [point, low, high] = [0.0, -reach, reach].map(|away| (self.log_ratio + away).exp());
        let is_finite = point.is_finite() && low.is_finite() && high.is_finite();
        is_finite.then_some(Interval {
            point,
            low,
            high,
            confidence,
            method: Method::Covariance,
            samples: self.samples,
        })
    }

    /// The larger standard error of a mean, in percent of it.
    pub fn error_of_mean_percent(&self) -> f64 {
        let [one, other] = self.error_of_mean;
        100.0 * one.max(other)
    }
}

/// A side: the means of its logarithms, and what each differs from them.
struct Centred {
    value: f64,
    covariate: f64,
    rest: Vec<(f64, f64)>,
}

impl Centred {
    fn of_samples(samples: &[Paired]) -> Centred {
        let logs: Vec<(f64, f64)> = samples.iter().map(|(value, by)| (value.ln(), by.ln())).collect();
        let value = mean(&logs.iter().map(|(value, _)| *value).collect::<Vec<_>>());
        let covariate = mean(&logs.iter().map(|(_, by)| *by).collect::<Vec<_>>());
        let rest = logs.iter().map(|(y, x)| (y - value, x - covariate)).collect();
        Centred { value, covariate, rest }
    }
}

/// By which factor the variance of a mean is larger because what is left of successive samples is alike: (1 + ρ) / (1 − ρ), with the
/// correlation ρ of neighbours, at least 0. Its estimate is too low by about (1 + 3ρ) / n (F. H. C. Marriott, J. A. Pope, *Bias in the
/// Estimation of Autocorrelations*, Biometrika 41, 1954).
fn inflation(a: &Centred, b: &Centred, slope: f64) -> f64 {
    let (mut all, mut neighbours) = (0.0, 0.0);
    for side in [a, b] {
        let left: Vec<f64> = side.rest.iter().map(|(y, x)| y - slope * x).collect();
        all += left.iter().map(|value| value * value).sum::<f64>();
        neighbours += left.windows(2).map(|two| two[0] * two[1]).sum::<f64>();
    }
    if all == 0.0 {
        return 1.0;
    }
    let seen = neighbours / all;
    let samples = (a.rest.len() + b.rest.len()) as f64 / 2.0;
    let correlation = (seen + (1.0 + 3.0 * seen) / samples).clamp(0.0, CORRELATION_MAX);
    (1.0 + correlation) / (1.0 - correlation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noisy::Noisy;

    const PRIOR: Prior = Prior { slope: 0.4, slope_error: 0.25, covariate_error: 0.0, side_deviation: 0.0 };

    #[test]
    fn what_follows_the_covariate_exactly_is_taken_out_exactly() {
        let of = |factor: f64, covariates: [f64; 3]| covariates.map(|by| (factor * by.powf(0.7), by));
        let adjusted =
            AdjustedRatio::between(&of(3.3, [1.0, 2.0, 3.0]), &of(3.0, [2.0, 4.0, 5.0]), PRIOR).unwrap();
        let ratio = adjusted.ratio_at(0.95).unwrap();
        assert!((ratio.point - 1.1).abs() < 1e-12 && (adjusted.slope - 0.7).abs() < 1e-12, "{adjusted:?}");
        assert!(ratio.high - ratio.low < 1e-9 && adjusted.error_of_mean_percent() < 1e-9, "{ratio:?}");
    }

    /// Whether samples scatter or not: they say nothing of the slope.
    #[test]
    fn where_the_covariate_stands_still_the_slope_is_the_prior_with_its_error() {
        let of = |values: [f64; 3], covariate: f64| values.map(|value| (value, covariate));
        for values in [[10.0, 10.2, 9.8], [10.0; 3]] {
            let adjusted =
                |prior: Prior| AdjustedRatio::between(&of(values, 2.0), &of(values, 1.0), prior).unwrap();
            let (wide, narrow) = (adjusted(PRIOR), adjusted(Prior { slope_error: 0.0001, ..PRIOR }));
            assert_eq!((wide.slope, narrow.slope), (0.4, 0.4));
            assert!((wide.ratio_at(0.95).unwrap().point - 2_f64.powf(-0.4)).abs() < 1e-12, "{wide:?}");
            assert!(
                wide.error >= 0.25 * 2_f64.ln() && narrow.error < wide.error / 2.0,
                "{wide:?} {narrow:?}"
            );
        }
    }

    /// Of 1,000 pairs each, 95 % ± 4 standard deviations, or more, since correlation is never taken to be below 0.
    #[test]
    fn the_interval_contains_the_truth_as_often_as_it_says() {
        let mut noisy = Noisy::new(5);
        for (slope, correlation) in [(0.0, 0.0), (0.4, 0.0), (0.8, 0.0), (0.4, 0.5_f64)] {
            let mut side = |level: f64| -> Vec<Paired> {
                let mut left = noisy.normal();
                let mut sample = || {
                    let by = level + 0.1 * noisy.normal();
                    left = correlation * left + (1.0 - correlation.powi(2)).sqrt() * noisy.normal();
                    ((slope * by + 0.02 * left).exp(), by.exp())
                };
                (0..10).map(|_| sample()).collect()
            };
            let mut contains = || {
                let adjusted = AdjustedRatio::between(&side(0.2), &side(0.0), PRIOR).unwrap();
                adjusted.ratio_at(0.95).unwrap().contains(1.0)
            };
            let share = (0..1_000).filter(|_| contains()).count();
            assert!(
                share >= if correlation > 0.0 { 880 } else { 922 },
                "{share} with slope {slope}, correlation {correlation}"
            );
        }
    }

    /// Each side stood still by itself, so that its covariates differ by their errors only.
    #[test]
    fn a_slope_is_not_taken_from_errors_of_measurement() {
        let mut noisy = Noisy::new(6);
        let mut side = |level: f64| -> Vec<Paired> {
            let mut sample = || {
                let value = 0.4 * level + 0.01 * noisy.normal();
                (value.exp(), (level + 0.02 * noisy.normal()).exp())
            };
            (0..10).map(|_| sample()).collect()
        };
        let sides: Vec<[Vec<Paired>; 2]> = (0..1_000).map(|_| [side(0.4), side(0.0)]).collect();
        let contains = |prior: Prior| {
            let of = |[a, b]: &[Vec<Paired>; 2]| AdjustedRatio::between(a, b, prior)?.ratio_at(0.95);
            sides.iter().filter(|sides| of(sides).is_some_and(|ratio| ratio.contains(1.0))).count()
        };
        assert!(contains(Prior { covariate_error: 0.02, ..PRIOR }) >= 922);
        assert!(contains(PRIOR) < 800, "{}", contains(PRIOR));
    }

    #[test]
    fn what_a_side_has_in_common_is_in_the_interval() {
        let (a, b) = ([(10.0, 1.0), (10.1, 1.1), (9.9, 0.9)], [(10.0, 1.1), (10.2, 1.0), (9.8, 0.9)]);
        let of =
            |side_deviation: f64| AdjustedRatio::between(&a, &b, Prior { side_deviation, ..PRIOR }).unwrap();
        assert!((of(0.03).error.powi(2) - of(0.0).error.powi(2) - 2.0 * 0.03 * 0.03).abs() < 1e-12);
        assert_eq!(of(0.03).error_of_mean_percent(), of(0.0).error_of_mean_percent());
    }

    #[test]
    fn there_is_no_ratio_of_what_is_not_above_zero_or_too_little() {
        let good = [(1.0, 1.0), (2.0, 1.0)];
        assert!(AdjustedRatio::between(&good, &good, PRIOR).is_some());
        for bad in
            [&good[..1], &[(0.0, 1.0), (2.0, 1.0)], &[(1.0, 0.0), (2.0, 1.0)], &[(1.0, f64::NAN), (2.0, 1.0)]]
        {
            assert_eq!(AdjustedRatio::between(&good, bad, PRIOR), None);
            assert_eq!(AdjustedRatio::between(bad, &good, PRIOR), None);
        }
    }
}
