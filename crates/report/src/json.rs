//! JSON: the record as stored, and beside it everything that is computed from it.
//!
//! The record's own fields stay at the top, so that whatever reads `record.json` reads this too; what is computed
//! stands under `computed`, and under `pages` what is in `pages.csv`. The rows of each iteration are in the CSV table of
//! pages alone: there may be a hundred million. The schema of both is generated from the types and published as
//! `docs/record.schema.json`; `computed` is optional there, because a stored record has none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use webstone_judge::calibration::{self, Quote};
use webstone_judge::search::{self, Finding};
use webstone_judge::statistics::LevelStatistics;
use webstone_judge::verdict::Verdict;
use webstone_model::figures::Figures;
use webstone_model::metrics::{Fairness, GeneratorUse, Histogram, Measured, OpenLoop, fairness};
use webstone_model::origin_figures::OriginFigures;
use webstone_model::pages::{PageRow, by_hits};
use webstone_model::rate::RateProfile;
use webstone_model::record::{RunRecord, ScheduleKept};
use webstone_model::server_figures::ServerFigures;
use webstone_model::units::NANOS_PER_SECOND;

use crate::summary;

/// A record with what is computed from it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "webstone record")]
pub struct JsonReport<'a> {
    /// The record as stored.
    #[serde(flatten)]
    pub record: &'a RunRecord,
    /// Page by page over all levels and iterations, the pages that were asked for; absent in the stored `record.json`, which
    /// has them beside it.
    pub pages: Option<Vec<PageRow>>,
    /// Figures computed from the record; absent in the stored `record.json`.
    pub computed: Option<Computed>,
}

/// Everything computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Computed {
    /// What the figures of the whole run are worth, and what limited them.
    pub verdict: Verdict,
    /// Every level in ascending order of clients.
    pub levels: Vec<LevelFigures>,
    /// The level with the highest request rate; null where there is one level only or nothing succeeded.
    pub peak: Option<PeakFigures>,
    /// What a search for an SLO found (`webstone find`); absent of other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Finding>,
    /// The load as a share of what the generator can do by its calibration; absent where there is none that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Quote>,
}

/// The level with the highest request rate of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PeakFigures {
    /// Its number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Valid responses per second, over all its iterations.
    pub request_rate: f64,
}

/// One level: its iterations merged, and each alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LevelFigures {
    /// Number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Open loop: how well the schedule was kept, over all iterations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleKept>,
    /// Figures over all iterations together.
    pub figures: Figures,
    /// Distributions over all iterations together.
    pub distributions: Distributions,
    /// The load generator's own delays over all iterations together.
    pub generator: GeneratorDelays,
    /// Fairness over all iterations together; null when nobody completed a page.
    pub fairness: Option<Fairness>,
    /// What the server used, over the iterations for which it could be looked at; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// What the server behind a proxy did, over the iterations for which it could be looked at; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginFigures>,
    /// Lowest request rate of an iteration, 1/s.
    pub request_rate_min: f64,
    /// Highest request rate of an iteration, 1/s.
    pub request_rate_max: f64,
    /// 95 % intervals over iterations, outliers, steady state and noise floor.
    pub statistics: LevelStatistics,
    /// Each iteration, in the order in which they ran.
    pub iterations: Vec<IterationFigures>,
}

/// One timed run of a level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IterationFigures {
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
    /// Its place in the record's `iterations`, from 0.
    pub index: usize,
    /// Its figures.
    pub figures: Figures,
    /// Its distributions.
    pub distributions: Distributions,
    /// The load generator's own delays.
    pub generator: GeneratorDelays,
    /// Its fairness; null when nobody completed a page.
    pub fairness: Option<Fairness>,
}

/// The four distributions of a window; null where nothing was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Distributions {
    /// TCP connect time.
    pub connect: Option<Distribution>,
    /// Start to first byte of the response.
    pub first_byte: Option<Distribution>,
    /// Start to last byte: the response time, called latency.
    pub response: Option<Distribution>,
    /// First file's start to last file's last byte.
    pub page: Option<Distribution>,
    /// Open loop: time to first byte from the actual start; the others are from the intended one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_uncorrected: Option<Distribution>,
    /// Open loop: response time from the actual start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_uncorrected: Option<Distribution>,
    /// Open loop: page time from the actual start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_uncorrected: Option<Distribution>,
    /// Open loop: how late the generator itself was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_lag: Option<Distribution>,
}

/// What the load generator itself added; null where nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GeneratorDelays {
    /// From an event being reported to its handling.
    pub loop_delay: Option<Distribution>,
    /// How long bytes had lain in the kernel when they were read, on one connection a worker.
    pub receive_lag: Option<Distribution>,
    /// How much longer connecting took for the client than for the kernel, of one connection in seventeen.
    pub connect_lag: Option<Distribution>,
}

