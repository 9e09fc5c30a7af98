//! Load generators in the pods of a real Kubernetes cluster, which `cargo xtask kubernetes` starts: one node, with a
//! bridge on which the server's pod and the generators' have addresses. What can be tested with a script is in
//! `kubernetes.rs`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agents::{is_gone, json, signal};
use crate::program::{Running, Said};

/// Longer than Kubernetes takes for anything here.
const PATIENCE: Duration = Duration::from_secs(180);
const IMAGE: &str = "docker.io/library/webstone:test";

/// The cluster, its server, and a directory for the runs.
struct Cluster {
    dir: PathBuf,
    /// webstone for this machine and for containers: the same file, because all builds must be the same.
    program: PathBuf,
    work: tempfile::TempDir,
    server: String,
    jobs: Vec<String>,
}

fn of_environment(name: &str) -> PathBuf {
    std::env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set: start this by `cargo xtask kubernetes`"))
        .into()
}

impl Cluster {
    /// A cluster with a server that answers.
    fn with_server() -> Cluster {
        let mut cluster = Cluster {
            dir: of_environment("WEBSTONE_CLUSTER"),
            program: of_environment("WEBSTONE_CLUSTER_PROGRAM"),
            work: tempfile::tempdir().unwrap(),
            server: String::new(),
            jobs: Vec::new(),
        };
        let container = format!(
            "{{name: server, image: \"{IMAGE}\", command: [webstone, serve, --listen, \"0.0.0.0:8080\", --threads, \"1\"]}}"
        );
        cluster.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: server}}\nspec:\n  restartPolicy: Never\n  \
             terminationGracePeriodSeconds: 1\n  containers: [{container}]\n"
        ));
        cluster.kubectl(&["wait", "--for=condition=Ready", "pod/server", "--timeout=120s"]);
        let address = cluster.kubectl(&["get", "pod", "server", "--output=jsonpath={.status.podIP}"]);
        cluster.server = format!("http://{address}:8080");
        cluster
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.work.path()).env("KUBECONFIG", self.dir.join("kubeconfig"));
        // kubectl may be one that was built for the tests.
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":");
        path.push(self.dir.join("bin"));
        command.env("PATH", path).env("XDG_DATA_HOME", self.work.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn try_kubectl(&self, arguments: &[&str]) -> Output {
        self.command(Path::new("kubectl"), arguments).output().unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, manifest: &str) {
        let mut apply = self.command(Path::new("kubectl"), &["apply", "--filename=-"]);
        let mut child = apply.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{manifest}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts a Job of two pods from the manifest that webstone prints.
    fn start_job(&mut self, name: &str, more: &[&str]) {
        let job = [
            "generators",
            "job",
            "--name",
            name,
            "--pods",
            "2",
            "--cpus",
            "1",
            "--memory",
            "256Mi",
            "--image",
            IMAGE,
        ];
        let said = self.webstone(&[&job[..], more].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        self.apply(&said.out);
        self.jobs.push(name.to_owned());
    }

    fn webstone(&self, arguments: &[&str]) -> Said {
        let output = self.command(&self.program, arguments).output().unwrap();
        Said {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Writes a testbed file for the server, watched by its agent, and for two pods.
    fn testbed(&self, job: &str, keys: &str) {
        let text = format!(
            "target = [\"{}\"]\n[server]\nagent = \"kubectl exec -i server -- webstone agent\"\n[[generators]]\n\
             kubernetes = {{ job = \"{job}\", pods = 2{keys} }}\n",
            self.server
        );
        fs::write(self.work.path().join("testbed.toml"), text).unwrap();
    }

    /// Number of packets on the bridge since it was created.
    fn packets(&self) -> u64 {
        let count = |way: &str| {
            fs::read_to_string(format!("/sys/class/net/wscni0/statistics/{way}_packets")).unwrap()
        };
        ["rx", "tx"].map(|way| count(way).trim().parse::<u64>().unwrap()).iter().sum()
    }

    /// Packets per second, measured over one second.
    fn packet_rate(&self) -> u64 {
        let (before, since) = (self.packets(), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        ((self.packets() - before) as f64 / since.elapsed().as_secs_f64()) as u64
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let delete = |what: &[&str]| {
            self.try_kubectl(&[&["delete", "--wait", "--ignore-not-found", "--timeout=60s"], what].concat())
        };
        self.jobs.iter().for_each(|job| drop(delete(&["job", job])));
        delete(&["pod", "server", "--grace-period=1"]);
    }
}

/// Waits until a condition holds, and returns how long that took.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    since.elapsed()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Counts lines of a run's events that contain a text.
fn events(file: &Path, what: &str) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().filter(|line| line.contains(what)).count()
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes"]
fn two_pods_make_the_load_and_the_record_adds_up() {
    let mut cluster = Cluster::with_server();
    cluster.start_job("whole", &["--share-nodes"]);
    cluster.testbed("whole", ", share_nodes = true");
    let said = cluster.webstone(&["generators", "check", "-f", "testbed.toml"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 3), "{} {}", said.out, said.err);
    assert!(
        said.out.contains("generator 2: whole-1 (pod whole-1-") && said.out.contains(" on node1), "),
        "{}",
        said.out
    );
    // Each keeps its own in a container in which only /tmp can be written.
    for pod in cluster.kubectl(&["get", "pods", "--selector=job-name=whole", "--output=name"]).lines() {
        cluster.kubectl(&["exec", pod, "--", "webstone", "calibrate", "-d", "200ms", "-i", "1"]);
    }
    let load = ["-R", "300", "-c", "20", "-d", "5s", "-i", "2", "--warmup", "1s", "--retries", "0"];
    let said = cluster.webstone(&[&["run", "-f", "testbed.toml", "--format", "json"], &load[..]].concat());
    let record = json(&said);
    let hosts = record["generators"].as_array().unwrap();
    assert_eq!(hosts.len(), 2, "{record}");
    for (index, host) in hosts.iter().enumerate() {
        assert_eq!(host["name"], format!("whole-{index}"));
        assert_eq!(host["pod"]["node"], "node1");
        assert_eq!(host["workers"], 1, "as many as it has CPUs of time: {host}");
        assert!(host["pod"]["name"].as_str().unwrap().starts_with(&format!("whole-{index}-")), "{host}");
        assert_eq!(host["program_sha256"], record["environment"]["tool.program_sha256"]);
    }
    let runs = record["iterations"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["lost"], Value::Null, "{run}");
        let parts = run["parts"].as_array().unwrap();
        for key in ["succeeded", "failed", "started", "connections"] {
            let sum: u64 = parts.iter().map(|part| number(&part["counts"][key])).sum();
            assert_eq!(sum, number(&run["measured"]["counts"][key]), "{key}");
        }
        assert!(
            parts.len() == 2 && parts.iter().all(|part| number(&part["counts"]["succeeded"]) > 0),
            "{parts:?}"
        );
        assert_eq!(run["measured"]["open_loop"]["planned"], 1_500);
        for check in run["identities"].as_array().unwrap() {
            assert_eq!(check["holds"], true, "{check}");
        }
        for part in parts {
            let of = |value: &Value| value.as_i64().unwrap() as f64 / 1e6;
            println!(
                "iteration {}, generator {}: {} requests, window opened {:.3} ms after the agreed instant, clock within {:.3} ms",
                run["iteration"],
                number(&part["generator"]) + 1,
                part["counts"]["succeeded"],
                of(&part["opening_skew_ns"]),
                of(&part["clock"]["bound_ns"])
            );
        }
        assert!(number(&run["server"]["user_ns"]) + number(&run["server"]["system_ns"]) > 0, "{run}");
    }
    let report = cluster.webstone(&["report", "last", "--full"]).out;
    assert!(report.contains("whole-1 on node1"), "{report}");
    // Lines may be wrapped anywhere.
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" the highest share of 2 generators "), "their calibrations are quoted: {report}");
    let html = cluster.webstone(&["report", "last", "--format", "html", "-o", "report.html"]);
    assert_eq!(html.code, 0, "{}", html.err);
    if let Some(place) = std::env::var_os("WEBSTONE_CLUSTER_REPORT") {
        fs::copy(cluster.work.path().join("report.html"), place).unwrap();
    }
    println!("{report}");
    let rules = cluster.webstone(&["certify", "last"]);
    assert!(
        rules.code == 5 && format!("{}{}", rules.out, rules.err).contains("share_nodes"),
        "{} {}",
        rules.out,
        rules.err
    );
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes"]
fn two_pods_that_need_two_nodes_are_a_message_and_not_a_hang() {
    let mut cluster = Cluster::with_server();
    cluster.start_job("apart", &[]);
    cluster.testbed("apart", ", wait = \"20s\"");
    let said = cluster.webstone(&["run", "-f", "testbed.toml", "-d", "1s", "-q"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
    let wanted = "error: generators.kubernetes: only 1 of 2 pods of the Job apart run after 20s; pod apart-";
    assert!(said.err.starts_with(wanted) && said.err.contains("Unschedulable"), "{}", said.err);
    assert!(said.err.contains("anti-affinity") && said.err.contains("\nhint: "), "{}", said.err);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes"]
fn a_run_whose_api_server_dies_keeps_what_it_measured_and_ends() {
    let mut cluster = Cluster::with_server();
    cluster.start_job("cut", &["--share-nodes"]);
    cluster.testbed("cut", ", share_nodes = true");
    let load =
        ["run", "-f", "testbed.toml", "-R", "200", "-c", "20", "-d", "10s", "-i", "3", "--warmup", "0s"];
    let more = ["--retries", "1", "-q", "--format", "json", "--events", "events.ndjson"];
    let file = cluster.work.path().join("events.ndjson");
    let running = Running::spawn(&mut cluster.command(&cluster.program, &[&load[..], &more].concat()));
    until("the second iteration is measured", || {
        events(&file, "\"level-ended\"") > 0
            && fs::read_to_string(&file)
                .unwrap()
                .rsplit("\"level-ended\"")
                .next()
                .is_some_and(|rest| rest.contains("\"measuring\""))
    });
    let api = fs::read_to_string(cluster.dir.join("apiserver.pid")).unwrap().trim().parse().unwrap();
    let since = Instant::now();
    signal("KILL", api);
    let said = running.end();
    println!(
        "the run ended {:.1?} after the API server, exit code {}:\n{}",
        since.elapsed(),
        said.code,
        said.err
    );
    let quiet = until("the load has ended", || cluster.packet_rate() < 50);
    println!("no load {:.1?} after the run had ended", quiet);
    let up = Command::new(of_environment("WEBSTONE_CLUSTER_UP")).arg(&cluster.dir).status();
    assert!(up.is_ok_and(|status| status.success()), "the API server is there again");
    let stored = json(&cluster.webstone(&["report", "last", "--format", "json"]));
    let whole = &stored["iterations"][0];
    assert_eq!(whole["lost"], Value::Null, "{whole}");
    assert!(number(&whole["measured"]["counts"]["succeeded"]) > 0);
    let lost: Vec<&Value> = ["voids", "iterations"]
        .iter()
        .flat_map(|key| stored[key].as_array().unwrap())
        .filter(|run| !run["lost"].is_null())
        .collect();
    assert_eq!(lost.len(), 1, "{stored}");
    assert!(lost[0]["lost"]["why"].as_str().unwrap().starts_with("ended: "), "{}", lost[0]["lost"]);
    assert!(said.code == 1 && said.err.contains("kubectl"), "{}", said.err);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes"]
fn when_the_controller_is_killed_no_load_and_no_job_remains() {
    let mut cluster = Cluster::with_server();
    cluster.start_job("left", &["--share-nodes", "--idle", "10s", "--ttl", "5s"]);
    cluster.testbed("left", ", share_nodes = true");
    let load = [
        "run",
        "-f",
        "testbed.toml",
        "-R",
        "500",
        "-c",
        "20",
        "-d",
        "1h",
        "--warmup",
        "0s",
        "-q",
        "--no-store",
    ];
    let mut controller = cluster.command(&cluster.program, &load).spawn().unwrap();
    until("the load is there", || cluster.packet_rate() > 1_000);
    let children = children(controller.id());
    assert_eq!(children.len(), 3, "kubectl for two generators and the server");
    signal("KILL", controller.id());
    controller.wait().unwrap();
    let since = Instant::now();
    until("the load has ended", || cluster.packet_rate() < 50);
    println!("no load {:.1?} after the controller was killed", since.elapsed());
    for child in children {
        assert!(is_gone(child), "kubectl {child} outlived its run");
    }
    let is_there = || cluster.try_kubectl(&["get", "job", "left"]).status.success();
    until("the Job is removed", || !is_there());
    println!("no Job {:.1?} after the controller was killed", since.elapsed());
    assert_eq!(cluster.kubectl(&["get", "pods", "--selector=job-name=left", "--output=name"]), "");
}

/// Processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may contain anything: the state, then the parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(of)
    };
    pids.filter(is_child).collect()
}
