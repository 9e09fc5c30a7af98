//! What a specification may do besides measuring. The browser front, agents, `-f` and `docs/security.md` all use the
//! answer given here.
//!
//! Every part of a specification is taken apart field by field, without `..`: a new key does not compile until its
//! power has been decided. Powers are determined from the typed specification, not from the keys in its text. What
//! depends on more than the specification is not decided here: whether a file exists, or where a link leads.

use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

use crate::generators::GeneratorHost;
use crate::kubernetes::PodsOfJob;
use crate::search::SearchSpec;
use crate::series::Matrix;
use crate::server_tls::ServerTls;
use crate::servers::{Logging, ServerSpec, Software};
use crate::spec::{ClientSpec, GeneratorSpec, LoadSpec, RunSpec};
use webstone_workload::http2_settings::Http2Settings;
use webstone_workload::tls::TlsSpec;

webstone_measure::named! {
    /// What a specification may do, the least first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Power:
    /// Sends any number of requests for any files to a host that it names.
    Load "load",
    /// Starts a server that is installed here, or one of webstone's own handlers.
    Server "server",
    /// Listens where other hosts or users can connect.
    Listen "listen",
    /// Sends the requests to a proxy instead of their host.
    Proxy "proxy",
    /// Connects to a Unix socket.
    Socket "socket",
    /// Reads files that it names: into requests, a record or a message, or to be shown by a server.
    Read "read",
    /// Writes files that it names.
    Write "write",
    /// Runs commands: programs that it names, on this host or another.
    Run "run",
}

impl Power {
    /// Powers of anyone who has the browser front's token, without `--allow-commands`.
    pub const OF_FRONTS: [Power; 2] = [Power::Load, Power::Server];
    /// Powers of a controller on an agent, without `--allow`.
    pub const OF_AGENTS: [Power; 1] = [Power::Load];
    /// Powers that `webstone agent --allow` can add.
    pub const ALLOWED_BY_AGENTS: [Power; 2] = [Power::Proxy, Power::Write];

    /// What it does, in words to be followed by a value.
    pub fn in_words(self) -> &'static str {
        match self {
            Power::Load => "sends requests to",
            Power::Server => "starts",
            Power::Listen => "listens for other hosts or users on",
            Power::Proxy => "sends requests through the proxy",
            Power::Socket => "connects to the Unix socket",
            Power::Read => "reads",
            Power::Write => "writes",
            Power::Run => "runs",
        }
    }
}

impl FromStr for Power {
    type Err = String;

    fn from_str(text: &str) -> Result<Power, String> {
        let found = Power::ALLOWED_BY_AGENTS.into_iter().find(|power| power.name() == text);
        found.ok_or_else(|| {
            let known = Power::ALLOWED_BY_AGENTS.map(Power::name).join(", ");
            format!("`{text}` cannot be allowed; write one of {known}")
        })
    }
}

/// A power that a specification needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The power.
    pub power: Power,
    /// The key that needs it: `client.tls.key_log`.
    pub key: &'static str,
    /// The value: a command, a file, a host.
    pub value: String,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.power.in_words(), webstone_measure::shown::quoted(&self.value), self.key)
    }
}

/// Everything that a specification needs, in the order of its keys.
pub fn asked(spec: &RunSpec) -> Vec<Asked> {
    let mut asked = List(Vec::new());
    let RunSpec {
        // Part of a file's name; the store makes it harmless.
        name: _,
        target,
        workload,
        server_config,
        load,
        client,
        generator,
        generators,
        server,
        find,
        series,
        // Text that is copied into the record.
        disclosure: _,
    } = spec;
    asked.all(Power::Load, "target", target);
    asked.distant("workload", workload);
    asked.all(Power::Read, "server_config", server_config);
    of_load(load);
    of_client(client, &mut asked);
    of_generator(generator, &mut asked);
    generators.iter().for_each(|host| of_host(host, &mut asked));
    of_server(server, &mut asked);
    find.iter().for_each(of_search);
    series.iter().for_each(|matrix| of_series(matrix, &mut asked));
    asked.0
}

