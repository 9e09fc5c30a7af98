//! The hosts of a fleet, seen from the controller: each with its agent, echoes that show the offset of its clock, and messages
//! that were not read yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use webstone_engine::Control;
use webstone_lab::agent::load::LoadAsk;
use webstone_lab::agent::{AgentError, GeneratorAgent, Heard};
use webstone_lab::interrupt::Interrupt;
use webstone_model::generators::{ClockOffset, GeneratorRecord};

use super::clock::{Sample, estimate};
use super::course::Times;
use super::pods::Launch;

/// Round trips, of which the shortest gives the offset of a clock.
const ECHOES: usize = 16;
/// How long they may take.
const ECHO_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two of them.
const ECHO_PAUSE: Duration = Duration::from_millis(2);
/// Between two signs of life to each agent, which ends its load where it hears nothing for too long.
const PING: Duration = Duration::from_secs(1);
/// Messages of an agent that wait to be read. One that sends more is blocked, so that a flood fills no memory; nothing that a
/// level needs comes faster than it is read.
pub(super) const WAITING_MAX: usize = 64;
/// Echoes that are remembered until they come back.
const PENDING_MAX: usize = 64;

/// An agent's stream, for several threads.
pub(super) struct AgentStream {
    agent: Mutex<Option<GeneratorAgent>>,
    echoes: Mutex<Echoes>,
    heard_ns: AtomicU64,
}

#[derive(Default)]
struct Echoes {
    number: u64,
    /// When each echo was sent that has not come back.
    pending: HashMap<u64, u64>,
    samples: VecDeque<Sample>,
}

impl AgentStream {
    /// Starts an agent. What it says, but for echoes, goes to `inbox`, and then its place among the hosts to `bell`.
    pub(super) fn start(
        command: &str,
        version: &str,
        place: usize,
        inbox: SyncSender<Heard>,
        bell: Sender<usize>,
    ) -> Result<Arc<AgentStream>, AgentError> {
        let link = Arc::new(AgentStream {
            agent: Mutex::new(None),
            echoes: Mutex::default(),
            heard_ns: AtomicU64::new(Control::now_ns()),
        });
        let hearing = Arc::downgrade(&link);
        let agent = GeneratorAgent::start(command, version, move |heard| {
            let Some(link) = hearing.upgrade() else { return false };
            link.heard_ns.store(Control::now_ns(), Ordering::Relaxed);
            match heard {
                Heard::Echoed { number, stamps, at_ns } => {
                    link.echoed(number, stamps.received_ns, stamps.sent_ns, at_ns);
                    true
                }
                heard => inbox.send(heard).is_ok() && bell.send(place).is_ok(),
            }
        })?;
        *lock(&link.agent) = Some(agent);
        Ok(link)
    }

    pub(super) fn echo(&self) {
        let number = {
            let mut echoes = lock(&self.echoes);
            // One that does not answer is found by its silence.
            if echoes.pending.len() >= PENDING_MAX {
                return;
            }
            echoes.number += 1;
            let number = echoes.number;
            echoes.pending.insert(number, Control::now_ns());
            number
        };
        self.with_agent(|agent| agent.echo(number));
    }

    fn echoed(&self, number: u64, received_ns: u64, replied_ns: u64, came_ns: u64) {
        let mut echoes = lock(&self.echoes);
        let Some(sent_ns) = echoes.pending.remove(&number) else { return };
        if echoes.samples.len() == ECHOES {
            echoes.samples.pop_front();
        }
        echoes.samples.push_back(Sample { sent_ns, received_ns, replied_ns, came_ns });
    }

    pub(super) fn with_agent<T>(&self, tell: impl FnOnce(&mut GeneratorAgent) -> T) -> Option<T> {
        lock(&self.agent).as_mut().map(tell)
    }

    /// When anything last came from it, on the controller's clock.
    pub(super) fn heard_ns(&self) -> u64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    fn forget_samples(&self) {
        let mut echoes = lock(&self.echoes);
        echoes.pending.clear();
        echoes.samples.clear();
    }

