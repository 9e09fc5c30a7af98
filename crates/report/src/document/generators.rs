//! What each of several hosts that made the load did, over the timed runs of a level: the rows of a table that every format has.

use std::collections::BTreeSet;

use webstone_judge::verdict::{self, Differing, Loss, LossKind};
use webstone_measure::keys::levels_named;
use webstone_model::generators::{ClockOffset, GeneratorPart, GeneratorRecord, LoadMaker};
use webstone_model::record::{HostUse, IterationRecord, RunRecord};

use crate::numbers::counted;
use crate::summary::quotient;

/// One host over some timed runs of one level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostRow {
    /// Which of the run's generators, from 0.
    pub(crate) generator: u32,
    /// Its clients: the most in any timed run.
    pub(crate) clients: u32,
    /// Valid responses per second.
    pub(crate) request_rate: f64,
    /// Failed requests in percent of those that ended.
    pub(crate) errors_percent: f64,
    /// 50th and 99th percentile of its response times in seconds: the median of those of the timed runs.
    pub(crate) p50_s: f64,
    /// See `p50_s`.
    pub(crate) p99_s: f64,
    /// The busiest worker in percent of its CPU: the highest of all timed runs.
    pub(crate) worker_percent_max: f64,
    /// The fullest link in percent of its speed: the highest of all timed runs; absent where no link's speed is known.
    pub(crate) link_percent_max: Option<f64>,
    /// Its clock, where its error bound was largest.
    pub(crate) clock: ClockOffset,
    /// When its window opened, where that was furthest from the agreed instant.
    pub(crate) opening_skew_ns: i64,
}

/// A row for each host that had a part in these timed runs, in order.
pub(crate) fn rows(record: &RunRecord, runs: &[&IterationRecord]) -> Vec<HostRow> {
    (0..record.generators.len() as u32).filter_map(|generator| row(runs, generator)).collect()
}

fn row(runs: &[&IterationRecord], generator: u32) -> Option<HostRow> {
    let part = |run: &&&IterationRecord| run.parts.iter().any(|part| part.generator == generator);
    let runs: Vec<&&IterationRecord> = runs.iter().filter(part).collect();
    let parts: Vec<&GeneratorPart> =
        runs.iter().flat_map(|run| &run.parts).filter(|part| part.generator == generator).collect();
    let worst = parts.iter().max_by_key(|part| part.clock.bound_ns)?;
    let furthest = parts.iter().max_by_key(|part| part.opening_skew_ns.unsigned_abs())?;
    let sum = |of: fn(&GeneratorPart) -> u64| parts.iter().map(|part| of(part) as f64).sum::<f64>();
    let (succeeded, failed) = (sum(|part| part.counts.succeeded), sum(|part| part.counts.failed));
    let window_s = runs.iter().map(|run| run.measured.window_ns as f64 / 1e9).sum::<f64>();
    let makers: Vec<(u64, LoadMaker<'_>)> = runs
        .iter()
        .flat_map(|run| run.load_makers().into_iter().map(|maker| (run.measured.window_ns, maker)))
        .filter(|(_, maker)| maker.generator == Some(generator))
        .collect();
    let busy = makers.iter().flat_map(|(window_ns, maker)| {
        maker.workers.iter().map(|worker| quotient(worker.worked_ns() as f64 * 100.0, *window_ns as f64))
    });
    let links = makers.iter().filter_map(|(_, maker)| link_percent(maker.host?));
    let times = |of: fn(&GeneratorPart) -> u64| median(parts.iter().map(|part| of(part)).collect()) / 1e9;
    Some(HostRow {
        generator,
        clients: parts.iter().map(|part| part.clients).max()?,
        request_rate: quotient(succeeded, window_s),
        errors_percent: quotient(failed * 100.0, succeeded + failed),
        p50_s: times(|part| part.response_p50_ns),
        p99_s: times(|part| part.response_p99_ns),
        worker_percent_max: busy.fold(0.0, f64::max),
        link_percent_max: links.reduce(f64::max),
        clock: worst.clock,
        opening_skew_ns: furthest.opening_skew_ns,
    })
}

/// The fullest link of a host in percent of its speed, in the busier direction; a loopback has none.
pub(crate) fn link_percent(host: &HostUse) -> Option<f64> {
    let links = host.links.iter().filter(|link| !link.loopback);
    let shares = links.filter_map(|link| {
        let speed = link.speed_bps.filter(|speed| *speed > 0)?;
        let bits = link.received_bytes.max(link.sent_bytes) as f64 * 8.0;
        Some(quotient(bits * 100.0, host.elapsed_ns as f64 / 1e9 * speed as f64))
    });
    shares.reduce(f64::max)
}

fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    match values.len() {
        0 => 0.0,
        all if all % 2 == 1 => values[all / 2] as f64,
        all => (values[all / 2 - 1] as f64 + values[all / 2] as f64) / 2.0,
    }
}

