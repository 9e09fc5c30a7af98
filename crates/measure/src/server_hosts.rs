//! Hosts that the server under test runs on, each watched by its own agent: one, or several behind a load balancer.
//! What each did in a window, and what they did together.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::host_use::HostUse;
use crate::iteration::IterationRecord;
use crate::server_use::{ProcessUse, ServerUse};
use crate::units::is_zero;

/// What the kernel of a server's host counted while a window was open, as read by an agent there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServerHostUse {
    /// Which of the run's server agents, from 0.
    #[serde(skip_serializing_if = "is_first")]
    pub agent: u32,
    /// The first of the agents on the same machine, if that is another one: CPUs are counted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_machine_as: Option<u32>,
    /// The first of the agents in the same network namespace, if that is another one: interfaces and TCP counters are
    /// counted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_network_as: Option<u32>,
    /// The readings and their differences. `elapsed_ns` is between the two readings by that host's own monotonic
    /// clock; what the server used is for that time. `descriptors` and `ports` are absent: they would be the agent's.
    pub host: HostUse,
    /// Upper bound of the delay of the reading at the opening of the window, in nanoseconds: the round trip, without
    /// the time that the agent reports between reading and answer.
    pub opening_delay_ns_max: u64,
    /// The same for the reading at its close.
    pub close_delay_ns_max: u64,
    /// With several hosts: what the server used on this one; absent if its processes were not visible. For a single
    /// host it is in the timed run's `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
}

fn is_first(agent: &u32) -> bool {
    is_zero(&u64::from(*agent))
}

impl ServerHostUse {
    /// The machine, identified by the first agent on it.
    pub fn machine(&self) -> u32 {
        self.same_machine_as.unwrap_or(self.agent)
    }

    /// The network namespace, identified by the first agent in it.
    pub fn network(&self) -> u32 {
        self.same_network_as.unwrap_or(self.agent)
    }
}

impl IterationRecord {
    /// What the server's processes used in the window; `None` if they were not read, even if the server counted its
    /// requests.
    pub fn server_used(&self) -> Option<&ServerUse> {
        self.server.as_ref().filter(|used| used.was_read())
    }

    /// What the server used on one of its hosts, if its processes were visible there.
    pub fn server_on<'a>(&'a self, there: &'a ServerHostUse) -> Option<&'a ServerUse> {
        match &self.server_hosts[..] {
            // If other hosts are missing, so is the sum over all of them.
            [_] => there.server.as_ref().or(self.server_used()),
            _ => there.server.as_ref(),
        }
    }

    /// The first of its hosts in each network namespace: interfaces and TCP counters that two agents read count once.
    pub fn server_networks(&self) -> impl Iterator<Item = &ServerHostUse> {
        let mut met = BTreeSet::new();
        self.server_hosts.iter().filter(move |there| met.insert(there.network()))
    }

    /// How long agents monitored the server's hosts, in nanoseconds; for several agents the mean, because each reads
    /// its host by its own clock. `None` without agents.
    pub fn server_read_ns(&self) -> Option<f64> {
        let times: Vec<f64> = self.server_hosts.iter().map(|there| there.host.elapsed_ns as f64).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }
}

/// What a server used on several hosts at the same time: counters are added, and also memory, processes and threads,
/// because each host has its own. `None` if that of one is unknown.
pub fn server_at_once(hosts: &[ServerHostUse]) -> Option<ServerUse> {
    let all: Option<Vec<&ServerUse>> = hosts.iter().map(|there| there.server.as_ref()).collect();
    all?.into_iter().cloned().reduce(|a, b| ServerUse {
        user_ns: a.user_ns.saturating_add(b.user_ns),
        system_ns: a.system_ns.saturating_add(b.system_ns),
        resident_bytes_max: a.resident_bytes_max.saturating_add(b.resident_bytes_max),
        processes: a.processes.zip(b.processes).map(|(a, b)| processes_at_once(&a, &b)),
        ..ServerUse::default()
    })
}

fn processes_at_once(a: &ProcessUse, b: &ProcessUse) -> ProcessUse {
    let sum = |of: fn(&ProcessUse) -> u64| of(a).saturating_add(of(b));
    let both = |of: fn(&ProcessUse) -> Option<u64>| of(a).zip(of(b)).map(|(a, b)| a.saturating_add(b));
    let mut counted = a.clone();
    counted.add_counts(b);
    ProcessUse {
        // A time, not CPU time: of the host that waited longest.
        throttled_ns: a.throttled_ns.zip(b.throttled_ns).map(|(a, b)| a.max(b)),
        processes_max: sum(|it| it.processes_max),
        threads_max: sum(|it| it.threads_max),
        descriptors_max: both(|it| it.descriptors_max),
        resident_bytes: sum(|it| it.resident_bytes),
        proportional_bytes: both(|it| it.proportional_bytes),
        // Their identifiers are unique on one host only; each host keeps its own.
        busiest: Vec::new(),
        ..counted
    }
}

/// What several hosts counted at the same time, as one. What several agents read of the same machine or network
/// namespace counts once. Has the CPUs and links of all hosts, in order. `None` if there are none.
pub fn hosts_at_once(hosts: &[ServerHostUse]) -> Option<HostUse> {
    let (first, others) = hosts.split_first()?;
    let mut sum = first.host.clone();
    let (mut machines, mut networks) = (BTreeSet::from([first.machine()]), BTreeSet::from([first.network()]));
    for there in others {
        sum.elapsed_ns = sum.elapsed_ns.saturating_add(there.host.elapsed_ns);
        sum.probes = sum.probes.saturating_add(there.host.probes);
        sum.probe_cpu_ns = sum.probe_cpu_ns.saturating_add(there.host.probe_cpu_ns);
        if machines.insert(there.machine()) {
            sum.cpus.extend_from_slice(&there.host.cpus);
        }
        if networks.insert(there.network()) {
            sum.links.extend_from_slice(&there.host.links);
            sum.tcp = sum.tcp.zip(there.host.tcp).map(|(a, b)| a.plus(b));
        }
    }
    sum.elapsed_ns /= hosts.len() as u64;
    Some(sum)
}

#[cfg(test)]
#[path = "server_hosts_tests.rs"]
mod tests;
