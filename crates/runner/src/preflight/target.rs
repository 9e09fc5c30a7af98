//! Whether the target answers, before it is put under load: name, port, protocol, files. Each failure has a message
//! and a remedy of its own, because "no response" is what every one of them looks like under load.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use http::Uri;
use webstone_engine::{ProbeError, ProbeResponse};
use webstone_model::errors::ErrorClass;
use webstone_model::spec::RunSpec;
use webstone_model::workload::{RequestDetail, Workload};

use crate::checkfiles::{CheckOptions, FILES_HINT, FileProblem, check_with, distinct};
use crate::fetch::{Fetch, split_url};

/// Workloads with at most so many distinct files are checked whole before a run; larger ones by their first file.
pub const FILES_CHECKED_MAX: usize = 64;
/// Files that a message names; the rest is counted.
const FILES_NAMED_MAX: usize = 5;
/// Longest time for one connection or answer of a check.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of a target that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// Every address that load may go to.
    pub addresses: BTreeSet<SocketAddr>,
    /// Whether all of them are this host's.
    pub this_host: bool,
    /// `Server` field of its first answer.
    pub server: Option<String>,
    /// What could not be checked, or looked wrong without being surely wrong.
    pub warnings: Vec<String>,
}

/// Why a target cannot be put under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    /// What was tried and what came of it.
    pub what: String,
    /// What to do about it.
    pub hint: String,
    /// Whether the specification is wrong, rather than the target.
    pub is_usage: bool,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TargetError {}

impl TargetError {
    fn target(what: impl Into<String>, hint: impl Into<String>) -> TargetError {
        TargetError { what: what.into(), hint: hint.into(), is_usage: false }
    }

    fn usage(what: impl Into<String>, hint: impl Into<String>) -> TargetError {
        TargetError { what: what.into(), hint: hint.into(), is_usage: true }
    }
}

/// Scheme and authority of a target, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    base: String,
    host: String,
    port: u16,
}

/// The addresses of every host that the run will connect to, resolved; no connection is made.
pub(crate) fn locate(spec: &RunSpec, workload: &Workload) -> Result<TargetFacts, TargetError> {
    let mut facts = TargetFacts { this_host: true, ..TargetFacts::default() };
    if spec.client.unix_socket.is_some() {
        return Ok(facts);
    }
    for url in connected_to(spec, workload) {
        facts.addresses.extend(resolve(&endpoint(&url)?)?);
    }
    facts.this_host = facts.addresses.iter().all(|address| is_this_host(address.ip()));
    Ok(facts)
}

/// Checks every host once and, of a small workload, every file. Adds to `facts` what it learns.
pub(crate) fn check(
    spec: &RunSpec,
    workload: &Workload,
    fetch: &dyn Fetch,
    facts: &mut TargetFacts,
) -> Result<(), TargetError> {
    let urls = connected_to(spec, workload);
    match &spec.client.unix_socket {
        Some(path) => reach_socket(path)?,
        None => urls.iter().try_for_each(|url| reach(&endpoint(url)?).map(drop))?,
    }
    if let Some(proxy) = &spec.client.proxy {
        facts.warnings.push(format!("files are not checked through the proxy {proxy}"));
        return Ok(());
    }
    let (files, _) = distinct(workload);
    for url in &urls {
        let endpoint = endpoint(url)?;
        let first =
            files.iter().find(|wanted| split_url(&endpoint.base, &wanted.file.url).0 == endpoint.base);
        let plain = RequestDetail::default();
        let (path, detail) = first.map_or(("/", &plain), |wanted| {
            (split_url(&endpoint.base, &wanted.file.url).1, &wanted.file.detail)
        });
        let answer =
            fetch.fetch(&endpoint.base, path, detail).map_err(|error| no_answer(&endpoint, error))?;
        if let Some(error) = plain_http_refused(&endpoint, &answer) {
            return Err(error);
        }
        let server = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("server"));
        facts.server = facts.server.take().or_else(|| server.map(|(_, value)| value.clone()));
    }
    check_every_file(spec, workload, fetch)
}

fn check_every_file(spec: &RunSpec, workload: &Workload, fetch: &dyn Fetch) -> Result<(), TargetError> {
    if !matches!(spec.client.method.as_str(), "GET" | "HEAD") {
        return Ok(());
    }
    let (files, _) = distinct(workload);
    let Some(base) = spec.target.first().filter(|_| files.len() <= FILES_CHECKED_MAX) else { return Ok(()) };
    let base = endpoint(base)?.base;
    let options = CheckOptions { check: spec.client.check, timeout: CHECK_TIMEOUT, threads: 2 };
    let report = check_with(fetch, &base, workload, &options);
    if report.problems.is_empty() {
        return Ok(());
    }
    Err(TargetError::target(files_message(&report.problems, report.checked), FILES_HINT))
}

