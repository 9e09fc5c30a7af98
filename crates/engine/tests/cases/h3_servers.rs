//! HTTP/3 with other servers, if they are installed: we count what they log, request by request and connection by connection.

use std::collections::BTreeSet;
use std::path::Path;

use super::h2_servers::{Served, nginx_paths, start};
use super::peer::{errors, file, one_page, run, spec};
use webstone_engine::LevelOutcome;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::HttpVersion;

/// What `cargo xtask test` unpacks.
const NGINX: &str = "/opt/webstone-http3/usr/sbin/nginx";

/// Writes a certificate for 127.0.0.1 and its key, and an empty file to serve.
fn certificate(directory: &Path) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(directory.join("www/empty"), "").unwrap();
}

fn nginx() -> Option<Served> {
    start(NGINX, |directory, port| {
        certificate(directory);
        let at = directory.display();
        let paths = nginx_paths(directory);
        let configuration = format!(
            "master_process off; daemon off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
             http {{ {paths} log_format l '$connection_requests $http3 $status $body_bytes_sent $request_method $ssl_session_reused';\n\
             server {{ listen 127.0.0.1:{port} quic; listen 127.0.0.1:{port} ssl; ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;\n\
             root {at}/www; access_log {at}/access.log l; keepalive_requests 100; }} }}"
        );
        std::fs::write(directory.join("nginx.conf"), configuration).unwrap();
        vec!["-c".to_owned(), format!("{at}/nginx.conf")]
    })
}

fn caddy() -> Option<Served> {
    start("caddy", |directory, port| {
        certificate(directory);
        let at = directory.display();
        let configuration = format!(
            "{{\n admin off\n auto_https off\n storage file_system {at}/storage\n}}\n\
             https://:{port} {{\n bind 127.0.0.1\n tls {at}/cert.pem {at}/key.pem\n root * {at}/www\n file_server\n\
             log {{\n  output file {at}/access.log\n }}\n}}\n"
        );
        std::fs::write(directory.join("Caddyfile"), configuration).unwrap();
        ["run", "--adapter", "caddyfile", "--config", &format!("{at}/Caddyfile")].map(str::to_owned).into()
    })
}

fn load(served: &Served, policy: ConnectionPolicy, pages: u64, each: u32) -> LevelOutcome {
    let url = served.url.replace("http:", "https:");
    let mut spec = spec(&url, policy, pages);
    spec.client.http = HttpVersion::Http3;
    spec.client.tls.cacert = Some(served.directory.join("cert.pem").display().to_string());
    spec.client.clients_per_connection = each;
    spec.client.parallel = 2;
    let files = vec![file("/small", Some(100)), file("/large", Some(300_000)), file("/empty", Some(0))];
    let outcome = run(&spec, &one_page(files), 10);
    assert_eq!(errors(&outcome), [], "{policy:?}: {:?}", outcome.measured.errors);
    assert_eq!(outcome.measured.counts.body_bytes, pages * 300_100);
    outcome
}

#[test]
fn counts_are_those_of_nginx() {
    let Some(served) = nginx() else { return };
    let mut logged = 0;
    for (policy, pages, each) in [(PerRequest, 40, 1), (PerPage, 40, 1), (KeepAlive, 120, 5)] {
        let outcome = load(&served, policy, pages, each);
        let log = served.logged("access.log", logged + 3 * pages);
        let lines: Vec<&str> = log.lines().skip(logged as usize).collect();
        logged += lines.len() as u64;
        assert!(lines.iter().all(|line| line.contains(" h3 200 ")), "{policy:?}: {log}");
        // A request that came after GOAWAY was sent again, and is not logged.
        assert_eq!(lines.len() as u64, 3 * pages, "{policy:?}");
        let firsts = lines.iter().filter(|line| line.starts_with("1 ")).count() as u64;
        assert_eq!(firsts, outcome.measured.lifetime.connections, "{policy:?}");
        let bytes = lines.iter().map(|line| line.split(' ').nth(3).unwrap().parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), outcome.measured.counts.body_bytes);
        let http3 = outcome.measured.http3.unwrap();
        // It ends a connection every hundred requests by GOAWAY.
        assert_eq!(http3.goaways > 0, policy == KeepAlive, "{http3:?}");
    }
}

/// A number in a line of JSON, after its name.
fn value<'a>(line: &'a str, name: &str) -> &'a str {
    let rest = line.split(name).nth(1).unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap()
}

#[test]
fn counts_are_those_of_caddy() {
    let Some(served) = caddy() else { return };
    let mut logged = 0;
    for (policy, pages, each) in [(PerRequest, 30, 1), (KeepAlive, 60, 5)] {
        let outcome = load(&served, policy, pages, each);
        let log = served.logged("access.log", logged + 3 * pages);
        let lines: Vec<&str> = log.lines().skip(logged as usize).collect();
        logged += lines.len() as u64;
        assert_eq!(lines.len() as u64, 3 * pages, "{policy:?}");
        let is_whole =
            |line: &&str| line.contains(r#""proto":"HTTP/3.0""#) && line.contains(r#""status":200"#);
        assert!(lines.iter().all(is_whole), "{policy:?}: {log}");
        let bytes = lines.iter().map(|line| value(line, r#""size":"#).parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), outcome.measured.counts.body_bytes);
        // Each connection has a port of its own, which a later one may have again.
        let ports: BTreeSet<&str> = lines.iter().map(|line| value(line, r#""remote_port":""#)).collect();
        let made = outcome.measured.lifetime.connections;
        assert_eq!(made, if policy == KeepAlive { 2 } else { 3 * pages });
        assert!(ports.len() as u64 * 10 > made * 8 && ports.len() as u64 <= made, "{policy:?}: {ports:?}");
    }
}
