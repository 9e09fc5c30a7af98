//! What a level's request rate would have been without noise: an estimate, beside the bound that always holds.
//!
//! The slices of its windows differ in what was taken from them. A share that was taken lowers the rate by that share at most, and
//! perhaps not at all: the other side may have waited anyway. So ln rate = ln r₀ + s · ln (share kept), with s from 0 to 1 by least
//! squares, and r₀ is the estimate. Its interval comes from resampling blocks of slices, because neighbours are alike (H. R. Künsch,
//! *The Jackknife and the Bootstrap for General Stationary Observations*, Annals of Statistics 17(3), 1989).
//!
//! It is made only where slices reach from clean to disturbed. What is taken from all of them alike does not show in their differences:
//! beside a busy loop that took 33 to 48 % of every slice, this line gave 63,000 to 73,000 requests/s for a server of 82,000.

use serde::{Deserialize, Serialize};

use super::bounds::TAKEN_PERCENT_VOID;
use super::disturbance;
use super::levels::kept;
use crate::statistics::mean;
use webstone_measure::metrics::Mean;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_workload::PageSequence;

/// Slices that an estimate needs, and how many of them must be clean.
const SLICES_MIN: usize = 12;
const CLEAN_MIN: usize = 4;
/// Neighbouring slices that are resampled together: two seconds.
const BLOCK: usize = 4;
const RESAMPLES: usize = 999;
const SEED: u64 = 1989;
/// What is kept of a slice is at least this share in the fit.
const KEPT_MIN: f64 = 0.05;

/// An estimate of a level's undisturbed request rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undisturbed {
    /// Requests per second.
    pub rate: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Slices that it was estimated from.
    pub slices: u64,
    /// What the least disturbed of them lost, in percent.
    pub lost_percent_min: f64,
    /// What the most disturbed of them lost, in percent.
    pub lost_percent_max: f64,
}

/// The logarithms of a slice's rate and of the share of it that nothing took.
#[derive(Clone, Copy)]
struct Point {
    rate: f64,
    kept: f64,
}

/// The estimate for a level in closed loop; `None` where its slices do not allow one.
pub(super) fn of_level(record: &RunRecord, runs: &[&IterationRecord]) -> Option<Undisturbed> {
    let slice_ns = runs.iter().flat_map(|run| &run.slices).map(|slice| slice.ns).max()?;
    let is_short = |run: &&IterationRecord| {
        let response = Mean::of_moments(&run.measured.response, &run.measured.unanswered.response);
        // As in `runner/src/slicing.rs`: those that end in a clean slice may have been held up in another.
        response.is_some_and(|mean| 10.0 * mean.ns <= slice_ns as f64)
    };
    if runs.iter().any(|run| run.rate.is_some()) || !runs.iter().all(is_short) {
        return None;
    }
    let windows: Vec<Vec<Point>> =
        runs.iter().map(|run| points(record, run, slice_ns)).collect::<Option<_>>()?;
    let lost = || windows.iter().flatten().map(|point| 100.0 * (1.0 - point.kept.exp()));
    let (least, most) = (lost().fold(f64::INFINITY, f64::min), lost().fold(0.0, f64::max));
    let clean = lost().filter(|lost| *lost < TAKEN_PERCENT_VOID).count();
    if lost().count() < SLICES_MIN || clean < CLEAN_MIN || most < TAKEN_PERCENT_VOID {
        return None;
    }
    // A window without slices in the record is one observation, however long it is.
    let block = |run: &IterationRecord, window: &[Point]| match run.slices.is_empty() {
        true => window.len().max(1),
        false => BLOCK,
    };
    let blocks = runs.iter().zip(&windows).flat_map(|(run, window)| window.chunks(block(run, window)));
    let blocks: Vec<&[Point]> = blocks.collect();
    let (low, high) = interval(&blocks)?;
    // Noise makes no server faster. (Slices that are left out are in the fit, and not in what was measured.)
    let rate = fit(&blocks)?.max(measured_rate(runs));
    Some(Undisturbed {
        rate,
        low,
        high: high.max(rate),
        slices: lost().count() as u64,
        lost_percent_min: least,
        lost_percent_max: most,
    })
}

/// The level's request rate.
fn measured_rate(runs: &[&IterationRecord]) -> f64 {
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run) as f64).sum::<f64>();
    let window_ns = sum(|run| run.measured.window_ns);
    if window_ns > 0.0 { sum(|run| run.measured.counts.succeeded) * 1e9 / window_ns } else { 0.0 }
}

/// The slices of a window; `None` if one had no valid response. A window in which none was disturbed has no slices in the record: each was
/// like the whole.
fn points(record: &RunRecord, run: &IterationRecord, slice_ns: u64) -> Option<Vec<Point>> {
    let point = |requests: u64, ns: u64, kept: f64| {
        let rate = requests as f64 / ns as f64 * 1e9;
        (rate > 0.0).then(|| Point { rate: rate.ln(), kept: kept.clamp(KEPT_MIN, 1.0).ln() })
    };
    if run.slices.is_empty() {
        let measured = &run.measured;
        let whole =
            point(measured.counts.succeeded, measured.window_ns, kept(disturbance::all(record, run).iter()))?;
        return Some(vec![whole; (measured.window_ns / slice_ns.max(1)) as usize]);
    }
    run.slices.iter().map(|slice| point(slice.requests, slice.ns, 1.0 - slice.lost_percent / 100.0)).collect()
}

