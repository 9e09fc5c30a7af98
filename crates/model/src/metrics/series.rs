//! The series over time: one interval a second of the measured window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::add;

/// What ended inside one second of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interval {
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Connections established.
    pub connections: u64,
    /// Pages completed.
    pub pages: u64,
    /// Head, framing and body bytes of succeeded requests.
    pub bytes: u64,
    /// Σ response time of succeeded requests, in nanoseconds.
    pub response_ns: u64,
    /// Longest response time of a succeeded request.
    pub response_ns_max: u64,
}

impl Interval {
    /// Adds another worker's or agent's counts of the same second.
    pub fn merge(&mut self, other: &Interval) {
        add(&mut self.requests, other.requests);
        add(&mut self.errors, other.errors);
        add(&mut self.connections, other.connections);
        add(&mut self.pages, other.pages);
        add(&mut self.bytes, other.bytes);
        add(&mut self.response_ns, other.response_ns);
        self.response_ns_max = self.response_ns_max.max(other.response_ns_max);
    }
}

/// Intervals of one second each, in order; the last may be shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Series(pub Vec<Interval>);

impl Series {
    /// Adds another worker's or agent's series, second by second.
    pub fn merge(&mut self, other: &Series) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), Interval::default());
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// The sum over all intervals.
    pub fn total(&self) -> Interval {
        let mut total = Interval::default();
        self.0.iter().for_each(|interval| total.merge(interval));
        total
    }
}
