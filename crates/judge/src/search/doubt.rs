//! Which timed runs cannot tell whether an SLO is kept, although a condition looks broken in them: the generator was late or at its limit,
//! the machine was disturbed, or requests were too few for the percentile. None of these makes a broken SLO look kept, so a run that keeps
//! every condition is never doubted. Nor is one in which a condition is broken by what a disturbance cannot do, however noisy it was: by
//! refusals, wrong answers, or a queue that grows before a server that did not lack CPU time.

use crate::verdict::{
    RATE_MISSED_PERCENT_MAX, SCHEDULE_LAG_PERCENT_MAX, WORKER_CPU_PERCENT_MAX, Worth, run_queue_percent,
    this_host, worth,
};
use webstone_measure::errors::ErrorClass;
use webstone_measure::metric::Metric;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::threshold::{Relation, Threshold};

/// Why a timed run cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// The generator was late, or at its limit.
    Generator,
    /// Something took CPU time from generator or server.
    Disturbed,
    /// The percentile is one single request: 100 requests make one above p99.
    TooFew,
}

impl Doubt {
    pub(super) fn words(self) -> &'static str {
        match self {
            Doubt::Generator => "the generator was late or at its limit",
            Doubt::Disturbed => "the machine was disturbed",
            Doubt::TooFew => "the requests were too few for the percentile",
        }
    }
}

/// What a timed run shows, besides its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// What its values say.
    Plain,
    /// Every condition is kept although the machine was disturbed, which only makes them harder to keep.
    KeptInNoise,
    /// A condition is broken by what no disturbance does.
    BrokenForSure,
}

/// How much others disturbed a timed run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    /// Something took CPU time from either side.
    pub(super) is_disturbed: bool,
    /// What was taken may have lowered the rate that the server can carry: it used its CPUs, or it is unknown whether it did.
    pub(super) may_limit: bool,
}

impl Noise {
    pub(super) fn of_run(record: &RunRecord, run: &IterationRecord) -> Noise {
        let is_disturbed = worth(record, run) > Worth::Clean;
        Noise { is_disturbed, may_limit: is_disturbed && may_limit(record, run) }
    }
}

/// From these shares on, in percent, CPU time that others took may have limited the server: of one CPU that a thread used or waited
/// for, and of its host's CPUs that the server used. Below them, its threads waited for something else than a CPU. Beside a busy
/// program on each CPU, a server that could use all CPUs gets half.
const THREAD_PERCENT_MIN: f64 = 50.0;
const CPUS_PERCENT_MIN: f64 = 25.0;
/// How much unanswered arrivals may grow within a window without a queue, in percent of its arrivals: a stall just before the window
/// closes leaves some.
const GROWTH_PERCENT_MAX: f64 = 10.0;

fn may_limit(record: &RunRecord, run: &IterationRecord) -> bool {
    let window_ns = run.measured.window_ns.max(1) as f64;
    // What agents saw is in the server's use as well, added up.
    let on_this_host = run.server.iter().map(|server| (server, run.host.as_ref()));
    let on_this_host = on_this_host.filter(|_| run.server_hosts.is_empty());
    let elsewhere =
        run.server_hosts.iter().filter_map(|there| Some((run.server_on(there)?, Some(&there.host))));
    let mut seen = on_this_host.chain(elsewhere).filter(|(server, _)| server.processes.is_some()).peekable();
    if seen.peek().is_none() {
        // A server on another host has CPUs of its own.
        return this_host(record) != Some(false);
    }
    seen.any(|(server, host)| {
        let busiest = server.processes.iter().flat_map(|processes| &processes.busiest);
        let thread_ns = busiest.map(|thread| thread.cpu_ns.saturating_add(thread.run_queue_ns)).max();
        let cpus = host.map_or(1, |host| host.cpus.len()).max(1) as f64;
        let used_ns = server.user_ns.saturating_add(server.system_ns) as f64;
        thread_ns.is_none_or(|ns| ns as f64 * 100.0 >= window_ns * THREAD_PERCENT_MIN)
            || used_ns * 100.0 >= window_ns * cpus * CPUS_PERCENT_MIN
    })
}

