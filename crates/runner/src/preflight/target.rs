//! Whether the target answers as the workload needs it, before it is put under load: hosts, protocol, files. "No
//! response" is what every failure looks like under load; here each has a message of its own.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use webstone_engine::{ProbeError, ReadTo};
use webstone_measure::errors::ErrorClass;
use webstone_model::record::CodedSample;
use webstone_model::spec::{Check, ClientSpec, HttpVersion, RunSpec};
use webstone_workload::aim::{self, Aim};
use webstone_workload::target::{Place, Scheme, Target, UrlError};
use webstone_workload::{FileRequest, RequestDetail, Workload};

use super::unserved::files_error;
use super::version::offered_by;
use crate::checkfiles::{FileProblem, Look, SHORT_TIME_MAX, Wanted, distinct};
use webstone_lab::endpoint::{Contact, is_this_host, reach, reach_socket, resolve, speaks_tls};
use webstone_lab::fetch::{Fetch, asked};
use webstone_lab::interrupt::Interrupt;

pub use webstone_lab::endpoint::TargetError;

/// Workloads with at most this many distinct files are checked whole before a run; larger ones by their first file.
pub const FILES_CHECKED_MAX: usize = 64;
/// Bytes of a body that are searched for what servers say of TLS.
const FRONT_BYTES_MAX: usize = 8 << 10;
/// Requests of the check at once.
const FILES_AT_ONCE: usize = 2;

/// What is known of a target that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// Every address that load may go to.
    pub addresses: BTreeSet<SocketAddr>,
    /// Whether all of them are this host's.
    pub this_host: bool,
    /// `Server` field of its first answer.
    pub server: Option<String>,
    /// Offer of HTTP/3 in an answer over TCP, where another version was asked for: its Alt-Svc (RFC 7838).
    pub offers_http3: Option<String>,
    /// Which version of HTTP was chosen and why, where that was left to the target.
    pub http: Option<String>,
    /// Answers that were coded, where codings are accepted.
    pub coded: Vec<CodedSample>,
    /// What could not be checked, or looked wrong without being surely wrong.
    pub warnings: Vec<String>,
}

/// What a run connects to: the target's URLs, and every other host that its workload asks.
#[derive(Clone, Debug)]
pub(crate) struct Destinations {
    targets: Vec<Target>,
    /// All hosts that connections are made for, each once.
    hosts: Vec<Target>,
    /// Where connections are made to, each once.
    places: Vec<Target>,
    unix_socket: Option<String>,
}

