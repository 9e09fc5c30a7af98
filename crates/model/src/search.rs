//! The specification of a search for the highest load that keeps a service-level objective (`find`). `webstone-judge`
//! decides how it proceeds and what it finds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::IterationRecord;
use crate::spec::{Levels, LoadSpec};
use crate::threshold::{GateError, Relation, Threshold, Thresholds};
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::Metric;
use webstone_measure::rate::{Rate, RateProfile, Rates};

/// When searching rates: what a level must keep besides the SLO. The verdict's limit for a missed rate is the same 1
/// %.
pub const RATE_KEPT: &str = "offered>=99%";
/// Minimum and maximum number of clients for a level, unless a number is given.
const CLIENTS_MIN: f64 = 10.0;
const CLIENTS_MAX: f64 = 1000.0;
/// A range of rates wider than this is not searched by doubling from its lower end: a probe gives a rate to begin
/// with.
const PROBED_RANGE_MIN: u64 = 16;
/// Number of clients of the probe, unless one is given.
const PROBE_CLIENTS: u32 = 64;

/// What to search for, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SearchSpec {
    /// The conditions that a level must keep, all of them: `p(99)<50ms,errors<0.1%`.
    pub slo: String,
    /// What the load is.
    pub over: Over,
    /// When searching rates: number of clients at every level; null: as many as [`SearchSpec::clients_at`] says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The lowest load to try, at least 1.
    pub from: u64,
    /// The highest load to try.
    pub to: u64,
    /// The load to try first; absent: for rates the result of a probe in closed loop ([`SearchSpec::is_probed`]),
    /// otherwise `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<u64>,
    /// How close the highest load that keeps the SLO and the lowest that breaks it must be, in percent of the former.
    pub resolution_percent: f64,
    /// Maximum number of iterations of a level whose result is in doubt; at least
    /// `webstone_judge::search::LOOK_FIRST`.
    pub repeats: u32,
}

impl Default for SearchSpec {
    fn default() -> SearchSpec {
        SearchSpec::over(Over::default())
    }
}

/// What is raised to find the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The rate of arrivals in an open loop, whole arrivals per second.
    #[default]
    Rate,
    /// The number of clients of a closed loop.
    Clients,
}

impl Over {
    /// The level for a load.
    pub fn level(self, load: u64) -> LevelKey {
        let load = u32::try_from(load).unwrap_or(u32::MAX);
        match self {
            Over::Rate => LevelKey::Rate(RateProfile::constant(Rate::per_second(load))),
            Over::Clients => LevelKey::Clients(load),
        }
    }

    /// The words before a load in a sentence: `at 1,000 arrivals/s`, `with 40 clients`.
    pub fn preposition(self) -> &'static str {
        match self {
            Over::Rate => "at",
            Over::Clients => "with",
        }
    }

    /// The load of an iteration.
    pub fn load(self, run: &IterationRecord) -> u64 {
        match self {
            Over::Rate => run.rate.map_or(0, |rate| rate.to.per_1000_s() / 1000),
            Over::Clients => u64::from(run.clients),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Over::Rate => "rate",
            Over::Clients => "clients",
        })
    }
}

impl SearchSpec {
    /// A search over a kind of load, with defaults for everything else.
    pub fn over(over: Over) -> SearchSpec {
        let (from, to) = match over {
            Over::Rate => (10, 1_000_000),
            Over::Clients => (1, 1024),
        };
        let (resolution_percent, repeats) = (5.0, 8);
        SearchSpec {
            slo: String::new(),
            over,
            clients: None,
            from,
            to,
            begin: None,
            resolution_percent,
            repeats,
        }
    }

    /// Whether the search first measures, in closed loop, how many pages per second the server delivers: for rates,
    /// if the range is wide.
    pub fn is_probed(&self) -> bool {
        self.over == Over::Rate && self.begin.is_none() && self.to / self.from.max(1) > PROBED_RANGE_MIN
    }

    /// Number of clients of the probe.
    pub fn probe_clients(&self) -> u32 {
        self.clients.unwrap_or(PROBE_CLIENTS)
    }

    /// Sets the first load to somewhat less than a rate that a probe found, so that the first level probably keeps
    /// the SLO and the next does not. Does nothing without an answer.
    pub fn begin_near(&mut self, pages_per_s: f64) {
        let load = (pages_per_s * 0.75).round() as u64;
        self.begin = Some(load.clamp(self.from, self.to)).filter(|_| load > 0);
    }

    /// Number of clients of a level. For rates, unless a number is given, by Little's law (rate × time) with the
    /// longest time that the SLO allows: if all of them were busy, the mean latency would be that long. At least 10,
    /// at most 1,000.
    pub fn clients_at(&self, load: u64) -> u32 {
        match (self.over, self.clients) {
            (Over::Clients, _) => u32::try_from(load).unwrap_or(u32::MAX),
            (Over::Rate, Some(clients)) => clients,
            (Over::Rate, None) => self.clients_needed(load).clamp(CLIENTS_MIN, CLIENTS_MAX) as u32,
        }
    }

    /// Rate of a level; `None` when searching numbers of clients.
    pub fn rate_at(&self, load: u64) -> Option<RateProfile> {
        match self.over.level(load) {
            LevelKey::Rate(rate) => Some(rate),
            LevelKey::Clients(_) => None,
        }
    }

    /// Fills in levels: the highest load of the range, or after a search those that it tried.
    pub fn fill(&self, load: &mut LoadSpec, levels: &[u64]) {
        let mut clients: Vec<u32> = levels.iter().map(|level| self.clients_at(*level)).collect();
        clients.dedup();
        load.clients = Levels(clients);
        let rates: Option<Vec<RateProfile>> = levels.iter().map(|level| self.rate_at(*level)).collect();
        load.rate = rates.map(Rates);
    }

    /// Number of clients by Little's law; if the SLO has no time, for one of 50 ms.
    pub fn clients_needed(&self, load: u64) -> f64 {
        let longest = self.times().into_iter().reduce(f64::max).unwrap_or(0.05);
        (load as f64 * longest).ceil()
    }

    /// Upper limits of the SLO on times that clients wait, in seconds.
    pub fn times(&self) -> Vec<f64> {
        let is_time = |condition: &&Threshold| {
            condition.metric().is_time_of_clients()
                && matches!(condition.relation(), Relation::Below | Relation::AtMost)
        };
        let conditions = self.conditions().unwrap_or_default();
        conditions.iter().filter(is_time).map(Threshold::limit).collect()
    }

    /// The SLO, parsed. For rates [`RATE_KEPT`] is added, unless the SLO has a condition of its own on that: a server
    /// that does not get its load has not carried it.
    ///
    /// # Errors
    /// If it is not a list of thresholds.
    pub fn conditions(&self) -> Result<Vec<Threshold>, GateError> {
        let mut conditions = self.slo.parse::<Thresholds>()?.0;
        let offered = |condition: &Threshold| condition.metric() == Metric::OFFERED;
        if self.over == Over::Rate && !conditions.iter().any(offered) {
            conditions.extend(RATE_KEPT.parse::<Thresholds>()?.0);
        }
        Ok(conditions)
    }
}
