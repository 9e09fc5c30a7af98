//! The form: the specification's own schema, so that a new key needs no work in the browser; the check of a filled form; presets.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use webstone_measure::strict;
use webstone_measure::units::grouped;
use webstone_model::powers::Power;
use webstone_model::spec::RunSpec;
use webstone_model::toml_text;

use crate::desk::{Desk, Planned, Problem};
use crate::permission;

/// The schema of a testbed. `cargo xtask docs` writes it, because schemas of types are compiled for tests alone.
const SCHEMA: &str = include_str!("spec.schema.json");

/// The commands that the form can start.
pub(crate) const COMMANDS: [(&str, &str, &str); 5] = [
    ("run", "Benchmark a server", "a workload at several loads"),
    ("find", "Find the limit", "the highest load at which a server keeps an SLO"),
    ("servers", "Compare servers", "a matrix of servers and settings, interleaved and ranked"),
    ("scale", "Scale over CPUs", "the same server on 1, 2, 4 … CPUs"),
    ("spice", "Dynamic against static", "what dynamic pages cost"),
];

/// A testbed to begin with.
struct Preset {
    title: &'static str,
    about: &'static str,
    command: &'static str,
    toml: &'static str,
}

/// The first is what a form that nobody has touched begins with.
const PRESETS: [Preset; 11] = [
    Preset {
        title: "First run",
        about: "The embedded server, 5 to 40 clients, half a minute.",
        command: "run",
        toml: "[load]\nclients = \"5,10,20,40\"\nduration = \"6s\"\n\n[client]\nconnections = \"keep-alive\"\n",
    },
    Preset {
        title: "My URL",
        about: "One page of a server of yours: put its URL, with its path, into Target.",
        command: "run",
        toml: "target = [\"http://127.0.0.1:8080/index.html\"]\n\n[load]\nclients = \"10,20,40\"\nduration = \"5s\"\n\n[client]\nconnections = \"keep-alive\"\n",
    },
    Preset {
        title: "HTTPS and HTTP/2",
        about: "The embedded server over TLS, with streams instead of connections.",
        command: "run",
        toml: "[load]\nclients = \"10,40\"\nduration = \"6s\"\n\n[client]\nconnections = \"keep-alive\"\nhttp = \"2\"\n\n[server.tls]\n",
    },
    Preset {
        title: "Highest rate within an SLO",
        about: "The most requests per second with 99 % of answers below 50 ms.",
        command: "find",
        toml: "[find]\nslo = \"p(99)<50ms,errors<0.1%\"\n\n[load]\nduration = \"5s\"\n\n[client]\nconnections = \"keep-alive\"\n",
    },
    Preset {
        title: "WebStone's paper (1995)",
        about: "Two servers, a new connection for each request, ten minutes a level.",
        command: "servers",
        toml: include_str!("../presets/webstone-paper.toml"),
    },
    Preset {
        title: "FastTrack (1996)",
        about: "Mindcraft's test of Netscape's server: files against CGI and modules.",
        command: "spice",
        toml: include_str!("../presets/fasttrack.toml"),
    },
    Preset {
        title: "ProLiant 5000 (1996)",
        about: "Compaq's server on 1, 2 and 4 CPUs: files, a module, CGI.",
        command: "spice",
        toml: include_str!("../presets/proliant.toml"),
    },
    Preset {
        title: "NetServer LT 6000r (2000)",
        about: "WebBench, static and dynamic, over CPUs.",
        command: "spice",
        toml: include_str!("../presets/netserver.toml"),
    },
    Preset {
        title: "NetServer, e-commerce (2000)",
        about: "WebBench's shop: pages over TLS, over CPUs.",
        command: "scale",
        toml: include_str!("../presets/netserver-ecommerce.toml"),
    },
    Preset {
        title: "WASD's performance chapter",
        about: "File cache on and off, scripts, look-ups of host names.",
        command: "servers",
        toml: include_str!("../presets/wasd.toml"),
    },
    Preset {
        title: "Matrix",
        about: "Servers × profiles × connections × CPUs.",
        command: "servers",
        toml: include_str!("../presets/matrix.toml"),
    },
];

