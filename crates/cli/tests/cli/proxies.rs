//! Proxies between clients and an origin, with the real programs: the requests that the origin reports are compared
//! with those of clients, exactly and byte for byte. Runs have no warm-up and end by pages, so that the counts are
//! exact.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::own_servers::{directory, is_installed, run_in, was_read};
use crate::program::Server;

/// The files and their sizes.
const FILES: [(&str, u64); 5] =
    [("/a.html", 700), ("/a1.bin", 1_000), ("/b.html", 12_345), ("/b1.bin", 70_001), ("/c.html", 1)];

/// The proxies, each with its program and package.
const PROXIES: [(&str, &str, &str); 2] =
    [("nginx-proxy", "nginx", "nginx-light"), ("haproxy", "haproxy", "haproxy")];

/// Sixty pages, without a warm-up.
const SIXTY: [&str; 9] = ["-n", "60", "-d", "0s", "--warmup", "0s", "-q", "--retries", "0"];

/// Each page has two files, the second of which is the first of the next.
fn workload(dir: &Path) -> String {
    let mut text = String::new();
    for (place, (path, size)) in FILES.iter().enumerate() {
        let (next, next_size) = FILES[(place + 1) % FILES.len()];
        text += &format!(
            "[[pages]]\n[[pages.files]]\nurl = \"{path}\"\nsize = {size}\n\
             [[pages.files]]\nurl = \"{next}\"\nsize = {next_size}\n"
        );
    }
    let file = dir.join("files.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The record of a run with 60 pages per iteration, none of which failed.
fn measured(dir: &Path, server: &str, more: &[&str]) -> Value {
    let file = workload(dir);
    let run =
        ["run", "--server", server, "-w", &file, "--check", "content", "--no-store", "--format", "json"];
    let said = run_in(dir, &[run.as_slice(), &SIXTY, more].concat());
    let record: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{server} {more:?}: {}", said.err));
    for iteration in record["iterations"].as_array().unwrap() {
        let counts = &iteration["measured"]["counts"];
        assert_eq!((&counts["succeeded"], &counts["failed"]), (&120.into(), &0.into()), "{server} {more:?}");
    }
    record
}

/// The origin's counters in an iteration.
fn counted<'a>(record: &'a Value, iteration: usize) -> impl Fn(&str) -> u64 + 'a {
    let counted = &record["iterations"][iteration]["origin"]["counted"];
    move |name| counted[name].as_u64().unwrap_or_else(|| panic!("{name} in {counted}"))
}

#[test]
fn a_proxy_without_a_cache_asks_for_everything() {
    for (server, program, package) in PROXIES {
        if !is_installed(program, package) {
            continue;
        }
        let dir = directory();
        for (profile, clients) in [("stock", "3"), ("tuned", "1")] {
            let choice = format!("{server}:{profile}");
            let record = measured(dir.path(), &choice, &["--server-no-cache", "-c", clients, "-i", "2"]);
            for iteration in [0, 1] {
                let (asked, counts) =
                    (counted(&record, iteration), &record["iterations"][iteration]["measured"]["counts"]);
                assert_eq!((asked("requests"), asked("not_modified")), (120, 0), "{choice}");
                assert_eq!(counts["body_bytes"], asked("body_bytes"), "{choice}");
                assert!(asked("sent_bytes") > asked("body_bytes") && asked("received_bytes") > 120 * 20);
                let connections = asked("connections");
                match (server, profile) {
                    // By default nginx uses HTTP/1.0 to its origin.
                    ("nginx-proxy", "stock") => assert_eq!(connections, 120),
                    ("nginx-proxy", _) => assert!(connections <= 1, "{connections} of one client are kept"),
                    _ => assert!(connections <= 120, "{connections}"),
                }
            }
            let origin = &record["target"]["origin"];
            assert_eq!(
                (&origin["ours"], &origin["unseen"]),
                (&true.into(), &Value::Array(vec![])),
                "{choice}"
            );
            assert!(origin["url"].as_str().unwrap() != record["target"]["url"].as_str().unwrap());
            // It is a separate process, and the memory of each is counted separately.
            let of = |whose: &str| record["iterations"][0][whose].clone();
            if was_read(&record["iterations"][0]) {
                assert_eq!(of("origin")["server"]["processes"]["processes_max"], 1, "{choice}");
                assert!(of("origin")["server"]["resident_bytes_max"].as_u64().unwrap() > 0);
            }
            assert!(of("server")["requests"].is_null(), "the proxy counts nothing itself");
        }
    }
}

