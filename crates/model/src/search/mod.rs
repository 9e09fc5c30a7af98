//! The search for the highest load that keeps an SLO: which level is measured next, when a level counts as kept or
//! broken, and what was found. Pure arithmetic: the runner measures what [`Search::next`] names, and the same finding is
//! computed again from the stored record ([`of_record`]).
//!
//! Definitions: `docs/measurement.md`, "Search for an SLO". Nothing here remembers where it is: each step walks the whole
//! search again over all that was measured, so that an interrupted search and a stored one say the same.

mod doubt;
mod finding;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use finding::{Answer, ConditionFound, Finding, LevelFound, UsefulPeak, of_record};
pub use standing::{LOOK_FIRST, LevelStanding, REPEATS_MAX, confidence};

use crate::metric::{Metric, Quantity, Reading};
use crate::rate::{Rate, RateProfile, Rates};
use crate::record::{IterationRecord, RunRecord};
use crate::spec::{Levels, LoadSpec};
use crate::threshold::{GateError, Relation, Threshold, Thresholds};
use crate::verdict::{Worth, worth};
use doubt::Doubt;
use standing::{Once, judge, standing};

/// Steps that the search takes away from an edge that cannot be decided, in each direction. Each is twice the last.
const STEPS_AWAY: u32 = 3;
/// How often a level is measured until it looks kept or broken.
const LOOKS_MAX: usize = 3;
/// Over rates: what a level must keep besides the SLO. The verdict's bound on a missed rate is the same 1 %.
pub const RATE_KEPT: &str = "offered>=99%";
/// Fewest and most clients that stand by at a level, where no number was given.
const CLIENTS_MIN: f64 = 10.0;
const CLIENTS_MAX: f64 = 1000.0;

/// What is searched for, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSpec {
    /// The conditions that a level must keep, all of them: `p(99)<50ms,errors<0.1%`.
    pub slo: String,
    /// What the load is.
    pub over: Over,
    /// Over rates: clients that stand by at every level; null: as many as [`SearchSpec::clients_at`] says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The lowest load that is tried, at least 1.
    pub from: u64,
    /// The highest load that is tried.
    pub to: u64,
    /// How close together the highest level kept and the lowest broken shall come, in percent of the former.
    pub resolution_percent: f64,
    /// Most iterations of a level whose standing is in doubt; at least [`LOOK_FIRST`].
    pub repeats: u32,
}

impl Default for SearchSpec {
    fn default() -> SearchSpec {
        SearchSpec::over(Over::default())
    }
}

/// What is raised to find the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The rate of arrivals of an open loop, whole arrivals a second.
    #[default]
    Rate,
    /// The number of clients of a closed loop.
    Clients,
}

impl Over {
    /// A load in words: `40 clients`, `1000 arrivals/s`.
    pub fn say(self, load: u64) -> String {
        match self {
            Over::Rate => format!("{load} arrivals/s"),
            Over::Clients => format!("{load} {}", if load == 1 { "client" } else { "clients" }),
        }
    }

