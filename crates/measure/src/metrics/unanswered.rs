//! Waits without a valid answer: of requests that failed, and of those in flight when the window closes. Each has
//! lasted at least this long, so it is a lower bound of a response time (`docs/measurement.md`, "Unanswered
//! requests").
//!
//! They are stored separately from the times of answered requests: each figure decides which of them it uses.

use serde::{Deserialize, Serialize};

use super::{Histogram, Histograms, Moments};

/// A mean or percentile is called a lower bound if waits make it longer by this factor than answers alone. Requests
/// that happen to be in progress when a window closes change most figures of a sound run by less.
const LONGER_BY: f64 = 1.05;

/// A mean time that may include waits without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// In nanoseconds.
    pub ns: f64,
    /// Whether it is a lower bound: the waits make it longer by more than 5 %.
    pub is_at_least: bool,
}

impl Mean {
    /// The mean of the answers or of answers and waits, whichever is longer; each is given as sum in nanoseconds and
    /// count. `None` without answers.
    pub fn with_waits((answered_ns, answers): (u64, u64), (waited_ns, waits): (u64, u64)) -> Option<Mean> {
        let answered = (answers > 0).then(|| answered_ns as f64 / answers as f64)?;
        let all = (answered_ns as f64 + waited_ns as f64) / (answers as f64 + waits as f64);
        Some(Mean { ns: answered.max(all), is_at_least: all > answered * LONGER_BY })
    }

    /// The same from moments.
    pub fn of_moments(answered: &Moments, unanswered: &Moments) -> Option<Mean> {
        Mean::with_waits((answered.sum, answered.count), (unanswered.sum, unanswered.count))
    }
}

/// The longest time of answers or of waits without one, in nanoseconds, and whether it is a lower bound.
pub fn longest(answered: &Moments, unanswered: &Moments) -> (u64, bool) {
    (answered.max.max(unanswered.max), unanswered.max as f64 > answered.max as f64 * LONGER_BY)
}

/// The times at ascending quantiles, from 0 to 1, of answers or of all requests, whichever are longer, in
/// nanoseconds; and the index of the first that is a lower bound, longer than that of the answers by more than 5 %.
pub fn times_at(
    answered: &Histogram,
    unanswered: &Histogram,
    ascending: &[f64],
) -> (Vec<u64>, Option<usize>) {
    let mut times = answered.values_at_quantiles(ascending);
    let all = answered.values_at_quantiles_with(unanswered, ascending);
    let longer = |(time, all): (&u64, &u64)| *all as f64 > *time as f64 * LONGER_BY;
    let bound = times.iter().zip(&all).position(longer);
    times.iter_mut().zip(all).for_each(|(time, all)| *time = all.max(*time));
    (times, bound)
}

/// Waits without a valid answer, in nanoseconds, in one measured window: from where latency counts to the failure, or
/// to the end of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Unanswered {
    /// For a connection that was not established.
    pub connect: Moments,
    /// For a first byte that did not come.
    pub first_byte: Moments,
    /// For a complete and valid response. In open loop also of arrivals that no client had taken.
    pub response: Moments,
    /// For a page that failed or was in progress. In open loop also of arrivals that no client had taken.
    pub page: Moments,
    /// The part of `response` that had not ended when the window closed.
    pub in_flight: Moments,
    /// The distributions of the four; stored in `histograms.hlog`.
    #[serde(skip)]
    pub histograms: Histograms,
}

impl Unanswered {
    /// Whether every request had its answer.
    pub fn is_empty(&self) -> bool {
        *self == Unanswered::default()
    }

    /// Records a connection that was not established.
    pub fn connect(&mut self, waited_ns: u64) {
        self.connect.record(waited_ns);
        self.histograms.connect.record(waited_ns);
    }

    /// Records how long a request waited for its response, and also for its first byte if none came.
    pub fn request(&mut self, waited_ns: u64, has_first_byte: bool) {
        self.response.record(waited_ns);
        self.histograms.response.record(waited_ns);
        if !has_first_byte {
            self.first_byte.record(waited_ns);
            self.histograms.first_byte.record(waited_ns);
        }
    }

    /// The same for a request in flight as the window closes.
    pub fn request_in_flight(&mut self, waited_ns: u64, has_first_byte: bool) {
        self.in_flight.record(waited_ns);
        self.request(waited_ns, has_first_byte);
    }

    /// Records a page that failed, or is in progress as the window closes.
    pub fn page(&mut self, waited_ns: u64) {
        self.page.record(waited_ns);
        self.histograms.page.record(waited_ns);
    }

    /// Adds another worker's, host's or iteration's waits.
    pub fn merge(&mut self, other: &Unanswered) {
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
        self.page.merge(&other.page);
        self.in_flight.merge(&other.in_flight);
        self.histograms.merge(&other.histograms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(times: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        times.iter().for_each(|(time, count)| histogram.record_n(*time, *count));
        histogram
    }

    #[test]
    fn a_mean_includes_waits_that_are_longer_than_answers() {
        // 3,700 answers of 4.4 ms, and eight clients that waited 8 s.
        let answers = (3_700 * 4_400_000, 3_700);
        let mean = Mean::with_waits(answers, (8 * 8_000_000_000, 8)).unwrap();
        let all_ns = (3_700.0 * 4.4e6 + 64e9) / 3_708.0;
        assert_eq!(mean, Mean { ns: all_ns, is_at_least: true });
        // Requests that happen to be in progress change nothing.
        let young = Mean::with_waits(answers, (8 * 2_000_000, 8)).unwrap();
        assert_eq!(young, Mean { ns: 4.4e6, is_at_least: false });
        assert_eq!(Mean::with_waits((0, 0), (1, 1)), None);
    }

    #[test]
    fn a_percentile_among_unanswered_requests_is_a_lower_bound() {
        let quantiles = [0.5, 0.9, 0.99, 0.999];
        // 200 of 1,000 were answered within a millisecond, the others waited four seconds.
        let (times, bound) =
            times_at(&histogram(&[(1_000_000, 200)]), &histogram(&[(4_000_000_000, 800)]), &quantiles);
        assert!(times.iter().all(|time| (4_000_000_000..4_008_000_000).contains(time)), "{times:?}");
        assert_eq!(bound, Some(0));
        // One in two hundred waits: the median is unchanged.
        let (times, bound) =
            times_at(&histogram(&[(1_000_000, 1_990)]), &histogram(&[(4_000_000_000, 10)]), &quantiles);
        assert_eq!((times[2], bound), (1_000_000, Some(3)));
        // Requests only just in progress make no percentile shorter.
        let answered = histogram(&[(1_000_000, 10)]);
        let (times, bound) = times_at(&answered, &histogram(&[(1_000, 30)]), &quantiles);
        assert_eq!((times, bound), (answered.values_at_quantiles(&quantiles), None));
    }
}
