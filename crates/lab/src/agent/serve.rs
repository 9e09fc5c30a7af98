//! The agent: what `webstone agent` does. It watches one server on the host that it runs on, as a run there would, and says what
//! it saw to whoever started it.
//!
//! The calling thread does nothing but read, so that the end of the stream ends the program at once, whatever a look is
//! doing. A second thread looks and answers.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tracing::debug;
use webstone_model::event::Phase;
use webstone_model::record::HostUse;

use super::frames::{FrameError, Greeting, greet, greeted, receive, send};
use super::messages::{Answer, Ask, Behind, Closed, Find, Found, Numbered, PROTOCOL};
use crate::endpoint::is_this_host;
use crate::environment;
use crate::host_use::links_towards;
use crate::listeners;
use crate::machine::Root;
use crate::process_tree::ProcessTree;
use crate::window::{Used, Watched, Window};

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
    /// The other side makes no sense.
    #[error("this agent was not started by webstone: {0}")]
    Garbled(String),
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
            ServeError::Io(_) => None,
        }
    }
}

/// What to do about two versions.
pub(super) const SAME_VERSION: &str = "install the same version of webstone on both hosts";

/// Who speaks what, in words. Each side is its version of webstone and of the protocol.
pub(super) fn versions(ours: &(String, u32), theirs: &(String, u32)) -> String {
    format!(
        "webstone {} here speaks version {} of the agent's protocol, but webstone {} on the other side speaks version {}",
        ours.0, ours.1, theirs.0, theirs.1
    )
}

/// Answers until `input` ends. `version` is webstone's own.
///
/// # Errors
/// If the other side breaks the protocol, or cannot be answered. A closed stream is not an error.
pub fn serve(
    mut input: impl Read,
    mut output: impl Write + Send + 'static,
    version: &str,
) -> Result<(), ServeError> {
    greet(&mut output, &Greeting { protocol: PROTOCOL, version: version.to_owned() })?;
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
    let (sender, asks) = channel();
    std::thread::Builder::new().name("looks".to_owned()).spawn(move || {
        // Where nothing can be said any more, the stream that is read ends, too.
        let _ = Looker { output, server: None }.answer_all(&asks);
    })?;
    loop {
        match receive::<Numbered<Ask>>(&mut input) {
            // The other thread is ended with the program, in the middle of a look if need be.
            Ok(ask) => drop(sender.send(ask)),
            Err(FrameError::Ended | FrameError::Torn) => return Ok(()),
            Err(error) => return Err(ServeError::Garbled(error.to_string())),
        }
    }
}

/// Where the server is.
struct Place {
    ports: BTreeSet<u16>,
    /// Network interfaces towards the generator.
    links: BTreeSet<String>,
}

struct Looker<W> {
    output: W,
    server: Option<Place>,
}

impl<W: Write> Looker<W> {
    fn answer_all(mut self, asks: &Receiver<Numbered<Ask>>) -> io::Result<()> {
        while let Ok(ask) = asks.recv() {
            debug!(number = ask.number, message = ?ask.message, "was asked");
            self.answer(ask, asks)?;
        }
        Ok(())
    }

    /// Answers one question, or all of a level.
    fn answer(&mut self, ask: Numbered<Ask>, asks: &Receiver<Numbered<Ask>>) -> io::Result<()> {
        let mut ask = ask;
        // A level that never closed is ended by whatever is asked next.
        while let Ask::Level = ask.message {
            let Some(place) = &self.server else { break };
            match level(&mut self.output, place, ask.number, asks)? {
                Some(next) => ask = next,
                None => return Ok(()),
            }
        }
        let answer = match ask.message {
            Ask::Echo => Answer::Echoed,
            Ask::Find(find) => {
                let (place, found) = look_for(&find);
                self.server = Some(place);
                Answer::Found(Box::new(found))
            }
            Ask::Level => Answer::Refused("a level started before a server was looked for".to_owned()),
            Ask::Open | Ask::Close => Answer::Refused("a window without a level".to_owned()),
        };
        say(&mut self.output, ask.number, answer)
    }
}

fn say(output: &mut impl Write, number: u64, message: Answer) -> io::Result<()> {
    send(output, &Numbered { number, message })
}

/// Finds the server, and what there is to know of its host.
fn look_for(find: &Find) -> (Place, Found) {
    let root = Root::default();
    let on_one_host = find.generator.iter().copied().all(is_this_host);
    let links = links_towards(&root, find.generator.iter().copied(), on_one_host);
    let found = Found {
        listens: listeners::is_listening(&root, &find.ports),
        cpus: listeners::find(&root, &find.ports).map(|server| server.cpus),
        strange: find.addresses.iter().copied().filter(|address| !is_this_host(*address)).collect(),
        boot: environment::boot(&root),
        environment: environment::of_server_host(&root, &find.generator, on_one_host),
    };
    (Place { ports: find.ports.clone(), links }, found)
}

/// Sees a level through: the question that ended it without being the window's close, or `None`.
fn level(
    output: &mut impl Write,
    place: &Place,
    number: u64,
    asks: &Receiver<Numbered<Ask>>,
) -> io::Result<Option<Numbered<Ask>>> {
    // Found anew: a server that was restarted between levels is still the server.
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
    });
    say(output, number, Answer::Ready)?;
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
                say(output, ask.number, Answer::Opened(behind(window.read_at())))?;
            }
            Ask::Close => {
                window.look(Phase::Draining);
                let read_at = window.read_at();
                let Used { host, server, .. } = window.used();
                let server = Some(server).filter(|server| is_seen && server.processes.is_some());
                // Those would be the agent's own.
                let host = HostUse { ports: None, descriptors: None, descriptors_max: None, ..host };
                let closed = Closed { host, server, behind: behind(read_at) };
                say(output, ask.number, Answer::Closed(Box::new(closed)))?;
                return Ok(None);
            }
            _ => return Ok(Some(ask)),
        }
    }
}

fn behind(read_at: Instant) -> Behind {
    let elapsed: Duration = read_at.elapsed();
    Behind { nanos: elapsed.as_nanos() as u64 }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
