//! Two or more records, level by level: by how much each headline figure changed, how sure that is, and whether it is
//! more than noise.
//!
//! **Iterations are the samples**, never requests: requests of one run share its caches, its placement and its luck, so
//! that a million of them say no more about the next run than the run itself does. They are compared unpaired: two
//! records were made one after the other, and nothing ties the second iteration of one to that of the other. What the machine
//! did to each is taken out where it is known (`one_speed.rs`). The
//! definitions, with their sources, are in `docs/measurement.md`, "Comparison".
//!
//! Whether two records may be compared at all is what [`differences`] says; refusing because of it is up to the caller.

mod comparable;
mod gates;
mod judging;
mod one_speed;
mod ranking;

use serde::Serialize;

pub use comparable::{Difference, Weight, differences, machine_differences};
pub(crate) use comparable::{MACHINE, placed, workers};
pub use gates::{FailWhen, GateOutcome, GateResult};
pub use judging::{Finding, Floor, FloorSource, ITERATIONS_MIN, Why, holm, leading};
pub use ranking::{NoRanking, Pair, RankRange, RankedLevel, Ranking, rank};

use crate::statistics::{self, Interval};
use crate::verdict::{self, LevelVerdict, NoiseBound, Standing};
use webstone_measure::figures::Quantity;
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::Metric;
use webstone_measure::rate::RateProfile;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::ConnectionPolicy;
use webstone_model::threshold::{self, FailIf, Outcome, Threshold};

/// Version of the comparison's schema. It grows when a reader of the older one would misread.
pub const COMPARISON_SCHEMA: u32 = 1;

/// What a comparison shall know beside the records.
#[derive(Clone, Debug, Default)]
pub struct Options<'a> {
    /// Where the noise floor comes from.
    pub noise: Noise<'a>,
    /// Changes that must not be.
    pub fail_if: Vec<FailIf>,
    /// What it takes for one of them to fail.
    pub fail_when: FailWhen,
    /// Limits that every record but the baseline must keep.
    pub thresholds: Vec<Threshold>,
}

/// Where the noise floor comes from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Noise<'a> {
    /// From the records themselves: from the two arms of those that have them (`--aa`), otherwise from the scatter of
    /// iterations.
    #[default]
    Records,
    /// It was typed, in percent.
    Percent(f64),
    /// From the two arms of another record, of the same level or, where that has none, of its noisiest one.
    Run(&'a RunRecord),
}

/// Records, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "webstone comparison"))]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`] of the writer.
    pub schema: u32,
    /// Confidence of the intervals, and 1 − the chance that any figure, at any level, is called different where nothing differs.
    pub confidence: f64,
    /// The records in the order in which they were named; the first is the baseline.
    pub records: Vec<Compared>,
    /// Every record but the first, compared with the first.
    pub candidates: Vec<Candidate>,
    /// What it took for a condition of `--fail-if` to fail.
    pub fail_when: FailWhen,
    /// Every condition of `--fail-if`, checked against every candidate and level that it selects.
    pub fail_if: Vec<GateOutcome>,
    /// Every threshold, checked against every candidate and level that it selects.
    pub thresholds: Vec<ThresholdOutcome>,
}

/// One of the records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Name of the record's directory.
    pub id: String,
    /// Name of the run.
    pub name: String,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// URL of the server under test.
    pub target: String,
    /// The server's own name, if it sent one.
    pub server: Option<String>,
    /// The workload's name.
    pub workload: String,
    /// Fewest and most iterations of a level.
    pub iterations: (usize, usize),
    /// What its figures are worth.
    pub standing: Standing,
    /// Why it is invalid or in doubt; empty otherwise.
    pub reasons: Vec<String>,
}

/// A record against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// Its place among the records, from 1.
    pub record: usize,
    /// In what it differs from the baseline beside the figures.
    pub differences: Vec<Difference>,
    /// Levels that only the baseline has, as `20 clients` or `1000 arrivals/s`.
    pub only_baseline: Vec<LevelKey>,
    /// Levels that only this record has.
    pub only_candidate: Vec<LevelKey>,
    /// Every level that both have, ascending.
    pub levels: Vec<LevelComparison>,
}

/// One level of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelComparison {
    /// Number of clients.
    pub clients: u32,
    /// Rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Figure by figure.
    pub rows: Vec<Row>,
}

