//! HTTP/2 with other servers, if they are installed: we count what they log.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::peer::{errors, file, one_page, run, spec};
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerPage, PerRequest};
use webstone_workload::load::HttpVersion;

/// A server that ends with its test, with files of its own.
pub(super) struct Served {
    child: Child,
    pub(super) directory: PathBuf,
    pub(super) url: String,
}

impl Served {
    /// The log in a file of its directory, once it has this many lines or ten seconds have passed: nginx logs an
    /// answer after sending it.
    pub(super) fn logged(&self, file: &str, lines: u64) -> String {
        for _ in 0..1000 {
            let log = std::fs::read_to_string(self.directory.join(file)).unwrap();
            if log.lines().count() as u64 >= lines {
                return log;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::read_to_string(self.directory.join(file)).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Starts a program with arguments that depend on its directory and port; prints why and returns `None` if it is
/// missing.
pub(super) fn start(program: &str, arguments: impl Fn(&Path, u16) -> Vec<String>) -> Option<Served> {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .map(|at| Path::new(at).join(program))
        .find(|at| at.exists());
    let Some(found) = found else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let directory = std::env::temp_dir().join(format!("webstone-h2-{}-{port}", std::process::id()));
    std::fs::create_dir_all(directory.join("www")).unwrap();
    std::fs::write(directory.join("www/small"), [b'x'; 100]).unwrap();
    std::fs::write(directory.join("www/large"), vec![b'y'; 300_000]).unwrap();
    let child = Command::new(found)
        .args(arguments(&directory, port))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let served = Served { child, url: format!("http://127.0.0.1:{port}"), directory };
    for _ in 0..1000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(served);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{program} does not listen");
}

fn nghttpd() -> Option<Served> {
    start("nghttpd", |directory, port| {
        let www = directory.join("www").display().to_string();
        ["--no-tls", "-a", "127.0.0.1", "-d", &www, &port.to_string()].map(str::to_owned).into()
    })
}

/// Directives that keep nginx's temporary files in the directory: the default directories may belong to another user.
pub(super) fn nginx_paths(directory: &Path) -> String {
    let at = directory.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    kinds.iter().map(|kind| format!("{kind}_temp_path {at}/{kind}; ")).collect()
}

fn nginx() -> Option<Served> {
    start("nginx", |directory, port| {
        let at = directory.display();
        let paths = nginx_paths(directory);
        let configuration = format!(
            "master_process off; daemon off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
             http {{ {paths} log_format l '$connection $request $status $body_bytes_sent';\n\
             server {{ listen 127.0.0.1:{port} http2; root {at}/www; access_log {at}/access.log l; keepalive_requests 100; }} }}"
        );
        std::fs::write(directory.join("nginx.conf"), configuration).unwrap();
        vec!["-c".to_owned(), format!("{at}/nginx.conf")]
    })
}

#[test]
fn whole_answers_under_every_policy() {
    for served in [nghttpd(), nginx()].into_iter().flatten() {
        for (policy, per_connection, parallel) in
            [(PerRequest, 1, 1), (PerPage, 1, 4), (KeepAlive, 1, 1), (KeepAlive, 5, 3)]
        {
            let mut spec = spec(&served.url, policy, 100);
            spec.client.http = HttpVersion::Http2;
            spec.client.clients_per_connection = per_connection;
            spec.client.parallel = parallel;
            let files = ["/small", "/large", "/small?1", "/small?2"];
            let sizes = [100, 300_000, 100, 100];
            let files = files.iter().zip(sizes).map(|(url, size)| file(url, Some(size))).collect();
            let outcome = run(&spec, &one_page(files), 10);
            assert_eq!(errors(&outcome), [], "{policy:?}: {:?}", outcome.measured.errors);
            let counts = &outcome.measured.counts;
            assert_eq!((counts.succeeded, counts.body_bytes), (400, 100 * 300_300));
            let http2 = outcome.measured.http2.unwrap();
            assert_eq!(http2.streams - http2.refused, 400);
            // A refused request may have been sent or not.
            let written = outcome.measured.lifetime.requests;
            assert!((400..=http2.streams).contains(&written), "{written} of {http2:?}");
        }
    }
}

/// nginx ends a connection every hundred requests by GOAWAY: no request is lost, and none is made twice.
#[test]
fn counts_are_those_of_the_log() {
    let Some(served) = nginx() else { return };
    let mut spec = spec(&served.url, KeepAlive, 2_000);
    spec.client.http = HttpVersion::Http2;
    spec.client.clients_per_connection = 8;
    let outcome = run(&spec, &one_page(vec![file("/small", Some(100))]), 16);
    assert_eq!(errors(&outcome), []);
    assert_eq!(outcome.measured.counts.succeeded, 2_000);
    let http2 = outcome.measured.http2.unwrap();
    assert!(http2.goaways >= 18, "{http2:?}");
    let log = served.logged("access.log", 2_000);
    let answered: Vec<&str> =
        log.lines().filter(|line| line.contains("GET /small HTTP/2.0 200 100")).collect();
    assert_eq!(answered.len(), 2_000);
    let mut connections: Vec<&str> = answered.iter().filter_map(|line| line.split(' ').next()).collect();
    connections.sort_unstable();
    connections.dedup();
    // Every connection carried answers, except perhaps the last ones.
    let made = outcome.measured.lifetime.connections;
    assert!(
        (connections.len() as u64..=connections.len() as u64 + 2).contains(&made),
        "{made}, {}",
        connections.len()
    );
}
