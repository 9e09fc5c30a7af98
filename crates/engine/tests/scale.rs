//! Many clients: what each costs in memory, and that none is lost. The server is a process of its own, so that this
//! one's memory is the generator's alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![allow(clippy::print_stdout, reason = "the child tells its address, a skipped test says why")]

#[path = "cases/peer/mod.rs"]
#[allow(dead_code, reason = "only its way to run a level is used here")]
mod peer;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use peer::{errors, file, one_page, run, spec};
use webstone_model::spec::{Backend, ConnectionPolicy, ServerSpec};
use webstone_model::units::Nanos;
use webstone_server::{ServeOptions, Server};

/// The back end of the runs.
const BACKEND: Backend = Backend::Auto;
const CLIENTS: u32 = 10_000;
/// Most user memory for each client beyond the histograms, in bytes.
const BYTES_PER_CLIENT_MAX: u64 = 2048;
const CHILD: &str = "WEBSTONE_TEST_SERVER";

/// The server's process: runs until its standard input ends. Without the variable it has nothing to do.
#[test]
fn child_server() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    raise_descriptors();
    let server =
        Server::start(ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })).unwrap();
    println!("\nURL {}", server.url());
    let _ = std::io::stdin().read(&mut [0]);
}

struct Served {
    child: Child,
    url: String,
    /// Kept open: the child's harness writes its summary there.
    _output: BufReader<ChildStdout>,
}

impl Served {
    fn start() -> Served {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_server", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("URL ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server ended before it told its address");
        }
        Served { child, url: line["URL ".len()..].trim().to_owned(), _output: output }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Raises the soft limit of descriptors to the hard one, and gives it.
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    hard.unwrap_or(u64::MAX)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_thousand_clients_cost_at_most_two_kib_each() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let descriptors = raise_descriptors();
    if descriptors < u64::from(CLIENTS) + 200 {
        println!("skipped: {CLIENTS} clients need more descriptors than the hard limit of {descriptors}");
        return;
    }
    let served = Served::start();
    let workload = one_page(vec![file("/test?size=500", Some(500))]);
    let level = |clients: u32| {
        let mut spec = spec(&served.url, ConnectionPolicy::KeepAlive, 0);
        spec.load.pages = None;
        spec.load.duration = Nanos::from_millis(500);
        // The window opens when every client has had its first answer.
        spec.load.warmup = Nanos::from_millis(1);
        spec.load.drain = Nanos::from_secs(5);
        spec.client.first_byte_timeout = Nanos::from_secs(20);
        spec.client.request_timeout = Nanos::from_secs(20);
        let outcome = run(&spec, &workload, clients);
        assert_eq!(errors(&outcome), []);
        assert_eq!(outcome.measured.lifetime.connections, u64::from(clients));
        assert_eq!(outcome.measured.counts.carried_in, u64::from(clients));
    };
    level(10);
    let before = resident_bytes();
    level(CLIENTS);
    let each = resident_bytes().saturating_sub(before) / u64::from(CLIENTS);
    assert!(each <= BYTES_PER_CLIENT_MAX, "{each} bytes a client");
    println!("{each} bytes a client, histograms included");
}
