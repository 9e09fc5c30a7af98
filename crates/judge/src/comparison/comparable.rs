//! How two records differ beside their figures, and which differences forbid a comparison.
//!
//! What a comparison is made for (another server, another version of it, another setting of it) is noted and allowed.
//! What changes the load, the rules by which an answer counts, or the machines, is not: a difference of the figures would
//! be put down to the server.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::one_speed;
use crate::statistics;
use crate::verdict;
use webstone_measure::keys::{LevelKey, levels_named};
use webstone_measure::metrics::WorkerUse;
use webstone_measure::units::Nanos;
use webstone_model::generators::GeneratorRecord;
use webstone_model::record::{IterationRecord, RunRecord, RunState, STAYS_AWAKE};
use webstone_model::spec::{ClientSpec, LoadSpec, Logging, RunSpec};
use webstone_workload::Fields;
use webstone_workload::tls::TlsSpec;

/// What a difference means for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// The figures are not of the same thing: only `--force` compares them.
    Forbids,
    /// A reader should know it.
    Noted,
}

/// One thing in which two records differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// What the baseline has.
    pub baseline: String,
    /// What the candidate has.
    pub candidate: String,
    /// What it means.
    pub weight: Weight,
}

/// Factor between two spans of time from which on they are different classes: caches, garbage collectors and clocks of
/// processors behave differently in a second and in ten minutes, hardly in ten and in twelve.
const CLASS_FACTOR: f64 = 2.0;

/// By how much a CPU has to be slower in one of two runs, in percent, to be noted. Rates fall by up to twice that, as much as they
/// differ from run to run.
const SLOWER_PERCENT: f64 = 3.0;

/// The same of an echo. From here on, changes at one speed and those of the printed means differ by 0.3 % or more.
const ECHOES_PERCENT: f64 = 1.0;

/// Facts of the machine that forbid a comparison, by their names in `environment.json`.
pub(crate) const MACHINE: [(&str, &str); 9] = [
    ("hostname", "host"),
    ("architecture", "architecture"),
    ("cpu.model", "CPU"),
    ("cpu.allowed", "CPUs that the generator may use"),
    ("cpu.smt", "SMT"),
    ("cpu.frequency.governor", "frequency governor"),
    ("cpu.mitigations", "mitigations"),
    (STAYS_AWAKE, "the load generator waits awake"),
    ("target.this_host", "the server runs on the generator's host"),
];

/// Facts of the machine that are noted.
const MACHINE_NOTED: [(&str, &str); 3] =
    [("kernel.release", "kernel"), ("sysctl", "kernel settings"), ("memory.bytes", "memory in bytes")];

/// Facts of the server's own host that are noted, where an agent told them of both.
const SERVER_HOST: [(&str, &str); 4] = [
    ("hostname", "server's host"),
    ("cpu.model", "server's CPU"),
    ("memory.bytes", "server's memory in bytes"),
    ("kernel.release", "server's kernel"),
];

/// Everything in which `candidate` differs from `baseline`, what forbids first.
pub fn differences(baseline: &RunRecord, candidate: &RunRecord) -> Vec<Difference> {
    let mut found = Found(Vec::new());
    found.load(baseline, candidate);
    found.each(of_clients(&baseline.spec.client), of_clients(&candidate.spec.client));
    found.tls(baseline, candidate);
    found.machines(baseline, candidate);
    found.server(baseline, candidate);
    found.course(baseline, candidate);
    let mut found = found.0;
    found.sort_by_key(|difference| difference.weight == Weight::Noted);
    found
}

/// The differences between the machines that forbid a comparison, as far as they are known before anything is measured.
pub fn machine_differences(baseline: &RunRecord, candidate: &RunRecord) -> Vec<Difference> {
    let mut found = Found(Vec::new());
    found.facts(Weight::Forbids, &MACHINE, baseline, candidate);
    found.check(Weight::Forbids, "generators", generators(baseline), generators(candidate));
    found.0
}

struct Found(Vec<Difference>);

impl Found {
    fn check(&mut self, weight: Weight, what: &str, baseline: String, candidate: String) {
        if baseline != candidate {
            self.0.push(Difference { what: what.to_owned(), baseline, candidate, weight });
        }
    }

