//! One timed run of a level, as measured: what clients, the generator's host and the server did in its window.

use serde::{Deserialize, Serialize};

use crate::host_use::HostUse;
use crate::identities::IdentityCheck;
use crate::keys::{IterationKey, LevelKey};
use crate::metrics::Measured;
use crate::one_or_several;
use crate::parts::{GeneratorLoss, GeneratorPart};
use crate::rate::RateProfile;
use crate::server_hosts::ServerHostUse;
use crate::server_use::{OriginUse, ServerUse};
use crate::units::NANOS_PER_SECOND;
use crate::window_slices::WindowSlice;

/// One timed run of a level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IterationRecord {
    /// Number of clients.
    pub clients: u32,
    /// Open loop: the level's rate. Clients are then those that wait for arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
    /// When the measured window opened (RFC 3339, UTC).
    pub started_at: String,
    /// The same in nanoseconds of the monotonic clock since the run began. Absent if no window opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_ns: Option<u64>,
    /// Whether the user ended it early; its figures are for the time that it ran.
    pub interrupted: bool,
    /// What was measured.
    pub measured: Measured,
    /// The slices of its window, in order, if something was taken in any of them. If `measured` has `left_out`, those that say
    /// why are in no figure; otherwise too few were clean, and figures are of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<WindowSlice>,
    /// The identities, checked.
    pub identities: Vec<IdentityCheck>,
    /// The reference server's own use, if it is the target.
    pub server: Option<ServerUse>,
    /// What the server behind a proxy did, if webstone started that as the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginUse>,
    /// Which arm of an A/A run it belongs to (`--aa`).
    pub arm: Option<Arm>,
    /// What the generator's host counted while the window was open, if its kernel reports it.
    pub host: Option<HostUse>,
    /// The part of each of several hosts, in order; empty: this host made the load. `host` is then the controller's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<GeneratorPart>,
    /// A host that was lost, which makes the run void: figures are those of the other hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<GeneratorLoss>,
    /// What the server's host counted, if an agent monitored it; a list if several agents did, each on a different
    /// host. A host whose figures are missing is left out.
    #[serde(default, rename = "server_host", with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::one_or_several::OneOrSeveral<ServerHostUse>"))]
    pub server_hosts: Vec<ServerHostUse>,
    /// Why figures of the server are missing: those of an agent, or of a server on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_missing: Option<String>,
    /// The server's processes ended, or others took their place, in the window. That is the server's doing, so the window counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub server_ended: bool,
    /// Open loop: how well the schedule was kept.
    pub schedule: Option<ScheduleKept>,
    /// Where its rows are in `page-rows.csv.gz`; absent if they were not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_at: Option<RowsPlace>,
}

/// The place of an iteration's rows in `page-rows.csv.gz`: a gzip member of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowsPlace {
    /// First byte of the member.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of rows: pages that were requested.
    pub rows: u64,
}

/// One of the two arms of an A/A run: the same thing measured twice, interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Arm {
    /// The first.
    A,
    /// The second.
    B,
}

impl IterationRecord {
    /// Its level.
    pub fn level(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }

    /// Its key in the record; it is unique.
    pub fn key(&self) -> IterationKey {
        IterationKey::new(self.level(), self.iteration)
    }

    /// Several iterations as one measurement.
    pub fn merged(iterations: &[&IterationRecord]) -> Measured {
        let mut merged = Measured::default();
        for iteration in iterations {
            merged.merge_sequential(&iteration.measured);
        }
        merged
    }
}

/// How well an open-loop schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ScheduleKept {
    /// Arrivals that were due in the window, per second.
    pub asked_rate: f64,
    /// Arrivals that began a page in the window, per second.
    pub offered_rate: f64,
    /// Median of the schedule lag, in nanoseconds: from an arrival's intended start until the generator handled it.
    pub lag_p50_ns: u64,
    /// 99th percentile of the schedule lag, in nanoseconds.
    pub lag_p99_ns: u64,
    /// The longest schedule lag, in nanoseconds.
    pub lag_max_ns: u64,
}

impl ScheduleKept {
    /// From a window, or several merged; `None` in closed loop, and for a window without length.
    pub fn of_measured(measured: &Measured) -> Option<ScheduleKept> {
        let open_loop = measured.open_loop.as_ref().filter(|_| measured.window_ns > 0)?;
        let per_s = |arrivals: u64| arrivals as f64 * NANOS_PER_SECOND as f64 / measured.window_ns as f64;
        Some(ScheduleKept {
            asked_rate: per_s(open_loop.planned),
            offered_rate: per_s(open_loop.started),
            lag_p50_ns: open_loop.lag_histogram.value_at_percentile(50.0),
            lag_p99_ns: open_loop.lag_histogram.value_at_percentile(99.0),
            lag_max_ns: open_loop.lag.max,
        })
    }
}