    /// What stands before a load in a sentence: `at 1000 arrivals/s`, `with 40 clients`.
    pub fn preposition(self) -> &'static str {
        match self {
            Over::Rate => "at",
            Over::Clients => "with",
        }
    }

    /// The load of an iteration.
    pub fn of(self, run: &IterationRecord) -> u64 {
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
    /// A search over a kind of load, with everything else as it is by default.
    pub fn over(over: Over) -> SearchSpec {
        let (from, to) = match over {
            Over::Rate => (10, 1_000_000),
            Over::Clients => (1, 1024),
        };
        let (resolution_percent, repeats) = (5.0, 8);
        SearchSpec { slo: String::new(), over, clients: None, from, to, resolution_percent, repeats }
    }

    /// Clients of a level. Over rates, unless a number was given, those of Little's law (rate × time) for the longest time
    /// that the SLO allows: were all of them busy, the mean latency would be as long. At least 10, at most 1,000.
    pub fn clients_at(&self, load: u64) -> u32 {
        match (self.over, self.clients) {
            (Over::Clients, _) => u32::try_from(load).unwrap_or(u32::MAX),
            (Over::Rate, Some(clients)) => clients,
            (Over::Rate, None) => self.clients_needed(load).clamp(CLIENTS_MIN, CLIENTS_MAX) as u32,
        }
    }

    /// Rate of a level; `None` over clients.
    pub fn rate_at(&self, load: u64) -> Option<RateProfile> {
        let arrivals = u32::try_from(load).unwrap_or(u32::MAX);
        (self.over == Over::Rate).then(|| RateProfile::constant(Rate::per_second(arrivals)))
    }

    /// Levels that a load is asked for with: the highest of all, and behind a search those that it took.
    pub fn fill(&self, load: &mut LoadSpec, levels: &[u64]) {
        let mut clients: Vec<u32> = levels.iter().map(|level| self.clients_at(*level)).collect();
        clients.dedup();
        load.clients = Levels(clients);
        let rates: Option<Vec<RateProfile>> = levels.iter().map(|level| self.rate_at(*level)).collect();
        load.rate = rates.map(Rates);
    }

    /// Clients by Little's law; with no time in the SLO, for one of 50 ms.
    fn clients_needed(&self, load: u64) -> f64 {
        let longest = self.times().into_iter().reduce(f64::max).unwrap_or(0.05);
        (load as f64 * longest).ceil()
    }

    /// Upper limits of the SLO that are times, in seconds.
    pub(crate) fn times(&self) -> Vec<f64> {
        let is_time = |condition: &&Threshold| {
            condition.metric().quantity() == Quantity::Seconds
                && matches!(condition.relation(), Relation::Below | Relation::AtMost)
        };
        let conditions = self.conditions().unwrap_or_default();
        conditions.iter().filter(is_time).map(Threshold::limit).collect()
    }

    /// The loads of the geometric bracket: `from`, doubled until `to`.
    fn bracket(&self) -> Vec<u64> {
        let mut loads = vec![self.from];
        while let Some(last) = loads.last().copied().filter(|last| *last < self.to) {
            loads.push(last.saturating_mul(2).min(self.to));
        }
        loads
    }

    /// Levels that bisection takes at most between one load of the bracket and the next.
    fn bisections(&self) -> u64 {
        // Each halves the logarithm of a ratio of at most 2.
        let wanted = (1.0 + self.resolution_percent / 100.0).ln();
        let by_ratio = (std::f64::consts::LN_2 / wanted).log2().ceil().max(0.0) as u64;
        // Rounding a mean to a whole load may leave a little more than half.
        (by_ratio + 1).min(u64::from(u64::BITS - self.to.leading_zeros()))
    }

    /// The most iterations that the search can take, whatever it meets.
    pub fn iterations_max(&self) -> u64 {
        let bracket = self.bracket().len() as u64;
        // A level of bracket or bisection that looks broken, or cannot tell, is measured up to three times.
        let bracket = LOOKS_MAX as u64 * bracket;
        let edges = 2 + 2 * u64::from(STEPS_AWAY);
        bracket + LOOKS_MAX as u64 * self.bisections() + 1 + edges * u64::from(self.repeats)
    }

    /// The iterations that a search takes where noise does no harm and the limit lies in the middle of its range.
    pub fn iterations_usual(&self) -> u64 {
        let bracket = self.bracket().len() as u64;
        (bracket / 2 + 3 + 2 * self.bisections() + 4 * u64::from(LOOK_FIRST)).min(self.iterations_max())
    }

    /// The SLO, read. Over rates [`RATE_KEPT`] is one of its conditions, unless it says something of its own on that: a
    /// server that is not given its load has not carried it.
    ///
    /// # Errors
    /// If it is no list of thresholds.
    pub fn conditions(&self) -> Result<Vec<Threshold>, GateError> {
        let mut conditions = self.slo.parse::<Thresholds>()?.0;
        let offered = |condition: &Threshold| condition.metric() == Metric::Offered;
        if self.over == Over::Rate && !conditions.iter().any(offered) {
            conditions.extend(RATE_KEPT.parse::<Thresholds>()?.0);
        }
        Ok(conditions)
    }
}

/// A search with everything measured so far.
#[derive(Clone, Debug)]
pub struct Search {
    spec: SearchSpec,
    conditions: Vec<Threshold>,
    /// By load: of each iteration, the value of each condition.
    levels: BTreeMap<u64, Vec<Vec<Option<f64>>>>,
    /// By load: iterations that cannot tell, which are in no level.
    doubts: BTreeMap<u64, Vec<Doubt>>,
}

/// Where the walk over all measured stands.
enum Walk {
    /// This level is to be measured once (more).
    Measure(u64),
    /// The search is over.
    Over(Edges),
}

