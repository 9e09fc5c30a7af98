//! A server that webstone runs: started through the supervisor, ready when it answers, monitored, measured, stopped.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tracing::{debug, info};
use webstone_model::record::SoftwareRecord;
use webstone_model::servers::is_inherited;
use webstone_model::spec::{Logging, Profile, ServerSpec, Software};
use webstone_server::Counters;
use webstone_workload::Workload;

use super::runnable;
use super::site::{Directory, OWN, User, address, is_plain, second_address, user};
use super::tls::{self, SiteTls};
use super::{Asked, Disclosure, ERROR_LOG, Installed, Refusal, ServerError, Setup, Site, driver, find};
use crate::attended::{Attended, POLL, in_words, quoted};
use crate::child::{CHILD, Child};
use crate::environment::configuration;
use crate::fetch::ByProbe;
use crate::interrupt::Interrupt;
use crate::listeners;
use crate::machine::Root;
use crate::measured::MeasuredServer;
use crate::own_group;
use crate::process_tree::ProcessTree;
use crate::supervisor::{ENDED, STARTED, Supervision};
use webstone_store::plain_file::{self, Links};
use webstone_store::{redaction, without_number};

/// How long the supervisor may take to end a server, then on SIGTERM: longer than its own patience.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(5)];
/// How long a server may take to give its first answer to one request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How often a server is started again on another port because its port was taken meanwhile.
const PORTS_TRIED: usize = 4;
/// Messages of servers about a port that is taken.
const PORT_TAKEN: [&str; 3] = ["address already in use", "can't bind", "cannot bind socket"];
/// Lines of its error log that a message quotes.
const LOG_LINES: usize = 10;
/// Bytes at its end that are searched for them.
const LOG_BYTES: u64 = 64 << 10;

/// How to start a server.
pub struct Launch<'a> {
    /// This program's executable, which is the supervisor's too.
    pub webstone: PathBuf,
    /// Which server, and its options.
    pub spec: &'a ServerSpec,
    /// What it serves.
    pub workload: &'a Workload,
    /// CPUs to pin it to; empty: it is not pinned.
    pub cpus: &'a [u32],
    /// Most connections that the load has at once.
    pub connections: u64,
    /// Whether clients keep their connections.
    pub are_kept: bool,
    /// Host and port of the server behind a proxy.
    pub origin: String,
    /// How long it may take to answer.
    pub patience: Duration,
}

/// A server that is running and answers requests.
pub struct RunningServer {
    process: Attended,
    said: Receiver<String>,
    /// Its first process.
    pid: u32,
    url: String,
    /// Where it speaks TLS, if `url` is without.
    secure: Option<SocketAddr>,
    name: &'static str,
    setup: Setup,
    software: SoftwareRecord,
    /// How it ended during the run, once it did.
    gone: Option<String>,
    /// It was asked for an interface.
    has_handler: bool,
    /// It was asked for nothing but HTTP/2.
    http2_alone: bool,
    /// Its certificate, over TLS.
    cert_pem: Option<String>,
    /// The file of one that was made.
    trusted: Option<PathBuf>,
    // Dropped after the process: the supervisor removes it first.
    directory: Directory,
    root: Root,
}

impl RunningServer {
    /// Finds the program, writes its configuration and files, starts it and waits until it answers.
    pub fn start(launch: &Launch<'_>, interrupt: &Interrupt) -> Result<RunningServer, ServerError> {
        super::check(launch.spec)?;
        let installed = find(launch.spec)?;
        let fixed = launch.spec.listen.rsplit_once(':').is_some_and(|(_, port)| port.trim() != "0");
        let mut tries = if fixed { 1 } else { PORTS_TRIED };
        loop {
            tries -= 1;
            match attempt(launch, &installed, interrupt) {
                Err(ServerError::Ended { said, .. }) if tries > 0 && is_taken(&said) => {}
                outcome => return outcome,
            }
        }
    }

    /// `http://address:port`; `https:` where it speaks TLS alone.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `https://address:port`, where it speaks TLS there and [`RunningServer::url`] is without.
    pub fn secure_url(&self) -> Option<String> {
        self.secure.map(|address| format!("https://{address}"))
    }

    /// File with the certificate that was made for the server, for clients to trust. It is removed with the server.
    pub fn certificate(&self) -> Option<&Path> {
        self.trusted.as_deref()
    }

