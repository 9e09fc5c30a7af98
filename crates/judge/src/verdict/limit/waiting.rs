//! Both sides were idle and answers were due: what the server may have waited for. Its CPU time cannot show it, so the evidence
//! is given and nothing more is claimed.

use super::{limit, network, unknown};
use crate::verdict::bounds::percent;
use crate::verdict::{Limit, LimitingResource};
use webstone_measure::server_figures::ServerFigures;
use webstone_model::record::{IterationRecord, RunRecord};

/// A level with at most this many clients, in percent of this one's, and as high a rate shows that more clients would not help.
const FEWER_CLIENTS_PERCENT: f64 = 80.0;
/// With fewer requests in progress no client waits for answers: clients think, or ask nothing.
const IN_PROGRESS_MIN: f64 = 0.5;
/// Rates that differ by at most this, in percent, count as the same.
const SAME_RATE_PERCENT: f64 = 5.0;

/// The fewest clients of a lower level that got the same rate as this one. `below`: each level's clients and rate.
pub(super) fn plateau(clients: u32, rate: f64, below: &[(u32, f64)]) -> Option<u32> {
    let is_fewer = |fewer: u32| f64::from(fewer) * 100.0 <= f64::from(clients) * FEWER_CLIENTS_PERCENT;
    let is_same = |other: f64| percent((rate - other).abs(), rate) <= SAME_RATE_PERCENT;
    below.iter().find(|(fewer, other)| is_fewer(*fewer) && is_same(*other)).map(|(fewer, _)| *fewer)
}

pub(super) fn limits(
    record: &RunRecord,
    runs: &[&IterationRecord],
    at: &str,
    figures: &str,
    plateau: Option<u32>,
) -> Limit {
    let in_progress = in_progress(runs);
    if in_progress < IN_PROGRESS_MIN {
        let why = format!("only {in_progress:.1} requests were in progress on average; {figures}");
        return unknown(at, &why);
    }
    let whose = if record.target.origin.is_some() { "proxy or the origin" } else { "server" };
    let cause = match plateau {
        Some(fewer) => format!(
            "A lock, a queue, a rate limit, a disk, a backend or a setting of the {whose} is the limit: {fewer} clients had the same rate to \
             within {SAME_RATE_PERCENT} %"
        ),
        None => format!(
            "Answers wait for a lock, a queue, a rate limit, a disk, a backend or a setting of the {whose}; or the clients are too few to \
             keep it busy"
        ),
    };
    let mut evidence = vec![network::kernel(record, runs)];
    evidence.extend(disks(runs));
    evidence.extend(workers(runs));
    limit(
        LimitingResource::None,
        format!(
            "Neither CPU nor network is the bottleneck at {at}: {figures}. {cause}. Also seen: {}.",
            evidence.join(", ")
        ),
    )
}

/// Mean number of requests in progress: Little's load factor.
fn in_progress(runs: &[&IterationRecord]) -> f64 {
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run) as f64).sum::<f64>();
    sum(|run| run.measured.counts.busy_ns) / sum(|run| run.measured.window_ns).max(1.0)
}

/// What disks did for the server.
fn disks(runs: &[&IterationRecord]) -> Option<String> {
    let used = ServerFigures::of_runs(runs)?.processes?;
    let read = used.disk_read_bytes_per_s.filter(|bytes| *bytes > 0.0);
    let read = read.map(|bytes| format!("disks read {:.1} kB/s for the server", bytes / 1e3));
    let disk_wait = used.disk_wait_percent.filter(|percent| *percent >= 1.0);
    let disk_wait =
        disk_wait.map(|percent| format!("the server waited for a disk {percent:.0} % of the time"));
    let waited = (used.faults_major_per_s > 0.0)
        .then(|| format!("{:.1} page faults per second waited for a disk", used.faults_major_per_s));
    let texts: Vec<String> = read.into_iter().chain(waited).chain(disk_wait).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Fewer threads than requests in progress: if a thread serves one request at a time, the other requests wait.
fn workers(runs: &[&IterationRecord]) -> Option<String> {
    let threads = ServerFigures::of_runs(runs)?.processes?.threads_max;
    let in_progress = in_progress(runs);
    (threads > 0 && in_progress > threads as f64).then(|| {
        let threads = crate::verdict::bounds::counted(threads, "thread", "threads");
        format!("{in_progress:.1} requests in progress for {threads} of the server")
    })
}