    fn load(&mut self, a: &RunRecord, b: &RunRecord) {
        if a.workload_sha256 != b.workload_sha256 {
            let named = |record: &RunRecord| {
                let hash: String = record.workload_sha256.chars().take(12).collect();
                format!("{} (sha256 {hash})", record.workload.name)
            };
            self.check(Weight::Forbids, "workload", named(a), named(b));
        }
        self.clients_at_rates(a, b);
        let (a, b) = (&a.spec.load, &b.spec.load);
        self.span("duration of a level", a.duration, b.duration);
        self.span("warm-up", a.warmup, b.warmup);
        self.each(of_load(a), of_load(b));
    }

    fn span(&mut self, what: &str, a: Nanos, b: Nanos) {
        let (short, long) = (a.min(b).0 as f64, a.max(b).0 as f64);
        let weight = if long > short * CLASS_FACTOR { Weight::Forbids } else { Weight::Noted };
        self.check(weight, what, a.to_string(), b.to_string());
    }

    /// The clients of each rate that both have. Levels of an open loop are found by their rate alone.
    fn clients_at_rates(&mut self, a: &RunRecord, b: &RunRecord) {
        let (ours, theirs) = (a.levels(), b.levels());
        let mut differing: BTreeMap<(u32, u32), Vec<LevelKey>> = BTreeMap::new();
        for (level, runs) in ours.iter().filter(|(level, _)| matches!(level, LevelKey::Rate(_))) {
            let other = theirs.iter().find(|(other, _)| other == level);
            let Some((one, other)) = runs.first().zip(other.and_then(|(_, runs)| runs.first())) else {
                continue;
            };
            if one.clients != other.clients {
                differing.entry((one.clients, other.clients)).or_default().push(*level);
            }
        }
        for ((one, other), levels) in differing {
            let what = format!("clients at {}", levels_named(&levels));
            self.check(Weight::Forbids, &what, one.to_string(), other.to_string());
        }
    }

    fn each(&mut self, a: Vec<Fact>, b: Vec<Fact>) {
        for ((weight, what, one), (_, _, other)) in a.into_iter().zip(b) {
            self.check(weight, what, one, other);
        }
    }

    /// Whether TLS is spoken, and how, where it is.
    fn tls(&mut self, a: &RunRecord, b: &RunRecord) {
        let schemes = [schemes(a), schemes(b)];
        if schemes[0] != schemes[1] {
            let [one, other] = schemes;
            return self.check(Weight::Forbids, "scheme of the target", one, other);
        }
        let is_own = |record: &RunRecord| record.spec.target.is_empty();
        let has_tls = |record: &RunRecord| is_own(record) && record.spec.server.tls.is_some();
        if is_own(a) && is_own(b) {
            let what = "the server that webstone starts has TLS";
            self.check(Weight::Forbids, what, yes(has_tls(a)), yes(has_tls(b)));
        }
        let speaks = |record: &RunRecord| {
            let did = |run: &IterationRecord| run.measured.handshakes.is_some();
            has_tls(record) || record.iterations.iter().any(did)
        };
        if schemes[0].contains("https") || speaks(a) || speaks(b) {
            self.each(of_tls(&a.spec.client.tls), of_tls(&b.spec.client.tls));
        }
    }

    fn machines(&mut self, a: &RunRecord, b: &RunRecord) {
        self.facts(Weight::Forbids, &MACHINE, a, b);
        self.facts(Weight::Noted, &MACHINE_NOTED, a, b);
        self.check(Weight::Forbids, "generator's workers", workers(a), workers(b));
        self.speeds(a, b);
        self.echoes(a, b);
    }

    /// How long an echo took on average, over the levels whose changes are those at one speed, where the speeds differ.
    fn echoes(&mut self, a: &RunRecord, b: &RunRecord) {
        if !machine_differences(a, b).is_empty() {
            return;
        }
        let (ours, theirs) = (a.levels(), b.levels());
        let of_level = |(key, runs): &(LevelKey, Vec<&IterationRecord>)| {
            let (_, others) = theirs.iter().find(|(other, _)| other == key)?;
            one_speed::echoes([a, b], [runs, others])
        };
        let mut both = [Vec::new(), Vec::new()];
        for level in ours.iter().filter_map(of_level) {
            both.iter_mut().zip(level).for_each(|(all, echoes)| all.extend(echoes));
        }
        if !both[0].is_empty() {
            let what = "speed of the machine (changes are at one speed)";
            let means = both.map(|echoes| statistics::mean(&echoes));
            self.times(what, means, ECHOES_PERCENT, |us| format!("{us:.1} µs for an echo"));
        }
    }

