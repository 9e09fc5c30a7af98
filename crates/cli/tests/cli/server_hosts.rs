//! Several `--server-agent`s: real back ends of HAProxy, each monitored by its own agent, on this host and in network
//! namespaces; what they used adds up, and a lost agent is named.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::{PATIENCE, in_time, is_gone, pid_in, signal};
use crate::namespace::Namespace;
use crate::own_servers::is_installed;
use crate::program::{Running, Server, assert_ended, program, webstone, webstone_in};

/// A load that leaves enough CPU time for agents on a machine that runs other tests, too.
const LIGHT: [&str; 8] = ["-c", "2", "-R", "400", "-d", "3s", "--warmup", "0s"];

/// HAProxy in front of several backends, used in turn; ended when this is dropped.
struct Balancer {
    child: Child,
    url: String,
}

impl Balancer {
    fn start(dir: &Path, backends: &[&str]) -> Balancer {
        // A port that was free just now: if another program takes it meanwhile, HAProxy ends and another one is
        // tried.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut text = format!(
                "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
                 frontend load\n  bind 127.0.0.1:{port}\n  default_backend webs\nbackend webs\n  balance roundrobin\n"
            );
            for (number, backend) in backends.iter().enumerate() {
                text += &format!("  server web{number} {backend}\n");
            }
            let file = dir.join("haproxy.cfg");
            fs::write(&file, text).unwrap();
            let mut haproxy = Command::new("haproxy");
            haproxy.args(["-db", "-q", "-f"]).arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
            let mut child = haproxy.spawn().unwrap();
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Balancer { child, url: format!("http://127.0.0.1:{port}") };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("HAProxy does not start")
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn backend(server: &Server) -> (&str, &str) {
    let address = server.url.strip_prefix("http://").unwrap();
    (address, address.rsplit_once(':').unwrap().1)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Checks that every counter of the whole is the sum over the two hosts.
fn assert_adds_up(record: &Value) {
    let runs = record["iterations"].as_array().unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        assert_eq!(run["server_missing"], Value::Null, "{run}");
        let hosts = run["server_host"].as_array().unwrap();
        assert_eq!(hosts.len(), 2);
        let (whole, parts) = (&run["server"], [&hosts[0]["server"], &hosts[1]["server"]]);
        for name in ["user_ns", "system_ns", "resident_bytes_max"] {
            assert_eq!(number(&whole[name]), number(&parts[0][name]) + number(&parts[1][name]), "{name}");
        }
        for part in parts {
            // Each of them gets every second request.
            assert!(number(&part["user_ns"]) + number(&part["system_ns"]) > 0, "{part}");
            assert_eq!(number(&part["processes"]["processes_max"]), 1);
        }
        assert_eq!(number(&whole["processes"]["processes_max"]), 2);
        let voluntary = |part: &Value| number(&part["processes"]["switches_voluntary"]);
        assert_eq!(voluntary(whole), voluntary(parts[0]) + voluntary(parts[1]));
        assert!(hosts.iter().all(|host| !host["host"]["cpus"].as_array().unwrap().is_empty()));
        assert_eq!((&hosts[1]["agent"], &hosts[1]["same_machine_as"]), (&json!(1), &json!(0)));
    }
    let agents = record["target"]["agent"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        assert!(agent["name"].is_string() && agent["boot"].is_string(), "{agent}");
        assert!(!agent["cpus"].as_array().unwrap().is_empty());
        for fact in ["cpu.model", "kernel.release", "memory.bytes"] {
            assert!(!agent["environment"][fact].is_null(), "{fact}");
        }
    }
    assert_eq!(record["environment"]["server.environment"], Value::Null);
    assert_eq!(record["environment"]["target.same_machine"], true);
}

#[test]
fn two_backends_on_one_machine_add_up() {
    if !is_installed("haproxy", "haproxy") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let servers = [(); 2].map(|()| Server::start(dir.path(), &["--threads", "1"]));
    let [(first, first_port), (second, second_port)] = [backend(&servers[0]), backend(&servers[1])];
    let balancer = Balancer::start(dir.path(), &[first, second]);
    let agents = [first_port, second_port].map(|port| format!("{} agent --port {port}", program()));
    let mut run = vec!["run", &*balancer.url, "-q", "--full"];
    run.extend(LIGHT);
    run.extend(agents.iter().flat_map(|agent| ["--server-agent", agent]));
    let mut text = String::new();
    let record = in_time(|| {
        let said = webstone_in(dir.path(), &run);
        assert_ended(&said);
        text = said.out;
        let said = webstone_in(dir.path(), &["report", "last", "--format", "json"]);
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
    });
    assert_adds_up(&record);
    assert_eq!(record["spec"]["server"]["agent"], json!(agents));
    for (agent, port) in record["target"]["agent"].as_array().unwrap().iter().zip([first_port, second_port]) {
        assert_eq!(agent["ports"], json!([port.parse::<u16>().unwrap()]));
    }
    // One machine and one network: what both read of it counts once.
    let hosts = &record["iterations"][0]["server_host"];
    assert_eq!(hosts[1]["same_network_as"], 0);
    for words in ["Server hosts", "2 agents on 1 host of the server", "as the server's hosts count it"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let cpus = hosts[0]["host"]["cpus"].as_array().unwrap();
    let busy: u64 = cpus.iter().map(|cpu| number(&cpu["busy_ns"])).sum();
    let table = |name: &str| {
        let arguments = ["report", "last", "--format", "csv", "--table", name];
        let text = webstone_in(dir.path(), &arguments).out;
        let rows: Vec<Vec<String>> =
            text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        move |row: usize, column: &str| {
            let place = rows[0].iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}"));
            (rows.len() - 1, rows[row][place].clone())
        }
    };
    let levels = table("levels");
    assert_eq!(levels(1, "server_host_cpu_busy_s").1.parse::<f64>().unwrap(), busy as f64 / 1e9);
    let rows = table("server-hosts");
    assert_eq!(rows(1, "server_host"), (2, "1".to_owned()));
    let user = |row| rows(row, "server_user_s").1.parse::<f64>().unwrap();
    let whole = number(&record["iterations"][0]["server"]["user_ns"]) as f64 / 1e9;
    assert!((user(1) + user(2) - whole).abs() < 1e-9);
    let html = webstone_in(dir.path(), &["report", "last", "--format", "html"]).out;
    assert!(html.contains("Server hosts"));
}

#[test]
fn backends_in_other_networks_are_measured_there() {
    if !is_installed("haproxy", "haproxy") {
        return;
    }
    let Some(spaces) = [(); 2].map(|()| Namespace::make()).into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut servers: Vec<Child> = spaces.iter().map(|space| space.serve(&["--threads", "1"])).collect();
    let backends: Vec<String> = spaces.iter().map(|space| format!("{}:8080", space.address)).collect();
    let balancer = Balancer::start(dir.path(), &backends.iter().map(String::as_str).collect::<Vec<_>>());
    let agents: Vec<String> = spaces
        .iter()
        .map(|space| format!("ip netns exec {} {} agent --port 8080", space.name, program()))
        .collect();
    let mut run = vec!["run", &*balancer.url, "-q", "--no-store", "--format", "json"];
    run.extend(LIGHT);
    run.extend(agents.iter().flat_map(|agent| ["--server-agent", agent]));
    let record = in_time(|| {
        let said = webstone_in(dir.path(), &run);
        assert_ended(&said);
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
    });
    assert_adds_up(&record);
    for run in record["iterations"].as_array().unwrap() {
        assert_eq!(run["server_host"][1]["same_network_as"], Value::Null, "each has a network of its own");
    }
    for server in &mut servers {
        drop(server.stdin.take());
        server.wait().unwrap();
    }
}

#[test]
fn a_lost_agent_is_named_and_the_others_are_kept() {
    if !is_installed("haproxy", "haproxy") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let servers = [(); 2].map(|()| Server::start(dir.path(), &["--threads", "1"]));
    let [(first, first_port), (second, second_port)] = [backend(&servers[0]), backend(&servers[1])];
    let balancer = Balancer::start(dir.path(), &[first, second]);
    let file = dir.path().join("agent.pid");
    let agents = [
        format!("{} agent --port {first_port}", program()),
        format!("sh -c 'echo $$ > {}; exec {} agent --port {second_port}'", file.display(), program()),
    ];
    let mut arguments =
        vec!["run", &*balancer.url, "-c", "1,2", "-d", "2s", "--warmup", "2s", "--retries", "0"];
    arguments.extend(["--no-store", "--format", "json"]);
    arguments.extend(agents.iter().flat_map(|agent| ["--server-agent", agent]));
    let mut run = Running::start(dir.path(), &arguments);
    // The agents have started, and the first level's warm-up has not ended yet.
    run.wait_for("standard on ");
    let pid = pid_in(&file);
    signal("KILL", pid);
    let said = run.end();
    assert_ended(&said);
    assert!(is_gone(pid));
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let name = record["target"]["agent"][1]["name"].as_str().unwrap();
    let why = format!("server host 2 ({name}): it ended: killed by signal 9");
    let is_told =
        |line: &str| line.starts_with("warning: figures of the server are missing: ") && line.contains(&why);
    assert!(said.err.lines().any(is_told), "{}", said.err);
    for run in record["iterations"].as_array().unwrap() {
        assert!(number(&run["measured"]["counts"]["succeeded"]) > 0);
        // A part is not the whole; the remaining host has its own figures.
        assert_eq!(run["server"], Value::Null);
        let missing = run["server_missing"].as_str().unwrap();
        assert!(missing.contains(&why), "{missing}");
        if !missing.contains("late") {
            assert_eq!(number(&run["server_host"]["server"]["processes"]["processes_max"]), 1);
            assert_eq!(run["server_host"]["agent"], Value::Null, "the first");
        }
    }
    let rules = record["computed"]["verdict"]["unmet_rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["id"] == "server-hosts-monitored").unwrap();
    assert_eq!(rule["standing"], "not-met");
    assert!(rule["evidence"].as_str().unwrap().contains(&why), "{rule}");
}

#[test]
fn agents_that_watch_the_same_server_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let agents = [format!("{} agent", program()), format!("env {} agent", program())];
    let mut arguments = vec!["run", &*server.url, "-c", "1", "-d", "1s", "-q"];
    arguments.extend(agents.iter().flat_map(|agent| ["--server-agent", agent]));
    let said = webstone_in(dir.path(), &arguments);
    assert_eq!(said.code, 1, "{}", said.err);
    for words in ["watch the same processes, on ", "the server would be counted twice", "hint: leave one out"]
    {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert!(!dir.path().join("runs").exists(), "nothing was measured");
    // An agent that finds nothing says so with its host's name, and what to check.
    let nothing = format!("{} agent --port 1", program());
    let mut arguments = vec!["run", &*server.url, "-c", "1", "-d", "1s", "--warmup", "0s", "--no-store"];
    arguments.extend(["--server-agent", &agents[0], "--server-agent", &nothing]);
    let said = webstone_in(dir.path(), &arguments);
    assert_ended(&said);
    let warning = said.err.lines().find(|line| line.contains("nothing listens on port 1 ")).unwrap();
    assert!(warning.contains("server host 2 (") && warning.contains("--port 8080"), "{warning}");
}

#[test]
fn several_agents_are_one_key() {
    let said = webstone(&["run", "http://a", "--server-agent", "x", "--server-agent", "y z", "--dump-spec"]);
    assert!(said.out.contains("agent = [\"x\", \"y z\"]"), "{}", said.out);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("t.toml"), &said.out).unwrap();
    let again = webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]);
    assert_eq!((again.code, again.out), (0, said.out));
    let said = webstone(&["run", "http://a", "--server-agent", "x", "--dump-spec"]);
    assert!(said.out.contains("agent = \"x\""), "{}", said.out);
    let many: Vec<String> = (0..65).map(|number| format!("a{number}")).collect();
    let mut too_many = vec!["run", "http://a"];
    too_many.extend(many.iter().flat_map(|agent| ["--server-agent", agent]));
    for (arguments, expected) in [
        (&too_many[..], "--server-agent (server.agent): `65` is more than 64 hosts"),
        (&["run", "http://a", "--server-agent", "x", "--server-agent", "x"], "`x` is given twice"),
        (&["run", "--server-agent", "x", "--server-agent", "y"], "but this one is started here, by webstone"),
        (&["agent", "--port", "80", "--idle", "2m"], "--port and --idle cannot be used together"),
    ] {
        let said = webstone(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    }
}
