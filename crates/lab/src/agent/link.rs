//! This side of the stream: starts the command that runs an agent, asks it, and gives it up where it is gone, hangs or makes no
//! sense. A run never waits for it while load is made: what is asked where a window opens and closes is a few bytes written
//! to a pipe; answers are stamped by the thread that reads them, and looked at when the level is over.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{ChildStdout, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tracing::{debug, info};
use webstone_judge::plausible;
use webstone_model::event::Phase;
use webstone_model::record::{AgentRecord, ProcessUse, ServerHostUse, ServerUse};

use super::frames::{FrameError, Greeting, greet, greeted, receive, send};
use super::messages::{Answer, Ask, Closed, Find, Found, Numbered, PROTOCOL};
use super::serve::{SAME_VERSION, versions};
use crate::attended::{Attended, Exit, quoted};
use crate::environment::{ServerHost, boot};
use crate::interrupt::Interrupt;
use crate::machine::Root;
use webstone_store::redaction;

/// How long an agent may take to be there: a login, and a look at everything that is known of a host.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// What shells, and ssh, end with where there is no such program.
const EXIT_NO_PROGRAM: i32 = 127;
/// How long it may take to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to end by itself, then on SIGTERM.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(500)];
/// How long a process whose output has ended may take to end.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// Answers that wait to be looked at: those of a level, and some. An agent that says more is made to wait, and found out when
/// it is listened to: answers that nobody asked for would fill memory.
const ARRIVALS_WAITING_MAX: usize = 4;
/// Between two looks whether the user wants an end of the waiting.
const POLL: Duration = Duration::from_millis(50);
/// Round trips that are timed before the load; the shortest counts.
const ECHOES: usize = 5;
/// From such a share of the window on, in percent, readings that may be so late are none of that window.
const LATE_PERCENT_MAX: f64 = 5.0;
/// Two clocks may differ by so much, in percent, and this much besides.
const CLOCKS_PERCENT_MAX: f64 = 1.0;
const CLOCKS_SLACK: Duration = Duration::from_millis(2);

/// What an agent must know at its start.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// The command that starts it.
    pub command: &'a str,
    /// Version of webstone here.
    pub version: &'a str,
    /// Where the load goes.
    pub addresses: &'a BTreeSet<SocketAddr>,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The command is none.
    #[error("server.agent: `{0}` is not a command")]
    Command(String),
    /// It could not be started.
    #[error("cannot start the agent `{command}`: {source}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It speaks another protocol.
    #[error("the agent `{command}` has another version: {what}")]
    Version {
        /// The command.
        command: String,
        /// Both versions.
        what: String,
    },
    /// It ended, hung, or made no sense.
    #[error("the agent `{command}` {}", .failure.how)]
    Failed {
        /// The command.
        command: String,
        /// How, and what it said.
        failure: Failure,
    },
}

/// How an agent failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Words that follow its name.
    how: String,
    cause: Cause,
}

/// What has a remedy of its own.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// A terminal stands between.
    Terminal,
    /// There is no such program where it was to start.
    NoSuchProgram,
    Other,
}

impl From<String> for Failure {
    fn from(how: String) -> Failure {
        Failure { how, cause: Cause::Other }
    }
}

impl AgentError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            AgentError::Command(_) => {
                "give a command that starts it on the server's host, as in 'ssh web1 webstone agent'"
                    .to_owned()
            }
            AgentError::Start { .. } => {
                "begin with a program of this host, as in 'ssh web1 webstone agent'".to_owned()
            }
            AgentError::Version { .. } => SAME_VERSION.to_owned(),
            AgentError::Failed { command, failure } => match failure.cause {
                Cause::Terminal => {
                    "start it without a terminal (no `ssh -t`): a terminal changes what is sent".to_owned()
                }
                Cause::NoSuchProgram => {
                    "copy webstone to that host, or give its path there, as in 'ssh web1 /opt/webstone agent'"
                        .to_owned()
                }
                Cause::Other => format!(
                    "try it by hand: `{command} </dev/null` must not ask for a password, must print one line \
                     that begins with WEBSTONE-AGENT, and must end"
                ),
            },
        }
    }
}

/// What an agent reports of its host when it is ready.
#[derive(Debug, Default)]
pub struct Introduced {
    pub record: AgentRecord,
    pub host: ServerHost,
    pub warnings: Vec<String>,
}

/// What the server and its host used during a window.
#[derive(Debug)]
pub struct Elsewhere {
    /// What the host did.
    pub host: ServerHostUse,
    /// `None` where its processes could not be seen.
    pub server: Option<ServerUse>,
}

