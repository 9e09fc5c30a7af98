//! CPUs, their clocks and mitigations, memory nodes, memory.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::facts::{Facts, directory, object};
use crate::cpus::cpu_list;
use crate::machine::{Root, allowed_cpus, cpus, kibibytes_after, online_cpus};

const CPU: &str = "/sys/devices/system/cpu";
const CPU_INFO: &str = "/proc/cpuinfo";
const NODES: &str = "/sys/devices/system/node";

pub(super) fn gather(facts: &mut Facts<'_>) {
    let root = facts.root;
    let model = cpu_info(root, "model name").or_else(|| cpu_info(root, "Model"));
    facts.add("cpu.model", CPU_INFO, model.or_else(|| cpu_info(root, "CPU part")));
    facts.add("cpu.microcode", CPU_INFO, cpu_info(root, "microcode"));
    facts.text("cpu.online", &format!("{CPU}/online"));
    facts.add("cpu.allowed", "/proc/self/status", Some(cpu_list(&allowed_cpus(root))));
    let topology = format!("{CPU}/cpu*/topology");
    let cores: Vec<String> = cpus(root).cores.iter().map(|core| cpu_list(core)).collect();
    facts.add("cpu.cores", &topology, Some(cores));
    facts.add("cpu.topology", &topology, counted(root));
    facts.text("cpu.smt", &format!("{CPU}/smt/control"));
    facts.text("cpu.smt_active", &format!("{CPU}/smt/active"));
    facts.text("cpu.isolated", &format!("{CPU}/isolated"));
    facts.text("cpu.nohz_full", &format!("{CPU}/nohz_full"));
    frequency(facts);
    facts.add(
        "cpu.mitigations",
        &format!("{CPU}/vulnerabilities"),
        directory(root, &format!("{CPU}/vulnerabilities"), &[""]),
    );
    facts.add("cpu.caches", &format!("{CPU}/cpu0/cache"), caches(root));
    numa(facts);
    memory(facts);
}

fn frequency(facts: &mut Facts<'_>) {
    let root = facts.root;
    let each = |file: &str| -> Option<String> {
        let distinct: BTreeSet<String> = online_cpus(root)
            .unwrap_or_default()
            .iter()
            .filter_map(|cpu| root.text(&format!("{CPU}/cpu{cpu}/cpufreq/{file}")))
            .filter(|text| !text.is_empty())
            .collect();
        (!distinct.is_empty()).then(|| distinct.into_iter().collect::<Vec<_>>().join(", "))
    };
    for (name, file) in [
        ("governor", "scaling_governor"),
        ("driver", "scaling_driver"),
        ("preference", "energy_performance_preference"),
    ] {
        facts.add(&format!("cpu.frequency.{name}"), &format!("{CPU}/cpu*/cpufreq/{file}"), each(file));
    }
    for (name, file) in [("khz_min", "scaling_min_freq"), ("khz_max", "scaling_max_freq")] {
        let path = format!("{CPU}/cpu0/cpufreq/{file}");
        facts.add(&format!("cpu.frequency.{name}"), &path, root.number(&path));
    }
    facts.add("cpu.frequency.mhz_now", CPU_INFO, cpu_info(root, "cpu MHz"));
    // Two drivers, two words for the same switch.
    let boost = format!("{CPU}/cpufreq/boost");
    let no_turbo = format!("{CPU}/intel_pstate/no_turbo");
    match (root.text(&boost), root.text(&no_turbo).as_deref()) {
        (Some(text), _) => facts.add("cpu.frequency.boost", &boost, Some(text)),
        (None, Some(off)) => {
            facts.add("cpu.frequency.boost", &no_turbo, Some(if off == "0" { "1" } else { "0" }))
        }
        (None, None) => {
            facts.unknown("cpu.frequency.boost", "neither cpufreq/boost nor intel_pstate/no_turbo is there")
        }
    }
    facts.text("cpu.idle.driver", &format!("{CPU}/cpuidle/current_driver"));
    facts.text("cpu.idle.governor", &format!("{CPU}/cpuidle/current_governor"));
}

/// Sockets, cores and threads of the whole machine.
fn counted(root: &Root) -> Option<Value> {
    let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
    let online = online_cpus(root).unwrap_or_default();
    for cpu in &online {
        let read = |file: &str| root.text(&format!("{CPU}/cpu{cpu}/topology/{file}"));
        let socket = read("physical_package_id")?;
        cores.insert((socket.clone(), read("core_id")?));
        sockets.insert(socket);
    }
    let (threads, cores) = (online.len(), cores.len());
    (threads > 0).then(|| {
        json!({ "sockets": sockets.len(), "cores": cores, "threads": threads, "threads_per_core": threads as f64 / cores as f64 })
    })
}

fn caches(root: &Root) -> Option<Value> {
    let directory = format!("{CPU}/cpu0/cache");
    let cache = |name: String| {
        let read = |file: &str| root.text(&format!("{directory}/{name}/{file}"));
        Some(format!(
            "L{} {} {}, CPUs {}",
            read("level")?,
            read("type")?,
            read("size")?,
            read("shared_cpu_list")?
        ))
    };
    let caches: Vec<String> = root
        .names(&directory)
        .into_iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(cache)
        .collect();
    (!caches.is_empty()).then(|| caches.into())
}

fn numa(facts: &mut Facts<'_>) {
    let root = facts.root;
    let node = |name: &String| {
        let read = |file: &str| root.text(&format!("{NODES}/{name}/{file}")).map(Value::from);
        object([("cpus", read("cpulist")), ("distance", read("distance"))]).map(|node| (name.clone(), node))
    };
    let is_node =
        |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let nodes: serde_json::Map<String, Value> =
        root.names(NODES).iter().filter(|name| is_node(name)).filter_map(node).collect();
    facts.add("numa.nodes", NODES, (!nodes.is_empty()).then_some(nodes));
}

fn memory(facts: &mut Facts<'_>) {
    const INFO: &str = "/proc/meminfo";
    let root = facts.root;
    for (name, field) in [
        ("memory.bytes", "MemTotal:"),
        ("memory.available_bytes", "MemAvailable:"),
        ("memory.swap_bytes", "SwapTotal:"),
        ("memory.hugepage_bytes", "Hugepagesize:"),
    ] {
        facts.add(name, INFO, kibibytes(root, INFO, field));
    }
    facts.text("memory.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled");
    facts.text("memory.transparent_hugepage_defrag", "/sys/kernel/mm/transparent_hugepage/defrag");
}

fn kibibytes(root: &Root, path: &str, field: &str) -> Option<u64> {
    kibibytes_after(&root.text(path)?, field)
}

/// A field of the first CPU.
pub(super) fn cpu_info(root: &Root, field: &str) -> Option<String> {
    let info = root.text(CPU_INFO)?;
    let value = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == field).then(|| value.trim().to_owned())
    });
    value.filter(|value| !value.is_empty())
}
