//! Whether a level or a record holds something that a reader has to see, so that the default report shows its table. The bounds are
//! the verdict's.

use webstone_judge::series::USEFUL_JAIN_MIN;
use webstone_judge::verdict::{
    RATE_MISSED_PERCENT_MAX, SCHEDULE_LAG_PERCENT_MAX, WORKER_CPU_PERCENT_MAX, losses,
};
use webstone_model::record::RunRecord;

use crate::summary::Level;

/// A figure is near a bound from this share of it.
const NEAR: f64 = 0.9;

/// Whether the load generator is near its limit.
pub(super) fn is_near_its_limit(level: &Level<'_>) -> bool {
    let waited = level.generator.waited_percent.unwrap_or_default();
    level.generator.busiest_percent + waited >= WORKER_CPU_PERCENT_MAX * NEAR
}

pub(super) fn is_disturbed(record: &RunRecord) -> bool {
    !record.voids.is_empty() || record.iterations.iter().any(|run| !losses(record, run).is_empty())
}

/// Whether clients were served unequally. Needs several clients; in open loop a rate may not need all of them.
pub(super) fn is_unfair(level: &Level<'_>) -> bool {
    let unfair = |fairness: &webstone_measure::metrics::Fairness| {
        fairness.starved > 0 || fairness.jain_pages < USEFUL_JAIN_MIN
    };
    level.clients > 1 && level.rate.is_none() && level.fairness.as_ref().is_some_and(unfair)
}

/// Whether requests waited for streams, or were refused.
pub(super) fn was_refused_streams(level: &Level<'_>) -> bool {
    level.http2.is_some_and(|counts| counts.waited > 0 || counts.refused > 0)
}

pub(super) fn is_late(level: &Level<'_>) -> bool {
    let Some(open_loop) = &level.open_loop else { return false };
    let kept = open_loop.kept;
    let times = &level.distributions;
    let is_longer =
        times.response.as_ref().zip(times.response_uncorrected.as_ref()).is_some_and(|(with, without)| {
            let percentiles =
                [(with.p50_s, without.p50_s), (with.p90_s, without.p90_s), (with.p99_s, without.p99_s)];
            percentiles
                .iter()
                .any(|(with, without)| (with - without) * 100.0 >= without * SCHEDULE_LAG_PERCENT_MAX * NEAR)
        });
    let missed = (kept.asked_rate - kept.offered_rate).abs();
    open_loop.skipped > 0
        || open_loop.queued > 0
        || is_longer
        || missed * 100.0 >= kept.asked_rate * RATE_MISSED_PERCENT_MAX * NEAR
}
