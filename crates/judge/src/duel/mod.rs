//! The judgement of a duel: how each contestant compares with the first, in which figures, how surely; whether it may be believed; and
//! whether it knows enough to end.

pub mod consistency;
mod looks;
mod ratios;
mod standing;
#[cfg(test)]
mod tests;

use serde::Serialize;
use webstone_model::duel::{DuelFigure, DuelGate, DuelRecord};

pub use looks::{Looks, STARTS_MAX};

use crate::statistics::student_mean_at;
use crate::verdict::Standing;

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
    /// What the twin shows: the leading figure, or what leads without CPU time where the twin has none.
    pub fn twin_ratio(&self, record: &DuelRecord) -> Option<&DuelRatio> {
        let twin = self.twin.as_ref()?;
        twin.ratio(self.leading).or_else(|| twin.ratio(without_cpu(record)))
    }

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
pub fn of_record(record: &DuelRecord) -> DuelJudgement {
    let twin = record.twin();
    let base: Vec<usize> = std::iter::once(0).chain(twin).collect();
    let looks = looks(record);
    let comparisons: Vec<DuelComparison> =
        record.challengers().map(|number| compared(record, number, &base, looks.confidence())).collect();
    let is_cpu_seen = comparisons.iter().all(|of| of.ratio(DuelFigure::Cpu).is_some());
    let leading = if is_cpu_seen { DuelFigure::Cpu } else { without_cpu(record) };
    let twin = twin.map(|number| twin_compared(record, number, leading, &looks));
    let precision = record.duel.precision;
    let is_precise = !comparisons.is_empty()
        && comparisons.iter().all(|of| of.ratio(leading).is_some_and(|ratio| ratio.reach() <= precision));
    let gates = gates(record, &comparisons);
    let (standing, reasons) = standing::standing(record, &comparisons, twin.as_ref(), leading);
    let notes = standing::notes(record, &comparisons, leading, is_cpu_seen);
    DuelJudgement { standing, reasons, notes, comparisons, twin, gates, leading, is_precise }
}

/// The figure that leads where CPU time is not seen: in open loop the rate is what the schedule says.
fn without_cpu(record: &DuelRecord) -> DuelFigure {
    if record.is_open_loop() { DuelFigure::Latency } else { DuelFigure::Rate }
}

/// The twin against the first, so that all figures that it is judged by hold together with 99 %.
fn twin_compared(record: &DuelRecord, number: usize, leading: DuelFigure, looks: &Looks) -> DuelComparison {
    let at = |figures: usize| compared(record, number, &[0], looks.strict_confidence(figures));
    let alone = at(1);
    match standing::twin_figures(record, leading, Some(&alone)).len() {
        0 | 1 => alone,
        several => at(several),
    }
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
    let figures = figures.filter(|figure| match figure {
        // In open loop, the rate is what the schedule says.
        DuelFigure::Rate => !record.is_open_loop(),
        DuelFigure::Memory => !ratios::is_first_asked_twice(record),
        _ => true,
    });
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