    /// What the record keeps of the program.
    pub fn software(&self) -> SoftwareRecord {
        self.software.clone()
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> &[String] {
        &self.setup.warnings
    }

    /// Facts for the run rules, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let Disclosure { logging, dns, processes, caching, tls } = self.setup.disclosure.clone();
        let SoftwareRecord { version, program, .. } = self.software();
        let facts = vec![
            ("server.software", version),
            ("server.program", program),
            ("server.logging", logging),
            ("server.dns", dns),
            ("server.processes", processes),
            ("server.caching", caching),
            ("server.tls", tls),
        ];
        facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Its configuration as a record keeps it: every file, its arguments and variables, without secrets.
    pub fn configuration(&self) -> Vec<Value> {
        let files = self.setup.files.iter();
        let mut kept: Vec<Value> = files
            .map(|(name, text)| configuration::kept(&self.path(name), text.clone().into_bytes()))
            .collect();
        let mut line: Vec<String> =
            self.setup.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line.push(self.software.program.clone());
        line.extend(self.setup.arguments.iter().map(|word| word.to_string_lossy().into_owned()));
        kept.push(configuration::kept("command line", (line.join(" ") + "\n").into_bytes()));
        for companion in &self.setup.companions {
            let words: Vec<String> =
                companion.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            kept.push(configuration::kept(
                "command line of its handler",
                (words.join(" ") + "\n").into_bytes(),
            ));
        }
        kept
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// How it ended, if it did.
    fn ended(&mut self) -> Option<String> {
        loop {
            match self.said.try_recv() {
                Ok(line) => {
                    if let Some(how) = line.strip_prefix(ENDED) {
                        return Some(how.to_owned());
                    }
                    self.pid = pid_of(&line).unwrap_or(self.pid);
                    debug!(server = self.name, line, "supervisor said");
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    let exit = self.process.exit()?;
                    // It was killed, and the kernel killed the server's first process; the others are in its group.
                    let group = i32::try_from(self.process.pid()).ok().and_then(Pid::from_raw);
                    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                    // The caller adds what it said.
                    return Some(format!("its supervisor ended: {}", in_words(exit.status)));
                }
            }
        }
    }

    /// What it said on standard error and at the end of its error log. Stops it: the log is removed with its directory, and standard
    /// error is complete only after its end.
    fn last_words(&mut self) -> String {
        // Its user may have put something else in its place.
        let log = self.directory.path().join(OWN).join(ERROR_LOG);
        let log = plain_file::read_end(&log, Links::RefusedHardToo, LOG_BYTES).unwrap_or_default();
        self.process.stop();
        let mut lines = self.process.last_words();
        let log = String::from_utf8_lossy(&log);
        let of_log: Vec<&str> = log.lines().filter(|line| !lines.iter().any(|known| known == line)).collect();
        lines.extend(of_log.iter().rev().take(LOG_LINES).rev().map(|line| (*line).to_owned()));
        quoted(&lines)
    }

    /// What to do about a command line of the user's own; other servers have a configuration to look at.
    fn by_hand(&self) -> Option<String> {
        let words = std::iter::once(self.software.program.as_str())
            .chain(self.setup.arguments.iter().filter_map(|word| word.to_str()));
        let line = (self.name == Software::Command.name()).then(|| shlex::try_join(words).ok()).flatten()?;
        Some(match &self.software.user {
            Some(user) => format!("start it by hand to see more, as the user {user}: {line}"),
            None => format!("start it by hand to see more: {line}"),
        })
    }

    /// Whether it answers wherever it listens.
    fn answers_all(&self, address: SocketAddr, probe: &ByProbe) -> bool {
        let over_tls = |address: SocketAddr| self.answers(address, true, false, probe);
        match self.secure {
            None if self.cert_pem.is_some() => self.answers(address, true, self.http2_alone, probe),
            None => self.answers(address, false, self.http2_alone, probe),
            Some(second) => self.answers(address, false, self.http2_alone, probe) && over_tls(second),
        }
    }

    /// Whether it answers at an address; over TLS and in HTTP/2 it is not asked by the load generator's probe.
    fn answers(&self, address: SocketAddr, over_tls: bool, http2_alone: bool, probe: &ByProbe) -> bool {
        let certificate = self.cert_pem.as_deref().filter(|_| over_tls);
        if certificate.is_none() && !http2_alone {
            return probe.fetch(&self.url, "/").is_ok() && self.handler_answers(probe);
        }
        let asked = Asked {
            address: reachable(address),
            certificate,
            may_have_another: self.trusted.is_none(),
            http2_alone,
            patience: ANSWER_PATIENCE,
        };
        let handler = || asked.body(&format!("{}?size=1", super::interfaces::PATH));
        asked.answers().is_ok()
            && (!self.has_handler
                || http2_alone
                || handler().is_ok_and(|(status, body)| status == 200 && !body.is_empty()))
    }

    /// Whether its handler answers, if it has one: a handler takes its own time to start.
    fn handler_answers(&self, probe: &ByProbe) -> bool {
        let one_byte = format!("{}?size=1", super::interfaces::PATH);
        !self.has_handler
            || probe
                .fetch(&self.url, &one_byte)
                .is_ok_and(|answer| answer.status == 200 && answer.body.len() == 1)
    }

    fn wait_until_ready(
        &mut self,
        address: SocketAddr,
        patience: Duration,
        interrupt: &Interrupt,
    ) -> Result<(), ServerError> {
        let until = Instant::now() + patience;
        let probe = ByProbe::plain(ANSWER_PATIENCE);
        loop {
            if let Some(how) = self.ended() {
                return Err(ServerError::Ended {
                    server: self.name,
                    how,
                    said: self.last_words(),
                    by_hand: self.by_hand(),
                });
            }
            // Somebody else's server on that port would answer as well.
            // Any answer will do: which files it has is asked later, and a proxy's origin may be slow.
            let holds =
                |address: SocketAddr| listeners::is_held_by(&self.root, address.port(), self.process.pid());
            let listens = holds(address) && self.secure.is_none_or(holds);
            let connects = listens
                && self.pid > 0
                && TcpStream::connect_timeout(&reachable(address), ANSWER_PATIENCE).is_ok();
            if connects && self.answers_all(address, &probe) {
                return Ok(());
            }
            if Instant::now() >= until || interrupt.count() > 0 {
                return Err(ServerError::NotReady {
                    server: self.name,
                    patience,
                    said: self.last_words(),
                    by_hand: self.by_hand(),
                });
            }
            std::thread::sleep(POLL);
        }
    }
}

fn attempt(
    launch: &Launch<'_>,
    installed: &Installed,
    interrupt: &Interrupt,
) -> Result<RunningServer, ServerError> {
    let spec = launch.spec;
    let server = spec.software.name();
    let Some(driver) = driver(spec.software) else {
        return Err(Refusal { what: format!("{server} is embedded"), hint: String::new() }.into());
    };
    let io = |doing: &'static str| move |source| ServerError::Io { doing, server, source };
    let user = user(&Root::default());
    let directory = Directory::create(user.as_ref(), &launch.webstone).map_err(io("make a directory"))?;
    let address = address(&spec.listen).map_err(|rule| Refusal {
        what: format!("server.listen: {rule}"),
        hint: "only the reference server listens on several addresses and on sockets".to_owned(),
    })?;
    let listen = spec.tls.as_ref().and_then(|tls| tls.listen.as_deref());
    let second = listen.map(|listen| second_address(listen, address)).transpose();
    let second = second.map_err(|rule| Refusal {
        what: format!("server.tls.listen: {rule}"),
        hint: "it is one address and port, as in 127.0.0.1:8443; port 0 takes a free one".to_owned(),
    })?;
    // A command that is not told where the files are has its own.
    let has_own = spec.command.as_deref().is_some_and(|line| !line.contains("{root}"));
    let (root, files) = match (&spec.root, spec.software.is_proxy() || has_own) {
        (Some(root), _) => (directory_of_files(root)?, Vec::new()),
        (None, true) => (directory.path().to_owned(), Vec::new()),
        (None, false) => {
            directory.files(launch.workload).map_err(|source| ServerError::Files { server, source })?
        }
    };
    let mut spec = spec.clone();
    if let Logging::File(path) = spec.logging() {
        // Created here, so that a server without rights can write to it, and emptied, as the reference server does.
        let path = absolute(path, "server.access_log")?;
        emptied(&path, user.as_ref()).map_err(|error| Refusal {
            what: format!("server.access_log: cannot write `{}`: {}", path.display(), without_number(&error)),
            hint: "name a file in an existing directory".to_owned(),
        })?;
        spec.access_log = Some(path.display().to_string());
    }
    if !is_plain(&directory.path().display().to_string()) {
        return Err(Refusal {
            what: format!(
                "the directory for temporary files, {}, has a character in its name that has a special meaning in configurations",
                directory.path().display()
            ),
            hint: "set another one: TMPDIR=/var/tmp".to_owned(),
        }
        .into());
    }
    let site = Site {
        program: installed.path.clone(),
        directory: directory.path().to_owned(),
        root,
        files,
        address,
        cpus: if launch.cpus.is_empty() {
            crate::machine::allowed_cpus(&Root::default())
        } else {
            launch.cpus.to_vec()
        },
        connections: launch.connections,
        are_kept: launch.are_kept,
        origin: launch.origin.clone(),
        tls: spec.tls.as_ref().map(|tls| SiteTls::at(tls, second, directory.path())),
        build: installed.build.clone(),
        spec,
    };
    runnable::writes(&directory.path().join(OWN)).map_err(|found| Refusal {
        what: format!("the directory that {server} gets for itself cannot be used: {found}"),
        hint: "let that user into it, or set another one: TMPDIR=/var/tmp".to_owned(),
    })?;
    tls::speaks_http3(&site.spec, Some(&site.build))?;
    let setup = super::configured(driver, &site);
    for (name, text) in &setup.files {
        directory.write(name, text).map_err(io("write the configuration"))?;
    }
    let certificate = site.tls.as_ref().map(|tls| tls::certificate(&tls.spec, address.ip())).transpose()?;
    for (name, text) in certificate.iter().flat_map(tls::files) {
        directory.write_private(name, &text, user.as_ref()).map_err(io("write the certificate"))?;
    }
    for name in &setup.executables {
        directory.executable(&launch.webstone, name).map_err(io("provide the handler"))?;
    }
    build(&setup, &site)?;
    debug!(
        server,
        program = site.program.display().to_string(),
        arguments = arguments(&setup),
        "server is configured"
    );
    let (mut process, said) = Attended::start(supervised(launch, &site, &setup), STOP_PATIENCE)
        .map_err(io("start the supervisor"))?;
    if let Some(stdin) = process.stdin() {
        let told = Child::Supervisor(supervision(launch, &site, &setup, user.as_ref()));
        told.tell(stdin).map_err(io("tell the supervisor what to start"))?;
    }
    let software = SoftwareRecord {
        name: server.to_owned(),
        profile: match site.spec.software {
            Software::Command => String::new(),
            _ => match site.spec.profile {
                Profile::Stock => "stock".to_owned(),
                Profile::Tuned => "tuned".to_owned(),
            },
        },
        version: installed.version.clone(),
        program: installed.path.display().to_string(),
        user: user.map(|user| user.name),
        cpus_max: setup.cpus_max,
    };
    let scheme = if site.is_secure() { "https" } else { "http" };
    let url = format!("{scheme}://{}", reachable(address));
    let mut running = RunningServer {
        process,
        said,
        pid: 0,
        url,
        secure: site.second().map(reachable),
        name: server,
        setup,
        software,
        gone: None,
        has_handler: site.spec.interface.is_some(),
        http2_alone: tls::is_http2_alone(&site),
        cert_pem: certificate.map(|certificate| certificate.cert_pem),
        trusted: tls::trusted(&site),
        directory,
        root: Root::default(),
    };
    let since = Instant::now();
    running.wait_until_ready(address, launch.patience, interrupt)?;
    info!(server, pid = running.pid, url = running.url, after = ?since.elapsed(), "server is ready");
    if own_group::cpu_time(&running.root, running.process.pid()).is_none() {
        let unseen = std::mem::take(&mut running.setup.unseen);
        running.setup.warnings.extend(unseen);
    }
    Ok(running)
}

/// The command line of the server, without secrets.
fn arguments(setup: &Setup) -> String {
    let words: Vec<String> = setup.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    redaction::command_line(&words).join(" ")
}

/// Builds the module that the server loads, if any.
fn build(setup: &Setup, site: &Site) -> Result<(), ServerError> {
    let Some((program, arguments)) = setup.build.split_first() else { return Ok(()) };
    let refusal = |why: String| Refusal {
        what: format!("`{}` failed: {why}", program.to_string_lossy()),
        hint: "a C compiler and the headers of the server are needed (Debian: apt-get install apache2-dev)"
            .to_owned(),
    };
    let mut command = Command::new(program);
    only_inherited(&mut command);
    let output =
        command.args(arguments).current_dir(&site.directory).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| refusal(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<String> = said.lines().rev().take(LOG_LINES).map(str::to_owned).collect();
    Err(refusal(in_words(output.status) + &quoted(&last.into_iter().rev().collect::<Vec<String>>())).into())
}

/// What the supervisor is told.
fn supervision(launch: &Launch<'_>, site: &Site, setup: &Setup, user: Option<&User>) -> Supervision {
    let program = site.program.clone().into_os_string();
    Supervision {
        words: std::iter::once(program).chain(setup.arguments.iter().cloned()).collect(),
        companions: setup.companions.iter().map(|companion| companion.words.clone()).collect(),
        cpus: launch.cpus.to_vec(),
        user: user.map(|user| (user.id, user.group)),
        output: setup.output.clone(),
        remove: Some(site.directory.clone()),
    }
}

/// The supervisor, to be started.
fn supervised(launch: &Launch<'_>, site: &Site, setup: &Setup) -> Command {
    let mut command = Command::new(&launch.webstone);
    command.arg(CHILD);
    only_inherited(&mut command);
    // A home and a directory for temporary files of its own, which are removed with it.
    command.env("HOME", site.own("")).env("TMPDIR", site.own(""));
    command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
    // The server cannot find webstone's files by relative names.
    command.current_dir(site.own(""));
    command
}

/// The log that a server shall write, as its own file. The file that was opened is given to its user, not what stands at the
/// path by then.
fn emptied(path: &Path, user: Option<&User>) -> std::io::Result<()> {
    let file = plain_file::emptied(path)?;
    user.map_or(Ok(()), |user| std::os::unix::fs::fchown(&file, Some(user.id), Some(user.group)))
}

/// The environment variables that a started program gets: only what every program needs, because others may be passwords.
pub fn only_inherited(command: &mut Command) {
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_inherited)));
}

