//! What plan and records of a series say together. Computed once, for every report.

use serde::Serialize;

use super::ratios::{mean_with_interval, percent, percent_more, ratio, samples, times};
use super::{
    Alarm, Caching, Cell, Coordinates, Delivery, LevelNetwork, LevelTls, Scalability, Series, alarms,
};
use crate::comparison::{self, Pair, RankRange, RankedLevel};
use crate::statistics::{self, Interval};
use crate::verdict::{self, Standing, Verdict};
use webstone_measure::figures::Figures;
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::metrics::fairness;
use webstone_measure::origin_figures::OriginFigures;
use webstone_measure::rate::RateProfile;
use webstone_measure::server_figures::ServerFigures;
use webstone_model::generators::LoadMaker;
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
    /// CPUs of them that load generator's workers ran on, too.
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
    /// How much more than on the fewest CPUs, in percent, with its interval; null of that itself, and where one has no rate.
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

impl CellSummary {
    fn of_cell(cell: &Cell, record: Option<&RunRecord>) -> CellSummary {
        let mut summary = CellSummary {
            name: cell.name.clone(),
            at: cell.at.clone(),
            workload: cell.spec.workload.clone(),
            record: record.map(|record| record.id.clone()),
            software: None,
            server_cpus: Vec::new(),
            shared_cpus: Vec::new(),
            cpus_max: None,
            iterations: 0,
            standing: None,
            reasons: Vec::new(),
            limit: None,
            levels: Vec::new(),
            peak: None,
            useful_peak: None,
        };
        let Some(record) = record else { return summary };
        let levels = record.levels();
        let verdict = verdict::of(record);
        let makers = record.iterations.first().map(|run| run.load_makers()).unwrap_or_default();
        // CPU 1 of another host is another CPU.
        let beside = |maker: &&LoadMaker<'_>| match record.generator_of(maker) {
            Some(host) => host.has_server == Some(true),
            None => true,
        };
        let workers: Vec<_> = makers.iter().filter(beside).flat_map(|maker| maker.workers).collect();
        let is_shared = |cpu: &&u32| workers.iter().any(|worker| worker.cpu == Some(**cpu));
        let target = &record.target;
        summary.software = target.software.as_ref().map(|software| software.version.clone());
        summary.server_cpus.clone_from(&target.cpus);
        summary.shared_cpus = target.cpus.iter().filter(is_shared).copied().collect();
        summary.cpus_max = target
            .software
            .as_ref()
            .and_then(|software| software.cpus_max)
            .filter(|most| (*most as usize) < target.cpus.len());
        let of_level = |(_, runs): &(LevelKey, Vec<&IterationRecord>)| runs.len();
        let all_levels = levels.len() >= cell.spec.load.levels();
        summary.iterations = if all_levels { levels.iter().map(of_level).min().unwrap_or(0) } else { 0 };
        summary.standing = Some(verdict.standing);
        summary.reasons = verdict.told();
        summary.limit = Some(verdict.limit.sentence.clone());
        summary.levels =
            levels.iter().map(|(_, runs)| LevelSummary::of_runs(record, &verdict, runs)).collect();
        let highest = |is_fit: &dyn Fn(&LevelSummary) -> bool| {
            let fit = (0..summary.levels.len()).filter(|place| is_fit(&summary.levels[*place]));
            fit.max_by(|a, b| summary.levels[*a].request_rate.total_cmp(&summary.levels[*b].request_rate))
        };
        let is_served = |level: &LevelSummary| level.request_rate > 0.0;
        // Where no level tells anything, the highest is shown and counts for nothing.
        summary.peak = highest(&|level| level.standing.is_conclusive() && is_served(level))
            .or_else(|| highest(&is_served));
        summary.useful_peak = highest(&|level| level.standing.is_conclusive() && level.is_useful());
        summary
    }

    /// The level of its peak.
    pub fn peak_level(&self) -> Option<&LevelSummary> {
        self.levels.get(self.peak?)
    }

    /// The level with the highest value of a figure.
    pub fn best(&self, of: impl Fn(&LevelSummary) -> f64) -> Option<&LevelSummary> {
        self.levels.iter().filter(|level| of(level) > 0.0).max_by(|a, b| of(a).total_cmp(&of(b)))
    }

    /// The level of a number of clients.
    pub fn level(&self, clients: u32) -> Option<&LevelSummary> {
        self.levels.iter().find(|level| level.clients == clients && level.rate.is_none())
    }

    /// Whether the level of its peak is conclusive. A cell that does not count is in no rank, fit or quotient.
    pub fn counts(&self) -> bool {
        self.peak_level().is_some_and(|level| level.standing.is_conclusive())
    }

    /// Whether there was no noise that matters.
    pub fn is_sound(&self) -> bool {
        self.standing.is_some_and(|standing| standing <= Standing::Sound)
    }

    /// Why it may have no rank, in words; `None` where it may.
    pub fn without_rank(&self) -> Option<String> {
        let Some(standing) = self.standing else { return Some("not measured".to_owned()) };
        let reason = self.reasons.first().map_or(String::new(), |reason| format!(": {reason}"));
        match (self.counts(), standing.is_conclusive()) {
            (true, _) => None,
            (false, true) => Some("no request succeeded".to_owned()),
            (false, false) => Some(format!("{}{reason}", standing.word())),
        }
    }

    /// What it shares with cells that differ in server and profile alone.
    fn beside_server(&self) -> String {
        self.but(self.at.beside_server())
    }

    /// What it shares with cells that differ in CPUs alone.
    pub fn beside_cpus(&self) -> String {
        self.but(Coordinates { cpus: None, ..self.at.clone() }.to_string())
    }

    /// What it shares with cells that differ in the interface alone (and so in what is asked for).
    fn beside_interface(&self) -> String {
        Coordinates { interface: None, workload: None, ..self.at.clone() }.to_string()
    }

    fn but(&self, at: String) -> String {
        // A program's answers are those of its own workload.
        if self.at.is_dynamic() || self.at.workload.is_some() {
            at
        } else {
            format!("{}, {at}", self.workload)
        }
    }
}

