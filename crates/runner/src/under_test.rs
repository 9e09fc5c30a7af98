//! The server under test where webstone starts it: the embedded reference server, or another through its driver, with
//! the origin behind it where it is a proxy. Also a server that somebody else started, as far as it can be seen.

use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use webstone_model::record::SoftwareRecord;
use webstone_model::spec::{ConnectionPolicy, RunSpec, ServerSpec, Software};
use webstone_server::Counters;
use webstone_workload::Workload;
use webstone_workload::target::{Place, Target};
use webstone_workload::tls::TlsSpec;

use crate::placement::{Placement, ServerPlace};
use crate::preflight::target::TargetFacts;
use crate::run::RunError;
use webstone_lab::cpus::cpu_list;
use webstone_lab::embedded::{self, EmbeddedServer, EmbeddedServerError};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::listeners::{self, Forwarder, Ports, ServerProcesses};
use webstone_lab::machine::Root;
use webstone_lab::measured::MeasuredServer;
use webstone_lab::origin::Origin;
use webstone_lab::path::Path;
use webstone_lab::process_tree::ProcessTree;
use webstone_lab::servers::{self, RunningServer};

/// How long a server may take to be ready: it may read or make a fileset of gigabytes.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// A server that answers, and what is known of it.
pub(crate) struct UnderTest {
    /// The server.
    pub(crate) server: Box<dyn MeasuredServer>,
    /// `http://address:port`; `https:` where it speaks TLS alone.
    pub(crate) url: String,
    /// The same where it speaks TLS, if `url` is without TLS.
    pub(crate) secure_url: Option<String>,
    /// File with the certificate that was made for it, which clients have to trust. Lives as long as the server.
    pub(crate) certificate: Option<PathBuf>,
    /// Its program, where it is not the embedded one.
    pub(crate) software: Option<SoftwareRecord>,
    /// Facts for the run rules, by name.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Its configuration files.
    pub(crate) configuration: Vec<Value>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
    /// The server behind it, where it is a proxy. Lives as long as the proxy does.
    pub(crate) origin: Option<Origin>,
    /// The path to it, if webstone made one. Lives as long as the server.
    pub(crate) path: Option<Rc<Path>>,
}

impl UnderTest {
    /// Has clients trust a certificate that was made for the server, unless they were told whom to trust.
    pub(crate) fn trust(&self, client: &mut TlsSpec) {
        if let Some(certificate) = &self.certificate
            && client.verify
            && client.cacert.is_none()
        {
            client.cacert = Some(certificate.display().to_string());
        }
    }
}

/// This executable, which is also started as the server.
pub(crate) fn program() -> Result<PathBuf, EmbeddedServerError> {
    std::env::current_exe()
        .map_err(|source| EmbeddedServerError::Start { program: PathBuf::from("/proc/self/exe"), source })
}

