//! Load generators in pods, with a script as `kubectl`: what it is asked, how its answers are used, and what happens
//! to a run whose pods are missing or whose streams break. `cargo xtask kubernetes` tests the same on a real cluster.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::{json, pid_in, signal};
use crate::generators::{two, wait_for_answers};
use crate::program::{Running, Said, Server, command, program, webstone_in};

/// A cluster whose API is files in a directory: `job.json`, `pods.json`, and for each pod a script that its exec
/// runs.
struct Cluster {
    dir: PathBuf,
}

const KUBECTL: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$*" >>"$dir/asked"
for word; do
  case $word in
    get | exec) verb=$word ;;
    job | pods) what=$word ;;
    webstone-*) pod=$word ;;
  esac
done
case $verb in
  exec) exec sh "$dir/$pod" ;;
esac
[ -f "$dir/$what.json" ] && exec cat "$dir/$what.json"
echo "Error from server (NotFound): jobs.batch \"webstone\" not found" >&2
exit 1
"#;

impl Cluster {
    /// A cluster with a Job of this many pods, each on its own node; those with a script are running.
    fn with(dir: &Path, pods: u32, scripts: &[&str]) -> Cluster {
        let cluster = Cluster { dir: dir.join("cluster") };
        fs::create_dir(&cluster.dir).unwrap();
        let kubectl = cluster.dir.join("kubectl");
        fs::write(&kubectl, KUBECTL).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        let spec = json!({ "completionMode": "Indexed", "completions": pods, "parallelism": pods });
        cluster.say("job", &json!({ "spec": spec, "status": {} }));
        let unschedulable = json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
        }] });
        let running = json!({ "phase": "Running", "containerStatuses": [{ "name": "webstone", "state": { "running": {} } }] });
        let pod = |index: u32| {
            let status = if (index as usize) < scripts.len() { &running } else { &unschedulable };
            json!({
                "metadata": {
                    "name": format!("webstone-{index}-x7k2p"), "namespace": "bench",
                    "annotations": { "batch.kubernetes.io/job-completion-index": index.to_string() },
                },
                "spec": { "nodeName": format!("node{index}"), "containers": [{ "name": "webstone" }] },
                "status": status,
            })
        };
        cluster.say("pods", &json!({ "items": (0..pods).map(pod).collect::<Vec<_>>() }));
        for (index, script) in scripts.iter().enumerate() {
            fs::write(cluster.dir.join(format!("webstone-{index}-x7k2p")), script).unwrap();
        }
        cluster
    }

    fn say(&self, what: &str, answer: &Value) {
        fs::write(self.dir.join(format!("{what}.json")), answer.to_string()).unwrap();
    }

    fn path(&self) -> OsString {
        let mut path = OsString::from(&self.dir);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// A call of the program that finds this cluster's kubectl.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.dir.parent().unwrap(), arguments);
        command.env("PATH", self.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).output().unwrap();
        Said {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Writes a testbed file with these keys for the pods and this target.
fn testbed(dir: &Path, url: &str, keys: &str) {
    let text =
        format!("target = [\"{url}\"]\n[[generators]]\nkubernetes = {{ namespace = \"bench\", {keys} }}\n");
    fs::write(dir.join("testbed.toml"), text).unwrap();
}

const LOAD: [&str; 12] =
    ["run", "-f", "testbed.toml", "-c", "4", "-d", "2s", "--warmup", "0s", "--retries", "0", "-K"];

#[test]
fn pods_of_a_job_make_one_level_and_the_record_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let Some([(one, _), (two, _)]) = two(dir.path()) else { return };
    let cluster = Cluster::with(dir.path(), 3, &[&one, &two]);
    let server = Server::start(dir.path(), &["--threads", "1"]);
    testbed(dir.path(), &server.url, "job = \"webstone\", pods = 2, share_nodes = true");
    let said = cluster.run(&[&LOAD[..], &["--format", "json"]].concat());
    let record = json(&said);
    let pods: Vec<&Value> =
        record["generators"].as_array().unwrap().iter().map(|host| &host["pod"]).collect();
    let pod = |index: u32| json!({ "name": format!("webstone-{index}-x7k2p"), "namespace": "bench", "node": format!("node{index}") });
    assert_eq!(pods, [&pod(0), &pod(1)]);
    let asked =
        json!({ "job": "webstone", "pods": 2, "namespace": "bench", "wait": "2m", "share_nodes": true });
    assert_eq!(record["spec"]["generators"], json!([{ "kubernetes": asked }]));
    let level = &record["iterations"][0];
    let succeeded = |part: &Value| part["counts"]["succeeded"].as_u64().unwrap();
    let parts = level["parts"].as_array().unwrap();
    assert_eq!(parts.iter().map(succeeded).sum::<u64>(), succeeded(&level["measured"]));
    assert!(parts.len() == 2 && parts.iter().all(|part| succeeded(part) > 0), "{parts:?}");
    let warned = record["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let shared = "generators 1 and 2 are on the same machine (share_nodes): ";
    assert!(warned.iter().any(|warning| warning.starts_with(shared)), "{warned:?}");
    let network = "generators 1-2: the pod has a network of its own";
    assert!(warned.iter().any(|warning| warning.starts_with(network)), "{warned:?}");
    let commands = fs::read_to_string(cluster.dir.join("asked")).unwrap();
    let exec = "--namespace bench exec -i webstone-1-x7k2p --container webstone -- webstone agent";
    assert!(commands.lines().any(|line| line == exec), "{commands}");
    let report = webstone_in(dir.path(), &["report", "last", "--full"]).out;
    assert!(report.contains(" on node1"), "{report}");
    let rules = webstone_in(dir.path(), &["certify", "last"]);
    assert_eq!(rules.code, 5, "{}", rules.err);
    let said = format!("{}{}", rules.out, rules.err);
    assert!(said.contains("pods shared a machine (share_nodes)"), "{said}");
}

#[test]
fn pods_that_cannot_all_make_load_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let agent = format!("exec {} agent", program());
    let cluster = Cluster::with(dir.path(), 2, &[&agent]);
    // Checks that come before that of the target; none needs a server.
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let refused = |keys: &str, exit: i32, wanted: &[&str]| {
        testbed(dir.path(), &server.url, keys);
        let said = cluster.run(&[&LOAD[..], &["-q", "--no-store"]].concat());
        assert_eq!(said.code, exit, "{}", said.err);
        for wanted in wanted {
            assert!(said.err.contains(wanted), "{wanted}: {}", said.err);
        }
        assert!(said.err.contains("\nhint: "), "{}", said.err);
        assert_eq!(said.out, "");
    };
    refused(
        "pods = 2, wait = \"1s\"",
        1,
        &[
            "error: generators.kubernetes: only 1 of 2 pods of the Job webstone in namespace bench run after 1s; pod \
             webstone-1-x7k2p: Pending: Unschedulable: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
            "hint: each pod needs a node of its own",
        ],
    );
    refused(
        "pods = 3",
        1,
        &["the Job webstone in namespace bench runs 2 pods at a time, but 3 are to make load"],
    );
    refused(
        "job = \"Web\", pods = 2",
        2,
        &["generators.kubernetes.job: `Web` is not a name of lower-case letters"],
    );
    refused("pods = 0", 2, &["generators.kubernetes.pods: `0` is less than 1"]);
    refused("pods = 2, wait = \"2h\"", 2, &["generators.kubernetes.wait: `2h` is not between 1s and 1h"]);
    fs::write(cluster.dir.join("webstone-0-x7k2p"), "echo 'error: unable to upgrade connection' >&2; exit 1")
        .unwrap();
    refused(
        "pods = 1",
        1,
        &[
            "generator 1: the agent `kubectl --namespace bench exec -i webstone-0-x7k2p",
            "ended: exit status 1; it said:\n",
            "unable to upgrade connection",
        ],
    );
    fs::write(cluster.dir.join("webstone-0-x7k2p"), "exit 0").unwrap();
    refused("pods = 1", 1, &["ended: exit status 0; it wrote nothing to standard error"]);
    fs::remove_file(cluster.dir.join("job.json")).unwrap();
    refused(
        "pods = 2",
        1,
        &[
            "error: generators.kubernetes: there is no Job webstone in namespace bench",
            "hint: start it: webstone generators job --name webstone --namespace bench --pods 2 ",
        ],
    );
}

#[test]
fn two_pods_whose_kernels_are_one_are_refused_whatever_their_nodes_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let Some([(one, _), (two, _)]) = two(dir.path()) else { return };
    let cluster = Cluster::with(dir.path(), 2, &[&one, &two]);
    let server = Server::start(dir.path(), &["--threads", "1"]);
    testbed(dir.path(), &server.url, "pods = 2");
    let said = cluster.run(&[&LOAD[..], &["-q", "--no-store"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    let wanted = "error: generators 1 and 2 are on the same machine: pod webstone-0-x7k2p on node0 and pod webstone-1-x7k2p on node1, \
                  whose kernels have the same boot id; they would count twice\nhint: ";
    assert!(said.err.contains(wanted), "{}", said.err);
}

#[test]
fn a_stream_that_breaks_is_a_lost_host_whatever_kubectls_exit_code_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.pid");
    // As kubectl does when the connection to the API server breaks (kubernetes/kubernetes#73056).
    let agent = format!("sh -c 'echo $$ >{}; exec {} agent'; exit 0", file.display(), program());
    let cluster = Cluster::with(dir.path(), 1, &[&agent]);
    let server = Server::start(dir.path(), &["--threads", "1"]);
    testbed(dir.path(), &server.url, "pods = 1");
    let load = [
        "run",
        "-f",
        "testbed.toml",
        "-c",
        "4",
        "-d",
        "20s",
        "--warmup",
        "0s",
        "--retries",
        "0",
        "-q",
        "--format",
        "json",
        "--events",
        "events",
    ];
    let running = Running::spawn(&mut cluster.command(&load));
    let pid = pid_in(&file);
    wait_for_answers(&dir.path().join("events"));
    signal("KILL", pid);
    let said = running.end();
    let record = json(&said);
    let lost = &record["iterations"][0]["lost"];
    assert_eq!(lost["generator"], 0, "{record}");
    let why = lost["why"].as_str().unwrap();
    assert!(why.starts_with("ended: exit status 0"), "{why}");
    assert_eq!(said.code, 4, "its figures are not to be trusted: {}", said.err);
}

#[test]
fn a_check_shows_every_pod_with_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let agent = format!("exec {} agent", program());
    let cluster = Cluster::with(dir.path(), 1, &[&agent]);
    testbed(dir.path(), "http://127.0.0.1:1", "pods = 1");
    let said = cluster.run(&["generators", "check", "-f", "testbed.toml"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "{}", said.err);
    assert!(said.out.contains(" (pod webstone-0-x7k2p on node0), webstone "), "{}", said.out);
    // kubectl itself is missing.
    fs::remove_file(cluster.dir.join("kubectl")).unwrap();
    let mut check = Command::new(program());
    check
        .args(["generators", "check", "-f", "testbed.toml"])
        .current_dir(dir.path())
        .env("PATH", &cluster.dir);
    let output = check.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let wanted = "error: generators.kubernetes: the pods of the Job webstone are reached by kubectl, which is not installed \
                  here\nhint: install kubectl";
    assert!(output.status.code() == Some(1) && err.starts_with(wanted), "{err}");
}

#[test]
fn a_manifest_is_printed_and_wrong_values_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let job = ["generators", "job", "--pods", "2", "--cpus", "1", "--image", "webstone:1"];
    let said = webstone_in(dir.path(), &job);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(
        said.out.contains("\n  completionMode: Indexed\n") && said.out.contains("podAntiAffinity"),
        "{}",
        said.out
    );
    let long = "a".repeat(62);
    for (more, wanted) in [
        (&["--name", "Web"][..], "--name: `Web` is not a name of lower-case letters, digits and hyphens"),
        (&["--name", &long], "is too long: pods are called by it"),
        (&["--memory", "lots"], "`lots` is not an amount of memory"),
        (&["--memory", "2"], "`2` is less memory than an agent needs"),
        (&["--memory", "65535Ki"], "`65535Ki` is less memory than an agent needs"),
        (&["--idle", "2h"], "--idle: pods would wait for 2h, but the Job ends after 1h (--deadline)"),
        (&["--node-selector", "pool"], "`pool` is not a node's label"),
        (&["--deadline", "1500ms"], "`1500ms` is not a whole number of seconds"),
    ] {
        let said = webstone_in(dir.path(), &[&job[..], more].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
        assert!(said.err.contains(wanted) && said.err.contains("\nhint: "), "{wanted}: {}", said.err);
    }
    let said = webstone_in(dir.path(), &["generators", "job"]);
    let wanted = "error: --pods <N>, --cpus <N> and --image <IMAGE> are missing\nhint: for example, webstone generators job --pods ";
    assert!(said.code == 2 && said.err.starts_with(wanted), "{}", said.err);
    let least = webstone_in(dir.path(), &[&job[..], &["--memory", "64Mi"]].concat());
    assert_eq!(least.code, 0, "{}", least.err);
}
