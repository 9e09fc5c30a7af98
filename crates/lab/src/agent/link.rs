//! This side of the stream: starts the command that runs an agent, asks it, and gives it up when it is gone, hangs or breaks the
//! protocol. A run never waits for it while load is made: a question at the start or end of a window is a few bytes written to a
//! pipe; the thread that reads answers notes their times, and they are evaluated after the level.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tracing::{debug, info};
use webstone_judge::plausible;
use webstone_model::event::Phase;
use webstone_model::record::{AgentRecord, ProcessUse, ServerHostUse, ServerUse};

use super::frames::{FrameError, send};
use super::messages::{Answer, Ask, Closed, Find, Found, Identity, Numbered};
use super::process::{AgentError, AgentProcess, Arrival, Asking, Failure, plain, same_protocol};
use crate::attended::quoted;
use crate::environment::{ServerHost, boot};
use crate::interrupt::Interrupt;
use crate::listeners::Ports;
use crate::machine::Root;
use webstone_store::redaction;

/// Characters of a host's name that are kept: the kernel keeps 64.
const NAME_CHARS_MAX: usize = 64;
/// How long an agent may take to be ready: a login, and reading all facts of a host.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to answer.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Answers that may wait: those of a level, and a few more. An agent that sends more has to wait, and is found out when its
/// answers are read: unrequested answers would fill memory.
const ARRIVALS_WAITING_MAX: usize = 4;
/// Time between two checks whether the user has interrupted.
const POLL: Duration = Duration::from_millis(50);
/// Round trips that are timed before the load; the shortest counts.
const ECHOES: usize = 5;
/// Share of the window, in percent: readings that may be later than this do not count for that window.
const LATE_PERCENT_MAX: f64 = 5.0;
/// Two clocks may differ by this share, in percent, plus a constant.
const CLOCKS_PERCENT_MAX: f64 = 1.0;
const CLOCKS_SLACK: Duration = Duration::from_millis(2);

/// What an agent must know at its start.
#[derive(Clone, Debug)]
pub(super) struct Setting<'a> {
    /// The command that starts it.
    pub command: &'a str,
    /// Version of webstone here.
    pub version: &'a str,
    /// Where the load goes.
    pub addresses: &'a BTreeSet<SocketAddr>,
    /// Whether as datagrams.
    pub over_udp: bool,
}

/// What an agent reports of its host when it is ready.
#[derive(Debug, Default)]
pub(super) struct Introduced {
    pub record: AgentRecord,
    pub host: ServerHost,
    /// Why the server's figures are missing there.
    pub unseen: Option<String>,
    /// Addresses of the target that its host does not have.
    pub(super) strange: BTreeSet<IpAddr>,
    pub(super) identity: Identity,
}

/// What the server and its host used during a window.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// What the host did.
    pub host: ServerHostUse,
    /// `None` where its processes could not be seen.
    pub server: Option<ServerUse>,
}