/// One figure at one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The figure.
    pub metric: Metric,
    /// The baseline's iterations.
    pub baseline: Side,
    /// The candidate's.
    pub candidate: Side,
    /// Mean of the candidate / mean of the baseline, with its interval; null where there is none, and of what is compared by difference.
    /// With the method `covariance`, the ratio that two runs at one speed of the machine would have.
    pub ratio: Option<Interval>,
    /// The change: (ratio − 1) in percent; of errors and the like the difference, of percentages in percentage points.
    pub change: Option<Interval>,
    /// What of a change is noise, in the unit of `change`; null where it is unknown, because there are fewer than two iterations.
    pub floor: Option<Floor>,
    /// The least change that would have been shown by measurements as scattered as these, even if no other figure had changed, in the
    /// unit of `change`. Null where noise has no bound.
    pub shows_from: Option<f64>,
    /// What is concluded.
    pub finding: Finding,
    /// What kept it from being concluded.
    pub why: Option<Why>,
}

/// The values of one record's iterations, in the base unit of the metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Their mean; null without any.
    pub mean: Option<f64>,
    /// The values, in the order in which the iterations ran.
    pub samples: Vec<f64>,
    /// Indexes of the outliers: they are flagged and never left out.
    pub outliers: Vec<usize>,
    /// By which factor noise may have made a rate lower, a time longer, or CPU time higher at most; absent without noise that matters,
    /// and where it has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_factor: Option<f64>,
    /// Whether noise may have done that without bound: the true value may be better by any factor.
    pub noise_is_unbounded: bool,
    /// Whether the level is INVALID: its values say nothing, and nobody knows by how much they are wrong.
    #[serde(skip)]
    pub is_invalid: bool,
    /// The speed of the machine in each iteration, by its echo; empty where the figure is not compared at one speed.
    #[serde(skip)]
    pub(crate) echoes: Vec<f64>,
}

