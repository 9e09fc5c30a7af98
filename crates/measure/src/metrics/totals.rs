//! Totals by page and by client, the two ways in which WebStone breaks down a run.

use serde::{Deserialize, Serialize};

use super::{Mean, Moments, add_all};

/// What one page of the workload did (WebStone's "Page #" block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PageTotals {
    /// How often the page was fetched completely.
    pub hits: u64,
    /// How often it ended with at least one failed file.
    pub failed: u64,
    /// Σ page time of hits, in nanoseconds.
    pub time_ns: u64,
    /// Longest page time of a hit.
    pub time_ns_max: u64,
    /// Requests for its files that succeeded.
    pub requests: u64,
    /// Requests for its files that failed.
    pub errors: u64,
    /// Σ response time of its succeeded requests.
    pub response_ns: u64,
    /// Longest response time of a succeeded request.
    pub response_ns_max: u64,
    /// Connections made for it.
    pub connects: u64,
    /// Σ connect time.
    pub connect_ns: u64,
    /// Longest connect time.
    pub connect_ns_max: u64,
    /// Body bytes of its succeeded requests.
    pub body_bytes: u64,
    /// Head bytes (and chunk framing) of its succeeded requests.
    pub head_bytes: u64,
    /// Requests for its files without a valid answer: failed, or in flight when the window closed.
    pub unanswered: u64,
    /// Σ of their waits.
    pub unanswered_ns: u64,
    /// The longest of these waits.
    pub unanswered_ns_max: u64,
    /// How far its connect times are apart.
    #[serde(skip_serializing_if = "Spread::is_empty")]
    pub connect: Spread,
    /// How far response times of its succeeded requests are apart.
    #[serde(skip_serializing_if = "Spread::is_empty")]
    pub response: Spread,
    /// How far their answers' bytes are apart, heads included.
    #[serde(skip_serializing_if = "Spread::is_empty")]
    pub answer: Spread,
    /// How far their bodies' bytes are apart.
    #[serde(skip_serializing_if = "Spread::is_empty")]
    pub body: Spread,
}

impl PageTotals {
    /// Adds another worker's, host's or iteration's totals of the same page.
    pub fn merge(&mut self, other: &PageTotals) {
        add_all!(self, other, PageTotals {
            hits, failed, time_ns, requests, errors, response_ns, connects, connect_ns,
            body_bytes, head_bytes, unanswered, unanswered_ns;
            time_ns_max, response_ns_max, connect_ns_max, unanswered_ns_max, connect, response, answer, body
        });
        self.time_ns_max = self.time_ns_max.max(other.time_ns_max);
        self.response_ns_max = self.response_ns_max.max(other.response_ns_max);
        self.connect_ns_max = self.connect_ns_max.max(other.connect_ns_max);
        self.unanswered_ns_max = self.unanswered_ns_max.max(other.unanswered_ns_max);
        self.connect.merge(&other.connect);
        self.response.merge(&other.response);
        self.answer.merge(&other.answer);
        self.body.merge(&other.body);
    }

    /// Mean response time; `None` without answers.
    pub fn response_mean(&self) -> Option<Mean> {
        Mean::with_waits((self.response_ns, self.requests), (self.unanswered_ns, self.unanswered))
    }

    /// Longest response time, or longest wait for one.
    pub fn longest_ns(&self) -> u64 {
        self.response_ns_max.max(self.unanswered_ns_max)
    }
}

/// What [`Moments`] have besides a count and a sum, which their owner keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The minimum; `u64::MAX` without values.
    pub min: u64,
    /// The maximum.
    pub max: u64,
    /// The sum of squares.
    #[serde(with = "super::moments::u128_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub squares: u128,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { min: u64::MAX, max: 0, squares: 0 }
    }
}

impl Spread {
    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.squares += u128::from(value) * u128::from(value);
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.min == u64::MAX
    }

    fn merge(&mut self, other: &Spread) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// The moments of values of this count and sum; `None` if they were not kept.
    pub fn moments(&self, count: u64, sum: u64) -> Option<Moments> {
        let Spread { min, max, squares } = *self;
        (!self.is_empty() || count == 0).then_some(Moments { count, sum, sum_of_squares: squares, min, max })
    }
}

/// What one client measured in full. Kept where a level has few clients: [`ClientMoments::CLIENTS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClientMoments {
    /// Connect times in nanoseconds.
    pub connect: Moments,
    /// Response times of succeeded requests in nanoseconds.
    pub response: Moments,
    /// Bytes of their answers, heads included.
    pub answer: Moments,
    /// Bytes of their bodies.
    pub body: Moments,
}

impl ClientMoments {
    /// They are kept for at most this many clients of a worker.
    pub const CLIENTS_MAX: usize = 128;

    pub(super) fn merge(&mut self, other: &ClientMoments) {
        self.connect.merge(&other.connect);
        self.response.merge(&other.response);
        self.answer.merge(&other.answer);
        self.body.merge(&other.body);
    }
}

/// What one client did. Fairness is computed from these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClientTotals {
    /// Pages completed.
    pub pages: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Σ response time of succeeded requests, in nanoseconds.
    pub response_ns: u64,
    /// Head, framing and body bytes of succeeded requests.
    pub bytes: u64,
    /// Connections established.
    pub connects: u64,
    /// Requests without a valid answer: failed, or in flight when the window closed.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub unanswered: u64,
    /// Σ of their waits, in nanoseconds.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub unanswered_ns: u64,
}

impl ClientTotals {
    /// Adds another iteration's totals of the same client.
    pub fn merge(&mut self, other: &ClientTotals) {
        add_all!(self, other, ClientTotals {
            pages, requests, errors, response_ns, bytes, connects, unanswered, unanswered_ns;
        });
    }

    /// Mean response time; `None` without answers.
    pub fn response_mean(&self) -> Option<Mean> {
        Mean::with_waits((self.response_ns, self.requests), (self.unanswered_ns, self.unanswered))
    }
}
