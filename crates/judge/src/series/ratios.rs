//! Means and ratios of timed runs with their intervals, in percent where tables have them so.

use webstone_measure::metric::{Metric, Reading};
use webstone_model::record::IterationRecord;

use crate::statistics::{self, Interval};

/// A figure of each timed run.
pub(super) fn samples(runs: &[&IterationRecord], metric: Metric) -> Vec<f64> {
    runs.iter().filter_map(|run| metric.value(&Reading::of_run(run))).collect()
}

/// A mean with its interval, or without where there are too few values.
pub(super) fn mean_with_interval(samples: &[f64]) -> Option<Interval> {
    let bare = || (!samples.is_empty()).then(|| Interval::bare(statistics::mean(samples)));
    statistics::mean_interval(samples).or_else(bare)
}

fn quotient(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (statistics::mean(a), statistics::mean(b));
    (a > 0.0 && b > 0.0).then(|| a / b)
}

/// A ratio of means with its interval, or without where there are too few values.
pub(super) fn ratio(a: &[f64], b: &[f64]) -> Option<Interval> {
    statistics::ratio_interval(a, b).or_else(|| quotient(a, b).map(Interval::bare))
}

pub(super) fn times(ratio: Interval, factor: f64) -> Interval {
    ratio.map(|value| factor * value)
}

pub(super) fn percent(ratio: Interval) -> Interval {
    times(ratio, 100.0)
}

pub(super) fn percent_more(ratio: Interval) -> Interval {
    percent(ratio).map(|value| value - 100.0)
}
