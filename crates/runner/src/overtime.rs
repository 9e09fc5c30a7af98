//! How much longer than planned a sweep takes: at most half as long again, whether void windows are repeated or windows with
//! disturbed slices go on.

use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::RunSpec;

/// Part of the plan by which windows may differ from their length without counting.
const UNCOUNTED_SHARE: u64 = 100;

/// Whether the time is left to repeat this void timed run. A search has no plan, nor has a sweep whose windows end with a number of
/// pages: there it is the number of timed runs that grows by half at most.
pub(crate) fn allows_repeating(spec: &RunSpec, record: &RunRecord, run: &IterationRecord) -> bool {
    if spec.find.is_some() {
        return true;
    }
    match planned_ns(spec) {
        0 => record.voids.len() < timed_runs(spec) as usize / 2,
        planned_ns => {
            let allowed_ns = planned_ns / 2 + planned_ns / UNCOUNTED_SHARE;
            used_ns(spec, record).saturating_add(attempt_ns(spec, run)) <= allowed_ns
        }
    }
}

/// By how much the next window may be made longer, in nanoseconds: by half, as far as the sweep has the time.
pub(crate) fn of_window_ns(spec: &RunSpec, record: &RunRecord) -> u64 {
    let half_ns = spec.load.duration.0 / 2;
    match spec.find.is_some() {
        true => half_ns,
        false => half_ns.min((planned_ns(spec) / 2).saturating_sub(used_ns(spec, record))),
    }
}

fn timed_runs(spec: &RunSpec) -> u64 {
    (spec.load.levels() as u64).saturating_mul(u64::from(spec.load.iterations))
}

/// 0 where windows have no planned length.
fn planned_ns(spec: &RunSpec) -> u64 {
    match spec.load.duration.0 {
        0 => 0,
        duration_ns => timed_runs(spec).saturating_mul(spec.load.warmup.0.saturating_add(duration_ns)),
    }
}

/// What is over of the time beyond the plan: attempts in vain, and what windows were made longer by.
fn used_ns(spec: &RunSpec, record: &RunRecord) -> u64 {
    let longer_ns = |run: &IterationRecord| run.measured.span_ns().saturating_sub(spec.load.duration.0);
    let attempts = record.voids.iter().map(|run| attempt_ns(spec, run));
    attempts.chain(record.iterations.iter().map(longer_ns)).fold(0, u64::saturating_add)
}

fn attempt_ns(spec: &RunSpec, run: &IterationRecord) -> u64 {
    spec.load.warmup.0.saturating_add(run.measured.span_ns())
}

#[cfg(test)]
mod tests {
    use webstone_measure::units::Nanos;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Four levels of 1 and 6 s: a plan of 28 s, which may take 14 s longer.
    fn plan() -> RunSpec {
        let mut spec = RunSpec::default();
        spec.load.clients.0 = vec![5, 10, 20, 40];
        (spec.load.warmup, spec.load.duration) = (Nanos::from_secs(1), Nanos::from_secs(6));
        spec
    }

    fn run(window_ns: u64, left_out_ns: u64) -> IterationRecord {
        let mut run = IterationRecord::default();
        (run.measured.window_ns, run.measured.left_out.ns) = (window_ns, left_out_ns);
        run
    }

    #[test]
    fn repeated_windows_and_longer_ones_share_half_of_the_planned_time() {
        let (spec, mut record, whole) = (plan(), RunRecord::default(), run(6 * S, 0));
        assert_eq!(of_window_ns(&spec, &record), 3 * S);
        // Clean windows, a little longer than planned as all are, use none of it.
        record.iterations = vec![run(6 * S + 40_000, 0), run(6 * S + 40_000, 0)];
        assert!(allows_repeating(&spec, &record, &whole));
        record.voids.push(run(6 * S + 40_000, 0));
        assert!(allows_repeating(&spec, &record, &whole), "7 of 14 s are left");
        assert_eq!(of_window_ns(&spec, &record), 3 * S);
        record.voids.push(whole.clone());
        assert!(!allows_repeating(&spec, &record, &whole));
        assert_eq!(of_window_ns(&spec, &record), 0);
    }

    #[test]
    fn time_by_which_windows_were_longer_is_not_used_twice() {
        let (spec, mut record) = (plan(), RunRecord::default());
        record.iterations = vec![run(6 * S, 3 * S), run(6 * S, 3 * S), run(6 * S, 2 * S)];
        assert!(!allows_repeating(&spec, &record, &run(6 * S, 0)), "8 of 14 s are used, 7 are needed");
        assert_eq!(of_window_ns(&spec, &record), 3 * S);
        record.iterations.push(run(6 * S, 3 * S));
        record.voids.push(run(500_000_000, 0));
        assert_eq!(of_window_ns(&spec, &record), 1_500_000_000);
    }

    #[test]
    fn without_a_planned_time_half_as_many_timed_runs_are_added() {
        let (mut spec, mut record) = (plan(), RunRecord::default());
        spec.load.duration = Nanos::ZERO;
        record.voids = vec![run(60 * S, 0)];
        assert!(allows_repeating(&spec, &record, &run(60 * S, 0)));
        record.voids.push(run(60 * S, 0));
        assert!(!allows_repeating(&spec, &record, &run(60 * S, 0)));
    }
}
