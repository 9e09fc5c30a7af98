//! A path with delay and loss, over real sockets: known delays in, the same times out; losses as set; what clients count equals what the
//! server counts; and nothing is left.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use webstone_measure::units::Nanos;

use crate::program::{Running, Said, webstone, webstone_in};

/// Whether a path cannot be made here, and why.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn is_skipped(said: &Said) -> bool {
    let refusal = said.err.lines().find(|line| line.contains("(server.path): cannot"));
    refusal.inspect(|why| println!("skipped: {why}")).is_some()
}

/// A run over a path: its record, if paths can be made here.
fn over(path: &str, more: &[&str]) -> Option<Value> {
    let run =
        ["run", "--path", path, "-w", "workout-0k", "--warmup", "0s", "-q", "--no-store", "--format", "json"];
    let said = webstone(&[&run[..], more].concat());
    if is_skipped(&said) {
        return None;
    }
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let broken = |check: &&Value| check["holds"] == false && check["number"] != 2;
    let checks = record["iterations"][0]["identities"].as_array().unwrap();
    assert!(checks.iter().find(broken).is_none(), "{checks:?}");
    Some(record)
}

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

const RTT_NS: u64 = 200_000_000;
/// On a busy machine everything takes longer now and then.
const ATTEMPTS: u32 = 5;

/// Every byte of UDP that clients received came over the path, with headers of this length for each datagram. On a busy machine the
/// relay may first be asked after its first packets, so a run in which it was shows nothing.
fn datagrams_came_over(headers: u64, mut run: impl FnMut() -> Option<Value>) -> Option<Value> {
    for _ in 0..ATTEMPTS {
        let record = run()?;
        let iteration = &record["iterations"][0];
        let received = &iteration["measured"]["http3"]["received"];
        let expected = ns(&received["bytes"]) + headers * ns(&received["datagrams"]);
        if ns(&iteration["host"]["path"]["to_clients"]["bytes"]) >= expected {
            return Some(record);
        }
    }
    panic!("clients received more than came over the path, {ATTEMPTS} times");
}

/// Least times of connections for one request each, in round trips: to connect, for the handshake of TLS, to the end of the answer.
fn round_trips(protocol: &[&str]) -> Option<[u64; 3]> {
    // Two at a time, so that no handshake waits for the computing of others.
    let load = ["-c", "2", "-n", "8", "-d", "0s", "--connections", "per-request"];
    let record = over("rtt=200ms", &[&load, protocol].concat())?;
    let measured = &record["iterations"][0]["measured"];
    let handshake = &measured["handshakes"]["time"]["min"];
    let handshake = if handshake.is_null() { 0 } else { ns(handshake) };
    let times = [ns(&measured["connect"]["min"]), handshake, ns(&measured["response"]["min"])];
    Some(times.map(|time_ns| time_ns / RTT_NS))
}

#[test]
fn connections_and_answers_take_the_round_trips_of_their_protocol() {
    let cases: [(&[&str], [u64; 3]); 5] = [
        (&["--http", "1.1"], [1, 0, 2]),
        (&["--http", "1.1", "--tls"], [1, 1, 3]),
        (&["--http", "1.1", "--tls", "--server-tls-versions", "1.2"], [1, 2, 4]),
        (&["--http", "2", "--tls"], [1, 1, 3]),
        (&["--http", "3"], [1, 1, 2]),
    ];
    std::thread::scope(|scope| {
        for (protocol, expected) in cases {
            scope.spawn(move || {
                for attempt in 1..=ATTEMPTS {
                    let Some(found) = round_trips(protocol) else { return };
                    let is_less = found.iter().zip(&expected).any(|(found, expected)| found < expected);
                    assert!(!is_less, "{protocol:?}: {found:?} is less than {expected:?}");
                    if found == expected {
                        return;
                    }
                    assert!(attempt < ATTEMPTS, "{protocol:?}: {found:?} is more than {expected:?}");
                }
            });
        }
    });
}

