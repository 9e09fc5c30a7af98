//! What plan and records of a series say together. Computed once, for every report.

use serde::Serialize;

use super::ratios::{mean_with_interval, percent, percent_more, ratio, samples, times};
use super::{
    Alarm, Caching, Cell, Coordinates, Delivery, LevelNetwork, LevelTls, Scalability, Series, alarms,
};
use crate::comparison::{self, Pair, RankRange, RankedLevel};
use crate::statistics::Interval;
use crate::verdict::Standing;
use webstone_measure::metric::Metric;
use webstone_measure::origin_figures::OriginFigures;
use webstone_measure::rate::RateProfile;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_workload::TlsPages;

/// Least Jain's index over clients' completed pages at which they count as served equally.
pub const USEFUL_JAIN_MIN: f64 = 0.95;
/// Longest mean response time, in seconds, that counts as acceptable: the limit for keeping a user's flow of thought (R. B.
/// Miller, *Response time in man-computer conversational transactions*, AFIPS 1968; J. Nielsen, *Usability Engineering*, 1993).
pub const USEFUL_LATENCY_S_MAX: f64 = 1.0;
/// The number of clients at which latency is reported beside that at the peak, as Mindcraft's SPICE reports do.
const CLIENTS_TOLD: u32 = 60;

/// A series, computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The cells, as planned.
    pub cells: Vec<CellSummary>,
    /// Iterations that are stored, of all cells.
    pub iterations_done: u64,
    /// Iterations that were planned.
    pub iterations_planned: u64,
    /// Clients of the level whose latency stands beside that of the peak: 60 where every cell has that level, otherwise the most
    /// that every cell has.
    pub clients_told: Option<u32>,
    /// Servers whose cells differ in nothing else, ranked.
    pub ranks: Vec<Ranks>,
    /// Servers over their numbers of CPUs.
    pub scaling: Vec<Scaling>,
    /// Interfaces against files.
    pub spice: Vec<Spice>,
    /// Figures that cannot be true, or that nothing can be concluded from.
    pub alarms: Vec<Alarm>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Its name.
    pub name: String,
    /// Its place in the matrix.
    pub at: Coordinates,
    /// The workload's name.
    pub workload: String,
    /// Directory of its record; absent where nothing is measured yet.
    pub record: Option<String>,
    /// The program under test with its version, where it told.
    pub software: Option<String>,
    /// CPUs that the server ran on.
    pub server_cpus: Vec<u32>,
    /// Those of its CPUs on which workers of the load generator ran as well.
    pub shared_cpus: Vec<u32>,
    /// CPUs that its configuration lets the server keep busy, where that is fewer than it got.
    pub cpus_max: Option<u32>,
    /// Iterations of the level that has fewest.
    pub iterations: usize,
    /// What its figures are worth.
    pub standing: Option<Standing>,
    /// Why they are worth nothing, or in doubt; empty otherwise.
    pub reasons: Vec<String>,
    /// What limited it at its peak.
    pub limit: Option<String>,
    /// Its levels in ascending order.
    pub levels: Vec<LevelSummary>,
    /// Which level has the highest request rate.
    pub peak: Option<usize>,
    /// The same of levels at which clients are served equally ([`USEFUL_JAIN_MIN`]) and soon ([`USEFUL_LATENCY_S_MAX`]).
    pub useful_peak: Option<usize>,
}

