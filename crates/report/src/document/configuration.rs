//! What was measured, where and with what, by group: what certified reports print as "Configuration of the System Tested" and "Test Lab
//! Configuration". Made from the record's environment and from what its tester disclosed. What is not known is left out; the whole
//! environment, fact by fact, stands below it in HTML and in workbooks.

use serde_json::Value;
use webstone_model::generators::GeneratorRecord;
use webstone_model::record::AgentRecord;
use webstone_model::record::RunRecord;
use webstone_model::spec::parse_cpu_list;

use crate::document::table::{Room, Sheet, Table};
use crate::document::{Block, Document, Tone};
use crate::numbers::{bytes, count, counted, cpu_list, listed};
use crate::text::header;

/// Title of the table, in every format.
pub(crate) const TITLE: &str = "Configuration";
/// Explanation beside the title.
const EXPLANATION: &str = "of the system tested and of the test lab";
/// Width of the labels, in columns.
const LABEL: usize = 20;
/// Runs named in a row; further ones are only counted.
const NAMES_MAX: usize = 3;
/// Kernel settings that reports of web servers disclose as tuning.
const TUNING: [&str; 6] = [
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.ip_local_port_range",
    "fs.file-max",
];

/// Rows that belong together: label and text, in the order in which they are shown. A label may have several.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<(String, String)>,
}

/// A record's groups; those of which nothing is known are left out. What a tester disclosed is in the last.
pub(crate) fn groups(record: &RunRecord) -> Vec<Group> {
    let here = |name: &str| record.environment.get(name);
    let told = record.server_environments();
    let is_alone = record.target.agents.len() < 2;
    let there = told.first().filter(|_| is_alone).map(|(_, facts)| facts);
    let on_this_host = here("target.this_host").and_then(Value::as_bool).unwrap_or(record.target.embedded);
    let same = on_this_host || here("target.same_machine").and_then(Value::as_bool) == Some(true);
    let computer_there = match (there, on_this_host) {
        (Some(facts), _) => computer(&|name| facts.get(name).copied()),
        (None, true) if is_alone => computer(&here),
        (None, _) => Vec::new(),
    };
    let alone = record.generators.is_empty();
    let mut lab = match same {
        true => vec![(
            if alone { "load generator" } else { "controller" },
            "the computer of the server".to_owned(),
        )],
        false => computer(&here),
    };
    lab.push(("tool", format!("{} {}", record.tool.name, record.tool.version)));
    let generator = &record.spec.generator;
    if alone && generator.workers > 0 {
        let cpus =
            if generator.cpus.is_empty() { String::new() } else { format!(" on CPU {}", generator.cpus) };
        lab.push(("workers", format!("{}{cpus}", generator.workers)));
    }
    lab.extend(networks(&here).into_iter().map(|text| ("network to the server", text)));
    let network_there = there.map(|facts| networks(&|name| facts.get(name).copied())).unwrap_or_default();
    lab.extend(network_there.into_iter().map(|text| ("network of the server", text)));
    let group = |title: &'static str, rows: Vec<(&'static str, String)>| {
        let known = rows.into_iter().filter(|(_, text)| !text.is_empty());
        Group { title, rows: known.map(|(label, text)| (label.to_owned(), text)).collect() }
    };
    let disclosed = record.spec.disclosure.clone().into_iter().collect();
    let groups = [
        group("Web server", web_server(record)),
        group("Computer of the server", computer_there),
        Group { title: "Server hosts", rows: server_hosts(record) },
        group("Test lab", lab),
        Group { title: "Load generators", rows: load_generators(record) },
        Group { title: "Disclosed by the tester", rows: disclosed },
    ];
    groups.into_iter().filter(|group| !group.rows.is_empty()).collect()
}

