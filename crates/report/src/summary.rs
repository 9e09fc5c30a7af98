//! The summary of each level: the few dozen numbers that reports print, taken from all of its iterations together.
//!
//! Percentiles and rates of a level come from its merged iterations ([`RunRecord::merged`]), never from averaged
//! percentiles. A merged measurement is megabytes of histograms, so it is summarised and dropped level by level: a
//! sweep of a thousand levels needs the memory of one.

use std::borrow::Cow;

use webstone_judge::statistics::LevelStatistics;
use webstone_model::figures::Figures;
use webstone_model::metrics::{Counts, Fairness, GeneratorUse, Lifetime, Measured, fairness};
use webstone_model::origin_figures::OriginFigures;
use webstone_model::rate::RateProfile;
use webstone_model::record::{Disturbance, IterationRecord, RunRecord, ScheduleKept, load_name};
use webstone_model::server_figures::ServerFigures;
use webstone_model::units::NANOS_PER_SECOND;

use crate::json::{Distributions, GeneratorDelays};
use crate::numbers::{count, counted};

/// One level of the sweep, over all of its iterations.
#[derive(Debug)]
pub(crate) struct Level<'a> {
    pub(crate) clients: u32,
    /// Open loop: its rate.
    pub(crate) rate: Option<RateProfile>,
    /// Open loop: what became of its schedule.
    pub(crate) open_loop: Option<OpenLoopShare>,
    /// The iterations, in the order in which they ran.
    pub(crate) runs: Vec<&'a IterationRecord>,
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
    pub(crate) generator: GeneratorShare,
    pub(crate) server: Option<ServerFigures>,
    /// Of the server behind a proxy.
    pub(crate) origin: Option<OriginFigures>,
}

impl Level<'_> {
    /// Its load in words: `20 clients`, `1000 arrivals/s`.
    pub(crate) fn load(&self) -> String {
        load(self.clients, self.rate)
    }

    /// Its load in a column under [`load_column`].
    pub(crate) fn load_cell(&self) -> String {
        self.rate.map_or_else(|| count(u64::from(self.clients)), |rate| rate.to_string())
    }

    /// Its place on an axis of loads: clients, or the highest arrivals a second.
    pub(crate) fn load_number(&self) -> f64 {
        self.rate.map_or_else(|| f64::from(self.clients), |rate| rate.peak().per_s())
    }

    /// Its rate and clients, which no other level of its record shares; they order as levels do.
    pub(crate) fn key(&self) -> (Option<RateProfile>, u32) {
        (self.rate, self.clients)
    }

    /// Whether the user ended one of its iterations early.
    pub(crate) fn interrupted(&self) -> bool {
        self.runs.iter().any(|run| run.interrupted)
    }
}

/// A load in words.
pub(crate) fn load(clients: u32, rate: Option<RateProfile>) -> String {
    match rate {
        Some(rate) => load_name(clients, Some(rate)),
        None => counted(u64::from(clients), "client", "clients"),
    }
}

/// Head of the column that says which level a row is of: its name and its unit.
pub(crate) fn load_column(levels: &[Level<'_>]) -> (&'static str, &'static str) {
    if levels.iter().any(|level| level.rate.is_some()) { ("arrivals", "/s") } else { ("clients", "") }
}

/// What became of an open loop's schedule, over all iterations of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenLoopShare {
    pub(crate) kept: ScheduleKept,
    /// Pages fetched whole, per second.
    pub(crate) achieved_rate: f64,
    pub(crate) skipped: u64,
    pub(crate) queued: u64,
    pub(crate) waited: u64,
    /// Time that workers waited for arrivals awake, in percent of their CPUs.
    pub(crate) awake_percent: f64,
}

/// How much of its CPUs the load generator used. A generator near 100 % measures itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GeneratorShare {
    pub(crate) workers: usize,
    /// CPU time of all workers / (workers × window), in percent, without waiting awake for arrivals.
    pub(crate) cpu_percent: f64,
    /// The same of the busiest worker.
    pub(crate) busiest_percent: f64,
    /// How long the worker that waited most was ready to run and not let run, in percent of the window, where the kernel
    /// told it.
    pub(crate) waited_percent: Option<f64>,
    /// CPU time per ended request, in seconds.
    pub(crate) cpu_per_request_s: f64,
    /// Median delay from readiness to handling, in seconds, where it was measured.
    pub(crate) loop_delay_p50_s: Option<f64>,
    /// 99th percentile of the delay from readiness to handling, in seconds, where it was measured.
    pub(crate) loop_delay_p99_s: Option<f64>,
    /// How long bytes lay in the kernel before they were read: median, 99th percentile and maximum in seconds, where it was
    /// measured.
    pub(crate) receive_lag_s: Option<[f64; 3]>,
    /// How much longer connecting took for the client than for the kernel: the median, in seconds, where it was measured.
    pub(crate) connect_lag_p50_s: Option<f64>,
}

