//! CPUs of the server that did less in their time than before. No counter shows a neighbour on the same core, another virtual
//! machine that uses up its caches, or a lower clock; a fixed piece of work does, timed a hundred times a second
//! ([`CpuWatch`]).
//!
//! A CPU is compared with itself at its best in windows of the same level: those put the same load on it, so whatever slows it down in all
//! of them alike, as a clock that falls with the load does, is a property of the machine. A window is void by what was known when it ended,
//! since it is repeated then or never; what later windows show can still leave doubt.
//!
//! It is weighed by the server's own share of the CPU: a server that has it for a thirtieth of the time loses a thirtieth of the slowdown.

use webstone_model::record::{CpuWatch, HostUse, IterationRecord, RunRecord};

use super::bounds::{SLOWER_PERCENT_CLEAN, SLOWER_PERCENT_VOID, SPEED_BUSY_PERCENT_MIN, percent};
use super::disturbance::{Loss, LossKind, Worth, cpu_of};
use super::server_hosts::{self, ServerHost};

/// The server's CPU on a host that was slowed down most, if one was by more than a clean window has.
pub(super) fn of_server(record: &RunRecord, run: &IterationRecord, there: ServerHost<'_>) -> Option<Loss> {
    let ServerHost { agent, host, cpus, .. } = there;
    let share = share(record, run, there);
    let judged = host.watched.iter().filter(|watch| cpus.contains(&watch.cpu) && is_busy(host, watch.cpu));
    judged
        .filter_map(|watch| of_cpu(record, run, (agent, watch), share))
        .max_by(|a, b| a.percent.total_cmp(&b.percent))
}

pub(super) fn is_busy(host: &HostUse, cpu: u32) -> bool {
    cpu_of(host, cpu).is_some_and(|cpu| {
        let all = cpu.busy_ns.saturating_add(cpu.idle_ns);
        percent(cpu.busy_ns as f64, all as f64) >= SPEED_BUSY_PERCENT_MIN
    })
}

/// The part of one CPU's time that the server, or the origin of a proxy, had or waited for, from 0 to 1. It may all have been this CPU's.
/// Waiting counts, or a program that takes the CPU would make its slowness count less. 1 where nothing is known of it.
pub(super) fn share(record: &RunRecord, run: &IterationRecord, there: ServerHost<'_>) -> f64 {
    let origin = run.origin.as_ref().and_then(|origin| origin.server.as_ref());
    let (Some(used_ns), window_ns @ 1..) =
        (server_hosts::used_ns(record, run, there.agent), run.measured.window_ns)
    else {
        return 1.0;
    };
    let servers = there.server.into_iter().chain(origin);
    let waited_ns = servers.filter_map(|server| server.processes.as_ref()?.run_queue_ns);
    let origin_ns = origin.map_or(0, |origin| origin.user_ns.saturating_add(origin.system_ns));
    let wanted_ns = waited_ns.fold(used_ns.saturating_add(origin_ns), u64::saturating_add);
    (wanted_ns as f64 / window_ns as f64).min(1.0)
}

fn of_cpu(
    record: &RunRecord,
    run: &IterationRecord,
    (agent, watch): (Option<u32>, &CpuWatch),
    share: f64,
) -> Option<Loss> {
    let slower = |best: Option<u64>| {
        let best = best.filter(|best| *best > 0)? as f64;
        Some(percent(watch.work_ns_median as f64 - best, best))
    };
    let all = slower(best(record, run, (agent, watch.cpu), |_| true))?;
    let by_then = slower(best(record, run, (agent, watch.cpu), |other| was_by_then(record, other, run)))?;
    let (slower, worth) = match () {
        () if by_then * share >= SLOWER_PERCENT_VOID => (by_then, Worth::Void),
        () if all * share >= SLOWER_PERCENT_CLEAN => (all, Worth::Disturbed),
        () => return None,
    };
    let by = format!(
        "CPU {} was {slower:.0} % slower than at its best in this level, for the {:.0} % of its time that the server wanted; \
         something shares its core or its caches, or its clock fell",
        watch.cpu,
        share * 100.0
    );
    Some(Loss::new(LossKind::Slow, worth, server_hosts::named(record, agent), slower * share, by))
}

/// Whether a window opened no later than another. The clock of `started_at` may be set while a run lasts.
fn was_by_then(record: &RunRecord, other: &IterationRecord, run: &IterationRecord) -> bool {
    match (other.opened_ns, run.opened_ns) {
        (Some(other_ns), Some(run_ns)) => other_ns <= run_ns,
        _ => place(record, other) <= place(record, run),
    }
}

/// A window's place in the record: timed runs are in the order in which they ran, and void ones come before the one that took their
/// place. One that is not in the record yet is the last.
fn place(record: &RunRecord, run: &IterationRecord) -> (usize, usize) {
    let mut runs = record.iterations.iter();
    let itself = record.iterations.iter().position(|other| std::ptr::eq(other, run));
    let counts = itself.or_else(|| runs.position(|other| other.key() == run.key()));
    let void = record.voids.iter().position(|void| std::ptr::eq(void, run));
    (counts.unwrap_or(usize::MAX), void.unwrap_or(usize::MAX))
}

/// The shortest time that the piece of work took on a CPU in windows of this level, the void ones included.
fn best(
    record: &RunRecord,
    run: &IterationRecord,
    (agent, cpu): (Option<u32>, u32),
    counts: impl Fn(&IterationRecord) -> bool,
) -> Option<u64> {
    let of_level = |other: &&IterationRecord| other.level() == run.level();
    let others = record.iterations.iter().chain(&record.voids).filter(of_level).filter(|other| counts(other));
    let hosts = others.chain([run]).flat_map(|other| server_hosts::in_window(record, other));
    let watches = hosts.filter(|there| there.agent == agent).flat_map(|there| &there.host.watched);
    let bests = watches.filter(|watch| watch.cpu == cpu);
    bests.map(|watch| watch.work_ns_best).filter(|best| *best > 0).min()
}
