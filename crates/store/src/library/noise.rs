//! Which steps of a history noise may have made.
//!
//! Half an hour of a slow machine looks like a step, and another one back. The runs say themselves how much better they may be without
//! noise, so what their bounds cover is no step. The runs whose bounds do it are then left aside and the others looked at again: a
//! step before, during or after that time is among them.

use std::collections::{BTreeMap, BTreeSet};

use webstone_judge::statistics::mean;
use webstone_judge::steps::{self, Point, Step};

/// A run of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'a> {
    pub(super) value: f64,
    /// By which factor noise may have made it worse at most; 1: not at all, infinite: there is no bound.
    pub(super) noise_factor: f64,
    pub(super) surroundings: &'a BTreeMap<String, String>,
}

/// What looks like a step, and what would if noise could not have made it: the first run after it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) steps: Vec<Step>,
    pub(super) within_noise: Vec<usize>,
}

/// The steps among runs in order; `None` where there are too few.
pub(super) fn steps(runs: &[Measured<'_>], more_is_better: bool) -> Option<Found> {
    let mut kept: Vec<usize> = (0..runs.len()).collect();
    let mut within_noise = BTreeSet::new();
    loop {
        let point =
            |place: &usize| Point { value: runs[*place].value, surroundings: runs[*place].surroundings };
        let points: Vec<Point<'_>> = kept.iter().map(point).collect();
        let mut steps: Vec<Step> = match steps::steps(&points) {
            None if kept.len() == runs.len() => return None,
            found => found.unwrap_or_default(),
        };
        let mut aside: BTreeSet<usize> = BTreeSet::new();
        for step in &steps {
            let is_after_worse = (step.after < step.before) == more_is_better;
            let worse = match is_after_worse {
                true => &kept[step.index..step.index + step.runs_after],
                false => &kept[step.index - step.runs_before..step.index],
            };
            let measured: Vec<f64> = worse.iter().map(|place| runs[*place].value).collect();
            let undisturbed: Vec<f64> =
                worse.iter().map(|place| runs[*place].undisturbed(more_is_better)).collect();
            if is_covered(step, mean(&undisturbed) / mean(&measured), is_after_worse) {
                within_noise.insert(kept[step.index]);
                aside.extend(worse.iter().filter(|place| runs[**place].noise_factor > 1.0));
            }
        }
        if aside.is_empty() {
            steps.iter_mut().for_each(|step| step.index = kept[step.index]);
            within_noise.retain(|place| steps.iter().all(|step| step.index != *place));
            return Some(Found { steps, within_noise: within_noise.into_iter().collect() });
        }
        kept.retain(|place| !aside.contains(place));
    }
}

impl Measured<'_> {
    /// What the figure may be without noise.
    fn undisturbed(&self, more_is_better: bool) -> f64 {
        if more_is_better { self.value * self.noise_factor } else { self.value / self.noise_factor }
    }
}

/// Whether there may be no change, if the worse side is by this factor another one without noise.
fn is_covered(step: &Step, by: f64, is_after_worse: bool) -> bool {
    let Some(change) = step.change.filter(|_| by != 1.0 && !by.is_nan()) else { return false };
    let of_ratio = if is_after_worse { by } else { 1.0 / by };
    let end = |percent: f64| (1.0 + percent / 100.0) * of_ratio;
    if change.point < 0.0 { end(change.high) >= 1.0 } else { end(change.low) <= 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCATTER: [f64; 6] = [0.0, 0.3, -0.2, 0.1, -0.3, 0.2];

    /// The places of steps, and of what is within noise, among runs of (how many, value, factor).
    fn found(parts: &[(usize, f64, f64)], more_is_better: bool) -> (Vec<usize>, Vec<usize>) {
        let surroundings = BTreeMap::new();
        let all =
            parts.iter().flat_map(|(runs, value, factor)| std::iter::repeat_n((*value, *factor), *runs));
        let runs: Vec<Measured<'_>> = all
            .enumerate()
            .map(|(place, (value, noise_factor))| Measured {
                value: value + SCATTER[place % SCATTER.len()],
                noise_factor,
                surroundings: &surroundings,
            })
            .collect();
        let found = steps(&runs, more_is_better).unwrap();
        (found.steps.iter().map(|step| step.index).collect(), found.within_noise)
    }

    #[test]
    fn half_an_hour_of_a_slow_machine_is_no_step() {
        let slow = |factor| [(12, 100.0, 1.0), (12, 60.0, factor), (12, 100.0, 1.0)];
        assert_eq!(found(&slow(1.0), true), (vec![12, 24], vec![]));
        assert_eq!(found(&slow(2.4), true), (vec![], vec![12, 24]));
        assert_eq!(found(&slow(f64::INFINITY), true), (vec![], vec![12, 24]));
        // It may be 50 % higher, and had to be 67 %.
        assert_eq!(found(&slow(1.5), true), (vec![12, 24], vec![]));
    }

    #[test]
    fn times_are_shorter_without_noise() {
        let slow = |factor| [(12, 60.0, 1.0), (12, 100.0, factor), (12, 60.0, 1.0)];
        assert_eq!(found(&slow(2.4), false), (vec![], vec![12, 24]));
        assert_eq!(found(&slow(f64::INFINITY), false), (vec![], vec![12, 24]));
        assert_eq!(found(&slow(1.5), false), (vec![12, 24], vec![]));
    }

    #[test]
    fn noise_of_the_better_side_excuses_nothing() {
        assert_eq!(found(&[(12, 100.0, 2.4), (12, 60.0, 1.0)], true), (vec![12], vec![]));
    }

    #[test]
    fn a_step_during_a_slow_time_is_found_among_the_other_runs() {
        let (steps, within_noise) = found(&[(12, 100.0, 1.0), (6, 60.0, 2.4), (12, 90.0, 1.0)], true);
        assert_eq!((steps, within_noise), (vec![18], vec![12]));
    }

    #[test]
    fn too_few_runs_are_told_from_too_few_that_are_left() {
        let surroundings = BTreeMap::new();
        let run = Measured { value: 1.0, noise_factor: 1.0, surroundings: &surroundings };
        assert!(steps(&[run; 9], true).is_none());
        assert_eq!(found(&[(5, 100.0, 1.0), (7, 60.0, 2.4)], true), (vec![], vec![5]));
    }
}
