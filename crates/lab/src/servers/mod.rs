//! Servers that webstone runs, with one driver each. A driver knows the names and package of its program and which options the
//! program supports, and writes its whole configuration; it starts nothing. `program` finds programs, `site` makes the
//! directory that a server runs in, `running` starts, watches and stops it.
//!
//! A configuration is a pure function of [`Site`], so that it can be shown without running anything, and tested as text.
//! It names every file that the server touches: nothing of the system's own configuration is read.

mod answering;
mod apache;
mod caddy;
mod command;
mod envoy;
mod haproxy;
pub mod interfaces;
mod lighttpd;
mod media_types;
mod nghttpd;
mod nginx;
mod nginx_proxy;
mod problem;
mod program;
mod runnable;
mod running;
mod site;
pub mod tls;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use webstone_model::server_tls::ServerTls;
use webstone_model::spec::{Interface, Logging, Profile, ServerChoice, ServerSpec, Software};

pub(crate) use answering::Asked;
pub use problem::ServerError;
pub use program::{Installed, find, on_path, unusable};
pub use runnable::Unusable;
pub use running::{Launch, RunningServer, only_inherited};

/// What a driver configures: a server's specification and its place on this host.
#[derive(Clone, Debug)]
pub struct Site {
    /// The options.
    pub spec: ServerSpec,
    /// The program.
    pub program: PathBuf,
    /// Directory of its configuration, with one of its own inside for logs, sockets and temporary files.
    pub directory: PathBuf,
    /// Directory of the files to serve.
    pub root: PathBuf,
    /// Files to serve, by their paths below `root`; empty where they are not known.
    pub files: Vec<String>,
    /// Where it listens: over TLS if it speaks TLS and `SiteTls::listen` is not set, otherwise without.
    pub address: SocketAddr,
    /// CPUs that it runs on, in ascending order; at least one.
    pub cpus: Vec<u32>,
    /// Most connections that the load has at once.
    pub connections: u64,
    /// Whether clients keep their connections.
    pub are_kept: bool,
    /// Of a proxy: host and port of the server behind it.
    pub origin: String,
    /// TLS, where it is spoken.
    pub tls: Option<tls::SiteTls>,
    /// What the program says of its build, where that matters.
    pub build: String,
}

impl Site {
    fn is_tuned(&self) -> bool {
        self.spec.profile == Profile::Tuned
    }

    /// Where it speaks TLS, beside an address where it does not.
    fn second(&self) -> Option<SocketAddr> {
        self.tls.as_ref().and_then(|tls| tls.listen)
    }

    /// Whether it speaks TLS where it listens first.
    fn is_secure(&self) -> bool {
        self.tls.is_some() && self.second().is_none()
    }

    /// The number of threads that was asked for, or one per CPU.
    fn threads(&self) -> u32 {
        match self.spec.threads {
            0 => self.cpus.len() as u32,
            asked => asked,
        }
    }

    /// Processes of a handler outside the server: the number that was asked for, or two per CPU, one of which works while the
    /// other waits for the server.
    fn handlers(&self) -> u32 {
        match self.spec.handlers {
            0 => (2 * self.cpus.len() as u32).max(4),
            asked => asked,
        }
    }

    /// Path of what the server itself writes: below the one directory that belongs to its user.
    fn own(&self, name: &str) -> String {
        match name {
            "" => self.directory.join(site::OWN).display().to_string(),
            name => self.directory.join(site::OWN).join(name).display().to_string(),
        }
    }