#[test]
fn a_proxy_that_closes_clients_connections_keeps_those_to_its_origin() {
    for (server, program, package) in PROXIES {
        if !is_installed(program, package) {
            continue;
        }
        let dir = directory();
        let choice = format!("{server}:tuned");
        let record = measured(dir.path(), &choice, &["--server-no-keep-alive", "-c", "1", "-i", "1"]);
        let counts = &record["iterations"][0]["measured"]["counts"];
        assert_eq!(counts["connections"], 120, "{choice}: each answer ends its connection");
        let connections = counted(&record, 0)("connections");
        assert!(connections <= 4, "{choice}: {connections} connections to the origin");
    }
}

#[test]
fn a_proxy_with_a_cache_asks_for_every_file_once() {
    for (server, program, package) in PROXIES {
        if !is_installed(program, package) {
            continue;
        }
        let dir = directory();
        // Without a check: otherwise every file would be in the cache before the first level. One client, so that no
        // other requests a file that is being fetched.
        let cold = measured(
            dir.path(),
            server,
            &["--server-cache", "-c", "1", "-i", "2", "--no-check", "--connections", "per-request"],
        );
        let (first, second) = (counted(&cold, 0), counted(&cold, 1));
        let bytes: u64 = FILES.iter().map(|(_, size)| size).sum();
        assert_eq!((first("requests"), first("body_bytes")), (FILES.len() as u64, bytes), "{server}");
        let names = ["requests", "not_modified", "connections", "body_bytes", "sent_bytes", "received_bytes"];
        assert_eq!(names.map(second), [0; 6], "{server}: its cache is full");
        let warm =
            measured(dir.path(), server, &["--server-cache", "-c", "3", "--connections", "per-request"]);
        assert_eq!(names.map(counted(&warm, 0)), [0; 6], "{server}: it was asked for its files before");
    }
}

#[test]
fn the_report_says_what_the_origin_was_asked() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let dir = directory();
    let file = workload(dir.path());
    let run =
        ["run", "--server=nginx-proxy", "--server-cache", "-w", &file, "-c", "1", "--no-check", "--no-store"];
    let more = ["--full", "--connections", "per-request"];
    let said = run_in(dir.path(), &[&run[..], &more, &SIXTY].concat());
    let lines: Vec<&str> = said.out.lines().skip_while(|line| !line.starts_with("Origin")).collect();
    assert!(lines[0].contains("the proxy's requests to webstone's own behind it"), "{}", said.out);
    assert!(lines[1].contains("hits") && lines[2].contains("bytes, %"), "{}", said.out);
    // 5 of 120 requests.
    let cells: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!((cells[0], cells[1], cells[2]), ("1", "0.0417", "95.8"), "{}", said.out);
}

#[test]
fn an_origin_that_was_started_elsewhere_is_seen_as_far_as_it_can_be() {
    if !is_installed("haproxy", "haproxy") {
        return;
    }
    let dir = directory();
    let file = workload(dir.path());
    let origin = Server::start(dir.path(), &["--workload", &file, "--listen", "127.0.0.1:0"]);
    let look =
        || measured(dir.path(), "haproxy", &["--server-origin", &origin.url, "-c", "2", "--server-no-cache"]);
    let processes = |record: &Value| record["iterations"][0]["origin"]["server"]["processes"].clone();
    // On a busy machine such a short window may be over before its processes are read.
    let mut record = look();
    for _ in 0..9 {
        if processes(&record).is_null() {
            record = look();
        }
    }
    let behind = &record["target"]["origin"];
    assert_eq!((&behind["ours"], &behind["unseen"]), (&false.into(), &Value::Array(vec![])), "{behind}");
    assert_eq!(counted(&record, 0)("requests"), 120, "a server of this webstone tells what it counted");
    assert_eq!(processes(&record)["processes_max"], 1);
    // Another server: its processes are visible, but its requests are unknown.
    let nginx = ["--server-origin", &origin.url, "--server-origin-cpus", "0"];
    let said = run_in(dir.path(), &[["run", "--server=haproxy", "-q"].as_slice(), &nginx].concat());
    assert_eq!(
        (said.code, said.err.lines().next().unwrap()),
        (
            2,
            "error: --server-origin-cpus (server.origin_cpus): webstone pins only an origin that it starts, not one given by --server-origin (server.origin)"
        )
    );
}