/// Everything that the form is made of.
pub(crate) fn form(desk: &dyn Desk) -> Value {
    let commands: Vec<Value> = COMMANDS
        .iter()
        .map(|(name, title, about)| json!({ "name": name, "title": title, "about": about }))
        .collect();
    let preset =
        |it: &Preset| json!({ "title": it.title, "about": it.about, "command": it.command, "toml": it.toml });
    let presets: Vec<Value> = PRESETS.iter().map(preset).collect();
    let workloads: Vec<Value> =
        desk.workloads().into_iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
    let mut schema: Value =
        strict::json(SCHEMA.as_bytes()).expect("a test compares it with the generated one");
    // A testbed file without a policy keeps connections; a record always states its own.
    if let Some(policy) = schema.pointer_mut("/$defs/ClientSpec/properties/connections/default") {
        *policy = json!("keep-alive");
    }
    json!({
        "schema": schema,
        "commands": commands,
        "presets": presets,
        "servers": desk.servers(),
        "calibration": desk.calibration(),
        "workloads": workloads,
    })
}

/// What a page sends to be checked, or started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filled {
    pub(crate) command: String,
    /// The form's values.
    #[serde(default)]
    spec: Option<IndexMap<String, Said>>,
    /// Or the text of a testbed file.
    #[serde(default)]
    toml: Option<String>,
    /// Whether it may wait for another run to end.
    #[serde(default)]
    pub(crate) queue: bool,
}

/// A value of a form. Its keys stay in their order, in which header fields are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Nothing(()),
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    List(Vec<Said>),
    Part(IndexMap<String, Said>),
}

impl Said {
    /// As TOML, which has no null. An empty table may mean something (`[server.tls]`), so that it stays.
    fn toml(&self) -> Option<toml::Value> {
        Some(match self {
            Said::Nothing(()) => return None,
            Said::Bool(value) => (*value).into(),
            Said::Whole(value) => (*value).into(),
            Said::Number(value) => (*value).into(),
            Said::Text(value) => value.as_str().into(),
            Said::List(items) => toml::Value::Array(items.iter().filter_map(Said::toml).collect()),
            Said::Part(parts) => toml::Value::Table(table(parts)),
        })
    }
}

fn table(parts: &IndexMap<String, Said>) -> toml::Table {
    parts.iter().filter_map(|(key, part)| Some((key.clone(), part.toml()?))).collect()
}

/// What the check of a filled form found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Checked {
    /// As a testbed file.
    pub(crate) toml: String,
    /// As the form's values.
    spec: toml::Table,
    command_line: Vec<String>,
    pub(crate) problem: Option<Problem>,
    plan: Option<Plan>,
    warnings: Vec<String>,
    rules: Vec<Value>,
    #[serde(skip)]
    pub(crate) name: String,
    /// Whether the problem is that it may do more than the front allows.
    #[serde(skip)]
    pub(crate) refused: bool,
    /// What runs, where there is no problem.
    #[serde(skip)]
    pub(crate) planned: Option<RunSpec>,
}

/// What will run, and how long.
#[derive(Clone, Debug, Serialize)]
struct Plan {
    sentence: String,
    levels: Vec<String>,
    iterations: u32,
    cells: usize,
    rounds: u32,
    seconds: Option<f64>,
    server_cpus: String,
    generator_cpus: String,
}

impl Filled {
    /// The command of the command line that runs it: a search is a run whose testbed has a `[find]`.
    pub(crate) fn program_command(&self) -> &str {
        if self.command == "find" { "run" } else { &self.command }
    }

