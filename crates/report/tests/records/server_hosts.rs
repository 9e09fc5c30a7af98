//! The record of a server on two hosts behind a load balancer, each watched by its own agent; one was lost in a timed run.

use serde_json::json;
use webstone_measure::server_hosts::server_at_once;
use webstone_model::record::{AgentRecord, HostUse, ProcessUse, RunRecord, ServerHostUse, ServerUse};

use super::fleet::fleet;
use super::words;

/// The load of the three hosts of [`fleet`], on two hosts of which the second does twice as much.
pub fn server_hosts() -> RunRecord {
    let mut record = fleet();
    record.id = "20261121-140405-balanced".to_owned();
    let names = ["web1", "web2"];
    let agents = names.map(|name| format!("ssh {name} webstone agent --port 8081"));
    record
        .command_line
        .extend(agents.iter().flat_map(|agent| [words("--server-agent"), vec![agent.clone()]]).flatten());
    record.spec.server.agents = agents.to_vec();
    let facts = |name: &str| {
        [
            ("hostname", json!(name)),
            ("cpu.model", json!("Server CPU 1")),
            ("cpu.online", json!("0-3")),
            ("kernel.release", json!("6.18.0")),
            ("memory.bytes", json!(32_000_000_000_u64)),
            ("sysctl", json!({ "net.core.somaxconn": "4096" })),
        ]
        .map(|(fact, value)| (fact.to_owned(), value))
    };
    record.environment.remove("server.environment");
    record.environment.insert("target.same_machine".to_owned(), json!(false));
    record.target.agents = names
        .iter()
        .zip(agents)
        .map(|(name, command)| AgentRecord {
            command,
            name: (*name).to_owned(),
            version: "0.1.0".to_owned(),
            boot: Some(format!("boot of {name}")),
            round_trip_ns_min: 180_000,
            ports: vec![8081],
            cpus: vec![0, 1],
            environment: facts(name).into(),
        })
        .collect();
    for (place, run) in record.iterations.iter_mut().enumerate() {
        let whole = run.server_hosts.remove(0);
        run.server_hosts = (0..2).map(|agent| on_host(agent, &whole.host)).collect();
        run.server = server_at_once(&run.server_hosts);
        if place == 4 {
            run.server_hosts.remove(1);
            run.server = None;
            run.server_missing = Some("server host web2: it ended: killed by signal 9".to_owned());
        }
    }
    record
}

/// A third of the load, or two.
fn on_host(agent: u32, whole: &HostUse) -> ServerHostUse {
    let part = u64::from(agent) + 1;
    let used = whole.elapsed_ns / 10 * part;
    let mut host = whole.clone();
    for cpu in &mut host.cpus {
        (cpu.busy_ns, cpu.user_ns, cpu.system_ns) = (used, used / 4, used / 4 * 3);
        cpu.idle_ns = whole.elapsed_ns - used;
    }
    for link in &mut host.links {
        link.received_bytes = link.received_bytes / 3 * part;
        link.sent_bytes = link.sent_bytes / 3 * part;
    }
    let processes = ProcessUse {
        switches_voluntary: 1_000 * part,
        processes_max: 2,
        threads_max: 4,
        descriptors_max: Some(20 * part),
        resident_bytes: 40_000_000,
        ..ProcessUse::default()
    };
    let server = ServerUse {
        user_ns: used / 4,
        system_ns: used / 4 * 3,
        resident_bytes_max: 50_000_000,
        processes: Some(processes),
        ..ServerUse::default()
    };
    ServerHostUse {
        agent,
        host,
        opening_delay_ns_max: 200_000,
        close_delay_ns_max: 150_000,
        server: Some(server),
        ..ServerHostUse::default()
    }
}
