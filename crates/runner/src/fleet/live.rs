//! How a level of several hosts goes, as they say once a second: totals, percentiles of all of them together, and each host for
//! itself. Percentiles are of the hosts' distributions added up; an average of percentiles is not a percentile.

use webstone_lab::agent::load::Beat;
use webstone_measure::metrics::Histogram;
use webstone_model::event::{Live, LiveHost, LivePercentiles};
use webstone_model::generators::ClockOffset;

/// Between two computations of the percentiles, in nanoseconds: of a thousand hosts one takes some milliseconds.
const RENEWED_NS: u64 = 1_000_000_000;

/// What all hosts have said.
#[derive(Default)]
pub(super) struct Lives {
    hosts: Vec<One>,
    /// The percentiles, and when they were computed.
    percentiles: Option<(u64, LivePercentiles)>,
}

#[derive(Default)]
struct One {
    row: LiveHost,
    live: Live,
    response: Histogram,
}

impl Lives {
    /// A level begins: names, clients and clocks of the hosts.
    pub(super) fn begin(&mut self, hosts: impl Iterator<Item = (String, u32, ClockOffset)>) {
        let one = |(generator, (name, clients, clock))| One {
            row: LiveHost { generator: generator as u32, name, clients, clock, ..LiveHost::default() },
            ..One::default()
        };
        *self = Lives { hosts: hosts.enumerate().map(one).collect(), percentiles: None };
    }

    /// A host has spoken.
    pub(super) fn said(&mut self, host: usize, beat: &Beat) {
        let Some(One { row, live, response }) = self.hosts.get_mut(host) else { return };
        let seconds = beat.live.elapsed_ns.saturating_sub(live.elapsed_ns) as f64 / 1e9;
        let requests = beat.live.requests.saturating_sub(live.requests) as f64;
        row.request_rate = if seconds > 0.0 { requests / seconds } else { 0.0 };
        (row.elapsed_ns, row.requests, row.errors) =
            (beat.live.elapsed_ns, beat.live.requests, beat.live.errors);
        row.response = beat.live.response;
        row.busiest_worker = beat.busiest_worker.filter(|share| (0.0..=1.0).contains(share));
        *live = beat.live;
        // If it cannot be read, the previous one stays: it is for the display alone; results have distributions of their own.
        let come = beat.response.as_deref().and_then(|text| Histogram::from_base64(text).ok());
        if let Some(mut come) = come {
            come.set_max(beat.live.response.map_or(0, |response| response.max_ns));
            come.pack();
            *response = come;
        }
    }

    /// Totals of all hosts; those of each, and the elapsed time, may be a second old.
    pub(super) fn sum(&mut self, now_ns: u64) -> Live {
        let mut sum = Live::default();
        for One { live, .. } in &self.hosts {
            sum.elapsed_ns = sum.elapsed_ns.max(live.elapsed_ns);
            for (sum, one) in [
                (&mut sum.planned, live.planned),
                (&mut sum.offered, live.offered),
                (&mut sum.requests, live.requests),
                (&mut sum.errors, live.errors),
                (&mut sum.connections, live.connections),
                (&mut sum.pages, live.pages),
                (&mut sum.bytes, live.bytes),
                (&mut sum.response_ns, live.response_ns),
            ] {
                *sum = sum.saturating_add(one);
            }
        }
        sum.oldest_in_flight_ns =
            self.hosts.iter().map(|host| host.live.oldest_in_flight_ns).max().unwrap_or(0);
        sum.response = self.percentiles(now_ns);
        sum
    }

    fn percentiles(&mut self, now_ns: u64) -> Option<LivePercentiles> {
        if self.percentiles.is_none_or(|(at_ns, _)| now_ns.saturating_sub(at_ns) >= RENEWED_NS) {
            let mut all = Histogram::default();
            self.hosts.iter().for_each(|host| all.merge(&host.response));
            self.percentiles = LivePercentiles::of_histogram(&all).map(|found| (now_ns, found));
        }
        self.percentiles.map(|(_, found)| found)
    }

