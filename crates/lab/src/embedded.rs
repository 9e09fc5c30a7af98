//! The embedded reference server: the same executable once more, as a process of its own. It is started, monitored, measured
//! and stopped here; `attended` sees that it never outlives this program.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tracing::info;
use webstone_measure::strict;
use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters, NullOptions};

use crate::attended::{Attended, Exit, POLL, quoted};
use crate::child::{CHILD, Child};
use crate::cpus::cpu_list;
use crate::fetch::ByProbe;
use crate::interrupt::Interrupt;
use crate::machine::Root;
use crate::measured::MeasuredServer;
use crate::process_tree::ProcessTree;
use crate::servers::{Asked, Refusal, only_inherited, tls};
use webstone_store::scratch::Scratch;

/// The server's message once it accepts connections.
const READY: &str = "READY ";
/// How long it may take to end by itself, then on SIGTERM.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(2)];

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The executable.
    pub program: PathBuf,
    /// Arguments before [`CHILD`]; none for webstone itself.
    pub prefix: Vec<OsString>,
    /// The workload whose files it serves.
    pub workload: String,
    /// Its settings.
    pub server: ServerSpec,
    /// The null server instead of the reference server.
    pub null: Option<NullOptions>,
    /// CPUs to pin it to.
    pub cpus: Vec<u32>,
    /// How long it may take to be ready.
    pub patience: Duration,
}

impl Launch {
    /// What the process is to be.
    fn child(&self) -> Child {
        match &self.null {
            Some(null) => Child::NullServer(NullOptions {
                cpus: self.cpus.clone(),
                until_stdin_closes: true,
                ..null.clone()
            }),
            None => {
                let server = ServerSpec { cpus: cpu_list(&self.cpus), ..self.server.clone() };
                Child::Server { server: Box::new(server), workload: self.workload.clone() }
            }
        }
    }
}

/// Why the embedded server did not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedServerError {
    /// The executable could not be run.
    #[error("cannot start the embedded server {program}: {source}")]
    Start {
        /// The executable.
        program: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Its certificate could not be written.
    #[error("cannot write the server's certificate: {}", webstone_store::without_number(.0))]
    Certificate(std::io::Error),
    /// Its certificate could not be made or read.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The embedded origin of a proxy did not start.
    #[error("the origin behind the proxy: {0}")]
    Origin(Box<EmbeddedServerError>),
    /// It ended before it was ready.
    #[error("the embedded server ended before it was ready: {0}")]
    Ended(Exit),
    /// It did not become ready.
    #[error("the embedded server was not ready within {patience:?}{}", quoted(.stderr))]
    NotReady {
        /// How long it was waited for.
        patience: Duration,
        /// Last lines of its standard error.
        stderr: Vec<String>,
    },
}

impl EmbeddedServerError {
    /// Said of the server behind a proxy.
    pub fn of_origin(self) -> EmbeddedServerError {
        EmbeddedServerError::Origin(Box::new(self))
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            EmbeddedServerError::Refused(refusal) => Some(&refusal.hint),
            EmbeddedServerError::Certificate(_) => {
                Some("name another directory for temporary files: TMPDIR=/var/tmp")
            }
            EmbeddedServerError::Start { .. } => {
                Some("check that webstone's executable was not moved or deleted")
            }
            EmbeddedServerError::Origin(error) => error.hint(),
            // It ended by itself, and said why and what to do.
            EmbeddedServerError::Ended(exit) if exit.status.code().is_some() && !exit.stderr.is_empty() => {
                None
            }
            _ => Some("start it by hand to see more: webstone serve --listen 127.0.0.1:0"),
        }
    }
}

/// A server that accepts connections.
#[derive(Debug)]
pub struct EmbeddedServer {
    process: Attended,
    url: String,
    /// Where it speaks TLS, if `url` is without.
    secure_url: Option<String>,
    /// Its certificate, over TLS.
    certificate: Option<Made>,
    counters_before: Option<Counters>,
}

impl EmbeddedServer {
    /// Starts a server and waits until it is ready, or until the user interrupts.
    pub fn start(launch: &Launch, interrupt: &Interrupt) -> Result<EmbeddedServer, EmbeddedServerError> {
        let failed = |source| EmbeddedServerError::Start { program: launch.program.clone(), source };
        let (server, certificate) = Made::for_launch(launch)?;
        let launch = &Launch { server, ..launch.clone() };
        let mut command = Command::new(&launch.program);
        command.args(&launch.prefix).arg(CHILD);
        only_inherited(&mut command);
        let (mut process, said) = Attended::start(command, STOP_PATIENCE).map_err(failed)?;
        if let Some(stdin) = process.stdin() {
            launch.child().tell(stdin).map_err(failed)?;
        }
        let since = Instant::now();
        let urls = wait_until_ready(&mut process, &said, launch.patience, interrupt)?;
        info!(pid = process.pid(), urls, after = ?since.elapsed(), "embedded server is ready");
        let (url, secure_url) = match urls.split_once(' ') {
            Some((url, secure)) => (url.to_owned(), Some(secure.to_owned())),
            None => (urls, None),
        };
        Ok(EmbeddedServer { process, url, secure_url, certificate, counters_before: None })
    }

