//! The run rules, checked against a record: WebStone 2.0's as MEASUREMENT lists them, then webstone's own. Data, so that
//! certifying a run prints and checks this very list.
//!
//! A fact that the record holds in `disclosure` (from the testbed file) or in `environment` (read by the program) under
//! the rule's key counts as disclosed; whether it is true, no program can tell.

use serde_json::Value;

use super::bounds::counted;
use super::{RuleResult, RuleSource, RuleStanding, fleet_rules, server_hosts};
use crate::calibration;
use crate::statistics::{self, NoiseFloor, Steadiness, request_rate_noise};
use webstone_measure::keys::{LevelKey, levels_named};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::ConnectionPolicy;
use webstone_workload::builtin;

/// Shortest window of a level, in seconds.
const WINDOW_S_MIN: f64 = 600.0;
/// What a window may fall short by: it ends when the clock is next read.
const WINDOW_SLACK: f64 = 0.001;
/// The numbers of clients that WebStone's run rules ask for.
const CLIENTS: [u32; 9] = [20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Fewest iterations of a level.
const ITERATIONS_MIN: usize = 3;

/// Whether a rule is met, and what was found.
pub(super) type Finding = (RuleStanding, String);

struct Rule {
    id: &'static str,
    text: &'static str,
    source: RuleSource,
    check: fn(&RunRecord) -> Finding,
}

const fn webstone2(id: &'static str, text: &'static str, check: fn(&RunRecord) -> Finding) -> Rule {
    Rule { id, text, source: RuleSource::WebStone2, check }
}

const fn ours(id: &'static str, text: &'static str, check: fn(&RunRecord) -> Finding) -> Rule {
    Rule { id, text, source: RuleSource::Webstone, check }
}

const RULES: [Rule; 20] = [
    webstone2("standard-workload", "a standard workload, unchanged", standard_workload),
    webstone2("ten-minutes", "every timed run at least 10 minutes long", ten_minutes),
    webstone2("client-range", "20 to 100 clients in steps of 10; more levels are allowed", client_range),
    webstone2("connections", "a new connection for each request", connections),
    webstone2("every-level", "every level that was run is in the record", every_level),
    webstone2("server-software", "server software and its version disclosed", server_software),
    webstone2("server-configuration", "the server's whole configuration disclosed", |record| {
        disclosed(record, "server.configuration")
    }),
    webstone2("server-logging", "disclosed: whether the server logs", |record| {
        disclosed(record, "server.logging")
    }),
    webstone2("server-dns", "disclosed: whether the server resolves names", |record| {
        disclosed(record, "server.dns")
    }),
    webstone2("server-processes", "the server's number of threads and processes disclosed", |record| {
        disclosed(record, "server.processes")
    }),
    webstone2(
        "server-host",
        "the server's hardware, operating system, memory and tuned settings disclosed",
        server_host,
    ),
    webstone2("topology", "the network between generator and server disclosed", |record| {
        disclosed(record, "topology")
    }),
    webstone2("load-generators", "number and kind of the load generators disclosed", load_generators),
    ours("separate-hosts", "server and load generator on separate hosts", separate_hosts),
    ours(
        "three-iterations",
        "at least 3 iterations of every level, all of them in the record",
        three_iterations,
    ),
    ours("noise-floor", "an A/A noise floor of every level", noise_floor),
    ours("steady-state", "every timed run in its steady state from the start", steady_state),
    ours(
        "reproducible",
        "seed, command line, program version, commit and workload hash in the record",
        reproducible,
    ),
    ours("calibration", "the load generator calibrated on the same host", calibration),
    ours("both-latencies", "open loop: latency from the intended and from the actual start", both_latencies),
];

/// Of a load that several hosts make.
const FLEET_RULES: [Rule; 2] = [
    ours(
        "same-program",
        "every load generator the same program as the controller",
        fleet_rules::same_program,
    ),
    ours(
        "aligned-windows",
        "the windows of all load generators opened at one moment",
        fleet_rules::aligned_windows,
    ),
];

/// Of a server on several hosts.
const SERVER_HOSTS_RULES: [Rule; 1] = [ours(
    "server-hosts-monitored",
    "every host of the server monitored in every timed run",
    server_hosts::all_monitored,
)];

/// Every run rule that concerns a record, checked against it: always the same rules in the same order, and those about several hosts
/// where several made the load, or the server had several.
pub fn rules(record: &RunRecord) -> Vec<RuleResult> {
    let of_fleet = if record.generators.is_empty() { &[][..] } else { &FLEET_RULES[..] };
    let of_servers = if record.target.agents.len() < 2 { &[][..] } else { &SERVER_HOSTS_RULES[..] };
    RULES
        .iter()
        .chain(of_fleet)
        .chain(of_servers)
        .map(|rule| {
            let (standing, evidence) = (rule.check)(record);
            RuleResult {
                id: rule.id.to_owned(),
                text: rule.text.to_owned(),
                source: rule.source,
                standing,
                evidence,
            }
        })
        .collect()
}

pub(super) fn met(is_met: bool, evidence: impl Into<String>) -> Finding {
    (if is_met { RuleStanding::Met } else { RuleStanding::NotMet }, evidence.into())
}

pub(super) fn cannot_tell(evidence: impl Into<String>) -> Finding {
    (RuleStanding::CannotTell, evidence.into())
}

fn standard_workload(record: &RunRecord) -> Finding {
    let name = &record.workload.name;
    match builtin(name) {
        None => met(false, format!("`{name}` is not a built-in workload")),
        Some(builtin) if builtin.sha256() == record.workload_sha256 => met(true, format!("`{name}`")),
        Some(_) => met(false, format!("`{name}` has the name of a built-in workload, but other content")),
    }
}

fn ten_minutes(record: &RunRecord) -> Finding {
    let seconds = |run: &IterationRecord| run.measured.window_ns as f64 / NANOS_PER_SECOND as f64;
    match record.iterations.iter().min_by_key(|run| run.measured.window_ns) {
        None => nothing(),
        Some(run) => met(
            seconds(run) >= WINDOW_S_MIN * (1.0 - WINDOW_SLACK),
            format!("the shortest took {:.1} s, at {}", seconds(run), run.level()),
        ),
    }
}

fn client_range(record: &RunRecord) -> Finding {
    let levels = record.levels();
    let missing: Vec<String> = CLIENTS
        .iter()
        .filter(|clients| !levels.iter().any(|(_, runs)| runs[0].clients == **clients))
        .map(u32::to_string)
        .collect();
    match missing.len() {
        0 => met(true, counted(levels.len() as u64, "level", "levels")),
        9 => met(false, "none of these levels was run"),
        _ => met(false, format!("no level of {} clients", missing.join(", "))),
    }
}

fn connections(record: &RunRecord) -> Finding {
    match record.spec.client.connections {
        ConnectionPolicy::PerRequest => met(true, "per-request"),
        ConnectionPolicy::PerPage => met(false, "per-page; run with --connections per-request"),
        ConnectionPolicy::KeepAlive => met(false, "keep-alive; run with --connections per-request"),
    }
}

fn every_level(record: &RunRecord) -> Finding {
    let (levels, load) = (record.levels(), &record.spec.load);
    let mut missing: Vec<LevelKey> = match &load.rate {
        Some(rates) => rates.0.iter().copied().map(LevelKey::Rate).collect(),
        None => load.clients.0.iter().copied().map(LevelKey::Clients).collect(),
    };
    missing.retain(|key| !levels.iter().any(|(level, _)| level == key));
    match missing.is_empty() {
        true => met(true, counted(levels.len() as u64, "level", "levels")),
        false => met(false, format!("no timed run with {}", levels_named(&missing))),
    }
}

fn server_software(record: &RunRecord) -> Finding {
    if let Some(stated) = stated(record, "server.software") {
        return met(true, stated);
    }
    match &record.target.server {
        Some(server) if server.chars().any(|c| c.is_ascii_digit()) => met(true, server.clone()),
        Some(server) => met(
            false,
            format!("the server names itself `{server}`, without a version; {}", how("server.software")),
        ),
        None => met(false, format!("the server does not name itself; {}", how("server.software"))),
    }
}

/// What the record states of the server or the testbed under a key. The embedded server's settings are in the
/// specification.
fn disclosed(record: &RunRecord, key: &str) -> Finding {
    let server = &record.spec.server;
    let of_embedded = match key {
        "server.configuration" => Some("the embedded server's, in the specification".to_owned()),
        "server.logging" => Some(match &server.access_log {
            Some(path) => format!("access log to {path}"),
            None => "no access log".to_owned(),
        }),
        "server.dns" => Some(
            if server.resolve_names { "looks up host names" } else { "does not look up host names" }
                .to_owned(),
        ),
        "server.processes" => Some(match server.threads {
            0 => "one process, a thread for each of its CPUs".to_owned(),
            threads => format!("one process, {}", counted(u64::from(threads), "thread", "threads")),
        }),
        _ => None,
    };
    match stated(record, key).or(of_embedded.filter(|_| record.target.embedded)) {
        Some(text) => met(true, text),
        None => met(false, format!("not disclosed; {}", how(key))),
    }
}

pub(super) fn how(key: &str) -> String {
    format!("state \"{key}\" under [disclosure] in the testbed file")
}

/// A disclosed text, shortened to its first line.
pub(super) fn stated(record: &RunRecord, key: &str) -> Option<String> {
    let environment = || match record.environment.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        _ => Some("in the environment".to_owned()),
    };
    let text = record.spec.disclosure.get(key).cloned().or_else(environment)?;
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn server_host(record: &RunRecord) -> Finding {
    const KEY: &str = "server.host";
    if let Some(stated) = stated(record, KEY) {
        return met(true, stated);
    }
    let told = record.server_environments();
    let whose = match (told.is_empty(), this_host(record)) {
        (false, _) => "the server's own, as its agent read it",
        (true, Some(true)) => "this host",
        (true, _) => {
            let remedy = format!("{}, or give --server-agent", how(KEY));
            return met(false, format!("the server's host is not described; {remedy}"));
        }
    };
    let lacks = |is_known: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let needed = ["cpu.model", "memory.bytes", "kernel.release", "sysctl"];
        needed.into_iter().filter(|fact| !is_known(fact)).collect()
    };
    if record.target.agents.len() < 2 {
        let missing = match told.first() {
            Some((_, facts)) => lacks(&|fact| facts.contains_key(fact)),
            None => lacks(&|fact| record.environment.contains_key(fact)),
        };
        return match missing.is_empty() {
            true => met(true, format!("{whose}, in the environment")),
            false => {
                met(false, format!("{whose}, but {} could not be read; {}", missing.join(", "), how(KEY)))
            }
        };
    }
    for agent in 0..record.target.agents.len() as u32 {
        let facts = told.iter().find(|(place, _)| *place == agent).map(|(_, facts)| facts);
        let missing = lacks(&|fact| facts.is_some_and(|facts| facts.contains_key(fact)));
        if !missing.is_empty() {
            let (host, missing) = (record.server_host_named(agent), missing.join(", "));
            return met(false, format!("of {host} {missing} could not be read; {}", how(KEY)));
        }
    }
    met(true, "the server's own, as its agents read them, in the record")
}

