//! What a record's figures are worth, told from the record alone: VALID, SOUND, NOISY, INCONCLUSIVE or INVALID, why, and which
//! resource limited them. Nothing here can be typed in: anybody with the record computes the same verdict.
//!
//! Definitions: `docs/measurement.md`, "Verdict".

mod bounds;
mod crowding;
mod differing;
mod disturbance;
#[cfg(test)]
mod disturbance_tests;
mod earlier;
#[cfg(test)]
mod earlier_tests;
mod fleet;
mod fleet_rules;
#[cfg(test)]
mod fleet_tests;
mod foreseen;
mod lateness;
mod left_out;
mod levels;
mod limit;
mod reasons;
mod rules;
#[cfg(test)]
mod search_tests;
mod server_hosts;
mod slowness;
#[cfg(test)]
mod tests;
mod told;
mod undisturbed;

use serde::{Deserialize, Serialize};

use webstone_measure::keys::LevelKey;
use webstone_measure::rate::RateProfile;
use webstone_model::record::RunRecord;

pub use bounds::{
    APART_NS_MIN, CROWDED_COST_PERCENT, DISTURBANCE_NS_MIN, DISTURBED_PERCENT_MAX, ERRORS_PERCENT_MAX,
    INTERVAL_PERCENT_MAX, LINK_PERCENT_MAX, LOOP_DELAY_PERCENT_MAX, NOISE_FACTOR_MAX,
    RATE_MISSED_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX, SCHEDULE_LAG_PERCENT_MAX, SERVER_CPU_PERCENT_MAX,
    SHORT_WINDOW_NS, SLOWER_PERCENT_CLEAN, SLOWER_PERCENT_VOID, STALL_NS_CLEAN, STALL_NS_VOID,
    STALLED_PERCENT_MAX, TAKEN_PERCENT_CLEAN, TAKEN_PERCENT_VOID, WORKER_CPU_PERCENT_MAX, run_queue_percent,
};
pub use differing::{DIFFERS_PERCENT_MIN, Differing, differing};
pub use disturbance::{Loss, LossKind, Worth, losses, worth};
pub(crate) use earlier::echoes;
pub use earlier::speeds;
pub use fleet::apart_ns_max;
pub use foreseen::foreseen;
pub use left_out::{SliceLoss, lost_in_slice};
pub(crate) use levels::beside;
pub use levels::{AtBest, LevelVerdict, NoiseBound, levels};
pub use limit::link_percent;
pub use rules::rules;
pub(crate) use rules::this_host;
pub use told::percent_up;
pub use undisturbed::Undisturbed;

/// The verdict on a record.
pub fn of_record(record: &RunRecord) -> Verdict {
    let (reasons, doubts) = reasons::reasons(record);
    let mut unmet_rules = rules(record);
    unmet_rules.retain(|rule| rule.standing != RuleStanding::Met);
    let best = if unmet_rules.is_empty() { Standing::Valid } else { Standing::Sound };
    let levels = levels::judged(record, &reasons, &doubts, best);
    let (limit, level_limits) = limit::limits(record, &levels);
    let standing = levels::together(&levels, &reasons, best);
    Verdict { standing, levels, reasons, doubts, unmet_rules, limit, level_limits }
}

/// What the figures of a run are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Every run rule is met: publishable as a benchmark result.
    Valid,
    /// The figures are what they claim to be; some run rules are not met.
    Sound,
    /// Others took time from server or load generator, or a CPU was slow: the figures may be off by as much as the bound says, to
    /// one side.
    Noisy,
    /// By so much that nothing can be concluded, or iterations differ too much.
    Inconclusive,
    /// Not to be used: the figures are wrong, or are of something other than the server.
    Invalid,
}

impl Standing {
    /// All of them, in order of preference.
    pub const ALL: [Standing; 5] =
        [Standing::Valid, Standing::Sound, Standing::Noisy, Standing::Inconclusive, Standing::Invalid];

    /// The word that reports print.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Valid => "VALID",
            Standing::Sound => "SOUND",
            Standing::Noisy => "NOISY",
            Standing::Inconclusive => "INCONCLUSIVE",
            Standing::Invalid => "INVALID",
        }
    }

    /// What it means, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Standing::Valid => "every run rule is met",
            Standing::Sound => "the figures are what they claim to be",
            Standing::Noisy => "noise may have lowered rates and lengthened response times",
            Standing::Inconclusive => "too noisy to conclude anything",
            Standing::Invalid => "do not use these figures",
        }
    }

    /// Whether figures tell something: what does not is in no peak, rank, fit or quotient, and ends a command with exit code 4. Only a
    /// rate that the load generator limited has a rank nevertheless ([`LevelSummary::is_least`](crate::series::LevelSummary::is_least)).
    pub fn is_conclusive(self) -> bool {
        self <= Standing::Noisy
    }
}

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// In one word.
    pub standing: Standing,
    /// The same of every level, in ascending order of load.
    pub levels: Vec<LevelVerdict>,
    /// Why it is invalid; empty otherwise.
    pub reasons: Vec<Reason>,
    /// What makes it noisy or inconclusive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Reason>,
    /// Run rules that are not met, or of which the record cannot tell.
    pub unmet_rules: Vec<RuleResult>,
    /// Which resource limited the run, judged at its peak.
    pub limit: Limit,
    /// The same of every level, in ascending order of load.
    pub level_limits: Vec<LevelLimit>,
}

