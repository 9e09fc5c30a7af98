//! Several hosts of a server as one: sums, what is counted once, names; and that records of a single agent are read
//! as written.

use proptest::prelude::*;

use super::*;
use crate::figures::host::HostFigures;
use crate::host_use::{CpuUse, LinkUse, TcpUse};
use crate::metrics::{Counts, Measured};
use crate::server_figures::ServerFigures;

const SECOND: u64 = 1_000_000_000;

fn used(user_ns: u64, system_ns: u64) -> ServerUse {
    ServerUse { user_ns, system_ns, resident_bytes_max: 1_000, ..ServerUse::default() }
}

/// A host read for some time, with one CPU that was busy for a quarter of it.
fn there(agent: u32, elapsed_ns: u64, server: Option<ServerUse>) -> ServerHostUse {
    let cpu = CpuUse { busy_ns: elapsed_ns / 4, idle_ns: elapsed_ns / 4 * 3, ..CpuUse::default() };
    let link = LinkUse { name: "eth0".to_owned(), sent_bytes: 500, ..LinkUse::default() };
    let tcp = TcpUse { listen_overflows: 3, ..TcpUse::default() };
    let host =
        HostUse { elapsed_ns, cpus: vec![cpu], links: vec![link], tcp: Some(tcp), ..HostUse::default() };
    ServerHostUse { agent, host, server, ..ServerHostUse::default() }
}

/// A window of two seconds with 2,000 requests.
fn run(hosts: Vec<ServerHostUse>) -> IterationRecord {
    let counts = Counts { succeeded: 1_900, failed: 100, ..Counts::default() };
    let measured = Measured { window_ns: 2 * SECOND, counts, ..Measured::default() };
    IterationRecord {
        server: server_at_once(&hosts),
        server_hosts: hosts,
        measured,
        ..IterationRecord::default()
    }
}

#[test]
fn a_servers_use_is_that_on_all_hosts() {
    let run = run(vec![
        there(0, 2 * SECOND, Some(used(SECOND / 2, SECOND / 2))),
        there(1, 2 * SECOND, Some(used(SECOND, 0))),
    ]);
    let whole = ServerFigures::of_runs(&[&run]).unwrap();
    assert_eq!((whole.cpu_percent, whole.cpu_user_percent, whole.resident_bytes_max), (100.0, 75.0, 2_000));
    // 2 s of CPU time for 2,000 requests.
    assert_eq!(whole.cpu_per_1000_requests_s, 1.0);
    let [first, second] = [0, 1].map(|agent| ServerFigures::on_host(&[&run], agent).unwrap());
    assert_eq!((first.cpu_percent, second.cpu_percent), (50.0, 50.0));
    assert_eq!(first.cpu_per_1000_requests_s + second.cpu_per_1000_requests_s, 1.0);
    assert_eq!(ServerFigures::on_host(&[&run], 2), None);
    let hosts = HostFigures::of_server(&[&run]).unwrap();
    assert_eq!((hosts.elapsed_s, hosts.ended), (2.0, 2_000));
    assert_eq!(hosts.cpus.unwrap().busy_ns, SECOND);
    assert_eq!(hosts.tcp.unwrap().listen_overflows, 6);
    assert_eq!(hosts.links.unwrap().sum.sent_bytes, 1_000);
    assert_eq!(HostFigures::on_host(&[&run], 1).unwrap().cpus.unwrap().busy_ns, SECOND / 2);
}

#[test]
fn shares_are_of_the_mean_of_the_times() {
    // Read for 1.9 and 2.1 s, for a window of 2 s.
    let run = run(vec![
        there(0, 1_900_000_000, Some(used(SECOND, 0))),
        there(1, 2_100_000_000, Some(used(SECOND, 0))),
    ]);
    let whole = ServerFigures::of_runs(&[&run]).unwrap();
    assert_eq!((whole.cpu_percent, whole.cpu_per_1000_requests_s), (100.0, 1.0));
    let own = ServerFigures::on_host(&[&run], 1).unwrap();
    assert!((own.cpu_percent - 100.0 / 2.1).abs() < 1e-9, "of its own time");
}