fn load_generators(record: &RunRecord) -> Finding {
    if !record.generators.is_empty() {
        return fleet_rules::load_generators(record);
    }
    let model = record.environment.get("cpu.model").and_then(Value::as_str);
    let workers = record.iterations.iter().map(|run| run.measured.generator.workers.len()).max().unwrap_or(0);
    match (model.map(str::to_owned).or_else(|| stated(record, "generator.host")), workers) {
        (_, 0) => cannot_tell("no worker is in the record"),
        (Some(model), workers) => {
            met(true, format!("1, {}, {model}", counted(workers as u64, "worker", "workers")))
        }
        (None, _) => met(false, format!("the processor could not be read; {}", how("generator.host"))),
    }
}

fn separate_hosts(record: &RunRecord) -> Finding {
    if !record.generators.is_empty() {
        return fleet_rules::separate_hosts(record);
    }
    let same_machine = record.environment.get("target.same_machine").and_then(Value::as_bool);
    let (agents, others) = match record.target.agents.len() < 2 {
        true => ("its agent runs", "its agent runs on another machine"),
        false => ("an agent of its hosts runs", "the agents of its hosts run on other machines"),
    };
    match this_host(record) {
        Some(true) => met(false, "the server ran on the load generator's host, over its loopback"),
        // Addresses of containers and network namespaces differ, their machine does not.
        Some(false) if same_machine == Some(true) => met(
            false,
            format!("the server has another address, but {agents} on the load generator's machine"),
        ),
        Some(false) if same_machine == Some(false) => {
            met(true, format!("the server has another address, and {others}"))
        }
        // By addresses alone nothing is known of the hosts behind a load balancer.
        Some(false) if record.target.agents.len() > 1 => {
            cannot_tell("not every host of the server reports the boot of its kernel")
        }
        Some(false) => met(true, "the server has another address than this host"),
        None => cannot_tell("the record does not say where the server ran"),
    }
}

