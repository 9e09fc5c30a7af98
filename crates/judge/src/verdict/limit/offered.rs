//! Whether an open loop got what it asked for: then its rate is what limited, whatever else was busy.

use crate::verdict::bounds::{ERRORS_PERCENT_MAX, RATE_MISSED_PERCENT_MAX, percent};
use webstone_model::record::IterationRecord;

/// Requests that may be under way by chance at the end of a short window and were not at its start.
const IN_FLIGHT_BY_CHANCE: f64 = 2.0;

/// Every arrival that was due began, and what began was answered.
pub(super) fn is_delivered(runs: &[&IterationRecord]) -> bool {
    !runs.is_empty() && runs.iter().all(|run| is_delivered_in(run).unwrap_or(false))
}

fn is_delivered_in(run: &IterationRecord) -> Option<bool> {
    let kept = run.schedule?;
    let arrivals = run.measured.open_loop.as_ref()?;
    let counts = &run.measured.counts;
    let missed = percent(kept.asked_rate - kept.offered_rate, kept.asked_rate);
    let failed = percent(counts.failed as f64, (counts.failed + counts.succeeded) as f64);
    // What was not answered in time piles up.
    let after = counts.in_flight + counts.left_open + arrivals.queued + arrivals.left_open;
    let piled_up = after as f64 - counts.carried_in as f64 - arrivals.carried_in as f64;
    let slack = IN_FLIGHT_BY_CHANCE + counts.started as f64 * RATE_MISSED_PERCENT_MAX / 100.0;
    Some(
        missed.abs() <= RATE_MISSED_PERCENT_MAX
            && failed <= ERRORS_PERCENT_MAX
            && arrivals.skipped as f64 <= arrivals.planned as f64 * RATE_MISSED_PERCENT_MAX / 100.0
            && piled_up <= slack,
    )
}