    /// CPUs of the server that were slower in one of the two runs on the same machine, which no setting shows.
    fn speeds(&mut self, a: &RunRecord, b: &RunRecord) {
        let machine = |record: &RunRecord| {
            let facts = ["hostname", "cpu.model"].map(|name| record.environment.get(name).cloned());
            (facts, record.tool.version.clone())
        };
        if machine(a) != machine(b) {
            return;
        }
        let [ours, theirs] = [a, b].map(|record| verdict::speeds(record, |watch| watch.work_ns_median));
        for (cpu, ours) in ours {
            let Some(theirs) = theirs.get(&cpu) else { continue };
            let mean = |works: &[u64]| works.iter().sum::<u64>() as f64 / works.len() as f64;
            let (ours, theirs) = (mean(&ours), mean(theirs));
            let what = format!("speed of CPU {cpu}");
            self.times(&what, [ours, theirs], SLOWER_PERCENT, |us| format!("{us:.2} µs for the fixed work"));
        }
    }

    /// Two times in nanoseconds that differ by some percent or more.
    fn times(&mut self, what: &str, times_ns: [f64; 2], percent_min: f64, told: impl Fn(f64) -> String) {
        let [ours, theirs] = times_ns;
        let percent = 100.0 * (ours.max(theirs) / ours.min(theirs) - 1.0);
        if percent < percent_min {
            return;
        }
        let said = |one: f64, other: f64| {
            let more = if one > other { format!(" ({percent:.0} % more)") } else { String::new() };
            format!("{}{more}", told(one / 1e3))
        };
        self.check(Weight::Noted, what, said(ours, theirs), said(theirs, ours));
    }

    /// Facts of the environment, each part of one that has several.
    fn facts(&mut self, weight: Weight, facts: &[(&str, &str)], a: &RunRecord, b: &RunRecord) {
        for (name, what) in facts {
            let (one, other) = (a.environment.get(*name), b.environment.get(*name));
            if one == other {
                continue;
            }
            match (one.and_then(|one| one.as_object()), other.and_then(|other| other.as_object())) {
                (Some(one), Some(other)) => {
                    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                    for part in names {
                        let what = format!("{what}: {part}");
                        self.check(weight, &what, fact(one.get(part)), fact(other.get(part)));
                    }
                }
                _ => self.check(weight, what, fact(one), fact(other)),
            }
        }
    }

    fn server(&mut self, a: &RunRecord, b: &RunRecord) {
        self.check(Weight::Forbids, "CPUs of the server", placed(a), placed(b));
        let path =
            |record: &RunRecord| record.spec.server.path.map_or("none".to_owned(), |path| path.to_string());
        self.check(Weight::Forbids, "path to the server", path(a), path(b));
        let named = |record: &RunRecord| {
            record.target.server.clone().unwrap_or_else(|| "it did not report its name".to_owned())
        };
        self.check(Weight::Noted, "server", named(a), named(b));
        let (here, there) = (a.server_environments(), b.server_environments());
        if here.len() != there.len() && !here.is_empty() && !there.is_empty() {
            self.check(Weight::Noted, "hosts of the server", hosts(a), hosts(b));
        }
        for ((agent, one), (_, other)) in here.iter().zip(&there).filter(|_| here.len() == there.len()) {
            for (name, what) in SERVER_HOST {
                let told = |value: &serde_json::Value| {
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                };
                let Some((one, other)) = one.get(name).zip(other.get(name)) else { continue };
                let what = match here.len() {
                    1 => what.to_owned(),
                    _ => format!("{what}, host {}", agent + 1),
                };
                self.check(Weight::Noted, &what, told(one), told(other));
            }
        }
        // A server of ours takes any free port; its address may differ.
        if let (Some(one), Some(other)) = (&a.target.software, &b.target.software) {
            self.check(Weight::Noted, "server's driver", one.name.clone(), other.name.clone());
            self.check(Weight::Noted, "server's profile", one.profile.clone(), other.profile.clone());
        } else if !(a.target.embedded && b.target.embedded) {
            self.check(Weight::Noted, "target", a.target.url.clone(), b.target.url.clone());
            return;
        }
        type Part = fn(&RunSpec) -> String;
        let settings: [(&str, Part); 5] = [
            ("server's threads", |spec| spec.server.threads.to_string()),
            ("server keeps files in memory", |spec| yes(spec.server.reference_caches())),
            ("server keeps connections", |spec| yes(spec.server.keep_alive)),
            ("server writes an access log", |spec| {
                yes(!matches!(spec.server.logging(), Logging::Unsaid | Logging::Off))
            }),
            ("server's listen queue", |spec| spec.server.reference_backlog().to_string()),
        ];
        for (what, part) in settings {
            self.check(Weight::Noted, what, part(&a.spec), part(&b.spec));
        }
    }

