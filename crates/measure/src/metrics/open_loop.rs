//! What an open loop measures besides what every level does: what became of the schedule, how late the generator
//! itself was, and the latencies without the waiting (`docs/measurement.md`, "Open loop").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Histogram, Histograms, Moments, add_all};

/// An open loop's own counts and distributions over one measured window.
///
/// `carried_in + planned = started + skipped + queued`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenLoop {
    /// Arrivals that waited for a client when the window opened, or were due before and not yet handled.
    pub carried_in: u64,
    /// Arrivals that were due inside the window.
    pub planned: u64,
    /// Arrivals that began a page inside the window.
    pub started: u64,
    /// Arrivals that found no client free and were skipped.
    pub skipped: u64,
    /// Arrivals that waited for a client when the window closed, or were due before and not yet handled.
    pub queued: u64,
    /// Of those started: arrivals that had found no client free, and waited for one.
    pub waited: u64,
    /// Time that clients were free, cut to the window, in nanoseconds: with `busy_ns` and `idle_ns` it makes identity 2.
    pub free_ns: u64,
    /// Schedule lag in nanoseconds: from an arrival's intended start to the moment at which the generator saw to it,
    /// whether it started, waits or was skipped. The generator's own lateness.
    pub lag: Moments,
    /// Time to first byte in nanoseconds, from the actual start.
    pub first_byte: Moments,
    /// Response time in nanoseconds, from the actual start: what it would have been without the waiting.
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
        add_all!(self, other, [carried_in, planned, started, skipped, queued, waited, free_ns]);
        self.lag.merge(&other.lag);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
        self.page.merge(&other.page);
        self.lag_histogram.merge(&other.lag_histogram);
        self.uncorrected.merge(&other.uncorrected);
    }
}
