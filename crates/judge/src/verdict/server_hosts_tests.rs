//! A server with several hosts: each is judged by what its own agent read, and named.

use serde_json::json;
use webstone_model::fixture::split;
use webstone_model::record::{AgentRecord, CpuUse, CpuWatch, OthersUse, ServerHostUse};

use super::super::disturbance::losses;
use super::super::tests::{SECOND, valid};
use super::super::{LimitingResource, RuleStanding, Worth, of_record, rules};
use super::*;

fn cpu(cpu: u32, busy_s: u64) -> CpuUse {
    CpuUse { cpu, busy_ns: busy_s * SECOND, idle_ns: (600 - busy_s) * SECOND, ..CpuUse::default() }
}

/// The server on CPUs 4 and 5 of a host, where it used this many seconds of each in 600.
fn there(agent: u32, used_s: u64) -> ServerHostUse {
    let host = HostUse {
        elapsed_ns: 600 * SECOND,
        cpus: vec![cpu(0, 0), cpu(4, used_s), cpu(5, used_s)],
        others: Some(OthersUse::default()),
        ..HostUse::default()
    };
    let server = ServerUse { user_ns: 2 * used_s * SECOND, ..ServerUse::default() };
    ServerHostUse { agent, host, server: Some(server), ..ServerHostUse::default() }
}

/// Two hosts, `web1` and `web2`, which used this many seconds of each of their CPUs.
fn two(first_s: u64, second_s: u64) -> RunRecord {
    let mut record = valid();
    record.target.agents = ["1", "2"]
        .map(|place| AgentRecord {
            name: format!("web{place}"),
            boot: Some(format!("the server's {place}")),
            cpus: vec![4, 5],
            ..AgentRecord::default()
        })
        .to_vec();
    record.environment.insert("target.same_machine".into(), json!(false));
    for run in &mut record.iterations {
        run.server_hosts = vec![there(0, first_s), there(1, second_s)];
        run.server = webstone_measure::server_hosts::server_at_once(&run.server_hosts);
    }
    record
}

/// What is told of the first window after a change of its second host.
fn told(change: impl FnOnce(&mut HostUse)) -> Vec<(Worth, String)> {
    let mut record = two(300, 300);
    change(&mut record.iterations[0].server_hosts[1].host);
    losses(&record, &record.iterations[0]).iter().map(|loss| (loss.worth, loss.sentence())).collect()
}

#[test]
fn what_was_taken_on_any_host_is_told_of_that_host() {
    assert_eq!(told(|_| ()), []);
    assert_eq!(
        told(|host| host.cpus[1].stolen_ns = 120 * SECOND),
        [(
            Worth::Void,
            "the server host web2 lost 10.0 % of its CPU time: the hypervisor took it, or the process was stopped"
                .to_owned()
        )]
    );
    assert_eq!(told(|host| host.cpus[0].stolen_ns = 600 * SECOND), [], "a CPU without the server");
    let quota = told(|host| host.throttled_ns = Some(60 * SECOND));
    assert_eq!(quota.len(), 1);
    assert!(quota[0].1.starts_with("the server host web2 lost 5.0 % of its CPU time"), "{quota:?}");
    // The same on both hosts is told of both.
    let mut record = two(300, 300);
    for there in &mut record.iterations[0].server_hosts {
        there.host.cpus[1].stolen_ns = 120 * SECOND;
    }
    let both = losses(&record, &record.iterations[0]);
    assert_eq!(
        both.iter().map(|it| &*it.of).collect::<Vec<_>>(),
        ["the server host web1", "the server host web2"]
    );
    // Hosts with the same name are distinguished by their numbers.
    record.target.agents.iter_mut().for_each(|agent| agent.name = "vm".to_owned());
    assert_eq!(losses(&record, &record.iterations[0])[1].of, "the server host 2 (vm)");
}

#[test]
fn a_slow_cpu_is_compared_with_itself_and_not_with_another_hosts() {
    let watch =
        |work_ns| CpuWatch { cpu: 4, work_ns_best: work_ns, work_ns_median: work_ns, ..CpuWatch::default() };
    let mut record = two(500, 500);
    for run in &mut record.iterations {
        run.server_hosts[0].host.watched = vec![watch(1_000)];
        run.server_hosts[1].host.watched = vec![watch(2_000)];
    }
    let all = |record: &RunRecord| -> Vec<String> {
        record.iterations.iter().flat_map(|run| losses(record, run)).map(|loss| loss.sentence()).collect()
    };
    assert_eq!(all(&record), [""; 0], "web2 has always been slower than web1");
    record.iterations[0].server_hosts[1].host.watched = vec![watch(4_000)];
    let found = all(&record);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("the server host web2 lost 100 % to a slow CPU: CPU 4 was 100 % slower"),
        "{found:?}"
    );
}

#[test]
fn servers_of_one_machine_are_no_other_programs_to_each_other() {
    // Both on CPUs 4 and 5 of one machine, which their agents each read: half of each CPU is the one's, half the other's.
    let mut record = two(300, 300);
    for run in &mut record.iterations {
        for there in &mut run.server_hosts {
            there.host.cpus = vec![cpu(4, 600), cpu(5, 600)];
            there.host.others = Some(OthersUse { cpu_ns: 600 * SECOND, ..OthersUse::default() });
            let processes =
                webstone_model::record::ProcessUse { run_queue_ns: Some(300 * SECOND), ..Default::default() };
            there.server.as_mut().unwrap().processes = Some(processes);
        }
        run.server_hosts[1].same_machine_as = Some(0);
    }
    assert_eq!(losses(&record, &record.iterations[0]), []);
    // On machines of their own, it was somebody else.
    for run in &mut record.iterations {
        run.server_hosts[1].same_machine_as = None;
    }
    let found = losses(&record, &record.iterations[0]);
    assert_eq!(found.len(), 2);
    assert!(found[0].sentence().ends_with("other programs used it"), "{found:?}");
}