    /// Path of what it reads: in a directory that its user cannot write to.
    fn at(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// File of the access log; `None`: none is written. `by_profile` applies if nothing was asked for.
    fn log(&self, by_profile: bool) -> Option<String> {
        match self.spec.logging() {
            Logging::File(path) => Some(path.to_owned()),
            Logging::Off => None,
            Logging::Unsaid if !by_profile => None,
            Logging::Unsaid | Logging::On => Some(self.own(ACCESS_LOG)),
        }
    }
}

/// Name of the access log in the server's directory.
const ACCESS_LOG: &str = "access.log";
/// Name of the error log in the server's directory; its end is quoted where the server does not start.
const ERROR_LOG: &str = "error.log";

/// The configuration that a driver made for a [`Site`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Files to write into the server's directory, by name. The first is the configuration that its reader wants to see.
    pub files: Vec<(String, String)>,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Processes that it needs, started before it and ended with it.
    pub companions: Vec<interfaces::Companion>,
    /// Names in its directory under which it finds webstone's own executable.
    pub executables: Vec<&'static str>,
    /// A program and its arguments, run in its directory before anything is started; empty: nothing is to be built.
    pub build: Vec<OsString>,
    /// File that receives its standard output, where that is its log.
    pub output: Option<PathBuf>,
    /// What it says of itself to the run rules.
    pub disclosure: Disclosure,
    /// CPUs that it can keep busy at most; `None`: all that it may run on.
    pub cpus_max: Option<u32>,
    /// What the user should know of this configuration.
    pub warnings: Vec<String>,
    /// What the user should know if the server has no control group of its own, and its use is known from `/proc` only.
    pub unseen: Vec<String>,
}

/// What WebStone's run rules require to be disclosed of a server, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// Its access log.
    pub logging: String,
    /// Whether it looks up host names for that log.
    pub dns: String,
    /// Processes and threads.
    pub processes: String,
    /// What it caches.
    pub caching: String,
    /// Its TLS and HTTP/2.
    pub tls: String,
}

impl Disclosure {
    /// Of a server that does not look up host names. `log` is how it writes an access log; `None`: it writes none.
    fn new(log: Option<&str>, processes: String, caching: &str) -> Disclosure {
        Disclosure {
            logging: log.map_or("no access log".to_owned(), |how| format!("access log, {how}")),
            dns: "does not look up host names".to_owned(),
            processes,
            caching: caching.to_owned(),
            tls: String::new(),
        }
    }
}

/// An option of [`ServerSpec`] that some servers do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `resolve_names`.
    ResolveNames,
    /// `cache`, switched on.
    Cache,
    /// `cache`, switched off.
    NoCache,
    /// `backlog`.
    Backlog,
    /// `threads`.
    Threads,
    /// `processes`.
    Processes,
    /// `keep_alive`, switched off.
    NoKeepAlive,
    /// `access_log`.
    AccessLog,
    /// `root`.
    Root,
    /// `tls`.
    Tls,
    /// Some of `tls.versions` only.
    TlsVersions,
    /// `tls.tickets`, switched on.
    Tickets,
    /// `tls.tickets`, switched off.
    NoTickets,
    /// `tls.session_cache`, switched on.
    SessionCache,
    /// `tls.session_cache`, switched off.
    NoSessionCache,
    /// `tls.listen`: TLS at one address, none at another.
    TlsListen,
    /// `http2`, switched on.
    Http2,
    /// `http2`, left off.
    Http1,
}

/// The TLS settings of a specification; without TLS, the defaults, which make no choice.
fn tls_of(spec: &ServerSpec) -> ServerTls {
    spec.tls.clone().unwrap_or_default()
}

