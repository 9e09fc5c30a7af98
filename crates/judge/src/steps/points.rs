//! Points of change in a series of values: E-divisive means with Student's t test and a merging pass.
//!
//! M. Fleming, P. Kołaczkowski, I. Kumar, S. Das, S. McCarthy, P. Pattabhiraman, H. Ingo: *Hunter: Using Change Point Detection
//! to Hunt for Performance Regressions*, ICPE 2023, arXiv 2301.03034, as Apache Otava implements it; the divergence is that of
//! D. S. Matteson, N. A. James: *A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data*, JASA 109(505),
//! 2014, arXiv 1306.4933. Hunter replaced that paper's permutation test by the t test, which is deterministic and finds steps of
//! few values, and splits window by window at ten times the level, so that a great step far away hides no small one; points that
//! are weak by the final level are then merged away, the weakest first.
//!
//! Three things differ from Otava 0.8. A side has at least [`SIDE_MIN`] values: one odd run is no step, and no interval is made of
//! one. The variance has the divisor n − 1, as Student's test has; with n, as there, steps of few values are found too often.
//! And when a point is merged away, both of its neighbours are looked at again, not the right one alone. With the first two put
//! back, results are those of Otava's first pass and test (`tests/reference/steps.py`).
//!
//! A step that is reverted after a few values may be missed, as by Otava: it is first tested against all later values of a window.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::statistics::mean;

/// Highest p value of a point of change.
pub const P_MAX: f64 = 0.001;
/// Fewest values on either side of a point of change.
pub const SIDE_MIN: usize = 3;
/// Values that are looked at together in the first pass.
pub const WINDOW: usize = 50;

/// Factor of the level of the first pass.
const FIRST_PASS: f64 = 10.0;

/// What is required of a point.
pub(super) struct Rules {
    pub(super) side_min: usize,
    /// What is subtracted from the number of values in the divisor of a variance.
    pub(super) divisor_less: f64,
    pub(super) p_max: f64,
}

pub(super) const OURS: Rules = Rules { side_min: SIDE_MIN, divisor_less: 1.0, p_max: P_MAX };

/// A point of change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// The first value after it.
    pub(super) index: usize,
    /// Of the t test of the values between it and its neighbours.
    pub(super) p_value: f64,
}

/// All points of change, ascending.
pub(super) fn points(values: &[f64], rules: &Rules) -> Vec<Found> {
    let mut weak: Vec<usize> = Vec::new();
    let mut start = 0;
    while start < values.len() {
        let end = values.len().min(start + WINDOW);
        let found = split(&values[start..end], rules, rules.p_max * FIRST_PASS);
        let last = found.last().map_or(0, |last| start + last);
        weak.extend(found.into_iter().map(|index| start + index));
        start = last.max(start + WINDOW / 2);
    }
    weak.sort_unstable();
    weak.dedup();
    merge(values, weak, rules)
}

/// Points of one window: the place of the greatest divergence, then those of the parts, as long as the greatest that is left is
/// significant.
fn split(values: &[f64], rules: &Rules, p_max: f64) -> Vec<usize> {
    let mut points: Vec<usize> = Vec::new();
    loop {
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for (from, to) in parts(&points, values.len()) {
            if let Some((divergence, place)) = most_divergent(&values[from..to], rules.side_min)
                && best.is_none_or(|(other, ..)| divergence > other)
            {
                best = Some((divergence, from + place, from, to));
            }
        }
        match best {
            Some((_, place, from, to))
                if p_value(&values[from..place], &values[place..to], rules) <= p_max =>
            {
                points.push(place);
                points.sort_unstable();
            }
            _ => return points,
        }
    }
}

/// What lies between points, as from and to.
fn parts(points: &[usize], length: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = std::iter::once(0).chain(points.iter().copied());
    starts.zip(points.iter().copied().chain([length]))
}

/// The place τ at which the values before it and those from it up to any κ differ most, with their divergence: Matteson and
/// James' Q, 2 E|X − Y| − E|X − X'| − E|Y − Y'| scaled by mn/(m + n), with α = 1. The first of equal ones.
fn most_divergent(values: &[f64], side_min: usize) -> Option<(f64, usize)> {
    let length = values.len();
    if length < 2 * side_min {
        return None;
    }
    // sums[k][i]: of the distances of value k from the first i values.
    let sums: Vec<Vec<f64>> = values
        .iter()
        .map(|value| {
            let distances = values.iter().scan(0.0, |sum, other| {
                *sum += (value - other).abs();
                Some(*sum)
            });
            std::iter::once(0.0).chain(distances).collect()
        })
        .collect();
    let mut best: Option<(f64, usize)> = None;
    let mut within_left = 0.0;
    for tau in 1..length {
        within_left += sums[tau - 1][tau - 1];
        if !(side_min..=length - side_min).contains(&tau) {
            continue;
        }
        let (mut between, mut within_right) = (0.0, 0.0);
        for kappa in tau + 1..=length {
            let to_left = sums[kappa - 1][tau];
            between += to_left;
            within_right += sums[kappa - 1][kappa - 1] - to_left;
            let (n, m) = (tau as f64, (kappa - tau) as f64);
            let spread = |other: f64, own: f64, within: f64| match own > 1.0 {
                true => 2.0 * other / (m + n) / (own - 1.0) * within,
                false => 0.0,
            };
            let divergence = 2.0 / (m + n) * between - spread(m, n, within_left) - spread(n, m, within_right);
            if best.is_none_or(|(other, _)| divergence > other) {
                best = Some((divergence, tau));
            }
        }
    }
    best
}

/// Takes the weakest point away and looks at its neighbours again, until all that are left are significant.
fn merge(values: &[f64], mut points: Vec<usize>, rules: &Rules) -> Vec<Found> {
    loop {
        let all = parts(&points, values.len()).collect::<Vec<_>>();
        let sides = all.windows(2).map(|pair| (&values[pair[0].0..pair[0].1], &values[pair[1].0..pair[1].1]));
        let p_values: Vec<f64> = sides.map(|(before, after)| p_value(before, after, rules)).collect();
        let weakest = p_values.iter().enumerate().fold(None, |weakest, (place, p)| match weakest {
            Some((_, other)) if other >= *p => weakest,
            _ => Some((place, *p)),
        });
        match weakest {
            Some((place, p)) if p >= rules.p_max => drop(points.remove(place)),
            _ => {
                let found = points.into_iter().zip(p_values);
                return found.map(|(index, p_value)| Found { index, p_value }).collect();
            }
        }
    }
}

/// Student's t test of two samples with one variance, two-sided; 1 where a side is too short.
fn p_value(before: &[f64], after: &[f64], rules: &Rules) -> f64 {
    let (n, m) = (before.len() as f64, after.len() as f64);
    if before.len().min(after.len()) < rules.side_min || n + m <= 2.0 {
        return 1.0;
    }
    let difference = mean(after) - mean(before);
    if difference == 0.0 {
        return 1.0;
    }
    let variance = |side: &[f64]| {
        let (centre, count) = (mean(side), side.len() as f64);
        let squares: f64 = side.iter().map(|value| (value - centre).powi(2)).sum();
        if side.len() < 2 { 0.0 } else { squares / (count - rules.divisor_less) }
    };
    let freedom = n + m - 2.0;
    let pooled = ((n - 1.0) * variance(before) + (m - 1.0) * variance(after)) / freedom;
    let t = difference.abs() / (pooled * (1.0 / n + 1.0 / m)).sqrt();
    if t.is_infinite() {
        return 0.0;
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t))
}
