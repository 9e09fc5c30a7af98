//! What a search found, in figures and in one sentence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::doubt::Doubt;
use super::standing::{Once, interval, judge};
use super::{Edges, LevelStanding, Search, Walk, confidence, falling, iterations_max, rising, search_of};
use crate::statistics::Interval;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::fairness;
use webstone_measure::units::grouped;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::search::Over;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The limit lies between two levels.
    Between,
    /// The SLO is kept up to the highest load that was allowed.
    Always,
    /// The SLO is broken at the lowest load already, or no load keeps all its conditions.
    Never,
    /// Noise does not let the edge be decided on one side or on both.
    Unclear,
    /// The search ended before its time.
    Unfinished,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// In one word.
    pub answer: Answer,
    /// In words, with the limits.
    pub sentence: String,
    /// The highest load that counts as kept, below all that count as broken: the lower end of the interval.
    pub kept: Option<u64>,
    /// The lowest load above it that counts as broken: the upper end of the interval.
    pub broken: Option<u64>,
    /// A load above `broken` that kept the SLO: it is not load alone that breaks it.
    pub kept_again: Option<u64>,
    /// The highest request rate of a level that keeps the SLO (SPICE's useful peak).
    pub useful_peak: Option<UsefulPeak>,
    /// Confidence of the intervals by which a level counts as kept or broken; all looks at it together have 95 %.
    pub confidence: f64,
    /// Iterations that were measured.
    pub iterations: u64,
    /// Iterations that the search could have taken at most.
    pub iterations_max: u64,
    /// Every level, in ascending order of load.
    pub levels: Vec<LevelFound>,
}

/// The highest request rate at which the SLO holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsefulPeak {
    /// The load.
    pub load: u64,
    /// Valid responses per second, over all iterations of the level.
    pub request_rate: f64,
    /// Jain's index over the clients' completed pages; null where nobody completed one.
    pub jain: Option<f64>,
}

impl UsefulPeak {
    /// `1,234 requests/s with 40 clients; Jain's index over the clients 0.9981`.
    pub fn sentence(&self, over: Over) -> String {
        let fair = match self.jain {
            Some(jain) => format!("; Jain's index over the clients {jain:.4}"),
            None => String::new(),
        };
        format!(
            "{} requests/s {} {}{fair}",
            grouped(self.request_rate.round() as u64),
            over.preposition(),
            over.level(self.load)
        )
    }
}

/// One level of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelFound {
    /// The load.
    pub load: u64,
    /// Iterations of it.
    pub iterations: u64,
    /// How many of them kept the SLO, taken alone.
    pub iterations_kept: u64,
    /// How many of them cannot tell, and count for neither side: the generator was late or at its limit, or requests were too
    /// few for a percentile.
    #[serde(default)]
    pub iterations_doubtful: u64,
    /// What they say together.
    pub standing: LevelStanding,
    /// Each condition of the SLO, in its order.
    pub conditions: Vec<ConditionFound>,
}

/// A condition at a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionFound {
    /// As it was typed.
    pub condition: String,
    /// Its value in the base unit of its figure, the mean over iterations (of times and rates the geometric one), with the
    /// interval that is checked against the limit; without one below two iterations. Null where nothing was measured.
    pub value: Option<Interval>,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Iterations that kept it.
    pub iterations_kept: u64,
}

impl Finding {
    /// The load from which on the SLO is not, or not surely, kept: the lowest that counts as broken, or else the lowest
    /// above `kept` that does not count as kept. `None` where nothing lies above.
    pub fn edge(&self) -> Option<u64> {
        let above =
            |level: &&LevelFound| Some(level.load) > self.kept && level.standing != LevelStanding::Kept;
        self.broken.or_else(|| self.levels.iter().find(above).map(|level| level.load))
    }
}

/// What the record of a search says. `None` of a run that is not a search.
pub fn of_record(record: &RunRecord) -> Option<Finding> {
    let search = search_of(record)?;
    let mut finding = search.finding();
    let over = search.spec.over;
    let levels = record.levels();
    let runs_at = |load: u64| {
        levels
            .iter()
            .map(|(_, runs)| runs)
            .find(|runs| runs.first().is_some_and(|run| over.load(run) == load))
    };
    let below = |level: &&LevelFound| finding.broken.is_none_or(|broken| level.load < broken);
    let peaks =
        finding.levels.iter().filter(below).filter(|level| search.looks_kept(level)).filter_map(|level| {
            let measured = IterationRecord::merged(runs_at(level.load)?);
            Some(UsefulPeak {
                load: level.load,
                request_rate: Figures::of_measured(&measured).request_rate,
                jain: fairness(&measured.clients).map(|served| served.jain_pages),
            })
        });
    let peak = peaks.max_by(|a, b| a.request_rate.total_cmp(&b.request_rate));
    finding.useful_peak = peak.filter(|_| finding.kept.is_some());
    if let Some(broken) = finding.broken
        && let Some(runs) = runs_at(broken)
        && let Some(note) = search.too_few_clients(broken, runs)
    {
        finding.sentence += &note;
    }
    Some(finding)
}