/// Starts the server that a specification asks for, on the CPUs of its placement, with the origin behind it. `program` is webstone's own.
pub(crate) fn start(
    spec: &RunSpec,
    workload: &Workload,
    placement: &Placement,
    program: PathBuf,
    interrupt: &Interrupt,
) -> Result<UnderTest, RunError> {
    let Some(path) = spec.server.path else {
        return start_here(spec, workload, placement, program, interrupt);
    };
    let is_v6 = spec.server.listen.starts_with('[');
    let path = Path::start(program.clone(), path, spec.client.seed, is_v6).map_err(refused)?;
    let path = Rc::new(path);
    let mut spec = spec.clone();
    let tls = spec.server.tls.as_mut().and_then(|tls| tls.listen.as_mut());
    for listen in std::iter::once(&mut spec.server.listen).chain(tls) {
        let port = listen.rsplit_once(':').map_or("0", |(_, port)| port);
        *listen = match path.server() {
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
    }
    let under_test = path.within(|| start_here(&spec, workload, placement, program, interrupt))?;
    let server = Box::new(OverPath { server: under_test.server, path: Rc::clone(&path) });
    let mut facts = under_test.facts;
    facts.push(("server.path", format!("{}, by a relay of webstone's on this host", path.spec().in_words())));
    Ok(UnderTest { server, facts, path: Some(path), ..under_test })
}

/// A server at the other end of a path: it is asked from its own network.
struct OverPath {
    server: Box<dyn MeasuredServer>,
    path: Rc<Path>,
}

impl MeasuredServer for OverPath {
    fn exit(&mut self) -> Option<String> {
        self.server.exit().or_else(|| self.path.exit())
    }

    fn level_starts(&mut self) {
        self.path.within(|| self.server.level_starts());
    }

    fn processes(&self) -> ProcessTree {
        self.server.processes()
    }

    fn counted(&self) -> Option<Counters> {
        self.path.within(|| self.server.counted())
    }

    fn path(&self) -> Option<Rc<Path>> {
        Some(Rc::clone(&self.path))
    }
}

fn refused(error: servers::Refusal) -> RunError {
    RunError::UnderTest(Box::new(error.into()))
}

fn start_here(
    spec: &RunSpec,
    workload: &Workload,
    placement: &Placement,
    program: PathBuf,
    interrupt: &Interrupt,
) -> Result<UnderTest, RunError> {
    let cpus = placement.server.as_slice();
    if spec.server.software == Software::Reference {
        let server = EmbeddedServer::start(&embedded(spec, spec.server.clone(), cpus, program), interrupt)?;
        return Ok(UnderTest {
            url: server.url().to_owned(),
            secure_url: server.secure_url().map(str::to_owned),
            certificate: server.certificate().map(PathBuf::from),
            server: Box::new(server),
            software: None,
            facts: match servers::tls::disclosed(&spec.server) {
                tls if tls.is_empty() => Vec::new(),
                tls => vec![("server.tls", tls)],
            },
            configuration: Vec::new(),
            warnings: Vec::new(),
            origin: None,
            path: None,
        });
    }
    let origin = match (&spec.server.origin, spec.server.software.is_proxy()) {
        (Some(url), true) => Some(Origin::at(url).map_err(refused)?),
        (None, true) => {
            let of_origin = ServerSpec { root: spec.server.root.clone(), ..ServerSpec::default() };
            let launch = embedded(spec, of_origin, &placement.origin, program.clone());
            Some(Origin::start(&launch, interrupt).map_err(EmbeddedServerError::of_origin)?)
        }
        (_, false) => None,
    };
    let mut warnings = warnings_of(origin.as_ref(), placement);
    let behind = origin.as_ref().map(|origin| origin.record.url.clone()).unwrap_or_default();
    let launch = servers::Launch {
        webstone: program,
        spec: &spec.server,
        workload,
        cpus,
        connections: connections(spec),
        are_kept: spec.client.connections == ConnectionPolicy::KeepAlive,
        origin: host_and_port(&behind),
        patience: SERVER_PATIENCE,
    };
    let server =
        RunningServer::start(&launch, interrupt).map_err(|error| RunError::UnderTest(Box::new(error)))?;
    warnings.extend(server.warnings().iter().cloned());
    let mut facts = server.facts();
    if let Some(origin) = &origin {
        let ours = "a reference server of webstone's".to_owned();
        facts.push(("server.origin", if origin.record.ours { ours } else { behind }));
    }
    Ok(UnderTest {
        url: server.url().to_owned(),
        secure_url: server.secure_url(),
        certificate: server.certificate().map(PathBuf::from),
        software: Some(server.software()),
        facts,
        configuration: server.configuration(),
        warnings,
        server: Box::new(server),
        origin,
        path: None,
    })
}

/// A server that webstone did not start, as far as it can be seen from here.
#[derive(Default)]
pub(crate) struct Found {
    /// Its processes.
    pub(crate) processes: Option<ServerProcesses>,
    /// What holds its port instead of it.
    forwarder: Option<Forwarder>,
    /// The server that clients ask for, where what they are connected to is a proxy.
    pub(crate) origin: Option<Origin>,
}

/// Looks for a server that webstone did not start. Where clients go through a proxy, the proxy is the server that answers
/// them, and their target is its origin.
pub(crate) fn find(spec: &RunSpec, at: ServerPlace, facts: &TargetFacts) -> Found {
    let found = match at {
        ServerPlace::ThisHost if spec.server.agents.is_empty() => {
            let ports = Ports::of_targets(facts.addresses.iter().copied(), spec.client.http);
            listeners::find_or_forwarder(&Root::default(), &ports)
        }
        _ => Ok(None),
    };
    let (processes, forwarder) = match found {
        Ok(processes) => (processes, None),
        Err(forwarder) => (None, Some(forwarder)),
    };
    let origin = match (&spec.client.proxy, spec.target.as_slice()) {
        (Some(_), [origin]) => Some(Origin::through_proxy(origin)),
        _ => None,
    };
    Found { processes, forwarder, origin }
}

impl Found {
    /// What the user should know.
    pub(crate) fn warnings(&self, placement: &Placement) -> Vec<String> {
        let forwarder = self.forwarder.as_ref().map(|forwarder| {
            format!(
                "{forwarder}: the server's own figures are missing; run `webstone agent` where the server runs \
                 (--server-agent)"
            )
        });
        forwarder.into_iter().chain(warnings_of(self.origin.as_ref(), placement)).collect()
    }
}

fn warnings_of(origin: Option<&Origin>, placement: &Placement) -> Vec<String> {
    let Some(origin) = origin else { return Vec::new() };
    origin.record.unseen.iter().cloned().chain(shared_with(origin, placement)).collect()
}

/// A server as configurations of proxies name it: always with its port.
fn host_and_port(url: &str) -> String {
    let place = |(target, _): (Target, _)| Place { host: target.host, port: Some(target.port) }.to_string();
    Target::split(url).map(place).unwrap_or_default()
}

fn embedded(spec: &RunSpec, server: ServerSpec, cpus: &[u32], program: PathBuf) -> embedded::Launch {
    embedded::Launch {
        program,
        prefix: Vec::new(),
        workload: spec.workload.clone(),
        server,
        null: None,
        cpus: cpus.to_vec(),
        patience: SERVER_PATIENCE,
    }
}

/// What it means that the origin runs on CPUs of others.
fn shared_with(origin: &Origin, placement: &Placement) -> Option<String> {
    let with = |others: &[u32]| {
        let shared: Vec<u32> =
            origin.record.cpus.iter().copied().filter(|cpu| others.contains(cpu)).collect();
        (!shared.is_empty()).then(|| cpu_list(&shared))
    };
    if let Some(cpus) = with(&placement.server) {
        let remedy = match origin.record.ours {
            true => "give --server-origin-cpus others, or --server-origin a server elsewhere,",
            false => "pin it to others (taskset -c), or name one elsewhere,",
        };
        return Some(format!(
            "the proxy and its origin share CPU {cpus}: the rate is that of both together; {remedy} to measure the proxy alone"
        ));
    }
    with(&placement.workers_cpus).map(|cpus| {
        format!(
            "the origin and the generator share CPU {cpus}: the origin takes CPU time from the load generator"
        )
    })
}

/// Most connections that the load has at once.
fn connections(spec: &RunSpec) -> u64 {
    let clients = spec.load.clients.0.iter().copied().max().unwrap_or_default();
    spec.client.connections_max(clients)
}