    /// File with the certificate that was made for the server, for clients to trust. It is removed with the server.
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_ref().filter(|made| made.is_ours).map(|made| made.path.as_path())
    }

    /// `http://address:port`, with TLS `https:`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `https://address:port`, where it speaks TLS there and `url` is without.
    pub fn secure_url(&self) -> Option<&str> {
        self.secure_url.as_deref()
    }

    fn counters(&self) -> Option<Counters> {
        // Without TLS if possible: the server would count a handshake.
        if let Some(made) = self.certificate.as_ref().filter(|_| self.secure_url.is_none()) {
            let asked = Asked {
                address: self.url.strip_prefix("https://")?.parse().ok()?,
                certificate: Some(&made.pem),
                may_have_another: false,
                http2_alone: false,
                patience: Duration::from_secs(2),
            };
            let (status, body) = asked.body(COUNTERS_PATH).ok()?;
            return strict::json(&body).ok().filter(|_| status == 200);
        }
        let probe = ByProbe::plain(Duration::from_secs(2));
        let answer = probe.fetch(&self.url, COUNTERS_PATH).ok()?;
        strict::json(&answer.body).ok().filter(|_| answer.status == 200)
    }
}

/// The certificate of a server over TLS.
#[derive(Debug)]
struct Made {
    pem: String,
    path: PathBuf,
    /// It was made for this server.
    is_ours: bool,
    /// The directory of one that was made.
    _directory: Option<Scratch>,
}

impl Made {
    /// The settings with files of a certificate and a key, made where none are named.
    fn for_launch(launch: &Launch) -> Result<(ServerSpec, Option<Made>), EmbeddedServerError> {
        let mut server = launch.server.clone();
        let Some(tls) = server.tls.as_mut().filter(|_| launch.null.is_none()) else {
            return Ok((server, None));
        };
        let listens = server.listen.split(',').find_map(|one| one.trim().parse::<SocketAddr>().ok());
        let listens = listens.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
        let certificate = tls::certificate(tls, listens)?;
        if let Some(path) = &tls.cert {
            let made =
                Made { pem: certificate.cert_pem, path: path.into(), is_ours: false, _directory: None };
            return Ok((server, Some(made)));
        }
        let write = || {
            let directory = Scratch::create("tls", &launch.program)?;
            let (cert, key) = (directory.path().join("server.crt"), directory.path().join("server.key"));
            std::fs::write(&cert, &certificate.cert_pem)?;
            std::fs::write(&key, &certificate.key_pem)?;
            Ok((directory, cert, key))
        };
        let (directory, cert, key) = write().map_err(EmbeddedServerError::Certificate)?;
        (tls.cert, tls.key) = (Some(cert.display().to_string()), Some(key.display().to_string()));
        let made = Made { pem: certificate.cert_pem, path: cert, is_ours: true, _directory: Some(directory) };
        Ok((server, Some(made)))
    }
}

fn wait_until_ready(
    process: &mut Attended,
    said: &Receiver<String>,
    patience: Duration,
    interrupt: &Interrupt,
) -> Result<String, EmbeddedServerError> {
    let until = Instant::now() + patience;
    loop {
        match said.recv_timeout(POLL) {
            Ok(line) => {
                if let Some(url) = line.strip_prefix(READY) {
                    return Ok(url.trim().to_owned());
                }
            }
            // Standard output closed: the process is ending, or will never say that it is ready.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(exit) = process.exit() {
            return Err(EmbeddedServerError::Ended(exit));
        }
        if Instant::now() >= until || interrupt.count() > 0 {
            process.stop();
            return Err(EmbeddedServerError::NotReady { patience, stderr: process.last_lines() });
        }
    }
}

impl MeasuredServer for EmbeddedServer {
    fn exit(&mut self) -> Option<String> {
        self.process.exit().map(|exit| format!("the embedded server ended during the run: {exit}"))
    }

    fn level_starts(&mut self) {
        self.counters_before = self.counters();
    }

    fn processes(&self) -> ProcessTree {
        ProcessTree::below(&Root::default(), self.process.pid())
    }