    /// Each host that has a part. `heard_ns` is when something last came from each.
    pub(super) fn rows(&self, heard_ns: &[u64], now_ns: u64) -> Vec<LiveHost> {
        let with_part = self.hosts.iter().zip(heard_ns).filter(|(host, _)| host.row.clients > 0);
        with_part
            .map(|(host, heard_ns)| LiveHost {
                silent_ns: now_ns.saturating_sub(*heard_ns),
                ..host.row.clone()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(elapsed_s: u64, values: &[(u64, u64)]) -> Beat {
        let mut response = Histogram::default();
        values.iter().for_each(|(value, count)| response.record_n(*value, *count));
        let live = Live {
            elapsed_ns: elapsed_s * 1_000_000_000,
            requests: response.len(),
            response: LivePercentiles::of_histogram(&response),
            ..Live::default()
        };
        Beat { live, response: Some(response.to_base64_within(1_200)), busiest_worker: Some(0.5) }
    }

    fn two() -> Lives {
        let mut lives = Lives::default();
        let host = |name: &str, clients| (name.to_owned(), clients, ClockOffset::default());
        lives.begin([host("a", 5), host("b", 5), host("idle", 0)].into_iter());
        lives
    }

    #[test]
    fn percentiles_are_of_all_requests_of_all_hosts() {
        let mut lives = two();
        assert_eq!(lives.sum(5), Live::default());
        lives.said(0, &beat(1, &[(1_000, 980)]));
        lives.said(1, &beat(1, &[(5_000, 20)]));
        let sum = lives.sum(5);
        // The mean of both 99th percentiles would be 3,000.
        let found = sum.response.unwrap();
        assert_eq!((found.count, found.p50_ns, found.p99_ns, found.max_ns), (1_000, 1_000, 5_000, 5_000));
        assert_eq!((sum.requests, sum.elapsed_ns), (1_000, 1_000_000_000));
        // Renewed once a second.
        lives.said(1, &beat(2, &[(5_000, 20), (9_000, 30)]));
        assert_eq!(lives.sum(RENEWED_NS).response, Some(found));
        assert_eq!(lives.sum(RENEWED_NS + 5).response.unwrap().max_ns, 9_000);
    }

    #[test]
    fn each_host_has_a_row_if_it_has_a_part() {
        let mut lives = two();
        lives.said(0, &beat(1, &[(1_000, 100)]));
        lives.said(0, &beat(3, &[(1_000, 500)]));
        let rows = lives.rows(&[70, 90, 0], 100);
        assert_eq!(
            rows.iter().map(|row| (&*row.name, row.silent_ns)).collect::<Vec<_>>(),
            [("a", 30), ("b", 10)]
        );
        assert_eq!((rows[0].request_rate, rows[0].requests, rows[1].request_rate), (200.0, 500, 0.0));
    }

    #[test]
    fn a_host_that_lies_disturbs_no_other() {
        let mut lives = two();
        lives.said(0, &beat(2, &[(1_000, 100)]));
        let lie = Live { elapsed_ns: u64::MAX, requests: u64::MAX, errors: u64::MAX, ..Live::default() };
        lives.said(
            1,
            &Beat { live: lie, response: Some("rubbish".to_owned()), busiest_worker: Some(f64::NAN) },
        );
        lives.said(9, &beat(1, &[]));
        let sum = lives.sum(1);
        assert_eq!((sum.requests, sum.response.unwrap().count), (u64::MAX, 100));
        assert_eq!(lives.rows(&[0, 0, 0], 1)[1].busiest_worker, None);
        lives.said(1, &beat(1, &[]));
        assert_eq!(lives.rows(&[0, 0, 0], 1)[1].request_rate, 0.0);
    }
}
