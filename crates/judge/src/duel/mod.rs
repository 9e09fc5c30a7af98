//! The judgement of a duel: how each contestant compares with the first, in which figures, how surely; whether it may be believed; and
//! whether it knows enough to end.

pub mod consistency;
mod looks;
mod ratios;
#[cfg(test)]
mod tests;

use serde::Serialize;
use webstone_measure::units::Nanos;
use webstone_model::duel::{Contestant, DuelFigure, DuelGate, DuelRecord};

pub use looks::{Looks, STARTS_MAX};

use crate::statistics::student_mean_at;
use crate::verdict::Standing;

/// A twin that differs by more than this share of the precision shows that the duel measures something else than the program.
const TWIN_SHARE: f64 = 0.5;
/// Most errors among the requests of a contestant, as a share.
const ERRORS_MAX: f64 = 0.01;
/// Most slices that were not answered whole, as a share.
const CUT_MAX: f64 = 0.05;
/// A server that uses more than this share of its CPU time without load does work that no slice shows.
const RESTING_MAX: f64 = 0.02;

/// How a figure of a contestant compares with the first contestant's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DuelRatio {
    /// The figure.
    pub figure: DuelFigure,
    /// The contestant's value: seconds, per second, or bytes.
    pub value: f64,
    /// That of the first contestant.
    pub base: f64,
    /// The ratio of the two: the mean of the logarithms of the starts' ratios.
    pub ratio: f64,
    /// The interval that contains the true ratio with 95 %, however often it was looked at. From 0 to infinity while there are too few
    /// starts.
    pub low: f64,
    /// Its other end; in JSON, `null` is infinity.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
    /// Starts that it comes from.
    pub starts: usize,
    /// How much of its spread is between starts and not within them, from 0 to 1.
    pub of_starts: Option<f64>,
}

impl DuelRatio {
    /// Whether the interval is on one side of 1.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// How far the interval reaches from the ratio, at most, as a share of it.
    pub fn reach(&self) -> f64 {
        (self.high / self.ratio).max(self.ratio / self.low) - 1.0
    }

    /// Whether the change is for the worse; `None` if none is shown, or the figure is neither good nor bad.
    pub fn is_worse(&self) -> Option<bool> {
        let judged = self.figure != DuelFigure::Bytes && self.differs();
        judged.then_some((self.ratio > 1.0) != self.figure.is_better_higher())
    }
}

/// A contestant against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DuelComparison {
    /// Its number.
    pub contestant: usize,
    /// Its name.
    pub name: String,
    /// Figures that are known of both, in order.
    pub ratios: Vec<DuelRatio>,
}

impl DuelComparison {
    /// A figure, if it is known of both.
    pub fn ratio(&self, figure: DuelFigure) -> Option<&DuelRatio> {
        self.ratios.iter().find(|ratio| ratio.figure == figure)
    }
}

/// What became of a condition of `--fail-if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// The interval is within the limit.
    Kept,
    /// The interval is beyond the limit.
    Broken,
    /// The limit is in the interval, there are too few starts, or the figure is unknown.
    Unknown,
}

/// A condition of `--fail-if`, for one contestant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgedGate {
    /// The condition: `cpu > +3%`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub gate: DuelGate,
    /// The contestant's number.
    pub contestant: usize,
    /// What became of it.
    pub outcome: GateOutcome,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DuelJudgement {
    /// Whether it may be believed.
    pub standing: Standing,
    /// Why it may not, or is not certain.
    pub reasons: Vec<String>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
    /// Each contestant against the first, without the twin.
    pub comparisons: Vec<DuelComparison>,
    /// The twin against the first.
    pub twin: Option<DuelComparison>,
    /// The conditions, for each contestant.
    pub gates: Vec<JudgedGate>,
    /// The figure whose precision ends the duel: CPU time where it can be seen.
    pub leading: DuelFigure,
    /// Whether its interval is as narrow as was asked for, for every contestant.
    pub is_precise: bool,
}

impl DuelJudgement {
    /// Whether it knows what it was to find out: the outcome of every condition, or without any, the leading figure. A condition on a figure
    /// that cannot be seen is waited for only until then.
    pub fn is_done(&self) -> bool {
        let is_seen = |gate: &JudgedGate| {
            let mut of = self.comparisons.iter().filter(|of| of.contestant == gate.contestant);
            of.any(|of| of.ratio(gate.gate.figure).is_some())
        };
        let mut open = self.gates.iter().filter(|gate| gate.outcome == GateOutcome::Unknown);
        match self.gates.is_empty() {
            true => self.is_precise,
            false => open.all(|gate| self.is_precise && !is_seen(gate)),
        }
    }
}

/// The looks that a duel has: as many as it has time for.
pub fn looks(record: &DuelRecord) -> Looks {
    let duel = &record.duel;
    let each = duel.restart_every.0.max(1);
    let most = u32::try_from(duel.at_most.0 / each).unwrap_or(u32::MAX).min(STARTS_MAX);
    Looks::new(duel.starts_min, most)
}

