//! TLS and HTTP/2 of servers that webstone configures: what curl and OpenSSL negotiate with each of them, in both
//! profiles.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use webstone_lab::interrupt::Interrupt;
use webstone_lab::servers::{Launch, RunningServer, ServerError};
use webstone_measure::units::Nanos;
use webstone_model::server_tls::{CertificateKey, ServerTls};
use webstone_model::spec::{Profile, ServerSpec, Software};
use webstone_workload::tls::TlsVersion;
use webstone_workload::{FileRequest, Page, Workload};

use crate::own_servers::{directory, is_installed, measured};

/// A file of the workload, and its length.
const FILE: (&str, u64) = ("/tls-test.html", 5000);

fn workload() -> Workload {
    let file = FileRequest { url: FILE.0.into(), size: Some(FILE.1), ..FileRequest::default() };
    Workload { pages: vec![Page { weight: 1, files: vec![file], think: Nanos::ZERO }], ..Workload::default() }
}

fn start(spec: &ServerSpec, origin: &str) -> Result<RunningServer, ServerError> {
    let workload = workload();
    let launch = Launch {
        webstone: assert_cmd::cargo::cargo_bin!("webstone").into(),
        spec,
        workload: &workload,
        cpus: &[],
        are_kept: true,
        connections: 10,
        origin: origin.to_owned(),
        patience: Duration::from_secs(60),
    };
    RunningServer::start(&launch, &Interrupt::default())
}

fn said(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// curl's result: version, status, bytes.
fn fetched(server: &RunningServer, flags: &[&str]) -> String {
    fetched_from(server, server.url(), flags)
}

fn fetched_from(server: &RunningServer, base: &str, flags: &[&str]) -> String {
    let url = base.to_owned() + FILE.0;
    let trusted = server.certificate().map(|path| path.display().to_string());
    let trust: Vec<&str> = trusted.iter().flat_map(|path| ["--cacert", path.as_str()]).collect();
    let line = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code} %{size_download}"];
    said(&[&line[..], &trust, flags, &[&url]].concat())
}

/// Whether OpenSSL's client can resume the session of an earlier connection.
fn is_resumed(server: &RunningServer, version: TlsVersion, directory: &Path) -> bool {
    let session = directory.join("session");
    let session = session.to_str().unwrap();
    let _ = fs::remove_file(session);
    let flag = if version == TlsVersion::Tls12 { "-tls1_2" } else { "-tls1_3" };
    let address = server.url().trim_start_matches("https://").to_owned();
    let connect = |how: &str| {
        // Until the answer arrives: tickets of TLS 1.3 come after the handshake.
        let line = format!(
            "(printf 'GET {} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'; sleep 0.3) | \
             openssl s_client -connect {address} -servername localhost {flag} {how} {session} -ign_eof 2>&1",
            FILE.0
        );
        said(&["timeout", "20", "sh", "-c", &line])
    };
    let first = connect("-sess_out");
    assert!(first.contains("New, TLSv1"), "{first}");
    if !Path::new(session).exists() {
        return false;
    }
    connect("-sess_in").contains("Reused, TLSv1")
}

