//! This side of the stream: starts the command that runs an agent, asks it, and gives it up when it is gone, hangs or breaks the
//! protocol. A run never waits for it while load is made: a question at the start or end of a window, or of a slice of it, is a few
//! bytes written to a pipe; the thread that reads answers notes their times, and they are evaluated when they have come.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tracing::{debug, info};
use webstone_model::event::Phase;
use webstone_model::record::AgentRecord;

use super::frames::{FrameError, send};
use super::level_watch::{Elsewhere, LevelWatch, Question};
use super::messages::{Answer, Ask, Find, Found, Identity, Numbered};
use super::process::{AgentError, AgentFailure, AgentProcess, Arrival, Asking, plain, same_protocol};
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
/// Answers that may wait: those of some slices, if this side is held up. An agent that sends more has to wait, and is found out when its
/// answers are read: unrequested answers would fill memory.
const ARRIVALS_WAITING_MAX: usize = 8;
/// Time between two checks whether the user has interrupted.
const POLL: Duration = Duration::from_millis(50);
/// Round trips that are timed before the load; the shortest counts.
const ECHOES: usize = 5;
/// Round trips above which no slices are asked for: most readings would be too late for theirs.
const ROUND_TRIP_NS_MAX_OF_SLICES: u64 = 20_000_000;

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

/// An agent that watches the server under test on its own host.
pub(super) struct ServerAgent {
    process: AgentProcess,
    arrivals: Receiver<Arrival>,
    numbers: u64,
    /// Those that have not been evaluated.
    questions: BTreeMap<u64, Question>,
    /// How its output ended, until somebody may wait for what the process says of it.
    ended: Option<FrameError>,
    /// Why it answers no more.
    lost: Option<AgentFailure>,
    level: LevelWatch,
    /// Whether the ends of slices may be asked for.
    pub(super) can_slice: bool,
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
        let failed = |failure: AgentFailure| AgentError::Failed { command: command.clone(), failure };
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
                ..Ports::default()
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
        agent.can_slice = unseen.is_none() && record.round_trip_ns_min <= ROUND_TRIP_NS_MAX_OF_SLICES;
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
            questions: BTreeMap::new(),
            ended: None,
            lost: None,
            level: LevelWatch::default(),
            can_slice: false,
        })
    }

    /// A level is about to start: asks the agent to be ready for it. [`Self::ready`] waits for the answer.
    pub(super) fn level_starts(&mut self) -> u64 {
        self.level = LevelWatch::default();
        self.questions.retain(|_, question| question.answer.is_none());
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

    /// A slice of the window has ended, which is not the last.
    pub(super) fn end_slice(&mut self, slice: usize) {
        let number = self.ask(Ask::Slice);
        self.level.ends_slice(slice, number);
    }

    /// What was used in a slice that has ended, or why that is unknown; `None` until it has answered. Never waits.
    pub(super) fn in_slice(&mut self, slice: usize) -> Option<Result<Elsewhere, String>> {
        self.hear_answers();
        self.evaluate();
        if let Some(used) = self.level.in_slice(slice) {
            return Some(used.clone());
        }
        let question = self.questions.get(&self.level.question_of(slice)?);
        match question.filter(|_| self.lost.is_none() && self.ended.is_none()) {
            Some(question) if question.asked.elapsed() < ANSWER_PATIENCE => None,
            Some(_) => Some(Err("it did not say in time what was used".to_owned())),
            None => Some(Err("it did not say what was used".to_owned())),
        }
    }

    /// Slices up to this one are not asked for again.
    pub(super) fn forget_slices(&mut self, last: usize) {
        self.level.forget_slices(last);
    }

    /// What was used during the window, or why that is unknown. Call it when the level has ended.
    pub(super) fn used(&mut self, until: Instant, interrupt: &Interrupt) -> Result<Elsewhere, String> {
        self.look(Phase::Done);
        loop {
            self.evaluate();
            if let Some(failure) = &self.lost {
                return Err(format!("it {}", failure.how));
            }
            if let Some(used) = self.level.take_window() {
                return used;
            }
            if let Err(failure) = self.next(until, interrupt).and_then(|arrival| self.heard(arrival)) {
                self.lost = Some(failure);
            }
        }
    }

    fn evaluate(&mut self) {
        if let Err(answer) = self.level.evaluate(&mut self.questions) {
            self.lost.get_or_insert(unexpected(&answer).into());
        }
    }

    /// Asks, and does not wait.
    fn ask(&mut self, message: Ask) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        self.questions.insert(number, Question { asked: Instant::now(), answer: None });
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
    ) -> Result<(Answer, Duration), AgentFailure> {
        if let Some(failure) = &self.lost {
            return Err(failure.clone());
        }
        loop {
            if let Some(answer) = self.questions.get_mut(&number).and_then(|question| question.answer.take())
            {
                self.questions.remove(&number);
                return Ok(answer);
            }
            let arrival = self.next(until, interrupt)?;
            self.heard(arrival)?;
        }
    }

    /// Takes what has arrived, without waiting.
    fn hear_answers(&mut self) {
        while self.lost.is_none()
            && self.ended.is_none()
            && let Ok(arrival) = self.arrivals.try_recv()
        {
            match arrival {
                Arrival::Broken(error) => self.ended = Some(error),
                arrival => self.lost = self.heard(arrival).err(),
            }
        }
    }

    /// Notes an answer.
    fn heard(&mut self, arrival: Arrival) -> Result<(), AgentFailure> {
        let strange = || AgentFailure::from("sent an answer that was not asked for".to_owned());
        let Arrival::Answered { at, answer, .. } = arrival else { return Err(strange()) };
        let question = self.questions.get_mut(&answer.number).filter(|question| question.answer.is_none());
        let question = question.ok_or_else(strange)?;
        let took = at.saturating_duration_since(question.asked);
        debug!(number = answer.number, after = ?took, message = ?answer.message, "the agent answered");
        if let Answer::Refused(why) = &answer.message {
            return Err(format!("refused: {}", plain(why)).into());
        }
        question.answer = Some((answer.message, took));
        Ok(())
    }

    /// Its next message, or how it failed. Only an interruption after this call ends the waiting.
    fn next(&mut self, until: Instant, interrupt: &Interrupt) -> Result<Arrival, AgentFailure> {
        let since = Instant::now();
        let raised = interrupt.count();
        if let Some(error) = self.ended.take() {
            return Err(self.process.end_in_words(&error));
        }
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
    match (&found.cpus, &found.forwarder) {
        (Some(_), _) => None,
        (None, Some(name)) => Some(format!(
            "{port} is held by {} where the agent runs, which forwards it: the server's own figures are missing; run the agent \
             where the server runs, as in 'docker exec -i NAME webstone agent'",
            plain(name)
        )),
        (None, None) if found.listens => Some(format!(
            "the agent is not allowed to see the processes that listen on {port}, so the server's own figures are missing; run it \
             as root or as the server's user, as in 'ssh root@HOST webstone agent'"
        )),
        (None, None) => Some(format!(
            "nothing listens on {port} where the agent runs, so the server's own figures are missing"
        )),
    }
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