    /// Checks it against the rules of a testbed file, and against what is allowed here. The command line is asked only about what is
    /// allowed: it may read files that a testbed names.
    pub(crate) fn check(&self, desk: &dyn Desk, granted: &[Power]) -> Checked {
        let toml = match (&self.toml, &self.spec) {
            (Some(toml), _) => toml.clone(),
            (None, Some(spec)) => table(spec).to_string(),
            (None, None) => String::new(),
        };
        let known = COMMANDS.iter().any(|(name, ..)| *name == self.command);
        let mut refused = false;
        let planned =
            match toml_text::read::<RunSpec>(&toml) {
                _ if self.toml.is_some() && self.spec.is_some() => Err(Problem {
                    message: "the testbed is given twice: as a text and as the values of a form".to_owned(),
                    ..Problem::default()
                }),
                _ if !known => Err(Problem {
                    message: format!("`{}` is no command that the front starts", self.command),
                    ..Problem::default()
                }),
                // The command line says what is wrong with it, in its words. Whatever it says, this does not run.
                Err(error) => Err(desk.plan(self.program_command(), &toml).err().unwrap_or_else(|| {
                    Problem { line: Some(error.line(&toml)), message: error.rule, ..Problem::default() }
                })),
                Ok(spec) => {
                    let refusal = permission::refusal(&spec, granted);
                    refused = refusal.is_some();
                    match refusal.or_else(|| self.needed(&spec)) {
                        Some(problem) => Err(problem),
                        None => desk.plan(self.program_command(), &toml),
                    }
                }
            };
        let command_line = ["webstone", self.program_command(), "-f", "testbed.toml"].map(str::to_owned);
        let (problem, planned) = match planned {
            Ok(planned) => (None, Some(planned)),
            Err(problem) => (Some(placed(problem, &toml)), None),
        };
        let typed = planned.as_ref().and_then(|planned| planned.command_line.clone());
        Checked {
            // For the form's fields; what runs is the text.
            spec: toml.parse().unwrap_or_default(),
            toml,
            command_line: typed.unwrap_or_else(|| command_line.to_vec()),
            problem,
            plan: planned.as_ref().map(plan),
            rules: planned.as_ref().map(foreseen).unwrap_or_default(),
            name: planned.as_ref().map(|planned| planned.spec.name.clone()).unwrap_or_default(),
            refused,
            planned: planned.as_ref().map(|planned| planned.spec.clone()),
            warnings: planned.map(|planned| planned.warnings).unwrap_or_default(),
        }
    }

    /// The problem if the testbed lacks something that the command needs, although a testbed file may do without it.
    fn needed(&self, spec: &RunSpec) -> Option<Problem> {
        let missing = |key: &str, message: &str, hint: &str| {
            Some(Problem {
                key: Some(key.to_owned()),
                line: None,
                message: message.to_owned(),
                hint: Some(hint.to_owned()),
            })
        };
        match self.command.as_str() {
            "find" if spec.find.as_ref().is_none_or(|find| find.slo.is_empty()) => missing(
                "find.slo",
                "find.slo: a search needs the conditions that a level has to keep",
                "write them as in p(99)<50ms,errors<0.1%",
            ),
            "run" if spec.series.is_some() => missing(
                "series",
                "series: a single run has no matrix",
                "choose `Compare servers`, `Scale over CPUs` or `Dynamic against static`, or take [series] out",
            ),
            "servers" if spec.series.as_ref().is_none_or(|series| series.servers.is_empty()) => missing(
                "series.servers",
                "series.servers: no server is given",
                "name those to be compared, such as reference and nginx:tuned",
            ),
            _ => None,
        }
    }
}

/// The problem with its key, which a line tells if the problem has only that.
fn placed(problem: Problem, toml: &str) -> Problem {
    let key = problem.key.or_else(|| key_of_line(toml, problem.line?));
    Problem { key, ..problem }
}

/// The key that stands in a line of a testbed file, with its tables.
fn key_of_line(toml: &str, line: usize) -> Option<String> {
    let mut table = String::new();
    for (number, text) in toml.lines().enumerate().take(line) {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = name.trim_start_matches('[').trim().to_owned();
            if number + 1 == line {
                return Some(table);
            }
        }
    }
    let text = toml.lines().nth(line.checked_sub(1)?)?;
    let key = text.split_once('=')?.0.trim();
    Some(if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") })
}

