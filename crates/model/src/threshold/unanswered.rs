//! Unanswered requests in thresholds. A hung client of a closed loop sends one request and then none, so by number of
//! requests the others hide it: one of five that hangs for the whole window does not change a 99th percentile. What
//! counts is the share of the clients' time, which is what a client that arrived at a random moment would have
//! experienced (`docs/measurement.md`, "Unanswered requests").

use super::{Relation, Threshold};
use webstone_measure::figures::unanswered::{share, stalled_after_ns};
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::units::NANOS_PER_SECOND;

/// An unfinished request counts as an error once it has stalled for this long.
const ERROR_AFTER_NS: u64 = NANOS_PER_SECOND;

/// The share of the load in unanswered requests, in percent, if it breaks an upper limit that the figure alone may
/// keep.
pub(super) fn breaking(threshold: &Threshold, reading: &Reading<'_>) -> Option<f64> {
    if !matches!(threshold.relation(), Relation::Below | Relation::AtMost) {
        return None;
    }
    let limit = threshold.limit();
    let (at_least_ns, percent_max) = match threshold.metric() {
        Metric::Percentile(percentile) => ((limit * NANOS_PER_SECOND as f64) as u64, 100.0 - percentile),
        metric if metric == Metric::ERRORS => (ERROR_AFTER_NS, limit),
        _ => return None,
    };
    let percent = share(reading.runs(), at_least_ns.max(stalled_after_ns(reading.runs()))) * 100.0;
    (percent > percent_max).then_some(percent)
}
