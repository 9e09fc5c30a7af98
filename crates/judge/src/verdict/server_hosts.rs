//! The hosts of the server under test, as the verdict looks at them: the only one, or each of several that agents watch.

use super::bounds::counted;
use super::disturbance::{Loss, LossKind, Worth};
use super::rules::{Finding, met, nothing, this_host};
use webstone_model::generators::LoadMaker;
use webstone_model::record::{HostUse, IterationRecord, RunRecord, ServerHostUse, ServerUse};

/// A host of the server in a window.
#[derive(Clone, Copy)]
pub(super) struct ServerHost<'a> {
    /// Its agent, where it is one of several.
    pub(super) agent: Option<u32>,
    pub(super) host: &'a HostUse,
    /// The server's CPUs there.
    pub(super) cpus: &'a [u32],
    /// What the server used there.
    pub(super) server: Option<&'a ServerUse>,
    /// How long the window had been open, at most, when its counters were first read.
    pub(super) delay_ns: u64,
}

/// The agents, each judged on its own: only `None` if there is one host.
pub(super) fn agents(record: &RunRecord) -> Vec<Option<u32>> {
    match record.target.agents.len() as u32 {
        0 | 1 => vec![None],
        agents => (0..agents).map(Some).collect(),
    }
}

/// All hosts that were monitored in a window.
pub(super) fn in_window<'a>(record: &'a RunRecord, run: &'a IterationRecord) -> Vec<ServerHost<'a>> {
    let target = &record.target;
    if target.agents.is_empty() {
        let host = run.host.as_ref().filter(|_| this_host(record) == Some(true));
        let server = run.server_used();
        let only = host.map(|host| ServerHost {
            agent: None,
            host,
            cpus: &target.cpus,
            server,
            delay_ns: host.opening_delay_ns,
        });
        return only.into_iter().collect();
    }
    let is_alone = target.agents.len() == 1;
    let seen = |there: &'a ServerHostUse| {
        let agent = target.agents.get(there.agent as usize)?;
        Some(ServerHost {
            agent: (!is_alone).then_some(there.agent),
            host: &there.host,
            cpus: &agent.cpus,
            server: run.server_on(there),
            delay_ns: there.opening_delay_ns_max,
        })
    };
    run.server_hosts.iter().filter_map(seen).collect()
}

/// A window in which the server was monitored too late, or not to the end: what it lost is unknown. On this host that shows a machine
/// so busy that nothing measured on it counts, unless the server itself ended: to repeat such a window would hide its errors.
pub(super) fn missing(record: &RunRecord, run: &IterationRecord) -> Option<Loss> {
    let why = run.server_missing.as_ref()?;
    let is_void = record.target.agents.is_empty() && !run.server_ended;
    let worth = if is_void { Worth::Void } else { Worth::Disturbed };
    // All of it may have been lost.
    Some(Loss::new(LossKind::Unseen, worth, "the server".to_owned(), 100.0, why.clone()))
}

/// CPU time that the server used on a host, by its agent, and that servers of other agents on the same machine used, as far as they
/// may run on the same CPUs: to each other they do not count as other programs. `None` where the former is not known.
pub(super) fn used_ns(record: &RunRecord, run: &IterationRecord, agent: Option<u32>) -> Option<u64> {
    let of = |server: &ServerUse| server.user_ns.saturating_add(server.system_ns);
    let Some(there) = run.server_hosts.iter().find(|there| there.agent == agent.unwrap_or(0)) else {
        let is_elsewhere = !record.target.agents.is_empty();
        return run.server_used().filter(|_| !is_elsewhere).map(of);
    };
    let cpus = |agent: u32| record.target.agents.get(agent as usize).map_or(&[][..], |agent| &agent.cpus);
    let is_beside = |other: &&ServerHostUse| {
        other.agent != there.agent
            && other.machine() == there.machine()
            && cpus(other.agent).iter().any(|cpu| cpus(there.agent).contains(cpu))
    };
    let beside = run.server_hosts.iter().filter(is_beside).filter_map(|other| run.server_on(other)).map(of);
    Some(beside.fold(of(run.server_on(there)?), u64::saturating_add))
}

/// How it is called in a sentence: `the server`, or `the server host web2`.
pub(super) fn named(record: &RunRecord, agent: Option<u32>) -> String {
    agent.map_or_else(|| "the server".to_owned(), |agent| format!("the {}", record.server_host_named(agent)))
}

/// Whether CPU numbers of a host that makes load mean the server's CPUs: CPU 1 of another host is another CPU.
pub(super) fn are_numbered_alike(record: &RunRecord, maker: &LoadMaker<'_>, agent: Option<u32>) -> bool {
    let generator = record.generator_of(maker);
    match (maker.generator, agent) {
        (None, _) => record.target.agents.is_empty(),
        (Some(_), None) => generator.and_then(|host| host.has_server) == Some(true),
        (Some(_), Some(agent)) => {
            let boots = generator.zip(record.target.agents.get(agent as usize));
            boots.is_some_and(|(maker, server)| maker.boot.is_some() && maker.boot == server.boot)
        }
    }
}

/// A host whose agent was lost may have been disturbed unnoticed.
pub(super) fn all_monitored(record: &RunRecord) -> Finding {
    let missing = record.iterations.iter().find_map(|run| Some((run.key(), run.server_missing.as_ref()?)));
    match (missing, record.iterations.len()) {
        (_, 0) => nothing(),
        (Some((key, why)), _) => met(false, format!("{key}: {why}")),
        (None, _) => met(true, counted(record.target.agents.len() as u64, "host", "hosts")),
    }
}

#[cfg(test)]
#[path = "server_hosts_tests.rs"]
mod tests;
