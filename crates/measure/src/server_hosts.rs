//! Hosts that the server under test runs on, each watched by an agent of its own: one, or several behind a load balancer. What each
//! did in a window, and what they did together.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host_use::HostUse;
use crate::iteration::IterationRecord;
use crate::server_use::{ProcessUse, ServerUse};
use crate::units::is_zero;

/// What the kernel of a server's host counted while a window was open, as an agent read it there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerHostUse {
    /// Which of the run's server agents, from 0.
    #[serde(skip_serializing_if = "is_first")]
    pub agent: u32,
    /// The first of the agents on the same machine, where that is another: CPUs are counted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_machine_as: Option<u32>,
    /// The first of the agents in the same network namespace, where that is another: interfaces and counters of TCP are counted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_network_as: Option<u32>,
    /// The readings and their differences. `elapsed_ns` is between the two readings by that host's own monotonic clock, and what
    /// the server used was used in it. `descriptors` and `ports` are absent: they would be the agent's.
    pub host: HostUse,
    /// Upper bound of the delay of the reading at the window's opening, in nanoseconds: the round trip,
    /// without what the agent says lay between reading and answer.
    pub opening_delay_ns_max: u64,
    /// The same of the reading at its close.
    pub close_delay_ns_max: u64,
    /// Of several hosts: what the server used on this one; absent where its processes could not be seen. Of an only host it is the
    /// timed run's `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
}

fn is_first(agent: &u32) -> bool {
    is_zero(&u64::from(*agent))
}

impl ServerHostUse {
    /// The machine, by the first agent on it.
    pub fn machine(&self) -> u32 {
        self.same_machine_as.unwrap_or(self.agent)
    }

    /// The network namespace, by the first agent in it.
    pub fn network(&self) -> u32 {
        self.same_network_as.unwrap_or(self.agent)
    }
}

impl IterationRecord {
    /// What the server's processes used in the window; `None` where they were not read, even if the server counted its requests.
    pub fn server_used(&self) -> Option<&ServerUse> {
        self.server.as_ref().filter(|used| used.was_read())
    }

    /// What the server used on one of its hosts, where its processes could be seen there.
    pub fn server_on<'a>(&'a self, there: &'a ServerHostUse) -> Option<&'a ServerUse> {
        match &self.server_hosts[..] {
            // Where others are missing, the whole is as well.
            [_] => there.server.as_ref().or(self.server_used()),
            _ => there.server.as_ref(),
        }
    }

    /// The first of its hosts in each network namespace: interfaces and counters of TCP that two agents read are counted once.
    pub fn server_networks(&self) -> impl Iterator<Item = &ServerHostUse> {
        let mut met = BTreeSet::new();
        self.server_hosts.iter().filter(move |there| met.insert(there.network()))
    }

    /// For how long agents read the server's hosts, in nanoseconds: where they are several, the mean, because each reads its own by
    /// its own clock. `None` where no agent did.
    pub fn server_read_ns(&self) -> Option<f64> {
        let times: Vec<f64> = self.server_hosts.iter().map(|there| there.host.elapsed_ns as f64).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }
}

/// What a server used on several hosts at once: counters are added, and so is what there was of memory, processes and threads,
/// because each host has its own. `None` where it is not known of one of them.
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
    ProcessUse {
        switches_voluntary: sum(|it| it.switches_voluntary),
        switches_involuntary: sum(|it| it.switches_involuntary),
        faults_minor: sum(|it| it.faults_minor),
        faults_major: sum(|it| it.faults_major),
        disk_read_bytes: both(|it| it.disk_read_bytes),
        disk_written_bytes: both(|it| it.disk_written_bytes),
        throttled_ns: both(|it| it.throttled_ns),
        processes_max: sum(|it| it.processes_max),
        threads_max: sum(|it| it.threads_max),
        descriptors_max: both(|it| it.descriptors_max),
        resident_bytes: sum(|it| it.resident_bytes),
        proportional_bytes: both(|it| it.proportional_bytes),
        run_queue_ns: both(|it| it.run_queue_ns),
        threads_cpu_ns: both(|it| it.threads_cpu_ns),
        // Their numbers say which thread it is on one host only; each host's own are with it.
        busiest: Vec::new(),
    }
}

/// What several hosts counted at once, as one: what a machine or a network namespace counts that several agents read is in it
/// once. Its CPUs and links are those of all, one after the other. `None` where there is none.
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
