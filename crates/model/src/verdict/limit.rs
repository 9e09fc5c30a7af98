//! Which resource limited a level. Told as Mindcraft told it of the ProLiant 5000: a server whose CPUs are at their
//! ceiling is the limit; where they are not and the link carries what it can, the network is; and of neither can be
//! spoken where the generator had no more to give.

use std::collections::BTreeMap;

use super::bounds::{
    LINK_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX, SERVER_CPU_PERCENT_MAX, STOLEN_PERCENT_MAX,
    WORKER_CPU_PERCENT_MAX, busiest, counted, level, percent,
};
use super::rules::this_host;
use super::{LevelLimit, Limit, LimitingResource};
use crate::calibration;
use crate::record::{HostUse, IterationRecord, RunRecord, TcpUse};
use crate::server_figures::{ServerFigures, while_read};
use crate::spec::parse_cpu_list;

/// What limited the run, at its peak, and each level.
pub(super) fn limits(record: &RunRecord) -> (Limit, Vec<LevelLimit>) {
    let levels = record.levels();
    let rate = |runs: &[&IterationRecord]| {
        let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run) as f64).sum::<f64>();
        let window = sum(|run| run.measured.window_ns);
        if window > 0.0 { sum(|run| run.measured.counts.succeeded) / window } else { 0.0 }
    };
    let rates: Vec<f64> = levels.iter().map(|(_, runs)| rate(runs)).collect();
    let peak = (0..levels.len()).max_by(|a, b| rates[*a].total_cmp(&rates[*b]));
    let limits: Vec<LevelLimit> = levels
        .iter()
        .enumerate()
        .map(|(place, (clients, runs))| {
            let rising = Some(place) == peak && place + 1 == levels.len();
            LevelLimit { clients: *clients, rate: runs[0].rate, limit: of_level(record, runs, rising) }
        })
        .collect();
    let run = match peak {
        Some(peak) if rates[peak] > 0.0 => limits[peak].limit.clone(),
        _ => unknown("nothing was answered"),
    };
    (run, limits)
}

fn unknown(why: &str) -> Limit {
    Limit {
        resource: LimitingResource::Unknown,
        sentence: format!("The limiting resource cannot be told: {why}."),
    }
}

fn of_level(record: &RunRecord, runs: &[&IterationRecord], highest: bool) -> Limit {
    let generator = generator(runs);
    let server = server(record, runs);
    let link = link(runs);
    let at = level(runs[0]);
    let limit = |resource, sentence: String| Limit { resource, sentence };
    if let Some((text, _)) = generator.as_ref().filter(|(_, used)| *used >= WORKER_CPU_PERCENT_MAX) {
        return limit(
            LimitingResource::Generator,
            format!("The load generator limits at {at}: {text}; what the server could do more is not seen."),
        );
    }
    let origin = origin(record, runs);
    if let Some(found) = origin.as_ref().and_then(|origin| of_origin(record, origin, server.as_ref(), &at)) {
        return found;
    }
    let mut evidence: Vec<String> = Vec::new();
    if let Some((text, used)) = &server {
        if *used >= SERVER_CPU_PERCENT_MAX {
            let besides = besides(&[origin.as_ref(), generator.as_ref(), link.as_ref()]);
            return limit(
                LimitingResource::Server,
                format!("The server's CPU limits at {at}: {text}{besides}."),
            );
        }
        if let Some((generator, _)) = &generator
            && let Some((cpu, busy)) =
                shared_cpu(record, runs).filter(|(_, busy)| *busy >= SERVER_CPU_PERCENT_MAX)
        {
            return unknown(&format!(
                "at {at} server and generator share CPU {cpu}, which was busy for {busy:.0} % of the time: {text}, {generator}"
            ));
        }
        if let Some(busy) = server_cpus_busy(record, runs).filter(|busy| *busy >= SERVER_CPU_PERCENT_MAX) {
            // Where a kernel counts interrupts by themselves, the server's network work is in none of its processes.
            let text = format!(
                "{text}, and interrupts and other programs kept them busy for {busy:.0} % of the time in all"
            );
            return if *used * 2.0 >= busy {
                limit(LimitingResource::Server, format!("The server's CPU limits at {at}: {text}."))
            } else {
                unknown(&format!("at {at} other programs had the server's CPUs: {text}"))
            };
        }
        evidence.push(text.clone());
    }
    evidence.extend(origin.as_ref().map(|(text, _)| text.clone()));
    if let Some((text, used)) = &link {
        if *used >= LINK_PERCENT_MAX {
            let besides = besides(&[generator.as_ref(), server.as_ref(), origin.as_ref()]);
            return limit(LimitingResource::Network, format!("The network limits at {at}: {text}{besides}."));
        }
        evidence.push(text.clone());
    }
    evidence.extend(generator.as_ref().map(|(text, _)| text.clone()));
    if let Ok(quote) = calibration::quote(record)
        && let Some(share) =
            quote.levels.iter().find(|share| (share.clients, share.rate) == (runs[0].clients, runs[0].rate))
    {
        evidence.push(format!("{:.0} % of what it can do by its calibration", share.percent));
    }
    let kernel = kernel(runs);
    let Some(_) = server else {
        evidence.push(kernel);
        return unknown(&format!("at {at} the CPU of the server was not measured; {}", evidence.join(", ")));
    };
    let Some(_) = generator else { return unknown(&format!("at {at} no worker is in the record")) };
    if let Some((cpu, stolen)) = stolen(record, runs).filter(|(_, stolen)| *stolen >= STOLEN_PERCENT_MAX) {
        let evidence = evidence.join(", ");
        return unknown(&format!(
            "at {at} a hypervisor gave {stolen:.0} % of CPU {cpu} to others; {evidence}"
        ));
    }
    let hint = match highest {
        true => "; this was the highest level, and more clients may raise the rate",
        false => ", or the clients were too few to keep it busy",
    };
    let (neither, whose) = match origin {
        Some(_) => ("Neither proxy, origin, network", "proxy or the origin"),
        None => ("Neither server, network", "server"),
    };
    limit(
        LimitingResource::None,
        format!(
            "{neither} nor generator limits at {at}: {}; {kernel}. What limits is a lock, a queue or a \
             setting of the {whose}{hint}.",
            evidence.join(", ")
        ),
    )
}

