//! Conditions on changes (`--fail-if`), checked against what was measured.

use serde::{Deserialize, Serialize};

use super::judging::{ITERATIONS_MIN, holm};
use super::{Candidate, LevelComparison, Row};
use crate::statistics::{Interval, Method};
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::Metric;
use webstone_model::threshold::{FailIf, Relation};

/// What it takes for a condition to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailWhen {
    /// The change is shown: the whole interval meets the condition, after Holm's correction over the levels that it selects, and where
    /// no change at all would not meet it, the interval lies outside the noise floor.
    #[default]
    Shown,
    /// The measured change meets the condition, whatever its interval.
    Measured,
    /// The interval does not exclude that the condition is met: passing takes the proof.
    Possible,
}

/// What came of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateResult {
    /// It is not met.
    Passed,
    /// It is met.
    Failed,
    /// There is no interval to tell from, no value, an interval that is wider than its value, noise without bound that may have made
    /// the change, or one of the two has too few iterations to tell that it is not met.
    CannotTell,
}

/// A condition checked against one level of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateOutcome {
    /// The condition, as it was typed.
    pub condition: String,
    /// The figure.
    pub metric: Metric,
    /// The candidate's place among the records, from 1.
    pub record: usize,
    /// Which level.
    #[serde(skip)]
    pub level: LevelKey,
    /// The level's number of clients.
    pub clients: u32,
    /// The change, in percent; of errors in percentage points. Null where there is no interval.
    pub change: Option<Interval>,
    /// The relation of the condition.
    pub relation: Relation,
    /// Its limit, in the same unit.
    pub limit: f64,
    /// What came of it.
    pub result: GateResult,
}

/// Checks every condition against every candidate and level that it selects.
pub(super) fn evaluate(
    conditions: &[FailIf],
    fail_when: FailWhen,
    candidates: &[Candidate],
) -> Vec<GateOutcome> {
    conditions.iter().flat_map(|condition| one(condition, fail_when, candidates)).collect()
}

fn one(condition: &FailIf, fail_when: FailWhen, candidates: &[Candidate]) -> Vec<GateOutcome> {
    let cells: Vec<(usize, &LevelComparison, &Row)> = candidates
        .iter()
        .flat_map(|candidate| candidate.levels.iter().map(move |level| (candidate.record, level)))
        .filter(|(_, level)| condition.selects(level.clients))
        .filter_map(|(record, level)| {
            let row = level.rows.iter().find(|row| row.metric == condition.metric())?;
            Some((record, level, row))
        })
        .collect();
    let told: Vec<&Row> = cells.iter().map(|(_, _, row)| *row).filter(|row| row.change.is_some()).collect();
    let shown = holm(told.len(), |member, confidence| is_shown(condition, told[member], confidence));
    let mut shown = shown.into_iter();
    cells
        .into_iter()
        .map(|(record, level, row)| {
            let shown = row.change.as_ref().and_then(|_| shown.next());
            let failed = match fail_when {
                FailWhen::Shown => shown
                    .filter(|_| !row.is_inconclusive() && !may_be_noise(condition, row))
                    // Two iterations can show a change, but cannot rule one out.
                    .filter(|failed| *failed || row.fewest_iterations() >= ITERATIONS_MIN),
                FailWhen::Measured => row.point().map(|point| condition.holds(point)),
                FailWhen::Possible => row.change.map(|change| {
                    let (low, high) = row.ends(&change);
                    condition.holds(low) || condition.holds(high)
                }),
            };
            GateOutcome {
                condition: condition.text().to_owned(),
                metric: condition.metric(),
                record,
                level: level.key(),
                clients: level.clients,
                change: row.change.or_else(|| row.point().map(Interval::bare)),
                relation: condition.relation(),
                limit: condition.limit(),
                result: match failed {
                    None => GateResult::CannotTell,
                    Some(true) => GateResult::Failed,
                    Some(false) => GateResult::Passed,
                },
            }
        })
        .collect()
}

/// Whether a condition is met, unless noise without bound made the change.
fn may_be_noise(condition: &FailIf, row: &Row) -> bool {
    let holds = |(low, high)| condition.holds(low) && condition.holds(high);
    row.change.is_some_and(|change| holds((change.low, change.high)) && !holds(row.ends(&change)))
}

fn is_shown(condition: &FailIf, row: &Row, confidence: f64) -> bool {
    let Some(change) = row.change_at(confidence) else { return false };
    let (low, high) = row.ends(&change);
    let whole = condition.holds(low) && condition.holds(high);
    // A condition that holds without any change asks for an improvement, which noise must not excuse.
    whole && (condition.holds(0.0) || row.shown_at(confidence))
}

impl Row {
    /// The change of the means, with or without an interval; at one speed of the machine where that is known.
    pub fn point(&self) -> Option<f64> {
        if let Some(change) = self.change.filter(|change| change.method == Method::Covariance) {
            return Some(change.point);
        }
        let (baseline, candidate) = (self.baseline.mean?, self.candidate.mean?);
        match self.metric.differs() {
            true => Some(candidate - baseline),
            false => (baseline > 0.0).then(|| (candidate / baseline - 1.0) * 100.0),
        }
    }
}
