//! CPU time of contestants on other hosts, as agents there see it. An agent is too far away for slices of some 20 ms; but only one
//! contestant uses the CPU time of its processes, so their use in a whole start is its own.

use std::time::Duration;

use webstone_lab::agent::ServerAgents;
use webstone_lab::interrupt::Interrupt;
use webstone_model::duel::{Contestant, SideRun};
use webstone_model::event::Phase;
use webstone_store::redaction;

use crate::observer::Observer;
use crate::run::{RunBrief, RunError, RunSite, watch_server};

/// How long an agent may take to read counters, besides the round trip.
const READING: Duration = Duration::from_millis(20);

/// The agents of one contestant.
#[derive(Default)]
pub(super) struct Elsewhere {
    agents: ServerAgents,
    round_trip: Duration,
}

impl Elsewhere {
    /// Starts the agents of a contestant that is up, and adds them to its record. Returns what the user should know.
    pub(super) fn start(
        brief: &RunBrief,
        site: &RunSite,
        contestant: &mut Contestant,
        version: &str,
        observer: &mut dyn Observer,
        interrupt: &Interrupt,
    ) -> Result<(Elsewhere, Vec<String>), RunError> {
        let (agents, mut described) = watch_server(
            &brief.spec.server.agents,
            version,
            &site.facts.addresses,
            brief.spec.client.http,
            observer,
            interrupt,
        )?;
        redaction::server_agents(&mut described.records);
        let round_trip = described.records.iter().map(|agent| agent.round_trip_ns_min).max().unwrap_or(0);
        // On several hosts, CPUs with the same number are different CPUs.
        if let [agent] = described.records.as_slice() {
            contestant.cpus.clone_from(&agent.cpus);
        }
        contestant.agents = described.records;
        Ok((Elsewhere { agents, round_trip: Duration::from_nanos(round_trip) }, described.warnings))
    }

    /// A start is about to begin: has the agents read. Returns how long that may take.
    pub(super) fn open(&mut self, interrupt: &Interrupt) -> Duration {
        self.agents.level_starts(interrupt);
        self.agents.look(Phase::Measuring);
        self.round_trip + READING
    }

    /// A start is over, and took `length`: adds to its side what the agents saw.
    pub(super) fn close(
        &mut self,
        side: &mut SideRun,
        twin: Option<&SideRun>,
        length: Duration,
        interrupt: &Interrupt,
    ) -> Option<String> {
        let watched = self.agents.used(interrupt)?;
        let seen = self.agents.on_hosts(watched, length.as_nanos() as u64);
        if let Some(server) = seen.server {
            let used_ns = server.user_ns.saturating_add(server.system_ns);
            side.cpu_elsewhere_ns = Some(share(used_ns, side, twin));
            side.resident_bytes_max = Some(server.resident_bytes_max).filter(|bytes| *bytes > 0);
        }
        seen.missing
    }
}

/// Every contestant has its CPU time to itself: agents see whole processes.
///
/// # Errors
/// Where agents of two contestants watch the same processes: each would have the CPU time of both.
pub(super) fn apart(all: &[Elsewhere], contestants: &[Contestant]) -> Result<(), RunError> {
    for (number, one) in all.iter().enumerate() {
        for (other_number, other) in all[..number].iter().enumerate() {
            if let Some(what) = other.agents.watch_the_same(&one.agents) {
                let (first, second) = (&contestants[other_number].name, &contestants[number].name);
                return Err(RunError::Refused {
                    what: format!("{first} and {second}: {what}: each would have the CPU time of both"),
                    hint: "serve them by processes of their own, or leave --server-agent out: rates are then compared"
                        .to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// The part of a CPU time that is due to a side's requests, if the same server is also measured as its twin.
fn share(used_ns: u64, side: &SideRun, twin: Option<&SideRun>) -> u64 {
    let (own, others) = (side.counts.succeeded, twin.map_or(0, |twin| twin.counts.succeeded));
    match own.saturating_add(others) {
        0 => used_ns,
        all => (u128::from(used_ns) * u128::from(own) / u128::from(all)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::Counts;

    use super::*;

    #[test]
    fn a_server_asked_as_two_has_its_cpu_time_parted_by_requests() {
        let side =
            |succeeded| SideRun { counts: Counts { succeeded, ..Counts::default() }, ..SideRun::default() };
        assert_eq!(share(90, &side(10), None), 90);
        assert_eq!(share(90, &side(10), Some(&side(20))), 30);
        assert_eq!(share(90, &side(0), Some(&side(0))), 90);
        assert_eq!(share(u64::MAX, &side(1), Some(&side(0))), u64::MAX);
    }
}
