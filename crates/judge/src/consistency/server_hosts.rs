//! What the server used on each of its hosts, checked against the whole and against the agents that the record names.

use std::collections::BTreeSet;

use super::Books;
use webstone_measure::server_hosts::server_at_once;
use webstone_model::record::{IterationRecord, RunRecord};

/// A timed run, void or not.
pub(super) fn of_iteration(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    let says_why = !run.server_ended || run.server_missing.is_some();
    books.holds(
        "where the server ended, the record says that its figures are missing",
        says_why,
        String::new,
    );
    let (hosts, known) = (&run.server_hosts, record.target.agents.len());
    // With a single host, everything is stored with the timed run.
    if known < 2 && hosts.len() <= known {
        return;
    }
    let agents: BTreeSet<u32> = hosts.iter().map(|there| there.agent).collect();
    let are_known = agents.len() == hosts.len() && agents.iter().all(|agent| (*agent as usize) < known);
    books.holds("every host of the server is that of an agent that the record names", are_known, || {
        format!("{} of {known}", hosts.len())
    });
    let is_whole = hosts.len() == known && hosts.iter().all(|there| there.server.is_some());
    books.holds(
        "figures of a host are there, or the record says why not",
        is_whole || run.server_missing.is_some() || run.interrupted,
        || format!("{} of {known}", hosts.len()),
    );
    let sum = if is_whole && run.server_missing.is_none() { server_at_once(hosts) } else { None };
    books.holds("the server used what it used on its hosts", run.server == sum, || {
        let used = |server: &Option<webstone_model::record::ServerUse>| {
            server.as_ref().map(|server| server.user_ns.saturating_add(server.system_ns))
        };
        format!("{:?} and {:?} ns of CPU time", used(&run.server), used(&sum))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::Consistency;
    use webstone_model::record::{AgentRecord, ServerHostUse, ServerUse};

    fn held(change: impl Fn(&mut RunRecord)) -> bool {
        let mut record = webstone_model::fixture::record("a", &[]);
        let used = |agent: u32| ServerUse { user_ns: u64::from(agent) + 5, ..ServerUse::default() };
        let there = |agent| ServerHostUse { agent, server: Some(used(agent)), ..ServerHostUse::default() };
        record.target.agents = vec![AgentRecord::default(), AgentRecord::default()];
        let server_hosts = vec![there(0), there(1)];
        record.iterations = vec![IterationRecord {
            server: server_at_once(&server_hosts),
            server_hosts,
            ..IterationRecord::default()
        }];
        change(&mut record);
        let mut books = Books { place: String::new(), found: Consistency::default() };
        of_iteration(&mut books, &record, &record.iterations[0]);
        books.found.contradictions.is_empty()
    }

    #[test]
    fn hosts_add_up_and_are_those_of_the_record() {
        assert!(held(|_| ()));
        assert!(!held(|record| record.iterations[0].server.as_mut().unwrap().user_ns += 1));
        assert!(!held(|record| record.iterations[0].server = None));
        assert!(!held(|record| drop(record.target.agents.pop())));
        assert!(!held(|record| record.iterations[0].server_hosts[1].agent = 0));
        assert!(!held(|record| drop(record.iterations[0].server_hosts.pop())));
        let lost = |record: &mut RunRecord| {
            let run = &mut record.iterations[0];
            run.server_hosts.pop();
            run.server_missing = Some("server host 2: it ended".to_owned());
        };
        assert!(!held(lost), "a part does not pass for the whole");
        assert!(held(|record| {
            lost(record);
            record.iterations[0].server = None;
        }));
    }
}