/// Runs a server with all of its TLS options.
fn speaks_tls(software: Software, program: &str, package: &str) {
    if !is_installed(program, package) || !is_installed("curl", "curl") || !is_installed("openssl", "openssl")
    {
        return;
    }
    let origin = software.is_proxy().then(|| {
        start(&ServerSpec { software: Software::Nginx, ..ServerSpec::default() }, "").expect("an origin")
    });
    let origin = origin.as_ref().map(|server| server.url().trim_start_matches("http://").to_owned());
    let origin = origin.unwrap_or_default();
    let directory = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (profile, certificate, versions, tickets, session_cache) in [
        (Profile::Stock, CertificateKey::Ecdsa, &[TlsVersion::Tls12, TlsVersion::Tls13][..], None, None),
        (Profile::Tuned, CertificateKey::Rsa, &[TlsVersion::Tls12, TlsVersion::Tls13], None, None),
        (Profile::Stock, CertificateKey::Ecdsa, &[TlsVersion::Tls12], Some(true), Some(false)),
        (Profile::Tuned, CertificateKey::Ecdsa, &[TlsVersion::Tls12], Some(false), Some(true)),
        (Profile::Stock, CertificateKey::Ecdsa, &[TlsVersion::Tls13], Some(true), Some(false)),
        (Profile::Stock, CertificateKey::Rsa, &[TlsVersion::Tls13], Some(false), Some(true)),
        (Profile::Tuned, CertificateKey::Ecdsa, &[TlsVersion::Tls13], Some(false), Some(false)),
        (Profile::Stock, CertificateKey::Ecdsa, &[TlsVersion::Tls12], Some(false), Some(false)),
    ] {
        let tls = ServerTls {
            certificate,
            versions: versions.to_vec(),
            tickets,
            session_cache,
            ..ServerTls::default()
        };
        let http2 = software != Software::ApachePrefork;
        let spec = ServerSpec { software, profile, tls: Some(tls), http2, ..ServerSpec::default() };
        let case =
            format!("{software:?} {profile:?} {certificate:?} {versions:?} {tickets:?} {session_cache:?}");
        if let Err(refused) = webstone_lab::servers::check(&spec) {
            // What this server cannot express.
            assert!(refused.what.contains("server.tls."), "{case}: {refused}");
            continue;
        }
        seen += 1;
        let server = start(&spec, &origin).unwrap_or_else(|error| panic!("{case}: {error}"));
        let alone = software == Software::Nghttpd;
        if !alone {
            assert_eq!(fetched(&server, &["--http1.1"]), "1.1 200 5000", "{case}");
        }
        assert_eq!(
            fetched(&server, &["--http2"]),
            if http2 { "2 200 5000" } else { "1.1 200 5000" },
            "{case}"
        );
        for (version, flags) in [
            (TlsVersion::Tls12, ["--tlsv1.2", "--tls-max", "1.2"]),
            (TlsVersion::Tls13, ["--tlsv1.3", "--tls-max", "1.3"]),
        ] {
            let answer = fetched(&server, &flags);
            assert_eq!(
                answer.ends_with("200 5000"),
                versions.contains(&version),
                "{case} {version}: {answer}"
            );
        }
        let address = server.url().trim_start_matches("https://").to_owned();
        let text = said(&["openssl", "s_client", "-connect", &address, "-servername", "localhost"]);
        let kind = if certificate == CertificateKey::Rsa { "rsaEncryption" } else { "id-ecPublicKey" };
        assert!(text.contains(&format!("a:PKEY: {kind}")), "{case}: {text}");
        if let (Some(tickets), Some(cache), [version], false) = (tickets, session_cache, versions, alone) {
            assert_eq!(is_resumed(&server, *version, directory.path()), tickets || cache, "{case}");
        }
        let facts: Vec<String> =
            server.facts().into_iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
        assert!(facts.iter().any(|fact| fact.starts_with("server.tls: TLS 1.")), "{facts:?}");
        // The record has everything except the key.
        let kept = serde_json::to_string(&server.configuration()).unwrap();
        assert!(!kept.contains("PRIVATE KEY"), "{kept}");
    }
    assert!(seen > 0, "{software:?}");
}

/// The suite that a client which prefers AES-128, as webstone's does, agrees on with the tuned profile.
fn takes_the_clients_suite(software: Software, origin: &str) {
    for (versions, flags, suite) in [
        (
            TlsVersion::Tls13,
            ["-ciphersuites", "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"],
            "TLS_AES_128",
        ),
        (
            TlsVersion::Tls12,
            ["-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"],
            "ECDHE-ECDSA-AES128",
        ),
    ] {
        let tls = ServerTls { versions: vec![versions], ..ServerTls::default() };
        let spec = ServerSpec { software, profile: Profile::Tuned, tls: Some(tls), ..ServerSpec::default() };
        let server = start(&spec, origin).unwrap_or_else(|error| panic!("{software:?}: {error}"));
        let address = server.url().trim_start_matches("https://").to_owned();
        let line = ["openssl", "s_client", "-connect", &address, "-servername", "localhost"];
        let text = said(&[&line[..], &flags].concat());
        assert!(text.contains(&format!("Cipher is {suite}")), "{software:?} {versions}: {text}");
    }
}

