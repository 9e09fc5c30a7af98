//! The slices of a window from which some were left out, as a record has them.

use serde::{Deserialize, Serialize};

/// One slice of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WindowSlice {
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Requests that succeeded in it.
    pub requests: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// CPU time of the server's processes in it, in nanoseconds; absent if they were not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns: Option<u64>,
    /// By how much something lowered its rate at most, in percent: what load generator and server lost, multiplied.
    pub lost_percent: f64,
    /// Why it is left out of the figures, or would have been if enough other slices had been clean; absent if it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}