/// What makes a run invalid, noisy or inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Nothing was measured, or fewer iterations than planned.
    Incomplete,
    /// An identity does not hold.
    IdentityBroken,
    /// No request succeeded.
    NothingSucceeded,
    /// Too many requests failed.
    Errors,
    /// Requests waited long and had no answer.
    Unanswered,
    /// A worker used up its CPU.
    GeneratorSaturated,
    /// The relay of a path used up its CPU, or was late.
    PathSaturated,
    /// Open loop: requests were sent too late.
    ScheduleLag,
    /// Open loop: the offered rate was missed.
    RateMissed,
    /// Clients completed no page.
    ClientsStarved,
    /// Hosts that make load together did not open their windows at one moment.
    WindowsApart,
    /// Others took CPU time from the generator or the server.
    Disturbed,
    /// A CPU of the server did less in its time than at its best.
    Slowed,
    /// A CPU of the server did less in its time than in earlier runs.
    SlowerThanEarlier,
    /// Other programs filled the time that the test left of its CPUs.
    Crowded,
    /// So much of a window was not observed that it is unknown what others took.
    Unjudged,
    /// Iterations of a level differ so much that nothing can be concluded.
    Imprecise,
}

impl Cause {
    /// Whether the cause is the measurement (the load generator, other programs, a run that is too short), so that figures
    /// prove nothing. The other causes mean that something does not work.
    pub fn is_of_measuring(self) -> bool {
        match self {
            Cause::GeneratorSaturated
            | Cause::PathSaturated
            | Cause::ScheduleLag
            | Cause::RateMissed
            | Cause::Unanswered
            | Cause::ClientsStarved
            | Cause::WindowsApart
            | Cause::Disturbed
            | Cause::Slowed
            | Cause::SlowerThanEarlier
            | Cause::Crowded
            | Cause::Unjudged
            | Cause::Imprecise => true,
            Cause::Incomplete | Cause::IdentityBroken | Cause::NothingSucceeded | Cause::Errors => false,
        }
    }
}

/// Why a run is invalid, noisy or inconclusive, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// The kind.
    pub cause: Cause,
    /// The level, by its number of clients, where it is one level's.
    pub clients: Option<u32>,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, where it is one's.
    pub iteration: Option<u32>,
    /// What was measured, with its unit.
    pub measured: String,
    /// What the limit is, with its unit.
    pub limit: String,
    /// The whole in one sentence: level, value, limit.
    pub sentence: String,
}

impl Verdict {
    /// What a level is worth; as much as the run where it is not known by itself.
    pub fn of_level(&self, level: LevelKey) -> Standing {
        let found = self.levels.iter().find(|one| one.level() == level);
        found.map_or(self.standing, |one| one.standing)
    }

    /// How far noise may have moved a level's figures.
    pub fn noise_of(&self, level: LevelKey) -> Option<NoiseBound> {
        self.levels.iter().find(|one| one.level() == level)?.noise
    }

    /// By which factor noise may have lowered a level's request rate at most: infinite where it has no bound. `None` without noise that
    /// matters, and in open loop, where the rate is that of the arrivals.
    pub fn rate_factor_of(&self, level: LevelKey) -> Option<f64> {
        let level = self.levels.iter().find(|one| one.level() == level)?;
        let noise = level.noise.filter(|_| level.rate.is_none())?;
        Some(noise.factor.unwrap_or(f64::INFINITY))
    }
}

impl Reason {
    /// The level, where it is one level's.
    pub fn level(&self) -> Option<LevelKey> {
        Some(LevelKey::new(self.clients?, self.rate))
    }
}

/// Where a run rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RuleSource {
    /// WebStone 2.0's run rules.
    #[serde(rename = "WebStone 2.0")]
    WebStone2,
    /// webstone's own.
    #[serde(rename = "webstone")]
    Webstone,
}

/// Whether a rule is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RuleStanding {
    /// Met.
    Met,
    /// Not met.
    NotMet,
    /// The record does not say.
    CannotTell,
}

impl RuleStanding {
    /// In words, as they stand in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            RuleStanding::Met => "met",
            RuleStanding::NotMet => "not met",
            RuleStanding::CannotTell => "cannot tell",
        }
    }
}

/// A run rule, checked against a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleResult {
    /// Name for programs: `ten-minutes`.
    pub id: String,
    /// The rule in words.
    pub text: String,
    /// Whose rule it is.
    pub source: RuleSource,
    /// Whether it is met.
    pub standing: RuleStanding,
    /// What was found.
    pub evidence: String,
}

/// The resource that limits a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitingResource {
    /// The server's CPUs, or a quota on them.
    Server,
    /// One thread of the server, or several, each of which cannot use more than one CPU.
    ServerThread,
    /// The CPUs of the origin behind a proxy.
    Origin,
    /// The network link.
    Network,
    /// The load generator.
    Generator,
    /// Open loop: all that was offered was answered.
    OfferedRate,
    /// None of these: CPUs were idle on both sides while answers were due.
    None,
    /// Unknown: something was not measured, or nothing was at its ceiling and nothing idle.
    Unknown,
}

/// Which resource limits, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The resource.
    pub resource: LimitingResource,
    /// One sentence with the evidence.
    pub sentence: String,
}

/// Which resource limits a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelLimit {
    /// The level, by its number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Its bottleneck.
    pub limit: Limit,
}