impl LevelSummary {
    fn of_runs(record: &RunRecord, verdict: &Verdict, runs: &[&IterationRecord]) -> LevelSummary {
        let merged = IterationRecord::merged(runs);
        let figures = Figures::of(&merged);
        let over = |metric: Metric| -> Option<Interval> { statistics::mean_interval(&samples(runs, metric)) };
        let served = fairness(&merged.clients);
        let reading = Reading::of_level(runs);
        LevelSummary {
            clients: runs[0].clients,
            rate: runs[0].rate,
            standing: verdict.of_level(runs[0].level()),
            noise_factor: verdict.rate_factor_of(runs[0].level()),
            request_rate: figures.request_rate,
            request_rate_interval: over(Metric::RATE),
            connection_rate: figures.connection_rate,
            latency_mean_s: figures.latency_mean_s,
            latency_mean_interval: over(Metric::MEAN),
            latency_p99_s: Metric::Percentile(99.0).value(&reading),
            throughput_bps: figures.throughput_bps,
            error_rate: figures.error_rate,
            iteration_s: figures.test_time_s / runs.len() as f64,
            error_level_percent: figures.error_level_percent,
            jain_pages: served.map(|it| it.jain_pages),
            latency_spread: served
                .filter(|it| it.latency_ns.0 > 0.0)
                .map(|it| it.latency_ns.1 / it.latency_ns.0),
            server_cpu_per_request_s: Metric::SERVER_CPU.value(&reading),
            server_cpu_percent: ServerFigures::of(runs).map(|server| server.cpu_percent),
            network: LevelNetwork::of(&reading),
            link_percent: verdict::link_percent(record, runs),
            tls: LevelTls::of_window(&merged),
            origin: OriginFigures::of(runs),
        }
    }

    /// Whether clients are served equally within an acceptable time.
    fn is_useful(&self) -> bool {
        self.request_rate > 0.0
            && self.jain_pages.is_some_and(|jain| jain >= USEFUL_JAIN_MIN)
            && self.latency_mean_s <= USEFUL_LATENCY_S_MAX
    }
}

impl Summary {
    /// Of a plan and the record of each of its cells; `None` where a cell has none yet.
    pub fn of(series: &Series, records: &[Option<RunRecord>]) -> Summary {
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
        summary.alarms = alarms::of(&summary);
        summary
    }

    /// The alarms of a cell.
    pub fn alarms_of(&self, cell: usize) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter().filter(move |alarm| alarm.cell == cell)
    }
}

impl Summary {
    /// How much higher the peak of a cell that caches is than that of the same one without, in percent; `None` of others, and
    /// where one of both has no figures that count.
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

    fn rates(&self, cell: usize, level: Option<usize>) -> Vec<f64> {
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
            let better_by = self.cells[*cell].peak_level()?.noise_factor.unwrap_or(1.0);
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
        let rates: Vec<Vec<f64>> = group
            .iter()
            .map(|cell| match self.cells[*cell].counts() {
                true => self.rates(*cell, self.cells[*cell].peak),
                false => Vec::new(),
            })
            .collect();
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