impl Elsewhere {
    /// The same, unless its readings may have been too late for a window of this length.
    pub fn on_time(self, window_ns: u64) -> Result<Elsewhere, String> {
        let delay_ns = self.host.opening_delay_ns_max + self.host.close_delay_ns_max;
        let percent = delay_ns as f64 * 100.0 / window_ns.max(1) as f64;
        if percent <= LATE_PERCENT_MAX {
            return Ok(self);
        }
        Err(format!(
            "its samples were up to {:.1} ms late, more than {LATE_PERCENT_MAX:.0} % of the window",
            delay_ns as f64 / 1e6
        ))
    }
}

/// What comes from the agent, with the moment at which it came.
enum Arrival {
    Greeted(Greeting),
    Answered(Instant, Numbered<Answer>),
    Broken(FrameError),
}

/// Where and when a question was asked, in a level.
#[derive(Debug, Default)]
struct Asked {
    opening: Option<u64>,
    close: Option<u64>,
}

/// An agent that watches the server under test on its own host.
pub struct ServerAgent {
    process: Attended,
    arrivals: Receiver<Arrival>,
    numbers: u64,
    /// When each question was asked that has not been answered yet.
    asked: BTreeMap<u64, Instant>,
    /// Why it answers no more.
    lost: Option<Failure>,
    level: Asked,
}

impl ServerAgent {
    /// Starts the agent and lets it find the server's processes.
    pub fn start(
        setting: &Setting<'_>,
        interrupt: &Interrupt,
    ) -> Result<(ServerAgent, Introduced), AgentError> {
        let command = redaction::text(setting.command).text;
        let mut agent = ServerAgent::begin(setting, &command)?;
        let until = Instant::now() + START_PATIENCE;
        let failed = |failure: Failure| AgentError::Failed { command: command.clone(), failure };
        let greeting = match agent.next(until, interrupt) {
            Ok(Arrival::Greeted(greeting)) => greeting,
            Ok(_) => return Err(failed("answered before it greeted".to_owned().into())),
            Err(failure) => return Err(failed(failure)),
        };
        if greeting.protocol != PROTOCOL {
            let theirs = (greeting.version, greeting.protocol);
            let what = versions(&(setting.version.to_owned(), PROTOCOL), &theirs);
            return Err(AgentError::Version { command, what });
        }
        let mut record =
            AgentRecord { command: command.clone(), version: greeting.version, ..AgentRecord::default() };
        let mut round_trips = Vec::new();
        for _ in 0..ECHOES {
            let number = agent.ask(Ask::Echo);
            round_trips.push(agent.answer(number, until, interrupt).map_err(failed)?.1);
        }
        record.round_trip_ns_min = round_trips.into_iter().min().unwrap_or_default().as_nanos() as u64;
        let generator = setting.addresses.iter().filter_map(source_towards).collect();
        let find = Find {
            ports: setting.addresses.iter().map(SocketAddr::port).collect(),
            addresses: setting.addresses.iter().map(SocketAddr::ip).collect(),
            generator,
        };
        let number = agent.ask(Ask::Find(find.clone()));
        let found = match agent.answer(number, until, interrupt).map_err(failed)? {
            (Answer::Found(found), _) => *found,
            (other, _) => return Err(failed(unexpected(&other).into())),
        };
        let warnings = doubts(&find, &found);
        let own = boot(&Root::default());
        record.boot.clone_from(&found.boot);
        let host = ServerHost {
            same_machine: own.zip(found.boot).map(|(own, theirs)| own == theirs),
            facts: found.environment,
        };
        record.cpus = found.cpus.unwrap_or_default();
        info!(command, version = record.version, cpus = ?record.cpus, "agent is ready");
        Ok((agent, Introduced { record, host, warnings }))
    }