/// Whether the target was on the generator's host.
pub(crate) fn this_host(record: &RunRecord) -> Option<bool> {
    match record.target.embedded {
        true => Some(true),
        false => record.environment.get("target.this_host").and_then(Value::as_bool),
    }
}

fn three_iterations(record: &RunRecord) -> Finding {
    let levels = record.levels();
    match levels.iter().min_by_key(|(_, runs)| runs.len()) {
        None => nothing(),
        Some((_, runs)) => met(
            runs.len() >= ITERATIONS_MIN,
            format!("{} at {}", counted(runs.len() as u64, "iteration", "iterations"), runs[0].level()),
        ),
    }
}

fn noise_floor(record: &RunRecord) -> Finding {
    let levels = record.levels();
    let floors: Vec<f64> =
        levels.iter().filter_map(|(_, runs)| Some(request_rate_noise(runs)?.percent)).collect();
    let worst = floors.iter().copied().fold(0.0, f64::max);
    match levels.len() {
        0 => nothing(),
        all if floors.len() == all => met(
            worst <= NoiseFloor::PERCENT_MAX,
            format!("{} of the request rate at worst", NoiseFloor::in_words(worst)),
        ),
        _ if !record.spec.load.aa => met(false, "not measured; run with --aa"),
        _ => met(false, "an arm has fewer than 2 iterations with answers"),
    }
}

