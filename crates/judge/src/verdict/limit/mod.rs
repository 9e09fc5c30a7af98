//! What limited each level, and the run at its peak: the order in which resources are checked, and the sentences. Each
//! resource has a file of its own.
//!
//! A sentence must never say what the tables of its own record refute. So a bottleneck is named only where something was at its
//! ceiling, or where both sides were idle while answers were due; of everything between, the figures are given and nothing is
//! claimed.

mod generator;
mod network;
mod offered;
mod origin;
mod path;
mod processors;
mod server;
#[cfg(test)]
mod tests;
mod waiting;

use super::bounds::{LINK_PERCENT_MAX, SERVER_CPU_PERCENT_MAX, STOLEN_PERCENT_MAX, WORKER_CPU_PERCENT_MAX};
use super::disturbance::{Loss, LossKind, losses};
use super::server_hosts;
use super::{LevelLimit, LevelVerdict, Limit, LimitingResource};
use crate::calibration;
use generator::Generator;
pub use network::link_percent;
use processors::Processors;
use server::Server;
use webstone_model::record::{IterationRecord, RunRecord};

/// CPU time of a thread in percent of the window, from which on one CPU is its ceiling: as for a worker of the generator.
const THREAD_CPU_PERCENT_MAX: f64 = WORKER_CPU_PERCENT_MAX;
/// What other programs took of the server's CPUs, in percent, from which on it is unknown what the server would have done with it.
const OTHERS_PERCENT_MAX: f64 = 5.0;
/// Time for which a quota throttled the server, in percent of the window, from which on the quota limits.
const QUOTA_PERCENT_MAX: f64 = 5.0;
/// The busiest CPU of the server and the busiest worker of the generator, added, in percent: up to here both are idle. They may
/// work in turn, so that what one leaves free is the other's time; below half, most of an answer's time was spent on neither.
const IDLE_PERCENT_MAX: f64 = 50.0;

/// What limited the run, at its peak, and each level. What each level is worth decides which may be the peak, as in reports.
pub(super) fn limits(record: &RunRecord, judged: &[LevelVerdict]) -> (Limit, Vec<LevelLimit>) {
    let levels = record.levels();
    let rates: Vec<f64> = levels.iter().map(|(_, runs)| rate(runs)).collect();
    let by_rate = |a: &usize, b: &usize| rates[*a].total_cmp(&rates[*b]);
    let counts = |place: &usize| judged[*place].standing.is_conclusive() && rates[*place] > 0.0;
    let peak = (0..levels.len()).filter(counts).max_by(by_rate);
    let peak = peak.or_else(|| (0..levels.len()).max_by(by_rate));
    let limits: Vec<LevelLimit> = levels
        .iter()
        .enumerate()
        .map(|(place, (key, runs))| {
            let IterationRecord { clients, rate, .. } = *runs[0];
            let below: Vec<(u32, f64)> = levels[..place]
                .iter()
                .zip(&rates)
                .filter(|((_, below), _)| below[0].rate.is_none() && rate.is_none())
                .map(|((_, below), rate)| (below[0].clients, *rate))
                .collect();
            let limit = match rates[place] > 0.0 {
                true => of_level(record, runs, waiting::plateau(clients, rates[place], &below)),
                false => unknown(&key.to_string(), "nothing was answered"),
            };
            LevelLimit { clients, rate, limit }
        })
        .collect();
    let run = match peak {
        Some(peak) => limits[peak].limit.clone(),
        None => Limit {
            resource: LimitingResource::Unknown,
            sentence: "The bottleneck is unknown: nothing was measured.".to_owned(),
        },
    };
    (run, limits)
}

/// Valid responses per nanosecond.
fn rate(runs: &[&IterationRecord]) -> f64 {
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run) as f64).sum::<f64>();
    let window = sum(|run| run.measured.window_ns);
    if window > 0.0 { sum(|run| run.measured.counts.succeeded) / window } else { 0.0 }
}

fn limit(resource: LimitingResource, sentence: String) -> Limit {
    Limit { resource, sentence }
}

fn unknown(at: &str, why: &str) -> Limit {
    limit(LimitingResource::Unknown, format!("The bottleneck at {at} is unknown: {why}."))
}

