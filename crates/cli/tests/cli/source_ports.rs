//! `--source-port-range`: servers see only ports of the range, and too few of them are reported.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::program::{program, webstone, webstone_in};

/// A server that answers every request and keeps the source ports of connections.
fn server() -> (String, Arc<Mutex<BTreeSet<u16>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let ports = Arc::clone(&seen);
    std::thread::spawn(move || {
        // A socket that was reset meanwhile can no longer report its peer's address.
        while let Ok((mut stream, from)) = listener.accept() {
            ports.lock().unwrap().insert(from.port());
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|n| n > 0)
                    && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_ok()
                {
                }
            });
        }
    });
    (url, seen)
}

#[test]
fn a_server_sees_ports_of_the_range_alone() {
    // The kernel chooses from the first range; the second is outside its own. Both are wide, because a port is in
    // TIME_WAIT for a minute after its connection.
    for (range, first, last) in [("43000-44999", 43_000, 44_999), ("23000-24999", 23_000, 24_999)] {
        let (url, seen) = server();
        let dir = tempfile::tempdir().unwrap();
        let line = [
            "hit",
            &url,
            "-c",
            "4",
            "-n",
            "40",
            "--connections",
            "per-request",
            "--source-port-range",
            range,
        ];
        let said = webstone_in(dir.path(), &[&line[..], &["--format", "json", "--store"]].concat());
        assert!(matches!(said.code, 0 | 4), "{} {}", said.code, said.err);
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 20, "{seen:?}");
        assert!(seen.iter().all(|port| (first..=last).contains(port)), "{range}: {seen:?}");
        let record: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(record["spec"]["client"]["source_ports"], range);
    }
}

#[test]
fn several_generators_have_a_part_each() {
    let (url, seen) = server();
    let agents = [0, 1].map(|cpu| format!("taskset -c {cpu} {} agent", program()));
    let hosts = ["--generator", &agents[0], "--generator", &agents[1]];
    let line = ["hit", &url, "-c", "2", "-d", "1s", "--source-port-range", "46000-46019"];
    let said = webstone(&[&line[..], &hosts].concat());
    assert!(matches!(said.code, 0 | 4), "{} {}", said.code, said.err);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|port| (46_000..46_010).contains(port)), "{seen:?}");
    assert!(seen.iter().any(|port| (46_010..46_020).contains(port)), "{seen:?}");
    let none =
        webstone(&[&["hit", &url, "-c", "1", "--source-port-range", "46000-46000"], &hosts[..]].concat());
    assert_eq!(none.code, 1, "{}", none.err);
    assert!(none.err.contains("`46000-46000` has fewer ports than there are hosts"), "{}", none.err);
}

#[test]
fn a_range_that_cannot_be_used_is_refused() {
    for (range, what) in [
        (
            "50000-40000",
            "error: --source-port-range: `50000-40000` is not a range of ports: it ends before it begins\n\
          hint: write it as in 40000-50000\n",
        ),
        (
            "0-10",
            "error: --source-port-range: `0-10` is not a range of ports: a port is a number from 1 to 65535\n\
          hint: write it as in 40000-50000\n",
        ),
    ] {
        let said = webstone(&["run", "--source-port-range", range]);
        assert_eq!((said.code, said.err.as_str()), (2, what));
    }
    let (url, _) = server();
    let said = webstone(&["hit", &url, "-c", "11", "--source-port-range", "40000-40009"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("the run needs 11 local ports, but there are only 10"), "{}", said.err);
    assert!(said.err.contains("--source-port-range with 11 ports"), "{}", said.err);
}
