//! Slices of a window: when one is left out, and what those that are left out make of the rest.
//!
//! They are in no figure, and yet they count. Otherwise a window in which a slice lost 4 % would be worth less than one in which the same
//! slice lost 6 % and is therefore left out. So every slice counts with what it lost, but at most with what a kept slice may lose.

use super::bounds::{TAKEN_PERCENT_CLEAN, TAKEN_PERCENT_VOID};
use super::disturbance::{self, Loss, LossKind, Worth};
use super::levels::kept;
use webstone_measure::window_slices::WindowSlice;
use webstone_model::record::{IterationRecord, RunRecord};

/// What a slice lost.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceLoss {
    /// By how much its rate may be too low, in percent: what load generator and server lost, multiplied.
    pub percent: f64,
    /// Why it is left out, if it is.
    pub left_out: Option<String>,
}

/// What was taken in a slice, which is judged like a window.
pub fn lost_in_slice(record: &RunRecord, slice: &IterationRecord) -> SliceLoss {
    let losses = disturbance::all(record, slice);
    let percent = 100.0 * (1.0 - kept(losses.iter()));
    let is_left_out = percent >= TAKEN_PERCENT_VOID || losses.iter().any(|loss| loss.worth == Worth::Void);
    let worst = losses.iter().max_by(|a, b| a.worth.cmp(&b.worth).then(a.percent.total_cmp(&b.percent)));
    SliceLoss { percent, left_out: worst.filter(|_| is_left_out).map(Loss::sentence) }
}

/// What the slices of a window make of it, if any was disturbed.
pub(super) fn of_window(run: &IterationRecord) -> Option<Loss> {
    let span_ns = run.slices.iter().map(|slice| slice.ns).fold(0, u64::saturating_add);
    if span_ns == 0 {
        return None;
    }
    let lost = |slice: &WindowSlice| slice.lost_percent.min(TAKEN_PERCENT_VOID) * slice.ns as f64;
    let percent = run.slices.iter().map(lost).sum::<f64>() / span_ns as f64;
    // One that is kept has no reason.
    let left_out = run.slices.iter().filter(|slice| slice.left_out.is_some());
    let worst = left_out.max_by(|a, b| a.lost_percent.total_cmp(&b.lost_percent));
    let is_left_out = !run.measured.left_out.is_empty();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let of = match is_left_out {
        true => format!("{:.2} s of {:.2} s", seconds(run.measured.left_out.ns), seconds(span_ns)),
        false => "the window".to_owned(),
    };
    let worth = if percent >= TAKEN_PERCENT_CLEAN { Worth::Disturbed } else { Worth::Clean };
    let by = worst.and_then(|slice| slice.left_out.clone());
    let by = by.unwrap_or_else(|| format!("its slices lost {percent:.1} % on average"));
    Some(Loss::new(LossKind::LeftOut, worth, of, percent, by))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use webstone_measure::metrics::LeftOut;

    use super::super::disturbance::losses;
    use super::super::tests::valid;
    use super::*;

    const SLICE_NS: u64 = 500_000_000;

    /// A run whose worker lost this share of each slice, in percent, by the rule of `runner/src/slicing.rs`.
    fn sliced(lost: &[f64]) -> RunRecord {
        let mut record = valid();
        let run = &mut record.iterations[0];
        let is_left_out = |at: usize| {
            let is_disturbed = |at: usize| lost[at] >= TAKEN_PERCENT_VOID;
            is_disturbed(at) || at > 0 && is_disturbed(at - 1)
        };
        let any = (0..lost.len()).any(is_left_out);
        let left_out = (0..lost.len()).filter(|at| is_left_out(*at)).count();
        let is_whole = 2 * (lost.len() - left_out) < lost.len();
        let counts = |at: &usize| is_whole || !is_left_out(*at);
        let counted = (0..lost.len()).filter(counts).count() as u64;
        let all: f64 = (0..lost.len()).filter(counts).map(|at| lost[at] / 100.0 * SLICE_NS as f64).sum();
        run.measured.window_ns = counted * SLICE_NS;
        run.measured.generator.workers[0].run_queue_ns = Some(all as u64);
        run.measured.left_out = match is_whole || left_out == 0 {
            true => LeftOut::default(),
            false => {
                LeftOut { ns: left_out as u64 * SLICE_NS, slices: left_out as u64, ..LeftOut::default() }
            }
        };
        let slice = |at: usize| WindowSlice {
            ns: SLICE_NS,
            lost_percent: lost[at],
            left_out: is_left_out(at).then(|| "others".to_owned()),
            ..WindowSlice::default()
        };
        run.slices = if any { (0..lost.len()).map(slice).collect() } else { Vec::new() };
        record
    }

    /// What the window is worth, and by which factor its rate may be too low.
    fn judged(lost: &[f64]) -> (Worth, f64) {
        let record = sliced(lost);
        let losses = losses(&record, &record.iterations[0]);
        let worth = losses.iter().map(|loss| loss.worth).max().unwrap_or(Worth::Clean);
        (worth, 1.0 / kept(losses.iter()))
    }

    #[test]
    fn a_burst_costs_no_more_than_its_slices() {
        let mut lost = vec![0.5; 40];
        assert_eq!(judged(&lost).0, Worth::Clean);
        lost[10..14].fill(60.0);
        // As a whole it would have lost 6 %, and be void.
        let (worth, factor) = judged(&lost);
        assert!(worth == Worth::Clean && factor == 1.0, "{worth:?} {factor}");
        lost[20..32].fill(60.0);
        let (worth, factor) = judged(&lost);
        assert!(worth == Worth::Disturbed && factor < 1.04, "{worth:?} {factor}");
        lost.fill(60.0);
        assert!(judged(&lost).0 == Worth::Void && judged(&lost).1 > 2.0);
    }

    proptest! {
        /// More noise gives neither a better standing nor a narrower bound, whichever slices it is in.
        #[test]
        fn more_noise_is_never_better(
            lost in proptest::collection::vec(prop_oneof![0.0..4.9_f64, Just(0.0), 4.0..6.0_f64, 5.0..80.0_f64], 40),
            more in proptest::collection::vec(prop_oneof![Just(0.0), Just(0.0), 0.0..3.0_f64, 0.0..50.0_f64], 40),
        ) {
            let noisier: Vec<f64> = lost.iter().zip(&more).map(|(lost, more)| (lost + more).min(100.0)).collect();
            let (before, after) = (judged(&lost), judged(&noisier));
            prop_assert!(after.0 >= before.0, "{before:?} {after:?}");
            // Losses of a window are multiplied, and of its slices added.
            prop_assert!(after.1 >= before.1 * 0.997, "{before:?} {after:?}");
        }
    }
}
