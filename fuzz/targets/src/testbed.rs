//! Testbed files as a run takes them: read as TOML, then compiled into what the engine sends.

use std::net::IpAddr;

use webstone_engine::Plan;
use webstone_model::spec::RunSpec;
use webstone_model::toml_text;
use webstone_workload::Workload;
use webstone_workload::read;

/// A testbed file that can be read is compiled, or refused with a message. No name is resolved and no connection made here.
pub(crate) fn testbed(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(mut spec) = toml_text::read::<RunSpec>(text) else { return };
    // Names would be looked up in the network, and each source address would take a socket.
    spec.target.retain(|url| has_address(url));
    if spec.target.is_empty() {
        spec.target = vec!["http://127.0.0.1:8080".to_owned()];
    }
    spec.client.proxy = spec.client.proxy.filter(|url| has_address(url));
    spec.client.source.clear();
    match Plan::compile(&spec.task(), &workload()) {
        Ok(plan) => assert!(plan.request_count() == 2 && plan.workers() > 0),
        Err(error) => assert!(!error.what.is_empty()),
    }
}

fn workload() -> Workload {
    let text =
        b"[feeds.u]\ncolumns = [\"n\"]\nrows = [[\"a b\"]]\n[[pages]]\nfiles = [\"/a?n={{u.n}}\", \"/b\"]\n";
    read(text, "w.toml").expect("it is a workload")
}

fn has_address(url: &str) -> bool {
    let host =
        url.strip_prefix("http://").unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    let without_port = host.rsplit_once(':').map_or(host, |(host, _)| host);
    [host, without_port].iter().any(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok())
}
