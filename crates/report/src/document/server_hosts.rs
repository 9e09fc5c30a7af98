//! What the server did on each of several hosts, over the timed runs of a level: the rows of a table that every format has.

use webstone_measure::figures::host::HostFigures;
use webstone_measure::server_figures::ServerFigures;
use webstone_model::record::{HostUse, IterationRecord, RunRecord};

use crate::generators::link_percent;
use crate::summary::quotient;

/// One host over some timed runs of one level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerHostRow {
    /// Which of the run's server agents, from 0.
    pub(crate) agent: u32,
    /// What the server used there, for requests of all hosts; absent where its processes could not be seen.
    pub(crate) server: Option<ServerFigures>,
    /// What the host counted.
    pub(crate) host: HostFigures,
    /// How busy all of its CPUs were together, in percent; absent where they were not read.
    pub(crate) busy_percent: Option<f64>,
    /// The fullest link in percent of its speed: the highest of all timed runs; absent where no link's speed is known.
    pub(crate) link_percent_max: Option<f64>,
}

/// A row for each host that an agent saw in one of these timed runs, in order.
pub(crate) fn rows(record: &RunRecord, runs: &[&IterationRecord]) -> Vec<ServerHostRow> {
    (0..record.target.agents.len() as u32).filter_map(|agent| row(runs, agent)).collect()
}

fn row(runs: &[&IterationRecord], agent: u32) -> Option<ServerHostRow> {
    let host = HostFigures::on_host(runs, agent)?;
    let there = runs.iter().flat_map(|run| &run.server_hosts).filter(|there| there.agent == agent);
    let hosts: Vec<&HostUse> = there.map(|there| &there.host).collect();
    let busy = host.cpus.map(|cpus| {
        let all = cpus.busy_ns as f64 + cpus.idle_ns as f64 + cpus.stolen_ns as f64;
        quotient(cpus.busy_ns as f64 * 100.0, all)
    });
    Some(ServerHostRow {
        agent,
        server: ServerFigures::on_host(runs, agent),
        busy_percent: busy,
        link_percent_max: hosts.into_iter().filter_map(link_percent).reduce(f64::max),
        host,
    })
}
