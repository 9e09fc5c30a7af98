//! The figures of a level, computed from what was measured, and the [`table`] of all figures that every format uses.
//! Every formula is defined in `docs/measurement.md`.

mod counters;
pub mod distributions;
pub mod generator;
pub mod host;
mod http2;
mod http3;
pub mod level;
mod path;
pub mod quantity;
pub mod reading;
pub mod table;
mod times;
mod tls;
pub mod unanswered;

use serde::{Deserialize, Serialize};

use crate::metrics::{Mean, Measured, times_at};
use crate::units::NANOS_PER_SECOND;

pub use distributions::PERCENTILES;
pub use quantity::Quantity;
pub use reading::Reading;
pub use table::{Figure, Group, Value};

/// Headline figures of one iteration, or of several merged by [`Measured::merge_sequential`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figures {
    /// Length of the measured window, in seconds.
    pub test_time_s: f64,
    /// Connections per second with a valid response, the first of which came within the window: WebStone's
    /// connections are completed retrievals.
    pub connection_rate: f64,
    /// Valid responses per second: requests that passed every check (goodput).
    pub request_rate: f64,
    /// Failed requests per second.
    pub error_rate: f64,
    /// Failed requests in percent of connections, or of ended requests if connections are reused (WebStone 2's error
    /// level: "errors / connections").
    pub error_level_percent: f64,
    /// Mean response time in seconds: last byte − start, connecting included. In open loop all latencies count from
    /// the intended start. Of answered requests, or of all with their waits so far, whichever is longer.
    pub latency_mean_s: f64,
    /// Whether the mean is a lower bound, because unanswered requests make it longer by more than 5 %.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latency_mean_is_at_least: bool,
    /// Mean connect time in seconds.
    pub connect_mean_s: f64,
    /// Mean time to first byte in seconds: first byte − start, connecting included.
    pub first_byte_mean_s: f64,
    /// Mean transfer time in seconds: last byte − first byte.
    pub transfer_mean_s: f64,
    /// Head, framing and body bytes of valid responses × 8 / test time, in bit/s.
    pub throughput_bps: f64,
    /// Mean number of requests in progress (Little's load factor): for every request the part of its response time
    /// within the window, summed, / test time. WebStone sums whole response times of completed requests. That is the
    /// same for a window much longer than they are, but otherwise misses requests in progress at its ends.
    pub little: f64,
    /// Complete pages per minute.
    pub pages_per_minute: f64,
    /// The WEBSTONE number: [`Figures::pages_per_minute`], truncated.
    pub webstone_number: u64,
    /// 8 × bytes / Σ response time, in bit/s: the throughput of a single client while it waits (WebStone's
    /// "Thruput").
    pub client_throughput_bps: f64,
    /// Response time at each of [`PERCENTILES`], in seconds. Of answered requests, or of all with their waits so far.
    pub latency_percentiles_s: Vec<f64>,
    /// The percentile from which on response times are lower bounds, because unanswered requests are among them; 100:
    /// only the maximum is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_at_least_from_percentile: Option<f64>,
    /// Longest response time, or longest wait for one, in seconds.
    pub latency_max_s: f64,
    /// CPU time of the generator per ended request, in seconds, without waiting awake.
    pub generator_cpu_per_request_s: f64,
}