fn files_message(problems: &[FileProblem], checked: u64) -> String {
    let bad = problems.len();
    let mut text = format!("{bad} of the workload's {checked} files {}", if bad == 1 { "is" } else { "are" });
    text += " not served as the workload has them:";
    for problem in problems.iter().take(FILES_NAMED_MAX) {
        text += &format!("\n  {problem}");
    }
    if bad > FILES_NAMED_MAX {
        text += &format!("\n  and {} more", bad - FILES_NAMED_MAX);
    }
    text
}

/// Bases of all hosts that connections will be made to.
fn connected_to(spec: &RunSpec, workload: &Workload) -> Vec<String> {
    if let Some(proxy) = &spec.client.proxy {
        return vec![proxy.clone()];
    }
    let mut urls = spec.target.clone();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    for file in files.filter(|file| !file.url.starts_with('/') && file.url.contains("://")) {
        let (base, _) = split_url("", &file.url);
        if !base.contains("{{") && !urls.iter().any(|known| known.trim_end_matches('/') == base) {
            urls.push(base.to_owned());
        }
    }
    urls
}

fn endpoint(url: &str) -> Result<Endpoint, TargetError> {
    let example = "write it as http://host:port";
    let wrong = |rule: String| TargetError::usage(format!("the target `{url}` {rule}"), example);
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(wrong("has no scheme".to_owned()));
    };
    match scheme {
        "http" => {}
        "https" => {
            return Err(TargetError::usage(
                format!("the target `{url}` asks for TLS, which this version does not speak"),
                "measure the server's plain http:// port",
            ));
        }
        other => return Err(wrong(format!("has the scheme `{other}`; only http is known"))),
    }
    let uri: Uri = url.parse().map_err(|error| wrong(format!("is not a URL: {error}")))?;
    let authority = uri.authority().ok_or_else(|| wrong("names no host".to_owned()))?;
    if authority.as_str().contains('@') {
        return Err(TargetError::usage(
            format!("the target `{url}` carries a user name"),
            "send credentials as a header field: -H 'Authorization: …'",
        ));
    }
    // `Authority::port_u16` is `None` for 70000 as it is for no port at all, so the text decides.
    let port = match authority.as_str()[authority.host().len()..].strip_prefix(':').map(str::parse::<u16>) {
        None => 80,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(wrong("has a port that is not between 1 and 65535".to_owned())),
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err(wrong("names no host".to_owned()));
    }
    Ok(Endpoint { base: format!("http://{authority}"), host, port })
}

fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, TargetError> {
    let Endpoint { host, port, .. } = endpoint;
    let failed = |cause: &str| {
        TargetError::target(
            format!("the host `{host}` is unknown: {cause}"),
            "check the spelling, or give the server's address instead of its name",
        )
    };
    let found = (host.as_str(), *port).to_socket_addrs().map_err(|error| failed(&plain(&error)))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.dedup();
    // Load stays within the family that the system prefers, so the other one is not needed.
    let Some(first) = addresses.first().copied() else { return Err(failed("it has no address")) };
    addresses.retain(|address| address.is_ipv4() == first.is_ipv4() || first.ip().is_loopback());
    Ok(addresses)
}

/// Connects once to an address of the host, in the order of the resolver.
fn reach(endpoint: &Endpoint) -> Result<SocketAddr, TargetError> {
    let mut last = None;
    for address in resolve(endpoint)? {
        match TcpStream::connect_timeout(&address, CHECK_TIMEOUT) {
            Ok(_) => return Ok(address),
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) = last.expect("resolve returns at least one address");
    let Endpoint { base, port, .. } = endpoint;
    Err(match error.kind() {
        io::ErrorKind::ConnectionRefused => TargetError::target(
            format!("{base}: connection refused by {address}: nothing listens on port {port}"),
            "start the server, or check the port; without a target webstone starts a server of its own",
        ),
        io::ErrorKind::TimedOut => TargetError::target(
            format!("{base}: no connection to {address} within {} s", CHECK_TIMEOUT.as_secs()),
            "check the address, and that no firewall drops the packets",
        ),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => TargetError::target(
            format!("{base}: {address} cannot be reached: {}", plain(&error)),
            "check the address and the route to it (ip route get)",
        ),
        _ => TargetError::target(
            format!("{base}: no connection to {address}: {}", plain(&error)),
            "check the address and the port",
        ),
    })
}

fn reach_socket(path: &str) -> Result<(), TargetError> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "check the path, and that the server has made its socket",
                io::ErrorKind::PermissionDenied => "run as a user who may write to the socket",
                _ => "start the server that listens there",
            };
            Err(TargetError::target(format!("the Unix socket {path}: {}", plain(&error)), hint))
        }
    }
}