/// A level of a cell, over all of its iterations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelSummary {
    /// Clients.
    pub clients: u32,
    /// Rate, in open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// What its figures are worth.
    pub standing: Standing,
    /// By which factor noise may have lowered its request rate at most; null without noise that matters, or (infinite) a bound.
    pub noise_factor: Option<f64>,
    /// The load generator or the path's relay was the bottleneck, and nothing else is wrong: the rate is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_least: bool,
    /// Valid responses per second.
    pub request_rate: f64,
    /// The mean over iterations with its interval; null below two.
    pub request_rate_interval: Option<Interval>,
    /// Connections per second.
    pub connection_rate: f64,
    /// Mean response time in seconds.
    pub latency_mean_s: f64,
    /// The mean over iterations with its interval; null below two.
    pub latency_mean_interval: Option<Interval>,
    /// Response time at the 99th percentile, in seconds; null without distributions.
    pub latency_p99_s: Option<f64>,
    /// Bit/s of valid responses.
    pub throughput_bps: f64,
    /// Failed requests per second.
    pub error_rate: f64,
    /// Length of an iteration, in seconds; if a number of pages ends it, the time that they took.
    pub iteration_s: f64,
    /// Failed requests in percent.
    pub error_level_percent: f64,
    /// Jain's index over clients' completed pages.
    pub jain_pages: Option<f64>,
    /// Highest mean response time of a client / the lowest.
    pub latency_spread: Option<f64>,
    /// CPU time of the server per ended request, in seconds.
    pub server_cpu_per_request_s: Option<f64>,
    /// CPU of the server in percent: 100 is one CPU, all of the time.
    pub server_cpu_percent: Option<f64>,
    /// What went over the network.
    pub network: LevelNetwork,
    /// Of the fullest link towards the server: how much of its speed is used, in percent. Absent of loopbacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_percent: Option<f64>,
    /// Its TLS handshakes; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<LevelTls>,
    /// Of a proxy: what its origin did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginFigures>,
}

/// Servers that share all but server and profile, ranked by their request rates at the peak of each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranks {
    /// What they share, in words.
    pub of: String,
    /// The ranked, the fastest first.
    pub ranked: Vec<Ranked>,
    /// Every pair of those that have a rank, as places in `ranked`.
    pub pairs: Vec<Pair>,
    /// Why there are none; null where there are.
    pub without: Option<String>,
}

/// One of a ranking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ranked {
    /// Which cell.
    pub cell: usize,
    /// The places that it may have among those that have a rank; null where it has none.
    pub rank: Option<RankRange>,
    /// Cells from which it does not differ.
    pub not_told_from: Vec<usize>,
    /// Why it has no rank, where others may have one.
    pub without: Option<String>,
}

/// One server on several numbers of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaling {
    /// What its cells share, in words.
    pub of: String,
    /// In ascending order of CPUs.
    pub rows: Vec<ScalingRow>,
    /// The Universal Scalability Law, fitted to the rows that count.
    pub law: Option<Scalability>,
    /// Why there is none.
    pub no_law: Option<String>,
}

/// A number of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalingRow {
    /// Which cell.
    pub cell: usize,
    /// CPUs of the server.
    pub cpus: u32,
    /// Highest request rate, 1/s, with its interval; null where the figures are not the server's (invalid), or none are there.
    pub peak_rate: Option<Interval>,
    /// How much more than on the fewest CPUs, in percent, with its interval; null on the fewest CPUs, or if either
    /// has no rate.
    pub more_percent: Option<Interval>,
    /// Peak rate / (CPUs × peak rate per CPU on the fewest CPUs), in percent, with its interval.
    pub efficiency_percent: Option<Interval>,
}

/// Interfaces of a server against its files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spice {
    /// What its cells share, in words.
    pub of: String,
    /// Files first, then interfaces in the order of the matrix.
    pub rows: Vec<SpiceRow>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpiceRow {
    /// Which cell.
    pub cell: usize,
    /// What it answers with.
    pub interface: Delivery,
    /// SPICE request efficiency at each one's peak: request rate / that of files, in percent, with its interval.
    pub efficiency_percent: Option<Interval>,
    /// The same at the number of clients whose latency is reported.
    pub efficiency_told_percent: Option<Interval>,
}

impl Summary {
    /// Of a plan and the record of each of its cells; `None` where a cell has none yet.
    pub fn of_series(series: &Series, records: &[Option<RunRecord>]) -> Summary {
        let record = |place: usize| records.get(place).and_then(Option::as_ref);
        let cells: Vec<CellSummary> = series
            .cells
            .iter()
            .enumerate()
            .map(|(place, cell)| CellSummary::of_cell(cell, record(place)))
            .collect();
        let clients_told = clients_told(&cells);
        let whole = Whole { cells: &cells, records, clients_told };
        let planned = |cell: &Cell| cell.spec.load.levels() as u64 * u64::from(series.rounds);
        let mut summary = Summary {
            iterations_done: records.iter().flatten().map(|record| record.iterations.len() as u64).sum(),
            iterations_planned: series.cells.iter().map(planned).sum(),
            clients_told,
            ranks: whole
                .groups(CellSummary::beside_server)
                .into_iter()
                .filter_map(|group| whole.ranks(group))
                .collect(),
            scaling: whole
                .groups(CellSummary::beside_cpus)
                .into_iter()
                .filter_map(|group| whole.scaling(group))
                .collect(),
            spice: whole
                .groups(CellSummary::beside_interface)
                .into_iter()
                .filter_map(|group| whole.spice(group))
                .collect(),
            alarms: Vec::new(),
            cells,
        };
        summary.alarms = alarms::of_series(&summary);
        summary
    }