/// Each host that made load: its processor, memory and kernel; the program, and how it was started.
fn load_generators(record: &RunRecord) -> Vec<(String, String)> {
    let of_host = |(place, host): (usize, &GeneratorRecord)| {
        let on = match &host.cpus[..] {
            [] => String::new(),
            cpus => format!(" on CPU {}", cpu_list(cpus)),
        };
        let pod = host.pod.as_ref().map(|pod| format!("namespace {}, {}", pod.namespace, pod.in_words()));
        let mut parts = vec![host.name.clone(), pod.unwrap_or_default()];
        // The hostname, the first of these, is left out: the host is named already.
        parts.extend(header::machine(&|name| host.environment.get(name)).into_iter().skip(1));
        parts.push(format!("{}{on}", counted(host.workers.into(), "worker", "workers")));
        parts.push(format!("webstone {}", host.version));
        parts.push(format!("`{}`", host.command));
        (format!("generator {}", place + 1), header::joined(parts, "; "))
    };
    record.generators.iter().enumerate().map(of_host).collect()
}

/// Each of several hosts of the server: its processor, memory and kernel, and how its agent was started.
fn server_hosts(record: &RunRecord) -> Vec<(String, String)> {
    let agents = &record.target.agents;
    if agents.len() < 2 {
        return Vec::new();
    }
    let of_host = |(place, agent): (u32, &AgentRecord)| {
        let mut parts = vec![agent.name.clone()];
        // The hostname, the first of these, is left out: the host is named already.
        parts.extend(header::machine(&|name| agent.environment.get(name)).into_iter().skip(1));
        parts.extend((!agent.cpus.is_empty()).then(|| format!("server on CPU {}", cpu_list(&agent.cpus))));
        parts.push(format!("webstone {}", agent.version));
        parts.push(format!("`{}`", agent.command));
        (format!("server host {}", place + 1), header::joined(parts, "; "))
    };
    (0..).zip(agents).map(of_host).collect()
}

/// The load, as in the head of every report of one run.
fn test(record: &RunRecord) -> Group {
    let row = |label: &str, parts: Vec<String>| (label.to_owned(), header::joined(parts, ", "));
    let rows = vec![
        row("workload", header::workload(record)),
        row("load", header::load(record)),
        row("clients", header::policy(record)),
    ];
    Group { title: "Test", rows }
}

/// The groups of several runs merged by name: a row that not all runs have names those that do.
pub(crate) fn of_all(runs: &[(&str, &RunRecord)]) -> Vec<Group> {
    let mut all: Vec<(&'static str, Vec<Shared<'_>>)> = Vec::new();
    for (name, record) in runs {
        for Group { title, rows } in groups(record).into_iter().chain((runs.len() > 1).then(|| test(record)))
        {
            let place = all.iter().position(|(other, _)| *other == title).unwrap_or_else(|| {
                all.push((title, Vec::new()));
                all.len() - 1
            });
            for (label, text) in rows {
                Shared::add(&mut all[place].1, label, text, name);
            }
        }
    }
    let whole = |shared: Shared<'_>| match shared.runs.len() == runs.len() {
        true => (shared.label, shared.text),
        false => (shared.label, format!("{} ({})", shared.text, listed(&shared.runs, NAMES_MAX))),
    };
    let group = |(title, rows): (&'static str, Vec<Shared<'_>>)| Group {
        title,
        rows: rows.into_iter().map(whole).collect(),
    };
    all.into_iter().map(group).collect()
}

/// A row, and which runs have it.
struct Shared<'a> {
    label: String,
    text: String,
    runs: Vec<&'a str>,
}

impl<'a> Shared<'a> {
    /// Adds a run's row after those of the same label.
    fn add(rows: &mut Vec<Shared<'a>>, label: String, text: String, run: &'a str) {
        if let Some(same) = rows.iter_mut().find(|row| row.label == label && row.text == text) {
            // Two identical disks are two rows of one run.
            if same.runs.last() != Some(&run) {
                same.runs.push(run);
            }
            return;
        }
        let behind = rows.iter().rposition(|row| row.label == label).map_or(rows.len(), |place| place + 1);
        rows.insert(behind, Shared { label, text, runs: vec![run] });
    }
}

