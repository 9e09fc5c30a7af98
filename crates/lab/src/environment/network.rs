//! The interfaces that packets to the target take, with what `/sys` and, where they are installed, `ethtool` and `tc` say
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::facts::{Facts, object, words};
use crate::host_use::links_towards;
use crate::link_speed::link_speed_mbps;
use crate::machine::Root;

/// Asks a program that may not be installed: its standard output, if it succeeded.
pub(super) type Ask<'a> = &'a dyn Fn(&str, &[&str]) -> Option<String>;

const ROUTES: &str = "/proc/net/route";
const ROUTES_6: &str = "/proc/net/ipv6_route";

/// `this_host`: every address is one of this host, so that packets stay in it.
pub(super) fn gather(facts: &mut Facts<'_>, addresses: &BTreeSet<SocketAddr>, this_host: bool, ask: Ask<'_>) {
    let root = facts.root;
    let mut towards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for address in addresses {
        match links_towards(root, [address.ip()], this_host).pop_first() {
            Some(name) => towards.entry(name).or_default().push(named(address)),
            None => facts
                .unknown("network.interfaces", &format!("no route to {address} in {ROUTES} and {ROUTES_6}")),
        }
    }
    if addresses.is_empty() && this_host {
        towards.insert("lo".to_owned(), Vec::new());
    }
    let described: Vec<Value> =
        towards.into_iter().map(|(name, to)| describe(root, &name, to, ask)).collect();
    if !described.is_empty() {
        let source = format!("{ROUTES}, {ROUTES_6}, /sys/class/net, `ethtool`, `tc qdisc`");
        facts.add("network.interfaces", &source, Some(described));
    }
    facts.text("network.routes", ROUTES);
}

/// With its port, where it has one.
fn named(address: &SocketAddr) -> String {
    if address.port() == 0 { address.ip().to_string() } else { address.to_string() }
}

fn describe(root: &Root, name: &str, towards: Vec<String>, ask: Ask<'_>) -> Value {
    let base = format!("/sys/class/net/{name}");
    let text = |file: &str| root.text(&format!("{base}/{file}")).filter(|text| !text.is_empty());
    let number = |file: &str| text(file).and_then(|text| text.parse::<i64>().ok());
    let asked = |option: &str| -> Value {
        match ask("ethtool", &[option, name]) {
            Some(text) => Value::Object(pairs(&text)),
            None => "unknown: `ethtool` is not installed, or the driver does not report it".into(),
        }
    };
    let queues = root.names(&format!("{base}/queues"));
    let count = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count();
    let known = object([
        ("driver", root.link_name(&format!("{base}/device/driver")).map(Value::from)),
        ("mtu", number("mtu").map(Value::from)),
        ("duplex", text("duplex").map(Value::from)),
        ("state", text("operstate").map(Value::from)),
        ("tx_queue_len", number("tx_queue_len").map(Value::from)),
        ("gro_flush_timeout", number("gro_flush_timeout").map(Value::from)),
        ("napi_defer_hard_irqs", number("napi_defer_hard_irqs").map(Value::from)),
        ("threaded", text("threaded").map(Value::from)),
    ]);
    let mut all = match known {
        Some(Value::Object(known)) => known,
        _ => Map::new(),
    };
    all.insert("name".to_owned(), name.into());
    all.insert("towards".to_owned(), json!(towards));
    all.insert("loopback".to_owned(), (name == "lo").into());
    all.insert(
        "speed_mbps".to_owned(),
        link_speed_mbps(root, name).map_or_else(
            || "unknown: the network interface is virtual, or does not report it".into(),
            Value::from,
        ),
    );
    all.insert("queues".to_owned(), json!({ "rx": count("rx-"), "tx": count("tx-") }));
    for (key, option) in
        [("offloads", "-k"), ("coalescing", "-c"), ("rings", "-g"), ("channels", "-l"), ("firmware", "-i")]
    {
        all.insert(key.to_owned(), asked(option));
    }
    let discipline =
        ask("tc", &["qdisc", "show", "dev", name]).map(|text| text.lines().map(words).collect::<Vec<_>>());
    all.insert(
        "queueing".to_owned(),
        discipline.map_or_else(|| "unknown: `tc` is not installed".into(), Value::from),
    );
    Value::Object(all)
}

/// `name: value` lines, as ethtool prints them. A line without a value heads a section, whose name its lines get.
fn pairs(text: &str) -> Map<String, Value> {
    let mut section = String::new();
    let mut pairs = Map::new();
    for line in text.lines().skip_while(|line| line.starts_with("Features for")) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.trim(), words(value));
        if value.is_empty() {
            section = format!("{}: ", name.split(" for ").next().unwrap_or(name));
        } else {
            pairs.insert(format!("{section}{name}"), value.into());
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn an_interface_is_described_by_the_kernel_and_by_ethtool() {
        let (_keep, root) = root_with(&[
            (ROUTES, "head\neth0 00000000 00000000 0001 0 0 0 00000000 0 0 0\n"),
            ("/sys/class/net/eth0/mtu", "9000\n"),
            ("/sys/class/net/eth0/speed", "25000\n"),
            ("/sys/class/net/eth0/device/vendor", "0x15b3\n"),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
            ("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
            ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
        ]);
        let ask = |program: &str, arguments: &[&str]| {
            match (program, arguments) {
            ("ethtool", ["-k", "eth0"]) => Some(
                "Features for eth0:\nrx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\nlarge-receive-offload: off\n".to_owned(),
            ),
            ("ethtool", ["-g", "eth0"]) => Some(
                "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nCurrent hardware settings:\nRX:\t\t512\n".to_owned(),
            ),
            _ => None,
        }
        };
        let mut facts = Facts::below(&root);
        gather(&mut facts, &BTreeSet::from(["192.0.2.1:80".parse().unwrap()]), false, &ask);
        let facts = facts.finish();
        let interface = &facts["network.interfaces"][0];
        assert_eq!(interface["name"], "eth0");
        assert_eq!(interface["towards"], json!(["192.0.2.1:80"]));
        assert_eq!((&interface["mtu"], &interface["speed_mbps"]), (&json!(9000), &json!(25000)));
        assert_eq!(interface["queues"], json!({ "rx": 2, "tx": 1 }));
        assert_eq!(
            interface["offloads"],
            json!({ "rx-checksumming": "on", "tx-checksum-ipv4": "off [fixed]", "large-receive-offload": "off" })
        );
        assert_eq!(
            interface["rings"],
            json!({ "Pre-set maximums: RX": "4096", "Current hardware settings: RX": "512" })
        );
        assert_eq!(
            interface["coalescing"],
            "unknown: `ethtool` is not installed, or the driver does not report it"
        );
    }

    #[test]
    fn a_target_on_this_host_is_reached_over_the_loopback() {
        let (_keep, root) =
            root_with(&[("/sys/class/net/lo/mtu", "65536\n"), ("/sys/class/net/lo/speed", "-1\n")]);
        let mut facts = Facts::below(&root);
        gather(&mut facts, &BTreeSet::from(["192.0.2.2:80".parse().unwrap()]), true, &|_, _| None);
        let facts = facts.finish();
        assert_eq!(facts["network.interfaces"][0]["loopback"], true);
        assert_eq!(
            facts["network.interfaces"][0]["speed_mbps"],
            "unknown: the network interface is virtual, or does not report it"
        );
    }
}