/// What a timed run shows of the conditions.
/// `shortest_s`: the shortest time that the SLO states.
///
/// # Errors
/// Why a run in which some conditions are not kept does not show that they are broken.
pub(super) fn shown(
    conditions: &[Threshold],
    values: &[Option<f64>],
    run: &IterationRecord,
    shortest_s: Option<f64>,
    noise: Noise,
) -> Result<Shown, Doubt> {
    let is_broken = |(condition, value): &(&Threshold, &Option<f64>)| {
        !value.is_some_and(|value| condition.relation().holds(value, condition.limit()))
    };
    let broken = || conditions.iter().zip(values).filter(is_broken);
    if broken().next().is_none() {
        return Ok(if noise.is_disturbed { Shown::KeptInNoise } else { Shown::Plain });
    }
    let is_sure = |(condition, value): (&Threshold, &Option<f64>)| {
        value.is_some_and(|value| is_broken_for_sure(condition, value, run, noise))
    };
    if broken().any(is_sure) {
        return Ok(Shown::BrokenForSure);
    }
    if generator(run, shortest_s) {
        return Err(Doubt::Generator);
    }
    if noise.is_disturbed {
        return Err(Doubt::Disturbed);
    }
    let requests = run.measured.counts.succeeded as f64;
    let too_few = |(condition, value): (&Threshold, &Option<f64>)| match condition.metric() {
        // The maximum is one request by definition.
        Metric::Percentile(percentile) if percentile < 100.0 => {
            // A server that answers nothing leaves no doubt.
            value.is_some() && is_upper(condition) && requests * (100.0 - percentile) / 100.0 < 1.0 - 1e-9
        }
        _ => false,
    };
    if broken().all(too_few) { Err(Doubt::TooFew) } else { Ok(Shown::Plain) }
}

pub(super) fn is_upper(condition: &Threshold) -> bool {
    matches!(condition.relation(), Relation::Below | Relation::AtMost)
}

/// Whether a condition, which is not kept, is broken by what no disturbance does: answers that say no, or a queue that grows before a
/// server that did not lack CPU time.
fn is_broken_for_sure(condition: &Threshold, value: f64, run: &IterationRecord, noise: Noise) -> bool {
    let breaks = |value: f64| !condition.relation().holds(value, condition.limit());
    if condition.metric() == Metric::ERRORS && is_upper(condition) {
        let errors = &run.measured.errors;
        let refusals = REFUSALS.iter().map(|class| errors.count(*class)).fold(0, u64::saturating_add);
        // Of all requests, as the error level is: the value may be the share of requests that hang, which a stall can make.
        return refusals > 0
            && breaks(refusals as f64 * 100.0 / run.measured.counts.error_base().max(1) as f64);
    }
    let Some(open_loop) = run.measured.open_loop.as_ref().filter(|_| !noise.may_limit && !saturated(run))
    else {
        return false;
    };
    if condition.metric() == Metric::OFFERED && !is_upper(condition) {
        // Arrivals waited for a client, or found none, and more of them than a stall of the generator can have left.
        let stalls = run.measured.generator.workers.iter().map(|worker| worker.stalled_ns_max);
        let lag = run.schedule.map_or(0, |kept| kept.lag_max_ns);
        let stalled_ns = stalls.max().unwrap_or(0).max(lag);
        let stalled = stalled_ns as f64 * 100.0 / run.measured.window_ns.max(1) as f64;
        return open_loop.skipped + open_loop.queued > 0 && breaks(value + stalled);
    }
    let counts = &run.measured.counts;
    let before = open_loop.carried_in + counts.carried_in;
    let open = open_loop.left_open + counts.left_open;
    let after = open_loop.queued + open_loop.skipped + counts.in_flight + open;
    let growth = after.saturating_sub(before) as f64 * 100.0;
    condition.metric().is_time_of_clients()
        && is_upper(condition)
        && growth > open_loop.planned as f64 * GROWTH_PERCENT_MAX
}

