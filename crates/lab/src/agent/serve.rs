//! The agent: what `webstone agent` does. It monitors one server on its host, as a run there would, and reports to the program that
//! started it; or it makes load.
//!
//! One thread only reads, so that echoes are answered and the end of the stream ends the program at once, even during a sample or a
//! level. A second thread monitors the server; the role that makes load has its own.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::debug;
use webstone_engine::Control;
use webstone_model::event::Phase;
use webstone_model::record::{HostUse, ServerUse};

use super::frames::{FrameError, Frames, Greeting, greet, greeted, pieces, send};
use super::load::{Echoed, LoadAnswer, LoadAsk};
use super::messages::{Age, Answer, Ask, Closed, Find, Found, Identity, Interval, Numbered, PROTOCOL};
use crate::endpoint::is_this_host;
use crate::environment;
use crate::host_use::links_towards;
use crate::listeners::{self, Ports};
use crate::machine::Root;
use crate::process_tree::ProcessTree;
use crate::window::{Used, Watched, Window};

/// An agent that makes load ends when it hears nothing for this long: its controller is gone, or cannot be reached.
pub const LEASE: Duration = Duration::from_secs(15);

/// Messages that an agent has not handled yet. A controller that sends more has to wait, so that a flood fills no memory;
/// nothing that a level needs waits for more.
pub const WAITING_MAX: usize = 4;

/// Why an agent ended before its stream did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The other side speaks another protocol.
    #[error("{}", versions(ours, theirs))]
    Version {
        /// Version of webstone and of the protocol here.
        ours: (String, u32),
        /// Of the other side.
        theirs: (String, u32),
    },
    /// The other side broke the protocol.
    #[error("this agent was not started by webstone: {0}")]
    Garbled(String),
    /// An agent that makes load heard nothing for too long.
    #[error("nothing was heard from the controller for {} s, so the load was ended", LEASE.as_secs())]
    Silence,
    /// Nothing can be said.
    #[error("cannot answer: {0}")]
    Io(#[from] io::Error),
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Version { .. } => Some(SAME_VERSION),
            ServeError::Garbled(_) => {
                Some("it is started by `webstone run URL --server-agent COMMAND`, not by hand")
            }
            ServeError::Silence | ServeError::Io(_) => None,
        }
    }
}

/// What to do about two versions.
pub(super) const SAME_VERSION: &str = "install the same version of webstone on both hosts";

/// Both sides' versions in words: of webstone and of the protocol.
pub(super) fn versions(ours: &(String, u32), theirs: &(String, u32)) -> String {
    format!(
        "webstone {} here speaks version {} of the agent's protocol, but webstone {} on the other side speaks version {}",
        ours.0, ours.1, theirs.0, theirs.1
    )
}

/// The role that makes load, implemented where the load generator is known.
pub trait LoadRole: Send {
    /// Takes what it is told, in order; `payload` is what came with it. Returns at once where no more than
    /// [`WAITING_MAX`] wait: answers go over its [`Voice`] when there
    /// are any, with the number of what they answer.
    fn asked(&mut self, number: u64, ask: LoadAsk, payload: Vec<u8>);
}

/// How an agent is heard.
#[derive(Clone)]
pub struct Voice(Arc<Mutex<Box<dyn Write + Send>>>);

impl Voice {
    /// Over this stream.
    pub fn new(output: impl Write + Send + 'static) -> Voice {
        Voice(Arc::new(Mutex::new(Box::new(output))))
    }

    /// Sends messages of the role that makes load, with a payload or without.
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn say(&self, number: u64, answer: LoadAnswer, payload: &[u8]) -> io::Result<()> {
        for piece in pieces(payload) {
            // Echoes go in between: an echo that waits for a payload would be useless.
            self.lock().write_all(&piece)?;
        }
        self.answer(number, Answer::Load(answer))
    }

    fn answer(&self, number: u64, message: Answer) -> io::Result<()> {
        send(&mut *self.lock(), &Numbered { number, message })
    }

