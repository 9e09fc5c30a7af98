//! What the host used: routes, differences of the kernel's counters, what cannot be read, and this machine.

use super::*;
use crate::machine::tests::root_with;

#[test]
fn the_most_specific_route_leads_to_the_interface() {
    let (_keep, root) = root_with(&[
        (
            "/proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             eth0 00000000 010200C0 0003 0 0 100 00000000 0 0 0\n\
             wlan0 00000000 010200C0 0003 0 0 600 00000000 0 0 0\n\
             eth1 000A0A0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
             bad0 000A0A0A 00000000 0000 0 0 0 FFFFFFFF 0 0 0\n",
        ),
        (
            "/proc/net/ipv6_route",
            "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth6\n\
             00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003 eth0\n\
             00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n",
        ),
    ]);
    for (address, name) in [
        ("10.10.10.7", "eth1"),
        ("192.0.2.9", "eth0"),
        ("127.0.0.5", "lo"),
        ("::1", "lo"),
        ("fd00::5", "eth6"),
        ("2001:db8::1", "eth0"),
        ("::ffff:10.10.10.7", "eth1"),
    ] {
        let found = links_towards(&root, [address.parse().unwrap()], false);
        assert_eq!(found, BTreeSet::from([name.to_owned()]), "{address}");
    }
    let (_keep, empty) = root_with(&[]);
    assert!(links_towards(&empty, ["192.0.2.9".parse().unwrap()], false).is_empty());
}

#[test]
fn differences_of_the_kernels_counters() {
    let files = |overflows: u64, retransmitted: u64, busy: u64, bytes: u64| {
        [
            (
                "/proc/thread-self/net/netstat",
                format!(
                    "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts TCPSynRetrans\n\
                         TcpExt: 1 {overflows} {} 3 2\nIpExt: X\nIpExt: 5\n",
                    overflows + 1
                ),
            ),
            (
                "/proc/thread-self/net/snmp",
                format!(
                    "Tcp: RtoMin MaxConn OutSegs RetransSegs\nTcp: 200 -1 1000 {retransmitted}\nUdp: A\nUdp: 1\n"
                ),
            ),
            (
                "/proc/thread-self/net/sockstat",
                "sockets: used 9\nTCP: inuse 5 orphan 0 tw 77 alloc 9 mem 1\n".to_owned(),
            ),
            ("/proc/thread-self/net/sockstat6", "TCP6: inuse 2\n".to_owned()),
            (
                "/proc/stat",
                format!(
                    "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 {busy} 0 {busy} 100 5 3 {busy} 7 0 0\ncpu3 1 1 1 1 1 1 1 1\nintr 5\n"
                ),
            ),
            ("/proc/sys/net/ipv4/ip_local_port_range", "1000 1999\n".to_owned()),
            ("/sys/class/net/eth0/statistics/rx_bytes", format!("{bytes}\n")),
            ("/sys/class/net/eth0/statistics/tx_bytes", "10\n".to_owned()),
            ("/sys/class/net/eth0/speed", "1000\n".to_owned()),
            ("/sys/class/net/eth0/device/vendor", "0x8086\n".to_owned()),
        ]
    };
    let read = |files: &[(&str, String)]| {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let (_keep, root) = root_with(&files);
        (
            HostReading::take(
                &root,
                &BTreeSet::from(["eth0".to_owned(), "gone".to_owned()]),
                &BTreeSet::new(),
                &Ports::default(),
                None,
            ),
            _keep,
            root,
        )
    };
    let (before, ..) = read(&files(10, 4, 100, 1_000));
    let (after, _keep, root) = read(&files(15, 6, 150, 126_000));
    let used = before.until(&after, &root, &BTreeSet::new());
    let tcp = used.tcp.unwrap();
    assert_eq!((tcp.listen_overflows, tcp.listen_drops, tcp.retransmitted), (5, 5, 2));
    assert_eq!((tcp.segments_sent, tcp.timeouts, tcp.syn_retransmitted), (0, 0, 0));
    assert_eq!((tcp.time_wait, tcp.in_use), (77, 7));
    assert_eq!(used.cpus.len(), 2);
    assert_eq!(
        used.cpus[0],
        CpuUse {
            cpu: 0,
            busy_ns: 1_500_000_000,
            user_ns: 500_000_000,
            system_ns: 500_000_000,
            interrupt_ns: 500_000_000,
            ..CpuUse::default()
        }
    );
    let [eth0] = &used.links[..] else { panic!("{:?}", used.links) };
    assert_eq!((eth0.received_bytes, eth0.sent_bytes, eth0.speed_bps), (125_000, 0, Some(1_000_000_000)));
    assert!(!eth0.loopback);
    assert_eq!(used.ports, Some(1000));
}

