//! Steps in a history of runs: where a figure looks as if it had changed for good, by how much, and what else changed there.
//!
//! Points of change are found by E-divisive with Student's t test, as in Hunter (`points`); the size of a step is that of
//! `compare`: the means of the runs on both sides, their ratio, its interval. Here a run is a sample, not an iteration: what
//! differs between two runs (starts of the server, placement in memory, the weather of a virtual machine) is the noise that a
//! step has to exceed.
//!
//! The same history always gives the same steps. A step is an observation, no verdict: nothing fails on account of one.
//! Definitions: `docs/measurement.md`, "Steps".

mod conditions;
mod points;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use conditions::{conditions, surroundings};
pub use points::{P_MAX, SIDE_MIN, WINDOW};

use crate::statistics::{self, Interval, mean};

/// Runs from which on steps are looked for: with fewer, at most one could be distinguished from noise, and hardly that.
pub const RUNS_MIN: usize = 10;

/// A run of a history.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The figure, in any unit; not negative.
    pub value: f64,
    /// What is reported beside a step where it changed, by name: [`surroundings`].
    pub surroundings: &'a BTreeMap<String, String>,
}

/// What looks like a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The first run after it, by its place in the history, from 0.
    pub index: usize,
    /// Runs before it, up to the step before or the begin of the history.
    pub runs_before: usize,
    /// Runs from it on, up to the next step or the end.
    pub runs_after: usize,
    /// Mean of the runs before, in the unit of the values.
    pub before: f64,
    /// Mean of the runs after.
    pub after: f64,
    /// The change in percent of the mean before, with its 95 % interval; null where the mean before is 0.
    pub change: Option<Interval>,
    /// How often a t test of these two sides would find as much where nothing differs. The place was chosen because it looks
    /// most like a step, so that the chance of a false one is higher: `docs/measurement.md` has it.
    pub p_value: f64,
    /// What differs in the environment between both sides; what holds for all runs comes first.
    pub changed: Vec<Changed>,
}

/// Something that differs after a step from before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// What it is: `kernel`.
    pub what: String,
    /// What most runs before the step have; empty: it is unknown.
    pub before: String,
    /// What most runs after it have.
    pub after: String,
    /// Whether all runs before it have the one, and all after it the other.
    pub throughout: bool,
}

/// The steps in a history of comparable runs (those whose [`conditions()`] are alike), in order of time. `None` with fewer
/// than [`RUNS_MIN`] runs, or where a value is negative or not finite.
pub fn steps(history: &[Point<'_>]) -> Option<Vec<Step>> {
    let values: Vec<f64> = history.iter().map(|point| point.value).collect();
    if values.len() < RUNS_MIN || !values.iter().all(|value| value.is_finite() && *value >= 0.0) {
        return None;
    }
    let found = points::points(&values, &points::OURS);
    let edges: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|it| it.index)).chain([values.len()]).collect();
    let step = |(found, edges): (&points::Found, &[usize])| {
        let (before, after) = (&values[edges[0]..edges[1]], &values[edges[1]..edges[2]]);
        let ratio = statistics::ratio_interval(after, before);
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Step {
            index: found.index,
            runs_before: before.len(),
            runs_after: after.len(),
            before: mean(before),
            after: mean(after),
            change: ratio.map(|it| it.map(percent)),
            p_value: found.p_value,
            changed: changed(&history[edges[0]..edges[1]], &history[edges[1]..edges[2]]),
        }
    };
    Some(found.iter().zip(edges.windows(3)).map(step).collect())
}

/// What most runs of one side have and most of the other have not. Not only the two runs at the step are looked at: noise may put
/// it a run or two beside its place.
fn changed(before: &[Point<'_>], after: &[Point<'_>]) -> Vec<Changed> {
    let names: BTreeSet<&String> =
        before.iter().chain(after).flat_map(|point| point.surroundings.keys()).collect();
    let mut found: Vec<Changed> = names
        .into_iter()
        .filter_map(|what| {
            // Of two that are as frequent, the one that is nearer to the step.
            let (ours, all_ours) = most(before.iter().rev(), what);
            let (theirs, all_theirs) = most(after.iter(), what);
            (ours != theirs).then(|| Changed {
                what: what.clone(),
                before: ours.to_owned(),
                after: theirs.to_owned(),
                throughout: all_ours && all_theirs,
            })
        })
        .collect();
    found.sort_by_key(|changed| !changed.throughout);
    found
}

/// What most of the runs have, the first of those that are as frequent, and whether all have it.
fn most<'a>(runs: impl Iterator<Item = &'a Point<'a>>, what: &str) -> (&'a str, bool) {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for run in runs {
        let value = run.surroundings.get(what).map_or("", String::as_str);
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    // `max_by_key` would return the last of equal ones.
    let first = counts.iter().rev().max_by_key(|(_, count)| *count);
    (first.map_or("", |(value, _)| value), counts.len() == 1)
}