fn limit(record: &RunRecord) -> (LimitingResource, String) {
    let limit = of_record(record).level_limits.swap_remove(0).limit;
    (limit.resource, limit.sentence)
}

#[test]
fn a_saturated_host_is_named_whichever_it_is() {
    for (first, second, name) in [(300, 594, "web2"), (594, 300, "web1")] {
        let (resource, sentence) = limit(&two(first, second));
        assert_eq!(resource, LimitingResource::Server, "{sentence}");
        let expected = format!(
            "The CPU of the server host {name} is the bottleneck at 20 clients: the server host {name} used 99 % of its 2 CPUs"
        );
        assert!(sentence.starts_with(&expected), "{sentence}");
    }
    // Neither used all of its own CPUs.
    let (resource, sentence) = limit(&two(300, 400));
    assert_eq!(resource, LimitingResource::Unknown, "{sentence}");
}

#[test]
fn a_full_link_of_a_host_is_the_networks() {
    let mut record = two(60, 60);
    for run in &mut record.iterations {
        let link = webstone_model::record::LinkUse {
            name: "eth0".into(),
            speed_bps: Some(SECOND),
            sent_bytes: 600 * 124_000_000,
            ..Default::default()
        };
        run.server_hosts[1].host.links = vec![link];
    }
    let (resource, sentence) = limit(&record);
    assert_eq!(resource, LimitingResource::Network, "{sentence}");
    assert!(sentence.contains("server host web2's eth0 sent 992 Mbit/s"), "{sentence}");
}

#[test]
fn a_host_that_was_not_measured_leaves_the_bottleneck_unknown() {
    let mut record = two(300, 300);
    for run in &mut record.iterations {
        run.server_hosts[1].server = None;
        run.server = None;
        run.server_missing = Some("server host web2: it ended".to_owned());
    }
    let (resource, sentence) = limit(&record);
    assert_eq!(resource, LimitingResource::Unknown);
    assert!(sentence.contains("the CPU time of the server host web2 was not measured"), "{sentence}");
    // Where another host is at its limit, that is known nevertheless.
    for run in &mut record.iterations {
        run.server_hosts[0] = there(0, 594);
    }
    assert!(limit(&record).1.contains("server host web1 used 99 %"));
}

fn standing(record: &RunRecord, id: &str) -> (RuleStanding, String) {
    let rule = rules(record).into_iter().find(|rule| rule.id == id).unwrap();
    (rule.standing, rule.evidence)
}

#[test]
fn rules_hold_for_every_host() {
    let record = two(300, 300);
    assert_eq!(standing(&record, "separate-hosts").0, RuleStanding::Met);
    assert_eq!(standing(&record, "server-hosts-monitored"), (RuleStanding::Met, "2 hosts".to_owned()));
    assert!(rules(&valid()).iter().all(|rule| rule.id != "server-hosts-monitored"));

    let of = |change: &dyn Fn(&mut RunRecord), id: &str| {
        let mut record = record.clone();
        change(&mut record);
        standing(&record, id)
    };
    let here =
        |record: &mut RunRecord| drop(record.environment.insert("target.same_machine".into(), json!(true)));
    assert_eq!(of(&here, "separate-hosts").0, RuleStanding::NotMet);
    let unknown = |record: &mut RunRecord| drop(record.environment.remove("target.same_machine"));
    assert_eq!(of(&unknown, "separate-hosts").0, RuleStanding::CannotTell);

    let lost = |record: &mut RunRecord| {
        record.iterations[1].server_missing =
            Some("server host web2: it ended: killed by signal 9".to_owned());
    };
    let (met, evidence) = of(&lost, "server-hosts-monitored");
    assert_eq!(met, RuleStanding::NotMet);
    assert!(evidence.ends_with("server host web2: it ended: killed by signal 9"), "{evidence}");

    let described = |record: &mut RunRecord| {
        record.spec.disclosure.remove("server.host");
        let facts = json!({ "cpu.model": "Example", "memory.bytes": 1, "kernel.release": "7", "sysctl": {} });
        for agent in &mut record.target.agents {
            agent.environment = serde_json::from_value(facts.clone()).unwrap();
        }
    };
    assert_eq!(of(&described, "server-host").0, RuleStanding::Met);
    let partly = |record: &mut RunRecord| {
        described(record);
        record.target.agents[1].environment.remove("cpu.model");
    };
    let (met, evidence) = of(&partly, "server-host");
    assert_eq!(met, RuleStanding::NotMet);
    assert!(evidence.starts_with("of server host web2 cpu.model could not be read"), "{evidence}");
}

#[test]
fn load_generators_are_separate_from_every_host() {
    let mut record = two(300, 300);
    split(&mut record, 3);
    assert_eq!(standing(&record, "separate-hosts").0, RuleStanding::Met);
    let mut beside = record.clone();
    beside.generators[2].boot = Some("the server's 2".to_owned());
    assert_eq!(
        standing(&beside, "separate-hosts"),
        (RuleStanding::NotMet, "the agent of server host web2 runs on the machine of generator 3".to_owned())
    );
    record.target.agents[1].boot = None;
    let (met, evidence) = standing(&record, "separate-hosts");
    assert_eq!(met, RuleStanding::CannotTell);
    assert!(evidence.contains("the boot of the kernel on server host web2 is unknown"), "{evidence}");
}