/// In a container: programs of the host are seen by how busy they keep its CPUs. Of 100 ticks of two CPUs this program used 30, and
/// interrupts 20, which are in the time of processes where the kernel never meets those of devices.
#[test]
fn interrupts_are_no_programs_where_the_kernel_counts_them_apart() {
    let others_ticks = |devices: u64| {
        let at = |ticks: u64| {
            let (user, soft) = (1_000 + 2 * ticks, 500 + 2 * ticks / 4);
            let cpu = format!("{} 0 500 9 9 {devices} {} 0 0 0", user / 2, soft / 2);
            let files = [
                (
                    "/proc/stat",
                    format!("cpu  {user} 0 1000 18 18 {devices} {soft} 0 0 0\ncpu0 {cpu}\ncpu1 {cpu}\n"),
                ),
                (
                    "/proc/7/stat",
                    format!("7 (own) S 0 1 1 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0", 50 + ticks * 3 / 4),
                ),
            ];
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let (keep, root) = root_with(&files);
            (
                HostReading::take(&root, &BTreeSet::new(), &BTreeSet::new(), &Ports::default(), None),
                keep,
                root,
            )
        };
        let ((before, ..), (after, _keep, root)) = (at(0), at(40));
        let used = before.until(&after, &root, &BTreeSet::from([7]));
        used.others.unwrap().cpu_ns / TICK_NS
    };
    assert_eq!([others_ticks(0), others_ticks(60)], [100 - 30, 80 - 30]);
}

/// Runs itself in a PID namespace of its own, where it sees no process of the host.
#[test]
fn a_neighbour_outside_of_the_container_is_seen() {
    const INSIDE: &str = "WEBSTONE_TEST_INSIDE";
    let unshare = || {
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    if std::env::var_os(INSIDE).is_some() {
        return look_for_a_neighbour();
    }
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not make a PID namespace");
        return;
    }
    let mut neighbour = std::process::Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("every system has a shell");
    let name = "host_use::tests::a_neighbour_outside_of_the_container_is_seen";
    let inside = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    let inside = inside.unwrap();
    let told = String::from_utf8_lossy(&inside.stdout);
    assert!(
        inside.status.success() && told.contains("saw it"),
        "{told} {}",
        String::from_utf8_lossy(&inside.stderr)
    );
}

fn look_for_a_neighbour() {
    let (root, own) = (Root::default(), BTreeSet::from([std::process::id()]));
    let take = || HostReading::take(&root, &BTreeSet::new(), &BTreeSet::new(), &Ports::default(), None);
    let (first, began) = (take(), Instant::now());
    while began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let later = take();
        let used = first.until(&later, &root, &own).others.unwrap();
        assert_eq!((used.busiest, first.others.until(&later.others, &own, 0).unwrap().cpu_ns), (vec![], 0));
        if used.cpu_ns > 200_000_000 {
            return println!("saw it");
        }
    }
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let (_keep, root) = root_with(&[]);
    let reading = HostReading::take(
        &root,
        &BTreeSet::from(["eth0".to_owned()]),
        &BTreeSet::new(),
        &Ports::default(),
        None,
    );
    let used = reading.until(&reading, &root, &BTreeSet::new());
    assert_eq!((used.tcp, used.cpus, used.links, used.ports), (None, vec![], vec![], None));
}

#[test]
fn what_a_worker_opened_counts_though_it_is_gone_at_the_close() {
    let root = Root::default();
    let lo = BTreeSet::from(["lo".to_owned()]);
    let worker = std::thread::spawn(move || {
        // A listener and both ends of each connection.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open: Vec<_> = (0..100)
            .map(|_| (std::net::TcpStream::connect(address).unwrap(), listener.accept().unwrap()))
            .collect();
        (HostReading::take(&Root::default(), &lo, &BTreeSet::new(), &Ports::default(), None), open.len())
    });
    let (reading, connections) = worker.join().unwrap();
    let later = HostReading::take(&root, &BTreeSet::new(), &BTreeSet::new(), &Ports::default(), None);
    let used = reading.until(&later, &root, &BTreeSet::new());
    assert!(used.descriptors > Some(2 * connections as u64), "{:?}", used.descriptors);
    assert!(used.tcp.unwrap().in_use >= 2 * connections as u64, "{:?}", used.tcp);
}

#[test]
fn this_machine_counts() {
    let root = Root::default();
    let take =
        |links: &BTreeSet<String>| HostReading::take(&root, links, &BTreeSet::new(), &Ports::default(), None);
    let reading = take(&links_towards(&root, [], true));
    let later = take(&BTreeSet::from(["lo".to_owned()]));
    let used = reading.until(&later, &root, &BTreeSet::new());
    assert!(used.tcp.is_some() && !used.cpus.is_empty() && used.descriptors > Some(2));
    assert!(used.links[0].loopback);
}

#[test]
fn the_longest_route_names_the_interface() {
    let (_keep, root) = root_with(&[
        (
            "/proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
             eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n",
        ),
        (
            "/proc/net/ipv6_route",
            "20010db8000000000000000000000000 20 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n\
             00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
             fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
        ),
    ]);
    let towards = |address: &str| {
        links_towards(&root, [address.parse().unwrap()], false).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(towards("192.0.2.1"), ["eth0"]);
    assert_eq!(towards("10.1.2.3"), ["eth1"]);
    assert_eq!(towards("2001:db8::1"), ["eth1"]);
    assert_eq!(towards("2001:db9::1"), ["eth0"]);
}
