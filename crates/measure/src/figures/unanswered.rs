//! Unanswered requests: how many, for how long, and which response times are lower bounds because of them.

use super::quantity::Quantity;
use super::seconds;
use super::table::{Figure, some};
use crate::iteration::IterationRecord;
use crate::metrics::{Histogram, Moments};

const SECTION: &str = "Unanswered requests";

/// A request has stalled if it has waited this many times as long as the mean of the answered ones, and still has no
/// answer; and if that wait is unusual.
const STALLED_TIMES: u64 = 10;
/// A wait is unusual if answered requests that took longer account for less than this share of all time spent waiting for answers. A
/// server that serves some clients late has long requests in flight at any moment.
const UNUSUAL_SHARE: f64 = 0.01;

/// The wait from which on an unanswered request has stalled, in nanoseconds, over all iterations of a level.
pub fn stalled_after_ns(runs: &[&IterationRecord]) -> u64 {
    let mut response = Moments::default();
    runs.iter().for_each(|run| response.merge(&run.measured.response));
    (response.mean() as u64).saturating_mul(STALLED_TIMES).max(usual_ns(runs))
}

/// The longest usual wait; 0 without distributions.
fn usual_ns(runs: &[&IterationRecord]) -> u64 {
    let mut answered = Histogram::default();
    runs.iter().for_each(|run| answered.merge(&run.measured.histograms.response));
    let waits: Vec<(u64, f64)> =
        answered.buckets().map(|(lowest, _, count)| (lowest, lowest as f64 * count as f64)).collect();
    let mut longer = UNUSUAL_SHARE * waits.iter().map(|(_, time)| time).sum::<f64>();
    let usual = waits.iter().rev().find(|(_, time)| {
        longer -= time;
        longer < 0.0
    });
    usual.map_or(0, |(lowest, _)| *lowest)
}

/// The [`share`] of requests that stalled.
pub fn stalled_share(runs: &[&IterationRecord]) -> f64 {
    share(runs, stalled_after_ns(runs))
}

