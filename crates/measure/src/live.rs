//! The state of a level while it runs.

use serde::{Deserialize, Serialize};

use crate::metrics::Histogram;

/// The phase of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Workers are being set up.
    Starting,
    /// Under load; nothing is counted yet.
    WarmUp,
    /// The window is open.
    Measuring,
    /// The window is closed; requests in progress may finish.
    Draining,
    /// Over.
    Done,
}

/// Totals over the open window so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Live {
    /// Time since the window opened, in nanoseconds.
    pub elapsed_ns: u64,
    /// Open loop: arrivals that were due.
    pub planned: u64,
    /// Open loop: arrivals that began a page.
    pub offered: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Connections established.
    pub connections: u64,
    /// Pages completed.
    pub pages: u64,
    /// Bytes of valid responses.
    pub bytes: u64,
    /// Σ response time, in nanoseconds.
    pub response_ns: u64,
    /// How long the oldest request in flight had waited when the percentiles were last updated, in nanoseconds; 0 if
    /// there was none.
    pub oldest_in_flight_ns: u64,
    /// Percentiles of the response time so far, including the waits of unanswered requests that are longer than the
    /// mean response time. Updated once per second; absent in the first second of a window. For several hosts they
    /// are rounded up by at most 3 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<LivePercentiles>,
}

/// Percentiles of the response times since the window opened, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LivePercentiles {
    /// Number of requests.
    pub count: u64,
    /// 50th.
    pub p50_ns: u64,
    /// 90th.
    pub p90_ns: u64,
    /// 99th.
    pub p99_ns: u64,
    /// 99.9th.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

impl LivePercentiles {
    /// From response times; `None` if there are none.
    pub fn of_histogram(response: &Histogram) -> Option<LivePercentiles> {
        let [p50_ns, p90_ns, p99_ns, p999_ns] =
            response.values_at_quantiles(&[0.5, 0.9, 0.99, 0.999])[..].try_into().ok()?;
        let (count, max_ns) = (response.len(), response.max());
        (count > 0).then_some(LivePercentiles { count, p50_ns, p90_ns, p99_ns, p999_ns, max_ns })
    }
}