/// What the end of the walk knows.
#[derive(Clone, Debug, Default, PartialEq)]
struct Edges {
    kept: Option<u64>,
    broken: Option<u64>,
}

impl Search {
    /// A search that has measured nothing.
    ///
    /// # Errors
    /// If the SLO is no list of thresholds.
    pub fn new(spec: &SearchSpec) -> Result<Search, GateError> {
        let (levels, doubts) = Default::default();
        Ok(Search { conditions: spec.conditions()?, spec: spec.clone(), levels, doubts })
    }

    /// What is searched for.
    pub fn spec(&self) -> &SearchSpec {
        &self.spec
    }

    /// Takes in one iteration: the value of each condition, in their order.
    pub fn observe(&mut self, load: u64, values: Vec<Option<f64>>) {
        self.levels.entry(load).or_default().push(values);
    }

    fn doubt(&mut self, load: u64, doubt: Doubt) {
        self.doubts.entry(load).or_default().push(doubt);
    }

    /// Takes in an iteration as measured, of a record that may be growing. One that the user cut short counts for nothing; one that cannot tell, for neither side.
    pub fn observe_run(&mut self, record: &RunRecord, run: &IterationRecord) {
        if run.interrupted {
            return;
        }
        let reading = Reading::of(run);
        let values: Vec<Option<f64>> =
            self.conditions.iter().map(|condition| reading.value(condition.metric())).collect();
        let (load, shortest_s) = (self.spec.over.of(run), self.spec.times().into_iter().reduce(f64::min));
        let is_disturbed = worth(record, run) > Worth::Clean;
        match doubt::of(&self.conditions, &values, run, shortest_s, is_disturbed) {
            Some(doubt) => self.doubt(load, doubt),
            None => self.observe(load, values),
        }
    }

    /// The load to be measured next; `None` when the search is over.
    pub fn next(&self) -> Option<u64> {
        match self.walk() {
            Walk::Measure(load) => Some(load),
            Walk::Over(_) => None,
        }
    }

    fn walk(&self) -> Walk {
        let (lowest_kept, lowest_broken) = match self.bracketed() {
            Ok(ends) => ends,
            Err(load) => return Walk::Measure(load),
        };
        self.confirmed(lowest_kept, lowest_broken)
    }

    /// Bracket and bisection: the highest load that looks kept and the lowest above it that looks broken, or the load
    /// that has to be measured to go on.
    fn bracketed(&self) -> Result<(Option<u64>, Option<u64>), u64> {
        let (mut low, mut high) = (None, None);
        for load in self.spec.bracket() {
            match self.looks(load).ok_or(load)? {
                Once::Kept => low = Some(load),
                // More load is what it lacks.
                Once::TooLittle if low.is_none() => {}
                _ => {
                    high = Some(load);
                    break;
                }
            }
        }
        // One look at twice the load: does it stay broken?
        if let Some(beyond) = self.beyond(high)
            && self.measured(beyond) == 0
        {
            return Err(beyond);
        }
        while let (Some(kept), Some(broken)) = (low, high) {
            let near = broken as f64 <= kept as f64 * (1.0 + self.spec.resolution_percent / 100.0);
            if near || broken - kept <= 1 {
                break;
            }
            let mean = (kept as f64 * broken as f64).sqrt().round() as u64;
            let middle = mean.clamp(kept + 1, broken - 1);
            match self.looks(middle).ok_or(middle)? {
                Once::Kept => low = Some(middle),
                _ => high = Some(middle),
            }
        }
        Ok((low, high))
    }

    /// The load beyond the end of the bracket, where there is room for one.
    fn beyond(&self, high: Option<u64>) -> Option<u64> {
        high.map(|high| high.saturating_mul(2).min(self.spec.to)).filter(|beyond| Some(*beyond) > high)
    }

