//! The embedded reference server: the same executable as `webstone serve`, as a process of its own. It is started, waited
//! for, watched, measured and stopped here.
//!
//! It ends by itself when its standard input ends, so that it never outlives this program however that dies. It has a
//! process group of its own, so that Ctrl-C on the terminal reaches this program alone, which then decides.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters, NullOptions};

use crate::fetch::{ByProbe, Fetch};
use crate::interrupt::Interrupt;
use crate::machine::Root;
use crate::placement::cpu_list;
use crate::process_use::{CpuTime, cpu_time, reset_peak, resident_bytes_max};
use crate::sweep::MeasuredServer;

/// What the server says when it accepts connections.
const READY: &str = "READY ";
/// Lines of its standard error that a message quotes.
const LINES_KEPT: usize = 10;
/// How long it may take to end by itself, then on SIGTERM.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(2)];
const POLL: Duration = Duration::from_millis(5);

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The executable.
    pub(crate) program: PathBuf,
    /// Arguments before `serve`; none for webstone itself.
    pub(crate) prefix: Vec<OsString>,
    /// The workload whose files it serves.
    pub(crate) workload: String,
    /// Its settings.
    pub(crate) server: ServerSpec,
    /// The null server instead of the reference server.
    pub(crate) null: Option<NullOptions>,
    /// CPUs to pin it to.
    pub(crate) cpus: Vec<u32>,
    /// How long it may take to be ready.
    pub(crate) patience: Duration,
}

impl Launch {
    fn arguments(&self) -> Vec<OsString> {
        let server = &self.server;
        let mut arguments = self.prefix.clone();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        if let Some(null) = &self.null {
            add(&["null-server", "--body", &null.body_bytes.to_string(), "--path", &null.path]);
            if null.close {
                add(&["--close"]);
            }
            if !self.cpus.is_empty() {
                add(&["--cpus", &cpu_list(&self.cpus)]);
            }
            add(&["--until-stdin-closes"]);
            return arguments;
        }
        add(&["serve", "--listen", &server.listen, "--backlog", &server.backlog.to_string()]);
        if server.threads > 0 {
            add(&["--threads", &server.threads.to_string()]);
        }
        if !self.cpus.is_empty() {
            add(&["--cpus", &cpu_list(&self.cpus)]);
        }
        match &server.root {
            Some(root) => add(&["--root", root]),
            None => add(&["--workload", &self.workload]),
        }
        if !server.cache {
            add(&["--no-cache"]);
        }
        if !server.keep_alive {
            add(&["--no-keep-alive"]);
        }
        if let Some(log) = &server.access_log {
            add(&["--access-log", log]);
        }
        if server.resolve_names {
            add(&["--resolve-names"]);
        }
        add(&["--until-stdin-closes"]);
        arguments
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
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            EmbeddedServerError::Start { .. } => {
                Some("check that the executable is still where it was started from")
            }
            // The server's own words hold its own remedy.
            EmbeddedServerError::Ended(exit) if exit.stderr.iter().any(|line| line.contains("hint:")) => None,
            _ => Some("start it by hand to see more: webstone serve --listen 127.0.0.1:0"),
        }
    }
}

/// How a server process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit status.
    pub status: ExitStatus,
    /// Last lines of its standard error.
    pub stderr: Vec<String>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (None, Some(signal)) => write!(f, "killed by signal {signal}")?,
            (None, None) => write!(f, "{}", self.status)?,
        }
        f.write_str(&quoted(&self.stderr))
    }
}

fn quoted(stderr: &[String]) -> String {
    match stderr {
        [] => "; it said nothing on standard error".to_owned(),
        lines => format!("; it said:\n  {}", lines.join("\n  ")),
    }
}

/// A server that accepts connections.
#[derive(Debug)]
pub(crate) struct EmbeddedServer {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
    stderr: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    /// Whether its end has been waited for.
    ended: bool,
    counters_before: Option<Counters>,
    root: Root,
}

