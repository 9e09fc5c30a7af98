//! The server: one that webstone starts, what a workload makes it need, one elsewhere, and what means nothing to the one at hand.

use webstone_lab::servers;
use webstone_model::spec::{Logging, RunSpec, ServerSpec, Software};
use webstone_workload::target::Scheme;
use webstone_workload::{TlsPages, Workload};

use super::{SpecError, cpus, server_url};

/// Most hosts of a server that agents watch.
const AGENTS_MAX: usize = 64;

/// A server that webstone starts.
pub(super) fn own(server: &mut ServerSpec) -> Result<(), SpecError> {
    reference(server)?;
    if let Some(origin) = &mut server.origin {
        let url = server_url(origin).map_err(|error| SpecError::of_url("server.origin", &error))?;
        if url.scheme == Scheme::Https {
            return Err(SpecError::new(
                "server.origin",
                format!("`{url}`, but proxies that webstone configures ask their origin without TLS"),
                "give an http:// URL, or start a proxy of your own and give its URL",
            ));
        }
        *origin = url.to_string();
    }
    servers::check(server).map_err(|refusal| SpecError::refused(&refusal))
}

/// Rules of the reference server, which hold for every other server, too.
///
/// # Errors
/// The first rule that the settings break.
pub fn reference(server: &ServerSpec) -> Result<(), SpecError> {
    cpus("server.cpus", &server.cpus)?;
    cpus("server.origin_cpus", &server.origin_cpus)?;
    listen(&server.listen)?;
    if let Some(delay) = server.dns_delay.filter(|_| server.software != Software::Reference) {
        let rule = format!(
            "only applies to the reference server; {} asks the system's resolver",
            server.software.name()
        );
        return Err(SpecError::value("server.dns_delay", delay, &rule, "leave it out"));
    }
    let logs = match server.logging() {
        Logging::Unsaid => server.software != Software::Reference,
        logging => logging != Logging::Off,
    };
    if server.resolve_names && !logs {
        return Err(SpecError::new(
            "server.resolve_names",
            "it applies to the access log, but none is written",
            "give its file with server.access_log",
        ));
    }
    if let Some((key, rule, remedy)) = server.tls.as_ref().and_then(|tls| tls.check().err()) {
        return Err(SpecError::new(key, rule, remedy));
    }
    if let Some(second) = server.tls.as_ref().and_then(|tls| tls.listen.as_deref()) {
        listens("server.tls.listen", second)?;
    }
    if server.backlog == Some(0) {
        return Err(SpecError::zero("server.backlog", "write at least 1"));
    }
    Ok(())
}

/// Lets a server that webstone starts speak TLS if pages of the workload ask for it: at a second address, if only some do.
///
/// # Errors
/// If the server cannot do that.
pub fn for_workload(spec: &mut RunSpec, workload: &Workload) -> Result<(), SpecError> {
    if !spec.target.is_empty() {
        return Ok(());
    }
    let host = spec.server.listen.rsplit_once(':').map(|(host, _)| host).filter(|host| !host.contains(','));
    let beside = format!("{}:0", host.filter(|host| *host != "unix").unwrap_or("127.0.0.1"));
    let pages = workload.tls_pages();
    if pages == TlsPages::None {
        return Ok(());
    }
    let tls = spec.server.tls.get_or_insert_default();
    if pages == TlsPages::Some {
        tls.listen.get_or_insert(beside);
    }
    servers::check(&spec.server).map_err(|refusal| SpecError::refused(&refusal))
}

/// Whether a text names addresses that a server may listen on.
///
/// # Errors
/// The rule that it breaks.
pub fn listen(text: &str) -> Result<(), SpecError> {
    listens("server.listen", text)
}

fn listens(key: &str, text: &str) -> Result<(), SpecError> {
    for address in text.split(',').map(str::trim) {
        let rule = match address.rsplit_once(':').map(|(_, port)| port.parse::<u16>()) {
            _ if address.starts_with("unix:/") => continue,
            Some(Ok(_)) => continue,
            Some(Err(_)) => "has no port from 0 to 65535 after its last colon",
            None => "has no port",
        };
        return Err(SpecError::new(
            key,
            format!("`{address}` {rule}"),
            "write an address and a port, as in 127.0.0.1:8080, with port 0 for a free one",
        ));
    }
    Ok(())
}

