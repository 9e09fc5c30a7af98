//! Which timed runs cannot tell whether an SLO is kept, although a condition looks broken in them: the generator was late or at
//! its limit, the machine was disturbed, or requests were too few for the percentile. None of these makes an SLO look kept that is broken, so a run that
//! keeps every condition is never doubted.

use crate::verdict::{
    RATE_MISSED_PERCENT_MAX, SCHEDULE_LAG_PERCENT_MAX, WORKER_CPU_PERCENT_MAX, run_queue_percent,
};
use webstone_model::metric::Metric;
use webstone_model::record::IterationRecord;
use webstone_model::threshold::{Relation, Threshold};

/// Why a timed run cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// The generator was late, or at its limit.
    Generator,
    /// Something took CPU time from generator or server.
    Disturbed,
    /// The percentile is one single request: 100 requests make one above p99.
    TooFew,
}

impl Doubt {
    pub(super) fn words(self) -> &'static str {
        match self {
            Doubt::Generator => "the generator was late or at its limit",
            Doubt::Disturbed => "the machine was disturbed",
            Doubt::TooFew => "the requests were too few for the percentile",
        }
    }
}

/// Why a run in which some conditions are not kept does not show that they are broken; `None` where it does.
/// `shortest_s`: the shortest time that the SLO states. `is_disturbed`: whether something took CPU time from either side.
pub(super) fn of(
    conditions: &[Threshold],
    values: &[Option<f64>],
    run: &IterationRecord,
    shortest_s: Option<f64>,
    is_disturbed: bool,
) -> Option<Doubt> {
    let is_broken = |(condition, value): &(&Threshold, &Option<f64>)| {
        !value.is_some_and(|value| condition.relation().holds(value, condition.limit()))
    };
    let mut broken = conditions.iter().zip(values).filter(is_broken).peekable();
    broken.peek()?;
    if generator(run, shortest_s) {
        return Some(Doubt::Generator);
    }
    if is_disturbed {
        return Some(Doubt::Disturbed);
    }
    let requests = run.measured.counts.succeeded as f64;
    let too_few = |(condition, value): (&Threshold, &Option<f64>)| match condition.metric() {
        Metric::Percentile(percentile) => {
            let is_upper = matches!(condition.relation(), Relation::Below | Relation::AtMost);
            // A server that answers nothing is no doubt.
            value.is_some() && is_upper && requests * (100.0 - percentile) / 100.0 < 1.0 - 1e-9
        }
        _ => false,
    };
    broken.all(too_few).then_some(Doubt::TooFew)
}

fn generator(run: &IterationRecord, shortest_s: Option<f64>) -> bool {
    let window_ns = run.measured.window_ns;
    let is_saturated = run.measured.generator.workers.iter().any(|worker| {
        let used = worker.worked_ns() as f64 * 100.0 / window_ns.max(1) as f64;
        used + run_queue_percent(worker, window_ns) >= WORKER_CPU_PERCENT_MAX
    });
    let Some(kept) = run.schedule else { return is_saturated };
    let lag_s = kept.lag_p99_ns as f64 / 1e9;
    let is_late = shortest_s.is_some_and(|shortest| lag_s * 100.0 > shortest * SCHEDULE_LAG_PERCENT_MAX);
    // Arrivals that waited for a client, or found none, were the server's doing.
    let unserved = run.measured.open_loop.as_ref().is_some_and(|it| it.skipped + it.queued > 0);
    let missed = (kept.asked_rate - kept.offered_rate).abs() * 100.0;
    is_saturated || is_late || (!unserved && missed > kept.asked_rate * RATE_MISSED_PERCENT_MAX)
}