/// Every level in ascending order of clients.
pub(crate) fn levels(record: &RunRecord) -> Vec<Level<'_>> {
    record.levels().into_iter().map(|(clients, runs)| level(clients, runs)).collect()
}

/// One level of these iterations.
pub(crate) fn level(clients: u32, runs: Vec<&IterationRecord>) -> Level<'_> {
    let merged = merged(&runs);
    let rates = runs.iter().map(|run| request_rate(&run.measured));
    let request_rates =
        rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let figures = Figures::of(&merged);
    Level {
        clients,
        rate: runs.first().and_then(|run| run.rate),
        open_loop: open_loop_share(&merged),
        counts: merged.counts,
        lifetime: merged.lifetime,
        request_rates,
        distributions: Distributions::of(&merged),
        generator_delays: GeneratorDelays::of(&merged.generator),
        fairness: fairness(&merged.clients),
        generator: generator_share(&merged.generator, merged.window_ns, &figures),
        server: ServerFigures::of(&runs),
        origin: OriginFigures::of(&runs),
        figures,
        statistics: LevelStatistics::of(&runs),
        runs,
    }
}

fn open_loop_share(measured: &Measured) -> Option<OpenLoopShare> {
    let (open_loop, workers) = (measured.open_loop.as_ref()?, &measured.generator.workers);
    let window_ns = measured.window_ns as f64;
    let spun_ns: f64 = workers.iter().map(|worker| worker.spun_ns as f64).sum();
    Some(OpenLoopShare {
        kept: ScheduleKept::of(measured)?,
        achieved_rate: quotient(measured.counts.pages_completed as f64 * NANOS_PER_SECOND as f64, window_ns),
        skipped: open_loop.skipped,
        queued: open_loop.queued,
        waited: open_loop.waited,
        awake_percent: quotient(spun_ns * 100.0, window_ns * workers.len() as f64),
    })
}

/// All iterations of a level as one measurement; a single one is borrowed, because it is megabytes.
pub(crate) fn merged<'a>(runs: &[&'a IterationRecord]) -> Cow<'a, Measured> {
    match runs {
        [only] => Cow::Borrowed(&only.measured),
        _ => Cow::Owned(RunRecord::merged(runs)),
    }
}

/// The level with the highest request rate, where there is a choice and anything succeeded.
pub(crate) fn peak(levels: &[Level<'_>]) -> Option<usize> {
    let rate = |index: &usize| levels[*index].figures.request_rate;
    let best = (0..levels.len()).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    (levels.len() > 1 && rate(&best) > 0.0).then_some(best)
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

fn generator_share(generator: &GeneratorUse, window_ns: u64, figures: &Figures) -> GeneratorShare {
    let percent: Vec<f64> = generator
        .workers
        .iter()
        .map(|worker| quotient(worker.worked_ns() as f64 * 100.0, window_ns as f64))
        .collect();
    let loop_delay_s = |percentile| {
        let delay = &generator.loop_delay;
        (!delay.is_empty()).then(|| delay.value_at_percentile(percentile) as f64 / NANOS_PER_SECOND as f64)
    };
    GeneratorShare {
        workers: percent.len(),
        cpu_percent: quotient(percent.iter().sum(), percent.len() as f64),
        busiest_percent: percent.iter().copied().fold(0.0, f64::max),
        waited_percent: generator
            .workers
            .iter()
            .filter_map(|worker| worker.run_queue_ns)
            .map(|waited| quotient(waited as f64 * 100.0, window_ns as f64))
            .reduce(f64::max),
        cpu_per_request_s: figures.generator_cpu_per_request_s,
        loop_delay_p50_s: loop_delay_s(50.0),
        loop_delay_p99_s: loop_delay_s(99.0),
        receive_lag_s: {
            let lag = &generator.receive_lag;
            let all = [lag.value_at_percentile(50.0), lag.value_at_percentile(99.0), lag.max()];
            (!lag.is_empty()).then(|| all.map(|nanos| nanos as f64 / NANOS_PER_SECOND as f64))
        },
        connect_lag_p50_s: {
            let lag = &generator.connect_lag;
            (!lag.is_empty()).then(|| lag.value_at_percentile(50.0) as f64 / NANOS_PER_SECOND as f64)
        },
    }
}

/// What others took of the generator's CPUs before some runs, where somebody looked.
pub(crate) fn disturbance<'a>(runs: impl IntoIterator<Item = &'a IterationRecord>) -> Option<Disturbance> {
    runs.into_iter().filter_map(|run| run.host.as_ref()?.disturbance).reduce(Disturbance::plus)
}

/// a / b, and 0 where b is 0: a table has no use for NaN.
pub(crate) fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}
