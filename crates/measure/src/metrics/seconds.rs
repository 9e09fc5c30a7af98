//! The measured window second by second.

use serde::{Deserialize, Serialize};

use super::add_all;
use crate::since_all;

/// What ended within one second of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Second {
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

impl Second {
    /// Adds another worker's counts of the same second.
    pub fn merge(&mut self, other: &Second) {
        add_all!(self, other, Second {
            requests, errors, connections, pages, bytes, response_ns; response_ns_max
        });
        self.response_ns_max = self.response_ns_max.max(other.response_ns_max);
    }

    /// What came after an earlier reading of the same totals; without the longest response time.
    pub fn since(&self, earlier: &Second) -> Second {
        let since = since_all!(*self, earlier, Second {
            requests, errors, connections, pages, bytes, response_ns; response_ns_max
        });
        Second { response_ns_max: 0, ..since }
    }
}

/// The seconds of a window, in order; the last may be shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Seconds(pub Vec<Second>);

impl Seconds {
    /// Adds another worker's seconds, one by one.
    pub fn merge(&mut self, other: &Seconds) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), Second::default());
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// The sum over all seconds.
    pub fn total(&self) -> Second {
        let mut total = Second::default();
        self.0.iter().for_each(|second| total.merge(second));
        total
    }
}
