//! Facts about the machine that a reader of a result needs and no privilege is needed for: `environment.json`.
//!
//! A fact that cannot be read is never guessed: it stands under `unknown`, with the reason. Names are dotted, from the general
//! to the particular; values keep the kernel's own words where it has some; `sources` names the file that each was read from,
//! so that a reader can check. What no program can read (topology, sponsor, the server's hardware) the user states under
//! `[disclosure]` in the testbed file. It contains no secrets: `webstone_store::redaction`.

pub mod configuration;
mod devices;
mod facts;
mod kernel;
mod network;
mod processor;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use webstone_model::record::Tool;

use crate::machine::Root;
use crate::servers::{on_path, only_inherited};
pub use kernel::is_virtual;

use facts::Facts;

/// Facts that the run knows without asking the system.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The program.
    pub tool: &'a Tool,
    /// Whether the target is on this host.
    pub target_is_this_host: bool,
    /// Every address of the target.
    pub addresses: &'a BTreeSet<SocketAddr>,
    /// The server's configuration files, as [`configuration`] reads them.
    pub configuration: Vec<Value>,
    /// Facts about the server, by name, where webstone started it.
    pub server: Vec<(&'static str, String)>,
    /// The server's hosts that agents looked at.
    pub server_hosts: Vec<ServerHost>,
}

/// What an agent reports of its host.
#[derive(Clone, Debug, Default)]
pub struct ServerHost {
    /// The same facts as of this host, by name.
    pub facts: BTreeMap<String, Value>,
    /// Whether it is the generator's machine, whatever its addresses are; `None` if the kernel does not report it.
    pub same_machine: Option<bool>,
}

/// Everything that can be read of a host on which an agent runs. `towards` are the addresses of the other side, the generator's or
/// the server's; `here` says whether they are this host's.
pub fn of_host(root: &Root, towards: &BTreeSet<IpAddr>, here: bool) -> BTreeMap<String, Value> {
    let mut facts = Facts::below(root);
    facts.add("architecture", "this program", Some(std::env::consts::ARCH));
    kernel::gather(&mut facts);
    processor::gather(&mut facts);
    // Of the way there only the interface counts.
    let towards = towards.iter().map(|address| SocketAddr::new(*address, 0)).collect();
    network::gather(&mut facts, &towards, here, &ask);
    devices::gather(&mut facts, &ask);
    services::gather(&mut facts, &ask);
    facts.finish()
}

/// What distinguishes one host from another: program, kernel and processor, which are read at once.
pub fn identifying(root: &Root) -> BTreeMap<String, Value> {
    let mut facts = Facts::below(root);
    facts.add("architecture", "this program", Some(std::env::consts::ARCH));
    kernel::gather(&mut facts);
    processor::gather(&mut facts);
    facts.finish()
}

/// Which boot of which kernel this is: the same in every container and network namespace of a machine.
pub fn boot(root: &Root) -> Option<String> {
    root.text("/proc/sys/kernel/random/boot_id").filter(|boot| !boot.is_empty())
}

/// All facts about this machine, with those that only this program knows.
pub fn gather(root: &Root, subject: Subject<'_>) -> BTreeMap<String, Value> {
    let mut facts = Facts::below(root);
    kernel::of_process(&mut facts);
    gather_with(facts, subject, &ask)
}