#[test]
fn tuned_servers_take_the_suite_that_clients_prefer() {
    if !is_installed("openssl", "openssl") {
        return;
    }
    if is_installed("nginx", "nginx-light") && is_installed("haproxy", "haproxy") {
        let origin = start(&ServerSpec { software: Software::Nginx, ..ServerSpec::default() }, "").unwrap();
        takes_the_clients_suite(Software::Haproxy, origin.url().trim_start_matches("http://"));
    }
    for (software, program, package) in [
        (Software::Nginx, "nginx", "nginx-light"),
        (Software::Apache, "apache2", "apache2"),
        (Software::Caddy, "caddy", "caddy"),
        // An absolute path is used as it is.
        (Software::Lighttpd, "/usr/lib/lighttpd/mod_openssl.so", "lighttpd-mod-openssl"),
    ] {
        if is_installed(program, package) {
            takes_the_clients_suite(software, "");
        }
    }
}

fn speaks_http2_without_tls(software: Software, program: &str, package: &str) {
    if !is_installed(program, package) || !is_installed("curl", "curl") {
        return;
    }
    for profile in [Profile::Stock, Profile::Tuned] {
        let spec = ServerSpec { software, profile, http2: true, ..ServerSpec::default() };
        let server = start(&spec, "").unwrap_or_else(|error| panic!("{software:?}: {error}"));
        assert_eq!(fetched(&server, &["--http2-prior-knowledge"]), "2 200 5000", "{software:?}");
    }
}

/// A server that listens with and without TLS answers on both ports, and on neither to the other's protocol.
fn listens_for_both(software: Software, origin: &str) {
    for (profile, http2) in [(Profile::Stock, false), (Profile::Tuned, false), (Profile::Tuned, true)] {
        let http2 = http2 && software != Software::ApachePrefork;
        let tls = ServerTls { listen: Some("127.0.0.1:0".into()), ..ServerTls::default() };
        let spec = ServerSpec { software, profile, tls: Some(tls), http2, ..ServerSpec::default() };
        let case = format!("{software:?} {profile:?} HTTP/2 {http2}");
        let server = start(&spec, origin).unwrap_or_else(|error| panic!("{case}: {error}"));
        let secure = server.secure_url().expect("it listens for both");
        assert!(server.url().starts_with("http://") && secure.starts_with("https://"), "{case}");
        // nginx before 1.25.1 then speaks only HTTP/2 without TLS.
        let (flag, version) = if http2 { ("--http2-prior-knowledge", "2") } else { ("--http1.1", "1.1") };
        assert_eq!(fetched(&server, &[flag]), format!("{version} 200 5000"), "{case}");
        let flag = if http2 { "--http2" } else { "--http1.1" };
        assert_eq!(fetched_from(&server, &secure, &[flag]), format!("{version} 200 5000"), "{case}");
        let crossed = fetched_from(&server, &secure.replace("https:", "http:"), &["--http1.1"]);
        assert!(!crossed.ends_with("200 5000"), "{case}: {crossed}");
        let crossed = fetched_from(&server, &server.url().replace("http:", "https:"), &[]);
        assert!(!crossed.ends_with("200 5000"), "{case}: {crossed}");
        let facts = server.facts();
        let told = facts.iter().find(|(name, _)| *name == "server.tls").map(|(_, fact)| fact.as_str());
        assert!(told.is_some_and(|fact| fact.contains("at one address, without TLS at another")), "{told:?}");
    }
}

#[test]
fn servers_listen_with_and_without_tls() {
    if !is_installed("curl", "curl") {
        return;
    }
    let has_nginx = is_installed("nginx", "nginx-light");
    if has_nginx {
        listens_for_both(Software::Nginx, "");
        let origin = start(&ServerSpec { software: Software::Nginx, ..ServerSpec::default() }, "").unwrap();
        let behind = origin.url().trim_start_matches("http://").to_owned();
        listens_for_both(Software::NginxProxy, &behind);
        if is_installed("haproxy", "haproxy") {
            listens_for_both(Software::Haproxy, &behind);
        }
    }
    if is_installed("apache2", "apache2") {
        listens_for_both(Software::Apache, "");
        listens_for_both(Software::ApachePrefork, "");
    }
    // An absolute path is used as it is.
    if is_installed("lighttpd", "lighttpd")
        && is_installed("/usr/lib/lighttpd/mod_openssl.so", "lighttpd-mod-openssl")
    {
        listens_for_both(Software::Lighttpd, "");
    }
    if is_installed("caddy", "caddy") {
        listens_for_both(Software::Caddy, "");
    }
}

