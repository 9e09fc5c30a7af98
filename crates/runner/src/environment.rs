//! Facts about the machine that a reader of a result needs and no privilege is needed for: `environment.json`.
//!
//! A fact that cannot be read is left out, never guessed. Names are dotted, from the general to the particular; values
//! keep the kernel's own words where it has some.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use webstone_model::record::Tool;

use crate::machine::{Root, allowed_cpus, control_group, cpus};
use crate::placement::cpu_list;

/// Directories of settings that are kept whole, and the names in them that are.
const SETTINGS: [(&str, &[&str]); 6] = [
    ("net/ipv4", &["tcp_", "ip_local_", "udp_mem", "ip_no_pmtu_disc"]),
    ("net/core", &[""]),
    ("fs", &["file-max", "nr_open", "epoll"]),
    (
        "kernel",
        &["threads-max", "pid_max", "sched_", "io_uring_", "perf_event_paranoid", "randomize_va_space"],
    ),
    ("vm", &["swappiness", "overcommit_memory", "max_map_count"]),
    ("net/netfilter", &["nf_conntrack_max", "nf_conntrack_count"]),
];

/// Everything that can be read below `root`, with what only this program knows.
pub fn gather(root: &Root, tool: &Tool, target_is_this_host: bool) -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), value);
        }
    };
    let text = |path: &str| root.text(path).filter(|text| !text.is_empty()).map(Value::from);

    add("tool", Some(json!(tool)));
    add("target.this_host", Some(target_is_this_host.into()));
    add("hostname", text("/proc/sys/kernel/hostname"));
    add("kernel.release", text("/proc/sys/kernel/osrelease"));
    add("kernel.version", text("/proc/sys/kernel/version"));
    add("architecture", Some(std::env::consts::ARCH.into()));
    add("distribution", distribution(root).map(Value::from));
    add("clock_source", text("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("load_average", text("/proc/loadavg"));

    let cpu = "/sys/devices/system/cpu";
    add("cpu.model", cpu_info(root, "model name").or_else(|| cpu_info(root, "Model")).map(Value::from));
    add("cpu.online", text(&format!("{cpu}/online")));
    add("cpu.allowed", Some(cpu_list(&allowed_cpus(root)).into()));
    add("cpu.cores", Some(cpus(root).cores.iter().map(|core| cpu_list(core)).collect::<Vec<_>>().into()));
    add("cpu.smt", text(&format!("{cpu}/smt/control")));
    add("cpu.frequency.governor", text(&format!("{cpu}/cpu0/cpufreq/scaling_governor")));
    add("cpu.frequency.driver", text(&format!("{cpu}/cpu0/cpufreq/scaling_driver")));
    add(
        "cpu.frequency.khz_max",
        root.number(&format!("{cpu}/cpu0/cpufreq/scaling_max_freq")).map(Value::from),
    );
    add("cpu.frequency.boost", text(&format!("{cpu}/cpufreq/boost")));
    add("cpu.mitigations", directory(root, &format!("{cpu}/vulnerabilities"), &[""]));

    add("memory.bytes", memory(root, "MemTotal:"));
    add("memory.available_bytes", memory(root, "MemAvailable:"));
    add("memory.swap_bytes", memory(root, "SwapTotal:"));
    add("memory.transparent_hugepage", text("/sys/kernel/mm/transparent_hugepage/enabled"));

    add("sysctl", sysctl(root));
    add("limits", limits(root));
    add("cgroup", cgroup(root));
    add("virtualisation", virtualisation(root));
    facts
}

fn distribution(root: &Root) -> Option<String> {
    let release = root.text("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn cpu_info(root: &Root, field: &str) -> Option<String> {
    let info = root.text("/proc/cpuinfo")?;
    let value = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == field).then(|| value.trim().to_owned())
    });
    value.filter(|value| !value.is_empty())
}

fn memory(root: &Root, field: &str) -> Option<Value> {
    let info = root.text("/proc/meminfo")?;
    let kib = info.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix("kB"))?;
    Some((kib.trim().parse::<u64>().ok()? << 10).into())
}

/// The files of a directory whose names begin with one of `prefixes`, with their texts.
fn directory(root: &Root, path: &str, prefixes: &[&str]) -> Option<Value> {
    // `tcp_fastopen_key` and `netdev_rss_key` are secrets of the host: no result needs them.
    let wanted =
        |name: &String| !name.ends_with("_key") && prefixes.iter().any(|prefix| name.starts_with(prefix));
    let entry =
        |name: String| Some((name.clone(), Value::from(words(&root.text(&format!("{path}/{name}"))?))));
    let entries: Map<String, Value> = root.names(path).into_iter().filter(wanted).filter_map(entry).collect();
    (!entries.is_empty()).then_some(Value::Object(entries))
}