impl Elsewhere {
    /// The same, unless its readings may have been too late for a window of this length.
    pub(super) fn on_time(self, window_ns: u64) -> Result<Elsewhere, String> {
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

/// Where and when a question was asked, in a level.
#[derive(Debug, Default)]
struct Asked {
    opening: Option<u64>,
    close: Option<u64>,
}

/// An agent that watches the server under test on its own host.
pub(super) struct ServerAgent {
    process: AgentProcess,
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
    pub(super) fn start(
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
        same_protocol(&command, setting.version, &greeting)?;
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
            ports: Ports {
                numbers: setting.addresses.iter().map(SocketAddr::port).collect(),
                over_udp: setting.over_udp,
            },
            addresses: setting.addresses.iter().map(SocketAddr::ip).collect(),
            generator,
        };
        let number = agent.ask(Ask::Find(find.clone()));
        let found = match agent.answer(number, until, interrupt).map_err(failed)? {
            (Answer::Found(found), _) => found,
            (other, _) => return Err(failed(unexpected(&other).into())),
        };
        let unseen = unseen(&found);
        let own = boot(&Root::default());
        record.boot.clone_from(&found.boot);
        let name = found.environment.get("hostname").and_then(|name| name.as_str()).unwrap_or_default();
        record.name = plain(name).chars().take(NAME_CHARS_MAX).collect();
        if found.ports != find.ports.numbers {
            record.ports = found.ports.iter().copied().collect();
        }
        let host = ServerHost {
            same_machine: own.zip(found.boot.clone()).map(|(own, theirs)| own == theirs),
            facts: found.environment.clone(),
        };
        record.cpus = found.cpus.clone().unwrap_or_default();
        info!(command, version = record.version, cpus = ?record.cpus, "agent is ready");
        let Found { strange, identity, .. } = *found;
        Ok((agent, Introduced { record, host, unseen, strange, identity }))
    }

    fn begin(setting: &Setting<'_>, command: &str) -> Result<ServerAgent, AgentError> {
        let (sender, arrivals) = sync_channel(ARRIVALS_WAITING_MAX);
        let asked = Asking {
            key: "server.agent",
            command: setting.command,
            shown: command,
            version: setting.version,
        };
        let process = AgentProcess::start(&asked, move |arrival| sender.send(arrival).is_ok())?;
        Ok(ServerAgent {
            process,
            arrivals,
            numbers: 0,
            asked: BTreeMap::new(),
            lost: None,
            level: Asked::default(),
        })
    }

    /// A level is about to start: asks the agent to be ready for it. [`Self::ready`] waits for the answer.
    pub(super) fn level_starts(&mut self) -> u64 {
        self.level = Asked::default();
        self.ask(Ask::Level)
    }

    /// Waits until the agent is ready for a level; no load is sent yet.
    pub(super) fn ready(&mut self, number: u64, until: Instant, interrupt: &Interrupt) {
        if let Err(failure) = self.answer(number, until, interrupt) {
            self.lost.get_or_insert(failure);
        }
    }

    /// The level is in this phase.
    pub(super) fn look(&mut self, phase: Phase) {
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
    pub(super) fn used(&mut self, until: Instant, interrupt: &Interrupt) -> Result<Elsewhere, String> {
        self.look(Phase::Done);
        let Asked { opening, close } = std::mem::take(&mut self.level);
        let used = self.two_readings(opening, close, until, interrupt);
        match used {
            Ok(used) => used,
            Err(failure) => {
                let failure = self.lost.get_or_insert(failure);
                Err(format!("it {}", failure.how))
            }
        }
    }

    /// The outer error is of the agent, the inner one of this level only.
    fn two_readings(
        &mut self,
        opening: Option<u64>,
        close: Option<u64>,
        until: Instant,
        interrupt: &Interrupt,
    ) -> Result<Result<Elsewhere, String>, Failure> {
        // In the order of the questions.
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
            .and_then(|()| {
                plausible::of_server(closed.server.as_ref(), &closed.host, closed.host.elapsed_ns)
            });
        Ok(sound.map(|()| {
            let Closed { host, server, .. } = closed;
            let server = server
                .map(|server| ServerUse { processes: server.processes.map(ProcessUse::bounded), ..server });
            Elsewhere {
                host: ServerHostUse {
                    host,
                    opening_delay_ns_max: opening_delay.as_nanos() as u64,
                    close_delay_ns_max: close_delay.as_nanos() as u64,
                    ..ServerHostUse::default()
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
            // If it cannot be written, no answer comes either, and the end of its output says why.
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
                Arrival::Answered { at, answer, .. } if self.asked.contains_key(&answer.number) => {
                    let asked = self.asked.remove(&answer.number).unwrap_or(at);
                    debug!(number = answer.number, after = ?at.saturating_duration_since(asked), message = ?answer.message, "the agent answered");
                    match answer.message {
                        Answer::Refused(why) => return Err(format!("refused: {}", plain(&why)).into()),
                        message if answer.number == number => {
                            return Ok((message, at.saturating_duration_since(asked)));
                        }
                        // An answer to an earlier question, for which nobody waited.
                        _ => {}
                    }
                }
                _ => return Err("sent an answer that was not asked for".to_owned().into()),
            }
        }
    }

    /// Its next message, or how it failed. An interrupt ends the waiting only before the run is over with it: a second one.
    fn next(&mut self, until: Instant, interrupt: &Interrupt) -> Result<Arrival, Failure> {
        let since = Instant::now();
        let raised = interrupt.count();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(POLL)) {
                Ok(Arrival::Broken(error)) => return Err(self.process.end_in_words(&error)),
                Ok(arrival) => return Ok(arrival),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.process.end_in_words(&FrameError::Ended));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if interrupt.count() > raised {
                        return Err("was not waited for: the run was interrupted".to_owned().into());
                    }
                    if left.is_zero() {
                        let said = quoted(&self.process.last_lines());
                        return Err(format!("did not answer within {:.0?}{said}", until - since).into());
                    }
                }
            }
        }
    }
}

fn unexpected(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    format!("broke the protocol: it answered {}", text.chars().take(40).collect::<String>())
}

/// A reason to doubt that an agent sees the server: its host does not have the target's addresses.
pub(super) fn elsewhere(strange: &BTreeSet<IpAddr>) -> Option<String> {
    let strange: Vec<String> = strange.iter().map(IpAddr::to_string).collect();
    (!strange.is_empty()).then(|| {
        format!(
            "the agent's host does not have the address {} that the load goes to; if it is not the server's host, its \
             figures are of another machine",
            strange.join(", ")
        )
    })
}

/// Why the server's own figures are missing on a host, if they are.
fn unseen(found: &Found) -> Option<String> {
    let ports: Vec<String> = found.ports.iter().map(u16::to_string).collect();
    let port = format!("port {}", ports.join(", "));
    match &found.cpus {
        Some(_) => None,
        None if found.listens => Some(format!(
            "the agent is not allowed to see the processes that listen on {port}, so the server's own figures are missing; run it \
             as root or as the server's user, as in 'ssh root@HOST webstone agent'"
        )),
        None => Some(format!(
            "nothing listens on {port} where the agent runs, so the server's own figures are missing"
        )),
    }
}

/// Whether the time between two readings by the agent's clock agrees with the time between two moments here.
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

/// The source address of packets to an address. None is sent.
fn source_towards(address: &SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