    fn begin(setting: &Setting<'_>, command: &str) -> Result<ServerAgent, AgentError> {
        let words = shlex::split(setting.command).unwrap_or_default();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(AgentError::Command(command.to_owned()));
        };
        let mut child = Command::new(program);
        child.args(arguments);
        let (sender, arrivals) = sync_channel(ARRIVALS_WAITING_MAX);
        let started = Attended::read_by(child, STOP_PATIENCE, move |stdout| hand_over(stdout, &sender));
        let mut process =
            started.map_err(|source| AgentError::Start { command: command.to_owned(), source })?;
        if let Some(stdin) = process.stdin() {
            // One that is gone already is found where its greeting is waited for.
            let _ = greet(stdin, &Greeting { protocol: PROTOCOL, version: setting.version.to_owned() });
        }
        Ok(ServerAgent {
            process,
            arrivals,
            numbers: 0,
            asked: BTreeMap::new(),
            lost: None,
            level: Asked::default(),
        })
    }

    /// A level is about to start. Waits until the agent is ready for it; no load is sent yet.
    pub fn level_starts(&mut self, interrupt: &Interrupt) {
        self.level = Asked::default();
        let number = self.ask(Ask::Level);
        if let Err(failure) = self.answer(number, Instant::now() + ANSWER_PATIENCE, interrupt) {
            self.lost.get_or_insert(failure);
        }
    }

    /// The level is in this phase.
    pub fn look(&mut self, phase: Phase) {
        match phase {
            Phase::Measuring if self.level.opening.is_none() => {
                self.level.opening = Some(self.ask(Ask::Open))
            }
            Phase::Draining | Phase::Done if self.level.close.is_none() => {
                self.level.close = Some(self.ask(Ask::Close));
            }
            _ => {}
        }
    }

    /// What was used during the window, or why that is unknown. Call it when the level has ended.
    pub fn used(&mut self, interrupt: &Interrupt) -> Result<Elsewhere, String> {
        self.look(Phase::Done);
        let Asked { opening, close } = std::mem::take(&mut self.level);
        let until = Instant::now() + ANSWER_PATIENCE;
        let used = self.two_readings(opening, close, until, interrupt);
        match used {
            Ok(used) => used,
            Err(failure) => {
                let failure = self.lost.get_or_insert(failure);
                Err(format!("it {}", failure.how))
            }
        }
    }

    /// The outer error is of the agent, the inner one of this level alone.
    fn two_readings(
        &mut self,
        opening: Option<u64>,
        close: Option<u64>,
        until: Instant,
        interrupt: &Interrupt,
    ) -> Result<Result<Elsewhere, String>, Failure> {
        // In the order in which they were asked, so that each is found in its turn.
        let asked_at = |agent: &ServerAgent, number: Option<u64>| agent.asked.get(&number?).copied();
        let (opening_at, close_at) = (asked_at(self, opening), asked_at(self, close));
        let opened = match opening {
            Some(number) => Some(self.answer(number, until, interrupt)?),
            None => None,
        };
        let closed = self.answer(close.unwrap_or_default(), until, interrupt)?;
        let (Some((Answer::Opened(behind), opening_took)), Some(opening_at), Some(close_at)) =
            (opened, opening_at, close_at)
        else {
            return Ok(Err("the window closed before the agent saw it open".to_owned()));
        };
        let (closed, close_took) = match closed {
            (Answer::Closed(closed), took) => (*closed, took),
            (other, _) => return Err(unexpected(&other).into()),
        };
        let delay = |took: Duration, behind_ns: u64| took.saturating_sub(Duration::from_nanos(behind_ns));
        let opening_delay = delay(opening_took, behind.nanos);
        let close_delay = delay(close_took, closed.behind.nanos);
        let apart = close_at.saturating_duration_since(opening_at);
        let bounds = (apart.saturating_sub(opening_delay), apart + close_delay);
        let sound = clocks_agree(closed.host.elapsed_ns, bounds)
            .and_then(|()| plausible::of_host(&closed.host))
            .and_then(|()| plausible::of_server(closed.server.as_ref(), &closed.host));
        Ok(sound.map(|()| {
            let Closed { host, server, .. } = closed;
            let server = server
                .map(|server| ServerUse { processes: server.processes.map(ProcessUse::bounded), ..server });
            Elsewhere {
                host: ServerHostUse {
                    host,
                    opening_delay_ns_max: opening_delay.as_nanos() as u64,
                    close_delay_ns_max: close_delay.as_nanos() as u64,
                },
                server,
            }
        }))
    }

    /// Asks, and does not wait.
    fn ask(&mut self, message: Ask) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        self.asked.insert(number, Instant::now());
        debug!(number, ?message, "asked the agent");
        if self.lost.is_none()
            && let Some(stdin) = self.process.stdin()
        {
            // Where it cannot be written, the answer does not come either, and the end of its output tells why.
            let _ = send(stdin, &Numbered { number, message });
        }
        number
    }

    /// Waits for an answer: it, and how long it took from the question. Questions are answered in their order.
    fn answer(
        &mut self,
        number: u64,
        until: Instant,
        interrupt: &Interrupt,
    ) -> Result<(Answer, Duration), Failure> {
        if let Some(failure) = &self.lost {
            return Err(failure.clone());
        }
        loop {
            match self.next(until, interrupt)? {
                Arrival::Answered(at, answer) if self.asked.contains_key(&answer.number) => {
                    let asked = self.asked.remove(&answer.number).unwrap_or(at);
                    debug!(number = answer.number, after = ?at.saturating_duration_since(asked), message = ?answer.message, "the agent answered");
                    match answer.message {
                        Answer::Refused(why) => return Err(format!("refused: {}", plain(&why)).into()),
                        message if answer.number == number => {
                            return Ok((message, at.saturating_duration_since(asked)));
                        }
                        // To an earlier question, for whose answer nobody waited.
                        _ => {}
                    }
                }
                _ => return Err("sent an answer that was not asked for".to_owned().into()),
            }
        }
    }

    /// The next that comes from it; how it failed, where nothing comes. An interrupt ends the waiting only before the run is
    /// over with it: a second one.
    fn next(&mut self, until: Instant, interrupt: &Interrupt) -> Result<Arrival, Failure> {
        let since = Instant::now();
        let raised = interrupt.count();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(POLL)) {
                Ok(Arrival::Broken(error)) => return Err(self.end_in_words(&error)),
                Ok(arrival) => return Ok(arrival),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end_in_words(&FrameError::Ended)),
                Err(RecvTimeoutError::Timeout) => {
                    if interrupt.count() > raised {
                        return Err("was not waited for: the run was interrupted".to_owned().into());
                    }
                    if left.is_zero() {
                        let said = quoted(&self.last_lines());
                        return Err(format!("did not answer within {:.0?}{said}", until - since).into());
                    }
                }
            }
        }
    }

    /// How the stream ended.
    fn end_in_words(&mut self, error: &FrameError) -> Failure {
        let until = Instant::now() + END_PATIENCE;
        let exit = loop {
            match self.process.exit() {
                None if Instant::now() < until => std::thread::sleep(crate::attended::POLL),
                exit => break exit,
            }
        };
        let is_end = matches!(error, FrameError::Ended | FrameError::Torn | FrameError::Io(_));
        match exit {
            Some(Exit { status, stderr }) if is_end => {
                let exit = Exit { status, stderr: stderr.iter().map(|line| plain(line)).collect() };
                let cause = match status.code() {
                    Some(EXIT_NO_PROGRAM) => Cause::NoSuchProgram,
                    _ => Cause::Other,
                };
                Failure { how: format!("ended: {exit}"), cause }
            }
            _ => {
                let cause = match error {
                    FrameError::NoGreeting { is_garbled: true, .. } => Cause::Terminal,
                    _ => Cause::Other,
                };
                let said = quoted(&self.last_lines());
                Failure { how: format!("broke the protocol: {error}{said}"), cause }
            }
        }
    }

    fn last_lines(&self) -> Vec<String> {
        self.process.last_lines().iter().map(|line| plain(line)).collect()
    }
}