#[test]
fn readings_of_one_machine_by_two_agents_count_once() {
    let beside = |same_network_as| ServerHostUse {
        same_machine_as: Some(0),
        same_network_as,
        ..there(1, 2 * SECOND, Some(used(SECOND, 0)))
    };
    let first = || there(0, 2 * SECOND, Some(used(SECOND, 0)));
    let of = |hosts| {
        let run = run(hosts);
        let hosts = HostFigures::of_server(&[&run]).unwrap();
        let sent = hosts.links.unwrap().sum.sent_bytes;
        (run.server.unwrap().user_ns, hosts.cpus.unwrap().busy_ns, sent, hosts.tcp.unwrap().listen_overflows)
    };
    assert_eq!(of(vec![first(), beside(Some(0))]), (2 * SECOND, SECOND / 2, 500, 3));
    assert_eq!(of(vec![first(), beside(None)]), (2 * SECOND, SECOND / 2, 1_000, 6));
    // If the first is missing, the second one's reading is used.
    let alone = run(vec![beside(Some(0))]);
    assert_eq!(HostFigures::of_server(&[&alone]).unwrap().cpus.unwrap().busy_ns, SECOND / 2);
    assert_eq!(alone.server_networks().count(), 1);
}

#[test]
fn a_part_is_not_taken_for_the_whole() {
    let run = run(vec![there(0, 2 * SECOND, None), there(1, 2 * SECOND, Some(used(SECOND, 0)))]);
    assert_eq!((&run.server, ServerFigures::of_runs(&[&run])), (&None, None));
    assert_eq!(ServerFigures::on_host(&[&run], 0), None);
    assert_eq!(ServerFigures::on_host(&[&run], 1).unwrap().cpu_percent, 50.0);
}

#[test]
fn the_reading_of_one_agent_is_written_without_a_list() {
    let host = HostUse { elapsed_ns: 7, ..HostUse::default() };
    let alone = IterationRecord {
        server_hosts: vec![ServerHostUse { host, ..ServerHostUse::default() }],
        server: Some(used(1, 2)),
        ..IterationRecord::default()
    };
    let written = serde_json::to_value(&alone).unwrap();
    let there = written["server_host"].as_object().unwrap();
    assert_eq!(there.keys().collect::<Vec<_>>(), ["close_delay_ns_max", "host", "opening_delay_ns_max"]);
    let read: IterationRecord = serde_json::from_value(written).unwrap();
    assert_eq!(read.server_on(&read.server_hosts[0]), Some(&used(1, 2)), "it is the run's");
}

proptest! {
    /// The counters of the whole are the sums over hosts, for any number and order of hosts.
    #[test]
    fn the_parts_add_up(times in prop::collection::vec((0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 30), 2..9)) {
        let hosts: Vec<ServerHostUse> = (0..)
            .zip(&times)
            .map(|(agent, (user_ns, system_ns, switches_voluntary))| {
                let processes = ProcessUse {
                    switches_voluntary: *switches_voluntary,
                    throttled_ns: Some(*switches_voluntary),
                    threads_max: 1,
                    ..ProcessUse::default()
                };
                let server = ServerUse { processes: Some(processes), ..used(*user_ns, *system_ns) };
                there(agent, SECOND, Some(server))
            })
            .collect();
        let whole = server_at_once(&hosts).unwrap();
        prop_assert_eq!(whole.user_ns, times.iter().map(|it| it.0).sum::<u64>());
        prop_assert_eq!(whole.system_ns, times.iter().map(|it| it.1).sum::<u64>());
        let processes = whole.processes.clone().unwrap();
        prop_assert_eq!(processes.switches_voluntary, times.iter().map(|it| it.2).sum::<u64>());
        prop_assert_eq!(processes.threads_max, times.len() as u64);
        prop_assert_eq!(processes.throttled_ns, times.iter().map(|it| it.2).max(), "a time, not CPU time");
        let mut turned = hosts;
        turned.reverse();
        prop_assert_eq!(server_at_once(&turned).unwrap(), whole);
    }
}