/// Errors that are answers, or a refusal by the server's own kernel: no machine makes them by being busy.
const REFUSALS: [ErrorClass; 15] = [
    ErrorClass::Refused,
    ErrorClass::WrongStatus,
    ErrorClass::WrongLength,
    ErrorClass::WrongContent,
    ErrorClass::AnsweredEarly,
    ErrorClass::Malformed,
    ErrorClass::H2NotSpoken,
    ErrorClass::H2Protocol,
    ErrorClass::H2FrameSize,
    ErrorClass::H2FlowControl,
    ErrorClass::H2Compression,
    ErrorClass::TlsCertificate,
    ErrorClass::TlsIncompatible,
    ErrorClass::TlsRecord,
    ErrorClass::Alpn,
];

fn saturated(run: &IterationRecord) -> bool {
    let window_ns = run.measured.window_ns;
    run.measured.generator.workers.iter().any(|worker| {
        let used = worker.worked_ns() as f64 * 100.0 / window_ns.max(1) as f64;
        used + run_queue_percent(worker, window_ns) >= WORKER_CPU_PERCENT_MAX
    })
}

fn generator(run: &IterationRecord, shortest_s: Option<f64>) -> bool {
    let is_saturated = saturated(run);
    let Some(kept) = run.schedule else { return is_saturated };
    let lag_s = kept.lag_p99_ns as f64 / 1e9;
    let is_late = shortest_s.is_some_and(|shortest| lag_s * 100.0 > shortest * SCHEDULE_LAG_PERCENT_MAX);
    // Arrivals that waited for a client, or found none, are the server's fault.
    let unserved = run.measured.open_loop.as_ref().is_some_and(|it| it.skipped + it.queued > 0);
    let missed = (kept.asked_rate - kept.offered_rate).abs() * 100.0;
    is_saturated || is_late || (!unserved && missed > kept.asked_rate * RATE_MISSED_PERCENT_MAX)
}

#[cfg(test)]
mod tests {
    use webstone_model::record::{AgentRecord, CpuUse, HostUse, ProcessUse, ServerHostUse, ServerUse};

    use super::*;

    /// A server of many small threads that used all of its own host's two CPUs may have been limited, however many CPUs the load
    /// generator's host has; one that used a tenth of them was not.
    #[test]
    fn a_server_behind_an_agent_is_judged_by_its_own_host() {
        let host = |cpus: usize| HostUse { cpus: vec![CpuUse::default(); cpus], ..HostUse::default() };
        let used_ms = |ms: u64, agents: usize| {
            let mut record = RunRecord::default();
            let mut run = IterationRecord::default();
            run.measured.window_ns = 1_000_000_000;
            let busiest = vec![Default::default()];
            let processes = Some(ProcessUse { busiest, ..ProcessUse::default() });
            let server = ServerUse { user_ns: ms * 1_000_000, processes, ..ServerUse::default() };
            record.target.agents = vec![AgentRecord::default(); agents];
            run.server_hosts = (0..agents as u32)
                .map(|agent| ServerHostUse {
                    agent,
                    host: host(2),
                    server: (agents > 1).then(|| server.clone()),
                    ..ServerHostUse::default()
                })
                .collect();
            // Of several agents without a list of threads.
            let processes = (agents == 1).then(|| server.processes.clone().unwrap_or_default());
            run.server = Some(ServerUse { processes: processes.or(Some(ProcessUse::default())), ..server });
            run.host = Some(host(64));
            may_limit(&record, &run)
        };
        for agents in [1, 2] {
            assert!(used_ms(2_000, agents) && !used_ms(200, agents), "{agents} agents");
        }
    }
}
