//! The search for the highest load that keeps an SLO: which level is measured next, when a level counts as kept or
//! broken, and what was found. Pure arithmetic: the runner measures what [`Search::next`] names, and the same finding is
//! computed again from the stored record ([`of_record`]).
//!
//! Definitions: `docs/measurement.md`, "Search for an SLO". Nothing here remembers where it is: each step walks the whole
//! search again over all that was measured, so that an interrupted search and a stored one say the same.

mod doubt;
mod finding;
#[cfg(test)]
mod noise_tests;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use finding::{Answer, ConditionFound, Finding, LevelFound, UsefulPeak, of_record};
pub use standing::{LOOK_FIRST, LevelStanding, REPEATS_MAX, confidence};

use doubt::{Doubt, Noise, Shown};
use standing::{Once, judge, standing};
use webstone_measure::metric::{Metric, Reading};
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::search::SearchSpec;
use webstone_model::threshold::{GateError, Threshold};

/// Steps that the search takes away from an edge that cannot be decided, in each direction. Each is twice the last.
const STEPS_AWAY: u32 = 3;
/// How often a level is measured until it looks kept or broken.
const LOOKS_MAX: usize = 3;
/// Timed runs that must agree in spite of noise, for each that does not.
const AGREE: usize = 4;
/// A level that was both kept in spite of noise and broken for sure is given up after this many timed runs.
const MIXED_MAX: usize = 5;
/// A level is given up after this many timed runs that cannot tell, if they are more than those that can.
const DOUBTS_MAX: usize = 4;

/// The loads of the geometric bracket upwards: `from`, doubled until `to`. Where something is known of the limit, it begins near it
/// with a smaller step.
fn rising(spec: &SearchSpec) -> Vec<u64> {
    let mut loads = vec![spec.begin.map_or(spec.from, |begin| begin.clamp(spec.from, spec.to))];
    while let Some(last) = loads.last().copied().filter(|last| *last < spec.to) {
        let next = match spec.begin {
            Some(_) if loads.len() == 1 => last.saturating_add(last.div_ceil(2)),
            _ => last.saturating_mul(2),
        };
        loads.push(next.min(spec.to));
    }
    loads
}

/// The same downwards, for a beginning that is beyond the limit: halved until `from`.
fn falling(spec: &SearchSpec) -> Vec<u64> {
    let mut loads = Vec::new();
    let mut last = rising(spec)[0];
    while last > spec.from {
        last = last.div_ceil(2).max(spec.from);
        loads.push(last);
    }
    loads
}

/// Levels that bisection takes at most between one load of the bracket and the next.
fn bisections(spec: &SearchSpec) -> u64 {
    // Each halves the logarithm of a ratio of at most 2.
    let wanted = (1.0 + spec.resolution_percent / 100.0).ln();
    let by_ratio = (std::f64::consts::LN_2 / wanted).log2().ceil().max(0.0) as u64;
    // Rounding a mean to a whole load may leave a little more than half.
    (by_ratio + 1).min(u64::from(u64::BITS - spec.to.leading_zeros()))
}

/// The most iterations that the search can take, whatever it meets.
pub fn iterations_max(spec: &SearchSpec) -> u64 {
    let bracket = (rising(spec).len() + falling(spec).len()) as u64;
    // A level of bracket or bisection that looks broken, or cannot tell, is measured up to three times.
    let bracket = LOOKS_MAX as u64 * bracket;
    let edges = 2 + 2 * u64::from(STEPS_AWAY);
    bracket + LOOKS_MAX as u64 * bisections(spec) + 1 + edges * u64::from(spec.repeats)
}

/// The iterations that a search takes where noise does no harm and the limit lies in the middle of its range.
pub fn iterations_usual(spec: &SearchSpec) -> u64 {
    // From a beginning near the limit, the second level or the third is beyond it.
    let near = spec.is_probed() || spec.begin.is_some();
    let bracket = if near { 2 } else { rising(spec).len() as u64 / 2 };
    (bracket + 3 + 2 * bisections(spec) + 4 * u64::from(LOOK_FIRST)).min(iterations_max(spec))
}

/// A search with everything measured so far.
#[derive(Clone, Debug)]
pub struct Search {
    spec: SearchSpec,
    conditions: Vec<Threshold>,
    /// By load: of each iteration, the value of each condition.
    levels: BTreeMap<u64, Vec<Vec<Option<f64>>>>,
    /// What each of them shows besides its values, in the same order.
    shown: BTreeMap<u64, Vec<Shown>>,
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
    /// If the SLO is not a list of thresholds.
    pub fn new(spec: &SearchSpec) -> Result<Search, GateError> {
        let (levels, shown, doubts) = Default::default();
        Ok(Search { conditions: spec.conditions()?, spec: spec.clone(), levels, shown, doubts })
    }

    /// What is searched for.
    pub fn spec(&self) -> &SearchSpec {
        &self.spec
    }

    /// Begins near a rate that a probe found ([`SearchSpec::begin_near`]). Before anything is measured.
    pub fn begin_near(&mut self, pages_per_s: f64) {
        self.spec.begin_near(pages_per_s);
    }

    /// Takes in one iteration: the value of each condition, in their order.
    pub fn observe(&mut self, load: u64, values: Vec<Option<f64>>) {
        self.observe_as(load, values, Shown::Plain);
    }

    fn observe_as(&mut self, load: u64, values: Vec<Option<f64>>, shown: Shown) {
        self.levels.entry(load).or_default().push(values);
        self.shown.entry(load).or_default().push(shown);
    }

    fn doubt(&mut self, load: u64, doubt: Doubt) {
        self.doubts.entry(load).or_default().push(doubt);
    }

