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
