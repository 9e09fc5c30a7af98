//! Whether the load generator's own lateness shows in the latency of an open loop.
//!
//! Latency counts from the intended start, so it contains the schedule lag, as it must. A lag does no harm as long as percentiles with
//! and without it are the same; comparing it with the median latency would not show that, because a lag hits few requests.

use super::bounds::percent;
use webstone_model::record::IterationRecord;

/// Percentiles that are compared.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

/// A percentile of the latency that the schedule lag made longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lateness {
    /// Which.
    pub(super) percentile: f64,
    /// With the lag, from the intended start, in nanoseconds.
    pub(super) with_ns: u64,
    /// Without it.
    pub(super) without_ns: u64,
}

impl Lateness {
    /// By how much the lag made it longer, in percent.
    pub(super) fn percent(self) -> f64 {
        percent((self.with_ns - self.without_ns) as f64, self.without_ns as f64)
    }
}

/// The percentile that the lag made longer most; `None` where it made none longer, and where the distributions are not known.
pub(super) fn of_run(run: &IterationRecord) -> Option<Lateness> {
    let open_loop = run.measured.open_loop.as_ref()?;
    let (with, without) = (&run.measured.histograms.response, &open_loop.uncorrected.response);
    if with.is_empty() || without.is_empty() {
        return None;
    }
    // The two distributions differ also by the time that arrivals waited for a client, which is the server's doing; the
    // generator's part is no more than its lag.
    let has_waited = open_loop.waited + open_loop.queued + open_loop.carried_in > 0;
    let later = PERCENTILES.into_iter().filter_map(|percentile| {
        let at = |of: &webstone_measure::metrics::Histogram| of.value_at_percentile(percentile);
        let (with_ns, without_ns) = (at(with), at(without));
        let longer_ns = with_ns.saturating_sub(without_ns);
        let by_lag_ns = if has_waited { longer_ns.min(at(&open_loop.lag_histogram)) } else { longer_ns };
        let without_ns = with_ns - by_lag_ns;
        (by_lag_ns > 0).then_some(Lateness { percentile, with_ns, without_ns })
    });
    later.max_by(|a, b| a.percent().total_cmp(&b.percent()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::metrics::OpenLoop;

    /// A window from pairs of (time from the actual start, lag).
    fn window(answers: &[(u64, u64)]) -> IterationRecord {
        let mut run = IterationRecord::default();
        let mut open_loop = OpenLoop::default();
        for (took_ns, lag_ns) in answers {
            run.measured.histograms.response.record(took_ns + lag_ns);
            open_loop.uncorrected.response.record(*took_ns);
            open_loop.lag_histogram.record(*lag_ns);
        }
        run.measured.open_loop = Some(open_loop);
        run
    }

    #[test]
    fn a_lag_that_hardly_any_answer_meets_shows_nowhere() {
        // 10,000 per second to a fast server: p99 of the lag 36 µs, of 60 µs of latency.
        let answers: Vec<(u64, u64)> = (0..10_000)
            .map(|n| (if n % 50 == 7 { 220_000 } else { 60_000 }, if n % 90 == 0 { 36_000 } else { 1_500 }))
            .collect();
        let late = of_run(&window(&answers)).unwrap();
        assert!(late.percent() < 3.0, "{late:?}");
        assert_eq!(of_run(&window(&[(60_000, 0); 9])), None);
        assert_eq!(of_run(&IterationRecord::default()), None);
    }

    #[test]
    fn a_stall_of_the_generator_shows_and_one_of_the_server_does_not() {
        let stalled: Vec<(u64, u64)> =
            (0..1_000).map(|n| (60_000, if n < 20 { 464_000_000 } else { 1_000 })).collect();
        let late = of_run(&window(&stalled)).unwrap();
        assert!(
            late.percentile == 99.0 && late.without_ns < 61_000 && late.with_ns > 464_000_000,
            "{late:?}"
        );
        // All clients were busy: arrivals waited for the server.
        let mut waited = window(&stalled);
        let open_loop = waited.measured.open_loop.as_mut().unwrap();
        open_loop.waited = 20;
        open_loop.lag_histogram = Default::default();
        (0..1_000).for_each(|_| open_loop.lag_histogram.record(1_000));
        let late = of_run(&waited).unwrap();
        assert!(late.percent() < 2.0, "{late:?}");
    }
}
