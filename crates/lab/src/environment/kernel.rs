//! The kernel: version, command line, settings, clock; what it grants this process; what it runs in itself.

use serde_json::{Map, Value, json};

use super::facts::{Facts, directory, object};
use super::processor::cpu_info;
use crate::machine::{Root, control_group};
use webstone_store::redaction;

/// Directories of settings, and prefixes of the names in them that are kept.
const SETTINGS: [(&str, &[&str]); 7] = [
    ("net/ipv4", &["tcp_", "ip_local_", "ip_unprivileged_port_start", "udp_mem", "ip_no_pmtu_disc"]),
    ("net/core", &[""]),
    ("fs", &["file-max", "nr_open", "epoll"]),
    ("fs/epoll", &[""]),
    (
        "kernel",
        &[
            "threads-max",
            "pid_max",
            "sched_",
            "io_uring_",
            "perf_event_paranoid",
            "randomize_va_space",
            "numa_balancing",
            "nmi_watchdog",
            "timer_migration",
        ],
    ),
    ("vm", &["swappiness", "overcommit_memory", "max_map_count", "nr_hugepages", "zone_reclaim_mode"]),
    ("net/netfilter", &["nf_conntrack_max", "nf_conntrack_count", "nf_conntrack_buckets"]),
];
/// Variables of this process that change how it, or what it is linked with, behaves.
const VARIABLES: [&str; 7] = ["LD_", "MALLOC_", "GLIBC_TUNABLES", "RUST_", "TOKIO_", "WEBSTONE_", "OMP_"];

pub(super) fn gather(facts: &mut Facts<'_>) {
    let root = facts.root;
    facts.text("hostname", "/proc/sys/kernel/hostname");
    facts.text("kernel.release", "/proc/sys/kernel/osrelease");
    facts.text("kernel.version", "/proc/sys/kernel/version");
    let command_line = root.text("/proc/cmdline").map(|text| redaction::text(&text).text);
    facts.add("kernel.command_line", "/proc/cmdline", command_line);
    facts.add("distribution", "/etc/os-release", distribution(root));
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";
    facts.text("clock_source", &format!("{CLOCK}/current_clocksource"));
    facts.text("clock_sources", &format!("{CLOCK}/available_clocksource"));
    facts.text("load_average", "/proc/loadavg");
    facts.add("sysctl", "/proc/sys", sysctl(root));
    facts.add("limits", "/proc/self/limits", limits(root));
    facts.add("cgroup", "/proc/self/cgroup, /sys/fs/cgroup", cgroup(root));
    facts.add(
        "virtualisation",
        "/proc/cpuinfo, /sys/class/dmi/id, /sys/hypervisor, /run, /proc/self/cgroup",
        virtualisation(root),
    );
}

/// Facts of the process itself, which tests cannot lay out as files.
pub(super) fn of_process(facts: &mut Facts<'_>) {
    let variables: Map<String, Value> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| (name.clone(), redaction::value(&name, &value).into()))
        .collect();
    facts.add("process.variables", "this process, where they change how programs behave", Some(variables));
}

fn distribution(root: &Root) -> Option<String> {
    let release = root.text("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn sysctl(root: &Root) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for (path, prefixes) in SETTINGS {
        let prefix = path.replace('/', ".");
        let entries = directory(root, &format!("/proc/sys/{path}"), prefixes).unwrap_or_default();
        all.extend(entries.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)));
    }
    (!all.is_empty()).then_some(all)
}

/// `/proc/self/limits`: name, soft and hard limit, unit, in columns two or more spaces apart.
fn limits(root: &Root) -> Option<Map<String, Value>> {
    let text = root.text("/proc/self/limits")?;
    let mut limits = Map::new();
    for line in text.lines().skip(1) {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        if let (Some(name), Some(soft), Some(hard)) = (columns.next(), columns.next(), columns.next()) {
            limits.insert(name.to_owned(), json!({ "soft": soft, "hard": hard }));
        }
    }
    Some(limits)
}

/// The tightest bounds on the way to the root, and the group's own files as they are.
fn cgroup(root: &Root) -> Option<Value> {
    let group = control_group(root);
    let membership = root.text("/proc/self/cgroup");
    let own = membership.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::")));
    let file = |name: &str| {
        let path = format!("/sys/fs/cgroup{}/{name}", own?.trim_end_matches('/'));
        root.text(&path).filter(|text| !text.is_empty()).map(Value::from)
    };
    object([
        ("membership", membership.clone().map(Value::from)),
        ("cpus", group.cpus.map(Value::from)),
        ("memory_bytes_max", group.memory_bytes_max.map(Value::from)),
        ("tasks_max", group.tasks_max.map(Value::from)),
        ("cpu.max", file("cpu.max")),
        ("cpu.weight", file("cpu.weight")),
        ("memory.max", file("memory.max")),
        ("memory.high", file("memory.high")),
        ("cpuset.cpus.effective", file("cpuset.cpus.effective")),
        ("cpuset.mems.effective", file("cpuset.mems.effective")),
        ("pids.max", file("pids.max")),
    ])
}

/// Vendors' names in the firmware, as systemd-detect-virt knows them.
const VENDORS: [(&str, &str); 14] = [
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("Google Compute Engine", "google"),
    ("Microsoft Corporation", "microsoft"),
];

/// Whether this host is a virtual machine, as far as the kernel reports it.
pub fn is_virtual(root: &Root) -> bool {
    virtualisation(root).is_some_and(|facts| facts.get("machine").is_some())
}

/// Signs of a virtual machine or a container, with its name if known.
fn virtualisation(root: &Root) -> Option<Value> {
    let dmi = |file: &str| root.text(&format!("/sys/class/dmi/id/{file}")).filter(|text| !text.is_empty());
    let named = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"].into_iter().filter_map(dmi);
    let by_vendor = named.into_iter().find_map(|text| {
        VENDORS.iter().find(|(vendor, _)| text.starts_with(vendor)).map(|(_, kind)| (*kind).to_owned())
    });
    let flags = cpu_info(root, "flags").unwrap_or_default();
    let hypervisor =
        root.text("/sys/hypervisor/type").or_else(|| root.text("/proc/device-tree/hypervisor/compatible"));
    let flagged = flags.split_whitespace().any(|flag| flag == "hypervisor");
    // Microsoft also makes hardware, so its name alone proves nothing.
    let machine = hypervisor.clone().or(by_vendor.filter(|kind| kind != "microsoft" || flagged));
    let machine = machine.or_else(|| flagged.then(|| "unknown hypervisor".to_owned()));
    let read_whole = |path: &str| root.text(path).filter(|text| !text.is_empty());
    let groups = root.text("/proc/self/cgroup").unwrap_or_default();
    let in_group =
        ["docker", "kubepods", "lxc", "libpod", "containerd"].into_iter().find(|name| groups.contains(name));
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    let container = read_whole("/run/systemd/container")
        .or_else(|| root.text("/run/.containerenv").map(|_| "podman".to_owned()))
        .or_else(|| root.text("/.dockerenv").map(|_| "docker".to_owned()))
        .or_else(|| release.contains("microsoft").then(|| "wsl".to_owned()))
        .or_else(|| in_group.map(str::to_owned));
    object([
        ("machine", machine.map(Value::from)),
        ("container", container.map(Value::from)),
        ("hypervisor_flag", flagged.then(|| true.into())),
        ("hypervisor", hypervisor.map(Value::from)),
        ("vendor", dmi("sys_vendor").map(Value::from)),
        ("product", dmi("product_name").map(Value::from)),
        ("bios", dmi("bios_version").map(Value::from)),
    ])
}
