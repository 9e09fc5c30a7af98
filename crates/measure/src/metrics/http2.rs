//! Counters of runs in HTTP/2 only: streams and frames.

use serde::{Deserialize, Serialize};

use super::add_all;
use crate::since_all;

/// Counters of a window, for one worker or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Http2Counts {
    /// Streams opened: one each time that a request was sent.
    pub streams: u64,
    /// Streams that the server refused (REFUSED_STREAM), and those after the last one that it would answer (GOAWAY).
    pub refused: u64,
    /// Refused streams whose request was sent again.
    pub retried: u64,
    /// Streams that the server reset with another code (RST_STREAM).
    pub reset: u64,
    /// Connections that the server ended by GOAWAY.
    pub goaways: u64,
    /// Frames received.
    pub frames: u64,
    /// Requests that waited for a stream because their connection had the maximum number.
    pub waited: u64,
    /// Maximum number of concurrent streams on one connection.
    pub concurrent_max: u64,
    /// Minimum of the servers' limits of concurrent streams per connection (SETTINGS_MAX_CONCURRENT_STREAMS), if any
    /// was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_min: Option<u64>,
}

impl Http2Counts {
    /// Adds those of another worker, or of another iteration.
    pub fn merge(&mut self, other: &Http2Counts) {
        add_all!(self, other, Http2Counts {
            streams, refused, retried, reset, goaways, frames, waited; concurrent_max, allowed_min
        });
        self.concurrent_max = self.concurrent_max.max(other.concurrent_max);
        self.allowed_min = self.allowed_min.into_iter().chain(other.allowed_min).min();
    }

    /// What was counted since an earlier state of the same counters. Values that are not sums are unchanged.
    pub fn since(&self, earlier: &Http2Counts) -> Http2Counts {
        since_all!(*self, earlier, Http2Counts {
            streams, refused, retried, reset, goaways, frames, waited; concurrent_max, allowed_min
        })
    }
}