impl EmbeddedServer {
    /// Starts a server and waits until it is ready, or until the user has enough.
    pub(crate) fn start(
        launch: &Launch,
        interrupt: &Interrupt,
    ) -> Result<EmbeddedServer, EmbeddedServerError> {
        let mut child = Command::new(&launch.program)
            .args(launch.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| EmbeddedServerError::Start { program: launch.program.clone(), source })?;
        let (ready, is_ready) = channel();
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(std::thread::spawn(move || announce(stdout, &ready)));
        }
        if let Some(pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            readers.push(std::thread::spawn(move || keep_last(pipe, &kept)));
        }
        let mut server = EmbeddedServer {
            stdin: child.stdin.take(),
            child,
            url: String::new(),
            stderr,
            readers,
            ended: false,
            counters_before: None,
            root: Root::default(),
        };
        server.url = server.wait_until_ready(&is_ready, launch.patience, interrupt)?;
        Ok(server)
    }

    fn wait_until_ready(
        &mut self,
        ready: &Receiver<String>,
        patience: Duration,
        interrupt: &Interrupt,
    ) -> Result<String, EmbeddedServerError> {
        let until = Instant::now() + patience;
        loop {
            match ready.recv_timeout(POLL) {
                Ok(url) => return Ok(url),
                // Standard output closed: the process is ending, or will never say that it is ready.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(exit) = self.exit() {
                return Err(EmbeddedServerError::Ended(exit));
            }
            if Instant::now() >= until || interrupt.count() > 0 {
                self.stop();
                return Err(EmbeddedServerError::NotReady { patience, stderr: self.last_lines() });
            }
        }
    }

    /// `http://address:port`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its process identifier.
    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    fn exit(&mut self) -> Option<Exit> {
        let status = self.child.try_wait().ok()??;
        self.ended = true;
        // What it said last may still be in the pipe. A descendant of its may hold the pipe open for ever.
        let until = Instant::now() + Duration::from_millis(500);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        Some(Exit { status, stderr: self.last_lines() })
    }

    fn last_lines(&self) -> Vec<String> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Stops it: by the end of its standard input, then SIGTERM, then SIGKILL. Always waits for its end.
    pub(crate) fn stop(&mut self) {
        drop(self.stdin.take());
        if self.ended || self.ends_within(STOP_PATIENCE[0]) {
            return;
        }
        // The process has not been waited for, so its identifier is still its own.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if self.ends_within(STOP_PATIENCE[1]) {
            return;
        }
        let _ = self.child.kill();
        self.ended = self.child.wait().is_ok();
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => {
                    self.ended = true;
                    return true;
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
                _ => return false,
            }
        }
    }

    fn counters(&self) -> Option<Counters> {
        let probe = ByProbe::plain(Duration::from_secs(2));
        let answer = probe.fetch(&self.url, COUNTERS_PATH, &Default::default()).ok()?;
        serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200)
    }
}

impl MeasuredServer for EmbeddedServer {
    fn exit(&mut self) -> Option<String> {
        EmbeddedServer::exit(self).map(|exit| format!("the embedded server ended during the run: {exit}"))
    }

    fn level_starts(&mut self) {
        reset_peak(&self.root, self.pid());
        self.counters_before = self.counters();
    }

    fn cpu_time(&self) -> Option<CpuTime> {
        cpu_time(&self.root, self.pid())
    }

    fn resident_bytes_max(&self) -> Option<u64> {
        resident_bytes_max(&self.root, self.pid())
    }

    fn counted(&self) -> Option<Counters> {
        Some(self.counters()?.since(self.counters_before.as_ref()?))
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells the URL once, then reads on so that the server never blocks on a full pipe.
fn announce(stdout: impl Read, ready: &Sender<String>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        if let Some(url) = line.strip_prefix(READY) {
            // Nobody listens any more once the first was heard, or patience has ended.
            let _ = ready.send(url.trim().to_owned());
        }
    }
}

fn keep_last(stderr: impl Read, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LINES_KEPT {
            kept.pop_front();
        }
        kept.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is a shell script; what webstone would add behind is in `$@`.
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
    fn arguments_say_what_the_specification_says() {
        let text = |launch: &Launch| {
            let words: Vec<_> =
                launch.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        let mut launch = Launch { prefix: vec![], ..shell("") };
        assert_eq!(
            text(&launch),
            "serve --listen 127.0.0.1:0 --backlog 4096 --cpus 0-1 --workload standard --until-stdin-closes"
        );
        launch.cpus = vec![];
        launch.server = ServerSpec {
            listen: "127.0.0.1:8080".into(),
            root: Some("/srv".into()),
            threads: 3,
            cache: false,
            keep_alive: false,
            access_log: Some("log".into()),
            resolve_names: true,
            backlog: 1,
            ..ServerSpec::default()
        };
        assert_eq!(
            text(&launch),
            "serve --listen 127.0.0.1:8080 --backlog 1 --threads 3 --root /srv --no-cache --no-keep-alive \
             --access-log log --resolve-names --until-stdin-closes"
        );
    }

    #[test]
    fn it_is_ready_when_it_says_so_and_ends_with_its_input() {
        let mut server = start(&shell("echo hello; echo READY http://127.0.0.1:7; cat >/dev/null")).unwrap();
        assert_eq!(server.url(), "http://127.0.0.1:7");
        assert_eq!(server.exit(), None);
        server.stop();
        assert_eq!(server.exit().unwrap().status.code(), Some(0), "it ended by itself");
    }

    #[test]
    fn one_that_ignores_its_input_is_terminated_and_then_killed() {
        let begun = |script: &str| start(&shell(script)).unwrap();
        let mut polite = begun("echo READY x; while :; do sleep 0.01; done");
        polite.stop();
        assert_eq!(polite.exit().unwrap().status.signal(), Some(15));
        let mut stubborn = begun("trap '' TERM; echo READY x; while :; do sleep 0.01; done");
        stubborn.stop();
        assert_eq!(stubborn.exit().unwrap().status.signal(), Some(9));
    }

    #[test]
    fn a_server_that_dies_is_quoted() {
        let error = start(&shell("echo 'no such port' >&2; exit 3")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the embedded server ended before it was ready: exit status 3; it said:\n  no such port"
        );
        let mut server = start(&shell("echo READY x; echo dying >&2; kill -9 $$")).unwrap();
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
        assert!(error.to_string().contains("was not ready within 200ms; it said nothing"), "{error}");
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