    /// The alarms of a cell.
    pub fn alarms_of(&self, cell: usize) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter().filter(move |alarm| alarm.cell == cell)
    }
}

impl Summary {
    /// How much higher the peak of a cell that caches is than that of the same one without, in percent; `None` of others, and
    /// if either has no valid figures.
    pub fn caching_gain_percent(&self, cell: &CellSummary) -> Option<f64> {
        let off = Coordinates { caching: Some(Caching::Off), ..cell.at.clone() };
        let without =
            self.cells.iter().find(|other| other.at == off && cell.at.caching == Some(Caching::On))?;
        let peak = |cell: &CellSummary| Some(cell.peak_level().filter(|_| cell.counts())?.request_rate);
        Some(100.0 * (peak(cell)? / peak(without)? - 1.0))
    }
}

fn clients_told(cells: &[CellSummary]) -> Option<u32> {
    let measured = || cells.iter().filter(|cell| !cell.levels.is_empty());
    let in_all = |clients: u32| measured().all(|cell| cell.level(clients).is_some());
    let of_first = measured().next()?.levels.iter().map(|level| level.clients);
    std::iter::once(CLIENTS_TOLD).chain(of_first.rev()).find(|clients| in_all(*clients))
}

/// Cells that share something, in words.
type Group = (String, Vec<usize>);

/// Cells with their records.
struct Whole<'a> {
    cells: &'a [CellSummary],
    records: &'a [Option<RunRecord>],
    clients_told: Option<u32>,
}