/// A mix whose numbers are certain: a page with two files without TLS and one over TLS.
#[test]
fn a_mix_is_asked_of_one_server_as_the_workload_says() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[[pages]]\nfiles = [{ url = \"/a.html\", size = 500 }, { url = \"/b.html\", size = 700, tls = true }, \
                { url = \"/c.html\", size = 900 }]\n";
    fs::write(dir.path().join("mix.toml"), text).unwrap();
    let mut servers = vec!["reference"];
    servers.extend(is_installed("nginx", "nginx-light").then_some("nginx"));
    for server in servers {
        // One client: there is a session for every handshake but the first.
        for (share, full) in [("0%", 60), ("100%", 1)] {
            let line = [
                "run", "--server", server, "-w", "mix.toml", "-c", "1", "--pages", "60", "-d", "0s", "-i",
                "1",
            ];
            let more = ["--warmup", "0s", "--connections", "per-request", "--tls-resume", share];
            let output = ["--format", "json", "-q"];
            let said = crate::program::webstone_in(dir.path(), &[&line[..], &more, &output].concat());
            assert!(matches!(said.code, 0 | 4), "{server}: {said:?}");
            let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            let run = &report["iterations"][0]["measured"];
            assert_eq!(run["counts"]["succeeded"], 180, "{server}: {said:?}");
            assert_eq!(run["counts"]["connections"], 180, "{server}");
            let handshakes = &run["handshakes"];
            assert_eq!(
                (&handshakes["full"], &handshakes["failed"]),
                (&full.into(), &0.into()),
                "{server} {share}"
            );
            assert_eq!(handshakes["resumed"], 60 - full, "{server} {share}");
            assert_eq!(handshakes["in_the_clear"], 120, "{server} {share}");
            let urls = report["target"]["url"].as_str().unwrap();
            assert!(urls.starts_with("http://") && urls.contains(" https://"), "{urls}");
        }
    }
    // Misbehaving connections use the address with TLS.
    let line =
        ["workout", "-w", "mix.toml", "-c", "1", "-n", "20", "--rounds", "1", "--offenders", "2", "--json"];
    let said = crate::program::webstone_in(dir.path(), &line);
    let workout = serde_json::from_str::<serde_json::Value>(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!(workout["workout"]["speaks"], "HTTP/1.1 over TLS", "{said:?}");
    assert!(workout["workout"]["target"].as_str().unwrap().starts_with("https://"), "{said:?}");
    let phases = workout["workout"]["phases"].as_array().unwrap();
    assert!(phases.len() == 3 && phases.iter().all(|phase| phase["service"]["failed"] == 0), "{said:?}");
    let said = crate::program::webstone_in(dir.path(), &["run", "http://127.0.0.1:9", "-w", "mix.toml"]);
    assert!(said.code == 2 && said.err.contains("name the server's https:// URL too"), "{said:?}");
}

/// Every cell of SPICE and of scaling over TLS has a handshake for each connection, full or resumed as requested; a
/// cell without TLS has none.
#[test]
fn series_are_measured_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let levels = |line: &[&str]| {
        let short = [
            "-c",
            "2",
            "-n",
            "60",
            "-d",
            "0s",
            "--warmup",
            "0s",
            "-i",
            "1",
            "--retries",
            "0",
            "--connections",
        ];
        let more = ["per-request", "-w", "workout-16k", "--format", "json", "-q"];
        let said = crate::program::webstone_in(dir.path(), &[line, &short, &more].concat());
        assert!(matches!(said.code, 0 | 4), "{line:?}: {said:?}");
        let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let of = |cell: &serde_json::Value| {
            let level = &cell["levels"][0];
            assert_eq!(level["error_level_percent"], 0.0, "{cell}");
            (cell["name"].as_str().unwrap().to_owned(), level["tls"]["full_percent"].as_f64())
        };
        report["computed"]["cells"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let all = Some(100.0);
    let mut servers = vec!["reference"];
    servers.extend(is_installed("nginx", "nginx-light").then_some("nginx"));
    for server in servers {
        let found = levels(&["spice", server, "--tls", "--interfaces", "fastcgi"]);
        assert_eq!(found, [(format!("{server}-static"), all), (format!("{server}-fastcgi"), all)]);
        if std::thread::available_parallelism().unwrap().get() < 2 {
            continue;
        }
        let found = levels(&["scale", server, "--cpus", "1,2", "--tls"]);
        assert_eq!(found, [(format!("{server}-1cpu"), all), (format!("{server}-2cpu"), all)]);
        let found = levels(&["scale", server, "--cpus", "1,2", "--handshakes", "off,resumed"]);
        assert_eq!((found.len(), found[0].1, found[2].1), (4, None, None), "{found:?}");
        assert!(found[1].0.ends_with("-1cpu-tls-resumed") && found[1].1.unwrap() < 50.0, "{found:?}");
    }
}

/// A certificate of the user's is for a name that the server is not asked by. Its handler is waited for, and the reference server's
/// counters are read, as with one that webstone made.
#[test]
fn a_certificate_of_the_users_is_enough_for_handlers_and_counters() {
    if !is_installed("openssl", "openssl") {
        return;
    }
    let dir = directory();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, workload) = (path("own.crt"), path("own.key"), path("send.toml"));
    let line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let more = ["-days", "9", "-subj", "/CN=www.example.org", "-keyout", &key, "-out", &cert];
    let printed = said(&[&line[..], &more].concat());
    assert!(Path::new(&cert).exists(), "{printed}");
    fs::write(&workload, "[[pages]]\nfiles = [{ url = \"/send?size=700\", size = 700 }]\n").unwrap();
    let files = format!("{cert},{key}");
    let mut servers = vec!["reference"];
    servers.extend(is_installed("nginx", "nginx-light").then_some("nginx"));
    for server in servers {
        let own = ["--tls", "--insecure", "--server-tls-cert", &files, "--server-interface", "fastcgi"];
        let record = measured(dir.path(), server, &[&own[..], &["-w", &workload]].concat());
        let used = &record["iterations"][0]["server"];
        assert!(server != "reference" || used["requests"].as_u64() >= Some(60), "{used}");
    }
}

#[test]
fn nginx_speaks_tls() {
    speaks_tls(Software::Nginx, "nginx", "nginx-light");
    speaks_http2_without_tls(Software::Nginx, "nginx", "nginx-light");
}

#[test]
fn apache_speaks_tls() {
    speaks_tls(Software::Apache, "apache2", "apache2");
    speaks_http2_without_tls(Software::Apache, "apache2", "apache2");
}

#[test]
fn apache_prefork_speaks_tls() {
    speaks_tls(Software::ApachePrefork, "apache2", "apache2");
    let spec = ServerSpec { software: Software::ApachePrefork, http2: true, ..ServerSpec::default() };
    let refused = webstone_lab::servers::check(&spec).unwrap_err();
    assert!(refused.what.contains("server.http2: mod_http2 needs threads"), "{refused}");
}

#[test]
fn lighttpd_speaks_tls() {
    // An absolute path is used as it is.
    if is_installed("/usr/lib/lighttpd/mod_openssl.so", "lighttpd-mod-openssl") {
        speaks_tls(Software::Lighttpd, "lighttpd", "lighttpd");
        speaks_http2_without_tls(Software::Lighttpd, "lighttpd", "lighttpd");
    }
}

#[test]
fn caddy_speaks_tls() {
    speaks_tls(Software::Caddy, "caddy", "caddy");
    speaks_http2_without_tls(Software::Caddy, "caddy", "caddy");
}

#[test]
fn nghttpd_speaks_http2_alone() {
    speaks_tls(Software::Nghttpd, "nghttpd", "nghttp2-server");
    speaks_http2_without_tls(Software::Nghttpd, "nghttpd", "nghttp2-server");
    let spec = ServerSpec { software: Software::Nghttpd, ..ServerSpec::default() };
    let refused = webstone_lab::servers::check(&spec).unwrap_err();
    assert!(refused.what.contains("only HTTP/2") && refused.hint.contains("--http 2"), "{refused}");
    let tls = ServerTls { listen: Some("127.0.0.1:0".into()), ..ServerTls::default() };
    let spec =
        ServerSpec { software: Software::Nghttpd, http2: true, tls: Some(tls), ..ServerSpec::default() };
    let refused = webstone_lab::servers::check(&spec).unwrap_err();
    assert!(refused.what.contains("server.tls.listen: nghttpd listens at one address"), "{refused}");
}

#[test]
fn proxies_end_tls() {
    speaks_tls(Software::Haproxy, "haproxy", "haproxy");
    speaks_tls(Software::NginxProxy, "nginx", "nginx-light");
}
