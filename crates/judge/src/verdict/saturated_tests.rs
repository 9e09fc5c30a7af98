//! A load generator that was the bottleneck is told of, whatever took its CPU meanwhile.

use proptest::prelude::*;
use webstone_model::record::{CpuUse, HostUse, RunRecord};

use super::super::tests::{SECOND, valid};
use super::super::{Cause, Standing, levels};
use super::reasons;

/// What took a worker's CPU, as shares of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    queued: f64,
    stolen: f64,
    stalled: f64,
}

/// A worker that used this share of what was left to it of its CPU.
fn used(share: f64, window_ns: u64, taken: Taken) -> RunRecord {
    let Taken { queued, stolen, stalled } = taken;
    let ns = |share: f64| (share * window_ns as f64) as u64;
    let mut record = valid();
    for run in &mut record.iterations {
        run.measured.window_ns = window_ns;
        let worker = &mut run.measured.generator.workers[0];
        let left = 1.0 - queued - stolen.max(stalled);
        (worker.user_ns, worker.system_ns, worker.spun_ns) = (ns(share * left), 0, 0);
        worker.run_queue_ns = Some(ns(queued));
        // Its own stalls contain what it waited in the run queue.
        worker.stalled_ns = if stalled > 0.0 { ns(queued + stalled) } else { 0 };
        let of_worker = CpuUse { cpu: worker.cpu.unwrap(), stolen_ns: ns(stolen), ..CpuUse::default() };
        run.host = Some(HostUse { cpus: vec![of_worker], ..run.host.take().unwrap_or_default() });
    }
    record
}

fn is_saturated(record: &RunRecord) -> bool {
    reasons(record).0.iter().any(|reason| reason.cause == Cause::GeneratorSaturated)
}

#[test]
fn a_neighbour_of_a_short_window_does_not_hide_a_saturated_worker() {
    let waited = Taken { queued: 0.44, ..Taken::default() };
    for window_ns in [SECOND / 10, SECOND, SECOND * 3 / 2, 2 * SECOND] {
        assert!(is_saturated(&used(0.98, window_ns, waited)), "{window_ns}");
        assert!(!is_saturated(&used(0.88, window_ns, waited)), "{window_ns}");
    }
    // Of a worker's start nothing is said, disturbed or not.
    assert!(!is_saturated(&used(0.98, SECOND / 10 - 1, waited)));
    assert!(!is_saturated(&used(0.98, SECOND / 10 - 1, Taken::default())));
}

#[test]
fn a_hypervisor_does_not_hide_a_saturated_worker() {
    let (stolen, stalled) =
        (Taken { stolen: 0.1, ..Taken::default() }, Taken { stalled: 0.1, ..Taken::default() });
    for taken in [stolen, stalled, Taken { stalled: 0.05, ..stolen }] {
        let record = used(0.92, 600 * SECOND, taken);
        let (found, _) = reasons(&record);
        assert_eq!(found[0].cause, Cause::GeneratorSaturated, "{taken:?}");
        assert!(
            found[0].sentence.contains(
                "used 82.8 % of its CPU and waited for it 10.0 % of the time, 92.0 % of what was left"
            ),
            "{}",
            found[0].sentence
        );
        assert!(!is_saturated(&used(0.88, 600 * SECOND, taken)));
    }
    // A tick or two say nothing of a tenth of a second.
    assert!(!is_saturated(&used(0.92, SECOND / 10, stolen)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Noise that takes its share of a worker's time makes no better standing of it, and no narrower bound.
    #[test]
    fn noise_does_not_hide_a_saturated_worker(
        share in prop_oneof![0.0..0.899_f64, 0.901..1.0_f64],
        window_ns in prop_oneof![SECOND / 10..SECOND, SECOND..10 * SECOND, Just(600 * SECOND)],
        queued in 0.0..0.5_f64,
        robbed in 0.0..0.4_f64,
        is_told in any::<bool>(),
    ) {
        let robbed = if window_ns < SECOND { 0.0 } else { robbed };
        let (stolen, stalled) = if is_told { (robbed, 0.0) } else { (0.0, robbed) };
        let judged = |taken: Taken| {
            let record = used(share, window_ns, taken);
            let (reasons, doubts) = reasons(&record);
            let levels = levels::judged(&record, &reasons, &doubts, Standing::Sound);
            let is_invalid = reasons.iter().any(|reason| reason.cause == Cause::GeneratorSaturated);
            let factor = levels[0].noise.map_or(1.0, |noise| noise.factor.unwrap_or(f64::INFINITY));
            (levels[0].standing, is_invalid, factor)
        };
        let quiet = judged(Taken::default());
        let noisy = judged(Taken { queued, stolen, stalled });
        prop_assert_eq!(quiet.1, share > 0.9);
        prop_assert_eq!(noisy.1, quiet.1);
        prop_assert!(noisy.0 >= quiet.0, "{quiet:?} {noisy:?}");
        // An invalid level has no bound.
        prop_assert!(noisy.1 || noisy.2 >= quiet.2 * (1.0 - 1e-12), "{quiet:?} {noisy:?}");
    }
}
