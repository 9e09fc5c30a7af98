//! The agents that watch the server under test, one on each of its hosts: started together, notified of the same events, and
//! their readings added. Nothing is counted twice: two agents that watch the same are refused, and what two on one machine both
//! read is marked.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use webstone_measure::server_hosts::server_at_once;
use webstone_model::agents::host_name;
use webstone_model::event::Phase;
use webstone_model::record::{AgentRecord, ServerHostUse, ServerUse};

use super::level_watch::Elsewhere;
use super::link::{ANSWER_PATIENCE, Introduced, ServerAgent, Setting, elsewhere};
use super::messages::Identity;
use super::process::AgentError;
use crate::environment::ServerHost;
use crate::interrupt::Interrupt;

/// Agents that are started at once: a jump host drops logins above its sshd's MaxStartups, which is 10 by default.
const STARTED_AT_ONCE: usize = 8;
/// Why an agent has figures of the host but not of the server.
const NOT_SEEN: &str = "it could not see the server's processes at both ends of the window";

/// The first agent on the same machine, and in the same network namespace, where that is another.
type Shared = (Option<u32>, Option<u32>);

/// The agents on the server's hosts; none where it is watched from here.
#[derive(Default)]
pub struct ServerAgents {
    agents: Vec<ServerAgent>,
    /// How each host is called.
    names: Vec<String>,
    shared: Vec<Shared>,
    /// What each watches.
    watched: Vec<(AgentRecord, Identity)>,
}

/// What agents report of the server's hosts when they are ready.
#[derive(Debug, Default)]
pub struct Described {
    /// Each agent; where there are several, with the facts about its host.
    pub records: Vec<AgentRecord>,
    /// The hosts.
    pub hosts: Vec<ServerHost>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What agents saw of a window.
#[derive(Debug)]
pub struct Watched(Vec<Result<Elsewhere, String>>);

/// The same as a record has it.
#[derive(Clone, Debug, Default)]
pub struct OnHosts {
    /// What the server used on all hosts together.
    pub server: Option<ServerUse>,
    /// Each host that was seen.
    pub hosts: Vec<ServerHostUse>,
    /// What is missing of which host, and why.
    pub missing: Option<String>,
}

impl ServerAgents {
    /// Whether no agent watches the server.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Starts an agent by each of these commands, and lets them find the server's processes, by their sockets of TCP or UDP.
    ///
    /// # Errors
    /// The first that does not start, and two that watch the same.
    pub fn start(
        commands: &[String],
        version: &str,
        addresses: &BTreeSet<SocketAddr>,
        over_udp: bool,
        interrupt: &Interrupt,
    ) -> Result<(ServerAgents, Described), AgentError> {
        let mut started = Vec::new();
        for some in commands.chunks(STARTED_AT_ONCE) {
            let results = std::thread::scope(|scope| {
                let begun: Vec<_> = some
                    .iter()
                    .map(|command| {
                        let setting = Setting { command, version, addresses, over_udp };
                        scope.spawn(move || ServerAgent::start(&setting, interrupt))
                    })
                    .collect();
                begun
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|it| std::panic::resume_unwind(it)))
                    .collect::<Vec<_>>()
            });
            for result in results {
                started.push(result?);
            }
        }
        let (agents, introduced): (Vec<ServerAgent>, Vec<Introduced>) = started.into_iter().unzip();
        let records: Vec<AgentRecord> = introduced.iter().map(|it| it.record.clone()).collect();
        let names: Vec<String> = (0..records.len() as u32).map(|place| host_name(&records, place)).collect();
        let shared = shared(&introduced, &names)?;
        let watched = introduced.iter().map(|it| (it.record.clone(), it.identity.clone())).collect();
        let described = describe(introduced, &names);
        Ok((ServerAgents { agents, names, shared, watched }, described))
    }

    /// That some of these and some of others watch the same sockets or processes, in words.
    pub fn watch_the_same(&self, others: &ServerAgents) -> Option<String> {
        let own = self.watched.iter().zip(&self.names);
        own.flat_map(|(own, name)| others.watched.iter().map(move |other| (own, name, other)))
            .find(|(own, _, other)| is_the_same(own, other))
            .map(|(own, name, other)| same_in_words(&own.0, &other.0, name))
    }

    /// A level is about to start. Waits until all agents are ready for it; no load is sent yet.
    pub fn level_starts(&mut self, interrupt: &Interrupt) {
        let asked: Vec<u64> = self.agents.iter_mut().map(ServerAgent::level_starts).collect();
        let until = Instant::now() + ANSWER_PATIENCE;
        for (agent, number) in self.agents.iter_mut().zip(asked) {
            agent.ready(number, until, interrupt);
        }
    }

    /// The level is in this phase.
    pub fn look(&mut self, phase: Phase) {
        self.agents.iter_mut().for_each(|agent| agent.look(phase));
    }

    /// Whether all can tell what was used in slices of a window: they see the server, and are near.
    pub fn can_slice(&self) -> bool {
        self.agents.iter().all(|agent| agent.can_slice)
    }

    /// A slice of the window has ended, by its number. Of the last slice they tell when the window has closed.
    pub fn end_slice(&mut self, slice: usize) {
        self.agents.iter_mut().for_each(|agent| agent.end_slice(slice));
    }

    /// What was used in a slice that has ended; `None` until all have answered. Slices are asked for in order, each until it is known.
    pub fn in_slice(&mut self, slice: usize) -> Option<OnHosts> {
        let used: Option<Vec<_>> = self.agents.iter_mut().map(|agent| agent.in_slice(slice)).collect();
        let on_hosts = together(used?, &self.names, &self.shared);
        self.agents.iter_mut().for_each(|agent| agent.forget_slices(slice));
        Some(on_hosts)
    }

    /// What was used during the window. `None` where nobody was asked. Call it when the level has ended.
    pub fn used(&mut self, interrupt: &Interrupt) -> Option<Watched> {
        self.look(Phase::Done);
        let until = Instant::now() + ANSWER_PATIENCE;
        let used = self.agents.iter_mut().map(|agent| agent.used(until, interrupt)).collect();
        (!self.agents.is_empty()).then_some(Watched(used))
    }

    /// What was seen of a window of this length, as a record has it.
    pub fn on_hosts(&self, watched: Watched, window_ns: u64) -> OnHosts {
        let used = watched.0.into_iter().map(|used| used.and_then(|used| used.on_time("window", window_ns)));
        together(used.collect(), &self.names, &self.shared)
    }
}