fn gather_with(mut facts: Facts<'_>, subject: Subject<'_>, ask: network::Ask<'_>) -> BTreeMap<String, Value> {
    let Subject { tool, target_is_this_host, addresses, configuration, server, server_hosts } = subject;
    facts.add("tool", "this program", Some(json!(tool)));
    facts.add("architecture", "this program", Some(std::env::consts::ARCH));
    facts.add("target.this_host", "the target's addresses", Some(target_is_this_host));
    let loopback = !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback());
    facts.add("target.loopback", "the target's addresses", Some(loopback));
    let addresses_text: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    facts.add("target.addresses", "the target's URL, resolved", Some(addresses_text));
    kernel::gather(&mut facts);
    processor::gather(&mut facts);
    network::gather(&mut facts, addresses, target_is_this_host, ask);
    devices::gather(&mut facts, ask);
    services::gather(&mut facts, ask);
    for (name, text) in server {
        facts.add(name, "the server's driver", Some(text));
    }
    if !server_hosts.is_empty() {
        let same = server_hosts.iter().map(|host| host.same_machine);
        // One on this machine is enough; "none" requires all to be known.
        let same_machine = match same.clone().any(|same| same == Some(true)) {
            true => Some(true),
            false => same.collect::<Option<Vec<bool>>>().map(|_| false),
        };
        facts.add(
            "target.same_machine",
            "/proc/sys/kernel/random/boot_id here and at the agent",
            same_machine,
        );
    }
    // Of several hosts, the record has each with its agent.
    if let Ok([ServerHost { facts: there, .. }]) = <[ServerHost; 1]>::try_from(server_hosts) {
        let there: serde_json::Map<String, Value> = there.into_iter().collect();
        facts.add("server.environment", "the agent on the server's host (--server-agent)", Some(there));
    }
    let configuration = (!configuration.is_empty()).then_some(configuration);
    match configuration {
        Some(files) => {
            facts.add("server.configuration", "the server's driver, or --server-config", Some(files))
        }
        None => facts.unknown("server.configuration", "--server-config was not given"),
    }
    facts.finish()
}

/// Runs a program, if it is installed. It is looked for first, because a child that fails to start costs milliseconds.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(on_path(program)?);
    only_inherited(&mut command);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    fn gather_below(root: &Root, this_host: bool) -> BTreeMap<String, Value> {
        let subject = Subject {
            tool: &tool(),
            target_is_this_host: this_host,
            addresses: &BTreeSet::new(),
            configuration: Vec::new(),
            server: Vec::new(),
            server_hosts: Vec::new(),
        };
        gather_with(Facts::below(root), subject, &|_, _| None)
    }

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
            ("/proc/cmdline", "quiet luks.password=hunter2 mitigations=off\n"),
            ("/sys/devices/system/cpu/online", "0-1\n"),
            ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
            ("/sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            ("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
            ("/sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
            (
                "/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            1024                 20000                files     \n\
                 Max nice priority         0                    0                    \n",
            ),
        ]);
        let facts = gather_below(&root, true);
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
        assert_eq!(facts["kernel.command_line"], "quiet luks.password=[redacted] mitigations=off");
        assert_eq!(
            facts["cpu.topology"],
            json!({ "sockets": 1, "cores": 1, "threads": 2, "threads_per_core": 2.0 })
        );
        assert_eq!(facts["cpu.frequency.governor"], "performance, powersave");
        assert_eq!(facts["cpu.frequency.boost"], "0");
        assert_eq!(facts["cpu.mitigations"], json!({ "meltdown": "Not affected" }));
        assert_eq!(facts["limits"]["Max open files"], json!({ "soft": "1024", "hard": "20000" }));
        assert_eq!(
            facts["virtualisation"],
            json!({ "hypervisor_flag": true, "machine": "unknown hypervisor" })
        );
        assert_eq!(facts["tool"]["commit"], "abc");
        assert_eq!(facts["target.this_host"], true);
        assert_eq!(facts["sources"]["cpu.model"], "/proc/cpuinfo");
        let named = facts.keys().filter(|name| !["sources", "unknown"].contains(&name.as_str()));
        for name in named {
            assert!(facts["sources"][name].is_string(), "{name} has no source");
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let (_keep, root) = root_with(&[]);
        let facts = gather_below(&root, false);
        let names: Vec<&str> = facts.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "architecture",
                "cpu.allowed",
                "cpu.cores",
                "sources",
                "target.addresses",
                "target.loopback",
                "target.this_host",
                "tool",
                "unknown"
            ]
        );
        assert_eq!(facts["unknown"]["kernel.release"], "/proc/sys/kernel/osrelease does not say");
        assert_eq!(facts["unknown"]["server.configuration"], "--server-config was not given");
    }

    #[test]
    fn this_machine_has_the_facts_that_a_result_needs() {
        let facts = gather_below(&Root::default(), true);
        for name in ["kernel.release", "memory.bytes", "limits", "sysctl", "cpu.allowed", "cpu.online"] {
            assert!(facts.contains_key(name), "{name}");
        }
        assert!(facts["sysctl"]["net.core.somaxconn"].is_string());
    }
}
