//! Which resource limited a level. Told as Mindcraft told it of the ProLiant 5000: a server whose CPUs are at their
//! ceiling is the limit; where they are not and the link carries what it can, the network is; and of neither can be
//! spoken where the generator had no more to give.

use std::collections::BTreeMap;

use super::bounds::{
    LINK_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX, SERVER_CPU_PERCENT_MAX, WORKER_CPU_PERCENT_MAX, busiest,
    counted, level, percent,
};
use super::rules::this_host;
use super::{LevelLimit, Limit, LimitingResource};
use crate::calibration;
use crate::record::{IterationRecord, RunRecord, TcpUse};
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
    let mut evidence: Vec<String> = Vec::new();
    if let Some((text, used)) = &server {
        if *used >= SERVER_CPU_PERCENT_MAX {
            let besides = besides(&[generator.as_ref(), link.as_ref()]);
            return limit(
                LimitingResource::Server,
                format!("The server's CPU limits at {at}: {text}{besides}."),
            );
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
    if let Some((text, used)) = &link {
        if *used >= LINK_PERCENT_MAX {
            let besides = besides(&[generator.as_ref(), server.as_ref()]);
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
    let hint = match highest {
        true => "; this was the highest level, and more clients may raise the rate",
        false => ", or the clients were too few to keep it busy",
    };
    limit(
        LimitingResource::None,
        format!(
            "Neither server, network nor generator limits at {at}: {}; {kernel}. What limits is a lock, a queue or a \
             setting of the server{hint}.",
            evidence.join(", ")
        ),
    )
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
        let Some(server) = run.server else { continue };
        used_ns += server.user_ns as f64 + server.system_ns as f64;
        window_ns += run.measured.window_ns as f64;
    }
    let allowed = || {
        let text = record.environment.get("cpu.allowed")?.as_str()?;
        Some(parse_cpu_list(text).ok()?.len()).filter(|_| this_host(record) == Some(true))
    };
    let cpus = Some(record.target.cpus.len()).filter(|cpus| *cpus > 0).or_else(allowed)?;
    let cpus = match record.spec.server.threads as usize {
        threads @ 1.. if record.target.embedded => cpus.min(threads),
        _ => cpus,
    };
    let used = percent(used_ns, window_ns * cpus as f64);
    (used > 0.0).then(|| {
        (format!("the server used {used:.0} % of its {}", counted(cpus as u64, "CPU", "CPUs")), used)
    })
}

/// How busy the CPUs were that the server was bound to, with whatever, and what a hypervisor took of them, in percent.
fn server_cpus_busy(record: &RunRecord, runs: &[&IterationRecord]) -> Option<f64> {
    let mut sum = (0.0, 0.0);
    for run in runs {
        for cpu in run.host.as_ref()?.cpus.iter().filter(|cpu| record.target.cpus.contains(&cpu.cpu)) {
            let busy = cpu.busy_ns as f64 + cpu.stolen_ns as f64;
            sum = (sum.0 + busy, sum.1 + busy + cpu.idle_ns as f64);
        }
    }
    (sum.1 > 0.0).then(|| percent(sum.0, sum.1))
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
    let of_run = |run: &&IterationRecord| {
        let host = run.host.as_ref()?;
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
                format!("{} {way} {rate:.0} Mbit/s, {used:.0} % of the link's {speed:.0}", link.name),
                used,
            ))
        });
        full.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    runs.iter().filter_map(of_run).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What the kernel counted that a server at its limit makes it count.
fn kernel(runs: &[&IterationRecord]) -> String {
    let mut sum = TcpUse::default();
    let mut known = false;
    for tcp in runs.iter().filter_map(|run| run.host.as_ref()?.tcp) {
        known = true;
        sum.listen_overflows = sum.listen_overflows.saturating_add(tcp.listen_overflows);
        sum.retransmitted = sum.retransmitted.saturating_add(tcp.retransmitted);
        sum.syn_retransmitted = sum.syn_retransmitted.saturating_add(tcp.syn_retransmitted);
        sum.segments_sent = sum.segments_sent.saturating_add(tcp.segments_sent);
    }
    if !known {
        return "the kernel's counters were not read".to_owned();
    }
    format!(
        "this host's kernel counted {}, {} of {} sent again ({} of them SYN)",
        counted(sum.listen_overflows, "listen-queue overflow", "listen-queue overflows"),
        sum.retransmitted,
        counted(sum.segments_sent, "segment", "segments"),
        sum.syn_retransmitted
    )
}