impl Search {
    /// What has been found so far, without the useful peak, which takes a record ([`of_record`]).
    pub fn finding(&self) -> Finding {
        let confidence = confidence(self.spec.repeats);
        let levels: Vec<LevelFound> = self.loads().map(|load| self.level(load, confidence)).collect();
        let walk = self.walk();
        let (answer, edges) = match walk {
            Walk::Measure(_) => (Answer::Unfinished, self.so_far(&levels)),
            Walk::Over(edges) => (self.answer(&edges), edges),
        };
        let kept_again = edges.broken.and_then(|broken| {
            levels.iter().find(|level| level.load > broken && self.looks_kept(level)).map(|level| level.load)
        });
        let mut finding = Finding {
            answer,
            sentence: String::new(),
            kept: edges.kept,
            broken: edges.broken,
            kept_again,
            useful_peak: None,
            confidence,
            iterations: levels.iter().map(|level| level.iterations).sum(),
            iterations_max: iterations_max(&self.spec),
            levels,
        };
        finding.sentence = self.sentence(&finding);
        finding
    }

    /// All that were measured, in ascending order.
    fn loads(&self) -> impl Iterator<Item = u64> {
        let loads: BTreeSet<u64> = self.levels.keys().chain(self.doubts.keys()).copied().collect();
        loads.into_iter()
    }

    fn answer(&self, edges: &Edges) -> Answer {
        match (edges.kept, edges.broken) {
            (Some(_), Some(_)) => Answer::Between,
            (Some(kept), None) if kept == self.spec.to => Answer::Always,
            (None, Some(broken)) if broken == self.spec.from || self.never_enough(edges) => Answer::Never,
            (None, None) if self.never_enough(edges) => Answer::Never,
            _ => Answer::Unclear,
        }
    }

    /// Whether every level of the bracket looks broken, and every level below the lowest that is.
    fn never_enough(&self, edges: &Edges) -> bool {
        let below = || self.loads().filter(|load| edges.broken.is_some_and(|broken| *load < broken));
        let looked_at = || rising(&self.spec).into_iter().chain(falling(&self.spec)).chain(below());
        !looked_at().any(|load| self.looks_doubtful(load))
            && looked_at().filter_map(|load| self.looks(load)).all(|look| look != Once::Kept)
    }

    /// What counts as kept and broken although the search did not end.
    fn so_far(&self, levels: &[LevelFound]) -> Edges {
        let broken =
            levels.iter().find(|level| level.standing == LevelStanding::Broken).map(|level| level.load);
        let below = |level: &&LevelFound| broken.is_none_or(|broken| level.load < broken);
        let kept = levels.iter().rev().filter(below).find(|level| level.standing == LevelStanding::Kept);
        Edges { kept: kept.map(|level| level.load), broken }
    }

    fn looks_kept(&self, level: &LevelFound) -> bool {
        match level.standing {
            LevelStanding::Kept => true,
            LevelStanding::Open => {
                2 * level.iterations_kept > level.iterations.saturating_sub(level.iterations_doubtful)
            }
            LevelStanding::Broken | LevelStanding::Undecided | LevelStanding::CannotTell => false,
        }
    }

    fn level(&self, load: u64, confidence: f64) -> LevelFound {
        let runs = self.levels.get(&load).map_or(&[][..], Vec::as_slice);
        let conditions = self.conditions.iter().enumerate().map(|(place, condition)| {
            let values: Vec<Option<f64>> = runs.iter().map(|run| run[place]).collect();
            let kept = |value: &&Option<f64>| {
                value.is_some_and(|value| condition.relation().holds(value, condition.limit()))
            };
            let bare = || values.first().copied().flatten().map(Interval::bare);
            ConditionFound {
                condition: condition.text().to_owned(),
                value: interval(condition.metric(), &values, confidence).or_else(bare),
                limit: condition.limit(),
                iterations_kept: values.iter().filter(kept).count() as u64,
            }
        });
        LevelFound {
            load,
            iterations: self.measured(load) as u64,
            iterations_doubtful: self.doubts_at(load).len() as u64,
            iterations_kept: runs.iter().filter(|run| judge(&self.conditions, run) == Once::Kept).count()
                as u64,
            standing: self.standing(load),
            conditions: conditions.collect(),
        }
    }