impl Figures {
    /// Computes every figure. A window without length or responses gives zeros, never NaN.
    pub fn of_measured(measured: &Measured) -> Figures {
        let seconds = measured.window_ns as f64 / NANOS_PER_SECOND as f64;
        let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        let to_seconds = |nanos: f64| nanos / NANOS_PER_SECOND as f64;
        let counts = &measured.counts;
        let bits = measured.response_bytes.sum as f64 * 8.0;
        let pages_per_minute = ratio(counts.pages_completed as f64 * 60.0, seconds);
        let cpu_ns: f64 = measured.generator.workers.iter().map(|w| w.worked_ns() as f64).sum();
        let waits = &measured.unanswered;
        let mean = Mean::of_moments(&measured.response, &waits.response).unwrap_or_default();
        let mean_s = |answered, unanswered| {
            Mean::of_moments(answered, unanswered).map_or(0.0, |mean| to_seconds(mean.ns))
        };
        let mut quantiles = PERCENTILES.map(|percentile| percentile / 100.0).to_vec();
        quantiles.push(1.0);
        let (times, bound) = times_at(&measured.histograms.response, &waits.histograms.response, &quantiles);
        Figures {
            test_time_s: seconds,
            connection_rate: ratio(counts.connections_answered as f64, seconds),
            request_rate: ratio(counts.succeeded as f64, seconds),
            error_rate: ratio(counts.failed as f64, seconds),
            error_level_percent: ratio(counts.failed as f64 * 100.0, counts.error_base() as f64),
            latency_mean_s: to_seconds(mean.ns),
            latency_mean_is_at_least: mean.is_at_least,
            connect_mean_s: mean_s(&measured.connect, &waits.connect),
            first_byte_mean_s: mean_s(&measured.first_byte, &waits.first_byte),
            transfer_mean_s: to_seconds(measured.response.mean() - measured.first_byte.mean()),
            throughput_bps: ratio(bits, seconds),
            little: ratio(to_seconds(counts.busy_ns as f64), seconds),
            pages_per_minute,
            webstone_number: pages_per_minute as u64,
            // Time without an answer counts: a client that waits in vain receives nothing.
            client_throughput_bps: ratio(bits, to_seconds(mean.ns) * measured.response.count as f64),
            latency_percentiles_s: times[..PERCENTILES.len()]
                .iter()
                .map(|ns| to_seconds(*ns as f64))
                .collect(),
            latency_at_least_from_percentile: bound.map(|at| PERCENTILES.get(at).copied().unwrap_or(100.0)),
            latency_max_s: match measured.response.count {
                0 => 0.0,
                _ => to_seconds(measured.response.max.max(waits.response.max) as f64),
            },
            generator_cpu_per_request_s: ratio(to_seconds(cpu_ns), counts.ended() as f64),
        }
    }
}

/// a / b, or 0 if b is 0: a table cannot show NaN.
fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counts;

    /// The WebStone paper, section 7 (Netsite): 4,567 pages in 10 minutes print as 456; NCSA's 1,422 as 142.
    #[test]
    fn the_webstone_number_is_truncated_pages_per_minute() {
        for (pages, number) in [(4567, 456), (1422, 142)] {
            let measured = Measured {
                window_ns: 600 * NANOS_PER_SECOND,
                counts: Counts { pages_completed: pages, ..Counts::default() },
                ..Measured::default()
            };
            assert_eq!(Figures::of_measured(&measured).webstone_number, number);
        }
    }

    /// The paper's Netsite run: 3,076,611,677 bytes in a total of 14,298.928119 s. It prints 215,181 bytes/s, but the
    /// quotient is 215,164, so the formula is checked to 0.1 %.
    #[test]
    fn client_throughput_agrees_with_the_paper() {
        let mut measured = Measured { window_ns: 600 * NANOS_PER_SECOND, ..Measured::default() };
        measured.response.record(14_298_928_119_000);
        measured.response_bytes.record(3_076_611_677);
        let bytes_per_second = Figures::of_measured(&measured).client_throughput_bps / 8.0;
        assert!((bytes_per_second / 215_181.0 - 1.0).abs() < 1e-3, "{bytes_per_second}");
    }

    #[test]
    fn transfer_is_between_first_and_last_byte() {
        let mut measured = Measured { window_ns: NANOS_PER_SECOND, ..Measured::default() };
        for (first_byte_ns, response_ns) in [(2_000_000, 5_000_000), (4_000_000, 9_000_000)] {
            measured.first_byte.record(first_byte_ns);
            measured.response.record(response_ns);
        }
        let figures = Figures::of_measured(&measured);
        assert!(
            (figures.first_byte_mean_s - 0.003).abs() < 1e-12
                && (figures.transfer_mean_s - 0.004).abs() < 1e-12
        );
    }

    #[test]
    fn nothing_measured_is_zero_and_not_nan() {
        let figures = Figures::of_measured(&Measured::default());
        assert!(!format!("{figures:?}").contains("NaN"), "{figures:?}");
    }
}