    fn course(&mut self, a: &RunRecord, b: &RunRecord) {
        let tool = |record: &RunRecord| {
            let commit = record.tool.commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
            format!("{} {}{commit}", record.tool.name, record.tool.version)
        };
        self.check(Weight::Noted, "measured with", tool(a), tool(b));
        let ended = |record: &RunRecord| match record.state {
            RunState::Complete => "as planned".to_owned(),
            other => text(&other),
        };
        self.check(Weight::Noted, "the run ended", ended(a), ended(b));
    }
}

/// What a specification says of one thing: what a difference means, its name, and the value.
type Fact = (Weight, &'static str, String);

/// What of the load is compared as it is; spans of time, and the clients of an open loop, are not here. Taken apart without `..`, as
/// below, so that a new key cannot be forgotten.
fn of_load(load: &LoadSpec) -> Vec<Fact> {
    let LoadSpec {
        // Levels are compared where both have them.
        clients: _,
        rate,
        arrivals,
        when_busy,
        duration: _,
        warmup: _,
        pages,
        repetitions,
        order,
        // They decide how precise a figure is, not what it is of.
        iterations: _,
        drain: _,
        retries: _,
        aa: _,
    } = load;
    let open_loop = match rate {
        Some(_) => format!("open, {} arrivals, when busy: {}", text(arrivals), text(when_busy)),
        None => "closed".to_owned(),
    };
    let pages = pages.map_or("no limit".to_owned(), |pages| pages.to_string());
    let repetitions = repetitions.map_or("drawn by weight".to_owned(), |times| format!("each {times} times"));
    vec![
        (Weight::Forbids, "pages of a level", pages),
        (Weight::Forbids, "choice of pages", repetitions),
        (Weight::Forbids, "loop", open_loop),
        (Weight::Noted, "order of iterations", text(order)),
    ]
}

fn of_clients(client: &ClientSpec) -> Vec<Fact> {
    let ClientSpec {
        connections,
        requests_per_connection,
        parallel,
        http,
        streams,
        http2_settings,
        quic_version,
        clients_per_connection,
        pipeline,
        method,
        headers,
        accept_encoding,
        body,
        body_base64,
        seed,
        resolve,
        unix_socket,
        connect_to,
        proxy_protocol,
        // Never in a record.
        reached: _,
        source,
        source_ports,
        proxy,
        // What the workload may do, not what it does.
        allow_hosts: _,
        allow_feeds: _,
        bandwidth,
        think,
        connect_timeout,
        first_byte_timeout,
        request_timeout,
        check,
        expect_status,
        follow,
        reset,
        // Only where TLS is spoken.
        tls: _,
    } = client;
    let limit =
        requests_per_connection.map_or(String::new(), |limit| format!(", {limit} requests per connection"));
    let bytes = || body_base64.as_ref().map(ToString::to_string);
    let routes: Vec<String> = connect_to.iter().map(ToString::to_string).collect();
    let forbidding = [
        ("connection policy", format!("{}{limit}", text(connections))),
        ("files fetched at once", parallel.to_string()),
        ("protocol", format!("HTTP/{}", text(http))),
        ("version of QUIC", text(quic_version)),
        ("clients per connection", clients_per_connection.to_string()),
        ("requests in progress per connection", (*pipeline).max(1).to_string()),
        ("streams per connection", or(streams.as_ref(), "no limit")),
        ("HTTP/2 settings", http2_settings.to_string()),
        ("method", method.clone()),
        ("header fields", listed(headers)),
        ("accepted codings", accept_encoding.to_string()),
        ("request body", body.clone().or_else(bytes).unwrap_or_else(|| "none".to_owned())),
        ("check of answers", text(check)),
        ("expected statuses", expect_status.to_string()),
        ("redirects", if *follow > 0 { "followed" } else { "not followed" }.to_owned()),
        ("connections end with a reset", yes(*reset)),
        ("name resolution", text(resolve)),
        ("Unix socket", yes(unix_socket.is_some())),
        ("proxy", or(proxy.as_ref(), "none")),
        ("PROXY protocol", proxy_protocol.map_or("none", |version| version.name()).to_owned()),
        ("bandwidth of each client", bandwidth.map_or("no limit".to_owned(), |line| line.in_words())),
        ("think time", or(think.as_ref(), "the workload's")),
    ];
    let noted = [
        ("timeouts", format!("{connect_timeout}, {first_byte_timeout}, {request_timeout}")),
        ("seed", seed.to_string()),
        ("routes of connections", if routes.is_empty() { "none".to_owned() } else { routes.join(", ") }),
        ("local addresses", format!("{source:?}")),
        ("local ports", or(source_ports.as_ref(), "chosen by the operating system")),
    ];
    let forbidding = forbidding.into_iter().map(|(what, value)| (Weight::Forbids, what, value));
    forbidding.chain(noted.into_iter().map(|(what, value)| (Weight::Noted, what, value))).collect()
}

fn of_tls(tls: &TlsSpec) -> Vec<Fact> {
    let TlsSpec {
        versions,
        ciphers,
        groups,
        verify,
        cert,
        alpn,
        early_data,
        resume,
        // Files, and names that belong to a server, as its address does.
        cacert: _,
        pin: _,
        key: _,
        sni: _,
        key_log: _,
    } = tls;
    let forbidding = [
        ("TLS versions", names(versions)),
        ("TLS cipher suites", names(ciphers)),
        ("TLS groups", names(groups)),
        ("certificates are verified", yes(*verify)),
        ("client's certificate", yes(cert.is_some())),
        (
            "protocols offered (ALPN)",
            if alpn.is_empty() { "that of HTTP".to_owned() } else { alpn.join(", ") },
        ),
        ("early data", yes(*early_data)),
        ("resumed handshakes", resume.to_string()),
    ];
    forbidding.into_iter().map(|(what, value)| (Weight::Forbids, what, value)).collect()
}

/// The schemes of a target's URLs, each once.
fn schemes(record: &RunRecord) -> String {
    let of = |url: &str| url.split_once(':').map_or(String::new(), |(scheme, _)| scheme.to_lowercase());
    let schemes: BTreeSet<String> = record.target.url.split(' ').map(of).collect();
    schemes.into_iter().collect::<Vec<_>>().join(", ")
}

fn names(listed: &[impl ToString]) -> String {
    listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn or(value: Option<&impl ToString>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

/// CPUs of the server, as far as they are known; of several hosts, each host's.
pub(crate) fn placed(record: &RunRecord) -> String {
    let of_hosts: Vec<String> = match &record.target.agents[..] {
        [] => vec![listed_cpus(&record.target.cpus)],
        agents => agents.iter().map(|agent| listed_cpus(&agent.cpus)).collect(),
    };
    of_hosts.join("; ")
}

fn listed_cpus(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    if cpus.is_empty() { "unknown".to_owned() } else { cpus.join(",") }
}

/// How many hosts the server had, as far as is known.
fn hosts(record: &RunRecord) -> String {
    record.target.agents.len().max(1).to_string()
}

/// The generator's event loops: their number, and their CPUs where they were pinned; of several hosts with the hosts' names.
pub(crate) fn workers(record: &RunRecord) -> String {
    // A level of few clients has fewer.
    let most = record.iterations.iter().max_by_key(|run| run.measured.generator.workers.len());
    let used: &[WorkerUse] = most.map_or(&[], |run| run.measured.generator.workers.as_slice());
    let cpus: Vec<String> = used.iter().filter_map(|worker| worker.cpu).map(|cpu| cpu.to_string()).collect();
    let workers = match cpus.is_empty() {
        true => format!("{}, not pinned", used.len()),
        false => format!("{} on CPU {}", used.len(), cpus.join(",")),
    };
    let hosts = generators(record);
    if hosts.is_empty() { workers } else { format!("{workers} of {hosts}") }
}

/// The hosts that made the load, if it was not this one alone.
fn generators(record: &RunRecord) -> String {
    record.generators.iter().map(GeneratorRecord::place).collect::<Vec<_>>().join(", ")
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// The name that files use for a variant.
fn text(variant: &impl Serialize) -> String {
    fact(serde_json::to_value(variant).ok().as_ref())
}

fn fact(value: Option<&serde_json::Value>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Bool(value)) => yes(*value),
        Some(value) => value.to_string(),
    }
}

fn listed(headers: &Fields) -> String {
    let all: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
#[path = "comparable_tests.rs"]
mod tests;