/// How many hosts the agents are on: agents with the same boot ID share one.
pub(crate) fn hosts_in_words<'a>(boots: impl ExactSizeIterator<Item = Option<&'a str>>) -> String {
    let agents = boots.len() as u64;
    let hosts = |number: u64| counted(number, "host", "hosts");
    match boots.collect::<Option<BTreeSet<&str>>>().map(|machines| machines.len() as u64) {
        // Agents with CPUs of their own, or pods, on one machine.
        Some(machines) if machines < agents => {
            format!("{} on {}", counted(agents, "agent", "agents"), hosts(machines))
        }
        _ => hosts(agents),
    }
}

/// Its own name, with the node of a pod; its number if it has no name.
pub(crate) fn name(host: &GeneratorRecord, generator: u32) -> String {
    match host.name.as_str() {
        "" => format!("generator {}", generator + 1),
        _ => host.place(),
    }
}

/// The hosts that differ from the others.
pub(crate) fn differing(record: &RunRecord) -> Vec<Differing> {
    if record.generators.is_empty() { Vec::new() } else { verdict::differing(record) }
}

/// Those hosts, a sentence each: in what they differ, by how much, and at which levels.
pub(crate) fn told(record: &RunRecord, differing: &[Differing]) -> Vec<String> {
    let mut hosts: Vec<u32> = differing.iter().map(|found| found.generator).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let of_host = |generator: u32| {
        let mut clauses: Vec<String> = Vec::new();
        for (quantity, is_above) in [
            ("median latency", true),
            ("median latency", false),
            ("rate per client", true),
            ("rate per client", false),
        ] {
            let found: Vec<&Differing> = differing
                .iter()
                .filter(|it| it.generator == generator && it.quantity == quantity)
                .filter(|it| (it.percent > 0.0) == is_above)
                .collect();
            if found.is_empty() {
                continue;
            }
            let offs = || found.iter().map(|it| it.percent.abs().floor());
            let (least, most) = (offs().fold(f64::INFINITY, f64::min), offs().fold(0.0, f64::max));
            let by =
                if least == most { format!("{least:.0} %") } else { format!("{least:.0} to {most:.0} %") };
            let levels: Vec<_> = found.iter().map(|it| it.level()).collect();
            let way = if is_above { "above" } else { "below" };
            clauses.push(format!(
                "its {quantity} was {by} {way} the median of all hosts at {}",
                levels_named(&levels)
            ));
        }
        let name = record.generator_named(generator);
        format!("{name} differs in every timed run: {}", clauses.join("; "))
    };
    hosts.into_iter().map(of_host).collect()
}

/// Timed runs that lost a host, or whose windows did not open together, each with its sentence: those that were repeated and
/// those that count.
pub(crate) fn failed(record: &RunRecord) -> Vec<String> {
    if record.generators.is_empty() {
        return Vec::new();
    }
    let voids = record.void_attempts();
    let kept = record.iterations.iter().map(|run| (run.key(), run));
    let of_hosts = |loss: &Loss| matches!(loss.kind, LossKind::Gone | LossKind::Apart);
    voids
        .chain(kept)
        .flat_map(|(key, run)| {
            let losses = verdict::losses(record, run).into_iter().filter(of_hosts);
            losses.map(|loss| format!("{key}: {}", loss.sentence())).collect::<Vec<_>>()
        })
        .collect()
}