/// ` (a, b)`, or nothing.
fn besides(texts: &[Option<String>]) -> String {
    let texts: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// A host of the server over all iterations of a level.
struct Host {
    agent: Option<u32>,
    server: Option<Server>,
    processors: Option<Processors>,
}

impl Host {
    /// All hosts of the server, the busiest first: where any was at its limit, that one was.
    fn all(record: &RunRecord, runs: &[&IterationRecord]) -> Vec<Host> {
        let mut hosts: Vec<Host> = server_hosts::agents(record)
            .into_iter()
            .map(|agent| Host {
                agent,
                server: Server::of_level(record, runs, agent),
                processors: Processors::of_level(record, runs, agent),
            })
            .collect();
        hosts.sort_by(|a, b| b.busiest().total_cmp(&a.busiest()));
        hosts
    }

    /// Its busiest CPU, or the most that a thread of the server wanted of one; but no more than the server wanted in all, where that
    /// is known: then it does not matter what else kept its CPUs busy.
    fn busiest(&self) -> f64 {
        let of_cpus = self.processors.as_ref().map_or(0.0, |processors| processors.busiest);
        let most = of_cpus.max(self.server.as_ref().map_or(0.0, Server::wanted));
        self.wanted_in_all().map_or(most, |wanted| most.min(wanted))
    }

    /// What the server wanted of its CPUs, with their interrupts, which may be its own, in percent of one.
    fn wanted_in_all(&self) -> Option<f64> {
        let interrupts = self.processors.as_ref().map_or(0.0, |processors| processors.interrupts_most);
        Some(self.server.as_ref()?.wanted_in_all()? + interrupts)
    }
}

fn of_level(record: &RunRecord, runs: &[&IterationRecord], plateau: Option<u32>) -> Limit {
    let at = runs[0].level().to_string();
    let generator = Generator::of_level(runs);
    let hosts = Host::all(record, runs);
    let busiest_host = &hosts[0];
    let origin = Server::of_origin(record, runs);
    let link = network::link(record, runs);
    let generator_text = generator.as_ref().map(Generator::text);
    let server_text = busiest_host.server.as_ref().map(Server::text);
    let origin_text = origin.as_ref().map(Server::text);
    let link_text = link.as_ref().map(|link| link.text.clone());

    if offered::is_delivered(runs) {
        let besides = besides(&[server_text, origin_text, generator_text]);
        return limit(
            LimitingResource::OfferedRate,
            format!("The offered rate is the limit at {at}: the server kept up with it{besides}."),
        );
    }
    if let Some(generator) = generator.as_ref().filter(|it| it.used >= WORKER_CPU_PERCENT_MAX) {
        return limit(
            LimitingResource::Generator,
            format!(
                "{} is the bottleneck at {at}: {}. What the server can do beyond that is unknown.",
                generator.name(),
                generator.text()
            ),
        );
    }
    if let Some(generator) = generator.as_ref().filter(|it| it.wanted() >= WORKER_CPU_PERCENT_MAX) {
        return unknown(&at, &generator.text());
    }
    let relay = path::relay(runs);
    if let Some(used) = relay.filter(|used| used.cpu_percent() >= WORKER_CPU_PERCENT_MAX) {
        let besides = besides(&[server_text, origin_text, generator_text]);
        let what = path::text(used);
        return limit(
            LimitingResource::Network,
            format!(
                "The relay of the path is the bottleneck at {at}: {what}{besides}. What the server can do is unknown."
            ),
        );
    }
    if let Some(lines) = network::full_lines(record, runs) {
        let besides = besides(&[server_text, origin_text, generator_text]);
        return limit(
            LimitingResource::Network,
            format!("The bandwidth of the clients is the bottleneck at {at}: {lines}{besides}."),
        );
    }
    let proxy = busiest_host.server.as_ref();
    if let Some(found) = origin.as_ref().and_then(|it| origin::limits(record, it, proxy, &at)) {
        return found;
    }
    let besides_hosts = besides(&[origin_text.clone(), generator_text.clone(), link_text.clone()]);
    let at_ceiling = |host: &Host| host.server.as_ref()?.at_ceiling(&at, &besides_hosts);
    if let Some(found) = hosts.iter().find_map(at_ceiling) {
        return found;
    }
    if let Some(link) = link.as_ref().filter(|link| link.used >= LINK_PERCENT_MAX) {
        let besides = besides(&[generator_text, server_text, origin_text]);
        return limit(
            LimitingResource::Network,
            format!("The network is the bottleneck at {at}: {}{besides}.", link.text),
        );
    }
    let figures: Vec<String> = [
        server_text,
        busiest_host.server.as_ref().and_then(Server::waited_text),
        busiest_host.processors.as_ref().and_then(Processors::text),
        origin_text,
        link_text,
        relay.map(path::text),
        generator_text,
        of_calibration(record, runs),
    ]
    .into_iter()
    .flatten()
    .collect();
    let figures = figures.join(", ");
    let trouble = network::trouble(record, runs).map_or(String::new(), |text| format!(", {text}"));
    let told = |why: &str| unknown(&at, &format!("{why}; {figures}{trouble}"));
    if let Some(host) = hosts.iter().find(|host| host.server.is_none()) {
        let left = host.processors.as_ref().and_then(Processors::left_to_it);
        let seen = left.map_or(String::new(), |text| format!(", {text}"));
        let who = server_hosts::named(record, host.agent);
        let why = format!("the CPU time of {who} was not measured{seen}");
        return unknown(&at, &format!("{why}; {}; {figures}", network::kernel(record, runs)));
    }
    let Some(generator) = generator else { return told("no worker of the generator is in the record") };
    if hosts.iter().any(|host| host.processors.is_none()) {
        return told("what ran on the server's CPUs was not measured");
    }
    let processors = || hosts.iter().filter_map(|host| host.processors.as_ref());
    let stolen = processors().filter_map(|it| it.stolen.as_ref()).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((cpu, stolen)) = stolen.filter(|(_, stolen)| *stolen >= STOLEN_PERCENT_MAX) {
        return told(&format!("the hypervisor gave {stolen:.0} % of {cpu} to others"));
    }
    // A server that neither ran nor waited for a CPU lacked none, whatever kept them busy.
    let is_idle = record.target.origin.is_none()
        && hosts.iter().all(|host| {
            host.wanted_in_all().is_some_and(|wanted| wanted + generator.wanted() <= IDLE_PERCENT_MAX)
        });
    let shared = processors().filter_map(|it| it.shared).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((cpu, busy)) = shared.filter(|(_, busy)| *busy >= SERVER_CPU_PERCENT_MAX && !is_idle) {
        return told(&format!("server and generator share CPU {cpu}, which was {busy:.0} % busy"));
    }
    let by_others = hosts.iter().find(|host| {
        let others = host.processors.as_ref().and_then(|it| it.others);
        others.is_some_and(|others| others >= OTHERS_PERCENT_MAX)
            && host.busiest() + generator.wanted() > IDLE_PERCENT_MAX
    });
    if let Some(host) = by_others {
        return told(&format!("other programs ran on {}", cpus_of(record, host)));
    }
    let matters = |loss: &Loss| {
        !(matches!(loss.kind, LossKind::Crowded | LossKind::LeftOut) || is_idle && loss.by_programs)
    };
    if let Some(loss) = runs.iter().find_map(|run| losses(record, run).into_iter().find(matters)) {
        return told(&loss.sentence());
    }
    let of_itself = |host: &Host| {
        let (server, processors) = (host.server.as_ref()?, host.processors.as_ref()?);
        // Alone on its CPUs, it can only have waited for itself.
        let is_alone = processors.shared.is_none() && origin.is_none();
        let in_its_own_way =
            || server.in_its_own_way(&at).filter(|_| is_alone && processors.others.is_some());
        server.with_interrupts(&at, processors).or_else(in_its_own_way)
    };
    if let Some(found) = hosts.iter().find_map(of_itself) {
        return found;
    }
    let origin_busy = match (&origin, &record.target.origin) {
        (Some(origin), _) => processors().map(|it| it.origin_busiest).fold(origin.wanted(), f64::max),
        (None, Some(_)) => return told("the CPU time of the origin was not measured"),
        (None, None) => 0.0,
    };
    if busiest_host.busiest() + origin_busy + generator.wanted() > IDLE_PERCENT_MAX {
        return told("no CPU was clearly at its limit, but server and generator were not mostly idle either");
    }
    waiting::limits(record, runs, &at, &figures, plateau)
}

fn cpus_of(record: &RunRecord, host: &Host) -> String {
    match host.agent {
        None => "the server's CPUs".to_owned(),
        Some(_) => format!("CPUs of {}", server_hosts::named(record, host.agent)),
    }
}

fn of_calibration(record: &RunRecord, runs: &[&IterationRecord]) -> Option<String> {
    let quote = calibration::quote(record).ok()?;
    let share = quote.levels.iter().find(|share| share.key() == runs[0].level())?;
    Some(format!("{:.0} % of what it can do by its calibration", share.percent))
}
