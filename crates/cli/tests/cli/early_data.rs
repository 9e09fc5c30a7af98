//! Early data (0-RTT) over QUIC, taken and rejected, and what qlog says of it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::own_servers::{directory, is_installed};
use crate::program::{Server, webstone_in};

/// A connection for each request, with early data from the second on.
const EARLY: [&str; 7] =
    ["--http", "3", "--connections", "per-request", "--tls-resume", "100%", "--early-data"];

/// Asks the server for a fault on every n-th connection from now on.
fn ask(dir: &Path, server: &Server, fault: &str, every: u32) {
    let url = format!("{}/.webstone/fault?fault={fault}&times=0&every={every}", server.url);
    let said = webstone_in(dir, &["hit", &url, "-k", "-c", "1", "-n", "1", "-d", "0", "--warmup", "0s"]);
    assert!(matches!(said.code, 0 | 4), "{said:?}");
}

#[test]
fn early_data_is_taken_or_sent_again_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--tls", "--http", "3"]);
    // Of each third connection from now on. Its tickets allow none, so that the next one sends none.
    ask(dir.path(), &server, "reject-early-data", 3);
    let url = format!("{}/test", server.url);
    let load = ["run", &url, "-k", "-c", "1", "-n", "20", "-d", "0", "--warmup", "0s", "--no-store"];
    let qlog = ["--qlog", "qlogs", "--qlog-connections", "3", "--format", "json"];
    let said = webstone_in(dir.path(), &[&load[..], &EARLY, &qlog].concat());
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let measured = &record["iterations"][0]["measured"];
    let (handshakes, http3) = (&measured["handshakes"], &measured["http3"]);
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    assert_eq!((number(&measured["counts"], "succeeded"), number(&measured["counts"], "failed")), (20, 0));
    assert_eq!((number(handshakes, "full"), number(handshakes, "resumed")), (1, 19));
    let [taken, rejected] =
        ["early_data_accepted", "early_data_rejected"].map(|name| number(handshakes, name));
    assert!((5..=7).contains(&taken) && (5..=7).contains(&rejected), "{handshakes}");
    assert_eq!(
        (number(http3, "early_requests"), number(http3, "early_repeated")),
        (taken + rejected, rejected)
    );
    let mut files: Vec<_> =
        std::fs::read_dir(dir.path().join("qlogs")).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3);
    let mut early = 0;
    for (place, file) in files.iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        let events: Vec<Value> = text
            .split_terminator('\n')
            .map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap())
            .collect();
        let has = |what: &str| text.contains(what);
        assert!(
            events.len() > 5 && has("transport:packet_received") && has("recovery:metrics_updated"),
            "{text}"
        );
        early += usize::from(has("\"packet_type\":\"0RTT\""));
        assert!(place > 0 || early == 0, "the first connection has no session");
        assert!(has("connectivity:connection_closed"), "{text}");
    }
    assert!((1..=2).contains(&early), "{early}");
    let said = webstone_in(dir.path(), &["hit", &url, "-k", "--qlog", "qlogs"]);
    assert!(said.code == 2 && said.err.contains("qlog is of QUIC"), "{said:?}");
    let said = webstone_in(dir.path(), &["hit", &url, "-k", "--http", "3", "--quic-version", "2"]);
    assert!(said.code == 1, "{said:?}");
    assert!(
        said.err.contains("the server does not speak version 2 of QUIC; it offers 1, draft-29,"),
        "{said:?}"
    );
}

/// Requests that the server answers with 425 (Too Early) are sent again after the handshake, and count once.
#[test]
fn requests_that_are_too_early_are_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--tls", "--http", "3"]);
    ask(dir.path(), &server, "too-early", 2);
    let url = format!("{}/test", server.url);
    let load = ["run", &url, "-k", "-c", "1", "-n", "20", "-d", "0", "--warmup", "0s", "--no-store"];
    let said = webstone_in(dir.path(), &[&load[..], &EARLY, &["--format", "json"]].concat());
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let measured = &record["iterations"][0]["measured"];
    let number = |name: &str| measured.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!((number("/counts/succeeded"), number("/counts/failed")), (20, 0), "{}", said.err);
    let (early, too_early) = (number("/handshakes/early_data_accepted"), number("/handshakes/too_early"));
    assert!(early == 19 && (9..=10).contains(&too_early), "{measured}");
    assert_eq!(number("/lifetime/requests"), 20 + too_early);
}

/// nginx answers early data over TLS with 425, as RFC 8470 has it: its log has the same counts. (Over QUIC it takes none with
/// Debian's OpenSSL.)
#[test]
fn nginx_finds_requests_too_early() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let dir = directory();
    let at = dir.path();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "daemon off; master_process off; pid pid; error_log error.log;
         events {{ }}
         http {{
           log_format early '$status $ssl_early_data'; access_log access.log early;
           server {{
             listen 127.0.0.1:{port} ssl;
             ssl_certificate cert.pem; ssl_certificate_key key.pem; ssl_protocols TLSv1.3; ssl_early_data on;
             location / {{ if ($ssl_early_data) {{ return 425; }} return 200 hello; }}
           }}
         }}"
    );
    std::fs::write(at.join("nginx.conf"), config).unwrap();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut nginx = Command::new("nginx")
        .arg("-p")
        .arg(at)
        .args(["-c", "nginx.conf", "-e", "error.log"])
        .spawn()
        .unwrap();
    let listens = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let url = format!("https://127.0.0.1:{port}/x");
    let load = ["run", &url, "-k", "-c", "1", "-n", "20", "-d", "0", "--warmup", "0s", "--no-store"];
    let early = [&EARLY[2..], &["--format", "json"]].concat();
    let said = webstone_in(at, &[&load[..], &early].concat());
    nginx.kill().unwrap();
    nginx.wait().unwrap();
    let log = std::fs::read_to_string(at.join("access.log")).unwrap_or_default();
    assert!(listens, "{}", std::fs::read_to_string(at.join("error.log")).unwrap_or_default());
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let measured = &record["iterations"][0]["measured"];
    let number = |name: &str| measured.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!((number("/counts/succeeded"), number("/counts/failed")), (20, 0), "{measured}");
    assert!(number("/handshakes/too_early") > 10, "{measured}");
    let refused = log.lines().filter(|line| *line == "425 1").count() as u64;
    assert_eq!(number("/handshakes/too_early"), refused, "{log}");
}
