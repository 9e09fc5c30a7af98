//! The summary of each level: the few dozen numbers that reports print, taken from all of its iterations together.
//!
//! Percentiles and rates of a level come from its merged iterations ([`IterationRecord::merged`]), never from averaged
//! percentiles. A merged measurement is megabytes of histograms, so it is summarised and dropped level by level: a
//! sweep of a thousand levels needs the memory of one.

use std::borrow::Cow;
use std::cell::OnceCell;

use webstone_judge::statistics::LevelStatistics;
use webstone_judge::verdict::{self, NoiseBound, Standing};
use webstone_measure::figures::distributions::{Distributions, GeneratorDelays};
use webstone_measure::figures::generator::{GeneratorFigures, OpenLoopFigures};
use webstone_measure::figures::host::HostFigures;
use webstone_measure::figures::{Figure, Figures, PERCENTILES, Reading, Value, table};
use webstone_measure::keys::LevelKey;
use webstone_measure::metrics::{
    Counts, Fairness, Histogram, Http2Counts, Http3Counts, Lifetime, Measured, Moments, times_at,
};
use webstone_measure::origin_figures::OriginFigures;
use webstone_measure::rate::RateProfile;
use webstone_measure::server_figures::ServerFigures;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{Disturbance, IterationRecord, RunRecord};

use crate::numbers::{count, counted};

/// One level of the sweep, over all of its iterations.
#[derive(Debug)]
pub(crate) struct Level<'a> {
    pub(crate) clients: u32,
    /// Open loop: its rate.
    pub(crate) rate: Option<RateProfile>,
    /// The verdict on its figures; sound if the record's verdict has none on this level.
    pub(crate) standing: Standing,
    /// How far noise may have moved them.
    pub(crate) noise: Option<NoiseBound>,
    /// Open loop: what became of its schedule.
    pub(crate) open_loop: Option<OpenLoopFigures>,
    pub(crate) http2: Option<Http2Counts>,
    pub(crate) http3: Option<Http3Counts>,
    /// The iterations, in the order in which they ran.
    pub(crate) runs: Vec<&'a IterationRecord>,
    /// The figures of each of them.
    values_by_run: OnceCell<Vec<Values>>,
    /// Every figure of the table.
    pub(crate) values: Values,
    pub(crate) counts: Counts,
    pub(crate) lifetime: Lifetime,
    pub(crate) figures: Figures,
    /// Intervals over iterations, outliers, steady state, noise floor.
    pub(crate) statistics: LevelStatistics,
    /// Lowest and highest request rate of an iteration, 1/s.
    pub(crate) request_rates: (f64, f64),
    pub(crate) distributions: Distributions,
    pub(crate) generator_delays: GeneratorDelays,
    pub(crate) fairness: Option<Fairness>,
    pub(crate) generator: GeneratorFigures,
    pub(crate) server: Option<ServerFigures>,
    /// Of the server behind a proxy.
    pub(crate) origin: Option<OriginFigures>,
    /// What the kernel of the generator's host counted.
    pub(crate) host: Option<HostFigures>,
    /// What the kernel of the server's host counted, where an agent read it.
    pub(crate) server_host: Option<HostFigures>,
}

impl Level<'_> {
    /// The figures of each of its iterations, in the order in which they ran.
    pub(crate) fn values_by_run(&self) -> &[Values] {
        self.values_by_run
            .get_or_init(|| self.runs.iter().map(|run| Values::of_reading(&Reading::of_run(run))).collect())
    }

    /// Its load in words: `20 clients`, `1,000 arrivals/s`.
    pub(crate) fn load(&self) -> String {
        self.key().to_string()
    }

    /// Its load in a column under [`load_column`].
    pub(crate) fn load_cell(&self) -> String {
        match self.rate {
            None => count(u64::from(self.clients)),
            Some(rate) if rate.is_ramp() => rate.to_string(),
            Some(rate) => rate.to.grouped(),
        }
    }

    /// Its place on an axis of loads: clients, or the highest arrivals per second.
    pub(crate) fn load_number(&self) -> f64 {
        self.rate.map_or_else(|| f64::from(self.clients), |rate| rate.peak().per_s())
    }

    /// Which level of its record it is.
    pub(crate) fn key(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }

    /// Whether the user ended one of its iterations early.
    pub(crate) fn interrupted(&self) -> bool {
        self.runs.iter().any(|run| run.interrupted)
    }
}