    fn counted(&self) -> Option<Counters> {
        Some(self.counters()?.since(self.counters_before.as_ref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attended::LINES_KEPT;
    use std::os::unix::process::ExitStatusExt;

    /// A shell script in place of the server; `$@` has the arguments that webstone adds.
    fn shell(script: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            prefix: vec!["-c".into(), script.into(), "sh".into()],
            workload: "standard".into(),
            server: ServerSpec::default(),
            null: None,
            cpus: vec![0, 1],
            patience: Duration::from_secs(20),
        }
    }

    fn start(launch: &Launch) -> Result<EmbeddedServer, EmbeddedServerError> {
        EmbeddedServer::start(launch, &Interrupt::default())
    }

    #[test]
    fn it_is_told_what_the_specification_says_with_the_cpus_that_were_chosen() {
        let directory = tempfile::tempdir().unwrap();
        let heard = directory.path().join("heard");
        // Its command line is one word; the rest comes through standard input, which stays open.
        let script = format!("head -n 1 > {}; echo READY $*; cat > /dev/null", heard.display());
        let mut launch = shell(&script);
        launch.server = ServerSpec { threads: 3, access_log: Some("log".into()), ..ServerSpec::default() };
        let server = start(&launch).unwrap();
        assert_eq!(server.url(), "child");
        let child: Child = serde_json::from_slice(&std::fs::read(&heard).unwrap()).unwrap();
        let spec = ServerSpec { cpus: "0-1".into(), ..launch.server.clone() };
        assert_eq!(child, Child::Server { server: Box::new(spec), workload: "standard".into() });
        launch.null = Some(NullOptions { close: true, ..NullOptions::default() });
        let Child::NullServer(null) = launch.child() else { panic!("the null server is asked for") };
        assert_eq!((null.cpus.as_slice(), null.close, null.until_stdin_closes), (&[0, 1][..], true, true));
    }

    #[test]
    fn it_is_ready_when_it_says_so_and_ends_with_its_input() {
        let mut server = start(&shell("echo hello; echo READY http://127.0.0.1:7; cat >/dev/null")).unwrap();
        assert_eq!(server.url(), "http://127.0.0.1:7");
        assert_eq!(server.process.exit(), None);
        server.process.stop();
        assert_eq!(server.process.exit().unwrap().status.code(), Some(0), "it ended by itself");
    }

    #[test]
    fn one_that_ignores_its_input_is_terminated_and_then_killed() {
        let begun = |script: &str| start(&shell(script)).unwrap();
        let mut polite = begun("echo READY x; while :; do sleep 0.01; done");
        polite.process.stop();
        assert_eq!(polite.process.exit().unwrap().status.signal(), Some(15));
        let mut stubborn = begun("trap '' TERM; echo READY x; while :; do sleep 0.01; done");
        stubborn.process.stop();
        assert_eq!(stubborn.process.exit().unwrap().status.signal(), Some(9));
    }

    #[test]
    fn a_server_that_dies_is_quoted() {
        let error = start(&shell("echo 'no such port' >&2; exit 3")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the embedded server ended before it was ready: exit status 3; it said:\n  no such port"
        );
        // Dies once somebody has seen that it is ready.
        let directory = tempfile::tempdir().unwrap();
        let seen = directory.path().join("seen");
        let script = format!(
            "echo READY x; until [ -e {} ]; do sleep 0.01; done; echo dying >&2; kill -9 $$",
            seen.display()
        );
        let mut server = start(&shell(&script)).unwrap();
        std::fs::write(&seen, "").unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let told = loop {
            match MeasuredServer::exit(&mut server) {
                Some(told) => break told,
                None => assert!(Instant::now() < until, "the script kills itself"),
            }
        };
        assert_eq!(told, "the embedded server ended during the run: killed by signal 9; it said:\n  dying");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; exit 1";
        let EmbeddedServerError::Ended(exit) = start(&shell(script)).unwrap_err() else {
            panic!("the script ends")
        };
        assert_eq!((exit.stderr.len(), exit.stderr[0].as_str()), (LINES_KEPT, "line 3"));
    }

    #[test]
    fn one_that_never_is_ready_is_given_up() {
        let launch = Launch { patience: Duration::from_millis(200), ..shell("cat >/dev/null") };
        let error = start(&launch).unwrap_err();
        assert!(error.to_string().contains("was not ready within 200ms; it wrote nothing"), "{error}");
    }

    #[test]
    fn an_interrupt_ends_the_waiting() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let launch = Launch { patience: Duration::from_secs(3600), ..shell("cat >/dev/null") };
        assert!(EmbeddedServer::start(&launch, &interrupt).is_err());
    }

    #[test]
    fn a_missing_executable_is_named() {
        let error = start(&Launch { program: "/nonexistent".into(), ..shell("") }).unwrap_err();
        assert!(error.to_string().starts_with("cannot start the embedded server /nonexistent: "), "{error}");
    }
}