/// The run rules that the plan decides.
fn foreseen(planned: &Planned) -> Vec<Value> {
    let rules = webstone_judge::verdict::foreseen(&planned.spec);
    rules
        .iter()
        .map(|rule| json!({ "name": rule.text, "standing": rule.standing.word(), "id": rule.id }))
        .collect()
}

/// `1 level`, `1,000 levels`.
fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn plan(planned: &Planned) -> Plan {
    let (load, spec) = (&planned.spec.load, &planned.spec);
    let levels: Vec<String> = match &load.rate {
        Some(rates) => rates.0.iter().map(|rate| format!("{rate} arrivals/s")).collect(),
        None => load.clients.0.iter().map(|clients| counted(u64::from(*clients), "client")).collect(),
    };
    let cells = planned.cells.len().max(1);
    let iterations = if planned.cells.is_empty() { load.iterations } else { planned.rounds };
    let each = load.warmup.as_secs_f64() + load.duration.as_secs_f64();
    let is_timed = load.duration.as_secs_f64() > 0.0 && spec.find.is_none();
    let seconds = is_timed.then(|| each * levels.len() as f64 * f64::from(iterations) * cells as f64);
    let mut parts = Vec::new();
    if !planned.cells.is_empty() {
        parts.push(counted(cells as u64, "cell"));
    }
    if spec.find.is_none() {
        parts.push(counted(levels.len() as u64, "level"));
        parts.push(counted(u64::from(iterations), "iteration"));
    } else {
        parts.push("as many levels as the search needs".to_owned());
    }
    Plan {
        sentence: parts.join(" × "),
        levels: if spec.find.is_some() { Vec::new() } else { levels },
        iterations,
        cells,
        rounds: planned.rounds,
        seconds,
        server_cpus: spec.server.cpus.clone(),
        generator_cpus: spec.generator.cpus.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_key() {
        let toml = "name = \"a\"\n\n[load]\nclients = \"x\"\n[[generators]]\nagent = \"\"\n[server.tls]\n";
        for (line, key) in [
            (1, Some("name")),
            (3, Some("load")),
            (4, Some("load.clients")),
            (6, Some("generators.agent")),
            (7, Some("server.tls")),
            (2, None),
            (99, None),
        ] {
            assert_eq!(key_of_line(toml, line).as_deref(), key, "{line}");
        }
    }

    #[test]
    fn what_was_said_is_written_and_nothing_else() {
        let spec = json!({
            "name": "a", "workload": null, "target": ["http://a"],
            "load": { "clients": "5,10", "iterations": 3, "pages": null, "drain": 0.5 },
            "server": { "tls": {} },
        });
        let spec: IndexMap<String, Said> = serde_json::from_value(spec).unwrap();
        assert_eq!(
            toml::from_str::<Value>(&table(&spec).to_string()).unwrap(),
            json!({
                "name": "a", "target": ["http://a"], "load": { "clients": "5,10", "iterations": 3, "drain": 0.5 },
                "server": { "tls": {} },
            })
        );
    }

    #[test]
    fn header_fields_stay_in_their_order() {
        let text = r#"{"command": "run", "spec": {"client": {"headers": {"B": "1", "C": "2", "A": "3"}}}}"#;
        let filled: Filled = serde_json::from_str(text).unwrap();
        let toml = table(filled.spec.as_ref().unwrap()).to_string();
        assert_eq!(toml, "[client.headers]\nB = \"1\"\nC = \"2\"\nA = \"3\"\n");
        let again = serde_json::to_string(&toml.parse::<toml::Table>().unwrap()).unwrap();
        assert_eq!(again, r#"{"client":{"headers":{"B":"1","C":"2","A":"3"}}}"#);
    }

    #[test]
    fn each_preset_is_a_testbed_and_says_what_it_is() {
        for Preset { title, about, command, toml } in PRESETS {
            let spec: RunSpec = toml::from_str(toml).unwrap_or_else(|error| panic!("{title}: {error}"));
            assert!(COMMANDS.iter().any(|(known, ..)| *known == command), "{title}");
            assert_eq!(command == "find", spec.find.is_some(), "{title}");
            assert!(about.ends_with('.') && about.len() < 80, "{title}");
        }
    }
}