/// The web server's software and its configuration.
fn web_server(record: &RunRecord) -> Vec<(&'static str, String)> {
    let target = &record.target;
    let fact =
        |name: &str| record.environment.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let software = match (&target.software, target.embedded) {
        (Some(ours), _) => format!("{}, started as {ours}", ours.version),
        (None, true) => "the embedded reference server".to_owned(),
        (None, false) => target.server.clone().unwrap_or_default(),
    };
    let cpus = match (&target.cpus[..], &target.agents[..]) {
        ([], [agent]) => &agent.cpus[..],
        (cpus, _) => cpus,
    };
    let ours = target.embedded || target.software.is_some();
    let interface = record.spec.server.interface.filter(|_| ours);
    let files = record.environment.get("server.configuration").and_then(Value::as_array);
    vec![
        ("software", software),
        ("interface", interface.map(|it| format!("{it}: {}", it.summary())).unwrap_or_default()),
        (
            "start",
            match (ours, record.series.is_some()) {
                (false, _) => String::new(),
                (true, false) => "for this run, in a new directory".to_owned(),
                (true, true) => "for each round, in a new directory".to_owned(),
            },
        ),
        ("processes", fact("server.processes")),
        ("CPUs", cpu_list(cpus)),
        ("cache", fact("server.caching")),
        ("log", fact("server.logging")),
        ("look-up of names", fact("server.dns")),
        ("TLS", fact("server.tls")),
        (
            "configuration",
            files.map(|it| counted(it.len() as u64, "file", "files") + ", in the record").unwrap_or_default(),
        ),
    ]
}