/// The greatest of the needed powers that are not in `granted`; of several equal ones the first. A refusal names it.
pub fn refused(spec: &RunSpec, granted: &[Power]) -> Option<Asked> {
    let beyond = asked(spec).into_iter().filter(|one| !granted.contains(&one.power));
    beyond.reduce(|most, one| if one.power > most.power { one } else { most })
}

struct List(Vec<Asked>);

impl List {
    fn add(&mut self, power: Power, key: &'static str, value: &str) {
        self.0.push(Asked { power, key, value: value.to_owned() });
    }

    fn all<'a>(&mut self, power: Power, key: &'static str, values: impl IntoIterator<Item = &'a String>) {
        values.into_iter().for_each(|value| self.add(power, key, value));
    }

    /// A workload: a name, or a file, whose lines are sent to the target and may be quoted in a message. A file below
    /// the working directory needs no power, unless it is hidden (`.ssh/`): that directory may be a home.
    fn distant(&mut self, key: &'static str, name: &str) {
        let is_near = |part: Component<'_>| match part {
            Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
            part => part == Component::CurDir,
        };
        if !Path::new(name).components().all(is_near) {
            self.add(Power::Read, key, name);
        }
    }

    /// Addresses to listen on: those of this host alone need no power.
    fn listens(&mut self, key: &'static str, addresses: &str) {
        let is_of_this_host = |address: &&str| {
            let host = address.rsplit_once(':').map_or(*address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        for address in addresses.split(',').map(str::trim).filter(|address| !is_of_this_host(address)) {
            self.add(Power::Listen, key, address);
        }
    }
}

/// The amount of load is not a power of its own.
fn of_load(load: &LoadSpec) {
    let LoadSpec {
        clients: _,
        rate: _,
        arrivals: _,
        when_busy: _,
        duration: _,
        pages: _,
        repetitions: _,
        iterations: _,
        warmup: _,
        drain: _,
        order: _,
        retries: _,
        aa: _,
    } = load;
}

fn of_client(client: &ClientSpec, asked: &mut List) {
    let ClientSpec {
        connections: _,
        requests_per_connection: _,
        parallel: _,
        http: _,
        streams: _,
        http2_settings,
        quic_version: _,
        clients_per_connection: _,
        pipeline: _,
        // Method, header fields and body go to the target and nowhere else.
        method: _,
        headers: _,
        accept_encoding: _,
        body: _,
        body_base64: _,
        seed: _,
        resolve: _,
        unix_socket,
        connect_to,
        // It says whom a connection is from: this host.
        proxy_protocol: _,
        // Never read from a file: this run found it.
        reached: _,
        // Addresses and ports of this host.
        source: _,
        source_ports: _,
        proxy,
        allow_hosts,
        allow_feeds,
        // They make clients slower.
        bandwidth: _,
        think: _,
        connect_timeout: _,
        first_byte_timeout: _,
        request_timeout: _,
        check: _,
        expect_status: _,
        // To hosts that are named or allowed.
        follow: _,
        reset: _,
        tls,
    } = client;
    let Http2Settings { header_table: _, window: _, frame: _, header_list: _, connection_window: _ } =
        http2_settings;
    asked.all(Power::Socket, "client.unix_socket", unix_socket);
    for route in connect_to {
        asked.add(Power::Load, "client.connect_to", &route.destination());
    }
    asked.all(Power::Proxy, "client.proxy", proxy);
    asked.all(Power::Load, "client.allow_hosts", allow_hosts);
    if *allow_feeds {
        asked.add(Power::Read, "client.allow_feeds", "files that the workload names");
    }
    of_tls(tls, asked);
}

fn of_tls(tls: &TlsSpec, asked: &mut List) {
    let TlsSpec {
        versions: _,
        ciphers: _,
        groups: _,
        verify: _,
        cacert,
        pin: _,
        cert,
        key,
        sni: _,
        alpn: _,
        key_log,
        early_data: _,
        resume: _,
    } = tls;
    asked.all(Power::Read, "client.tls.cacert", cacert);
    asked.all(Power::Read, "client.tls.cert", cert);
    asked.all(Power::Read, "client.tls.key", key);
    asked.all(Power::Write, "client.tls.key_log", key_log);
}

fn of_generator(generator: &GeneratorSpec, asked: &mut List) {
    let GeneratorSpec {
        workers: _,
        cpus: _,
        pin: _,
        priority: _,
        spin: _,
        page_histograms: _,
        spreads: _,
        trace: _,
        record_all,
        qlog,
        qlog_connections: _,
    } = generator;
    asked.all(Power::Write, "generator.record_all", record_all);
    asked.all(Power::Write, "generator.qlog", qlog);
}

fn of_host(host: &GeneratorHost, asked: &mut List) {
    // A name, and a number of clients, are shown and counted.
    let GeneratorHost { agent, kubernetes, name: _, clients: _, target } = host;
    asked.all(Power::Load, "generators.target", target);
    match kubernetes {
        None => asked.add(Power::Run, "generators.agent", agent),
        Some(PodsOfJob { job, pods: _, namespace: _, context: _, kubeconfig, wait: _, share_nodes: _ }) => {
            // kubectl runs with the rights of its user, and its configuration may name programs, too.
            asked.add(Power::Run, "generators.kubernetes.job", job);
            asked.all(Power::Run, "generators.kubernetes.kubeconfig", kubeconfig);
            asked.all(Power::Run, "generators.agent", Some(agent).filter(|agent| !agent.is_empty()));
        }
    }
}

fn of_server(server: &ServerSpec, asked: &mut List) {
    let ServerSpec {
        software,
        profile: _,
        program,
        command,
        origin,
        origin_cpus: _,
        listen,
        root,
        threads: _,
        processes: _,
        cpus: _,
        cache: _,
        keep_alive: _,
        access_log: _,
        resolve_names: _,
        dns_delay: _,
        backlog: _,
        interface,
        handlers: _,
        tls,
        http2: _,
        http3: _,
        // Network namespaces of its own, with what webstone starts in them.
        path: _,
        agents,
    } = server;
    if !matches!(software, Software::Reference | Software::Command) {
        asked.add(Power::Server, "server.software", software.name());
    }
    asked.all(Power::Run, "server.program", program);
    asked.all(Power::Run, "server.command", command);
    asked.all(Power::Load, "server.origin", origin);
    asked.listens("server.listen", listen);
    asked.all(Power::Read, "server.root", root);
    if let Logging::File(file) = server.logging() {
        asked.add(Power::Write, "server.access_log", file);
    }
    if let Some(interface) = interface {
        asked.add(Power::Server, "server.interface", interface.name());
    }
    if let Some(ServerTls { listen, certificate: _, cert, key, versions: _, tickets: _, session_cache: _ }) =
        tls
    {
        listen.iter().for_each(|listen| asked.listens("server.tls.listen", listen));
        asked.all(Power::Read, "server.tls.cert", cert);
        asked.all(Power::Read, "server.tls.key", key);
    }
    asked.all(Power::Run, "server.agent", agents);
}

/// The range of a search is only an amount of load.
fn of_search(find: &SearchSpec) {
    let SearchSpec {
        slo: _,
        over: _,
        clients: _,
        from: _,
        begin: _,
        to: _,
        resolution_percent: _,
        repeats: _,
    } = find;
}

fn of_series(matrix: &Matrix, asked: &mut List) {
    let Matrix {
        servers,
        profiles: _,
        builds,
        interfaces,
        workloads,
        dynamic_workloads,
        resolve_names: _,
        dynamic_workload,
        caching: _,
        connections: _,
        handshakes: _,
        http: _,
        paths: _,
        cpus: _,
        pages: _,
    } = matrix;
    for choice in servers.iter().filter(|choice| choice.software != Software::Reference) {
        asked.add(Power::Server, "series.servers", choice.software.name());
    }
    asked.all(Power::Run, "series.builds", builds);
    for interface in interfaces {
        asked.add(Power::Server, "series.interfaces", &interface.to_string());
    }
    workloads.iter().for_each(|name| asked.distant("series.workloads", name));
    dynamic_workloads.iter().for_each(|name| asked.distant("series.dynamic_workloads", name));
    dynamic_workload.iter().for_each(|name| asked.distant("series.dynamic_workload", name));
}

#[cfg(test)]
#[path = "powers_tests.rs"]
mod reference;