/// Percentiles of a time, from its histogram: three significant digits, never above the maximum. Seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Half of the values are no longer.
    pub p50_s: f64,
    /// 75 % of the values are no longer.
    pub p75_s: f64,
    /// 90 % of the values are no longer.
    pub p90_s: f64,
    /// 95 % of the values are no longer.
    pub p95_s: f64,
    /// 99 % of the values are no longer.
    pub p99_s: f64,
    /// 99.9 % of the values are no longer.
    pub p99_9_s: f64,
    /// 99.99 % of the values are no longer.
    pub p99_99_s: f64,
    /// The longest, exactly.
    pub max_s: f64,
}

impl Distribution {
    /// The percentiles of a histogram in nanoseconds; `None` without values.
    pub fn of(histogram: &Histogram) -> Option<Distribution> {
        let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SECOND as f64;
        if histogram.is_empty() {
            return None;
        }
        let values =
            histogram.values_at_quantiles(&[50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99].map(|p| p / 100.0));
        let [p50_s, p75_s, p90_s, p95_s, p99_s, p99_9_s, p99_99_s] =
            <[u64; 7]>::try_from(values).expect("as many as were asked for").map(seconds);
        let (count, max_s) = (histogram.len(), seconds(histogram.max()));
        Some(Distribution { count, p50_s, p75_s, p90_s, p95_s, p99_s, p99_9_s, p99_99_s, max_s })
    }
}

impl GeneratorDelays {
    pub(crate) fn of(generator: &GeneratorUse) -> GeneratorDelays {
        GeneratorDelays {
            loop_delay: Distribution::of(&generator.loop_delay),
            receive_lag: Distribution::of(&generator.receive_lag),
            connect_lag: Distribution::of(&generator.connect_lag),
        }
    }
}

impl Distributions {
    pub(crate) fn of(measured: &Measured) -> Distributions {
        let histograms = &measured.histograms;
        let of_open_loop = |histogram: fn(&OpenLoop) -> &Histogram| {
            measured.open_loop.as_ref().and_then(|open_loop| Distribution::of(histogram(open_loop)))
        };
        Distributions {
            first_byte_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.first_byte),
            response_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.response),
            page_uncorrected: of_open_loop(|open_loop| &open_loop.uncorrected.page),
            schedule_lag: of_open_loop(|open_loop| &open_loop.lag_histogram),
            connect: Distribution::of(&histograms.connect),
            first_byte: Distribution::of(&histograms.first_byte),
            response: Distribution::of(&histograms.response),
            page: Distribution::of(&histograms.page),
        }
    }

    /// Whether nothing at all was counted, as in a record read without its histograms.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Distributions::default()
    }
}

/// The JSON schema (draft 2020-12) of a record, stored or reported, as text ending in a newline.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(JsonReport<'static>);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is a tree of strings and numbers");
    text.push('\n');
    text
}

/// The JSON schema (draft 2020-12) of a line of events, as text ending in a newline.
pub fn event_schema() -> String {
    let schema = schemars::schema_for!(webstone_model::event::EventLine);
    serde_json::to_string_pretty(&schema).expect("a schema is a tree of strings and numbers") + "\n"
}

/// The report as indented JSON, ending in a newline.
pub(crate) fn render(record: &RunRecord, verdict: Verdict) -> Result<String, serde_json::Error> {
    let mut pages = by_hits(&record.page_totals());
    pages.sort_unstable_by_key(|row| row.page);
    let computed = computed(record, verdict);
    let mut text =
        serde_json::to_string_pretty(&JsonReport { record, pages: Some(pages), computed: Some(computed) })?;
    text.push('\n');
    Ok(text)
}

pub(crate) fn computed(record: &RunRecord, verdict: Verdict) -> Computed {
    let levels = summary::levels(record);
    let peak = summary::peak(&levels).map(|index| PeakFigures {
        clients: levels[index].clients,
        rate: levels[index].rate,
        request_rate: levels[index].figures.request_rate,
    });
    // `RunRecord::levels` keeps the order of the record inside a level, and so does this.
    let mut places: BTreeMap<(Option<RateProfile>, u32), Vec<usize>> = BTreeMap::new();
    for (index, iteration) in record.iterations.iter().enumerate() {
        places.entry((iteration.rate, iteration.clients)).or_default().push(index);
    }
    let levels = levels
        .into_iter()
        .map(|level| LevelFigures {
            clients: level.clients,
            rate: level.rate,
            schedule: level.open_loop.map(|open_loop| open_loop.kept),
            iterations: level
                .runs
                .iter()
                .zip(&places[&(level.rate, level.clients)])
                .map(|(run, index)| IterationFigures {
                    iteration: run.iteration,
                    index: *index,
                    figures: Figures::of(&run.measured),
                    distributions: Distributions::of(&run.measured),
                    generator: GeneratorDelays::of(&run.measured.generator),
                    fairness: fairness(&run.measured.clients),
                })
                .collect(),
            figures: level.figures,
            statistics: level.statistics,
            distributions: level.distributions,
            generator: level.generator_delays,
            fairness: level.fairness,
            server: level.server,
            origin: level.origin,
            request_rate_min: level.request_rates.0,
            request_rate_max: level.request_rates.1,
        })
        .collect();
    let (search, calibration) = (search::of_record(record), calibration::quote(record).ok());
    Computed { verdict, levels, peak, search, calibration }
}