    fn echo(&self, number: u64, received_ns: u64) -> io::Result<()> {
        let mut output = self.lock();
        let message = Answer::Echoed(Echoed { received_ns, sent_ns: Control::now_ns() });
        send(&mut *output, &Numbered { number, message })
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers until `input` ends. `version` is webstone's own; `ports` are those of the server here, where they are not the target's;
/// `load` makes the role that makes load, once it is wanted.
///
/// An agent that makes load ends by itself where it hears nothing for [`LEASE`], because the end of a stream may never arrive.
///
/// # Errors
/// If the other side breaks the protocol, falls silent, or cannot be answered. A closed stream is not an error.
pub fn serve(
    mut input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    version: &str,
    ports: BTreeSet<u16>,
    load: impl FnOnce(Voice) -> Box<dyn LoadRole> + Send + 'static,
) -> Result<(), ServeError> {
    let voice = Voice::new(output);
    greet(&mut *voice.lock(), &Greeting { protocol: PROTOCOL, version: version.to_owned() })?;
    let theirs = match greeted(&mut input) {
        Ok(greeting) => greeting,
        Err(FrameError::Ended) => return Ok(()),
        Err(error) => return Err(ServeError::Garbled(error.to_string())),
    };
    if theirs.protocol != PROTOCOL {
        return Err(ServeError::Version {
            ours: (version.to_owned(), PROTOCOL),
            theirs: (theirs.version, theirs.protocol),
        });
    }
    let (sender, asks) = sync_channel(WAITING_MAX);
    let mut looker = Looker { voice: voice.clone(), ports, server: None };
    std::thread::Builder::new().name("looks".to_owned()).spawn(move || {
        // If nothing can be written any more, reading ends, too.
        let _ = looker.answer_all(&asks);
    })?;
    let (heard, hears) = channel();
    std::thread::Builder::new().name("hears".to_owned()).spawn(move || {
        let mut listener = Listener { voice, looks: sender, load: Err(Some(load)) };
        let mut frames = Frames::new(input);
        let ended = loop {
            let has_payload = |ask: &Numbered<Ask>| matches!(ask.message, Ask::Load(LoadAsk::Prepare(_)));
            match frames.next_with(has_payload) {
                Ok((ask, payload)) => {
                    let makes_load = listener.hear(ask, payload);
                    let _ = heard.send(Ok(makes_load));
                }
                Err(error) => break error,
            }
        };
        let _ = heard.send(Err(ended));
    })?;
    // The other threads end with the program, if necessary in the middle of a sample or level.
    let mut makes_load = false;
    loop {
        let said = match makes_load {
            true => hears.recv_timeout(LEASE).map_err(|_| ServeError::Silence)?,
            false => hears.recv().map_err(|_| ServeError::Silence)?,
        };
        match said {
            Ok(is_load) => makes_load |= is_load,
            Err(FrameError::Ended | FrameError::Torn) => return Ok(()),
            Err(error) => return Err(ServeError::Garbled(error.to_string())),
        }
    }
}

/// Deals out what is read.
struct Listener<F> {
    voice: Voice,
    /// To the thread that looks at a server.
    looks: SyncSender<Numbered<Ask>>,
    /// The role that makes load, or what makes it.
    load: Result<Box<dyn LoadRole>, Option<F>>,
}

impl<F: FnOnce(Voice) -> Box<dyn LoadRole>> Listener<F> {
    /// Whether it was for the role that makes load.
    fn hear(&mut self, ask: Numbered<Ask>, payload: Vec<u8>) -> bool {
        let received_ns = Control::now_ns();
        match ask.message {
            // At once, whatever the other threads do. If the answer cannot be written, the stream ends.
            Ask::Echo => drop(self.voice.echo(ask.number, received_ns)),
            Ask::Load(message) => {
                debug!(number = ask.number, ?message, "was asked for load");
                if let Err(make) = &mut self.load
                    && let Some(make) = make.take()
                {
                    self.load = Ok(make(self.voice.clone()));
                }
                if let Ok(role) = &mut self.load {
                    role.asked(ask.number, message, payload);
                }
                return true;
            }
            _ => drop(self.looks.send(ask)),
        }
        false
    }
}

/// Where the server is.
struct Place {
    ports: Ports,
    /// Network interfaces towards the generator.
    links: BTreeSet<String>,
}

struct Looker {
    voice: Voice,
    /// Where to look for the server; empty: where the question says.
    ports: BTreeSet<u16>,
    server: Option<Place>,
}

impl Looker {
    fn answer_all(&mut self, asks: &Receiver<Numbered<Ask>>) -> io::Result<()> {
        while let Ok(ask) = asks.recv() {
            debug!(number = ask.number, message = ?ask.message, "was asked");
            self.answer(ask, asks)?;
        }
        Ok(())
    }

    /// Answers one question, or all of a level.
    fn answer(&mut self, ask: Numbered<Ask>, asks: &Receiver<Numbered<Ask>>) -> io::Result<()> {
        let mut ask = ask;
        // A level that never closed is ended by the next question.
        while let Ask::Level = ask.message {
            let Some(place) = &self.server else { break };
            match level(&self.voice, place, ask.number, asks)? {
                Some(next) => ask = next,
                None => return Ok(()),
            }
        }
        let answer = match ask.message {
            Ask::Echo | Ask::Load(_) => return Ok(()),
            Ask::Find(mut find) => {
                // Its own ports are not the target's, so they may be at another address.
                let is_target = self.ports.is_empty();
                if !is_target {
                    find.ports.numbers.clone_from(&self.ports);
                }
                let (place, found) = look_for(find, is_target);
                self.server = Some(place);
                Answer::Found(Box::new(found))
            }
            Ask::Level => Answer::Refused("a level started before a server was looked for".to_owned()),
            Ask::Open | Ask::Slice | Ask::Close => Answer::Refused("a window without a level".to_owned()),
        };
        self.voice.answer(ask.number, answer)
    }
}

/// Finds the server, and what there is to know of its host.
fn look_for(find: Find, is_target: bool) -> (Place, Found) {
    let root = Root::default();
    let on_one_host = find.generator.iter().copied().all(is_this_host);
    let strange: BTreeSet<IpAddr> =
        find.addresses.iter().copied().filter(|address| !is_this_host(*address)).collect();
    // If another host has the target's address, it is a load balancer, and its traffic is the load here.
    let towards = find.generator.iter().chain(&strange).copied();
    let links = links_towards(&root, towards, on_one_host);
    let mut ports = find.ports;
    if is_target && strange.is_empty() {
        ports.addresses = find.addresses.iter().map(IpAddr::to_canonical).collect();
    }
    let sockets = listeners::inodes(&root, &ports);
    let (server, forwarder) = match listeners::find_or_forwarder(&root, &ports) {
        Ok(server) => (server, None),
        Err(forwarder) => (None, Some(forwarder.name)),
    };
    let namespace = |kind: &str| Some(root.link(&format!("/proc/self/ns/{kind}"))?.display().to_string());
    let processes = server.iter().flat_map(|server| server.tree().all());
    let of = namespace("pid").unwrap_or_default();
    let found = Found {
        ports: ports.numbers.clone(),
        listens: !sockets.is_empty(),
        forwarder,
        identity: Identity {
            network: namespace("net"),
            sockets,
            processes: processes.map(|process| (of.clone(), process)).collect(),
        },
        cpus: server.map(|server| server.cpus),
        strange,
        boot: environment::boot(&root),
        environment: environment::of_host(&root, &find.generator, on_one_host),
    };
    (Place { ports, links }, found)
}

/// Monitors a level. Returns the question that ended it without closing the window, or `None`.
fn level(
    voice: &Voice,
    place: &Place,
    number: u64,
    asks: &Receiver<Numbered<Ask>>,
) -> io::Result<Option<Numbered<Ask>>> {
    // Found again, because the server may have been restarted between levels.
    let found = listeners::find(&Root::default(), &place.ports);
    let cpus = found.as_ref().map(|server| server.cpus.clone()).unwrap_or_default();
    let server = found.map(|server| server.tree());
    let is_seen = server.is_some();
    if let Some(server) = &server {
        ProcessTree::reset_peak(server);
    }
    // The clients' ports are another host's.
    let targets = BTreeSet::new();
    let mut window = Window::before(Watched {
        server,
        origin: None,
        from_start: false,
        links: &place.links,
        cpus,
        targets: &targets,
        listening: place.ports.clone(),
        path: None,
        echoes: Vec::new(),
    });
    voice.answer(number, Answer::Ready)?;
    let mut has_slices = false;
    loop {
        let ask = match window.until_look().map(|wait| asks.recv_timeout(wait)) {
            Some(Ok(ask)) => ask,
            Some(Err(RecvTimeoutError::Timeout)) => {
                window.look(Phase::Measuring);
                continue;
            }
            Some(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
            None => match asks.recv() {
                Ok(ask) => ask,
                Err(_) => return Ok(None),
            },
        };
        match ask.message {
            Ask::Open => {
                window.look(Phase::Measuring);
                voice.answer(ask.number, Answer::Opened(age(window.read_at())))?;
            }
            Ask::Slice if window.until_look().is_some() => {
                has_slices = true;
                let used = window.end_slice();
                let slice = interval(used.host, used.server, window.read_at());
                voice.answer(ask.number, Answer::Slice(Box::new(slice)))?;
            }
            Ask::Close => {
                window.look(Phase::Draining);
                let read_at = window.read_at();
                let last_slice = has_slices.then(|| window.end_slice());
                let used = window.used();
                let window_ns = used.host.elapsed_ns;
                let (Used { host, server, .. }, _) = used.on_time(window_ns);
                let closed = Closed {
                    window: interval(host, Some(server).filter(|_| is_seen), read_at),
                    last_slice: last_slice.map(|used| interval(used.host, used.server, read_at)),
                };
                voice.answer(ask.number, Answer::Closed(Box::new(closed)))?;
                return Ok(None);
            }
            _ => return Ok(Some(ask)),
        }
    }
}

/// As it is told; `read_at`: when its second reading was taken.
fn interval(host: HostUse, server: Option<ServerUse>, read_at: Instant) -> Interval {
    // Those would be the agent's own.
    let host = HostUse { ports: None, descriptors: None, descriptors_max: None, ..host };
    Interval { host, server: server.filter(|server| server.processes.is_some()), age: age(read_at) }
}

fn age(read_at: Instant) -> Age {
    let elapsed: Duration = read_at.elapsed();
    Age { nanos: elapsed.as_nanos() as u64 }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
