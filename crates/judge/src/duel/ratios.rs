//! A contestant against the first one, start by start: the ratio of a figure, whose logarithm is averaged over starts.
//!
//! Within a start the ratio is paired: in every round each contestant has two slices, placed evenly around the round's middle, so that a
//! machine that drifts does so for all alike. The logarithms of the rounds' ratios are averaged without the largest and the smallest
//! tenth, because a neighbour that wakes up disturbs only one contestant of a round. The first contestant and its twin are one program:
//! they are averaged.

use webstone_measure::slices::Slice;
use webstone_model::duel::{DuelFigure, DuelRecord, DuelStart, SideRun};

use crate::statistics::mean;

/// Share of the rounds that is left out at either end.
const TRIMMED: f64 = 0.1;

/// By start: the logarithm of contestant `side`'s figure over that of the contestants `base` together. A start in which it is unknown is
/// left out.
pub(super) fn log_ratios(record: &DuelRecord, figure: DuelFigure, side: usize, base: &[usize]) -> Vec<f64> {
    let of = |start: &DuelStart| log_ratio(start, record.contestants.len(), figure, side, base);
    record.starts.iter().filter_map(of).filter(|value| value.is_finite()).collect()
}

fn log_ratio(
    start: &DuelStart,
    contestants: usize,
    figure: DuelFigure,
    side: usize,
    base: &[usize],
) -> Option<f64> {
    let apart = |value: &dyn Fn(usize) -> Option<f64>| {
        let logs: Option<Vec<f64>> = base.iter().map(|number| Some(value(*number)?.ln())).collect();
        Some(value(side)?.ln() - mean(&logs?)).filter(|value| value.is_finite())
    };
    if let Some(of_slice) = by_slice(figure) {
        let rounds = rounds(&start.slices, contestants);
        let logs = rounds.filter_map(|round| apart(&|number| of_round(round, number, of_slice))).collect();
        let ratio = trimmed_mean(logs);
        if ratio.is_some() || figure != DuelFigure::Cpu {
            return ratio;
        }
        // Seen by an agent: the whole start at once.
        let whole = |number: usize| whole_cpu(start.sides.get(number)?);
        let ratio = whole(side)? / whole(base[0])?;
        return Some(ratio.ln()).filter(|value| value.is_finite());
    }
    apart(&|number| of_run(start.sides.get(number)?, figure))
}

/// The rounds of a start: each has every contestant twice. What was cut off is left out.
pub(super) fn rounds(slices: &[Slice], contestants: usize) -> impl Iterator<Item = &[Slice]> {
    slices.chunks_exact((2 * contestants).max(1))
}

/// Numerator and denominator of a figure in a slice.
type OfSlice = fn(&Slice) -> Option<(u64, u64)>;

/// Figures that are known slice by slice.
fn by_slice(figure: DuelFigure) -> Option<OfSlice> {
    match figure {
        DuelFigure::Cpu => Some(|slice| Some((slice.cpu_ns?, slice.requests))),
        DuelFigure::Rate => Some(|slice| Some((slice.requests, slice.took_ns))),
        DuelFigure::Latency => Some(|slice| Some((slice.response_ns, slice.requests))),
        _ => None,
    }
}

/// A contestant's figure in a round; `None` if one of its slices was not answered whole.
fn of_round(round: &[Slice], number: usize, of_slice: OfSlice) -> Option<f64> {
    let mut sums = (0_u64, 0_u64);
    for slice in round.iter().filter(|slice| slice.side as usize == number) {
        let (over, under) = of_slice(slice).filter(|_| slice.is_whole())?;
        sums = (over.saturating_add(sums.0), under.saturating_add(sums.1));
    }
    (sums.0 > 0 && sums.1 > 0).then(|| sums.0 as f64 / sums.1 as f64)
}

/// Figures that are known start by start.
fn of_run(run: &SideRun, figure: DuelFigure) -> Option<f64> {
    let percentile = |percent: f64| {
        (!run.distribution.is_empty()).then(|| run.distribution.value_at_percentile(percent) as f64)
    };
    match figure {
        DuelFigure::P50 => percentile(50.0),
        DuelFigure::P90 => percentile(90.0),
        DuelFigure::P99 => percentile(99.0),
        DuelFigure::Bytes => bytes_per_response(run),
        DuelFigure::Memory => run.resident_bytes_max.map(|bytes| bytes as f64),
        DuelFigure::Cpu | DuelFigure::Rate | DuelFigure::Latency => None,
    }
}

/// Whether an agent saw the CPU time of a contestant: then all are compared by whole starts.
pub(super) fn is_seen_elsewhere(record: &DuelRecord) -> bool {
    record.starts.iter().flat_map(|start| &start.sides).any(|run| run.cpu_elsewhere_ns.is_some())
}

/// Whether the first contestant is a server that was up, and serves its twin as well: its memory is that of twice the connections.
pub(super) fn is_first_asked_twice(record: &DuelRecord) -> bool {
    record.twin().is_some() && record.contestants.first().is_some_and(|first| !first.is_started)
}