/// Tabs between numbers are the kernel's layout, not part of the value.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sysctl(root: &Root) -> Option<Value> {
    let mut all = Map::new();
    for (path, prefixes) in SETTINGS {
        if let Some(Value::Object(entries)) = directory(root, &format!("/proc/sys/{path}"), prefixes) {
            let prefix = path.replace('/', ".");
            all.extend(entries.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)));
        }
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// `/proc/self/limits`: name, soft and hard limit, unit, in columns two or more spaces apart.
fn limits(root: &Root) -> Option<Value> {
    let text = root.text("/proc/self/limits")?;
    let mut limits = Map::new();
    for line in text.lines().skip(1) {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        if let (Some(name), Some(soft), Some(hard)) = (columns.next(), columns.next(), columns.next()) {
            limits.insert(name.to_owned(), json!({ "soft": soft, "hard": hard }));
        }
    }
    Some(Value::Object(limits))
}

fn cgroup(root: &Root) -> Option<Value> {
    let group = control_group(root);
    let bounds = [
        ("cpus", group.cpus.map(Value::from)),
        ("memory_bytes_max", group.memory_bytes_max.map(Value::from)),
        ("tasks_max", group.tasks_max.map(Value::from)),
    ];
    let bounds: Map<String, Value> =
        bounds.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!bounds.is_empty()).then_some(Value::Object(bounds))
}

/// What points to a virtual machine or a container.
fn virtualisation(root: &Root) -> Option<Value> {
    let flags = cpu_info(root, "flags").unwrap_or_default();
    let present = |path: &str| root.text(path).map(|_| Value::from(true));
    let hints = [
        ("hypervisor_flag", flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| true.into())),
        ("hypervisor", root.text("/sys/hypervisor/type").map(Value::from)),
        ("vendor", root.text("/sys/class/dmi/id/sys_vendor").map(Value::from)),
        ("product", root.text("/sys/class/dmi/id/product_name").map(Value::from)),
        ("docker", present("/.dockerenv")),
        ("podman", present("/run/.containerenv")),
    ];
    let hints: Map<String, Value> =
        hints.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!hints.is_empty()).then_some(Value::Object(hints))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    fn tool() -> Tool {
        Tool { name: "webstone".into(), version: "1.2.3".into(), commit: Some("abc".into()) }
    }

    #[test]
    fn facts_are_what_the_kernel_says() {
        let (_keep, root) = root_with(&[
            ("/proc/sys/kernel/hostname", "box\n"),
            ("/proc/sys/kernel/osrelease", "6.18.0\n"),
            ("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n"),
            ("/proc/cpuinfo", "processor : 0\nmodel name\t: EPYC 9\nflags\t\t: fpu hypervisor sse\n"),
            ("/proc/meminfo", "MemTotal:  1024 kB\nMemAvailable: 512 kB\n"),
            ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("/proc/sys/net/ipv4/tcp_fastopen_key", "6d1c-secret\n"),
            ("/proc/sys/net/ipv4/ip_forward", "0\n"),
            ("/proc/sys/net/core/somaxconn", "4096\n"),
            ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
            (
                "/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            1024                 20000                files     \n\
                 Max nice priority         0                    0                    \n",
            ),
        ]);
        let facts = gather(&root, &tool(), true);
        assert_eq!(facts["hostname"], "box");
        assert_eq!(facts["kernel.release"], "6.18.0");
        assert_eq!(facts["distribution"], "Debian GNU/Linux 13");
        assert_eq!(facts["cpu.model"], "EPYC 9");
        assert_eq!(
            (&facts["memory.bytes"], &facts["memory.available_bytes"]),
            (&json!(1 << 20), &json!(1 << 19))
        );
        assert_eq!(
            facts["sysctl"],
            json!({ "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.core.somaxconn": "4096" })
        );
        assert_eq!(facts["cpu.mitigations"], json!({ "meltdown": "Not affected" }));
        assert_eq!(facts["limits"]["Max open files"], json!({ "soft": "1024", "hard": "20000" }));
        assert_eq!(facts["virtualisation"], json!({ "hypervisor_flag": true }));
        assert_eq!(facts["tool"]["commit"], "abc");
        assert_eq!(facts["target.this_host"], true);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let (_keep, root) = root_with(&[]);
        let facts = gather(&root, &tool(), false);
        let names: Vec<&str> = facts.keys().map(String::as_str).collect();
        assert_eq!(names, ["architecture", "cpu.allowed", "cpu.cores", "target.this_host", "tool"]);
    }

    #[test]
    fn this_machine_has_the_facts_that_a_result_needs() {
        let facts = gather(&Root::default(), &tool(), true);
        for name in ["kernel.release", "memory.bytes", "limits", "sysctl", "cpu.allowed", "cpu.online"] {
            assert!(facts.contains_key(name), "{name}");
        }
        assert!(facts["sysctl"]["net.core.somaxconn"].is_string());
    }
}