/// Whether the origin behind a proxy limits: its own CPUs are at their ceiling, or those that it shares with the proxy are and
/// it has the larger part of them.
fn of_origin(
    record: &RunRecord,
    origin: &(String, f64),
    proxy: Option<&(String, f64)>,
    at: &str,
) -> Option<Limit> {
    let (origin_text, used) = origin;
    let (proxy_text, by_proxy) = proxy.map_or(("", 0.0), |(text, used)| (text.as_str(), *used));
    let behind = record.target.origin.as_ref()?;
    let shares = behind.cpus.iter().any(|cpu| record.target.cpus.contains(cpu));
    let all = if shares { used + by_proxy } else { *used };
    if all < SERVER_CPU_PERCENT_MAX {
        return None;
    }
    let besides = if proxy_text.is_empty() { String::new() } else { format!(" ({proxy_text})") };
    let sentence = match (shares, *used >= by_proxy) {
        (false, _) => format!(
            "The origin limits at {at}, not the proxy: {origin_text}{besides}; what the proxy could do more is not seen."
        ),
        (true, true) => format!(
            "The origin limits at {at}, not the proxy alone: they share CPUs, {origin_text} and {proxy_text}; what the \
             proxy could do more is not seen."
        ),
        (true, false) => {
            let sentence = format!(
                "The server's CPU limits at {at}: proxy and origin share CPUs, {proxy_text} and {origin_text}."
            );
            return Some(Limit { resource: LimitingResource::Server, sentence });
        }
    };
    Some(Limit { resource: LimitingResource::Origin, sentence })
}