    fn sentence(&self, finding: &Finding) -> String {
        let over = self.spec.over;
        let (slo, at) = (&self.spec.slo, |load| format!("{} {}", over.preposition(), over.level(load)));
        let by = finding.broken.map(|broken| self.breakers(finding, broken)).unwrap_or_default();
        let mut text = match (finding.answer, finding.kept, finding.broken) {
            (Answer::Between, Some(kept), Some(broken)) => {
                format!("{slo} is kept {} and broken {}{by}: the limit lies between.", at(kept), at(broken))
            }
            (Answer::Always, ..) => format!(
                "{slo} is kept up to {}, the highest load that was allowed: the limit lies above, if there is one.",
                over.level(self.spec.to)
            ),
            (Answer::Never, None, Some(broken)) if broken == self.spec.from => {
                format!("{slo} is never kept: it is broken {} already{by}.", at(broken))
            }
            (Answer::Never, ..) => format!(
                "{slo} is never kept: no load from {} to {} keeps all its conditions.",
                grouped(self.spec.from),
                over.level(finding.levels.last().map_or(self.spec.to, |level| level.load))
            ),
            (Answer::Unfinished, kept, broken) => {
                let known = match (kept, broken) {
                    (None, None) => "nothing is decided yet".to_owned(),
                    (Some(kept), None) => format!("{slo} is kept {}", at(kept)),
                    (None, Some(broken)) => format!("{slo} is broken {}{by}", at(broken)),
                    (Some(kept), Some(broken)) => {
                        format!("{slo} is kept {} and broken {}{by}", at(kept), at(broken))
                    }
                };
                format!("The search did not end: {known}.")
            }
            (_, kept, broken) => {
                let below = match kept {
                    Some(kept) => format!("{slo} is kept {}", at(kept)),
                    None => format!("no level could be shown to keep {slo}"),
                };
                let above = match broken {
                    Some(broken) => format!("it is broken {}{by}", at(broken)),
                    None => "no level above could be shown to break it".to_owned(),
                };
                // What is in doubt is named below.
                let why = match self.doubts.is_empty() {
                    true => format!(": the noise is too large for {} iterations", self.spec.repeats),
                    false => String::new(),
                };
                format!("{below}, and {above}{why}.")
            }
        };
        let undecided: Vec<String> = finding
            .levels
            .iter()
            .filter(|level| level.standing == LevelStanding::Undecided)
            .map(|level| grouped(level.load))
            .collect();
        if !undecided.is_empty() {
            text += &format!(" Undecided after {} iterations: {}.", self.spec.repeats, undecided.join(", "));
        }
        text += &self.in_doubt(finding);
        if let (Some(again), Some(broken)) = (finding.kept_again, finding.broken) {
            text += &format!(
                " Yet it is kept {}, though not {}: something other than the load breaks it, and the answer is the first \
                 break.",
                at(again),
                at(broken)
            );
        }
        text
    }

    /// Levels that cannot be told, and why.
    fn in_doubt(&self, finding: &Finding) -> String {
        let is_doubtful = |level: &&LevelFound| {
            level.standing == LevelStanding::CannotTell || self.looks_doubtful(level.load)
        };
        let loads: Vec<u64> = finding.levels.iter().filter(is_doubtful).map(|level| level.load).collect();
        let mut why: BTreeSet<Doubt> = loads.iter().flat_map(|load| self.doubts_at(*load)).copied().collect();
        if why.is_empty() {
            // Kept in spite of noise, and broken for sure.
            why.insert(Doubt::Disturbed);
        }
        if loads.is_empty() {
            return String::new();
        }
        let over = self.spec.over;
        let (last, others) = (loads[loads.len() - 1], &loads[..loads.len() - 1]);
        let others: String = others.iter().map(|load| format!("{}, ", grouped(*load))).collect();
        let why: Vec<&str> = why.into_iter().map(Doubt::words).collect();
        format!(" Cannot tell {} {others}{}: {}.", over.preposition(), over.level(last), why.join(", or "))
    }

    /// A remark if arrivals waited for clients, and there are fewer of them than Little's law needs: the limit may be the clients'.
    fn too_few_clients(&self, load: u64, runs: &[&IterationRecord]) -> Option<String> {
        let needed = self.spec.clients_needed(load);
        let clients = self.spec.clients_at(load);
        let unserved = |run: &&IterationRecord| {
            let open_loop = run.measured.open_loop.as_ref()?;
            let unserved = open_loop.waited + open_loop.skipped + open_loop.queued;
            Some(unserved as f64 > 0.01 * open_loop.planned as f64)
        };
        let busy = runs.iter().filter_map(unserved).any(|unserved| unserved);
        (busy && f64::from(clients) < needed).then(|| {
            format!(
                " All {clients} clients were busy there; to wait as long as the SLO allows, {needed:.0} are needed. The limit \
                 may be the clients': use more (-c)."
            )
        })
    }

    /// ` (by p(99)<50ms)`, of those conditions that no iteration, or fewest, kept.
    fn breakers(&self, finding: &Finding, load: u64) -> String {
        let Some(level) = finding.levels.iter().find(|level| level.load == load) else {
            return String::new();
        };
        if level.conditions.len() < 2 {
            return String::new();
        }
        let least = level.conditions.iter().map(|condition| condition.iterations_kept).min();
        let worst: Vec<&str> = level
            .conditions
            .iter()
            .filter(|condition| Some(condition.iterations_kept) == least)
            .map(|condition| condition.condition.as_str())
            .collect();
        format!(" (by {})", worst.join(", "))
    }
}
