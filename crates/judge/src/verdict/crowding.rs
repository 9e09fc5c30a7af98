//! Other programs that fill the time which server and load generator leave of their CPUs. They need not take anything: a thread
//! that wakes up has to displace them and finds their data in the caches, so that a request costs more CPU time than on an idle CPU.
//!
//! Measured on a virtual machine of two CPUs beside one and two busy loops: between 11.5 and 17.6 µs of the server's CPU time per
//! request, 53 % more, at high priority and at normal priority alike. How much it is elsewhere is unknown; the bound allows for that.

use super::bounds::{CROWDED_COST_PERCENT, CROWDED_PERCENT_CLEAN, SHORT_WINDOW_NS, percent};
use super::disturbance::{Loss, LossKind, Worth, named, used_there};
use super::rules::this_host;
use super::server_hosts::{self, ServerHost};
use webstone_model::record::{IterationRecord, RunRecord};

/// How much of the time that the test left of its CPUs on this host other programs used, if it matters. Not for a server that
/// webstone did not start: programs beside it may be a part of it.
pub(super) fn of_cpus(record: &RunRecord, run: &IterationRecord) -> Option<Loss> {
    let target = &record.target;
    if !(target.embedded || target.software.is_some()) || this_host(record) != Some(true) {
        return None;
    }
    let (host, window_ns) = (run.host.as_ref()?, run.measured.window_ns);
    let others = host.others.as_ref()?;
    let workers = &run.measured.generator.workers;
    let mut cpus: Vec<u32> =
        workers.iter().filter_map(|worker| worker.cpu).chain(target.cpus.clone()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let there = server_hosts::in_window(record, run).into_iter().next()?;
    // Without the server's own time all that ran there would look like others.
    server_hosts::used_ns(record, run, there.agent)?;
    let used_ns = used_there(record, run, ServerHost { cpus: &cpus, ..there });
    // A worker's time waiting awake counts as left, like the time that another one sleeps: the bound was measured with such workers.
    let awake_ns: u64 = workers.iter().map(|worker| worker.spun_ns).sum();
    let left_ns = ((cpus.len() as u64).saturating_mul(window_ns) + awake_ns).saturating_sub(used_ns);
    let busy_ns: u64 = host.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu)).map(|cpu| cpu.busy_ns).sum();
    // In a short window, ticks of 10 ms do not tell how busy they were.
    let most_ns = if window_ns >= SHORT_WINDOW_NS { busy_ns.saturating_sub(used_ns) } else { u64::MAX };
    let filled = percent(others.cpu_ns.min(most_ns) as f64, left_ns as f64).min(100.0);
    if filled < CROWDED_PERCENT_CLEAN {
        return None;
    }
    let costs = filled * CROWDED_COST_PERCENT / 100.0;
    let by = format!("{filled:.0} % of what the test left of its CPUs{}", named(Some(others)));
    Some(Loss::new(LossKind::Crowded, Worth::Disturbed, "other programs".to_owned(), costs, by))
}