/// The undisturbed rate by least squares.
fn fit(blocks: &[&[Point]]) -> Option<f64> {
    let values = |of: fn(&Point) -> f64| blocks.iter().copied().flatten().map(of).collect::<Vec<f64>>();
    let (rates, kept) = (values(|point| point.rate), values(|point| point.kept));
    let (rate, centre) = (mean(&rates), mean(&kept));
    let square: f64 = kept.iter().map(|kept| (kept - centre).powi(2)).sum();
    let product: f64 = kept.iter().zip(&rates).map(|(kept, at)| (kept - centre) * (at - rate)).sum();
    let slope = if square > 0.0 { (product / square).clamp(0.0, 1.0) } else { 0.0 };
    Some((rate - slope * centre).exp()).filter(|rate| rate.is_finite())
}

fn interval(blocks: &[&[Point]]) -> Option<(f64, f64)> {
    let mut random = PageSequence::new(SEED, 0);
    let last = blocks.len() as u64 - 1;
    let mut drawn = |_| -> Option<f64> {
        let sample: Vec<&[Point]> = blocks.iter().map(|_| blocks[random.between(0, last) as usize]).collect();
        fit(&sample)
    };
    let mut rates: Vec<f64> = (0..RESAMPLES).map(&mut drawn).collect::<Option<_>>()?;
    rates.sort_unstable_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Some((rates[tail], rates[RESAMPLES - 1 - tail]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::valid;
    use super::*;
    use webstone_measure::window_slices::WindowSlice;

    const CAPACITY: f64 = 10_000.0;

    /// A window of 20 s whose slices lost these shares, in percent, of which `slope` lowered the rate, and whose rates vary by 2 %.
    fn record(seed: u64, slope: f64, lost: impl Fn(u64) -> f64) -> RunRecord {
        let mut record = valid();
        let run = &mut record.iterations[0];
        let mut random = PageSequence::new(seed, 0);
        let slice = |at: u64| {
            let chance = 1.0 + (random.between(0, 800) as f64 - 400.0) / 10_000.0;
            let requests = CAPACITY / 2.0 * (1.0 - lost(at) / 100.0).powf(slope) * chance;
            WindowSlice {
                ns: 500_000_000,
                requests: requests as u64,
                lost_percent: lost(at),
                ..WindowSlice::default()
            }
        };
        run.slices = (0..40).map(slice).collect();
        (run.measured.window_ns, run.measured.counts.succeeded) = (20_000_000_000, 0);
        record
    }

    fn estimate(record: &RunRecord) -> Option<Undisturbed> {
        of_level(record, &[&record.iterations[0]])
    }

    #[test]
    fn a_window_without_slices_is_one_observation() {
        let with = |whole: usize| {
            let mut record = record(3, 1.0, |at| if at % 2 == 0 { 0.0 } else { 30.0 });
            let mut clean = record.iterations[0].clone();
            clean.slices.clear();
            clean.measured.counts.succeeded = (CAPACITY * 20.0) as u64;
            record.iterations.truncate(1);
            record.iterations.extend(std::iter::repeat_n(clean, whole));
            let runs: Vec<&IterationRecord> = record.iterations.iter().collect();
            of_level(&record, &runs).unwrap()
        };
        // Forty equal slices, resampled one by one, would make the interval far narrower.
        let width = |it: Undisturbed| it.high - it.low;
        assert!(width(with(1)) > width(with(0)) / 2.0, "{:?} {:?}", with(1), with(0));
    }

    #[test]
    fn the_true_capacity_is_within_the_interval_as_often_as_it_says() {
        for slope in [0.0, 0.4, 1.0] {
            let covers = |seed: &u64| {
                let found = estimate(&record(*seed, slope, |at| (at * 7 % 40) as f64)).unwrap();
                assert!((found.rate / CAPACITY - 1.0).abs() < 0.03, "{found:?}");
                assert_eq!((found.slices, found.lost_percent_min.round()), (40, 0.0));
                found.low <= CAPACITY && CAPACITY <= found.high
            };
            // Of 10 blocks, the bootstrap covers somewhat less than it says.
            let covered = (0..100).filter(covers).count();
            assert!(covered >= 84, "{slope}: {covered} of 100");
        }
    }

    #[test]
    fn no_estimate_is_made_of_what_was_taken_from_all_slices_alike() {
        assert_eq!(estimate(&record(1, 1.0, |at| 33.0 + at as f64 / 4.0)), None);
        assert_eq!(estimate(&record(1, 1.0, |at| at as f64 / 20.0)), None, "nothing to tell from");
        let mut faster = record(1, 1.0, |at| (at * 7 % 40) as f64);
        faster.iterations[0].measured.counts.succeeded = 21 * CAPACITY as u64;
        assert_eq!(
            estimate(&faster).map(|it| it.rate),
            Some(1.05 * CAPACITY),
            "noise makes no server faster"
        );
        let mut silent = record(1, 1.0, |at| (at * 7 % 40) as f64);
        silent.iterations[0].slices[3].requests = 0;
        assert_eq!(estimate(&silent), None);
        let mut slow = record(1, 1.0, |at| (at * 7 % 40) as f64);
        slow.iterations[0].measured.response.sum = slow.iterations[0].measured.response.count * 60_000_000;
        assert_eq!(estimate(&slow), None);
    }
}