/// Judges a duel, or as much of it as there is.
pub fn of(record: &DuelRecord) -> DuelJudgement {
    let twin = record.twin();
    let base: Vec<usize> = std::iter::once(0).chain(twin).collect();
    let looks = looks(record);
    let comparisons: Vec<DuelComparison> =
        record.challengers().map(|number| compared(record, number, &base, looks.confidence())).collect();
    let twin = twin.map(|number| compared(record, number, &[0], looks.strict_confidence()));
    let is_cpu_seen = comparisons.iter().all(|of| of.ratio(DuelFigure::Cpu).is_some());
    let leading = match (is_cpu_seen, record.is_open_loop()) {
        (true, _) => DuelFigure::Cpu,
        (false, false) => DuelFigure::Rate,
        (false, true) => DuelFigure::Latency,
    };
    let precision = record.duel.precision;
    let is_precise = !comparisons.is_empty()
        && comparisons.iter().all(|of| of.ratio(leading).is_some_and(|ratio| ratio.reach() <= precision));
    let gates = gates(record, &comparisons);
    let (standing, reasons) = standing(record, &comparisons, twin.as_ref(), leading);
    let notes = notes(record, &comparisons, leading, is_cpu_seen);
    DuelJudgement { standing, reasons, notes, comparisons, twin, gates, leading, is_precise }
}

/// How the interval of a contestant's leading figure narrowed: by the number of starts, for charts.
pub fn course(record: &DuelRecord, contestant: usize, figure: DuelFigure) -> Vec<DuelRatio> {
    let base: Vec<usize> = std::iter::once(0).chain(record.twin()).collect();
    let logs = ratios::log_ratios(record, figure, contestant, &base);
    let confidence = looks(record).confidence();
    let empty = DuelRatio {
        figure,
        value: 0.0,
        base: 0.0,
        ratio: 1.0,
        low: 0.0,
        high: f64::INFINITY,
        starts: 0,
        of_starts: None,
    };
    (2..=logs.len()).map(|starts| with_interval(empty, &logs[..starts], confidence)).collect()
}

fn compared(record: &DuelRecord, number: usize, base: &[usize], confidence: f64) -> DuelComparison {
    let figures = DuelFigure::ALL.into_iter();
    // In open loop, the rate is what the schedule says.
    let figures = figures.filter(|figure| *figure != DuelFigure::Rate || !record.is_open_loop());
    let ratios = figures.filter_map(|figure| {
        let logs = ratios::log_ratios(record, figure, number, base);
        let bare = DuelRatio {
            figure,
            value: ratios::value(record, figure, number)?,
            base: ratios::value(record, figure, base[0])?,
            ratio: 1.0,
            low: 0.0,
            high: f64::INFINITY,
            starts: logs.len(),
            of_starts: ratios::share_of_starts(record, figure, number, base),
        };
        (!logs.is_empty()).then(|| with_interval(bare, &logs, confidence))
    });
    DuelComparison {
        contestant: number,
        name: record.contestants[number].name.clone(),
        ratios: ratios.collect(),
    }
}

fn with_interval(ratio: DuelRatio, logs: &[f64], confidence: f64) -> DuelRatio {
    let point = crate::statistics::mean(logs).exp();
    let starts = logs.len();
    match student_mean_at(logs, confidence) {
        Some(interval) => {
            DuelRatio { ratio: point, low: interval.low.exp(), high: interval.high.exp(), starts, ..ratio }
        }
        None => DuelRatio { ratio: point, low: 0.0, high: f64::INFINITY, starts, ..ratio },
    }
}

/// Starts of each contestant before anything is concluded.
fn starts_needed(record: &DuelRecord) -> usize {
    record.duel.starts_min.max(2) as usize
}

fn gates(record: &DuelRecord, comparisons: &[DuelComparison]) -> Vec<JudgedGate> {
    let mut judged = Vec::new();
    for of in comparisons {
        for gate in &record.duel.fail_if {
            let limit = 1.0 + gate.limit;
            let ratio = of.ratio(gate.figure).filter(|ratio| ratio.starts >= starts_needed(record));
            let outcome = match ratio {
                Some(ratio) if gate.above && ratio.low > limit => GateOutcome::Broken,
                Some(ratio) if !gate.above && ratio.high < limit => GateOutcome::Broken,
                Some(ratio) if gate.above && ratio.high <= limit => GateOutcome::Kept,
                Some(ratio) if !gate.above && ratio.low >= limit => GateOutcome::Kept,
                _ => GateOutcome::Unknown,
            };
            judged.push(JudgedGate { gate: gate.clone(), contestant: of.contestant, outcome });
        }
    }
    judged
}

