//! JSON: the record as stored, and beside it everything that is computed from it.
//!
//! The record's own fields stay at the top, so that whatever reads `record.json` reads this too; what is computed
//! stands under `computed`, and under `pages` what is in `pages.csv`. The rows of each iteration are in the CSV table of
//! pages alone: there may be a hundred million. The schema of both is generated from the types and published as
//! `docs/record.schema.json`; `computed` is optional there, because a stored record has none.

use std::collections::BTreeMap;

use serde::Serialize;
use webstone_judge::calibration::{self, Quote};
use webstone_judge::search::Finding;
use webstone_judge::statistics::LevelStatistics;
use webstone_judge::verdict::{Differing, Verdict};
use webstone_measure::figures::Reading;
use webstone_measure::figures::distributions::{Distributions, GeneratorDelays};
use webstone_measure::keys::LevelKey;
use webstone_measure::metrics::{Fairness, fairness};
use webstone_measure::origin_figures::OriginFigures;
use webstone_measure::rate::RateProfile;
use webstone_measure::server_figures::ServerFigures;
use webstone_model::pages::{PageRow, by_hits};
use webstone_model::record::{RunRecord, ScheduleKept};

use crate::generators;
use crate::json_objects::{HostObject, LevelObject};
use crate::judged::Judged;
use crate::summary::{self, Values};

/// A record with what is computed from it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "webstone record"))]
pub(crate) struct JsonReport<'a> {
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Computed {
    /// What the figures of the whole run are worth, and what limited them.
    pub verdict: Verdict,
    /// Every level in ascending order of clients.
    pub levels: Vec<LevelFigures>,
    /// The level with the highest request rate; null where there is one level only or nothing succeeded.
    pub peak: Option<PeakFigures>,
    /// What a search for an SLO found (`webstone find`); absent of other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Finding>,
    /// The hosts whose latency or rate per client lies off that of the others that made the load with them, in every timed run of a
    /// level; absent where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub differing: Vec<Differing>,
    /// The load as a share of what the generator can do by its calibration; absent where there is none that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Quote>,
}

/// The level with the highest request rate of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PeakFigures {
    /// Its number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Valid responses per second, over all its iterations.
    pub request_rate: f64,
}

/// One level: its iterations merged, and each alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct LevelFigures {
    /// Number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Open loop: how well the schedule was kept, over all iterations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleKept>,
    /// Figures over all iterations together.
    pub figures: LevelObject,
    /// Distributions over all iterations together.
    pub distributions: Distributions,
    /// The load generator's own delays over all iterations together.
    pub generator: GeneratorDelays,
    /// Fairness over all iterations together; null when nobody completed a page.
    pub fairness: Option<Fairness>,
    /// What the server used, over the iterations for which it was visible; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// What the server behind a proxy did, over the iterations for which it was visible; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginFigures>,
    /// What went over the network by the second and the request, over the iterations in which the kernel of the generator's
    /// host was read; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostObject>,
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct IterationFigures {
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
    /// Its place in the record's `iterations`, from 0.
    pub index: usize,
    /// Its figures.
    pub figures: LevelObject,
    /// Its distributions.
    pub distributions: Distributions,
    /// The load generator's own delays.
    pub generator: GeneratorDelays,
    /// Its fairness; null when nobody completed a page.
    pub fairness: Option<Fairness>,
}

/// The report.
pub(crate) fn report(judged: Judged<'_>) -> JsonReport<'_> {
    let record = judged.record;
    let mut pages = by_hits(&record.page_totals());
    pages.sort_unstable_by_key(|row| row.page);
    JsonReport { record, pages: Some(pages), computed: Some(computed(judged)) }
}

pub(crate) fn computed(judged: Judged<'_>) -> Computed {
    let Judged { record, verdict, found, .. } = judged;
    let levels = summary::levels(record);
    let peak = summary::peak(&levels).map(|index| PeakFigures {
        clients: levels[index].clients,
        rate: levels[index].rate,
        request_rate: levels[index].figures.request_rate,
    });
    // `RunRecord::levels` keeps the order of the record inside a level, and so does this.
    let mut places: BTreeMap<LevelKey, Vec<usize>> = BTreeMap::new();
    for (index, iteration) in record.iterations.iter().enumerate() {
        places.entry(iteration.level()).or_default().push(index);
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
                .zip(&places[&level.key()])
                .map(|(run, index)| IterationFigures {
                    iteration: run.iteration,
                    index: *index,
                    figures: LevelObject::of_values(&Values::of_reading(&Reading::of_run(run))),
                    distributions: Distributions::of_measured(&run.measured),
                    generator: GeneratorDelays::of_generator(&run.measured.generator),
                    fairness: fairness(&run.measured.clients),
                })
                .collect(),
            figures: LevelObject::of_values(&level.values),
            host: level.host.map(|_| HostObject::of_values(&level.values)),
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
    let search = found.map(|(_, finding)| finding);
    let calibration = calibration::quote(record).ok();
    Computed { verdict, levels, peak, search, differing: generators::differing(record), calibration }
}
