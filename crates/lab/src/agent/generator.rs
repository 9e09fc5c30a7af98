//! This side of an agent that makes load. All its messages go to one place, with their time of arrival; a thread of its own
//! writes to it, because an agent that stalls must not delay the others.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::debug;
use webstone_store::redaction;

use super::frames::{FrameError, Greeting, pieces, send};
use super::load::{Echoed, LoadAnswer, LoadAsk};
use super::messages::{Answer, Ask, Numbered};
use super::process::{
    AgentError, AgentFailure, AgentProcess, Arrival, Asking, hand_over, plain, same_protocol,
};

/// What an agent said, or what became of it.
#[derive(Debug)]
pub enum Heard {
    /// It is there.
    Greeted(Heartbeat),
    /// An answer to an echo.
    Echoed {
        /// The number of the echo.
        number: u64,
        /// Its stamps.
        stamps: Echoed,
        /// When it came, on the clock of [`webstone_engine::Control::now_ns`].
        at_ns: u64,
    },
    /// What the role says.
    Said {
        /// The number of what it answers.
        number: u64,
        /// The answer.
        answer: LoadAnswer,
        /// What came with it.
        payload: Vec<u8>,
    },
    /// It cannot, or broke the protocol: [`GeneratorAgent::lost`] has the words.
    Broken(Gone),
}

/// The greeting of an agent, to be checked by [`GeneratorAgent::greeted`].
#[derive(Clone, Debug)]
pub struct Heartbeat(Greeting);

/// Why nothing more will come.
#[derive(Debug)]
pub struct Gone(FrameError);

/// An agent that makes load.
pub struct GeneratorAgent {
    /// Its command, without secrets.
    pub command: String,
    version: String,
    process: AgentProcess,
    /// To the thread that writes; `None` when the agent is to end.
    tell: Option<Sender<Vec<u8>>>,
    due: Arc<Due>,
}

/// Numbers of the levels that it was told to make and has not ended. Each has one result: results that nobody asked for, of 256 MiB
/// each, would fill memory.
#[derive(Default)]
struct Due(Mutex<BTreeSet<u64>>);

impl Due {
    fn add(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    /// A message, unless it is a result that is not due.
    fn checked(&self, heard: Heard) -> Heard {
        match heard {
            Heard::Said { number, answer: LoadAnswer::Ended(_), .. } if !self.take(number) => {
                let what = format!("it sent a result that was not asked for, of level {number}");
                Heard::Broken(Gone(FrameError::Garbled(what)))
            }
            heard => heard,
        }
    }

    fn take(&self, number: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

impl GeneratorAgent {
    /// Starts it. What it says goes to `hear`, on a thread of its own, until that returns `false`. `version` is webstone's here.
    ///
    /// # Errors
    /// If its command is invalid, or its program does not start.
    pub fn start(
        command: &str,
        version: &str,
        mut hear: impl FnMut(Heard) -> bool + Send + 'static,
    ) -> Result<GeneratorAgent, AgentError> {
        let shown = redaction::text(command).text;
        let asking = Asking { key: "generators.agent", command, shown: &shown, version };
        let due = Arc::new(Due::default());
        let known = Arc::clone(&due);
        let mut is_broken = false;
        let mut process = AgentProcess::start(&asking, move |arrival| {
            let heard = known.checked(heard(arrival));
            // After a breach of the protocol nothing more is read.
            let goes_on = !is_broken;
            is_broken |= matches!(heard, Heard::Broken(_));
            goes_on && hear(heard) && !is_broken
        })?;
        let tell = process.take_stdin().map(|stdin| {
            let (tell, told) = channel();
            // Ends with the sender, or where the pipe is broken; either way the agent's input ends.
            std::thread::spawn(move || write_all(stdin, &told));
            tell
        });
        Ok(GeneratorAgent { command: shown, version: version.to_owned(), process, tell, due })
    }

    /// Whether the agent that greeted has our version of the protocol.
    ///
    /// # Errors
    /// If it has another protocol.
    pub fn greeted(&self, greeting: &Heartbeat) -> Result<(), AgentError> {
        same_protocol(&self.command, &self.version, &greeting.0)
    }

    /// Tells it something.
    pub fn tell(&self, number: u64, ask: LoadAsk, payload: &[u8]) {
        debug!(command = self.command, number, ?ask, "told a generator");
        if matches!(ask, LoadAsk::Arm(_)) {
            self.due.add(number);
        }
        for piece in pieces(payload) {
            self.write(piece);
        }
        self.message(number, Ask::Load(ask));
    }

    /// Asks for an echo.
    pub fn echo(&self, number: u64) {
        self.message(number, Ask::Echo);
    }

    fn message(&self, number: u64, message: Ask) {
        let mut frame = Vec::new();
        if send(&mut frame, &Numbered { number, message }).is_ok() {
            self.write(frame);
        }
    }

    fn write(&self, frame: Vec<u8>) {
        // If it has gone, the reading thread notices.
        let _ = self.tell.as_ref().map(|tell| tell.send(frame));
    }

    /// From now on, dropping it waits for its end only for a moment: the user has interrupted.
    pub fn hurry(&mut self) {
        self.process.hurry();
    }

    /// How it was lost, in words that follow its name.
    pub fn lost(&mut self, gone: &Gone) -> String {
        self.process.end_in_words(&gone.0).to_string()
    }

    /// The same as an error of its start.
    pub fn not_started(&mut self, gone: &Gone) -> AgentError {
        AgentError::Failed { command: self.command.clone(), failure: self.process.end_in_words(&gone.0) }
    }

    /// An error of its start, in words that follow its name.
    pub fn refused(&self, how: String) -> AgentError {
        AgentError::Failed { command: self.command.clone(), failure: AgentFailure::from(plain(&how)) }
    }

    /// What it wrote to its standard error last.
    pub fn last_lines(&self) -> Vec<String> {
        self.process.last_lines()
    }
}

impl Drop for GeneratorAgent {
    fn drop(&mut self) {
        // The end of its input first, so that it ends by itself.
        self.tell = None;
    }
}

/// Reads all that a generator's stream has, as [`GeneratorAgent::start`] does of a process, until `hear` returns `false`.
pub fn listen(stream: impl Read, mut hear: impl FnMut(Heard) -> bool) {
    hand_over(stream, move |arrival| hear(heard(arrival)));
}

fn heard(arrival: Arrival) -> Heard {
    match arrival {
        Arrival::Greeted(greeting) => Heard::Greeted(Heartbeat(greeting)),
        Arrival::Broken(error) => Heard::Broken(Gone(error)),
        Arrival::Answered { at_ns, answer: Numbered { number, message }, payload, .. } => match message {
            Answer::Echoed(stamps) => Heard::Echoed { number, stamps, at_ns },
            Answer::Load(answer) => Heard::Said { number, answer, payload },
            other => {
                let text: String = format!("{other:?}").chars().take(40).collect();
                Heard::Broken(Gone(FrameError::Garbled(format!("it said {text} to nobody"))))
            }
        },
    }
}

fn write_all(mut stdin: ChildStdin, told: &Receiver<Vec<u8>>) {
    while let Ok(frame) = told.recv() {
        if stdin.write_all(&frame).is_err() {
            return;
        }
    }
}