fn standing(
    record: &DuelRecord,
    comparisons: &[DuelComparison],
    twin: Option<&DuelComparison>,
    leading: DuelFigure,
) -> (Standing, Vec<String>) {
    let mut wrong = Vec::new();
    for (number, contestant) in record.contestants.iter().enumerate() {
        let name = &contestant.name;
        let runs = || record.starts.iter().filter_map(|start| start.sides.get(number));
        let (mut asked, mut failed) = (0_u64, 0_u64);
        for run in runs() {
            asked = run.counts.succeeded.saturating_add(run.counts.failed).saturating_add(asked);
            failed = run.counts.failed.saturating_add(failed);
        }
        if asked == 0 && !record.starts.is_empty() {
            wrong.push(format!("{name} answered nothing"));
        } else if failed as f64 > ERRORS_MAX * asked as f64 {
            wrong.push(format!("{name}: {failed} of {asked} requests failed"));
        }
        let slices = || {
            let all = record.starts.iter().flat_map(|start| &start.slices);
            all.filter(|slice| slice.side as usize == number)
        };
        let (all, cut) = (slices().count(), slices().filter(|slice| slice.unanswered > 0).count());
        if cut as f64 > CUT_MAX * all as f64 {
            wrong.push(format!(
                "{name}: in {cut} of {all} slices, requests were unanswered {} after its turn",
                Nanos(record.duel.drain.0)
            ));
        }
    }
    // An agent cannot divide the CPU time of a server that is measured as two contestants.
    let twin = twin.and_then(|twin| twin.ratio(leading).or_else(|| twin.ratio(DuelFigure::Rate)));
    if let Some(ratio) = twin
        && ratio.differs()
        && (ratio.ratio.ln()).abs() > TWIN_SHARE * record.duel.precision
    {
        wrong.push(format!(
            "{} differs from it by {:+.1} % in {}: something else than the program makes the difference",
            record.twin_in_words(),
            100.0 * (ratio.ratio - 1.0),
            ratio.figure.name()
        ));
    }
    if !wrong.is_empty() {
        return (Standing::Invalid, wrong);
    }
    let starts = comparisons.iter().filter_map(|of| of.ratio(leading)).map(|ratio| ratio.starts).min();
    let starts = starts.unwrap_or(0);
    let needed = starts_needed(record);
    if starts < needed {
        let what = format!(
            "each contestant was started {starts} times, and {needed} are needed; give it more time (--at-most)"
        );
        return (Standing::Inconclusive, vec![what]);
    }
    (Standing::Sound, Vec::new())
}

fn notes(
    record: &DuelRecord,
    comparisons: &[DuelComparison],
    leading: DuelFigure,
    is_cpu_seen: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_cpu_seen {
        notes.push(format!(
            "the CPU time of the contestants cannot be seen from here, so {} lead, which noise widens more; \
             start them on this host, or have an agent on theirs (--server-agent), to see it",
            if leading == DuelFigure::Rate { "rates" } else { "latencies" }
        ));
    }
    if ratios::is_seen_elsewhere(record) {
        notes.push(
            "agents saw CPU time for whole starts, not slice by slice: what a contestant does between its turns is in it".to_owned(),
        );
    }
    for of in comparisons {
        let share = of.ratio(leading).and_then(|ratio| ratio.of_starts).filter(|share| *share > 0.5);
        if let Some(share) = share {
            notes.push(format!(
                "{}: {:.0} % of the spread of its {} lies between starts, not within them: each start has its own luck \
                 (memory layout, hash seeds)",
                of.name,
                100.0 * share,
                leading.name()
            ));
        }
    }
    for (number, contestant) in record.contestants.iter().enumerate() {
        let runs = || record.starts.iter().filter_map(|start| start.sides.get(number));
        let failed = runs().map(|run| run.counts.failed).fold(0, u64::saturating_add);
        let unanswered = runs().map(|run| run.counts.in_flight).fold(0, u64::saturating_add);
        if failed > 0 || unanswered > 0 {
            notes.push(format!(
                "{}: {failed} requests failed and {unanswered} were not answered in time; they are in no latency",
                contestant.name
            ));
        }
    }
    // A contestant that webstone did not start and its twin are the same processes, which work in each other's rest.
    let is_apart = |it: &Contestant| !it.is_twin && (it.is_started || record.twin().is_none());
    for (number, contestant) in record.contestants.iter().enumerate().filter(|(_, it)| is_apart(it)) {
        let slices = || {
            let all = record.starts.iter().flat_map(|start| &start.slices);
            all.filter(|slice| slice.side as usize == number)
        };
        let sum = |of: fn(&webstone_measure::slices::Slice) -> Option<u64>| -> u64 {
            slices().filter_map(of).fold(0, u64::saturating_add)
        };
        let (busy, resting) = (sum(|slice| slice.cpu_ns), sum(|slice| slice.resting_cpu_ns));
        if resting as f64 > RESTING_MAX * busy as f64 && busy > 0 {
            notes.push(format!(
                "{}: {:.0} % of its CPU time was used between its turns, without load (a collector, a log, a timer); it is not in \
                 the figures",
                contestant.name,
                100.0 * resting as f64 / (busy as f64 + resting as f64)
            ));
        }
    }
    notes
}
