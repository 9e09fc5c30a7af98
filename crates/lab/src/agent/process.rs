//! The process that runs an agent: it is started, a thread of its own reads its output, and failures are put into words.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use webstone_engine::Control;

use super::frames::{FrameError, Frames, Greeting, greet, greeted};
use super::load::LoadAnswer;
use super::messages::{Answer, Numbered, PROTOCOL};
use super::serve::{SAME_VERSION, versions};
use crate::attended::{Attended, Exit, quoted};

/// Exit code of shells and ssh if the program does not exist.
const EXIT_NO_PROGRAM: i32 = 127;
/// How long it may take to end by itself, then on SIGTERM.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(500)];
/// The same where the user waits for the end, each time.
const HURRIED_PATIENCE: Duration = Duration::from_millis(200);
/// How long a process whose output has ended may take to end.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The command is invalid.
    #[error("{key}: `{command}` is not a command")]
    Command {
        /// The key of the specification that has it.
        key: &'static str,
        /// The command.
        command: String,
    },
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
    /// Two of them watch the same.
    #[error("{what}: the server would be counted twice")]
    Twice {
        /// Which, and where.
        what: String,
    },
    /// It ended, hung, or made no sense.
    #[error("the agent `{command}` {}", .failure.how)]
    Failed {
        /// The command.
        command: String,
        /// How, and what it said.
        failure: AgentFailure,
    },
}

/// How an agent failed.
#[derive(Clone, Debug)]
pub struct AgentFailure {
    /// Words that follow its name.
    pub(super) how: String,
    pub(super) cause: Cause,
}

/// What has a remedy of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    /// A terminal stands between.
    Terminal,
    /// The program does not exist on the host.
    NoSuchProgram,
    Other,
}

impl From<String> for AgentFailure {
    fn from(how: String) -> AgentFailure {
        AgentFailure { how, cause: Cause::Other }
    }
}

impl fmt::Display for AgentFailure {
    /// `ended: killed by signal 9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.how)
    }
}

impl AgentError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            AgentError::Command { .. } => {
                "give a command that starts it on the other host, as in 'ssh web1 webstone agent'".to_owned()
            }
            AgentError::Start { .. } => {
                "begin with a program of this host, as in 'ssh web1 webstone agent'".to_owned()
            }
            AgentError::Version { .. } => SAME_VERSION.to_owned(),
            AgentError::Twice { .. } => {
                "leave one out, or give each the port of its own server, as in 'ssh web1 webstone agent --port 8081'".to_owned()
            }
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

/// A message of the agent, with its time of arrival.
pub(super) enum Arrival {
    Greeted(Greeting),
    Answered {
        at: Instant,
        /// The same on the clock of [`Control::now_ns`].
        at_ns: u64,
        answer: Numbered<Answer>,
        /// What came before it in pieces.
        payload: Vec<u8>,
    },
    Broken(FrameError),
}

/// An agent to be started.
pub(super) struct Asking<'a> {
    /// The key of the specification that has the command.
    pub(super) key: &'static str,
    pub(super) command: &'a str,
    /// The same without secrets.
    pub(super) shown: &'a str,
    /// Version of webstone here.
    pub(super) version: &'a str,
}

/// The process.
pub(super) struct AgentProcess(Attended);

impl AgentProcess {
    /// Starts it and greets it. What it says goes to `hear`, on another thread, until that returns `false`.
    pub(super) fn start(
        asking: &Asking<'_>,
        hear: impl FnMut(Arrival) -> bool + Send + 'static,
    ) -> Result<AgentProcess, AgentError> {
        let words = shlex::split(asking.command).unwrap_or_default();
        let shown = || asking.shown.to_owned();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(AgentError::Command { key: asking.key, command: shown() });
        };
        let mut child = Command::new(program);
        child.args(arguments);
        let started = Attended::read_by(child, STOP_PATIENCE, move |stdout| hand_over(stdout, hear));
        let mut process = started.map_err(|source| AgentError::Start { command: shown(), source })?;
        if let Some(stdin) = process.stdin() {
            // If it has gone, waiting for its greeting finds out.
            let _ = greet(stdin, &Greeting { protocol: PROTOCOL, version: asking.version.to_owned() });
        }
        Ok(AgentProcess(process))
    }

    /// Where it is asked, until it is taken.
    pub(super) fn stdin(&mut self) -> Option<&mut ChildStdin> {
        self.0.stdin()
    }

    /// The pipe for questions, for a thread of its own, which then ends the process.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.0.take_stdin()
    }

    /// Its end is awaited for a moment only: the user has interrupted.
    pub(super) fn hurry(&mut self) {
        self.0.hurry(HURRIED_PATIENCE);
    }

    /// How the stream ended.
    pub(super) fn end_in_words(&mut self, error: &FrameError) -> AgentFailure {
        let until = Instant::now() + END_PATIENCE;
        let exit = loop {
            match self.0.exit() {
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
                AgentFailure { how: format!("ended: {exit}"), cause }
            }
            _ => {
                let cause = match error {
                    FrameError::NoGreeting { is_garbled: true, .. } => Cause::Terminal,
                    _ => Cause::Other,
                };
                let said = quoted(&self.last_lines());
                AgentFailure { how: format!("broke the protocol: {error}{said}"), cause }
            }
        }
    }

    pub(super) fn last_lines(&self) -> Vec<String> {
        self.0.last_lines().iter().map(|line| plain(line)).collect()
    }
}

/// Checks that it speaks our version of the protocol.
pub(super) fn same_protocol(command: &str, version: &str, greeting: &Greeting) -> Result<(), AgentError> {
    if greeting.protocol == PROTOCOL {
        return Ok(());
    }
    let theirs = (greeting.version.clone(), greeting.protocol);
    let what = versions(&(version.to_owned(), PROTOCOL), &theirs);
    Err(AgentError::Version { command: command.to_owned(), what })
}

/// Text from somebody else, harmless to a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Reads messages and notes their times, until one is invalid.
pub(super) fn hand_over(stdout: impl Read, mut hear: impl FnMut(Arrival) -> bool) {
    let mut stdout = BufReader::new(stdout);
    let broken = match greeted(&mut stdout) {
        Ok(greeting) => {
            let mut goes_on = hear(Arrival::Greeted(greeting));
            let mut frames = Frames::new(&mut stdout);
            let has_payload =
                |it: &Numbered<Answer>| matches!(it.message, Answer::Load(LoadAnswer::Ended(_)));
            loop {
                match frames.next_with(has_payload) {
                    Ok((answer, payload)) if goes_on => {
                        let (at, at_ns) = (Instant::now(), Control::now_ns());
                        goes_on = hear(Arrival::Answered { at, at_ns, answer, payload });
                    }
                    Ok(_) => return,
                    Err(error) => break error,
                }
            }
        }
        Err(error) => error,
    };
    hear(Arrival::Broken(broken));
}