/// Whether a specification makes a choice.
type IsMade = fn(&ServerSpec) -> bool;
/// Every choice, with its key.
const CHOICES: [(Choice, &str, IsMade); 18] = [
    (Choice::ResolveNames, "server.resolve_names", |spec| spec.resolve_names),
    (Choice::Cache, "server.cache", |spec| spec.cache == Some(true)),
    (Choice::NoCache, "server.cache", |spec| spec.cache == Some(false)),
    (Choice::Backlog, "server.backlog", |spec| spec.backlog.is_some()),
    (Choice::Threads, "server.threads", |spec| spec.threads > 0),
    (Choice::Processes, "server.processes", |spec| spec.processes > 0),
    (Choice::NoKeepAlive, "server.keep_alive", |spec| !spec.keep_alive),
    (Choice::AccessLog, "server.access_log", |spec| spec.access_log.is_some()),
    (Choice::Root, "server.root", |spec| spec.root.is_some()),
    (Choice::Tls, "server.tls", |spec| spec.tls.is_some()),
    (Choice::TlsVersions, "server.tls.versions", |spec| tls_of(spec).versions.len() == 1),
    (Choice::Tickets, "server.tls.tickets", |spec| tls_of(spec).tickets == Some(true)),
    (Choice::NoTickets, "server.tls.tickets", |spec| tls_of(spec).tickets == Some(false)),
    (Choice::SessionCache, "server.tls.session_cache", |spec| tls_of(spec).session_cache == Some(true)),
    (Choice::NoSessionCache, "server.tls.session_cache", |spec| tls_of(spec).session_cache == Some(false)),
    (Choice::TlsListen, "server.tls.listen", |spec| tls_of(spec).listen.is_some()),
    (Choice::Http2, "server.http2", |spec| spec.http2),
    (Choice::Http1, "server.http2", |spec| !spec.http2),
];

/// How to find, start and configure one server's program.
pub struct Driver {
    /// Names that its program may have, the likeliest first.
    pub programs: &'static [&'static str],
    /// How it is installed.
    pub install: &'static str,
    /// Argument that prints the program's version and build; empty if it has no such option.
    version_argument: &'static str,
    /// Why it does not support a choice; `None` if it does.
    without: fn(Choice) -> Option<&'static str>,
    /// The whole configuration.
    configure: fn(&Site) -> Setup,
}

/// The driver of a software; `None` for the reference server, which is embedded.
pub fn driver(software: Software) -> Option<&'static Driver> {
    Some(match software {
        Software::Reference => return None,
        Software::Nginx => &nginx::DRIVER,
        Software::Apache => &apache::DRIVER,
        Software::ApachePrefork => &apache::PREFORK,
        Software::Lighttpd => &lighttpd::DRIVER,
        Software::Caddy => &caddy::DRIVER,
        Software::Haproxy => &haproxy::DRIVER,
        Software::Envoy => &envoy::DRIVER,
        Software::NginxProxy => &nginx_proxy::DRIVER,
        Software::Nghttpd => &nghttpd::DRIVER,
        Software::Command => &command::DRIVER,
    })
}

/// An option that cannot be obeyed: the option, the reason, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// The key of the specification (`server.cache`) and why it is not available.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// Checks that a server has all options that its specification sets.
pub fn check(spec: &ServerSpec) -> Result<(), Refusal> {
    let refuse = |what: String, hint: &str| Err(Refusal { what, hint: hint.to_owned() });
    interfaces::check(spec)?;
    let name = spec.software.name();
    tls::speaks_http3(spec, None)?;
    let Some(driver) = driver(spec.software) else {
        if spec.logging() == Logging::On {
            return refuse(
                "server.access_log: `on`: the reference server has no directory of its own for a log".into(),
                "name a file, as in `access.log`",
            );
        }
        return reference_only(spec);
    };
    for (choice, option, is_made) in CHOICES {
        if let Some(reason) = (driver.without)(choice).filter(|_| is_made(spec)) {
            let hint = match choice {
                Choice::Http1 => {
                    "enable HTTP/2 (--http 2 does for server and clients), or choose another server"
                }
                Choice::TlsListen => {
                    "choose another server, or a workload that requests all of its pages over TLS, or none"
                }
                _ => "remove it, or choose another server",
            };
            return refuse(format!("{option}: {reason}"), hint);
        }
    }
    if let Some((module, package)) = tls::missing(spec) {
        return refuse(
            format!("server.tls: {name} needs {module} for it, which is not installed"),
            &format!("install it (Debian: apt-get install {package})"),
        );
    }
    if spec.threads > workers_max(spec.software) {
        return refuse(
            format!(
                "server.threads: `{}` is more than {}, the limit for {name}",
                spec.threads,
                workers_max(spec.software)
            ),
            "give fewer; with 0, the default, the profile decides",
        );
    }
    if spec.processes > PROCESSES_MAX {
        return refuse(
            format!("server.processes: `{}` is more than {PROCESSES_MAX}, the limit", spec.processes),
            "give fewer; with 0, the default, the profile decides",
        );
    }
    if spec.origin.is_some() && !spec.software.is_proxy() {
        return refuse(
            format!("server.origin: only a proxy has an origin, and {name} is not a proxy"),
            "remove it, or choose haproxy, nginx-proxy or envoy",
        );
    }
    if !spec.origin_cpus.is_empty() && !spec.starts_origin() {
        return refuse(
            match spec.software.is_proxy() {
                true => {
                    "server.origin_cpus: webstone pins only an origin that it starts, not one given by server.origin".to_owned()
                }
                false => {
                    format!("server.origin_cpus: only a proxy has an origin, and {name} is not a proxy")
                }
            },
            "remove it",
        );
    }
    let has_command = spec.command.as_deref().is_some_and(|command| !command.trim().is_empty());
    match spec.software {
        Software::Command if !has_command => refuse(
            "server.command: the command line is missing".into(),
            "give it, as in 'busybox httpd -f -p {address}:{port} -h {root}'",
        ),
        Software::Command => command::words(spec.command.as_deref().unwrap_or_default()).map(drop),
        _ if spec.command.is_some() => refuse(
            format!("server.command: only the server `command` has a command line, and the server is {name}"),
            "choose the server `command`, or remove it",
        ),
        _ => Ok(()),
    }
}