/// The share of the load, from 0 to 1, that waited longer than this without a valid answer. In closed loop it is a
/// share of the clients' time: what a client that arrived at a random moment would have experienced. In open loop it
/// is a share of arrivals, which do not depend on waiting clients.
pub fn share(runs: &[&IterationRecord], longer_than_ns: u64) -> f64 {
    let (mut part, mut whole) = (0.0, 0.0);
    for measured in runs.iter().map(|run| &run.measured) {
        let waits = waits(&measured.unanswered.histograms.response, longer_than_ns);
        match &measured.open_loop {
            Some(open_loop) => {
                part += waits.map(|(_, count)| count as f64).sum::<f64>();
                whole += open_loop.carried_in as f64 + open_loop.planned as f64;
            }
            None => {
                // What waits at the end may have done so in slices that are left out, too; what failed in those is not counted.
                let (window_ns, span_ns) = (measured.window_ns as f64, measured.span_ns());
                let within = |(wait_ns, count): (u64, u64)| wait_ns.min(span_ns) as f64 * count as f64;
                let all: f64 = waits.map(within).sum();
                let in_flight = &measured.unanswered.in_flight;
                let open = (in_flight.sum as f64).min(in_flight.count as f64 * span_ns as f64).min(all);
                part += all - open + open * window_ns / (span_ns as f64).max(1.0);
                whole += measured.clients.len() as f64 * window_ns;
            }
        }
    }
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

fn waits(histogram: &Histogram, longer_than_ns: u64) -> impl Iterator<Item = (u64, u64)> {
    let buckets = histogram.buckets().map(|(lowest, _, count)| (lowest, count));
    buckets.filter(move |(lowest, _)| *lowest > longer_than_ns)
}

/// The figures of the table.
pub(super) static UNANSWERED: &[Figure] = &[OLDEST_IN_FLIGHT, STALLED, MEAN_AT_LEAST, AT_LEAST_FROM];

/// How long the oldest request in flight had waited when a window closed.
pub const OLDEST_IN_FLIGHT: Figure = Figure::new("oldest_in_flight_s", Quantity::Seconds, |r| {
    let in_flight = &r.measured().unanswered.in_flight;
    (in_flight.count > 0).then(|| seconds(in_flight.max).into())
})
.called("Oldest request in flight", "oldest in flight")
.defined(SECTION, "oldest_in_flight_s")
.prometheus("webstone_oldest_in_flight_seconds");

/// Share of the load in stalled requests.
pub const STALLED: Figure =
    Figure::new("stalled_percent", Quantity::Percent, |r| r.windowed(stalled_share(r.runs()) * 100.0))
        .called("Stalled", "stalled")
        .defined(SECTION, "stalled_percent")
        .prometheus("webstone_stalled_ratio");

/// Whether the mean response time is a lower bound.
const MEAN_AT_LEAST: Figure = Figure::new("latency_mean_is_at_least", Quantity::Count, |r| {
    some(u64::from(r.figures().latency_mean_is_at_least))
})
.called("Latency mean is a lower bound", "latency mean is a lower bound")
.defined(SECTION, "latency_mean_is_at_least")
.detail();

/// The percentile from which on response times are lower bounds.
const AT_LEAST_FROM: Figure = Figure::new("latency_at_least_from_percentile", Quantity::Percent, |r| {
    r.figures().latency_at_least_from_percentile.map(Into::into)
})
.called("Latency is a lower bound from percentile", "latency is a lower bound from percentile")
.defined(SECTION, "latency_at_least_from_percentile")
.detail();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ClientTotals, OpenLoop};

    fn run(window_ns: u64, clients: usize, waits_ns: &[u64]) -> IterationRecord {
        let mut run = IterationRecord::default();
        run.measured.window_ns = window_ns;
        run.measured.clients = vec![ClientTotals::default(); clients];
        waits_ns.iter().for_each(|wait| run.measured.unanswered.request_in_flight(*wait, false));
        run
    }

    #[test]
    fn in_closed_loop_it_is_a_share_of_the_clients_time() {
        // Two of ten clients wait for eight of ten seconds, another since before the window opened.
        let one = run(10_000, 10, &[8_000, 8_000, 50, 40_000]);
        let part = share(&[&one], 100);
        assert!((part - 0.26).abs() < 1e-3, "{part}");
        // Together with an iteration in which no client waits.
        let part = share(&[&one, &run(10_000, 10, &[])], 100);
        assert!((part - 0.13).abs() < 1e-3, "{part}");
        assert_eq!(share(&[&one], 50_000), 0.0);
        assert_eq!(share(&[], 0), 0.0);
    }

    /// 12 time-outs of a second in 10 s of 100 clients are 1.2 %, however long the slices were that are left out; 50 clients that wait
    /// from the beginning to the end are half of the load.
    #[test]
    fn slices_that_are_left_out_hide_no_waits() {
        let second = 1_000_000_000;
        for left_out_s in [0, 5] {
            let mut failing = run(10 * second, 100, &[]);
            failing.measured.left_out.ns = left_out_s * second;
            (0..12).for_each(|_| failing.measured.unanswered.request(second, false));
            let part = share(&[&failing], second / 2);
            assert!((part - 0.012).abs() < 1e-4, "{part}");
            let mut hung = run(10 * second, 100, &[(10 + left_out_s) * second; 50]);
            hung.measured.left_out.ns = left_out_s * second;
            let part = share(&[&hung], second);
            assert!((part - 0.5).abs() < 1e-3, "{part}");
        }
    }

    /// 3,700 first bytes after 4.4 ms, and eight requests that waited 8 s for theirs.
    #[test]
    fn the_mean_time_to_the_first_byte_is_a_lower_bound_where_some_wait() {
        let value = |waits: usize| {
            let mut run = run(8_000_000_000, 8, &vec![8_000_000_000; waits]);
            answered(&mut run, 3_700, 4_400_000);
            (0..3_700).for_each(|_| run.measured.first_byte.record(4_400_000));
            let figure =
                crate::figures::table::all().find(|it| it.defined.name == "first_byte_mean_s").unwrap();
            figure.value(&crate::metric::Reading::of_run(&run)).unwrap()
        };
        assert_eq!((value(0).is_at_least(), value(8).is_at_least()), (false, true));
    }

    fn answered(run: &mut IterationRecord, count: u64, ns: u64) {
        for _ in 0..count {
            run.measured.response.record(ns);
            run.measured.histograms.response.record(ns);
        }
    }

    #[test]
    fn a_wait_that_answered_requests_have_too_is_no_stall() {
        let mut one = run(10_000_000, 10, &[250_000; 5]);
        answered(&mut one, 5_000, 1_000);
        // A single long answer among many short ones does not make long waits usual.
        answered(&mut one, 1, 50_000);
        assert_eq!(stalled_after_ns(&[&one]), 10_090);
        assert!(stalled_share(&[&one]) > 0.01);
        // Thirty that take long are a small share of the requests, and half of the waiting.
        answered(&mut one, 27, 100_000);
        answered(&mut one, 3, 300_000);
        let usual = stalled_after_ns(&[&one]);
        assert!((299_000..=300_000).contains(&usual), "{usual}");
        assert_eq!(stalled_share(&[&one]), 0.0);
    }

    #[test]
    fn what_is_left_out_of_a_window_counts_for_its_length() {
        let mut one = run(10_000, 10, &[8_000, 25_000]);
        one.measured.left_out.ns = 10_000;
        assert!((share(&[&one], 100) - 0.14).abs() < 1e-3);
    }

    #[test]
    fn in_open_loop_it_is_a_share_of_the_arrivals() {
        let mut one = run(10_000, 2_000, &[8_000; 30]);
        one.measured.open_loop = Some(OpenLoop { planned: 95, carried_in: 5, ..OpenLoop::default() });
        assert_eq!(share(&[&one], 7_000), 0.3);
    }
}
