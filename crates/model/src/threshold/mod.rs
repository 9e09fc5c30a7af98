//! Limits for measured values, in the form of k6 (`p(99)<50ms`), and for changes between two records (`rate<-3%`):
//! what they mean and whether a record keeps them. How they are read stands in [`grammar`](self).
//!
//! A threshold is checked against the figure that reports print, of every level that it selects, and against the requests without
//! an answer, which that figure hardly shows in a closed loop; it knows no noise. Whether
//! a *change* is shown at all is the matter of `webstone-judge`.

mod grammar;
mod unanswered;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

pub use grammar::GateError;

use crate::record::RunRecord;
use crate::spec::Levels;
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::units::NANOS_PER_SECOND;

/// How a value relates to its limit when the condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Relation {
    /// Below the limit.
    #[serde(rename = "<")]
    Below,
    /// At most the limit.
    #[serde(rename = "<=")]
    AtMost,
    /// Above the limit.
    #[serde(rename = ">")]
    Above,
    /// At least the limit.
    #[serde(rename = ">=")]
    AtLeast,
}

impl Relation {
    /// Whether a value stands in this relation to a limit.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Below => value < limit,
            Relation::AtMost => value <= limit,
            Relation::Above => value > limit,
            Relation::AtLeast => value >= limit,
        }
    }
}

/// A condition on a metric: of a measured value in a [`Threshold`], of a change in a [`FailIf`].
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    text: String,
    metric: Metric,
    clients: Option<Levels>,
    relation: Relation,
    limit: f64,
}

macro_rules! condition_access {
    ($name:ident) => {
        impl $name {
            /// As it was typed.
            pub fn text(&self) -> &str {
                &self.0.text
            }

            /// The figure that it is about.
            pub fn metric(&self) -> Metric {
                self.0.metric
            }

            /// The relation that its name states.
            pub fn relation(&self) -> Relation {
                self.0.relation
            }

            /// The limit: see the type for its unit.
            pub fn limit(&self) -> f64 {
                self.0.limit
            }

            /// Whether it is about the level with this number of clients.
            pub fn selects(&self, clients: u32) -> bool {
                self.0.clients.as_ref().is_none_or(|levels| levels.0.contains(&clients))
            }

            /// The first level that it names and that is not among these.
            pub fn missing_level(&self, levels: &[u32]) -> Option<u32> {
                self.0.clients.iter().flat_map(|named| &named.0).copied().find(|one| !levels.contains(one))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.text)
            }
        }
    };
}

/// What a measured value must keep, as in `p(99)<50ms`; the limit is in the base unit of the metric's quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold(Condition);
condition_access!(Threshold);

/// A change against the baseline that must not be, as in `rate<-3%`. The limit is a relative change in percent; of
/// [`Metric::ERRORS`] it is a difference in percentage points.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf(Condition);
condition_access!(FailIf);

impl Threshold {
    /// The value that it is held to. Where requests without an answer break an upper limit that the figure alone keeps, theirs: the
    /// longest wait of a percentile, their share of errors. `None` where nothing was measured.
    pub fn value(&self, reading: &Reading<'_>) -> Option<f64> {
        let value = self.metric().value(reading)?;
        let Some(percent) = unanswered::breaking(self, reading) else { return Some(value) };
        let longest_ns = reading.measured().unanswered.response.max;
        Some(match self.metric() {
            Metric::Percentile(_) => value.max(longest_ns as f64 / NANOS_PER_SECOND as f64),
            _ => value.max(percent),
        })
    }
}

impl FailIf {
    /// Whether the condition holds of a change.
    pub fn holds(&self, change: f64) -> bool {
        self.0.relation.holds(change, self.0.limit)
    }
}

/// One or more thresholds, separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds(pub Vec<Threshold>);

/// One or more conditions of failing, separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIfs(pub Vec<FailIf>);

/// A threshold checked against one level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// The threshold, as it was typed.
    pub threshold: String,
    /// The figure.
    pub metric: Metric,
    /// Which level.
    #[serde(skip)]
    pub level: LevelKey,
    /// The level's number of clients.
    pub clients: u32,
    /// The value over all iterations of the level, in the metric's base unit; null where nothing was measured.
    pub measured: Option<f64>,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Share of the load that waited for an answer in vain, in percent, where that breaks a limit that the value alone keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered_percent: Option<f64>,
    /// Whether the value keeps it. A value that was not measured keeps nothing, and neither does one that leaves out too
    /// many requests without an answer.
    pub passed: bool,
}

/// Checks every threshold against every level that it selects, in the order in which they were given, levels ascending.
pub fn evaluate(thresholds: &[Threshold], record: &RunRecord) -> Vec<Outcome> {
    if thresholds.is_empty() {
        return Vec::new();
    }
    let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
    // Level by level: a merged level is megabytes of histograms.
    for (level, runs) in record.levels() {
        let clients = runs[0].clients;
        let mut reading = None;
        for (index, threshold) in thresholds.iter().enumerate().filter(|(_, one)| one.selects(clients)) {
            let reading = reading.get_or_insert_with(|| Reading::of_level(&runs));
            let measured = threshold.metric().value(reading);
            let limit = threshold.limit();
            let unanswered_percent = unanswered::breaking(threshold, reading);
            let outcome = Outcome {
                threshold: threshold.text().to_owned(),
                metric: threshold.metric(),
                level,
                clients,
                measured,
                limit,
                passed: measured.is_some_and(|value| threshold.relation().holds(value, limit))
                    && unanswered_percent.is_none(),
                unanswered_percent,
            };
            outcomes.push((index, outcome));
        }
    }
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests;