impl Destinations {
    /// Refuses a workload that asks hosts which neither the target names nor the run allows, before anything is resolved or
    /// connected to.
    pub(crate) fn of_spec(spec: &RunSpec, workload: &Workload) -> Result<Destinations, TargetError> {
        let split = |url: &String| Target::split(url).map(|(target, _)| target);
        let targets: Vec<Target> = spec.target.iter().map(split).collect::<Result<_, _>>()?;
        aim(workload, &targets)?;
        let unix_socket = spec.client.unix_socket.clone();
        if unix_socket.is_none() {
            let strangers = aim::strangers(workload, &spec.target, &spec.client.allow_hosts);
            if !strangers.is_empty() {
                let (what, hint) = aim::refusal(&workload.name, &strangers);
                return Err(TargetError::usage(what, hint));
            }
        }
        refuse_misframed(&spec.client, workload, &targets)?;
        let hosts = connected_to(spec, workload)?;
        let mut places = Vec::new();
        for place in hosts.iter().map(|host| spec.client.connected_to(host)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Ok(Destinations { targets, hosts, places, unix_socket })
    }

    /// The addresses of every host, resolved; no connection is made.
    pub(crate) fn locate(&self) -> Result<TargetFacts, TargetError> {
        let mut facts = TargetFacts { this_host: true, ..TargetFacts::default() };
        if self.unix_socket.is_some() {
            return Ok(facts);
        }
        for place in &self.places {
            facts.addresses.extend(resolve(place)?);
        }
        facts.this_host = facts.addresses.iter().all(|address| is_this_host(address.ip()));
        Ok(facts)
    }

    /// The same for a run whose load other hosts make: what this one cannot resolve, they may know.
    pub(crate) fn locate_from_elsewhere(&self) -> TargetFacts {
        let addresses: BTreeSet<_> =
            self.places.iter().flat_map(|place| resolve(place).unwrap_or_default()).collect();
        let this_host = !addresses.is_empty() && addresses.iter().all(|it| is_this_host(it.ip()));
        TargetFacts { addresses, this_host, ..TargetFacts::default() }
    }

    /// Connects once to every address of every host. From then on `client` and `facts` have only those that accepted. Returns what
    /// to tell the user.
    pub(crate) fn reach(
        &self,
        client: &mut ClientSpec,
        facts: &mut TargetFacts,
    ) -> Result<Vec<String>, TargetError> {
        if let Some(path) = &self.unix_socket {
            return reach_socket(path).map(|()| Vec::new());
        }
        let contacts = self.places.iter().map(|place| reach(place, client));
        let contacts = contacts.collect::<Result<Vec<Contact>, _>>()?;
        client.reached = contacts.iter().map(|contact| contact.reached.clone()).collect();
        facts.addresses = client.reached.iter().flat_map(|reached| &reached.addresses).copied().collect();
        let mut said: Vec<String> = contacts.into_iter().filter_map(|contact| contact.said).collect();
        said.dedup();
        Ok(said)
    }

    /// The server that requests to this one name, in `Host` and to TLS: several targets are addresses of the first one of their
    /// scheme.
    fn named_at<'a>(&'a self, host: &'a Target) -> &'a Target {
        let is_target = self.targets.contains(host);
        let first = self.targets.iter().find(|target| target.scheme == host.scheme);
        first.filter(|_| is_target).unwrap_or(host)
    }

    /// The target's URLs.
    pub(crate) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The server that is asked first.
    pub(crate) fn first(&self) -> String {
        self.hosts.first().map(Target::to_string).unwrap_or_default()
    }

    /// Every host with a path to ask it for: its first file if that changes nothing there, or `/`.
    pub(crate) fn paths(
        &self,
        client: &ClientSpec,
        workload: &Workload,
    ) -> Result<Vec<(&Target, String)>, TargetError> {
        let (files, _) = distinct(workload);
        let aim = aim(workload, &self.targets)?;
        let path = |host| {
            let first = first_file(host, &files, &aim).map(|(path, wanted)| (path, &wanted.file.detail));
            let is_safe = |detail: &RequestDetail| {
                detail.body.is_none()
                    && matches!(detail.method.as_ref().unwrap_or(&client.method).as_str(), "GET" | "HEAD")
            };
            let path = first.filter(|(path, detail)| is_safe(detail) && !path.contains("{{"));
            (host, path.map_or_else(|| "/".to_owned(), |(path, _)| path.into_owned()))
        };
        Ok(self.hosts.iter().map(path).collect())
    }

    /// Asks every host for one file and, of a small workload that changes nothing, for every file, all as the clients will. Of an
    /// answer the beginning is enough. Adds to `facts` what it learns.
    pub(crate) fn check_answers(
        &self,
        client: &ClientSpec,
        workload: &Workload,
        fetch: &dyn Fetch,
        interrupt: &Interrupt,
        facts: &mut TargetFacts,
    ) -> Result<(), TargetError> {
        if let Some(proxy) = &client.proxy {
            facts.warnings.push(format!("files are not checked through the proxy {proxy}"));
            return Ok(());
        }
        let (files, _) = distinct(workload);
        let aim = aim(workload, &self.targets)?;
        // A single file is checked by the first request; so is one file of a workload that is too large or may change something.
        let is_each =
            matches!(&*client.method, "GET" | "HEAD") && (2..=FILES_CHECKED_MAX).contains(&files.len());
        let root = FileRequest {
            url: "/".into(),
            detail: Box::new(RequestDetail { method: Some("GET".to_owned()), ..RequestDetail::default() }),
            ..FileRequest::default()
        };
        let mut problems = Vec::new();
        for target in &self.hosts {
            let first = first_file(target, &files, &aim);
            let (path, file) = match &first {
                Some((path, wanted)) => (&**path, wanted.file),
                None => ("/", &root),
            };
            let mut front = Vec::new();
            let named = self.named_at(target);
            let at = (named != target).then_some(target);
            let look = Look { fetch, at, workload, client, is_short: true };
            let looked = look.at(file, named, path, &mut |piece| {
                front.extend_from_slice(&piece[..piece.len().min(FRONT_BYTES_MAX - front.len())]);
            });
            let answer = looked.answer.map_err(|error| no_answer(target, client, error))?;
            if let Some(error) = plain_http_refused(target, answer.status, &front) {
                return Err(error);
            }
            facts.server = facts.server.take().or_else(|| answer.header("server").map(str::to_owned));
            if target.scheme == Scheme::Https && client.http != HttpVersion::Http3 {
                facts.offers_http3 =
                    facts.offers_http3.take().or_else(|| offered_by(&answer).map(|offer| offer.text));
            }
            let Some((_, wanted)) = first.as_ref().filter(|_| !is_each) else { continue };
            facts.coded.extend(looked.coded);
            let url = format!("{target}{path}");
            if answer.read == ReadTo::Time {
                facts.warnings.push(unfinished(&url, client));
            }
            let tell = |kind| FileProblem { page: wanted.page, pages: wanted.pages, url, kind };
            problems.extend(looked.problem.map(tell));
        }
        let mut checked = (files.len() < 2).then_some(files.len() as u64);
        if is_each {
            let others = self.hosts.iter().filter(|host| self.named_at(host) != *host);
            for at in std::iter::once(None).chain(others.map(Some)) {
                let look = Look { fetch, at, workload, client, is_short: true };
                let report = look.at_all(&aim, FILES_AT_ONCE, interrupt);
                facts.warnings.extend(report.unfinished.first().map(|url| unfinished(url, client)));
                checked = Some(checked.unwrap_or(0) + report.checked);
                problems.extend(report.problems);
                if at.is_none() {
                    facts.coded = report.coded;
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(files_error(workload, &problems, checked)) }
    }
}

/// The first of the files that a host is asked for, and its path there.
fn first_file<'a, 'b>(
    host: &Target,
    files: &'b [Wanted<'a>],
    aim: &Aim<'_>,
) -> Option<(Cow<'a, str>, &'b Wanted<'a>)> {
    // A path is requested from the target's URLs of its scheme, and from no other host.
    let asks = |file: &FileRequest| {
        !file.url.starts_with('/') || aim.of_paths(file.detail.tls).any(|one| one == host)
    };
    files.iter().find_map(|wanted| match asked(host, &wanted.file.url) {
        Ok((server, path)) if server == *host && asks(wanted.file) => Some((path, wanted)),
        _ => None,
    })
}

/// An event stream, or a server that takes its time: the load may wait longer than the check did.
fn unfinished(url: &str, client: &ClientSpec) -> String {
    format!(
        "{url}: the answer was not finished {SHORT_TIME_MAX:?} after its head, so the check has not seen all of it; \
         the clients wait for its end, up to {} (--timeout)",
        client.request_timeout
    )
}

/// Refuses requests whose header fields contradict their bodies, before the check would send one.
fn refuse_misframed(client: &ClientSpec, workload: &Workload, targets: &[Target]) -> Result<(), TargetError> {
    for (number, page) in workload.pages.iter().enumerate() {
        for file in &page.files {
            if let Some((fault, hint)) = file.detail.request(client).fault(client.http) {
                let place = match (targets, &*workload.pages, &*page.files) {
                    // Typed by hand.
                    ([target], [_], [_]) => format!("{target}{}", file.shown()),
                    _ => format!("workload {}, page {number}: {}", workload.name, file.shown()),
                };
                return Err(TargetError::usage(format!("{place}: {fault}"), hint));
            }
        }
    }
    Ok(())
}

/// Which of the target's URLs each request goes to.
fn aim<'a>(workload: &Workload, targets: &'a [Target]) -> Result<Aim<'a>, TargetError> {
    Aim::new(workload, targets).map_err(|(what, hint)| TargetError::usage(what, hint))
}