/// The origin's CPU over all iterations, in words and in percent of the CPUs that it could use.
fn origin(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(String, f64)> {
    let behind = record.target.origin.as_ref()?;
    let cpus = Some(behind.cpus.len()).filter(|cpus| *cpus > 0)?;
    let figures = ServerFigures::of_origin(runs)?;
    let used = figures.cpu_percent / cpus as f64;
    Some((format!("the origin used {used:.0} % of its {}", counted(cpus as u64, "CPU", "CPUs")), used))
}

fn besides(others: &[Option<&(String, f64)>]) -> String {
    let texts: Vec<&str> = others.iter().flatten().map(|(text, _)| text.as_str()).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// The busiest worker of the busiest iteration, in words and in percent of its CPU.
fn generator(runs: &[&IterationRecord]) -> Option<(String, f64)> {
    let most = |a: &(_, f64, f64), b: &(_, f64, f64)| (a.1 + a.2).total_cmp(&(b.1 + b.2));
    let (worker, used, waited) = runs.iter().filter_map(|run| busiest(run)).max_by(most)?;
    let place = worker.cpu.map_or("its CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let busiest =
        if runs.iter().any(|run| run.measured.generator.workers.len() > 1) { "busiest " } else { "" };
    let waited_text = match waited >= RUN_QUEUE_PERCENT_MAX {
        true => format!(" and waited {waited:.0} % of the time for other programs to leave it"),
        false => String::new(),
    };
    Some((format!("the generator's {busiest}worker used {used:.0} % of {place}{waited_text}"), used + waited))
}

/// The server's CPU over all iterations, in words and in percent of the CPUs that it could use.
fn server(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(String, f64)> {
    own_use(record, runs).or_else(|| left_cpus(record, runs))
}

/// From the CPU time of the server's own processes.
fn own_use(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(String, f64)> {
    let (mut used_ns, mut window_ns) = (0.0, 0.0);
    for run in runs {
        let Some(server) = &run.server else { continue };
        used_ns += server.user_ns as f64 + server.system_ns as f64;
        window_ns += while_read(run).0;
    }
    let allowed = || {
        let text = record.environment.get("cpu.allowed")?.as_str()?;
        Some(parse_cpu_list(text).ok()?.len()).filter(|_| this_host(record) == Some(true))
    };
    let cpus = Some(server_cpus(record).len()).filter(|cpus| *cpus > 0).or_else(allowed)?;
    let cpus = match record.spec.server.threads as usize {
        threads @ 1.. if record.target.embedded => cpus.min(threads),
        _ => match record.target.software.as_ref().and_then(|software| software.cpus_max) {
            Some(most) => cpus.min(most as usize).max(1),
            None => cpus,
        },
    };
    let used = percent(used_ns, window_ns * cpus as f64);
    let who = if record.target.origin.is_some() { "proxy" } else { "server" };
    (used > 0.0)
        .then(|| (format!("the {who} used {used:.0} % of its {}", counted(cpus as u64, "CPU", "CPUs")), used))
}

/// CPUs that the server may run on, by the numbers of its own host.
fn server_cpus(record: &RunRecord) -> &[u32] {
    record.target.agent.as_ref().map_or(&record.target.cpus, |agent| &agent.cpus)
}

/// What the host that the server runs on counted.
fn server_host<'a>(record: &RunRecord, run: &'a IterationRecord) -> Option<&'a HostUse> {
    match record.target.agent {
        Some(_) => run.server_host.as_ref().map(|elsewhere| &elsewhere.host),
        None => run.host.as_ref(),
    }
}

/// How busy the CPUs were that the server was bound to, with whatever, and what a hypervisor took of them, in percent.
fn server_cpus_busy(record: &RunRecord, runs: &[&IterationRecord]) -> Option<f64> {
    let cpus = server_cpus(record);
    let mut sum = (0.0, 0.0);
    for run in runs {
        for cpu in server_host(record, run)?.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu)) {
            let busy = cpu.busy_ns as f64 + cpu.stolen_ns as f64;
            sum = (sum.0 + busy, sum.1 + busy + cpu.idle_ns as f64);
        }
    }
    (sum.1 > 0.0).then(|| percent(sum.0, sum.1))
}

/// The busiest CPU that server and generator share, by its number, and how busy it was, in percent.
fn shared_cpu(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(u32, f64)> {
    if record.target.agent.is_some() {
        return None;
    }
    let mut times: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for run in runs {
        let workers = || run.measured.generator.workers.iter().filter_map(|worker| worker.cpu);
        let shared = |cpu: u32| record.target.cpus.contains(&cpu) && workers().any(|worker| worker == cpu);
        for cpu in run.host.iter().flat_map(|host| &host.cpus).filter(|cpu| shared(cpu.cpu)) {
            let (busy, all) = times.entry(cpu.cpu).or_default();
            *busy += cpu.busy_ns as f64;
            *all += cpu.busy_ns as f64 + cpu.idle_ns as f64 + cpu.stolen_ns as f64;
        }
    }
    let shares = times.iter().map(|(cpu, (busy, all))| (*cpu, percent(*busy, *all)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The CPU of server and generator that a hypervisor took most of, by its number, and how much, in percent.
fn stolen(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(u32, f64)> {
    let mut times: BTreeMap<(bool, u32), (f64, f64)> = BTreeMap::new();
    for run in runs {
        let workers = || run.measured.generator.workers.iter().filter_map(|worker| worker.cpu);
        let is_ours = |cpu: u32| workers().any(|worker| worker == cpu);
        let is_servers = |cpu: u32| server_cpus(record).contains(&cpu);
        let here = run.host.iter().flat_map(|host| &host.cpus).map(|cpu| (false, cpu));
        let there = run.server_host.iter().flat_map(|there| &there.host.cpus).map(|cpu| (true, cpu));
        let servers_is_there = record.target.agent.is_some();
        for (is_there, cpu) in here.chain(there) {
            if (!is_there && is_ours(cpu.cpu)) || (is_there == servers_is_there && is_servers(cpu.cpu)) {
                let (stolen, all) = times.entry((is_there, cpu.cpu)).or_default();
                *stolen += cpu.stolen_ns as f64;
                *all += cpu.busy_ns as f64 + cpu.idle_ns as f64 + cpu.stolen_ns as f64;
            }
        }
    }
    let shares = times.iter().map(|((_, cpu), (stolen, all))| (*cpu, percent(*stolen, *all)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Of somebody else's server on this host: the CPUs that the generator's workers are not pinned to, taken together.
/// Whatever else runs there counts with it, so it is said.
fn left_cpus(record: &RunRecord, runs: &[&IterationRecord]) -> Option<(String, f64)> {
    if this_host(record) != Some(true) {
        return None;
    }
    let mut use_of: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for run in runs {
        let workers = &run.measured.generator.workers;
        let workers: Vec<u32> = workers.iter().map(|worker| worker.cpu).collect::<Option<_>>()?;
        for cpu in run.host.as_ref()?.cpus.iter().filter(|cpu| !workers.contains(&cpu.cpu)) {
            let (busy, all) = use_of.entry(cpu.cpu).or_default();
            *busy += cpu.busy_ns as f64;
            *all += cpu.busy_ns as f64 + cpu.idle_ns as f64 + cpu.stolen_ns as f64;
        }
    }
    let (busy, all) = use_of.values().fold((0.0, 0.0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
    let used = percent(busy, all);
    let left = counted(use_of.len() as u64, "CPU", "CPUs");
    (all > 0.0).then(|| {
        (format!("the {left} left to the server worked {used:.0} % of the time, for whomever"), used)
    })
}

/// The fullest link, in words and in percent of its speed in the busier direction. Nothing of a loopback, which has no
/// speed.
fn link(runs: &[&IterationRecord]) -> Option<(String, f64)> {
    let of_host = |(whose, host): (&str, &HostUse)| {
        let seconds = host.elapsed_ns as f64 / 1e9;
        let links = host.interfaces.iter().filter(|link| !link.loopback && seconds > 0.0);
        let full = links.filter_map(|link| {
            let speed = link.speed_bps.filter(|speed| *speed > 0)? as f64;
            let rates = [("received", link.received_bytes), ("sent", link.sent_bytes)];
            let (way, bytes) = rates.into_iter().max_by_key(|(_, bytes)| *bytes)?;
            let rate = bytes as f64 * 8.0 / seconds;
            let used = percent(rate, speed);
            let (rate, speed) = (rate / 1e6, speed / 1e6);
            Some((
                format!("{whose}{} {way} {rate:.0} Mbit/s, {used:.0} % of the link's {speed:.0}", link.name),
                used,
            ))
        });
        full.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let here = runs.iter().filter_map(|run| Some(("", run.host.as_ref()?)));
    let there = runs.iter().filter_map(|run| Some(("the server's ", &run.server_host.as_ref()?.host)));
    here.chain(there).filter_map(of_host).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What the kernels counted that a server at its limit makes them count.
fn kernel(runs: &[&IterationRecord]) -> String {
    let here = counters("this host's", runs.iter().filter_map(|run| run.host.as_ref()?.tcp));
    let there = runs.iter().filter_map(|run| run.server_host.as_ref()?.host.tcp);
    match counters("the server's", there) {
        Some(there) => format!("{}, {there}", here.unwrap_or_default()).trim_start_matches(", ").to_owned(),
        None => here.unwrap_or_else(|| "the kernel's counters were not read".to_owned()),
    }
}

fn counters(whose: &str, counted_in: impl Iterator<Item = TcpUse>) -> Option<String> {
    let mut sum = TcpUse::default();
    let mut known = false;
    for tcp in counted_in {
        known = true;
        sum.listen_overflows = sum.listen_overflows.saturating_add(tcp.listen_overflows);
        sum.retransmitted = sum.retransmitted.saturating_add(tcp.retransmitted);
        sum.syn_retransmitted = sum.syn_retransmitted.saturating_add(tcp.syn_retransmitted);
        sum.segments_sent = sum.segments_sent.saturating_add(tcp.segments_sent);
    }
    known.then(|| {
        format!(
            "{whose} kernel counted {}, {} of {} sent again ({} of them SYN)",
            counted(sum.listen_overflows, "listen-queue overflow", "listen-queue overflows"),
            sum.retransmitted,
            counted(sum.segments_sent, "segment", "segments"),
            sum.syn_retransmitted
        )
    })
}
