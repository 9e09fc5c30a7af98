//! Whether a duel may be believed, and what to know beside its figures.

use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{Contestant, DuelFigure, DuelRecord, SideRun};

use super::{DuelComparison, DuelRatio, ratios, starts_needed, without_cpu};
use crate::verdict::Standing;

/// Above this share of the precision, or of the limit of a condition, a difference of the twin makes the duel doubtful.
const TWIN_SHARE: f64 = 0.5;
/// Limits of conditions below this are no stricter for the twin: two copies of a program differ by some 0.2 %.
const TWIN_LIMIT_MIN: f64 = 0.004;
/// Most errors among the requests of a contestant, as a share.
const ERRORS_MAX: f64 = 0.01;
/// Most slices that were not answered whole, as a share.
const CUT_MAX: f64 = 0.05;
/// In open loop, slices may be longer than was asked for by this share, besides a mean response time.
const OVERRUN_MAX: f64 = 0.1;
/// In open loop with queueing the median response time is half of the slice's overrun. Below this share the overrun comes from a few
/// slow answers.
const QUEUED_MIN: f64 = 0.4;
/// A server that uses more than this share of its CPU time without load does work that no slice shows.
const RESTING_MAX: f64 = 0.02;

/// The slices of a contestant.
fn slices_of(record: &DuelRecord, number: usize) -> impl Iterator<Item = &Slice> {
    let all = record.starts.iter().flat_map(|start| &start.slices);
    all.filter(move |slice| slice.side as usize == number)
}

/// What a contestant did in each start.
fn runs_of(record: &DuelRecord, number: usize) -> impl Iterator<Item = &SideRun> {
    record.starts.iter().filter_map(move |start| start.sides.get(number))
}

pub(super) fn standing(
    record: &DuelRecord,
    comparisons: &[DuelComparison],
    twin: Option<&DuelComparison>,
    leading: DuelFigure,
) -> (Standing, Vec<String>) {
    let mut wrong = Vec::new();
    for (number, contestant) in record.contestants.iter().enumerate() {
        let name = &contestant.name;
        wrong.extend(unanswered(record, number).into_iter().map(|what| format!("{name}{what}")));
        if record.is_open_loop() {
            wrong.extend(falls_short(record, number).map(|what| format!("{name} {what}")));
        }
    }
    let differs = twin_figures(record, leading, twin).into_iter().filter_map(|figure| {
        let ratio = twin?.ratio(figure)?;
        let is_off = ratio.differs() && ratio.ratio.ln().abs() > twin_tolerance(record, figure, leading);
        is_off.then(|| twin_differs(record, ratio))
    });
    wrong.extend(differs);
    if !wrong.is_empty() {
        return (Standing::Invalid, wrong);
    }
    let starts = comparisons.iter().filter_map(|of| of.ratio(leading)).map(|ratio| ratio.starts).min();
    let starts = starts.unwrap_or(0);
    let needed = starts_needed(record);
    if starts < needed {
        let what = format!(
            "each contestant was started {starts} times, and {needed} are needed; give it more time (--at-most)"
        );
        return (Standing::Inconclusive, vec![what]);
    }
    (Standing::Sound, Vec::new())
}

/// What a contestant did not answer, if it is too much.
fn unanswered(record: &DuelRecord, number: usize) -> Vec<String> {
    let runs = || runs_of(record, number);
    let mut wrong = Vec::new();
    let (mut asked, mut failed) = (0_u64, 0_u64);
    for run in runs() {
        asked = run.counts.succeeded.saturating_add(run.counts.failed).saturating_add(asked);
        failed = run.counts.failed.saturating_add(failed);
    }
    if asked == 0 && !record.starts.is_empty() {
        wrong.push(" answered nothing".to_owned());
    } else if failed as f64 > ERRORS_MAX * asked as f64 {
        wrong.push(format!(": {failed} of {asked} requests failed"));
    } else if let Some(start) = runs().position(|run| run.counts.succeeded == 0) {
        wrong.push(format!(" answered nothing in start {}", start + 1));
    }
    let slices = || slices_of(record, number);
    let (all, cut) = (slices().count(), slices().filter(|slice| slice.unanswered > 0).count());
    if cut as f64 > CUT_MAX * all as f64 {
        wrong.push(format!(
            ": in {cut} of {all} slices, requests were unanswered {} after its turn",
            Nanos(record.duel.drain.0)
        ));
    }
    wrong
}

/// In open loop: that a contestant does not keep up with the arrivals. They queue until its turn ends, so latencies are as long as the
/// slice makes them.
fn falls_short(record: &DuelRecord, number: usize) -> Option<String> {
    let (mut took_ns, mut response_ns, mut requests) = (0.0, 0.0, 0.0);
    for slice in slices_of(record, number) {
        took_ns += slice.took_ns as f64;
        response_ns += slice.response_ns as f64;
        requests += slice.requests as f64;
    }
    let count = slices_of(record, number).count();
    if count == 0 || requests == 0.0 {
        return None;
    }
    let (took_ns, mean_ns, slice_ns) =
        (took_ns / count as f64, response_ns / requests, record.duel.slice.0 as f64);
    let median_ns = ratios::value(record, DuelFigure::P50, number)? * 1e9;
    let over_ns = took_ns - slice_ns;
    let queues = over_ns > OVERRUN_MAX * slice_ns + mean_ns && median_ns > QUEUED_MIN * over_ns;
    queues.then(|| {
        format!(
            "cannot keep up: it took {} on average for the arrivals of {}, so latencies depend on the length of slices; \
             give a lower rate",
            Nanos((took_ns as u64).div_ceil(100_000).saturating_mul(100_000)),
            record.duel.slice
        )
    })
}

