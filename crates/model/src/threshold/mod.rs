//! Limits for measured values, in the form of k6 (`p(99)<50ms`), and for changes between two records (`rate<-3%`):
//! what they mean and whether a record keeps them. They are parsed in [`grammar`](self).
//!
//! A threshold is checked against the figure that reports print, for every level that it selects, and against
//! unanswered requests, which that figure hardly shows in a closed loop. It does not consider noise. Whether a
//! *change* is significant is decided in `webstone-judge`.

mod grammar;
mod unanswered;

use std::fmt;

use serde::Serialize;

pub use grammar::GateError;

use crate::record::RunRecord;
use crate::spec::Levels;
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::units::NANOS_PER_SECOND;

/// How a value must compare with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Whether a value is in this relation to a limit.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Below => value < limit,
            Relation::AtMost => value <= limit,
            Relation::Above => value > limit,
            Relation::AtLeast => value >= limit,
        }
    }
}

/// A condition on a metric: on a measured value in a [`Threshold`], on a change in a [`FailIf`].
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
            /// As typed.
            pub fn text(&self) -> &str {
                &self.0.text
            }

            /// The figure.
            pub fn metric(&self) -> Metric {
                self.0.metric
            }

            /// The relation that it states.
            pub fn relation(&self) -> Relation {
                self.0.relation
            }

            /// The limit; for its unit see the type.
            pub fn limit(&self) -> f64 {
                self.0.limit
            }

            /// Whether it applies to the level with this number of clients.
            pub fn selects(&self, clients: u32) -> bool {
                self.0.clients.as_ref().is_none_or(|levels| levels.0.contains(&clients))
            }

            /// The first level in it that is not among these.
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

/// A condition on a measured value, as in `p(99)<50ms`; the limit is in the base unit of the metric's quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold(Condition);
condition_access!(Threshold);

/// A change from the baseline that fails, as in `rate<-3%`. The limit is a relative change in percent; for
/// [`Metric::ERRORS`] a difference in percentage points.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf(Condition);
condition_access!(FailIf);

impl Threshold {
    /// The value to be compared. If the figure alone keeps an upper limit but unanswered requests break it, their
    /// value: the longest wait for a percentile, their share for errors. `None` if nothing was measured.
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
    /// Whether a change meets the condition.
    pub fn holds(&self, change: f64) -> bool {
        self.0.relation.holds(change, self.0.limit)
    }
}

/// One or more thresholds, separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds(pub Vec<Threshold>);

/// One or more conditions that fail, separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIfs(pub Vec<FailIf>);

/// The result of checking a threshold for one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// The threshold, as typed.
    pub threshold: String,
    /// The figure.
    pub metric: Metric,
    /// Which level.
    #[serde(skip)]
    pub level: LevelKey,
    /// The level's number of clients.
    pub clients: u32,
    /// The value over all iterations of the level, in the metric's base unit; null if nothing was measured.
    pub measured: Option<f64>,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Share of the load that waited for an answer in vain, in percent, if that breaks a limit that the value alone
    /// keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered_percent: Option<f64>,
    /// Whether the threshold is kept. It is not if the value was not measured, or leaves out too many unanswered
    /// requests.
    pub passed: bool,
}

/// Checks every threshold for every level that it selects, in the order given, levels ascending.
pub fn evaluate(thresholds: &[Threshold], record: &RunRecord) -> Vec<Outcome> {
    if thresholds.is_empty() {
        return Vec::new();
    }
    let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
    // Level by level: a merged level has megabytes of histograms.
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