#[test]
fn losses_are_as_set_and_counts_are_the_servers() {
    for protocol in [&["--http", "1.1", "--tls"], &["--http", "3", "--tls"]] {
        let more = ["-c", "10", "-n", "500", "-d", "0s", "-K", "--seed", "7"];
        let is_quic = protocol[1] == "3";
        let run = || over("rtt=2ms,loss=5%", &[&more[..], protocol].concat());
        let record = if is_quic { datagrams_came_over(28, run) } else { run() };
        let Some(record) = record else { return };
        let run = &record["iterations"][0];
        let (measured, server, host) = (&run["measured"], &run["server"], &run["host"]);
        assert_eq!(measured["counts"]["succeeded"], 500, "{protocol:?}: {}", measured["errors"]);
        assert_eq!(server["requests"], measured["lifetime"]["requests"], "{protocol:?}");
        let (received, sent) = (ns(&measured["lifetime"]["received_bytes"]), ns(&server["sent_bytes"]));
        assert!(
            if is_quic { received < sent } else { received == sent },
            "{protocol:?}: {received} of {sent}"
        );
        // Six standard deviations of a binomial distribution.
        let way = |way: &str| (ns(&host["path"][way]["packets"]), ns(&host["path"][way]["lost"]));
        for (packets, lost) in [way("to_server"), way("to_clients")] {
            let given = (packets + lost) as f64;
            let far = (lost as f64 - given * 0.05).abs();
            assert!(
                given > 500.0 && far < 6.0 * (given * 0.05 * 0.95).sqrt(),
                "{protocol:?}: {lost} of {given}"
            );
        }
        let repaired =
            if is_quic { &measured["http3"]["packets_lost"] } else { &host["tcp"]["retransmitted"] };
        let repaired = ns(repaired);
        assert!(repaired > 0, "{protocol:?}");
        assert!(
            ns(&host["path"]["cpu_ns"]) > 0 && ns(&host["path"]["to_clients"]["late_ns_max"]) > 0,
            "{}",
            host["path"]
        );
    }
}

/// Processes that a process has started, and those of them.
fn started_by(process: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.into_iter().filter(|pid| parent(*pid) == Some(process)).collect()
}