    /// Repeats both edges until each counts as kept or broken, and steps away from one that cannot be decided.
    fn confirmed(&self, low: Option<u64>, high: Option<u64>) -> Walk {
        let (mut kept, mut broken) = (low, high);
        let (mut downs, mut ups) = (0, 0);
        loop {
            let (below, above) =
                (kept.map(|load| self.standing(load)), broken.map(|load| self.standing(load)));
            match (below, above) {
                // What looked broken is kept after all: the edge lies higher.
                (_, Some(LevelStanding::Kept)) => {
                    kept = broken;
                    broken = broken.and_then(|load| self.up(load, &mut ups));
                }
                (Some(LevelStanding::Broken), _) => {
                    broken = kept;
                    kept = kept.and_then(|load| self.down(load, &mut downs));
                }
                (Some(LevelStanding::Undecided | LevelStanding::CannotTell), _) => {
                    kept = kept.and_then(|load| self.down(load, &mut downs));
                }
                (_, Some(LevelStanding::Undecided | LevelStanding::CannotTell)) => {
                    broken = broken.and_then(|load| self.up(load, &mut ups));
                }
                _ => {
                    let open =
                        |load: Option<u64>, standing| load.filter(|_| standing == Some(LevelStanding::Open));
                    let open = [open(kept, below), open(broken, above)];
                    // In turn, so that a machine that drifts drifts for both.
                    return match open.into_iter().flatten().min_by_key(|load| self.measured(*load)) {
                        Some(load) => Walk::Measure(load),
                        None => Walk::Over(Edges { kept, broken }),
                    };
                }
            }
        }
    }

    fn down(&self, load: u64, steps: &mut u32) -> Option<u64> {
        if *steps == STEPS_AWAY || load <= self.spec.from {
            return None;
        }
        let away = (load as f64 / (1.0 + self.away(steps))).floor() as u64;
        Some(away.min(load - 1).max(self.spec.from))
    }

    fn up(&self, load: u64, steps: &mut u32) -> Option<u64> {
        if *steps == STEPS_AWAY || load >= self.spec.to {
            return None;
        }
        let away = (load as f64 * (1.0 + self.away(steps))).ceil() as u64;
        Some(away.max(load + 1).min(self.spec.to))
    }

    fn away(&self, steps: &mut u32) -> f64 {
        *steps += 1;
        self.spec.resolution_percent / 100.0 * f64::from(1 << (*steps - 1))
    }

    fn measured(&self, load: u64) -> usize {
        self.levels.get(&load).map_or(0, Vec::len) + self.doubts_at(load).len()
    }

    fn doubts_at(&self, load: u64) -> &[Doubt] {
        self.doubts.get(&load).map_or(&[], Vec::as_slice)
    }

    /// What a level looks like from its first measurements: kept once is kept; broken takes two of three, because one
    /// hiccup of the machine breaks any level. `None`: it has to be measured (again) to tell.
    fn looks(&self, load: u64) -> Option<Once> {
        self.looks_decided(load).or_else(|| {
            // Measured as often as any, and still in doubt: nobody can build on it. Requests that are too few become more
            // with the load.
            let doubts = Some(self.doubts_at(load)).filter(|_| self.measured(load) >= LOOKS_MAX)?;
            let is_too_few = doubts.iter().all(|doubt| *doubt == Doubt::TooFew);
            Some(if is_too_few { Once::TooLittle } else { Once::Broken })
        })
    }

    /// Whether a level was measured as often as a look takes, and doubts kept it from being decided.
    fn looks_doubtful(&self, load: u64) -> bool {
        self.looks_decided(load).is_none() && self.measured(load) >= LOOKS_MAX
    }

    fn looks_decided(&self, load: u64) -> Option<Once> {
        let runs = self.levels.get(&load)?;
        let mut looks = runs.iter().map(|values| judge(&self.conditions, values));
        let first = looks.next()?;
        if first == Once::Kept {
            return Some(first);
        }
        match looks.next()? {
            Once::Kept => looks.next(),
            broken => Some(broken),
        }
    }

    fn standing(&self, load: u64) -> LevelStanding {
        let runs = self.levels.get(&load).map_or(&[][..], Vec::as_slice);
        let is_doubtful = !self.doubts_at(load).is_empty();
        match standing(&self.conditions, runs, self.spec.repeats) {
            LevelStanding::Open if self.measured(load) >= self.spec.repeats.max(LOOK_FIRST) as usize => {
                LevelStanding::CannotTell
            }
            LevelStanding::Open if is_doubtful && self.looks_doubtful(load) && runs.is_empty() => {
                LevelStanding::CannotTell
            }
            known => known,
        }
    }
}

/// The search that a record is of, with everything that it measured. `None` of a run that is no search.
fn search_of(record: &RunRecord) -> Option<Search> {
    let mut search = Search::new(record.spec.find.as_ref()?).ok()?;
    record.iterations.iter().for_each(|run| search.observe_run(record, run));
    Some(search)
}