fn steady_state(record: &RunRecord) -> Finding {
    let mut judged = 0;
    for run in &record.iterations {
        let Some(steady) = statistics::steady_state(run) else { continue };
        judged += 1;
        let what = match (steady.steadiness, steady.truncate) {
            (Steadiness::FromTheStart, _) => continue,
            (Steadiness::Later, cut) => {
                format!(
                    "the mean rate is {:+.1} % off the rate after its first {cut} s",
                    steady.shift_percent
                )
            }
            (Steadiness::Never, 0) => "the rate never settled: its halves differ".to_owned(),
            (Steadiness::Never, cut) => {
                format!("the rate never settled: the halves after its first {cut} s differ")
            }
        };
        return met(false, format!("{}, iteration {}: {what}", run.level(), run.iteration));
    }
    match record.iterations.len() {
        0 => nothing(),
        all if all == judged => {
            met(true, format!("MSER-5 over {}", counted(all as u64, "timed run", "timed runs")))
        }
        _ => cannot_tell("windows under 50 s are too short for MSER-5"),
    }
}

/// Ends a commit's name where the program was built from sources with changes that the commit lacks.
const MODIFIED: &str = "-modified";

fn reproducible(record: &RunRecord) -> Finding {
    if let Some(commit) = record.tool.commit.as_ref().filter(|commit| commit.ends_with(MODIFIED)) {
        return met(false, format!("built from uncommitted sources: {commit}"));
    }
    let facts = [
        ("command line", !record.command_line.is_empty()),
        ("program version", !record.tool.version.is_empty()),
        ("commit", record.tool.commit.is_some()),
        ("workload hash", !record.workload_sha256.is_empty()),
    ];
    let missing: Vec<&str> = facts.into_iter().filter(|(_, known)| !known).map(|(name, _)| name).collect();
    match missing.is_empty() {
        true => met(
            true,
            format!("seed {}, {} {}", record.spec.client.seed, record.tool.name, record.tool.version),
        ),
        false => met(false, format!("missing: {}", missing.join(", "))),
    }
}

fn calibration(record: &RunRecord) -> Finding {
    match calibration::quote(record) {
        Ok(quote) => met(true, quote.sentence()),
        Err(why) => met(calibration::is_of_another_protocol(record), why),
    }
}

fn both_latencies(record: &RunRecord) -> Finding {
    match record.iterations.iter().any(|run| run.schedule.is_some()) {
        true => met(true, "open loop, both in the record"),
        false => met(true, "closed loop: there is only one latency"),
    }
}

pub(super) fn nothing() -> Finding {
    met(false, "nothing was measured")
}
