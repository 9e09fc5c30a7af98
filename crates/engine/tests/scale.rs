//! Many clients: what each costs in memory, and that none is lost. Server and generator are processes of their own,
//! so that the memory is that of the generator alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue must fail")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

#[path = "cases/peer/mod.rs"]
#[allow(dead_code, reason = "only its function to run a level is used here")]
mod peer;
mod served;

use std::process::Command;

use peer::{errors, file, one_page, run, spec};
use served::{Served, is_child, raise_descriptors, status};
use webstone_engine::{LevelOutcome, workers_own_descriptors};
use webstone_measure::units::Nanos;
use webstone_workload::load::{ConnectionPolicy, HttpVersion};

const CLIENTS: u32 = 10_000;
/// Maximum user memory per client, in bytes, including its histograms.
const BYTES_PER_CLIENT_MAX: u64 = 1024;
/// Gives the generator's process the server's URL.
const GENERATOR: &str = "WEBSTONE_TEST_GENERATOR";
/// The same in HTTP/3.
const QUIC_GENERATOR: &str = "WEBSTONE_TEST_QUIC_GENERATOR";
const QUIC_CLIENTS: u32 = 500;
/// Gives the server's URL to a generator's process that may open few files.
const LIMITED: &str = "WEBSTONE_TEST_LIMITED";

#[test]
fn ten_thousand_clients_cost_at_most_one_kib_each() {
    if is_child() || std::env::var_os(GENERATOR).is_some() {
        return;
    }
    let descriptors = raise_descriptors();
    if descriptors < u64::from(CLIENTS) + 200 {
        println!("skipped: {CLIENTS} clients need more descriptors than the hard limit of {descriptors}");
        return;
    }
    let served = Served::start();
    in_a_process("generator", GENERATOR, &served.url);
}

/// QUIC keeps in user memory what the kernel keeps for TCP: streams and packets; and also keys, and rustls's state during the handshake.
#[test]
fn a_connection_of_quic_costs_at_most_20_kib() {
    if is_child() || std::env::var_os(QUIC_GENERATOR).is_some() {
        return;
    }
    let served = Served::start_over_quic();
    in_a_process("quic_generator", QUIC_GENERATOR, &served.url);
}

/// Its process. Does nothing without the variable.
#[test]
fn quic_generator() {
    let Ok(url) = std::env::var(QUIC_GENERATOR) else { return };
    let workload = one_page(vec![file("/test?size=500", Some(500))]);
    let level = |clients: u32| {
        let mut spec = spec(&url, ConnectionPolicy::KeepAlive, u64::from(clients));
        spec.client.http = HttpVersion::Http3;
        spec.client.tls.verify = false;
        let outcome = run(&spec, &workload, clients);
        // Those that start last may find no page left.
        let connections = outcome.measured.lifetime.connections;
        assert!(errors(&outcome).is_empty() && 2 * connections > u64::from(clients), "{connections}");
        connections
    };
    level(10);
    let before = status("VmHWM:");
    let connections = level(QUIC_CLIENTS);
    let each = (status("VmHWM:") - before) * 1024 / connections;
    println!("{each} bytes a connection of QUIC");
    assert!(each <= 20 << 10, "{each} bytes a connection");
}

/// Runs a test of this file in a process of its own; a variable tells it what to do.
fn in_a_process(test: &str, variable: &str, value: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .output()
        .unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {value}");
}

#[test]
fn the_limit_of_open_files_is_for_each_worker_by_itself() {
    if is_child() || std::env::var_os(LIMITED).is_some() {
        return;
    }
    if !workers_own_descriptors() {
        println!("skipped: this kernel gives a thread no table of open files of its own");
        return;
    }
    raise_descriptors();
    let served = Served::start();
    in_a_process("limited_generator", LIMITED, &served.url);
}

/// A process that may open 400 files, and three workers with 300 connections each. Does nothing without the variable.
#[test]
fn limited_generator() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Ok(url) = std::env::var(LIMITED) else { return };
    setrlimit(Resource::Nofile, Rlimit { current: Some(400), maximum: Some(400) }).unwrap();
    let mut spec = spec(&url, ConnectionPolicy::KeepAlive, 3_000);
    spec.generator.workers = 3;
    // Answers are slow enough that the last client connects before all pages are fetched.
    let outcome = run(&spec, &one_page(vec![file("/test?size=500&delay=200ms", Some(500))]), 900);
    assert_eq!((errors(&outcome), outcome.measured.lifetime.connections), (vec![], 900));
}

/// The generator's process. Does nothing without the variable.
#[test]
fn generator() {
    let Ok(url) = std::env::var(GENERATOR) else { return };
    raise_descriptors();
    let workload = one_page(vec![file("/test?size=500", Some(500))]);
    let mut spec = spec(&url, ConnectionPolicy::KeepAlive, 0);
    spec.load.pages = None;
    spec.load.duration = Nanos::from_millis(500);
    spec.load.drain = Nanos::from_secs(5);
    let mut level = |clients: u32| {
        // The window opens when every client has had its first answer, or 20 s after the warm-up: on a busy machine
        // that is too early for ten thousand.
        let outcomes = [1, 60_000, 240_000].map(Nanos::from_millis).into_iter().map(|warmup| {
            spec.load.warmup = warmup;
            run(&spec, &workload, clients)
        });
        // A request whose connection is not established yet is carried into the window, too.
        let all_there = |outcome: &LevelOutcome| {
            let measured = &outcome.measured;
            [measured.counts.carried_in, measured.lifetime.connections] == [u64::from(clients); 2]
        };
        let outcome = outcomes.into_iter().find(all_there).expect("all are answered within minutes");
        assert_eq!(errors(&outcome), []);
        assert_eq!(outcome.measured.lifetime.connections, u64::from(clients));
        assert_eq!(outcome.measured.counts.carried_in, u64::from(clients));
    };
    level(10);
    let before = status("VmHWM:");
    level(CLIENTS);
    let each = (status("VmHWM:") - before) * 1024 / u64::from(CLIENTS);
    println!("{each} bytes a client, histograms included");
    assert!(each <= BYTES_PER_CLIENT_MAX, "{each} bytes a client");
}