/// A warning where contents are to be checked and some are not known.
pub(crate) fn unknown_contents(spec: &RunSpec, workload: &Workload) -> Option<String> {
    let files = || workload.pages.iter().flat_map(|page| &page.files);
    let unknown = files().filter(|file| file.generated_size(&spec.client.method).is_none()).count();
    (spec.client.check == Check::Content && unknown > 0).then(|| {
        format!(
            "contents are to be checked, but those of {unknown} of the workload's {} files are unknown: only generated files of \
             a stated size, requested by GET without a query, have known contents",
            files().count()
        )
    })
}

/// All hosts that connections will be made to, each once.
fn connected_to(spec: &RunSpec, workload: &Workload) -> Result<Vec<Target>, UrlError> {
    if let Some(proxy) = &spec.client.proxy {
        return Ok(vec![Target::split(proxy)?.0]);
    }
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let elsewhere = files.map(|file| &*file.url).filter(|url| !url.starts_with('/') && url.contains("://"));
    let mut targets = Vec::new();
    for url in spec.target.iter().map(String::as_str).chain(elsewhere) {
        let (target, _) = Target::split(url)?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// The connection is established, and there is no answer, or it is not HTTP.
pub(super) fn no_answer(target: &Target, client: &ClientSpec, error: ProbeError) -> TargetError {
    let suspicious = matches!(
        error.class,
        ErrorClass::Malformed
            | ErrorClass::ClosedEarly
            | ErrorClass::Reset
            | ErrorClass::ShortBody
            | ErrorClass::FirstByteTimeout
            | ErrorClass::RequestTimeout
    );
    if suspicious && target.scheme == Scheme::Http && speaks_tls(target, client) {
        return tls_port(target, "it answers a TLS ClientHello, but not a plain request");
    }
    let ProbeError { class, request, detail, hint } = error;
    // What a file or an option says is the user's to fix, whatever was requested.
    if let (ErrorClass::GeneratorIo, Some(hint)) = (class, &hint) {
        return TargetError::usage(detail, hint.clone());
    }
    // In a table of errors the remedy stands in the sentence; here it has a line of its own.
    let has_remedy = matches!(class, ErrorClass::TlsCertificate | ErrorClass::TlsRecord | ErrorClass::Alpn);
    let (what, remedy) = match detail.rsplit_once("; ").filter(|_| has_remedy) {
        Some((what, remedy)) => (what, Some(remedy.to_owned())),
        None => (&*detail, None),
    };
    let hint = hint.or(remedy).unwrap_or_else(|| match class {
        ErrorClass::FirstByteTimeout | ErrorClass::RequestTimeout => {
            "the port is open, but nothing answers: is it an HTTP server, and is it healthy? --first-byte-timeout and --timeout \
             allow more time"
                .to_owned()
        }
        ErrorClass::TlsHandshake
        | ErrorClass::TlsCertificate
        | ErrorClass::TlsIncompatible
        | ErrorClass::TlsTruncated
        | ErrorClass::TlsRecord
        | ErrorClass::Alpn => {
            let place = Place { host: target.host.clone(), port: Some(target.port) };
            format!("test it with: openssl s_client -connect {place}")
        }
        _ => format!("is it an HTTP server? Test it with: curl -v {target}"),
    });
    TargetError::target(format!("{request}: {what}"), hint)
}

/// Servers that know both protocols say so in a 400.
fn plain_http_refused(target: &Target, status: u16, front: &[u8]) -> Option<TargetError> {
    const SAYINGS: [&str; 4] = [
        "plain HTTP request was sent to HTTPS port", // nginx
        "speaking plain HTTP to an SSL-enabled",     // Apache httpd
        "sent an HTTP request to an HTTPS server",   // Go's net/http, and with it Caddy
        "HTTP request was sent to HTTPS",
    ];
    if status != 400 {
        return None;
    }
    let body = String::from_utf8_lossy(front);
    let said = SAYINGS.iter().any(|saying| body.contains(saying));
    said.then(|| tls_port(target, "it says that plain HTTP was sent to an HTTPS port"))
}

fn tls_port(target: &Target, evidence: &str) -> TargetError {
    TargetError::target(
        format!("{target}: port {} expects TLS: {evidence}", target.port),
        format!("write https://{}", target.authority()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_lab::fixture::Table;
    use webstone_lab::fixture::answering;
    use webstone_workload::Page;

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

    fn checked(
        spec: &RunSpec,
        files: &Workload,
        table: &Table,
        facts: &mut TargetFacts,
    ) -> Result<(), TargetError> {
        let destinations = Destinations::of_spec(spec, files)?;
        destinations.check_answers(&spec.client, files, table, &Interrupt::default(), facts)
    }

    fn message(result: Result<impl std::fmt::Debug, TargetError>) -> String {
        let error = result.unwrap_err();
        assert!(!error.hint.is_empty());
        error.what
    }

    #[test]
    fn a_tls_port_is_recognised_by_its_answer_to_a_greeting() {
        let base = answering(&[0x15, 0x03, 0x03, 0, 2, 2, 10]);
        let malformed = ProbeError {
            class: ErrorClass::Malformed,
            request: format!("GET {base}/"),
            detail: "not an HTTP response".into(),
            hint: None,
        };
        let told = no_answer(&base.parse().unwrap(), &ClientSpec::default(), malformed);
        assert!(told.what.contains("expects TLS: it answers a TLS ClientHello"), "{told}");
    }

    #[test]
    fn a_tls_port_is_recognised_by_what_servers_say() {
        let base = answering(b"");
        let mut table = Table::default();
        let body = b"<center>The plain HTTP request was sent to HTTPS port</center>".to_vec();
        table.0.insert(format!("{base}/f"), (400, body));
        let told =
            message(checked(&spec(&base), &workload(&[("/f", 1)]), &table, &mut TargetFacts::default()));
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
        let error = checked(&spec(&base), &files, &table, &mut facts).unwrap_err();
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
        assert_eq!(checked(&spec(&base), &workload(&files), &table, &mut TargetFacts::default()), Ok(()));
        let fewer = workload(&files[..FILES_CHECKED_MAX]);
        let told = message(checked(&spec(&base), &fewer, &table, &mut TargetFacts::default()));
        assert!(
            told.starts_with("63 of the workload's 64 files are not") && told.ends_with("and 58 more"),
            "{told}"
        );
    }

    #[test]
    fn pages_over_tls_are_checked_there_and_the_others_without() {
        let (plain, secure) = (answering(b""), answering(b"").replace("http:", "https:"));
        let mut files = workload(&[("/a", 1), ("/a", 1), ("/b", 1)]);
        files.pages[0].files[1].detail.tls = true;
        let both = RunSpec { target: vec![plain.clone(), secure.clone()], ..RunSpec::default() };
        let mut table = Table::default();
        for url in [format!("{plain}/a"), format!("{secure}/a"), format!("{plain}/b")] {
            table.0.insert(url, (200, vec![0]));
        }
        assert_eq!(checked(&both, &files, &table, &mut TargetFacts::default()), Ok(()));
        table.0.insert(format!("{secure}/a"), (404, vec![]));
        let told = message(checked(&both, &files, &table, &mut TargetFacts::default()));
        assert!(told.contains(&format!("page 0: {secure}/a: missing")), "{told}");
        let error = Destinations::of_spec(&spec(&plain), &files).unwrap_err();
        assert!(error.is_usage && error.what.contains("requests pages over TLS"), "{error:?}");
    }

    #[test]
    fn every_target_has_to_serve_the_files() {
        let (first, second) = (answering(b""), answering(b""));
        let both = RunSpec { target: vec![first.clone(), second.clone()], ..RunSpec::default() };
        let files = workload(&[("/a", 1), ("/b", 1)]);
        let mut table = Table::default();
        for (base, path) in [(&first, "/a"), (&first, "/b"), (&second, "/a")] {
            table.0.insert(format!("{base}{path}"), (200, vec![0]));
        }
        table.0.insert(format!("{second}/b"), (404, vec![]));
        let told = message(checked(&both, &files, &table, &mut TargetFacts::default()));
        assert!(told.starts_with("1 of the workload's 4 files is not"), "{told}");
        assert!(told.contains(&format!("page 0: {second}/b: missing")), "{told}");
        table.0.insert(format!("{second}/b"), (200, vec![0]));
        assert_eq!(checked(&both, &files, &table, &mut TargetFacts::default()), Ok(()));
    }

    /// As the load will: requests to each target name the first.
    #[test]
    fn targets_are_asked_by_the_name_of_the_first() {
        let spec = RunSpec {
            target: ["http://web1:81", "https://web1", "http://web2:82", "https://web2"]
                .map(String::from)
                .into(),
            ..RunSpec::default()
        };
        let mut files = workload(&[("/a", 1), ("/b", 1)]);
        files.pages[0].files[1].detail.tls = true;
        let destinations = Destinations::of_spec(&spec, &files).unwrap();
        let named: Vec<String> =
            destinations.hosts.iter().map(|host| destinations.named_at(host).to_string()).collect();
        assert_eq!(named, ["http://web1:81", "https://web1", "http://web1:81", "https://web1"]);
    }

    #[test]
    fn every_host_of_the_workload_is_located() {
        let files = workload(&[("/a", 1), ("http://127.0.0.2:81/b", 1), ("http://127.0.0.2:81/c", 1)]);
        let mut spec = spec("http://127.0.0.1:80/");
        let error = Destinations::of_spec(&spec, &files).unwrap_err();
        assert!(error.is_usage && error.hint.contains("--allow-hosts"), "{error:?}");
        spec.client.allow_hosts = aim::strangers(&files, &spec.target, &[]);
        let facts = Destinations::of_spec(&spec, &files).unwrap().locate().unwrap();
        let addresses: Vec<String> = facts.addresses.iter().map(SocketAddr::to_string).collect();
        assert_eq!((addresses.join(" ").as_str(), facts.this_host), ("127.0.0.1:80 127.0.0.2:81", true));
        assert!(!is_this_host("192.0.2.1".parse().unwrap()), "a documentation address is nobody's");
    }
}