#[test]
fn nothing_is_left_of_a_path_that_was_killed() {
    for signal in ["INT", "KILL"] {
        let dir = tempfile::tempdir().unwrap();
        let here = fs::read_link("/proc/self/ns/net").unwrap();
        let run = ["run", "--path", "rtt=1ms", "-c", "1", "-i", "1000", "-d", "50ms", "--warmup", "0s"];
        if is_skipped(&webstone_in(dir.path(), &[&run[..4], &["-n", "0"]].concat())) {
            return;
        }
        let mut running = Running::start(dir.path(), &run);
        running.wait_for("[1/1000] ");
        let network = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let started = started_by(running.child.id());
        let networks: Vec<_> =
            started.iter().filter_map(network).filter(|network| *network != here).collect();
        assert!(networks.len() >= 2, "relay and server are in a network of their own: {networks:?}");
        running.signal(signal);
        let _ = running.child.wait();
        let until = Instant::now() + Duration::from_secs(10);
        while started.iter().any(|pid| network(pid).is_some_and(|left| networks.contains(&left))) {
            assert!(Instant::now() < until, "{signal}: a process is left in {networks:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!fs::exists("/sys/class/net/path0").unwrap(), "devices are not in this network");
    }
}

#[test]
fn what_cannot_be_over_a_path_is_refused() {
    let refusals: [(&[&str], &str); 4] = [
        (&["http://127.0.0.1:1"], "--path (server.path): it applies to a server that webstone starts"),
        (&["--server", "haproxy"], "a proxy and its origin are not supported"),
        (&["--server-listen", "192.0.2.1:0"], "the server listens on the path's own address"),
        (&["--source", "127.0.0.2"], "clients have one address"),
    ];
    for (more, expected) in refusals {
        let said = webstone(&[&["run", "--path", "rtt=1ms"], more].concat());
        assert!(said.code == 2 && said.err.contains(expected), "{said:?}");
    }
    let said = webstone(&["run", "--path", "20ms"]);
    assert!(said.err.starts_with("error: --path: `20ms` is not a path: `20ms` has no =\nhint: "), "{said:?}");
}

#[test]
fn a_series_sets_versions_of_http_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let series = ["servers", "reference", "--tls", "--paths", "rtt=10ms", "--http-versions", "1.1,3"];
    let load = ["-w", "workout-0k", "-c", "2", "-n", "8", "-d", "0s", "-i", "1", "--color", "never"];
    let said = webstone_in(dir.path(), &[&series[..], &load].concat());
    if is_skipped(&said) {
        return;
    }
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let table = said.out.split("\nNetwork").nth(1).unwrap_or_else(|| panic!("{}", said.out));
    assert!(table.contains("reference, rtt=10ms, keep-alive"), "{table}");
    for version in ["1.1 ", "3 "] {
        assert!(table.lines().any(|line| line.trim_start().starts_with(version)), "{table}");
    }
    assert!(table.contains("Paths are those of a relay of webstone's on this host."), "{table}");
}

/// A path of IPv6 takes the same round trips, carries what IPv4's does, and nothing that the kernel sends by itself.
#[test]
fn a_path_may_be_of_ipv6() {
    for protocol in [&["--http", "1.1"][..], &["--http", "3", "--tls"]] {
        let load = ["-c", "4", "-n", "40", "-d", "0s", "-K", "--server-listen", "[::1]:0"];
        let run = || over("rtt=20ms", &[&load, protocol].concat());
        // Headers of IPv6 and UDP are 48 bytes.
        let record = if protocol[1] == "3" { datagrams_came_over(48, run) } else { run() };
        let Some(record) = record else { return };
        let run = &record["iterations"][0];
        let (measured, path) = (&run["measured"], &run["host"]["path"]);
        assert_eq!(measured["counts"]["succeeded"], 40, "{protocol:?}: {}", measured["errors"]);
        assert_eq!(run["server"]["requests"], measured["lifetime"]["requests"], "{protocol:?}");
        assert!(
            ns(&measured["connect"]["min"]) >= 20_000_000 && ns(&measured["response"]["min"]) >= 20_000_000
        );
        let target = record["target"].to_string();
        assert!(target.contains("[2001:2:"), "{target}");
        assert_eq!(path["to_server"]["lost"], 0, "{path}");
    }
}

/// Jitter makes answers later, by a share of it each way, and never earlier.
#[test]
fn jitter_delays_each_way() {
    let load = ["-c", "4", "-n", "80", "-d", "0s", "-K", "--seed", "7"];
    let Some(record) = over("rtt=20ms,jitter=40ms", &load) else { return };
    let measured = &record["iterations"][0]["measured"];
    let response = &measured["response"];
    assert_eq!(measured["counts"]["succeeded"], 80, "{}", measured["errors"]);
    let mean = ns(&response["sum"]) / ns(&response["count"]);
    // 20 ms more each way on average, which standard errors of 2 ms make 54 to 66 ms, and a busy machine more.
    assert!(ns(&response["min"]) >= 20_000_000 && mean >= 52_000_000, "{response}");
}

/// Slices of a duel are ten round trips long or longer, no answer comes sooner than the path allows, and what drains is no error.
#[test]
fn a_duel_may_be_over_a_path() {
    let path = ["--path", "rtt=20ms,loss=1%"];
    let short =
        ["--at-most", "60s", "--precision", "100%", "--restart-every", "1s", "--no-twin", "--no-spin"];
    let held = |protocol: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let load = ["duel", "reference", "reference,threads=1", "-w", "workout-0k", "-c", "4"];
        let said = webstone_in(dir.path(), &[&load[..], &path, &short, protocol].concat());
        if is_skipped(&said) {
            return;
        }
        assert!(matches!(said.code, 0 | 4), "{said:?}");
        let newest = fs::read_dir(dir.path().join("runs")).unwrap().flatten().map(|entry| entry.path()).max();
        let record: Value =
            serde_json::from_slice(&fs::read(newest.unwrap().join("duel.json")).unwrap()).unwrap();
        let slice: Nanos = record["duel"]["slice"].as_str().unwrap().parse().unwrap();
        assert!(slice.0 >= 200_000_000, "{slice}");
        let starts = record["starts"].as_array().unwrap();
        let sides: Vec<&Value> = starts.iter().flat_map(|it| it["sides"].as_array().unwrap()).collect();
        assert!(sides.len() >= 4, "{said:?}");
        for side in sides {
            assert!(ns(&side["response"]["min"]) >= 20_000_000, "{side}");
            assert_eq!(side["counts"]["failed"], 0, "{side}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| held(&["--http", "1.1"]));
        scope.spawn(|| held(&["--http", "3", "--tls"]));
    });
    for (arguments, expected) in [
        (&["reference", "http://127.0.0.1:1"][..], "webstone makes paths only to servers that it starts"),
        (&["reference", "reference", "--slice", "100ms"], "it is at least 200ms, 10 round trips"),
        (&["reference", "reference", "--path", "rtt=2s"], "--path: 2 paths of the network"),
        (
            &["reference", "reference", "--path", "/x", "-w", "standard"],
            "--path /x cannot be used together with",
        ),
    ] {
        let said = webstone(&[&["duel"], arguments, &path].concat());
        assert!(said.code != 0 && said.err.contains(expected), "{arguments:?}: {said:?}");
    }
    let said = webstone(&["duel", "reference", "reference", "--path", "rtt=2s"]);
    assert!(said.code != 0 && said.err.contains("compare the runs"), "{said:?}");
}