    /// Takes in an iteration of a record that may grow. One that was cut short is left out; one that cannot tell counts for neither side.
    pub fn observe_run(&mut self, record: &RunRecord, run: &IterationRecord) {
        if run.interrupted {
            return;
        }
        let values = self.values(run);
        let (load, shortest_s) = (self.spec.over.load(run), self.spec.times().into_iter().reduce(f64::min));
        match doubt::shown(&self.conditions, &values, run, shortest_s, Noise::of_run(record, run)) {
            Err(doubt) => self.doubt(load, doubt),
            Ok(shown) => self.observe_as(load, values, shown),
        }
    }

    /// The value of each condition in a timed run: the only place where a search reads one, percentiles among them.
    fn values(&self, run: &IterationRecord) -> Vec<Option<f64>> {
        let reading = Reading::of_run(run);
        self.conditions.iter().map(|condition| condition.value(&reading)).collect()
    }

    /// Whether enough timed runs of a level show that it is broken by what no disturbance does.
    pub(crate) fn is_broken_for_sure(&self, load: u64) -> bool {
        self.shown_standing(load) == Some(LevelStanding::Broken)
    }

    /// Whether the SLO has an upper limit of errors.
    pub(crate) fn limits_errors(&self) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.metric() == Metric::ERRORS && doubt::is_upper(condition))
    }

    /// Whether a timed run, of this record, shows neither that the level keeps the SLO nor that it breaks it.
    pub fn is_in_doubt(&self, record: &RunRecord, run: &IterationRecord) -> bool {
        self.shown(record, run).is_err()
    }

    fn shown(&self, record: &RunRecord, run: &IterationRecord) -> Result<Shown, Doubt> {
        let shortest_s = self.spec.times().into_iter().reduce(f64::min);
        doubt::shown(&self.conditions, &self.values(run), run, shortest_s, Noise::of_run(record, run))
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
        // The highest load below `low` and `high` that looks too little: what keeps the SLO may lie between it and `high`.
        let mut too_little = None;
        let rising = rising(&self.spec);
        for load in &rising {
            match self.looks(*load).ok_or(*load)? {
                Once::Kept => low = Some(*load),
                // It needs more load.
                Once::TooLittle if low.is_none() => too_little = Some(*load),
                _ => {
                    high = Some(*load);
                    break;
                }
            }
        }
        if high == Some(rising[0]) {
            // It began beyond the limit.
            for load in falling(&self.spec) {
                match self.looks(load).ok_or(load)? {
                    Once::Kept => {
                        low = Some(load);
                        break;
                    }
                    Once::TooLittle => {
                        too_little = Some(load);
                        break;
                    }
                    Once::Broken => high = Some(load),
                }
            }
        }
        // One look at twice the load: does it stay broken?
        if let Some(beyond) = self.beyond(high)
            && self.measured(beyond) == 0
        {
            return Err(beyond);
        }
        while let (Some(below), Some(broken)) = (low.or(too_little), high) {
            let near = broken as f64 <= below as f64 * (1.0 + self.spec.resolution_percent / 100.0);
            if near || broken - below <= 1 {
                break;
            }
            let mean = (below as f64 * broken as f64).sqrt().round() as u64;
            let middle = mean.clamp(below + 1, broken - 1);
            match self.looks(middle).ok_or(middle)? {
                Once::Kept => low = Some(middle),
                Once::TooLittle if low.is_none() => too_little = Some(middle),
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
            // Measured as often as allowed, and still in doubt. If requests were too few, more load makes
            // them enough.
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
        if let Some(known) = self.shown_standing(load) {
            return known;
        }
        match standing(&self.conditions, runs, self.spec.repeats) {
            LevelStanding::Open if self.measured(load) >= self.spec.repeats.max(LOOK_FIRST) as usize => {
                LevelStanding::CannotTell
            }
            // Mostly in doubt: more of the same would tell no more.
            LevelStanding::Open if self.doubts_at(load).len() >= DOUBTS_MAX.max(runs.len() + 1) => {
                LevelStanding::CannotTell
            }
            LevelStanding::Open if is_doubtful && self.looks_doubtful(load) && runs.is_empty() => {
                LevelStanding::CannotTell
            }
            known => known,
        }
    }
}

impl Search {
    /// What the runs of a level show besides their values, if as many agree as the first look takes, and few do not. Noise makes
    /// no broken SLO look kept, so that one kept in spite of noise needs no interval; and what no noise can do breaks it. If both
    /// are seen, more runs would not decide.
    fn shown_standing(&self, load: u64) -> Option<LevelStanding> {
        let (runs, shown) = (self.levels.get(&load)?, self.shown.get(&load)?);
        let kept = runs.iter().filter(|values| judge(&self.conditions, values) == Once::Kept).count();
        let count = |what: Shown| shown.iter().filter(|shown| **shown == what).count();
        let (in_noise, sure) = (count(Shown::KeptInNoise), count(Shown::BrokenForSure));
        let enough = LOOK_FIRST as usize;
        if in_noise >= enough && kept >= AGREE * (runs.len() - kept) {
            return Some(LevelStanding::Kept);
        }
        if sure >= enough && sure >= AGREE * kept {
            return Some(LevelStanding::Broken);
        }
        let is_mixed = in_noise > 0 && sure > 0 && self.measured(load) >= MIXED_MAX;
        is_mixed.then_some(LevelStanding::CannotTell)
    }
}

/// The search that a record is of, with everything that it measured. `None` of a run that is not a search.
pub(crate) fn search_of(record: &RunRecord) -> Option<Search> {
    let mut search = Search::new(record.spec.find.as_ref()?).ok()?;
    record.iterations.iter().for_each(|run| search.observe_run(record, run));
    Some(search)
}
