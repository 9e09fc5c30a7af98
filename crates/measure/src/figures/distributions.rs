//! Percentiles of the times in a window, computed once from its histograms.

use serde::Serialize;

use super::Value;
use super::seconds;
use crate::metrics::{GeneratorUse, Histogram, Measured, OpenLoop, times_at};

/// The four distributions of a window; null if nothing was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distributions {
    /// TCP connect time.
    pub connect: Option<Distribution>,
    /// Start to first byte of the response.
    pub first_byte: Option<Distribution>,
    /// Start to last byte: the response time, called latency.
    pub response: Option<Distribution>,
    /// First file's start to last file's last byte.
    pub page: Option<Distribution>,
    /// Open loop: time to first byte from the actual start; the figures above are from the intended one.
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

/// Delays that the load generator itself added; null if nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorDelays {
    /// From an event being reported to its handling.
    pub loop_delay: Option<Distribution>,
    /// How long bytes had lain in the kernel when they were read, on one connection per worker.
    pub receive_lag: Option<Distribution>,
    /// How much longer connecting took for the client than for the kernel, for one connection in seventeen.
    pub connect_lag: Option<Distribution>,
}

/// The percentiles in reports, ascending: for each its field in [`Distribution`], its description, and its number.
macro_rules! percentiles {
    ($($field:ident: $percentile:literal, $what:literal;)*) => {
        /// Percentiles of a time, from its histogram: three significant digits, never above the maximum. Seconds. If
        /// some requests were not answered, those of answered requests or of all with their waits so far, whichever
        /// are longer.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct Distribution {
            /// Number of values: of answered requests.
            pub count: u64,
            $(
                #[doc = $what]
                pub $field: f64,
            )*
            /// The maximum, exactly.
            pub max_s: f64,
            /// The percentile from which on the values are lower bounds, because unanswered requests are among them;
            /// 100: only the maximum is. Absent if there are none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub at_least_from_percentile: Option<f64>,
        }

        /// Their numbers.
        pub const PERCENTILES: [f64; [$($percentile),*].len()] = [$($percentile),*];

        /// The same, and 100 for the maximum.
        const AT: [f64; PERCENTILES.len() + 1] = [$($percentile,)* 100.0];

        impl Distribution {
            fn from_times(count: u64, times_s: [f64; AT.len()], at_least_from_percentile: Option<f64>) -> Distribution {
                let [$($field,)* max_s] = times_s;
                Distribution { count, $($field,)* max_s, at_least_from_percentile }
            }

            /// Each percentile in reports with its time in seconds; 100 is the maximum.
            pub fn each(&self) -> [(f64, f64); AT.len()] {
                [$(($percentile, self.$field),)* (100.0, self.max_s)]
            }
        }
    };
}

percentiles! {
    p50_s: 50.0, "Half of the values are no longer.";
    p75_s: 75.0, "75 % of the values are no longer.";
    p90_s: 90.0, "90 % of the values are no longer.";
    p95_s: 95.0, "95 % of the values are no longer.";
    p99_s: 99.0, "99 % of the values are no longer.";
    p99_9_s: 99.9, "99.9 % of the values are no longer.";
    p99_99_s: 99.99, "99.99 % of the values are no longer.";
    p99_999_s: 99.999, "99.999 % of the values are no longer.";
}

impl Distribution {
    /// The percentiles of a histogram in nanoseconds; `None` if it is empty.
    pub fn of_histogram(histogram: &Histogram) -> Option<Distribution> {
        Distribution::of_all(histogram, &Histogram::new())
    }

    /// The same if some requests were not answered; `None` if no request was answered.
    pub fn of_all(answered: &Histogram, unanswered: &Histogram) -> Option<Distribution> {
        if answered.is_empty() {
            return None;
        }
        let (times, bound) = times_at(answered, unanswered, &AT.map(|percentile| percentile / 100.0));
        let times = <[u64; AT.len()]>::try_from(times).expect("one time per quantile");
        Some(Distribution::from_times(answered.len(), times.map(seconds), bound.map(|index| AT[index])))
    }

    /// The time at one of the percentiles above; the maximum for 100.
    pub(crate) fn value(&self, percentile: f64, time_s: fn(&Distribution) -> f64) -> Value {
        Value::bounded(time_s(self), self.is_at_least(percentile))
    }

    /// Whether the time at a percentile is a lower bound.
    pub fn is_at_least(&self, percentile: f64) -> bool {
        self.at_least_from_percentile.is_some_and(|from| percentile >= from)
    }
}

impl GeneratorDelays {
    /// From the delays that workers measured.
    pub fn of_generator(generator: &GeneratorUse) -> GeneratorDelays {
        GeneratorDelays {
            loop_delay: Distribution::of_histogram(&generator.loop_delay),
            receive_lag: Distribution::of_histogram(&generator.receive_lag),
            connect_lag: Distribution::of_histogram(&generator.connect_lag),
        }
    }
}

impl Distributions {
    /// From a window, or several merged.
    pub fn of_measured(measured: &Measured) -> Distributions {
        let histograms = &measured.histograms;
        let waits = &measured.unanswered.histograms;
        let of_open_loop = |histogram: fn(&OpenLoop) -> &Histogram| {
            measured.open_loop.as_ref().and_then(|open_loop| Distribution::of_histogram(histogram(open_loop)))
        };
        Distributions {
            first_byte_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.first_byte),
            response_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.response),
            page_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.page),
            schedule_lag: of_open_loop(|open_loop| &open_loop.lag_histogram),
            connect: Distribution::of_all(&histograms.connect, &waits.connect),
            first_byte: Distribution::of_all(&histograms.first_byte, &waits.first_byte),
            response: Distribution::of_all(&histograms.response, &waits.response),
            page: Distribution::of_all(&histograms.page, &waits.page),
            tls_handshake: measured
                .handshakes
                .as_ref()
                .and_then(|it| Distribution::of_histogram(&it.histogram)),
        }
    }

    /// Whether nothing was counted, as in a record that was read without its histograms.
    pub fn is_empty(&self) -> bool {
        *self == Distributions::default()
    }
}
