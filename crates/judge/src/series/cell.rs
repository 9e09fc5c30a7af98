//! What the record of one cell says, level by level.

use super::ratios::samples;
use super::summary::{CellSummary, LevelSummary, USEFUL_JAIN_MIN, USEFUL_LATENCY_S_MAX};
use super::{Cell, Coordinates, LevelNetwork, LevelTls};
use crate::statistics::{self, Interval};
use crate::verdict::{self, Cause, Reason, Standing, Verdict};
use webstone_measure::figures::Figures;
use webstone_measure::keys::LevelKey;
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::metrics::fairness;
use webstone_measure::origin_figures::OriginFigures;
use webstone_measure::server_figures::ServerFigures;
use webstone_model::generators::LoadMaker;
use webstone_model::record::{IterationRecord, RunRecord};

impl CellSummary {
    pub(super) fn of_cell(cell: &Cell, record: Option<&RunRecord>) -> CellSummary {
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
        let verdict = verdict::of_record(record);
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
        // A level that the generator limited may still be the peak: do not take one with fewer clients instead.
        let is_shown = |level: &LevelSummary| level.standing.is_conclusive() || is_censored(&verdict, level);
        // Where no level tells anything, the highest is shown and counts for nothing.
        let peak = highest(&|level| is_shown(level) && is_served(level)).or_else(|| highest(&is_served));
        let useful_peak = highest(&|level| is_shown(level) && level.is_useful())
            .filter(|place| summary.levels[*place].standing.is_conclusive());
        (summary.peak, summary.useful_peak) = (peak, useful_peak);
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
        let is_least = self.peak_level().is_some_and(|level| level.is_least);
        match (self.counts() || is_least, standing.is_conclusive()) {
            (true, _) => None,
            (false, true) => Some("no request succeeded".to_owned()),
            (false, false) => Some(format!("{}{reason}", standing.word())),
        }
    }

    /// What it shares with cells that differ in server and profile alone.
    pub(super) fn beside_server(&self) -> String {
        self.but(self.at.beside_server())
    }

    /// What it shares with cells that differ in CPUs alone.
    pub fn beside_cpus(&self) -> String {
        self.but(Coordinates { cpus: None, ..self.at.clone() }.to_string())
    }

    /// What it shares with cells that differ in the interface alone (and so in what is asked for).
    pub(super) fn beside_interface(&self) -> String {
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

/// Whether the generator, or the relay of a path, was the bottleneck at a level: the server may have more to give.
fn is_censored(verdict: &Verdict, level: &LevelSummary) -> bool {
    let key = LevelKey::new(level.clients, level.rate);
    verdict.reasons.iter().any(|reason| reason.level() == Some(key) && is_of_the_load(reason))
}

fn is_of_the_load(reason: &Reason) -> bool {
    matches!(reason.cause, Cause::GeneratorSaturated | Cause::PathSaturated)
}

/// Whether only the generator, or the relay, was at fault at a level. In closed loop its rate is then a lower bound.
fn is_least(verdict: &Verdict, run: &IterationRecord) -> bool {
    let key = run.level();
    let of_level = |reason: &&Reason| reason.level().is_none_or(|level| level == key);
    let mut reasons = verdict.reasons.iter().filter(of_level).peekable();
    run.rate.is_none() && reasons.peek().is_some() && reasons.all(is_of_the_load)
}

impl LevelSummary {
    fn of_runs(record: &RunRecord, verdict: &Verdict, runs: &[&IterationRecord]) -> LevelSummary {
        let merged = IterationRecord::merged(runs);
        let figures = Figures::of_measured(&merged);
        let over = |metric: Metric| -> Option<Interval> { statistics::mean_interval(&samples(runs, metric)) };
        let served = fairness(&merged.clients);
        let reading = Reading::of_level(runs);
        LevelSummary {
            clients: runs[0].clients,
            rate: runs[0].rate,
            standing: verdict.of_level(runs[0].level()),
            noise_factor: verdict.rate_factor_of(runs[0].level()),
            is_least: is_least(verdict, runs[0]),
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
            server_cpu_percent: ServerFigures::of_runs(runs).map(|server| server.cpu_percent),
            network: LevelNetwork::of_reading(&reading),
            link_percent: verdict::link_percent(record, runs),
            tls: LevelTls::of_window(&merged),
            origin: OriginFigures::of_runs(runs),
        }
    }

    /// Whether clients are served equally within an acceptable time.
    fn is_useful(&self) -> bool {
        self.request_rate > 0.0
            && self.jain_pages.is_some_and(|jain| jain >= USEFUL_JAIN_MIN)
            && self.latency_mean_s <= USEFUL_LATENCY_S_MAX
    }
}