/// A threshold checked against a level of one of the records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThresholdOutcome {
    /// The record's place among the records, from 1 (0 is the baseline, which no threshold is checked against).
    pub record: usize,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl LevelComparison {
    /// Which level it is.
    pub fn key(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

impl Comparison {
    /// Whether any condition or threshold failed.
    pub fn failed(&self) -> bool {
        self.fail_if.iter().any(|gate| gate.result == GateResult::Failed)
            || self.thresholds.iter().any(|one| !one.outcome.passed)
    }

    /// Conditions that could be neither met nor missed.
    pub fn undecided(&self) -> impl Iterator<Item = &GateOutcome> {
        self.fail_if.iter().filter(|gate| gate.result == GateResult::CannotTell)
    }
}

/// Compares records with the first of them.
///
/// # Panics
/// Without any record.
pub fn compare(records: &[&RunRecord], options: &Options<'_>) -> Comparison {
    let baseline = records[0];
    let metrics = metrics(records, options);
    let mut candidates: Vec<Candidate> = records[1..]
        .iter()
        .enumerate()
        .map(|(index, record)| candidate(index + 1, baseline, record, &metrics, options))
        .collect();
    judging::judge(&mut candidates);
    let fail_if = gates::evaluate(&options.fail_if, options.fail_when, &candidates);
    let thresholds = (1..records.len())
        .flat_map(|record| {
            let outcomes = threshold::evaluate(&options.thresholds, records[record]);
            outcomes.into_iter().map(move |outcome| ThresholdOutcome { record, outcome })
        })
        .collect();
    Comparison {
        schema: COMPARISON_SCHEMA,
        confidence: statistics::CONFIDENCE,
        records: records.iter().map(|record| compared(record)).collect(),
        candidates,
        fail_when: options.fail_when,
        fail_if,
        thresholds,
    }
}

/// The figures of every comparison, and those that conditions name besides.
fn metrics(records: &[&RunRecord], options: &Options<'_>) -> Vec<Metric> {
    let kept = |record: &&RunRecord| record.spec.client.connections == ConnectionPolicy::KeepAlive;
    let all_kept = records.iter().all(kept);
    let mut metrics = Metric::compared();
    // Where connections are kept alive, new ones are neither good nor bad.
    metrics.retain(|metric| !(all_kept && *metric == Metric::CONNECTS));
    for wanted in options.fail_if.iter().map(FailIf::metric) {
        if !metrics.contains(&wanted) {
            metrics.push(wanted);
        }
    }
    metrics
}

fn compared(record: &RunRecord) -> Compared {
    let counts = record.levels().into_iter().map(|(_, runs)| runs.len());
    let verdict = verdict::of_record(record);
    Compared {
        id: record.id.clone(),
        name: record.spec.name.clone(),
        started_at: record.started_at.clone(),
        target: record.target.url.clone(),
        server: record.target.server.clone(),
        workload: record.workload.name.clone(),
        iterations: (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)),
        standing: verdict.standing,
        reasons: verdict.told(),
    }
}

fn candidate(
    place: usize,
    baseline: &RunRecord,
    record: &RunRecord,
    metrics: &[Metric],
    options: &Options<'_>,
) -> Candidate {
    let (ours, theirs) = (baseline.levels(), record.levels());
    type Level<'a> = (LevelKey, Vec<&'a IterationRecord>);
    let without = |a: &[Level<'_>], b: &[Level<'_>]| -> Vec<LevelKey> {
        let keys = a.iter().map(|(key, _)| *key);
        keys.filter(|key| !b.iter().any(|(other, _)| other == key)).collect()
    };
    // Between two runs the machine may have become slower, which neither of them shows.
    let is_one_machine = machine_differences(baseline, record).is_empty();
    let verdict = |record: &RunRecord, other: &RunRecord| match is_one_machine {
        true => verdict::beside(record, other),
        false => verdict::levels(record),
    };
    let verdicts = [verdict(baseline, record), verdict(record, baseline)];
    let worth = |key: LevelKey| {
        let level = |levels: &[LevelVerdict]| {
            let level = levels.iter().find(|level| level.level() == key);
            level.map_or((Standing::Sound, None), |level| (level.standing, level.noise))
        };
        [level(&verdicts[0]), level(&verdicts[1])]
    };
    let levels = theirs
        .iter()
        .filter_map(|(key, runs)| {
            let (_, base) = ours.iter().find(|(other, _)| other == key)?;
            let IterationRecord { clients, rate, .. } = *runs[0];
            let echoes =
                is_one_machine.then(|| one_speed::echoes([baseline, record], [base, runs])).flatten();
            let (base, runs) = (judging::read(base), judging::read(runs));
            let floor = judging::LevelNoise::of_level(options.noise, *key, &base, &runs);
            let worth = worth(*key);
            let of = |metric: &Metric| {
                let echoes = echoes.clone().filter(|_| one_speed::follows_speed(*metric));
                row(*metric, [&base, &runs], &floor, worth, echoes.unwrap_or_default())
            };
            Some(LevelComparison { clients, rate, rows: metrics.iter().map(of).collect() })
        })
        .collect();
    Candidate {
        record: place,
        differences: differences(baseline, record),
        only_baseline: without(&ours, &theirs),
        only_candidate: without(&theirs, &ours),
        levels,
    }
}

