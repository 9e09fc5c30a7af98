//! What two runs must have in common to stand in one history, and what may change within one and is reported beside a step.
//!
//! The line between the two is that of `compare`: what changes the load, the rules by which an answer counts, or the machines,
//! begins another history; another version of the server, the kernel or this program is what a history is kept for.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::comparison::{MACHINE, placed, workers};
use webstone_model::record::RunRecord;

/// Keys of a client's specification that do not change what is measured.
const CLIENT_LEFT_OUT: [&str; 7] = [
    "connect_timeout",
    "first_byte_timeout",
    "request_timeout",
    "seed",
    "source",
    "allow_hosts",
    "allow_feeds",
];
/// Keys of the load that decide how precise a figure is, not what it is of.
const LOAD_LEFT_OUT: [&str; 5] = ["iterations", "order", "drain", "retries", "aa"];
/// Keys of a server's specification that say where it is, not how it is set up.
const SERVER_LEFT_OUT: [&str; 5] = ["listen", "agent", "program", "root", "origin_cpus"];

/// Facts of the environment that may change within a history, by their names there.
const CHANGING: [(&str, &str); 9] = [
    ("kernel.release", "kernel"),
    ("kernel.version", "kernel build"),
    ("kernel.command_line", "kernel command line"),
    ("distribution", "distribution"),
    ("cpu.microcode", "microcode"),
    ("cpu.frequency.boost", "frequency boost"),
    ("clock_source", "clock source"),
    ("memory.bytes", "memory in bytes"),
    ("sysctl", "kernel settings"),
];
/// Facts of the server's own host, where an agent told them.
const SERVER_HOST: [(&str, &str); 4] = [
    ("hostname", "server's host"),
    ("cpu.model", "server's CPU"),
    ("kernel.release", "server's kernel"),
    ("memory.bytes", "server's memory in bytes"),
];

/// What must be alike in two runs for them to stand in one history, by name.
pub fn conditions(record: &RunRecord) -> Vec<(&'static str, String)> {
    let spec = &record.spec;
    let mut found = vec![
        ("workload", record.workload_sha256.clone()),
        ("load", without(&spec.load, &LOAD_LEFT_OUT)),
        ("search", spec.find.as_ref().map_or_else(String::new, |find| without(find, &[]))),
        ("clients", without(&spec.client, &CLIENT_LEFT_OUT)),
        ("workers", workers(record)),
        ("CPUs of the server", placed(record)),
    ];
    match (&record.target.software, record.target.embedded) {
        // Its configuration follows from this, but for the directory and the port, which every run chooses.
        (Some(_), _) | (None, true) => {
            found.push(("server", without(&spec.server, &SERVER_LEFT_OUT)));
        }
        (None, false) => {
            found.push(("target", record.target.url.clone()));
            found.push(("configuration", configuration(record)));
        }
    }
    found.extend(MACHINE.map(|(name, what)| (what, text(record.environment.get(name)))));
    found
}

/// What may change from run to run of a history, by name: whatever is known of the versions and the environment.
pub fn surroundings(record: &RunRecord) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |what: &str, value: String| {
        if !value.is_empty() {
            found.insert(what.to_owned(), value);
        }
    };
    let commit = record.tool.commit.as_ref().map_or_else(String::new, |commit| format!(" ({commit})"));
    add("webstone", format!("{}{commit}", record.tool.version));
    match &record.target.software {
        Some(software) => {
            add("server's version", software.version.clone());
            add("server's program", software.program.clone());
        }
        None => add("server", record.target.server.clone().unwrap_or_default()),
    }
    for (name, what) in CHANGING {
        match record.environment.get(name) {
            Some(Value::Object(parts)) => {
                parts.iter().for_each(|(part, value)| add(&format!("{what}: {part}"), text(Some(value))));
            }
            value => add(what, text(value)),
        }
    }
    let hosts = record.server_environments();
    for (name, what) in SERVER_HOST {
        let told: Vec<String> = hosts.iter().map(|(_, facts)| text(facts.get(name).copied())).collect();
        add(what, told.join("; "));
    }
    // How many connections the kernel happened to track is not a setting.
    found.remove("kernel settings: net.netfilter.nf_conntrack_count");
    found
}

/// Paths and check sums of the configuration files that were disclosed.
fn configuration(record: &RunRecord) -> String {
    let files = record.environment.get("server.configuration").and_then(Value::as_array);
    let sums = files.into_iter().flatten().map(|file| json!([file.get("path"), file.get("sha256")]));
    Value::Array(sums.collect()).to_string()
}

/// A part of the specification as JSON, without some of its keys.
fn without(part: &impl Serialize, keys: &[&str]) -> String {
    let mut value = serde_json::to_value(part).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        keys.iter().for_each(|key| {
            fields.remove(*key);
        });
    }
    value.to_string()
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::units::Nanos;
    use webstone_model::fixture;

    #[test]
    fn what_changes_the_load_or_the_machine_parts_histories_and_versions_do_not() {
        let record = fixture::record("a", &[(10, &[100.0])]);
        let own = conditions(&record);
        type Change = fn(&mut RunRecord);
        let parting: [(&str, Change); 8] = [
            ("workload", |record| record.workload_sha256 = "01".to_owned()),
            ("load", |record| record.spec.load.duration = Nanos::from_secs(11)),
            ("load", |record| record.spec.load.clients.0 = vec![20]),
            ("clients", |record| record.spec.client.parallel = 4),
            ("target", |record| record.target.url = "http://elsewhere/".to_owned()),
            ("configuration", |record| {
                let files = json!([{ "path": "nginx.conf", "sha256": "aa", "text": "" }]);
                record.environment.insert("server.configuration".to_owned(), files);
            }),
            ("host", |record| drop(record.environment.insert("hostname".to_owned(), "other".into()))),
            ("CPU", |record| drop(record.environment.insert("cpu.model".to_owned(), "other".into()))),
        ];
        for (what, change) in parting {
            let mut other = record.clone();
            change(&mut other);
            let theirs = conditions(&other);
            let differing: Vec<&str> =
                own.iter().zip(&theirs).filter(|(a, b)| a != b).map(|((name, _), _)| *name).collect();
            assert_eq!(differing, [what]);
        }
        let staying: [(&str, Change); 4] = [
            ("webstone", |record| record.tool.version = "9".to_owned()),
            ("server", |record| record.target.server = Some("nginx/1.27".to_owned())),
            ("kernel", |record| drop(record.environment.insert("kernel.release".to_owned(), "7".into()))),
            ("kernel settings: vm.swappiness", |record| {
                drop(record.environment.insert("sysctl".to_owned(), json!({ "vm.swappiness": 1 })))
            }),
        ];
        for (what, change) in staying {
            let mut other = record.clone();
            change(&mut other);
            assert_eq!(conditions(&other), own, "{what}");
            assert_ne!(surroundings(&other).get(what), surroundings(&record).get(what), "{what}");
        }
        let mut other = record.clone();
        other.spec.load.iterations = 9;
        other.spec.client.seed = 4;
        assert_eq!(conditions(&other), own);
    }
}
