//! Tests that no key is forgotten, that no other form of a text evades a power, and that the table in
//! `docs/security.md` is current.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::interfaces::Interface;
use crate::series::Delivery;
use crate::servers::Profile;
use crate::servers::ServerChoice;
use webstone_measure::strict;
use webstone_workload::addresses::AddressRange;

/// A specification that needs every power. A new key gets a value here.
fn everything() -> RunSpec {
    let text = |text: &str| Some(text.to_owned());
    let list = |text: &str| vec![text.to_owned()];
    RunSpec {
        target: list("http://target.test/"),
        workload: "/etc/workload".to_owned(),
        server_config: list("server.conf"),
        client: ClientSpec {
            unix_socket: text("/run/socket"),
            connect_to: vec!["a.test:80:b.test:81".parse().unwrap()],
            source: vec!["127.0.0.2".parse::<AddressRange>().unwrap()],
            proxy: text("http://proxy.test:3128"),
            allow_hosts: list("images.test"),
            allow_feeds: true,
            tls: TlsSpec {
                cacert: text("ca.pem"),
                cert: text("cert.pem"),
                key: text("key.pem"),
                key_log: text("keys.log"),
                ..TlsSpec::default()
            },
            ..ClientSpec::default()
        },
        generator: GeneratorSpec {
            record_all: text("all.csv"),
            qlog: text("qlogs"),
            ..GeneratorSpec::default()
        },
        generators: vec![
            GeneratorHost::reached_by("ssh gen1 webstone agent"),
            GeneratorHost {
                agent: String::new(),
                kubernetes: Some(PodsOfJob { kubeconfig: text("kube.conf"), ..PodsOfJob::default() }),
                name: text("gen2"),
                clients: Some(6),
                target: text("http://web1-net2.test"),
            },
        ],
        server: ServerSpec {
            software: Software::ALL.into_iter().find(|one| one.name() == "nginx").unwrap(),
            program: text("nginx-debug"),
            command: text("server {port}"),
            origin: text("http://origin.test:80"),
            listen: "0.0.0.0:80".to_owned(),
            root: text("/srv"),
            access_log: text("access.log"),
            interface: Some(Interface::ALL[1]),
            tls: Some(ServerTls {
                listen: text("[::]:443"),
                cert: text("cert.pem"),
                key: text("key.pem"),
                ..ServerTls::default()
            }),
            agents: list("ssh web1 webstone agent"),
            ..ServerSpec::default()
        },
        find: Some(SearchSpec::default()),
        series: Some(Matrix {
            servers: vec![ServerChoice {
                software: Software::ALL.into_iter().find(|one| one.name() == "nginx").unwrap(),
                profile: Profile::Stock,
            }],
            builds: list("./build"),
            interfaces: vec![Delivery::Dynamic(Interface::ALL[1])],
            workloads: list("../w"),
            dynamic_workloads: list("../d"),
            dynamic_workload: text("../d"),
            ..Matrix::default()
        }),
        ..RunSpec::default()
    }
}

/// A specification as a tree, including keys that are left out because they have their defaults.
fn tree(spec: &RunSpec) -> Value {
    serde_json::to_value(spec).unwrap()
}

#[test]
fn every_power_can_be_needed_and_defaults_need_none() {
    assert_eq!(asked(&RunSpec::default()), []);
    let found: BTreeSet<Power> = asked(&everything()).iter().map(|one| one.power).collect();
    assert_eq!(found, Power::ALL.into());
    // Each key exists in the specification.
    let all = tree(&everything());
    for Asked { key, .. } in asked(&everything()) {
        let found = key.split('.').try_fold(&all, |value, part| match value {
            Value::Array(items) => items.iter().find_map(|item| item.get(part)),
            value => value.get(part),
        });
        assert!(found.is_some(), "{key}");
    }
}