/// Agents watch a server on other hosts, and find it there by its port.
pub(super) fn agents(spec: &RunSpec) -> Result<(), SpecError> {
    let commands = &spec.server.agents;
    for (place, command) in commands.iter().enumerate() {
        if shlex::split(command).is_none_or(|words| words.is_empty()) {
            let remedy = "write one, as in 'ssh root@web1 webstone agent'";
            return Err(SpecError::value("server.agent", command, "not a command", remedy));
        }
        if commands[..place].contains(command) {
            let remedy = "write it once: each agent is on a host of its own, or watches a port of its own";
            return Err(SpecError::value("server.agent", command, "given twice", remedy));
        }
    }
    if commands.len() > AGENTS_MAX {
        let rule = format!("more than {AGENTS_MAX} hosts");
        return Err(SpecError::value("server.agent", commands.len(), &rule, "leave some out"));
    }
    if commands.is_empty() {
        return Ok(());
    }
    let instead = match (&spec.client.unix_socket, spec.target.first()) {
        (Some(_), _) => "is reached through client.unix_socket",
        (None, None) => "is started here, by webstone",
        (None, Some(_)) => return Ok(()),
    };
    Err(SpecError::new(
        "server.agent",
        format!("it monitors a server on another host, but this one {instead}"),
        "remove it: webstone monitors servers on this host itself",
    ))
}

/// What is impossible over a path: clients and server each have a network of their own, with one address and nothing else.
pub(super) fn over_path(spec: &RunSpec) -> Result<(), SpecError> {
    let Some(path) = spec.server.path else { return Ok(()) };
    let is_here = |listen: &String| {
        let host = listen.rsplit_once(':').map_or(listen.as_str(), |(host, _)| host);
        matches!(host, "127.0.0.1" | "localhost" | "0.0.0.0" | "[::1]" | "[::]")
    };
    let second = spec.server.tls.as_ref().and_then(|tls| tls.listen.as_ref());
    let listens = || std::iter::once(&spec.server.listen).chain(second);
    let elsewhere = listens().any(|listen| !is_here(listen));
    let of_both = listens().any(|listen| listen.starts_with('[') != spec.server.listen.starts_with('['));
    let without = [
        (
            "server.listen",
            elsewhere,
            "the server listens on the path's own address; give 127.0.0.1 or [::1] with a port",
        ),
        ("server.tls.listen", of_both, "the path has one address, of IPv4 or of IPv6"),
        ("server.software", spec.server.software.is_proxy(), "a proxy and its origin are not supported"),
        ("generators", !spec.generators.is_empty(), "other hosts do not reach it"),
        ("client.proxy", spec.client.proxy.is_some(), "it does not lead to a proxy"),
        ("client.unix_socket", spec.client.unix_socket.is_some(), "a Unix socket has none"),
        ("client.connect_to", !spec.client.connect_to.is_empty(), "it leads to the server alone"),
        ("client.source", !spec.client.source.is_empty(), "clients have one address"),
    ];
    match without.into_iter().find(|(_, is_set, _)| *is_set) {
        None => Ok(()),
        Some((key, _, why)) => {
            let rule = format!("{key} cannot be used together with server.path: {why}");
            Err(SpecError::value("server.path", path, &rule, "leave out one of the two"))
        }
    }
}

/// Configurations that webstone writes do not accept it; that of a command is the user's.
pub(super) fn proxy_protocol(spec: &RunSpec) -> Result<(), SpecError> {
    match spec.client.proxy_protocol {
        Some(version) if spec.server.software != Software::Command => Err(SpecError::new(
            "client.proxy_protocol",
            format!("`{}`, but a server that webstone starts does not expect it", version.name()),
            "start the server yourself and give its URL, or remove it",
        )),
        _ => Ok(()),
    }
}

/// Settings of a server that webstone starts, where another is measured.
pub(super) fn elsewhere(server: &ServerSpec, url: &str, given: &[&'static str]) -> Result<(), SpecError> {
    let defaults = ServerSpec::default();
    let settings = [
        ("server.software", (server.software, server.profile) != (defaults.software, defaults.profile)),
        ("server.program", server.program.is_some()),
        ("server.command", server.command.is_some()),
        ("server.origin", server.origin.is_some()),
        ("server.origin_cpus", !server.origin_cpus.is_empty()),
        ("server.listen", server.listen != defaults.listen),
        ("server.threads", server.threads > 0),
        ("server.processes", server.processes > 0),
        ("server.cpus", !server.cpus.is_empty()),
        ("server.root", server.root.is_some()),
        ("server.cache", server.cache.is_some()),
        ("server.keep_alive", !server.keep_alive),
        ("server.access_log", server.access_log.is_some()),
        ("server.resolve_names", server.resolve_names),
        ("server.dns_delay", server.dns_delay.is_some()),
        ("server.backlog", server.backlog.is_some()),
        ("server.interface", server.interface.is_some()),
        ("server.handlers", server.handlers > 0),
        ("server.tls", server.tls.is_some()),
        ("server.http2", server.http2),
        ("server.http3", server.http3),
        ("server.path", server.path.is_some()),
    ];
    match settings.into_iter().find(|(key, set)| *set || given.contains(key)) {
        Some((key, _)) => Err(SpecError::new(
            key,
            format!("it applies to a server that webstone starts, but the server under test is {url}"),
            "remove it, or remove the URL: webstone then starts the server",
        )),
        None => Ok(()),
    }
}
