//! HTTP/3 of the servers that webstone configures, and in commands beside `run`.

use std::path::Path;

use crate::own_servers::{directory, is_installed, measured};
use crate::program::{Server, webstone_in};

/// What `cargo xtask test` unpacks, by the server's name.
const UNPACKED: [(&str, &str); 2] = [
    ("nginx", "/opt/webstone-http3/usr/sbin/nginx"),
    ("envoy", "/opt/webstone-http3/envoy/envoy/_bin/envoy"),
];

/// A server's program as flags, if it is there.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn program(server: &str) -> Option<Vec<&'static str>> {
    let Some((_, program)) = UNPACKED.iter().find(|(name, _)| *name == server) else {
        return is_installed(server, server).then(Vec::new);
    };
    if !Path::new(program).is_file() {
        println!("skipped: {program} is missing; as root, sh xtask/http3.sh /opt/webstone-http3");
        return None;
    }
    Some(vec!["--server-program", program])
}

/// The same files, checked byte by byte, in each version, with the certificate that is made for the run.
fn serves(server: &str, versions: &[(&str, &str)]) {
    let Some(program) = program(server) else { return };
    let dir = directory();
    for (http, alpn) in versions {
        let flags = ["--tls", "--server-http3", "--http", http, "--connections", "per-request"];
        let record = measured(dir.path(), server, &[&flags[..], &program].concat());
        let measured = &record["iterations"][0]["measured"];
        let agreed = &measured["handshakes"]["agreed"][0];
        assert_eq!((&agreed["alpn"], &agreed["verified"]), (&(*alpn).into(), &true.into()), "{agreed}");
        assert_eq!(measured["http3"].is_object(), *http == "3");
    }
}

#[test]
fn nginx_speaks_it() {
    serves("nginx", &[("3", "h3")]);
}

#[test]
fn caddy_speaks_it() {
    serves("caddy", &[("3", "h3")]);
}

#[test]
fn envoy_speaks_all_versions_at_one_port() {
    serves("envoy", &[("1.1", "http/1.1"), ("2", "h2"), ("3", "h3")]);
}

#[test]
fn files_are_checked_in_it() {
    let dir = directory();
    let cert = dir.path().join("cert.pem").display().to_string();
    let server = Server::start(dir.path(), &["--tls", "--http", "3", "--tls-certificate-to", &cert]);
    let said = webstone_in(dir.path(), &["checkfiles", &server.url, "--http", "3", "--cacert", &cert]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("all are as they should be"), "{}", said.err);
    let url = server.url.replace("https:", "http:");
    let said = webstone_in(dir.path(), &["checkfiles", &url, "--http", "3"]);
    let expected = format!(
        "error: --http: `3`, but {url} is without TLS, which HTTP/3 always has\nhint: write https://, or leave out --http\n"
    );
    assert_eq!((said.code, said.err), (2, expected));
}

/// A server that is up is not told which version to speak.
#[test]
fn servers_that_are_up_are_contestants_in_it() {
    let dir = directory();
    let cert = dir.path().join("cert.pem").display().to_string();
    let server = Server::start(dir.path(), &["--tls", "--http", "3", "--tls-certificate-to", &cert]);
    let [old, new] = ["old", "new"].map(|name| format!("{name}={}", server.url));
    let flags = [
        "--path",
        "/file500.html",
        "--http",
        "3",
        "--cacert",
        &cert,
        "-c",
        "2",
        "--no-twin",
        "--no-store",
        "--format",
        "json",
    ];
    let short = ["--restart-every", "500ms", "--precision", "100%", "--at-most", "40s"];
    let said = webstone_in(dir.path(), &[&["duel", &old, &new][..], &flags, &short].concat());
    let report: serde_json::Value =
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    assert_eq!(report["duel"]["contestants"].as_array().unwrap().len(), 2, "{}", said.err);
}

/// Requests, connections and bytes of several workers are the server's, and all identities hold.
#[test]
fn several_workers_count_what_the_server_counts() {
    for connections in [&["--keep-alive"][..], &["--connections", "per-request"]] {
        let dir = directory();
        let log = dir.path().join("access.log").display().to_string();
        let load =
            ["run", "--http", "3", "--workers", "2", "-c", "6", "-n", "300", "-d", "0s", "--warmup", "0s"];
        let more = ["-w", "workout-16k", "--server-log", &log, "--no-store", "--format", "json", "-q"];
        let said = webstone_in(dir.path(), &[&load[..], &more, connections].concat());
        let record: serde_json::Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
        let run = &record["iterations"][0];
        let (measured, server) = (&run["measured"], &run["server"]);
        assert_eq!(measured["generator"]["workers"].as_array().unwrap().len(), 2, "{}", said.err);
        assert_eq!(
            (&measured["counts"]["succeeded"], &measured["counts"]["failed"]),
            (&300.into(), &0.into())
        );
        let lifetime = &measured["lifetime"];
        assert_eq!(server["requests"], lifetime["requests"], "{server}");
        assert_eq!(server["accepted"], lifetime["connections"], "{server}");
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        assert!(number(&lifetime["received_bytes"]) <= number(&server["sent_bytes"]), "{lifetime} {server}");
        let is_broken = |check: &&serde_json::Value| check["holds"] == false && check["number"] != 2;
        assert!(run["identities"].as_array().unwrap().iter().find(is_broken).is_none(), "{run}");
        let logged = std::fs::read_to_string(log).unwrap();
        let bytes = logged.lines().map(|line| line.split(' ').nth(9).unwrap().parse::<u64>().unwrap());
        let (lines, bytes) = (logged.lines().count() as u64, bytes.sum::<u64>());
        assert!(lines >= 300 && bytes >= number(&measured["counts"]["body_bytes"]), "{lines} {bytes}");
    }
}