/// A computer, its devices, its operating system and what else ran on it.
fn computer<'a>(fact: &dyn Fn(&str) -> Option<&'a Value>) -> Vec<(&'static str, String)> {
    let text = |name: &str| fact(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let virtualisation = |key: &str| {
        fact("virtualisation")
            .and_then(|it| it.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let texts = |name: &str| -> Vec<String> {
        let items = fact(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let objects = |name: &str| fact(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_virtual =
        [("machine", "virtual machine"), ("container", "container")].map(|(key, kind)| match virtualisation(
            key,
        )
        .as_str()
        {
            "" => String::new(),
            name => format!("{kind} ({name})"),
        });
    let mut rows = vec![
        ("computer", header::joined([virtualisation("vendor"), virtualisation("product")], " ")),
        ("virtual", header::joined(is_virtual, ", ")),
        ("processor", text("cpu.model")),
        ("number of CPUs", cpus(fact)),
        ("processor caches", texts("cpu.caches").join("; ")),
        ("memory", fact("memory.bytes").and_then(Value::as_u64).map(bytes).unwrap_or_default()),
    ];
    rows.extend(objects("disks").iter().map(|disk| ("disk", self::disk(disk))));
    for controller in objects("controllers") {
        let kind = controller.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_network = ["Ethernet", "InfiniBand", "network"].iter().any(|begun| kind.starts_with(begun));
        let label = if is_network { "network controller" } else { "disk controller" };
        rows.push((label, self::controller(controller)));
    }
    rows.push(("SCSI hosts", texts("scsi_hosts").join(", ")));
    let kernel =
        Some(text("kernel.release")).filter(|name| !name.is_empty()).map(|name| format!("Linux {name}"));
    rows.push(("operating system", header::joined([text("distribution"), kernel.unwrap_or_default()], ", ")));
    rows.push(("tuning", tuning(fact)));
    rows.push(("services", texts("services").join(", ")));
    let users = fact("logged_in").and_then(Value::as_u64);
    let users = users.map(|users| if users == 0 { "none: console idle".to_owned() } else { count(users) });
    rows.push(("logged-in users", users.unwrap_or_default()));
    rows
}

/// `2 CPUs: 1 socket, 2 cores, 1 thread per core; this program may use 1`.
fn cpus<'a>(fact: &dyn Fn(&str) -> Option<&'a Value>) -> String {
    let listed = |name: &str| {
        let list = fact(name).and_then(Value::as_str)?;
        Some(parse_cpu_list(list).ok()?.len() as u64)
    };
    let Some(online) = listed("cpu.online").or_else(|| listed("cpu.allowed")) else { return String::new() };
    let topology = |key: &str| fact("cpu.topology").and_then(|it| it.get(key)).and_then(Value::as_u64);
    let mut said = counted(online, "CPU", "CPUs");
    if let (Some(sockets), Some(cores)) = (topology("sockets"), topology("cores")) {
        let (sockets, cores) = (counted(sockets, "socket", "sockets"), counted(cores, "core", "cores"));
        said += &format!(": {sockets}, {cores}");
    }
    match listed("cpu.allowed") {
        Some(allowed) if allowed < online => said + &format!("; webstone may use {}", count(allowed)),
        _ => said,
    }
}

fn disk(disk: &Value) -> String {
    let text = |key: &str| disk.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let model = [text("vendor"), text("model")].join(" ").trim().to_owned();
    let size = disk.get("bytes").and_then(Value::as_u64).map(bytes).unwrap_or_default();
    let driver = Some(text("driver")).filter(|name| !name.is_empty()).map(|name| format!("driver {name}"));
    let parts = [text("name"), size, model, driver.unwrap_or_default()];
    header::joined(parts, ", ")
}

fn controller(controller: &Value) -> String {
    let text = |key: &str| controller.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let called = if text("name").is_empty() { format!("PCI device {}", text("id")) } else { text("name") };
    let driver = Some(text("driver")).filter(|name| !name.is_empty()).map(|name| format!("driver {name}"));
    let parts = [text("kind"), called, driver.unwrap_or_default()];
    header::joined(parts, ", ")
}

/// The interfaces that packets take, each with its speed.
fn networks<'a>(fact: &dyn Fn(&str) -> Option<&'a Value>) -> Vec<String> {
    let interfaces = fact("network.interfaces").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let described = |interface: &Value| {
        let text = |key: &str| interface.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| interface.get(key).and_then(Value::as_u64);
        let is_loopback = interface.get("loopback").and_then(Value::as_bool) == Some(true);
        let parts = [
            text("name"),
            if is_loopback { "loopback".to_owned() } else { String::new() },
            number("speed_mbps").map(|speed| format!("{} Mbit/s", count(speed))).unwrap_or_default(),
            number("mtu").map(|mtu| format!("MTU {mtu}")).unwrap_or_default(),
            Some(text("driver"))
                .filter(|name| !name.is_empty())
                .map(|it| format!("driver {it}"))
                .unwrap_or_default(),
        ];
        header::joined(parts, ", ")
    };
    interfaces.iter().map(described).collect()
}

fn tuning<'a>(fact: &dyn Fn(&str) -> Option<&'a Value>) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let setting = |name: &&str| Some(format!("{name} = {}", plain(fact("sysctl")?.get(*name)?)));
    let files = || plain_limit(fact("limits")?.get("Max open files")?);
    TUNING.iter().filter_map(setting).chain(files()).collect::<Vec<_>>().join(", ")
}

fn plain_limit(limit: &Value) -> Option<String> {
    Some(format!("open files {} (at most {})", limit.get("soft")?.as_str()?, limit.get("hard")?.as_str()?))
}

/// The groups as a list of facts.
pub(crate) fn list(groups: &[Group], doc: &mut Document) {
    if groups.is_empty() {
        return;
    }
    doc.heading(TITLE, EXPLANATION);
    for group in groups {
        doc.0.push(Block::Group(group.title.to_owned()));
        let mut last = "";
        for (label, text) in &group.rows {
            let shown = if label == last { "" } else { label };
            last = label;
            doc.item(format!("  {shown}"), LABEL + 4, Tone::Plain, text);
        }
    }
}

/// The groups as a table.
pub(crate) fn sheet(groups: &[Group]) -> Sheet {
    let rows = groups.iter().flat_map(|group| group.rows.iter().enumerate().map(|row| (group.title, row)));
    let rows: Vec<_> = rows.collect();
    let mut table = Table::with_rows(&rows);
    table.groups(|(title, (place, _))| (*place == 0).then(|| (*title).to_owned()));
    table.text("", Room::Always, |(_, (_, (label, _)))| label);
    table.text("", Room::Flexible(20), |(_, (_, (_, text)))| text);
    Sheet::new(TITLE, EXPLANATION, table.done())
}
