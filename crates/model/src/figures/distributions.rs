//! Percentiles of the times of a window, taken from its histograms once.

use schemars::JsonSchema;
use serde::Serialize;

use super::seconds;
use crate::metrics::{GeneratorUse, Histogram, Measured, OpenLoop};

/// The four distributions of a window; null where nothing was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Distributions {
    /// TCP connect time.
    pub connect: Option<Distribution>,
    /// Start to first byte of the response.
    pub first_byte: Option<Distribution>,
    /// Start to last byte: the response time, called latency.
    pub response: Option<Distribution>,
    /// First file's start to last file's last byte.
    pub page: Option<Distribution>,
    /// Open loop: time to first byte from the actual start; the others are from the intended one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_uncorrected: Option<Distribution>,
    /// Open loop: response time from the actual start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_uncorrected: Option<Distribution>,
    /// Open loop: page time from the actual start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_uncorrected: Option<Distribution>,
    /// Open loop: how late the generator itself was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_lag: Option<Distribution>,
    /// From the TCP connection's establishment to the end of the TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_handshake: Option<Distribution>,
}

/// What the load generator itself added; null where nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GeneratorDelays {
    /// From an event being reported to its handling.
    pub loop_delay: Option<Distribution>,
    /// How long bytes had lain in the kernel when they were read, on one connection a worker.
    pub receive_lag: Option<Distribution>,
    /// How much longer connecting took for the client than for the kernel, of one connection in seventeen.
    pub connect_lag: Option<Distribution>,
}

/// Percentiles of a time, from its histogram: three significant digits, never above the maximum. Seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Half of the values are no longer.
    pub p50_s: f64,
    /// 75 % of the values are no longer.
    pub p75_s: f64,
    /// 90 % of the values are no longer.
    pub p90_s: f64,
    /// 95 % of the values are no longer.
    pub p95_s: f64,
    /// 99 % of the values are no longer.
    pub p99_s: f64,
    /// 99.9 % of the values are no longer.
    pub p99_9_s: f64,
    /// 99.99 % of the values are no longer.
    pub p99_99_s: f64,
    /// The longest, exactly.
    pub max_s: f64,
}

impl Distribution {
    /// The percentiles of a histogram in nanoseconds; `None` without values.
    pub fn of(histogram: &Histogram) -> Option<Distribution> {
        if histogram.is_empty() {
            return None;
        }
        let values =
            histogram.values_at_quantiles(&[50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99].map(|p| p / 100.0));
        let [p50_s, p75_s, p90_s, p95_s, p99_s, p99_9_s, p99_99_s] =
            <[u64; 7]>::try_from(values).expect("as many as were asked for").map(seconds);
        let (count, max_s) = (histogram.len(), seconds(histogram.max()));
        Some(Distribution { count, p50_s, p75_s, p90_s, p95_s, p99_s, p99_9_s, p99_99_s, max_s })
    }
}

impl GeneratorDelays {
    /// Of the delays that workers measured.
    pub fn of(generator: &GeneratorUse) -> GeneratorDelays {
        GeneratorDelays {
            loop_delay: Distribution::of(&generator.loop_delay),
            receive_lag: Distribution::of(&generator.receive_lag),
            connect_lag: Distribution::of(&generator.connect_lag),
        }
    }
}

impl Distributions {
    /// Of a window, or of several merged.
    pub fn of(measured: &Measured) -> Distributions {
        let histograms = &measured.histograms;
        let of_open_loop = |histogram: fn(&OpenLoop) -> &Histogram| {
            measured.open_loop.as_ref().and_then(|open_loop| Distribution::of(histogram(open_loop)))
        };
        Distributions {
            first_byte_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.first_byte),
            response_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.response),
            page_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.page),
            schedule_lag: of_open_loop(|open_loop| &open_loop.lag_histogram),
            connect: Distribution::of(&histograms.connect),
            first_byte: Distribution::of(&histograms.first_byte),
            response: Distribution::of(&histograms.response),
            page: Distribution::of(&histograms.page),
            tls_handshake: measured.handshakes.as_ref().and_then(|it| Distribution::of(&it.histogram)),
        }
    }

    /// Whether nothing at all was counted, as in a record read without its histograms.
    pub fn is_empty(&self) -> bool {
        *self == Distributions::default()
    }
}