/// CPU time per request over a whole start, in nanoseconds.
fn whole_cpu(run: &SideRun) -> Option<f64> {
    let requests = run.counts.succeeded;
    run.whole_cpu_ns().filter(|_| requests > 0).map(|cpu_ns| cpu_ns as f64 / requests as f64)
}

fn bytes_per_response(run: &SideRun) -> Option<f64> {
    let counts = &run.counts;
    let parts = [counts.head_bytes, counts.framing_bytes, counts.body_bytes];
    let bytes = parts.into_iter().fold(0_u64, u64::saturating_add);
    (counts.succeeded > 0).then(|| bytes as f64 / counts.succeeded as f64)
}

/// A contestant's own figure over the whole duel: in seconds, per second, or bytes.
pub(super) fn value(record: &DuelRecord, figure: DuelFigure, number: usize) -> Option<f64> {
    let runs = || record.starts.iter().filter_map(move |start| start.sides.get(number));
    let slices = || {
        let all = record.starts.iter().flat_map(|start| &start.slices);
        all.filter(move |slice| slice.side as usize == number && slice.is_whole())
    };
    if figure == DuelFigure::Cpu && is_seen_elsewhere(record) {
        let known = || runs().filter_map(|run| Some((run.whole_cpu_ns()?, run.counts.succeeded)));
        let sum = |of: fn((u64, u64)) -> u64| known().map(of).fold(0, u64::saturating_add) as f64;
        return Some(sum(|it| it.0) / sum(|it| it.1) * 1e-9).filter(|value| value.is_finite());
    }
    if let Some(of_slice) = by_slice(figure) {
        let mut sums = (0_u64, 0_u64);
        for slice in slices() {
            let (over, under) = of_slice(slice)?;
            sums = (over.saturating_add(sums.0), under.saturating_add(sums.1));
        }
        let scale = if figure == DuelFigure::Rate { 1e9 } else { 1e-9 };
        return (sums.1 > 0).then(|| sums.0 as f64 / sums.1 as f64 * scale);
    }
    match figure {
        DuelFigure::P50 | DuelFigure::P90 | DuelFigure::P99 => {
            let mut whole = SideRun::default();
            runs().for_each(|run| whole.distribution.merge(&run.distribution));
            Some(of_run(&whole, figure)? * 1e-9)
        }
        DuelFigure::Memory => {
            let peaks: Option<Vec<u64>> = runs().map(|run| run.resident_bytes_max).collect();
            Some(peaks?.into_iter().max()? as f64)
        }
        _ => {
            let values: Vec<f64> = runs().filter_map(bytes_per_response).collect();
            (!values.is_empty()).then(|| mean(&values))
        }
    }
}

/// The mean without the largest and the smallest tenth.
fn trimmed_mean(mut values: Vec<f64>) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let out = (values.len() as f64 * TRIMMED) as usize;
    Some(mean(&values[out..values.len() - out]))
}

/// The share of the spread between starts that the rounds within them do not explain: what starting alone changes. `None` below two
/// starts or two rounds.
pub(super) fn share_of_starts(
    record: &DuelRecord,
    figure: DuelFigure,
    side: usize,
    base: &[usize],
) -> Option<f64> {
    let of_slice = by_slice(figure)?;
    let contestants = record.contestants.len();
    let (mut means, mut within) = (Vec::new(), Vec::new());
    for start in &record.starts {
        let logs: Vec<f64> = rounds(&start.slices, contestants)
            .filter_map(|round| {
                let log = |number: usize| Some(of_round(round, number, of_slice)?.ln());
                let bases: Option<Vec<f64>> = base.iter().map(|number| log(*number)).collect();
                Some(log(side)? - mean(&bases?))
            })
            .collect();
        if logs.len() < 2 {
            continue;
        }
        within.push(crate::statistics::standard_deviation(&logs).powi(2) / logs.len() as f64);
        means.push(trimmed_mean(logs)?);
    }
    let between = crate::statistics::standard_deviation(&means).powi(2);
    (means.len() >= 2 && between > 0.0).then(|| (1.0 - mean(&within) / between).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_tenths_are_left_out() {
        let values: Vec<f64> = (0..9).map(|_| 1.0).chain([100.0]).collect();
        assert_eq!(trimmed_mean(values), Some(1.0));
        assert_eq!(trimmed_mean(vec![1.0, 3.0]), Some(2.0));
        assert_eq!(trimmed_mean(Vec::new()), None);
    }

    #[test]
    fn a_round_with_an_unanswered_request_tells_nothing() {
        let whole = Slice { requests: 10, took_ns: 5, cpu_ns: Some(30), ..Slice::default() };
        let cut = Slice { unanswered: 1, ..whole };
        let of_slice = by_slice(DuelFigure::Cpu).unwrap();
        assert_eq!(of_round(&[whole, whole], 0, of_slice), Some(3.0));
        assert_eq!(of_round(&[whole, cut], 0, of_slice), None);
        assert_eq!(of_round(&[whole, Slice { cpu_ns: None, ..whole }], 0, of_slice), None);
        assert_eq!(of_round(&[whole], 1, of_slice), None);
    }
}