impl Whole<'_> {
    fn groups(&self, key: fn(&CellSummary) -> String) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            let key = key(cell);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, places)) => places.push(place),
                None => groups.push((key, vec![place])),
            }
        }
        groups
    }

    /// The iterations of a cell's level.
    fn runs(&self, cell: usize, level: usize) -> Vec<&IterationRecord> {
        let record = self.records.get(cell).and_then(Option::as_ref);
        record.map_or_else(Vec::new, |record| record.levels().swap_remove(level).1)
    }

    /// Request rates of a cell's level that counts.
    fn rates(&self, cell: usize, level: Option<usize>) -> Vec<f64> {
        let level = level.filter(|level| self.cells[cell].levels[*level].standing.is_conclusive());
        level.map_or_else(Vec::new, |level| samples(&self.runs(cell, level), Metric::RATE))
    }

    fn peak_rate(&self, cell: usize) -> f64 {
        self.cells[cell].peak_level().map_or(0.0, |level| level.request_rate)
    }

    fn ranks(&self, (of, mut group): Group) -> Option<Ranks> {
        if group.len() < 2 {
            return None;
        }
        group.sort_by(|a, b| self.peak_rate(*b).total_cmp(&self.peak_rate(*a)));
        let why = |cell: &usize| self.cells[*cell].without_rank();
        let (ranked, unranked): (Vec<usize>, Vec<usize>) =
            group.into_iter().partition(|cell| why(cell).is_none());
        let level = |cell: &usize| {
            let runs = self.runs(*cell, self.cells[*cell].peak?);
            let peak = self.cells[*cell].peak_level()?;
            let better_by = if peak.is_least { f64::INFINITY } else { peak.noise_factor.unwrap_or(1.0) };
            Some(RankedLevel { runs, better_by })
        };
        let levels: Vec<RankedLevel<'_>> = ranked.iter().filter_map(level).collect();
        let ranking = comparison::rank(Metric::RATE, &levels);
        let without = ranking.as_ref().err().map(ToString::to_string);
        let (ranks, pairs) = ranking.map(|ranking| (ranking.ranks, ranking.pairs)).unwrap_or_default();
        let not_told_from = |place: usize| -> Vec<usize> {
            let untold = pairs.iter().filter(|pair| !pair.differ);
            let other = untold.filter_map(|pair| match (pair.first == place, pair.second == place) {
                (true, _) => Some(ranked[pair.second]),
                (_, true) => Some(ranked[pair.first]),
                _ => None,
            });
            other.collect()
        };
        let with_rank = ranked.iter().enumerate().map(|(place, cell)| Ranked {
            cell: *cell,
            rank: ranks.get(place).copied(),
            not_told_from: not_told_from(place),
            without: None,
        });
        let without_rank = unranked.iter().map(|cell| Ranked {
            cell: *cell,
            rank: None,
            not_told_from: Vec::new(),
            without: why(cell),
        });
        Some(Ranks { of, ranked: with_rank.chain(without_rank).collect(), without, pairs })
    }

    fn scaling(&self, (of, mut group): Group) -> Option<Scaling> {
        group.retain(|cell| self.cells[*cell].at.cpus.is_some());
        if group.len() < 2 {
            return None;
        }
        let cpus = |cell: usize| self.cells[cell].at.cpus.unwrap_or_default();
        group.sort_by_key(|cell| cpus(*cell));
        let rates: Vec<Vec<f64>> =
            group.iter().map(|cell| self.rates(*cell, self.cells[*cell].peak)).collect();
        let (base, base_cpus) = (&rates[0], f64::from(cpus(group[0])));
        let row = |(cell, rates): (&usize, &Vec<f64>)| ScalingRow {
            cell: *cell,
            cpus: cpus(*cell),
            peak_rate: mean_with_interval(rates),
            more_percent: (*cell != group[0]).then(|| ratio(rates, base)).flatten().map(percent_more),
            efficiency_percent: match *cell == group[0] {
                true => (!base.is_empty()).then(|| Interval::bare(100.0)),
                false => {
                    ratio(rates, base).map(|more| percent(times(more, base_cpus / f64::from(cpus(*cell)))))
                }
            },
        };
        let rows: Vec<ScalingRow> = group.iter().zip(&rates).map(row).collect();
        let points: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| Some((f64::from(row.cpus), row.peak_rate?.point))).collect();
        let law = Scalability::fit(&points);
        Some(Scaling { of, rows, no_law: law.as_ref().err().map(ToString::to_string), law: law.ok() })
    }

    /// Whether a cell asks some pages over TLS and others without TLS: it cannot be compared with cells that ask all pages alike.
    fn is_mixed(&self, cell: usize) -> bool {
        let record = self.records.get(cell).and_then(Option::as_ref);
        record.is_some_and(|record| record.workload.tls_pages() == TlsPages::Some)
    }

    fn spice(&self, (of, group): Group) -> Option<Spice> {
        let is_dynamic = |cell: &usize| self.cells[*cell].at.is_dynamic();
        let mut of_files = group.iter().filter(|cell| !is_dynamic(cell));
        let files = *of_files.next()?;
        // With several workloads, nothing says which one's files a program's answers are compared with.
        if of_files.next().is_some() {
            return None;
        }
        let mut of_spice = vec![files];
        of_spice.extend(group.iter().filter(|cell| is_dynamic(cell) && !self.is_mixed(**cell)));
        if of_spice.len() < 2 {
            return None;
        }
        let rates = |cell: usize, level: Option<usize>| match self.cells[cell].counts() {
            true => self.rates(cell, level),
            false => Vec::new(),
        };
        let told = |cell: usize| {
            let clients = self.clients_told?;
            self.cells[cell].levels.iter().position(|level| level.clients == clients)
        };
        let peak = |cell: usize| self.cells[cell].peak;
        let efficiency = |cell: usize, level: &dyn Fn(usize) -> Option<usize>| {
            let of_files = rates(files, level(files));
            match cell == files {
                true => (!of_files.is_empty()).then(|| Interval::bare(100.0)),
                false => ratio(&rates(cell, level(cell)), &of_files).map(percent),
            }
        };
        let row = |cell: usize| SpiceRow {
            cell,
            interface: self.cells[cell].at.interface.unwrap_or(Delivery::Static),
            efficiency_percent: efficiency(cell, &peak),
            efficiency_told_percent: efficiency(cell, &told),
        };
        Some(Spice { of, rows: of_spice.into_iter().map(row).collect() })
    }
}
