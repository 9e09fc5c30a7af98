//! nghttpd, the small server of nghttp2: HTTP/2 alone. It has no configuration file; its command line is all of it.

use super::{Choice, Disclosure, Driver, Setup, Site, counted};

pub(super) const DRIVER: Driver = Driver {
    programs: &["nghttpd"],
    install: "Debian: apt-get install nghttp2-server",
    version_argument: "--version",
    without,
    configure,
};

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames | Choice::AccessLog => Some("nghttpd writes no access log"),
        Choice::Processes => Some("nghttpd has one process; server.threads sets the number of its threads"),
        Choice::Cache | Choice::NoCache => Some("nghttpd always keeps files open"),
        Choice::Backlog => Some("nghttpd's listen queue has a fixed length"),
        Choice::NoKeepAlive => Some("nghttpd never closes a connection before its client does"),
        Choice::TlsListen => Some("nghttpd listens at one address, with TLS or without, not at one for each"),
        Choice::Http1 => Some("nghttpd speaks only HTTP/2, and HTTP/2 is off"),
        Choice::TlsVersions => Some("nghttpd has no setting for TLS versions"),
        Choice::Tickets => Some("nghttpd sends no session tickets"),
        Choice::NoSessionCache => Some("nghttpd always keeps sessions"),
        _ => None,
    }
}

fn configure(site: &Site) -> Setup {
    // One thread unless it is told another number.
    let threads = if site.is_tuned() { site.threads() } else { site.spec.threads.max(1) };
    let mut words = vec![
        format!("--address={}", site.address.ip()),
        format!("--htdocs={}", site.root.display()),
        format!("--workers={threads}"),
    ];
    if site.is_tuned() {
        // By default a client has 100 streams on a connection.
        words.push("--max-concurrent-streams=1000".to_owned());
    }
    if site.tls.is_none() {
        words.push("--no-tls".to_owned());
    }
    words.push(site.address.port().to_string());
    if let Some(tls) = &site.tls {
        words.extend([tls.key.clone(), tls.cert.clone()]);
    }
    Setup {
        arguments: words.into_iter().map(Into::into).collect(),
        cpus_max: Some(threads),
        disclosure: Disclosure::new(
            None,
            format!("one process, {}", counted(threads, "thread", "threads")),
            "open files",
        ),
        ..Setup::default()
    }
}