/// A single host has its figures in the usual places; of several, each has its own, and there is a sum if none is missing.
fn together(used: Vec<Result<Elsewhere, String>>, names: &[String], shared: &[Shared]) -> OnHosts {
    let is_alone = used.len() == 1;
    let (mut seen, mut missing) = (OnHosts::default(), Vec::new());
    let mut lacks = |place: usize, why: String| {
        missing.push(if is_alone { why } else { format!("server host {}: {why}", names[place]) });
    };
    for (place, used) in used.into_iter().enumerate() {
        match used {
            Ok(Elsewhere { host, server }) => {
                if server.is_none() {
                    lacks(place, NOT_SEEN.to_owned());
                }
                let (same_machine_as, same_network_as) = shared[place];
                let agent = place as u32;
                let mut there = ServerHostUse { agent, same_machine_as, same_network_as, server, ..host };
                if is_alone {
                    seen.server = there.server.take();
                }
                seen.hosts.push(there);
            }
            Err(why) => lacks(place, why),
        }
    }
    if !is_alone && missing.is_empty() {
        seen.server = server_at_once(&seen.hosts);
    }
    seen.missing = (!missing.is_empty()).then(|| missing.join("; "));
    seen
}

/// Which agents share a machine or a network namespace.
///
/// # Errors
/// Where two watch the same sockets or processes: the server would be counted twice.
fn shared(introduced: &[Introduced], names: &[String]) -> Result<Vec<Shared>, AgentError> {
    let mut shared = Vec::new();
    for (place, own) in introduced.iter().enumerate() {
        let (mut machine, mut network) = (None, None);
        for (other_place, other) in introduced[..place].iter().enumerate() {
            if own.record.boot.is_none() || own.record.boot != other.record.boot {
                continue;
            }
            let (a, b) = (&own.identity, &other.identity);
            if overlap(a, b) {
                let what = same_in_words(&other.record, &own.record, &names[other_place]);
                return Err(AgentError::Twice { what });
            }
            machine = machine.or(Some(other_place as u32));
            if a.network.is_some() && a.network == b.network {
                network = network.or(Some(other_place as u32));
            }
        }
        shared.push((machine, network));
    }
    Ok(shared)
}

/// Whether two agents are on one machine and watch the same there.
fn is_the_same(own: &(AgentRecord, Identity), other: &(AgentRecord, Identity)) -> bool {
    own.0.boot.is_some() && own.0.boot == other.0.boot && overlap(&own.1, &other.1)
}

fn overlap(a: &Identity, b: &Identity) -> bool {
    !a.sockets.is_disjoint(&b.sockets) || !a.processes.is_disjoint(&b.processes)
}

fn same_in_words(first: &AgentRecord, second: &AgentRecord, name: &str) -> String {
    format!(
        "the agents `{}` and `{}` watch the same processes, on {}",
        first.command,
        second.command,
        machine_named(name, second)
    )
}

/// The host of two agents, by the name that it has for itself.
fn machine_named(name: &str, record: &AgentRecord) -> String {
    if record.name.is_empty() { format!("server host {name}") } else { record.name.clone() }
}

/// What is told of the hosts before the load.
fn describe(introduced: Vec<Introduced>, names: &[String]) -> Described {
    let mut described = Described::default();
    let is_alone = introduced.len() == 1;
    let nowhere = introduced.iter().map(|it| &it.strange).fold(None::<BTreeSet<IpAddr>>, |all, strange| {
        Some(all.map_or_else(|| strange.clone(), |all| all.intersection(strange).copied().collect()))
    });
    let nowhere = nowhere.unwrap_or_default();
    match is_alone {
        true => described.warnings.extend(elsewhere(&nowhere)),
        false if !nowhere.is_empty() => {
            let addresses: Vec<String> = nowhere.iter().map(IpAddr::to_string).collect();
            described.warnings.push(format!(
                "no server agent runs on the host that has the address {}, where the load goes to; what a load balancer there \
                 uses is in no figure",
                addresses.join(", ")
            ));
        }
        false => {}
    }
    for (place, Introduced { mut record, host, unseen, .. }) in introduced.into_iter().enumerate() {
        if let Some(unseen) = unseen {
            described.warnings.push(match is_alone {
                true => unseen,
                false => format!(
                    "server host {}: {unseen}; where its port is not the target's, name it, as in '… webstone agent --port 8080'",
                    names[place]
                ),
            });
        }
        if !is_alone {
            record.environment.clone_from(&host.facts);
        }
        described.records.push(record);
        described.hosts.push(host);
    }
    described
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