#[test]
fn caching_on_and_off_are_in_one_report() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let dir = directory();
    let file = workload(dir.path());
    let series = [
        "servers",
        "nginx-proxy",
        "--caching",
        "on,off",
        "-w",
        &file,
        "-c",
        "1",
        "-i",
        "1",
        "--format",
        "csv",
    ];
    let said = run_in(dir.path(), &[&series[..], &SIXTY].concat());
    // No cell of the table contains a comma.
    let mut table = said.out.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let names = table.next().unwrap();
    let rows: Vec<[&str; 4]> = table
        .map(|row| {
            ["cell", "caching", "origin_requests_per_request", "origin_hit_percent"]
                .map(|name| row[names.iter().position(|known| *known == name).unwrap()])
        })
        .collect();
    // The check of the files before the load has filled the cache.
    assert_eq!(
        rows,
        [["nginx-proxy-cache-on", "on", "0", "100"], ["nginx-proxy-cache-off", "off", "1", "0"]],
        "{}",
        said.err
    );
}

/// Apache httpd as a forward proxy, ended when this is dropped.
struct ForwardProxy {
    child: std::process::Child,
    url: String,
    log: std::path::PathBuf,
}

impl ForwardProxy {
    fn start(dir: &Path) -> ForwardProxy {
        // Another program may take the port before httpd does.
        for _ in 0..5 {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let modules = ["mpm_event", "authz_core", "proxy", "proxy_http"]
                .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
            let dir = dir.display();
            let text = format!(
                "{}ServerName localhost\nListen 127.0.0.1:{port}\nPidFile {dir}/httpd.pid\nDefaultRuntimeDir {dir}\n\
                 ErrorLog {dir}/error.log\nTransferLog {dir}/access.log\nProxyRequests On\n\
                 <Proxy *>\nRequire all granted\n</Proxy>\n",
                modules.concat()
            );
            fs::write(format!("{dir}/httpd.conf"), text).unwrap();
            let mut child = std::process::Command::new("apache2")
                .args(["-d", &dir.to_string(), "-f", &format!("{dir}/httpd.conf"), "-DFOREGROUND"])
                .spawn()
                .unwrap();
            while child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    let log = Path::new(&dir.to_string()).join("access.log");
                    return ForwardProxy { child, url: format!("http://127.0.0.1:{port}"), log };
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        panic!("{}", fs::read_to_string(dir.join("error.log")).unwrap_or_default());
    }

    /// The logged request lines, once there are this many: httpd logs after the answer.
    fn logged(&self, expected: usize) -> Vec<String> {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            // It takes connections before it has opened its log.
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<String> =
                text.lines().map(|line| line.split('"').nth(1).unwrap().to_owned()).collect();
            if lines.len() >= expected || std::time::Instant::now() > until {
                return lines;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        // Its workers end with it; after SIGKILL they would continue.
        let _ = std::process::Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

#[test]
fn a_forward_proxy_is_asked_for_every_file_by_its_whole_url() {
    if !is_installed("apache2", "apache2") {
        return;
    }
    let dir = directory();
    let file = workload(dir.path());
    let origin = Server::start(dir.path(), &["--workload", &file, "--listen", "127.0.0.1:0"]);
    let proxy = ForwardProxy::start(dir.path());
    for policy in ["keep-alive", "per-request"] {
        let before = proxy.logged(0).len();
        let run = ["run", &origin.url, "--proxy", &proxy.url, "-w", &file, "--check", "content"];
        let more = ["--connections", policy, "--no-check", "-c", "3", "--no-store", "--format", "json"];
        let said = run_in(dir.path(), &[&run[..], &more, &SIXTY].concat());
        let record: Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{policy}: {}", said.err));
        let counts = &record["iterations"][0]["measured"]["counts"];
        assert_eq!((&counts["succeeded"], &counts["failed"]), (&120.into(), &0.into()), "{policy}");
        let (asked, behind) = (counted(&record, 0), &record["target"]["origin"]);
        assert_eq!(
            (asked("requests"), &counts["body_bytes"]),
            (120, &asked("body_bytes").into()),
            "{policy}"
        );
        assert_eq!((&behind["url"], &behind["unseen"]), (&origin.url.clone().into(), &Value::Array(vec![])));
        // Not the origin's process, of which there is one.
        let level = &record["iterations"][0];
        if was_read(level) {
            assert!(level["server"]["processes"]["processes_max"].as_u64() > Some(1), "{policy}");
        }
        let mut logged = proxy.logged(before + 120).split_off(before);
        logged.retain(|line| line.starts_with("GET "));
        assert_eq!(logged.len(), 120, "{policy}");
        let of_origin = format!("GET {}/", origin.url);
        assert!(logged.iter().all(|line| line.starts_with(&of_origin)), "{policy}: {}", logged[0]);
    }
}