/// Head of the column that says which level a row is of: its name and its unit.
pub(crate) fn load_column(levels: &[Level<'_>]) -> (&'static str, &'static str) {
    if levels.iter().any(|level| level.rate.is_some()) { ("arrivals", "/s") } else { ("clients", "") }
}

/// Every level in ascending order of clients.
pub(crate) fn levels(record: &RunRecord) -> Vec<Level<'_>> {
    let verdicts = verdict::levels(record);
    let judged = |(key, runs): (LevelKey, _)| {
        let verdict = verdicts.iter().find(|verdict| verdict.level() == key);
        Level {
            standing: verdict.map_or(Standing::Sound, |verdict| verdict.standing),
            noise: verdict.and_then(|verdict| verdict.noise),
            ..level(runs)
        }
    };
    record.levels().into_iter().map(judged).collect()
}

/// One level of these iterations, of which there is at least one.
pub(crate) fn level(runs: Vec<&IterationRecord>) -> Level<'_> {
    let reading = Reading::of_level(&runs);
    let measured = reading.measured();
    let rates = runs.iter().map(|run| request_rate(&run.measured));
    let request_rates =
        rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    Level {
        clients: runs[0].clients,
        rate: runs[0].rate,
        standing: Standing::Sound,
        noise: None,
        values: Values::of_reading(&reading),
        open_loop: reading.open_loop().copied(),
        http2: reading.measured().http2,
        http3: reading.measured().http3.clone(),
        counts: measured.counts,
        lifetime: measured.lifetime,
        request_rates,
        distributions: reading.distributions().clone(),
        generator_delays: GeneratorDelays::of_generator(&measured.generator),
        fairness: reading.fairness().copied(),
        generator: *reading.generator(),
        server: reading.server().copied(),
        origin: reading.origin().copied(),
        host: reading.host().cloned(),
        server_host: reading.server_host().cloned(),
        figures: reading.figures().clone(),
        statistics: LevelStatistics::of_runs(&runs),
        runs,
        values_by_run: OnceCell::new(),
    }
}

/// The values of every figure, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct Values(Vec<Option<Value>>);

impl Values {
    pub(crate) fn of_reading(reading: &Reading<'_>) -> Values {
        Values(table::all().map(|figure| figure.value(reading)).collect())
    }

    /// The value of one figure; `None` where it was not measured.
    pub(crate) fn value(&self, figure: &Figure) -> Option<Value> {
        self.0[table::all().position(|other| other == figure)?]
    }
}

/// All iterations of a level as one measurement; a single one is borrowed, because it is megabytes.
pub(crate) fn merged<'a>(runs: &[&'a IterationRecord]) -> Cow<'a, Measured> {
    match runs {
        [only] => Cow::Borrowed(&only.measured),
        _ => Cow::Owned(IterationRecord::merged(runs)),
    }
}

/// A kind of time: what metrics call it, what it is, and what was measured of it.
pub(crate) type Time = (&'static str, &'static str, fn(&Measured) -> (&Histogram, &Moments));

/// All of them.
pub(crate) const TIMES: [Time; 4] = [
    ("connect", "TCP connect time, of connections established in the window", |it| {
        (&it.histograms.connect, &it.connect)
    }),
    ("first_byte", "Start to first byte, of requests that succeeded", |it| {
        (&it.histograms.first_byte, &it.first_byte)
    }),
    ("response", "Start to last byte, of requests that succeeded: the latency", |it| {
        (&it.histograms.response, &it.response)
    }),
    ("page", "Start of the first file to last byte of the last, of pages fetched whole", |it| {
        (&it.histograms.page, &it.page)
    }),
];

/// The response times of a level, for a curve. See [`with_waits`].
pub(crate) fn response_times(level: &Level<'_>) -> Histogram {
    let measured = merged(&level.runs);
    with_waits(&measured.histograms.response, &measured.unanswered.histograms.response).into_owned()
}

