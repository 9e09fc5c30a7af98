//! Additional measurements of an open loop: what happened to the schedule, how late the generator itself was, and
//! latencies without the wait for a client (`docs/measurement.md`, "Open loop").

use serde::{Deserialize, Serialize};

use super::{Histogram, Histograms, Moments, add_all};

/// An open loop's own counts and distributions over one measured window.
///
/// `carried_in + planned = started + skipped + queued + left_open`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OpenLoop {
    /// Arrivals that waited for a client when the window opened, or were due before and not handled yet.
    pub carried_in: u64,
    /// Arrivals due within the window.
    pub planned: u64,
    /// Arrivals that began a page inside the window.
    pub started: u64,
    /// Arrivals that found no free client and were skipped.
    pub skipped: u64,
    /// Arrivals that waited for a client when the window closed, or were due before and not handled yet.
    pub queued: u64,
    /// Arrivals that waited for a client when slices began that were left out of the window.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub left_open: u64,
    /// The part of the started arrivals that found no free client and waited for one.
    pub waited: u64,
    /// Time that clients were free, cut to the window, in nanoseconds: part of identity 2, with `busy_ns` and
    /// `idle_ns`.
    pub free_ns: u64,
    /// Schedule lag in nanoseconds: from an arrival's intended start until the generator handled it, whether it
    /// started, waits or was skipped. The generator's own lateness.
    pub lag: Moments,
    /// Time to first byte in nanoseconds, from the actual start.
    pub first_byte: Moments,
    /// Response time in nanoseconds, from the actual start: what it would be without the wait.
    pub response: Moments,
    /// Page time in nanoseconds, from the actual start.
    pub page: Moments,
    /// The schedule lag's distribution; stored in `histograms.hlog`.
    #[serde(skip)]
    pub lag_histogram: Histogram,
    /// Distributions from the actual start, of `first_byte`, `response` and `page`; stored in `histograms.hlog`.
    #[serde(skip)]
    pub uncorrected: Histograms,
}

impl OpenLoop {
    /// Adds another worker's, host's or iteration's.
    pub fn merge(&mut self, other: &OpenLoop) {
        add_all!(self, other, OpenLoop {
            carried_in, planned, started, skipped, queued, left_open, waited, free_ns;
            lag, first_byte, response, page, lag_histogram, uncorrected
        });
        self.lag.merge(&other.lag);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
        self.page.merge(&other.page);
        self.lag_histogram.merge(&other.lag_histogram);
        self.uncorrected.merge(&other.uncorrected);
    }
}
