//! Links towards the target, and what the kernels' TCP counters say: of every host that made load, and of the server's.

use std::collections::BTreeMap;

use super::super::rules::this_host;
use crate::verdict::bounds::{LINK_PERCENT_MAX, counted, percent};
use webstone_model::record::{HostUse, IterationRecord, RunRecord, TcpUse};
use webstone_model::spec::HttpVersion;

/// Hosts whose kernels are reported one by one.
const KERNELS_MAX: usize = 4;

/// A link, in words, and in percent of its speed in the busier direction.
pub(super) struct FullestInterface {
    pub(super) text: String,
    pub(super) used: f64,
}

/// The fullest link over all iterations of a level. `None` for a loopback, which has no speed.
pub(super) fn link(record: &RunRecord, runs: &[&IterationRecord]) -> Option<FullestInterface> {
    let here = makers(runs).into_iter().filter_map(|(generator, hosts)| {
        let whose = generator.map(|number| format!("generator {}'s ", number + 1)).unwrap_or_default();
        fullest(&whose, hosts.into_iter())
    });
    let there = servers(record, runs).into_iter().filter_map(|(agent, hosts)| {
        let whose =
            agent.map_or("the server's ".to_owned(), |it| format!("{}'s ", record.server_host_named(it)));
        fullest(&whose, hosts.into_iter())
    });
    here.chain(there).max_by(|a, b| a.used.total_cmp(&b.used))
}

/// How full the clients' lines were while they waited for answers, if each has a line of its own and waited for
/// that.
pub(super) fn full_lines(record: &RunRecord, runs: &[&IterationRecord]) -> Option<String> {
    let line = record.spec.client.bandwidth?;
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
    let bytes = sum(|run| run.measured.response_bytes.sum);
    let used = percent(line.time_of(bytes).0 as f64, sum(|run| run.measured.response.sum) as f64).min(100.0);
    (used >= LINK_PERCENT_MAX)
        .then(|| format!("{} for each, {used:.0} % of it used while answers were due", line.in_words()))
}

/// What the kernels of the hosts that made the load counted, host by host.
fn makers<'a>(runs: &[&'a IterationRecord]) -> BTreeMap<Option<u32>, Vec<&'a HostUse>> {
    let mut hosts: BTreeMap<Option<u32>, Vec<&HostUse>> = BTreeMap::new();
    for maker in runs.iter().flat_map(|run| run.load_makers()) {
        hosts.entry(maker.generator).or_default().extend(maker.host);
    }
    hosts
}

/// How much of its speed the fullest link uses, in percent.
pub fn link_percent(record: &RunRecord, runs: &[&IterationRecord]) -> Option<f64> {
    link(record, runs).map(|link| link.used)
}

fn fullest<'a>(whose: &str, hosts: impl Iterator<Item = &'a HostUse>) -> Option<FullestInterface> {
    let mut sums: BTreeMap<&str, (f64, f64, f64, f64)> = BTreeMap::new();
    for host in hosts {
        for link in host.links.iter().filter(|link| !link.loopback) {
            let Some(speed) = link.speed_bps.filter(|speed| *speed > 0) else { continue };
            let sum = sums.entry(&link.name).or_default();
            sum.0 += link.received_bytes as f64 * 8.0;
            sum.1 += link.sent_bytes as f64 * 8.0;
            sum.2 += host.elapsed_ns as f64 / 1e9;
            sum.3 = speed as f64;
        }
    }
    let links = sums.iter().filter(|(_, (.., seconds, _))| *seconds > 0.0).map(|(name, sum)| {
        let (received, sent, seconds, speed) = sum;
        let (way, bits) = if received >= sent { ("received", received) } else { ("sent", sent) };
        let rate = bits / seconds;
        let used = percent(rate, *speed);
        let (rate, speed) = (rate / 1e6, speed / 1e6);
        FullestInterface {
            text: format!("{whose}{name} {way} {rate:.0} Mbit/s, {used:.0} % of the link's {speed:.0}"),
            used,
        }
    });
    links.max_by(|a, b| a.used.total_cmp(&b.used))
}

/// The same if connections had to wait: with a queue that is long enough, no load makes a server do that.
pub(super) fn trouble(record: &RunRecord, runs: &[&IterationRecord]) -> Option<String> {
    let makers = makers(runs).into_values().flatten();
    let has_any = makers
        .chain(servers_kernels(record, runs).into_values().flatten())
        .filter_map(|host| Some((host, host.tcp?)))
        .any(|(host, tcp)| {
            let dropped = host.datagram_drops.or(host.listener_drops).unwrap_or(tcp.listen_overflows);
            dropped > 0 || tcp.syn_retransmitted > 0
        });
    has_any.then(|| kernel(record, runs))
}