/// What somebody else said, harmless to a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn unexpected(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    format!("broke the protocol: it answered {}", text.chars().take(40).collect::<String>())
}

/// What makes it doubtful that what the agent sees is the server.
fn doubts(find: &Find, found: &Found) -> Vec<String> {
    let mut doubts = Vec::new();
    let strange: Vec<String> = found.strange.iter().map(IpAddr::to_string).collect();
    if !strange.is_empty() {
        doubts.push(format!(
            "the agent's host does not have the address {} that the load goes to; if it is not the server's host, its \
             figures are of another machine",
            strange.join(", ")
        ));
    }
    let ports: Vec<String> = find.ports.iter().map(u16::to_string).collect();
    let port = format!("port {}", ports.join(", "));
    match &found.cpus {
        Some(_) => {}
        None if found.listens => doubts.push(format!(
            "the agent is not allowed to see the processes that listen on {port}, so the server's own figures are missing; run it \
             as root or as the server's user, as in 'ssh root@HOST webstone agent'"
        )),
        None => doubts.push(format!(
            "nothing listens on {port} where the agent runs, so the server's own figures are missing"
        )),
    }
    doubts
}

/// Whether a time between two readings, as the agent's clock has it, can be what lay between two moments here.
fn clocks_agree(elapsed_ns: u64, bounds: (Duration, Duration)) -> Result<(), String> {
    let elapsed = Duration::from_nanos(elapsed_ns);
    let slack = CLOCKS_SLACK + bounds.1.mul_f64(CLOCKS_PERCENT_MAX / 100.0);
    if elapsed + slack >= bounds.0 && elapsed <= bounds.1 + slack {
        return Ok(());
    }
    Err(format!(
        "its clock counted {elapsed:.2?} between two samples that were {:.2?} to {:.2?} apart by the clock here",
        bounds.0, bounds.1
    ))
}

/// The address that packets to an address come from. None is sent.
fn source_towards(address: &SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Reads what the agent says, and stamps it, until it makes no more sense.
fn hand_over(stdout: ChildStdout, arrivals: &SyncSender<Arrival>) {
    let mut stdout = BufReader::new(stdout);
    let broken = match greeted(&mut stdout) {
        Ok(greeting) => {
            let _ = arrivals.send(Arrival::Greeted(greeting));
            loop {
                match receive(&mut stdout) {
                    Ok(answer) => {
                        if arrivals.send(Arrival::Answered(Instant::now(), answer)).is_err() {
                            return;
                        }
                    }
                    Err(error) => break error,
                }
            }
        }
        Err(error) => error,
    };
    let _ = arrivals.send(Arrival::Broken(broken));
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