/// Most processes that share the threads of Apache's event MPM.
const PROCESSES_MAX: u32 = 1_024;

/// Most threads, or processes of one thread: a typing error must not start a hundred thousand.
fn workers_max(software: Software) -> u32 {
    match software {
        // A process for each connection; httpd itself stops there (`MAX_SERVER_LIMIT`).
        Software::Apache | Software::ApachePrefork => 20_000,
        _ => 1_024,
    }
}

/// Refuses what the reference server does not support.
fn reference_only(spec: &ServerSpec) -> Result<(), Refusal> {
    let vain = [
        ("server.program", spec.program.is_some()),
        ("server.command", spec.command.is_some()),
        ("server.origin", spec.origin.is_some()),
        ("server.origin_cpus", !spec.origin_cpus.is_empty()),
        ("server.processes", spec.processes > 0),
    ];
    match vain.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Refusal {
            what: format!("{option}: it does not apply to the reference server"),
            hint: "choose another server, such as nginx, or remove it; `webstone servers` lists the servers"
                .to_owned(),
        }),
        None => Ok(()),
    }
}

/// The configuration that a choice of options leads to, as `webstone servers show` prints it: of a server that is not
/// run, in a directory that is not there.
pub fn example(choice: ServerChoice, interface: Option<Interface>) -> Option<Setup> {
    let driver = driver(choice.software)?;
    let directory = Path::new("/run-directory");
    let port = 8080;
    let site = Site {
        spec: ServerSpec {
            software: choice.software,
            profile: choice.profile,
            interface,
            http2: choice.software == Software::Nghttpd,
            ..ServerSpec::default()
        },
        program: PathBuf::from(driver.programs.first().copied().unwrap_or("program")),
        directory: directory.to_owned(),
        root: directory.join("files"),
        files: Vec::new(),
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        cpus: vec![0],
        connections: 100,
        are_kept: true,
        origin: "127.0.0.1:8081".to_owned(),
        tls: None,
        build: String::new(),
    };
    Some(configured(driver, &site))
}

/// The whole setup: the server and the processes that it needs.
fn configured(driver: &Driver, site: &Site) -> Setup {
    let mut setup = (driver.configure)(site);
    interfaces::equip(site, &mut setup);
    setup.disclosure.tls = tls::disclosed(&site.spec);
    setup
}

/// A number with its noun: `1 process`, `4 processes`.
fn counted(number: u32, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