/// The connection stands and the answer is none, or is not HTTP.
fn no_answer(endpoint: &Endpoint, error: ProbeError) -> TargetError {
    let suspicious = matches!(
        error.class,
        ErrorClass::Malformed | ErrorClass::ClosedEarly | ErrorClass::Reset | ErrorClass::ShortBody
    );
    if suspicious && speaks_tls(endpoint) {
        return tls_port(endpoint, "it answers a plain request with a TLS alert");
    }
    let hint = error.hint.unwrap_or_else(|| {
        match error.class {
            ErrorClass::FirstByteTimeout | ErrorClass::RequestTimeout => {
                "the port is open and nothing answers: is it an HTTP server, and is it healthy?"
            }
            _ => "is it an HTTP server? Ask it by hand: curl -v",
        }
        .to_owned()
    });
    TargetError::target(format!("{}: {}", error.request, error.detail), hint)
}

/// Servers that know both protocols say so in a 400.
fn plain_http_refused(endpoint: &Endpoint, answer: &ProbeResponse) -> Option<TargetError> {
    const SAYINGS: [&str; 4] = [
        "plain HTTP request was sent to HTTPS port", // nginx
        "speaking plain HTTP to an SSL-enabled",     // Apache httpd
        "sent an HTTP request to an HTTPS server",   // Go's net/http, and with it Caddy
        "HTTP request was sent to HTTPS",
    ];
    if answer.status != 400 {
        return None;
    }
    let body = String::from_utf8_lossy(&answer.body);
    let said = SAYINGS.iter().any(|saying| body.contains(saying));
    said.then(|| tls_port(endpoint, "it says that plain HTTP was sent to an HTTPS port"))
}

fn tls_port(endpoint: &Endpoint, evidence: &str) -> TargetError {
    TargetError::target(
        format!("{}: port {} expects TLS: {evidence}", endpoint.base, endpoint.port),
        "measure the server's plain http:// port; this version does not speak TLS",
    )
}

/// Whether a plain request is answered with a TLS alert: record type 21, version 3.x (RFC 8446, section 5.1).
fn speaks_tls(endpoint: &Endpoint) -> bool {
    let ask = || -> io::Result<bool> {
        let address = resolve(endpoint).ok().and_then(|found| found.first().copied());
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, CHECK_TIMEOUT)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("GET / HTTP/1.0\r\nHost: {}\r\n\r\n", endpoint.host).as_bytes())?;
        let mut record = [0; 2];
        stream.read_exact(&mut record)?;
        Ok(record == [0x15, 0x03])
    };
    ask().unwrap_or(false)
}