/// The files that somebody else has put there.
fn directory_of_files(path: &str) -> Result<PathBuf, ServerError> {
    let root = absolute(path, "server.root")?;
    if !root.is_dir() {
        return Err(Refusal {
            what: format!("server.root: `{path}` is not a directory"),
            hint: "name an existing directory, or remove it to serve the workload's files".to_owned(),
        }
        .into());
    }
    Ok(root)
}

/// A path that does not depend on where it is read, and that configurations can hold.
fn absolute(path: &str, option: &str) -> Result<PathBuf, ServerError> {
    let found = std::path::absolute(path).ok().filter(|path| path.to_str().is_some_and(is_plain));
    Ok(found.ok_or_else(|| Refusal {
        what: format!(
            "{option}: `{path}` has a character in its name that has a special meaning in configurations"
        ),
        hint: "use letters, digits, dots, hyphens and underscores".to_owned(),
    })?)
}

fn is_taken(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    PORT_TAKEN.iter().any(|words| said.contains(words))
}

fn pid_of(line: &str) -> Option<u32> {
    line.strip_prefix(STARTED)?.trim().parse().ok()
}

/// The address for connections from this host: an unspecified address means all of its own.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

impl MeasuredServer for RunningServer {
    fn exit(&mut self) -> Option<String> {
        if self.gone.is_none() {
            let how = self.ended()?;
            let said = self.last_words();
            self.gone = Some(format!("{} ended during the run: {how}{said}", self.name));
        }
        self.gone.clone()
    }

    fn level_starts(&mut self) {}
    fn processes(&self) -> ProcessTree {
        // Of the supervisor: daemons have it for a parent.
        ProcessTree::beneath(&self.root, self.process.pid())
    }

    fn counted(&self) -> Option<Counters> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_supervisor_says_is_understood() {
        assert_eq!(pid_of("STARTED 123"), Some(123));
        assert_eq!(pid_of("ENDED exit status 1"), None);
        assert!(is_taken("nginx: [emerg] bind() to 127.0.0.1:1 failed (98: Address already in use)"));
        assert!(!is_taken("no such file"));
    }

    #[test]
    fn an_unspecified_address_is_reached_on_the_loopback() {
        let url = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(["0.0.0.0:80", "[::]:80"].map(url), ["127.0.0.1:80", "[::1]:80"]);
        assert_eq!(url("192.0.2.1:80"), "192.0.2.1:80");
    }
}
