//! Links towards the target, and what the kernels' TCP counters say.

use std::collections::BTreeMap;

use crate::verdict::bounds::{counted, percent};
use webstone_model::record::{HostUse, IterationRecord, TcpUse};

/// A link, in words, and in percent of its speed in the busier direction.
pub(super) struct Link {
    pub(super) text: String,
    pub(super) used: f64,
}

/// The fullest link over all iterations of a level. Nothing of a loopback, which has no speed.
pub(super) fn link(runs: &[&IterationRecord]) -> Option<Link> {
    let here = fullest("", runs.iter().filter_map(|run| run.host.as_ref()));
    let there = runs.iter().filter_map(|run| Some(&run.server_host.as_ref()?.host));
    let there = fullest("the server's ", there);
    here.into_iter().chain(there).max_by(|a, b| a.used.total_cmp(&b.used))
}

/// How much of its speed the fullest link uses, in percent.
pub fn link_percent(runs: &[&IterationRecord]) -> Option<f64> {
    link(runs).map(|link| link.used)
}

fn fullest<'a>(whose: &str, hosts: impl Iterator<Item = &'a HostUse>) -> Option<Link> {
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
        Link {
            text: format!("{whose}{name} {way} {rate:.0} Mbit/s, {used:.0} % of the link's {speed:.0}"),
            used,
        }
    });
    links.max_by(|a, b| a.used.total_cmp(&b.used))
}

/// The same where connections were made to wait: no load makes a server do that whose queue is long enough.
pub(super) fn trouble(runs: &[&IterationRecord]) -> Option<String> {
    let hosts =
        runs.iter().flat_map(|run| run.host.iter().chain(run.server_host.as_ref().map(|there| &there.host)));
    let has_any =
        hosts.filter_map(|host| host.tcp).any(|tcp| tcp.listen_overflows + tcp.syn_retransmitted > 0);
    has_any.then(|| kernel(runs))
}

/// What the kernels counted that a server at its limit makes them count.
pub(super) fn kernel(runs: &[&IterationRecord]) -> String {
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
            "{whose} kernel counted {} and {} of {} retransmitted ({} of them SYN)",
            counted(sum.listen_overflows, "accept-queue overflow", "accept-queue overflows"),
            sum.retransmitted,
            counted(sum.segments_sent, "segment", "segments"),
            sum.syn_retransmitted
        )
    })
}