/// Whether an address is this host's own: loopback, or one that a socket can be bound to.
pub(crate) fn is_this_host(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// The operating system's words without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::tests::Table;
    use std::net::TcpListener;
    use webstone_model::workload::{FileRequest, Page};

    fn workload(files: &[(&str, u64)]) -> Workload {
        let file = |(url, size): &(&str, u64)| FileRequest {
            url: (*url).into(),
            size: Some(*size),
            ..FileRequest::default()
        };
        let files = files.iter().map(file).collect();
        Workload { pages: vec![Page { weight: 1, files, think: Default::default() }], ..Workload::default() }
    }

    fn spec(target: &str) -> RunSpec {
        RunSpec { target: vec![target.to_owned()], ..RunSpec::default() }
    }

    /// A listener that answers every connection with the same bytes, until the test ends.
    fn answering(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            }
        });
        format!("http://{address}")
    }

    fn message(result: Result<impl fmt::Debug, TargetError>) -> String {
        let error = result.unwrap_err();
        assert!(!error.hint.is_empty());
        error.what
    }

    #[test]
    fn urls_that_are_no_targets_are_told_apart() {
        for (url, rule) in [
            ("127.0.0.1:80", "has no scheme"),
            ("https://127.0.0.1/", "asks for TLS"),
            ("ftp://127.0.0.1/", "has the scheme `ftp`"),
            ("http://", "is not a URL"),
            ("http://a:0", "port that is not between"),
            ("http://a:70000", "port that is not between"),
            ("http://a:/", "port that is not between"),
            ("http://me@a/", "carries a user name"),
        ] {
            let error = endpoint(url).unwrap_err();
            assert!(error.what.contains(rule) && error.is_usage, "{url}: {}", error.what);
        }
        let v6 = endpoint("http://[::1]:8080/x").unwrap();
        assert_eq!((v6.base.as_str(), v6.host.as_str(), v6.port), ("http://[::1]:8080", "::1", 8080));
    }

    #[test]
    fn an_unknown_host_and_a_refused_port_have_their_own_messages() {
        let unknown = message(locate(&spec("http://no-such-host.invalid"), &workload(&[])));
        assert!(unknown.starts_with("the host `no-such-host.invalid` is unknown"), "{unknown}");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let refused = message(reach(&endpoint(&format!("http://127.0.0.1:{port}")).unwrap()));
        assert!(refused.ends_with(&format!("nothing listens on port {port}")), "{refused}");
    }

    #[test]
    fn a_tls_port_is_recognised_by_its_alert() {
        let base = answering(&[0x15, 0x03, 0x03, 0, 2, 2, 10]);
        let malformed = ProbeError {
            class: ErrorClass::Malformed,
            request: format!("GET {base}/"),
            detail: "not an HTTP response".into(),
            hint: None,
        };
        let told = no_answer(&endpoint(&base).unwrap(), malformed);
        assert!(told.what.contains("expects TLS: it answers a plain request with a TLS alert"), "{told}");
        let other = answering(b"SSH-2.0-x\r\n");
        assert!(!speaks_tls(&endpoint(&other).unwrap()));
    }

    #[test]
    fn a_tls_port_is_recognised_by_what_servers_say() {
        let base = answering(b"");
        let mut table = Table::default();
        let body = b"<center>The plain HTTP request was sent to HTTPS port</center>".to_vec();
        table.0.insert(format!("{base}/f"), (400, body));
        let told = message(check(&spec(&base), &workload(&[("/f", 1)]), &table, &mut TargetFacts::default()));
        assert!(told.contains("expects TLS: it says"), "{told}");
    }

    #[test]
    fn missing_files_are_named_with_page_and_url_and_remedy() {
        let base = answering(b"");
        let mut table = Table::default();
        table.0.insert(format!("{base}/a"), (200, vec![0; 3]));
        table.0.insert(format!("{base}/b"), (404, vec![]));
        let files = workload(&[("/a", 3), ("/b", 4)]);
        let mut facts = TargetFacts::default();
        let error = check(&spec(&base), &files, &table, &mut facts).unwrap_err();
        assert_eq!(
            error.what,
            format!(
                "1 of the workload's 2 files is not served as the workload has them:\n  page 0: {base}/b: missing \
                 (status 404)"
            )
        );
        assert!(error.hint.contains("webstone genfiles") && error.hint.contains("webstone checkfiles"));
        assert_eq!(facts.server.as_deref(), Some("Table/1"));
    }

    #[test]
    fn a_large_workload_is_checked_by_its_first_file() {
        let base = answering(b"");
        let names: Vec<String> = (0..=FILES_CHECKED_MAX).map(|n| format!("/{n}")).collect();
        let files: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let mut table = Table::default();
        table.0.insert(format!("{base}/0"), (200, vec![0]));
        assert_eq!(check(&spec(&base), &workload(&files), &table, &mut TargetFacts::default()), Ok(()));
        let fewer = workload(&files[..FILES_CHECKED_MAX]);
        let told = message(check(&spec(&base), &fewer, &table, &mut TargetFacts::default()));
        assert!(
            told.starts_with("63 of the workload's 64 files are not") && told.ends_with("and 58 more"),
            "{told}"
        );
    }

    #[test]
    fn every_host_of_the_workload_is_located() {
        let files = workload(&[("/a", 1), ("http://127.0.0.2:81/b", 1), ("http://127.0.0.2:81/c", 1)]);
        let facts = locate(&spec("http://127.0.0.1:80/"), &files).unwrap();
        let addresses: Vec<String> = facts.addresses.iter().map(SocketAddr::to_string).collect();
        assert_eq!((addresses.join(" ").as_str(), facts.this_host), ("127.0.0.1:80 127.0.0.2:81", true));
        assert!(!is_this_host("192.0.2.1".parse().unwrap()), "a documentation address is nobody's");
    }

    #[test]
    fn a_missing_unix_socket_is_named() {
        let told = message(reach_socket("/nonexistent/socket"));
        assert_eq!(told, "the Unix socket /nonexistent/socket: No such file or directory");
    }
}
