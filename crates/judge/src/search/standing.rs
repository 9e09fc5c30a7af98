//! When a level keeps an SLO and when it breaks it: a test over its iterations, looked at a few times while they grow.
//!
//! A level is looked at after 3, 5, 8, 13 … iterations, and after the last. At each look every condition's interval over
//! the iterations is compared with its limit. The two-sided error of 5 % is shared by all looks (Bonferroni), so that
//! looking often finds nothing that is not there. Times, rates and shares of equality are tested on their logarithms: noise
//! multiplies them, and one hiccup does not drag the mean away. Percentages (errors, the share of arrivals that began) are
//! tested as they are: they may be 0.

use serde::{Deserialize, Serialize};

use crate::statistics::{CONFIDENCE, Interval, student_mean_at};
use webstone_measure::metric::{Metric, Quantity};
use webstone_model::threshold::{Relation, Threshold};

/// Iterations before the first look: with fewer, an interval says nothing.
pub const LOOK_FIRST: u32 = 3;
/// Most iterations of a level that can be asked for.
pub const REPEATS_MAX: u32 = 100;

/// What the iterations of a level say about an SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LevelStanding {
    /// Every condition is kept.
    Kept,
    /// At least one condition is broken.
    Broken,
    /// As many iterations as were allowed do not tell.
    Undecided,
    /// Its timed runs do not tell: the generator was late or at its limit, the machine was disturbed, or requests were
    /// too few for a percentile.
    CannotTell,
    /// Not repeated often enough to tell: it was not at the edge.
    Open,
}

/// What a single iteration looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    Kept,
    Broken,
    /// Broken only by conditions that more load could satisfy, as `rate>1k`.
    TooLittle,
}

/// Whether more load could satisfy the condition: it asks for a minimum of something that grows with load.
pub(super) fn rises(condition: &Threshold) -> bool {
    condition.metric().grows_with_load()
        && matches!(condition.relation(), Relation::Above | Relation::AtLeast)
}

/// Checks one iteration's values against their limits. A value that was not measured keeps nothing.
pub(super) fn judge(conditions: &[Threshold], values: &[Option<f64>]) -> Once {
    let kept = |(condition, value): &(&Threshold, &Option<f64>)| {
        value.is_some_and(|value| condition.relation().holds(value, condition.limit()))
    };
    let mut broken = conditions.iter().zip(values).filter(|pair| !kept(pair)).peekable();
    if broken.peek().is_none() {
        return Once::Kept;
    }
    match broken.all(|(condition, value)| rises(condition) && value.is_some()) {
        true => Once::TooLittle,
        false => Once::Broken,
    }
}

/// The numbers of iterations at which a level is looked at.
fn looks(repeats: u32) -> impl Iterator<Item = usize> + Clone {
    let grow = |last: &u32| Some((f64::from(*last) * 1.6).ceil() as u32);
    let before = std::iter::successors(Some(LOOK_FIRST), grow).take_while(move |look| *look < repeats);
    before.chain([repeats.max(LOOK_FIRST)]).map(|look| look as usize)
}

/// The confidence of the interval at one look, so that all looks together err in at most 5 %.
pub fn confidence(repeats: u32) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / looks(repeats).count() as f64
}

/// The interval of a condition's metric over iterations. `None` below two, and where a value was not measured.
pub(super) fn interval(metric: Metric, values: &[Option<f64>], confidence: f64) -> Option<Interval> {
    let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    if metric.quantity() == Quantity::Percent || values.iter().any(|value| *value <= 0.0) {
        return student_mean_at(&values, confidence);
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    // Values without any spread keep their last bit.
    if values.iter().all(|value| *value == values[0]) {
        return student_mean_at(&values, confidence);
    }
    let interval = student_mean_at(&logarithms, confidence)?.map(f64::exp);
    interval.high.is_finite().then_some(interval)
}

/// What the iterations of a level say, as far as they go. What one look decides stays decided.
pub(super) fn standing(conditions: &[Threshold], runs: &[Vec<Option<f64>>], repeats: u32) -> LevelStanding {
    let confidence = confidence(repeats);
    for look in looks(repeats).take_while(|look| *look <= runs.len()) {
        let mut kept = 0;
        for (place, condition) in conditions.iter().enumerate() {
            let values: Vec<Option<f64>> = runs[..look].iter().map(|run| run[place]).collect();
            if values.contains(&None) {
                return LevelStanding::Broken;
            }
            let Some(interval) = interval(condition.metric(), &values, confidence) else { continue };
            let holds = |end| condition.relation().holds(end, condition.limit());
            match (holds(interval.low), holds(interval.high)) {
                (false, false) => return LevelStanding::Broken,
                (true, true) => kept += 1,
                _ => {}
            }
        }
        if kept == conditions.len() {
            return LevelStanding::Kept;
        }
    }
    if runs.len() >= repeats.max(LOOK_FIRST) as usize {
        LevelStanding::Undecided
    } else {
        LevelStanding::Open
    }
}