    fn samples(&self) -> Vec<Sample> {
        lock(&self.echoes).samples.iter().copied().collect()
    }

    /// Makes some round trips, and waits for them.
    pub(super) fn echoes(&self, interrupt: &Interrupt) {
        self.forget_samples();
        for _ in 0..ECHOES {
            self.echo();
            std::thread::sleep(ECHO_PAUSE);
        }
        let until = Instant::now() + ECHO_PATIENCE;
        while self.samples().len() < ECHOES && Instant::now() < until && interrupt.count() == 0 {
            std::thread::sleep(ECHO_PAUSE);
        }
    }

    /// The offset of its clock, by these round trips.
    pub(super) fn clock(&self) -> Option<ClockOffset> {
        estimate(&self.samples())
    }

    /// The shortest of the last round trips, in nanoseconds.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.samples().iter().filter_map(Sample::way_ns).min().unwrap_or_default()
    }
}

/// One host.
pub(super) struct Member {
    /// How its agent is started.
    pub(super) launch: Launch,
    pub(super) link: Arc<AgentStream>,
    pub(super) inbox: Receiver<Heard>,
    pub(super) record: GeneratorRecord,
    /// It was lost, and has to be started again before it can make anything.
    pub(super) is_lost: bool,
}

impl Member {
    pub(super) fn tell(&self, number: u64, ask: LoadAsk, payload: &[u8]) {
        self.link.with_agent(|agent| agent.tell(number, ask, payload));
    }
}

/// All of them, and what they were told.
pub(super) struct Members {
    pub(super) hosts: Vec<Member>,
    /// Rung by an agent with something in its inbox.
    pub(super) bell: Receiver<usize>,
    pub(super) ring: Sender<usize>,
    /// Links that are kept alive; the pinger's.
    pub(super) links: Arc<Mutex<Vec<Arc<AgentStream>>>>,
    /// The plan, for those that are started again.
    pub(super) plan: Vec<u8>,
    pub(super) version: String,
    pub(super) tool_version: String,
    pub(super) times: Times,
    pub(super) clients_per_connection: u32,
    /// Whether each host has as many clients as the run says, whatever its workers.
    pub(super) is_dealt_by_clients: bool,
    /// Number of the last thing that was asked for.
    pub(super) number: u64,
}

impl Members {
    /// The offset of each clock, by fresh echoes; `None` for hosts that do not answer.
    pub(super) fn clocks(&self, interrupt: &Interrupt) -> Vec<Option<ClockOffset>> {
        let present = || self.hosts.iter().filter(|host| !host.is_lost);
        present().for_each(|host| host.link.forget_samples());
        for _ in 0..ECHOES {
            present().for_each(|host| host.link.echo());
            std::thread::sleep(ECHO_PAUSE);
        }
        let until = Instant::now() + ECHO_PATIENCE;
        let has_time = || Instant::now() < until && interrupt.count() == 0;
        while present().any(|host| host.link.samples().len() < ECHOES) && has_time() {
            std::thread::sleep(ECHO_PAUSE);
        }
        let of = |host: &Member| if host.is_lost { None } else { host.link.clock() };
        self.hosts.iter().map(of).collect()
    }
}

/// Tells every agent once a second that the controller is there.
pub(super) struct Pinger {
    links: Arc<Mutex<Vec<Arc<AgentStream>>>>,
    _alive: Sender<()>,
}

impl Pinger {
    pub(super) fn start(links: Arc<Mutex<Vec<Arc<AgentStream>>>>) -> Pinger {
        let (alive, is_over) = channel();
        let theirs = Arc::clone(&links);
        std::thread::spawn(move || {
            while is_over.recv_timeout(PING) == Err(RecvTimeoutError::Timeout) {
                lock(&theirs).iter().for_each(|link| link.ping());
            }
        });
        Pinger { links, _alive: alive }
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        // So that agents end with their owner, and not with the pinger's thread.
        lock(&self.links).clear();
    }
}

impl AgentStream {
    /// A sign of life; the agent's answer is another.
    fn ping(&self) {
        self.with_agent(|agent| agent.echo(0));
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
