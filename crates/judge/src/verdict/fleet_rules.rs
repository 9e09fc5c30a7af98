//! Run rules of a load that several hosts made: how many hosts they were, whether they are the server's, whether they ran the same
//! program, and whether their windows opened at one moment.

use std::collections::BTreeSet;

use super::bounds::{counted, time};
use super::fleet;
use super::rules::{Finding, cannot_tell, how, met, nothing, stated};
use webstone_model::generators::GeneratorRecord;
use webstone_model::record::{AgentRecord, RunRecord};

/// Hosts are counted by the boots of their kernels: containers and network namespaces of a machine are one host.
pub(super) fn load_generators(record: &RunRecord) -> Finding {
    let generators = &record.generators;
    if let Some((place, _)) = first(generators, |host| host.boot.is_none()) {
        return cannot_tell(format!(
            "{} started, but how many hosts they are is unknown: generator {} does not report the boot of its kernel",
            counted(generators.len() as u64, "agent was", "agents were"),
            place + 1
        ));
    }
    let boots: BTreeSet<&str> = generators.iter().filter_map(|host| host.boot.as_deref()).collect();
    let hosts = counted(boots.len() as u64, "host", "hosts");
    let may_share =
        record.spec.generators.iter().any(|host| host.kubernetes.as_ref().is_some_and(|it| it.share_nodes));
    if may_share && boots.len() < generators.len() {
        let pods = counted(generators.len() as u64, "agent", "agents");
        return met(
            false,
            format!("{pods} on {hosts}: pods shared a machine (share_nodes), and slowed each other down"),
        );
    }
    let hosts = match boots.len() == generators.len() {
        true => hosts,
        false => format!("{} on {hosts}", counted(generators.len() as u64, "agent", "agents")),
    };
    let workers: u64 = generators.iter().map(|host| u64::from(host.workers)).sum();
    let found = format!("{hosts}, {}", counted(workers, "worker", "workers"));
    if let Some(stated) = stated_of_all(record) {
        return met(true, format!("{found}, {stated}"));
    }
    if let Some((place, _)) = first(generators, |host| host.fact("cpu.model").is_none()) {
        let why = format!("the processor of generator {} could not be read", place + 1);
        return met(false, format!("{why}; {}", how("generator.host")));
    }
    let mut models: Vec<&str> = generators.iter().filter_map(|host| host.fact("cpu.model")).collect();
    models.sort_unstable();
    models.dedup();
    met(true, format!("{found}, {}", models.join("; ")))
}

/// What the testbed file says of all of them.
fn stated_of_all(record: &RunRecord) -> Option<String> {
    record.spec.disclosure.get("generator.host")?;
    stated(record, "generator.host")
}

/// Addresses of containers and network namespaces of one machine differ: only boots identify a machine.
pub(super) fn separate_hosts(record: &RunRecord) -> Finding {
    let generators = &record.generators;
    if let Some((place, _)) = first(generators, |host| host.has_server == Some(true)) {
        return met(false, format!("the server has its address on the host of generator {}", place + 1));
    }
    let agents = &record.target.agents;
    let is_alone = agents.len() == 1;
    let on_one_machine = |server: &AgentRecord| {
        let (place, _) = first(generators, |host| host.boot.is_some() && host.boot == server.boot)?;
        Some(place)
    };
    let shared = (0..).zip(agents).find_map(|(agent, server)| Some((agent, on_one_machine(server)?)));
    if let Some((agent, place)) = shared {
        let whose = match is_alone {
            true => "the server's agent".to_owned(),
            false => format!("the agent of {}", record.server_host_named(agent)),
        };
        return met(false, format!("{whose} runs on the machine of generator {}", place + 1));
    }
    let unknown = (0..).zip(agents).find(|(_, server)| server.boot.is_none()).map(|(agent, _)| agent);
    if agents.is_empty() || unknown.is_some() {
        let whose = unknown.map_or("the server's host".to_owned(), |agent| record.server_host_named(agent));
        let why = format!("the boot of the kernel on {whose} is unknown");
        return cannot_tell(format!("{why}; give --server-agent"));
    }
    if let Some((place, _)) = first(generators, |host| host.boot.is_none()) {
        return cannot_tell(format!("generator {} does not report the boot of its kernel", place + 1));
    }
    match is_alone {
        true => met(true, "the server's agent runs on another machine than every load generator"),
        false => met(true, "the server's agents run on other machines than the load generators"),
    }
}

/// Hosts with different programs measure differently.
pub(super) fn same_program(record: &RunRecord) -> Finding {
    let generators = &record.generators;
    if let Some((place, _)) = first(generators, |host| host.program_sha256.is_empty()) {
        return cannot_tell(format!("the hash of generator {}'s program is not in the record", place + 1));
    }
    let of_first = &generators[0].program_sha256;
    let controllers = record.environment.get("tool.program_sha256").and_then(|fact| fact.as_str());
    let wanted = controllers.unwrap_or(of_first);
    if let Some((place, _)) = first(generators, |host| host.program_sha256 != *wanted) {
        let whose = if controllers.is_some() { "the controller" } else { "generator 1" };
        return met(false, format!("generator {} ran another program than {whose}", place + 1));
    }
    let version = &record.tool.version;
    let is_of = |host: &GeneratorRecord| host.version.split([' ', '+', '(']).next() == Some(version.as_str());
    if let Some((place, host)) = first(generators, |host| !is_of(host)) {
        return met(
            false,
            format!("generator {} ran version {}, the controller {version}", place + 1, host.version),
        );
    }
    let hash: String = wanted.chars().take(12).collect();
    met(true, format!("version {version}, SHA-256 {hash}… on {}", hosts(generators.len())))
}

/// The worst of all windows, at the worst that its clock allows.
pub(super) fn aligned_windows(record: &RunRecord) -> Finding {
    let worst = record.iterations.iter().filter_map(|run| {
        let part = fleet::furthest(run)?;
        let limit_ns = fleet::apart_ns_max(run.measured.window_ns);
        Some((part.apart_ns_max() as f64 / limit_ns as f64, run, part, limit_ns))
    });
    let Some((share, run, part, limit_ns)) = worst.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return match record.iterations.is_empty() {
            true => nothing(),
            false => cannot_tell("when each host opened its window is not in the record"),
        };
    };
    let told = fleet::furthest_told(part);
    met(share <= 1.0, format!("{}: {told} at worst (limit {})", run.key(), time(limit_ns as f64)))
}

fn hosts(number: usize) -> String {
    counted(number as u64, "load generator", "load generators")
}

/// The first generator that fulfils a condition, with its place.
fn first(
    generators: &[GeneratorRecord],
    is_so: impl Fn(&GeneratorRecord) -> bool,
) -> Option<(usize, &GeneratorRecord)> {
    generators.iter().enumerate().find(|(_, host)| is_so(host))
}