/// The server's hosts that agents looked at, each network namespace once; of several by their agents.
fn servers<'a>(record: &RunRecord, runs: &[&'a IterationRecord]) -> BTreeMap<Option<u32>, Vec<&'a HostUse>> {
    let is_alone = record.target.agents.len() < 2;
    let mut hosts: BTreeMap<Option<u32>, Vec<&HostUse>> = BTreeMap::new();
    for there in runs.iter().flat_map(|run| run.server_networks()) {
        hosts.entry((!is_alone).then_some(there.agent)).or_default().push(&there.host);
    }
    hosts
}

/// The same, and the controller's host where the server is there and other hosts made the load.
fn servers_kernels<'a>(
    record: &RunRecord,
    runs: &[&'a IterationRecord],
) -> BTreeMap<Option<u32>, Vec<&'a HostUse>> {
    let mut hosts = servers(record, runs);
    if !record.generators.is_empty() && this_host(record) == Some(true) {
        let here = runs.iter().filter(|run| run.server_hosts.is_empty()).filter_map(|run| run.host.as_ref());
        let here: Vec<&HostUse> = here.collect();
        if !here.is_empty() {
            hosts.entry(None).or_default().extend(here);
        }
    }
    hosts
}

/// What the kernels counted that is typical of a server at its limit.
pub(super) fn kernel(record: &RunRecord, runs: &[&IterationRecord]) -> String {
    if record.spec.client.http == HttpVersion::Http3 {
        return datagrams(record, runs);
    }
    let makers = makers(runs);
    let of_makers: Vec<String> = match makers.len() > KERNELS_MAX {
        true => counters("the load generators' kernels", makers.into_values().flatten().collect())
            .into_iter()
            .collect(),
        false => makers
            .into_iter()
            .filter_map(|(generator, hosts)| {
                let whose = generator.map(|number| format!("generator {}'s kernel", number + 1));
                counters(whose.as_deref().unwrap_or("this host's kernel"), hosts)
            })
            .collect(),
    };
    let servers = servers_kernels(record, runs);
    let of_servers: Vec<String> = match servers.len() > KERNELS_MAX {
        true => counters("the kernels of the server's hosts", servers.into_values().flatten().collect())
            .into_iter()
            .collect(),
        false => servers
            .into_iter()
            .filter_map(|(agent, hosts)| {
                let whose = agent.map(|agent| format!("{}'s kernel", record.server_host_named(agent)));
                counters(whose.as_deref().unwrap_or("the server's kernel"), hosts)
            })
            .collect(),
    };
    let all: Vec<String> = of_makers.into_iter().chain(of_servers).collect();
    match all.is_empty() {
        true => "the kernel's counters were not read".to_owned(),
        false => all.join(", "),
    }
}

/// What the server's UDP sockets dropped. What else became of datagrams, no kernel counts.
fn datagrams(record: &RunRecord, runs: &[&IterationRecord]) -> String {
    let of = |hosts: BTreeMap<Option<u32>, Vec<&HostUse>>| {
        hosts.into_values().flatten().filter_map(|host| host.datagram_drops).reduce(u64::saturating_add)
    };
    match of(servers_kernels(record, runs)).or_else(|| of(makers(runs))) {
        Some(dropped) => {
            format!("the server's UDP sockets dropped {}", counted(dropped, "datagram", "datagrams"))
        }
        None => "what the server's UDP sockets dropped is unknown".to_owned(),
    }
}

/// What a kernel counted. Overflows are those of all sockets of its host, unless it reported what the server's own dropped.
fn counters(whose: &str, hosts: Vec<&HostUse>) -> Option<String> {
    let (mut sum, mut dropped) = (TcpUse::default(), Some(0_u64));
    let mut known = false;
    for host in hosts {
        let Some(tcp) = host.tcp else { continue };
        known = true;
        sum = sum.plus(tcp);
        dropped = dropped.zip(host.listener_drops).map(|(sum, more)| sum.saturating_add(more));
    }
    let (queues, its) = match dropped {
        Some(dropped) => {
            let requests = counted(dropped, "connection request", "connection requests");
            (format!("the server's listening sockets dropped {requests}, "), String::new())
        }
        None => {
            let overflows = counted(sum.listen_overflows, "accept-queue overflow", "accept-queue overflows");
            (String::new(), format!("{overflows} of any program and "))
        }
    };
    known.then(|| {
        format!(
            "{queues}{whose} counted {its}{} of {} retransmitted ({} of them SYN)",
            sum.retransmitted,
            counted(sum.segments_sent, "segment", "segments"),
            sum.syn_retransmitted
        )
    })
}