/// The times of what was answered. Where the waits of what was not make a percentile a lower bound, they are included.
pub(crate) fn with_waits<'a>(answered: &'a Histogram, waits: &Histogram) -> Cow<'a, Histogram> {
    let quantiles: Vec<f64> =
        PERCENTILES.iter().chain([&100.0]).map(|percentile| percentile / 100.0).collect();
    if answered.is_empty() || times_at(answered, waits, &quantiles).1.is_none() {
        return Cow::Borrowed(answered);
    }
    let mut times = answered.clone();
    times.merge(waits);
    Cow::Owned(times)
}

/// The level with the highest request rate, among those with sound figures if there are any; `None` of a single level, and where no
/// request succeeded.
pub(crate) fn peak(levels: &[Level<'_>]) -> Option<usize> {
    let rate = |level: &Level<'_>| level.figures.request_rate;
    let best = highest(levels, rate)?;
    (levels.len() > 1 && rate(&levels[best]) > 0.0).then_some(best)
}

/// The level with the highest value, among those with sound figures if any of them has one.
pub(crate) fn highest(levels: &[Level<'_>], value: impl Fn(&Level<'_>) -> f64) -> Option<usize> {
    let value = |index: &usize| value(&levels[*index]);
    let is_conclusive = |index: &usize| levels[*index].standing.is_conclusive() && value(index) > 0.0;
    let by_value = |a: &usize, b: &usize| value(a).total_cmp(&value(b));
    let best = (0..levels.len()).filter(is_conclusive).max_by(by_value);
    best.or_else(|| (0..levels.len()).max_by(by_value))
}

/// Whether levels have more than one iteration, so that texts have to say which.
pub(crate) fn is_repeated(record: &RunRecord) -> bool {
    let mut runs = record.iterations.iter().chain(&record.voids);
    record.spec.load.iterations > 1 || runs.any(|run| run.iteration > 1)
}

/// Which timed run it is: `iteration 2 at 20 clients`, or the level alone where each has one iteration.
pub(crate) fn place(record: &RunRecord, run: &IterationRecord) -> String {
    match is_repeated(record) {
        true => format!("iteration {} at {}", run.iteration, run.level()),
        false => run.level().to_string(),
    }
}

/// The same after a preposition: `iteration 2 at 20 clients`, or `the window at 20 clients`.
pub(crate) fn window(record: &RunRecord, run: &IterationRecord) -> String {
    match is_repeated(record) {
        true => place(record, run),
        false => format!("the window at {}", run.level()),
    }
}

/// Counters over all iterations of the record.
pub(crate) fn counts(record: &RunRecord) -> Counts {
    let mut counts = Counts::default();
    record.iterations.iter().for_each(|iteration| counts.merge(&iteration.measured.counts));
    counts
}

pub(crate) fn request_rate(measured: &Measured) -> f64 {
    quotient(measured.counts.succeeded as f64 * NANOS_PER_SECOND as f64, measured.window_ns as f64)
}

/// What other programs took of the generator's CPUs before some runs, where that was measured.
pub(crate) fn disturbance<'a>(runs: impl IntoIterator<Item = &'a IterationRecord>) -> Option<Disturbance> {
    let makers = runs.into_iter().flat_map(IterationRecord::load_makers);
    makers.filter_map(|maker| maker.host?.disturbance).reduce(Disturbance::plus)
}

/// Why a record without a timed run has no figures.
pub(crate) fn no_figures(record: &RunRecord) -> String {
    match record.voids.len() as u64 {
        0 => "Nothing was measured: the record holds no timed run.".to_owned(),
        voids => format!(
            "Only void windows were measured: the record holds {}, and no figure is made of what was disturbed so much.",
            counted(voids, "void timed run", "void timed runs")
        ),
    }
}

/// a / b, and 0 where b is 0, because a table cannot show NaN.
pub(crate) fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}
/// The end of identifiers of a level's charts.
pub(crate) fn suffix(key: LevelKey) -> String {
    match key {
        LevelKey::Clients(clients) => clients.to_string(),
        LevelKey::Rate(rate) => rate.to_string().replace(['.', '/'], "-"),
    }
}