/// Figures in which the twin must agree: the leading one, or the one that leads without CPU time if that of one server cannot be split
/// between two contestants; and those of conditions.
pub(super) fn twin_figures(
    record: &DuelRecord,
    leading: DuelFigure,
    twin: Option<&DuelComparison>,
) -> Vec<DuelFigure> {
    let Some(twin) = twin else { return Vec::new() };
    let first = if twin.ratio(leading).is_some() { leading } else { without_cpu(record) };
    let mut figures = vec![first];
    for figure in record.duel.fail_if.iter().map(|gate| gate.figure) {
        if twin.ratio(figure).is_some() && !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures
}

/// How far the twin may be off in a figure.
fn twin_tolerance(record: &DuelRecord, figure: DuelFigure, leading: DuelFigure) -> f64 {
    let gates = record.duel.fail_if.iter().filter(|gate| gate.figure == figure);
    let limits = gates.map(|gate| gate.limit.abs().max(TWIN_LIMIT_MIN));
    // Precision is of the leading figure, or of the one that replaces it, if the twin lacks it.
    let is_gated = figure != leading && record.duel.fail_if.iter().any(|gate| gate.figure == figure);
    let precision = if is_gated { f64::INFINITY } else { record.duel.precision };
    TWIN_SHARE * limits.fold(precision, f64::min)
}

fn twin_differs(record: &DuelRecord, ratio: &DuelRatio) -> String {
    format!(
        "{} differs from it by {:+.1} % in {}: something other than the program makes a difference",
        record.twin_in_words(),
        100.0 * (ratio.ratio - 1.0),
        ratio.figure.name()
    )
}

pub(super) fn notes(
    record: &DuelRecord,
    comparisons: &[DuelComparison],
    leading: DuelFigure,
    is_cpu_seen: bool,
) -> Vec<String> {
    let mut notes = of_what_is_seen(record, leading, is_cpu_seen);
    notes.extend(of_those_that_stay_up(record));
    for of in comparisons {
        let share = of.ratio(leading).and_then(|ratio| ratio.of_starts).filter(|share| *share > 0.5);
        if let Some(share) = share.filter(|_| is_restarted(record, of.contestant)) {
            notes.push(format!(
                "{}: {:.0} % of the spread of its {} lies between starts, not within them: each start has its own luck \
                 (memory layout, hash seeds)",
                of.name,
                100.0 * share,
                leading.name()
            ));
        }
    }
    for (number, contestant) in record.contestants.iter().enumerate() {
        let runs = || runs_of(record, number);
        let failed = runs().map(|run| run.counts.failed).fold(0, u64::saturating_add);
        let unanswered = runs().map(|run| run.counts.in_flight).fold(0, u64::saturating_add);
        if failed > 0 || unanswered > 0 {
            notes.push(format!(
                "{}: {failed} requests failed and {unanswered} were not answered in time; they are in no latency",
                contestant.name
            ));
        }
    }
    notes.extend(of_work_at_rest(record));
    notes
}

/// Whether a contestant or the first was started again and again.
fn is_restarted(record: &DuelRecord, number: usize) -> bool {
    let is_started = |number: usize| record.contestants.get(number).is_some_and(|it| it.is_started);
    is_started(number) || is_started(0)
}

fn of_what_is_seen(record: &DuelRecord, leading: DuelFigure, is_cpu_seen: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_cpu_seen {
        notes.push(format!(
            "the CPU time of the contestants cannot be seen from here, so {} lead, which noise widens more; \
             start them on this host, or have an agent on theirs (--server-agent), to see it",
            if leading == DuelFigure::Rate { "rates" } else { "latencies" }
        ));
    }
    if ratios::is_seen_elsewhere(record) {
        notes.push(
            "agents saw CPU time for whole starts, not slice by slice: what a contestant does between its turns is in it".to_owned(),
        );
    }
    notes
}

/// Servers that were up before have one start, whose luck no interval knows.
fn of_those_that_stay_up(record: &DuelRecord) -> Vec<String> {
    let up = record.contestants.iter().filter(|it| !it.is_started && !it.is_twin);
    let names: Vec<&str> = up.map(|it| it.name.as_str()).collect();
    let mut notes = Vec::new();
    if !names.is_empty() && !record.starts.is_empty() {
        notes.push(format!(
            "{} stayed up: the luck of a start (memory layout, hash seeds) is in the difference, and not in the interval",
            names.join(", ")
        ));
    }
    if ratios::is_first_asked_twice(record) {
        notes.push(format!(
            "{} was asked as two contestants and had the connections of both, so memory is not compared (--no-twin compares it)",
            record.contestants[0].name
        ));
    }
    notes
}

/// Work between turns.
fn of_work_at_rest(record: &DuelRecord) -> Vec<String> {
    let mut notes = Vec::new();
    // A contestant that webstone did not start and its twin are the same processes, which work in each other's rest.
    let is_apart = |it: &Contestant| !it.is_twin && (it.is_started || record.twin().is_none());
    for (number, contestant) in record.contestants.iter().enumerate().filter(|(_, it)| is_apart(it)) {
        let sum = |of: fn(&Slice) -> Option<u64>| -> u64 {
            slices_of(record, number).filter_map(of).fold(0, u64::saturating_add)
        };
        let (busy, resting) = (sum(|slice| slice.cpu_ns), sum(|slice| slice.resting_cpu_ns));
        if resting as f64 > RESTING_MAX * busy as f64 && busy > 0 {
            notes.push(format!(
                "{}: {:.0} % of its CPU time was used between its turns, without load (a collector, a log, a timer); it is not in \
                 the figures",
                contestant.name,
                100.0 * resting as f64 / (busy as f64 + resting as f64)
            ));
        }
    }
    notes
}
