//! Load from several hosts: a *fleet* has the same interface as the engine (`LoadGenerator`), so that a sweep does not know
//! how many hosts make its levels.
//!
//! Each host runs `webstone agent`, started by a command of the user's, or in the pods of a Kubernetes `job` (its manifest), which `pods`
//! finds by `kubectl`. `start` brings them up, `course` decides a level's course (pure), `level` plays it, `live` says how it goes,
//! `slices` judges its slices, `merge` adds up the results, `clock` and `deal` are what they say, `role` is the agent's side, `own_slices`
//! its part in judging slices.

mod at_once;
mod carried;
mod clock;
mod course;
mod deal;
mod fleet_error;
mod job;
mod kubectl;
mod level;
mod live;
mod member;
mod merge;
mod notes;
mod own_slices;
mod pods;
mod role;
mod slices;
mod start;
#[cfg(test)]
mod thousand_tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use webstone_measure::rate::RateProfile;
use webstone_model::generators::GeneratorRecord;
use webstone_model::record::CodedSample;

use crate::generator::{Level, LoadGenerator, Outputs};
use level::FleetLevel;
use member::{Members, Pinger};

pub use fleet_error::FleetError;
pub use job::{Job, JobError};
pub(crate) use role::program_sha256;
pub use role::role;
pub use start::{CheckedHost, check};
pub(crate) use start::{Setting, start};

/// Hosts that are ready to make load together.
pub(crate) struct Fleet {
    /// Locked by the level that runs.
    members: Arc<Mutex<Members>>,
    /// What each host is, for the record.
    pub(crate) records: Vec<GeneratorRecord>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
    /// Which host has which share of the load.
    pub(crate) plan_in_words: String,
    /// Where the target is, seen from the hosts.
    pub(crate) addresses: BTreeSet<SocketAddr>,
    /// `Server` field of its answer to the first of them, if that asked.
    pub(crate) server: Option<String>,
    /// Its offer of HTTP/3 to that host, over TCP.
    pub(crate) offers_http3: Option<String>,
    /// Its answers to that host which were coded.
    pub(crate) coded: Vec<CodedSample>,
    _pinger: Pinger,
}

impl LoadGenerator for Fleet {
    fn level(&self, clients: u32, rate: Option<RateProfile>, outputs: Outputs) -> Box<dyn Level> {
        Box::new(FleetLevel::new(Arc::clone(&self.members), clients, rate, &outputs))
    }
}
