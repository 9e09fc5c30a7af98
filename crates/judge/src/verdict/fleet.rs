//! What can go wrong with several hosts that make load together: one is lost, or their windows do not open at one moment. Either
//! makes a timed run void, whatever it measured.

use super::bounds::{APART_NS_MIN, APART_SHARE, time};
use super::disturbance::{Loss, LossKind, Worth};
use webstone_model::generators::GeneratorPart;
use webstone_model::record::{IterationRecord, RunRecord};

/// The host that was lost, and those that opened their window too early or too late.
pub(super) fn losses(record: &RunRecord, run: &IterationRecord) -> Vec<Loss> {
    let loss = |of: String, by: String, kind: LossKind| Loss {
        is_generator: true,
        ..Loss::new(kind, Worth::Void, of, 0.0, by)
    };
    let gone = run
        .lost
        .iter()
        .map(|lost| loss(record.generator_named(lost.generator), lost.why.clone(), LossKind::Gone));
    let limit_ns = apart_ns_max(run.measured.window_ns);
    let mut apart: Vec<&GeneratorPart> =
        run.parts.iter().filter(|part| part.apart_ns_max() > limit_ns).collect();
    apart.sort_by_key(|part| std::cmp::Reverse(part.apart_ns_max()));
    let apart = apart.into_iter().map(|part| {
        let by = format!("{} (limit {})", opening(part), time(limit_ns as f64));
        loss(format!("generator {}", part.generator.saturating_add(1)), by, LossKind::Apart)
    });
    gone.chain(apart).collect()
}

/// How far from the agreed instant a host of several may open its window, in nanoseconds.
pub fn apart_ns_max(window_ns: u64) -> u64 {
    APART_NS_MIN.max(window_ns / APART_SHARE)
}

/// When a host opened its window: `7.300 ms late, within 0.100 ms`. On the instant itself only the clock can be in doubt.
fn opening(part: &GeneratorPart) -> String {
    if part.opening_skew_ns == 0 {
        return format!("on time by a clock that is known within {}", time(part.clock.bound_ns as f64));
    }
    let way = if part.opening_skew_ns < 0 { "early" } else { "late" };
    let skew = time(part.opening_skew_ns.unsigned_abs() as f64);
    format!("{skew} {way}, within {}", time(part.clock.bound_ns as f64))
}

/// The host of a run that opened its window furthest from the agreed instant, at the worst that its clock allows.
pub(super) fn furthest(run: &IterationRecord) -> Option<&GeneratorPart> {
    run.parts.iter().max_by_key(|part| part.apart_ns_max())
}

/// Its opening in words: `generator 2 0.200 ms late, within 0.100 ms`.
pub(super) fn furthest_told(part: &GeneratorPart) -> String {
    format!("generator {} {}", part.generator.saturating_add(1), opening(part))
}