/// A row whose finding is not made yet: that takes all rows.
fn row(
    metric: Metric,
    [baseline, candidate]: [&[judging::Armed<'_>]; 2],
    floor: &judging::LevelNoise<'_>,
    [of_baseline, of_candidate]: [(Standing, Option<NoiseBound>); 2],
    [baseline_echoes, candidate_echoes]: [Vec<f64>; 2],
) -> Row {
    let side = |readings: &[judging::Armed<'_>],
                (standing, noise): (Standing, Option<NoiseBound>),
                echoes| {
        let samples: Vec<f64> = readings.iter().filter_map(|(_, reading)| metric.value(reading)).collect();
        Side {
            mean: (!samples.is_empty()).then(|| statistics::mean(&samples)),
            outliers: statistics::outliers(&samples),
            samples,
            noise_factor: noise.and_then(|noise| factor(metric, noise)),
            noise_is_unbounded: noise.is_some_and(|noise| is_unbounded(metric, noise)),
            is_invalid: standing == Standing::Invalid,
            echoes,
        }
    };
    let baseline = side(baseline, of_baseline, baseline_echoes);
    let candidate = side(candidate, of_candidate, candidate_echoes);
    let mut row = Row {
        metric,
        baseline,
        candidate,
        ratio: None,
        change: None,
        floor: None,
        shows_from: None,
        finding: Finding::CannotTell,
        why: None,
    };
    row.floor = floor.floor(metric, row.scatter());
    row.change = row.change_at(statistics::CONFIDENCE);
    if !metric.differs() {
        row.ratio = row.ratio_at(statistics::CONFIDENCE);
    }
    row
}

fn factor(metric: Metric, noise: NoiseBound) -> Option<f64> {
    if is_cpu_time(metric) { noise.cpu_time_factor() } else { noise.rate_factor() }
}

/// Whether noise has no bound for a figure. What took a share of the time may have delayed that share of the requests for any time: the
/// mean then has a bound, and the tail has not.
fn is_unbounded(metric: Metric, noise: NoiseBound) -> bool {
    let Some(factor) = factor(metric, noise) else { return true };
    let delayed = (1.0 - 1.0 / factor).max(noise.held_up_percent / 100.0);
    match metric {
        Metric::Percentile(percentile) => 1.0 - percentile / 100.0 < delayed,
        metric => Some(metric) == Metric::named("max") && delayed > 0.0,
    }
}

/// Whether a figure is CPU time per request, of the server or of the load generator.
fn is_cpu_time(metric: Metric) -> bool {
    metric.quantity() == Quantity::Seconds && !metric.is_of_clients()
}

impl Row {
    /// The change with an interval of some confidence.
    pub(crate) fn change_at(&self, confidence: f64) -> Option<Interval> {
        if self.metric.differs() {
            let (candidate, baseline) = (&self.candidate.samples, &self.baseline.samples);
            return statistics::difference_interval_at(candidate, baseline, confidence);
        }
        Some(self.ratio_at(confidence)?.map(|ratio| (ratio - 1.0) * 100.0))
    }

    /// The ratio with an interval of some confidence, at one speed of the machine where that is known.
    fn ratio_at(&self, confidence: f64) -> Option<Interval> {
        let (candidate, baseline) = (&self.candidate.samples, &self.baseline.samples);
        let ratio = match self.at_one_speed() {
            Some(at_one_speed) => at_one_speed.ratio_at(confidence),
            None => statistics::ratio_interval_at(candidate, baseline, confidence),
        };
        Some(self.with_noise(ratio?))
    }

    /// The interval of a ratio, wider by what noise may have taken from either side.
    fn with_noise(&self, ratio: Interval) -> Interval {
        let factor = |side: &Side| side.noise_factor.unwrap_or(1.0);
        let (baseline, candidate) = (factor(&self.baseline), factor(&self.candidate));
        let (less, more) = match () {
            () if self.metric.grows_with_load() => (baseline, candidate),
            () if self.metric.quantity() == Quantity::Seconds => (candidate, baseline),
            () => (1.0, 1.0),
        };
        Interval { low: ratio.low / less, high: ratio.high * more, ..ratio }
    }

    /// The ends of an interval of the change, with those that noise leaves open: a side whose noise has no bound may be better by any
    /// factor. Down to −100 % and up to infinity.
    pub fn ends(&self, change: &Interval) -> (f64, f64) {
        let (baseline, candidate) = (self.baseline.noise_is_unbounded, self.candidate.noise_is_unbounded);
        let (may_be_less, may_be_more) = match () {
            () if self.metric.grows_with_load() => (baseline, candidate),
            () if self.metric.quantity() == Quantity::Seconds => (candidate, baseline),
            () => (false, false),
        };
        let low = if may_be_less { -100.0 } else { change.low };
        let high = if may_be_more { f64::INFINITY } else { change.high };
        (low, high)
    }

    /// The least change that would have been shown in either direction, for which noise needs a bound: whose interval, if as wide as this one's with some confidence, would lie outside the noise floor.
    fn shows_from_at(&self, confidence: f64) -> Option<f64> {
        let (change, floor) = (self.change_at(confidence)?, self.floor?);
        if self.metric.differs() {
            return Some(floor.value + change.high - change.point);
        }
        if self.ends(&change) != (change.low, change.high) {
            return None;
        }
        // The interval of a ratio is a factor up and down, which noise of one side makes different.
        let (low, point, high) = (100.0 + change.low, 100.0 + change.point, 100.0 + change.high);
        let reach = (high / point).max(point / low);
        Some((100.0 + floor.value) * reach - 100.0)
    }
}

#[cfg(test)]
mod tests;