/// Keys with text values but without a power: numbers and times with units, and what stays within the run, as the
/// comments in [`asked`] say.
#[cfg(feature = "schema")]
const POWERLESS: [&str; 36] = [
    "name",
    "load.clients",
    "load.rate",
    "load.arrivals",
    "load.duration",
    "load.warmup",
    "load.drain",
    "client.http2_settings",
    "client.method",
    "client.accept_encoding",
    "client.body",
    "client.body_base64",
    "client.source",
    "client.source_ports",
    "client.bandwidth",
    "client.think",
    "client.connect_timeout",
    "client.first_byte_timeout",
    "client.request_timeout",
    "client.expect_status",
    "client.tls.pin",
    "client.tls.sni",
    "client.tls.alpn",
    "client.tls.resume",
    "generator.cpus",
    "generators.name",
    "generators.kubernetes.namespace",
    "generators.kubernetes.context",
    "generators.kubernetes.wait",
    "server.cpus",
    "server.origin_cpus",
    "server.dns_delay",
    "server.path",
    "find.slo",
    "series.handshakes",
    "series.paths",
];

#[cfg(feature = "schema")]
#[test]
fn a_key_whose_value_is_any_text_has_a_power_or_a_reason() {
    let schema = serde_json::to_value(schemars::schema_for!(RunSpec)).unwrap();
    let mut texts = Vec::new();
    free_texts(&schema, &schema, "", &mut texts);
    let powerful: BTreeSet<&str> = asked(&everything()).iter().map(|one| one.key).collect();
    let forgotten: Vec<&String> = texts
        .iter()
        .filter(|key| !powerful.contains(key.as_str()) && !POWERLESS.contains(&key.as_str()))
        .collect();
    assert!(forgotten.is_empty(), "say which power each has: {forgotten:?}");
    assert!(texts.len() > 30, "{texts:?}");
}

/// The keys that the schema describes as a text, or a list of texts, without a choice of values.
#[cfg(feature = "schema")]
fn free_texts(root: &Value, schema: &Value, key: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return free_texts(root, &root["$defs"][name], key, found);
    }
    for part in ["anyOf", "oneOf", "allOf"] {
        for one in schema[part].as_array().into_iter().flatten() {
            free_texts(root, one, key, found);
        }
    }
    let is = |kind: &str| {
        schema["type"] == kind || schema["type"].as_array().is_some_and(|all| all.contains(&json!(kind)))
    };
    if is("string")
        && schema.get("enum").is_none()
        && schema.get("const").is_none()
        && !found.contains(&key.to_owned())
    {
        found.push(key.to_owned());
    }
    if is("array") {
        free_texts(root, &schema["items"], key, found);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        free_texts(root, below, &key, found);
    }
}

#[test]
fn local_addresses_and_nearby_workloads_need_no_power() {
    let mut spec = RunSpec::default();
    for listen in ["127.0.0.1:0", "127.0.0.9:80,[::1]:80", "localhost:1"] {
        spec.server.listen = listen.to_owned();
        assert_eq!(asked(&spec), [], "{listen}");
    }
    for listen in
        ["0.0.0.0:0", "127.0.0.1:0, [::]:80", "unix:/run/socket", "localhost.evil.test:1", ":80", "*:80"]
    {
        spec.server.listen = listen.to_owned();
        assert_eq!(refused(&spec, &[]).map(|one| one.power), Some(Power::Listen), "{listen}");
    }
    spec.server.listen = "127.0.0.1:0".to_owned();
    for near in ["standard", "lists/w.toml", "./w"] {
        spec.workload = near.to_owned();
        assert_eq!(asked(&spec), [], "{near}");
    }
    for far in ["/etc/shadow", "../w", "a/../../w", "..", ".netrc", "./.ssh/id", "a/.env", "..w"] {
        spec.workload = far.to_owned();
        assert_eq!(refused(&spec, &[]).map(|one| one.power), Some(Power::Read), "{far}");
    }
}

#[test]
fn a_refusal_names_the_greatest_power() {
    let mut spec = everything();
    assert_eq!(refused(&spec, &Power::ALL), None);
    let worst = refused(&spec, &Power::OF_FRONTS).unwrap();
    assert_eq!((worst.power, worst.key), (Power::Run, "generators.agent"));
    assert_eq!(worst.to_string(), "runs `ssh gen1 webstone agent` (generators.agent)");
    spec = RunSpec::default();
    spec.target = vec!["http://a/".to_owned()];
    assert_eq!(refused(&spec, &Power::OF_AGENTS), None);
}

