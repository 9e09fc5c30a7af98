//! Agents on several hosts, without processes: which share a machine, what is reported of them, and their sums.

use webstone_model::record::{HostUse, ProcessUse};

use super::super::messages::Identity;
use super::*;

/// An agent on a machine and in a network namespace, that watches one socket and one process.
fn introduced(name: &str, boot: &str, network: &str, socket: u64, process: u32) -> Introduced {
    Introduced {
        record: AgentRecord {
            command: format!("agent {socket}"),
            name: name.to_owned(),
            boot: Some(boot.to_owned()),
            ..AgentRecord::default()
        },
        identity: Identity {
            network: Some(network.to_owned()),
            sockets: [socket].into(),
            processes: [("pid:[1]".to_owned(), process)].into(),
        },
        ..Introduced::default()
    }
}

fn names(introduced: &[Introduced]) -> Vec<String> {
    let records: Vec<AgentRecord> = introduced.iter().map(|it| it.record.clone()).collect();
    (0..records.len() as u32).map(|place| host_name(&records, place)).collect()
}

#[test]
fn agents_that_watch_the_same_are_refused() {
    let of = |second: Introduced| {
        let both = [introduced("web1", "b1", "net:[1]", 7, 70), second];
        shared(&both, &names(&both)).map_err(|error| (error.to_string(), error.hint()))
    };
    for second in [introduced("web1", "b1", "net:[1]", 7, 71), introduced("web1", "b1", "net:[2]", 8, 70)] {
        let command = second.record.command.clone();
        let (error, hint) = of(second).unwrap_err();
        assert_eq!(
            error,
            format!(
                "the agents `agent 7` and `{command}` watch the same processes, on web1: the server would be counted twice"
            )
        );
        assert!(hint.contains("webstone agent --port 8081"), "{hint}");
    }
    // Another machine may have the same numbers.
    assert_eq!(of(introduced("web2", "b2", "net:[1]", 7, 70)).unwrap(), [(None, None); 2]);
    assert_eq!(of(introduced("web1", "b1", "net:[1]", 8, 71)).unwrap(), [(None, None), (Some(0), Some(0))]);
    assert_eq!(of(introduced("web1", "b1", "net:[2]", 8, 71)).unwrap(), [(None, None), (Some(0), None)]);
    // Nothing is known of a machine whose kernel does not report its boot.
    let mut unknown = introduced("web1", "b1", "net:[1]", 7, 70);
    unknown.record.boot = None;
    assert_eq!(of(unknown).unwrap(), [(None, None); 2]);
}

/// Contestants of a duel have agents of their own.
#[test]
fn agents_of_several_servers_that_watch_the_same_are_found() {
    let watching = |all: &[Introduced]| ServerAgents {
        names: names(all),
        watched: all.iter().map(|it| (it.record.clone(), it.identity.clone())).collect(),
        ..ServerAgents::default()
    };
    let old =
        watching(&[introduced("web0", "b0", "net:[1]", 1, 10), introduced("web1", "b1", "net:[1]", 7, 70)]);
    let of = |new: Introduced| old.watch_the_same(&watching(&[new]));
    assert_eq!(
        of(introduced("web1", "b1", "net:[1]", 8, 70)).unwrap(),
        "the agents `agent 7` and `agent 8` watch the same processes, on web1"
    );
    assert_eq!(of(introduced("web1", "b1", "net:[1]", 8, 71)), None);
    assert_eq!(of(introduced("web2", "b2", "net:[1]", 7, 70)), None);
}

#[test]
fn what_is_told_names_the_host_where_there_are_several() {
    let strange = |addresses: &[&str]| addresses.iter().map(|it| it.parse().unwrap()).collect();
    let mut web1 = introduced("web1", "b1", "net:[1]", 1, 1);
    web1.unseen = Some("nothing listens on port 80 where the agent runs".to_owned());
    web1.strange = strange(&["192.0.2.1"]);
    let of = |all: Vec<Introduced>| {
        let names = names(&all);
        describe(all, &names)
    };
    let mut web2 = introduced("web1", "b2", "net:[1]", 2, 2);
    web2.strange = strange(&["192.0.2.1", "192.0.2.2"]);
    web2.host.facts.insert("kernel.release".to_owned(), "6.18".into());
    let described = of(vec![web1, web2]);
    assert_eq!(described.warnings.len(), 2, "{:?}", described.warnings);
    assert!(described.warnings[0].contains("the address 192.0.2.1,"), "{:?}", described.warnings);
    assert!(
        described.warnings[1].starts_with("server host 1 (web1): nothing listens on port 80"),
        "{:?}",
        described.warnings
    );
    assert_eq!(described.records[1].fact("kernel.release"), Some("6.18"));
    // A single one is reported as usual, and its facts are the run's.
    let mut only = introduced("web1", "b1", "net:[1]", 1, 1);
    only.strange = strange(&["192.0.2.1"]);
    only.unseen = Some("nothing listens".to_owned());
    only.host.facts.insert("kernel.release".to_owned(), "6.18".into());
    let described = of(vec![only]);
    assert!(described.warnings[0].starts_with("the agent's host does not have the address 192.0.2.1"));
    assert_eq!(described.warnings[1], "nothing listens");
    assert!(described.records[0].environment.is_empty());
}

fn seen(user_ns: u64, descriptors_max: Option<u64>) -> Elsewhere {
    let processes = ProcessUse { processes_max: 2, descriptors_max, ..ProcessUse::default() };
    let server = ServerUse { user_ns, processes: Some(processes), ..ServerUse::default() };
    let host = HostUse { elapsed_ns: 1_000, ..HostUse::default() };
    Elsewhere { host: ServerHostUse { host, ..ServerHostUse::default() }, server: Some(server) }
}

#[test]
fn the_whole_is_known_where_no_host_is_missing() {
    let hosts = ["web1".to_owned(), "web2".to_owned()];
    let shared = [(None, None), (Some(0), None)];
    let both = together(vec![Ok(seen(5, Some(9))), Ok(seen(7, None))], &hosts, &shared);
    let whole = both.server.unwrap();
    let processes = whole.processes.unwrap();
    assert_eq!((whole.user_ns, processes.processes_max, processes.descriptors_max), (12, 4, None));
    assert_eq!(
        both.hosts.iter().map(|it| (it.agent, it.machine(), it.network())).collect::<Vec<_>>(),
        [(0, 0, 0), (1, 0, 1)]
    );
    assert_eq!(both.missing, None);

    let one = together(vec![Err("it ended".to_owned()), Ok(seen(7, None))], &hosts, &shared);
    assert_eq!((one.server, one.hosts.len(), one.hosts[0].agent), (None, 1, 1));
    assert_eq!(one.missing.as_deref(), Some("server host web1: it ended"));

    let unseen = Elsewhere { server: None, ..seen(7, None) };
    let one = together(vec![Ok(seen(5, None)), Ok(unseen)], &hosts, &shared);
    assert_eq!((one.server, one.hosts.len()), (None, 2));
    assert_eq!(one.missing.unwrap(), format!("server host web2: {NOT_SEEN}"));

    let alone = together(vec![Ok(seen(5, None))], &hosts[..1], &shared[..1]);
    assert_eq!((alone.server.unwrap().user_ns, alone.hosts[0].server.clone()), (5, None));
    let alone = together(vec![Err("it ended".to_owned())], &hosts[..1], &shared[..1]);
    assert_eq!((alone.server, alone.hosts.len(), alone.missing.as_deref()), (None, 0, Some("it ended")));
}