/// Each value in a tree, with its path.
fn places(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), value.clone()));
    match value {
        Value::Object(table) => {
            table.iter().for_each(|(key, value)| places(value, &format!("{path}/{key}"), found))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| places(value, &format!("{path}/{at}"), found));
        }
        _ => {}
    }
}

/// Values of every other type than this one.
fn others(value: &Value) -> Vec<Value> {
    let mut others = vec![
        json!(null),
        json!(true),
        json!(3),
        json!("text"),
        json!([]),
        json!([value]),
        json!({}),
        json!({ "x": value }),
    ];
    match value {
        Value::Object(table) => {
            let values: Vec<Value> = table.values().cloned().collect();
            let pairs = table.iter().map(|(key, value)| json!([key, value])).collect();
            others.extend([json!(values), pairs, json!(value.to_string())]);
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate().map(|(at, item)| (at.to_string(), item.clone()));
            others.push(Value::Object(numbered.collect()));
            others.extend(items.first().cloned());
        }
        other => others.push(json!({ "0": other })),
    }
    others.retain(|other| other != value);
    others
}

#[test]
fn no_value_of_another_type_evades_a_power() {
    let all = tree(&everything());
    let mut found = Vec::new();
    places(&all, "", &mut found);
    let (mut read, mut tried) = (0, 0);
    for (path, value) in &found {
        for other in others(value) {
            tried += 1;
            let mut mutated = all.clone();
            *mutated.pointer_mut(path).unwrap() = other.clone();
            let Ok(spec) = strict::json::<RunSpec>(&serde_json::to_vec(&mutated).unwrap()) else { continue };
            read += 1;
            // A table that is read from another type would be read as nothing, as one of its items, or in its short
            // form.
            let is_table = value.is_object() && !other.is_object();
            let is_nothing = other.is_null();
            assert!(
                !is_table || is_nothing || other == json!([value]),
                "{path}: {other} was read as a table"
            );
            // Written and read again, a specification needs the same powers.
            let again: RunSpec = strict::json(&serde_json::to_vec(&tree(&spec)).unwrap()).unwrap();
            assert_eq!(asked(&again), asked(&spec), "{path}: {other}");
        }
    }
    assert!(tried > 500 && read > 20, "{read} of {tried}");
}

const BEGIN: &str = "<!-- powers: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of powers -->\n";

/// The table in `docs/security.md` matches [`asked`]. `UPDATE_DOCS=1` writes it.
#[test]
fn the_table_of_powers_is_current() {
    let asked = asked(&everything());
    let mut table =
        String::from("| it may | asked for by | `webstone ui` | `webstone agent` |\n|---|---|---|---|\n");
    for power in Power::ALL {
        let mut keys: Vec<String> = Vec::new();
        for one in asked.iter().filter(|one| one.power == power) {
            let key = format!("`{}`", one.key);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let what = match power {
            Power::Load => "send requests to hosts that it names",
            Power::Server => "start an installed server, or one of webstone's handlers",
            Power::Listen => {
                "listen where other hosts or users can connect (an address that is not loopback, a Unix socket)"
            }
            Power::Proxy => "send the requests through a proxy",
            Power::Socket => "connect to a Unix socket",
            Power::Read => {
                "read files: into requests, a record or a message, or for a server to show (workloads: outside of the working directory, or hidden)"
            }
            Power::Write => "write files",
            Power::Run => "run commands, here or on other hosts",
        };
        let front = if Power::OF_FRONTS.contains(&power) { "yes" } else { "with `--allow-commands`" };
        let agent = match () {
            () if Power::OF_AGENTS.contains(&power) => "yes".to_owned(),
            () if Power::ALLOWED_BY_AGENTS.contains(&power) => format!("with `--allow {}`", power.name()),
            () => "never".to_owned(),
        };
        table.push_str(&format!("| {what} | {} | {front} | {agent} |\n", keys.join(", ")));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(
        stored == current,
        "the table of powers in docs/security.md is not current; `cargo xtask docs` writes it again"
    );
}
