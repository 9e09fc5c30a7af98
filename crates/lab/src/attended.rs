//! A child process that never outlives this program: it ends by itself when its standard input ends. Its standard output is
//! handed over line by line, and the last lines of its standard error are kept for messages.
//!
//! It has a process group of its own, so that Ctrl-C on the terminal reaches only this program, which then decides.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tracing::{info, warn};
use webstone_store::redaction;

/// Lines of its standard error that a message quotes.
pub(crate) const LINES_KEPT: usize = 10;
/// Bytes of a line that are kept; the rest of it is dropped.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Lines of its standard output that may wait to be read. A child that prints faster prints for somebody else.
const LINES_WAITING_MAX: usize = 1_000;
/// Time between two checks whether it has ended.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit status.
    pub status: ExitStatus,
    /// Last lines of its standard error.
    pub stderr: Vec<String>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(self.status))?;
        f.write_str(&quoted(&self.stderr))
    }
}

/// `exit status 1`, `killed by signal 9`.
pub(crate) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// What it said, below a message.
pub(crate) fn quoted(stderr: &[String]) -> String {
    match stderr {
        [] => "; it wrote nothing to standard error".to_owned(),
        lines => format!("; it said:\n  {}", lines.join("\n  ")),
    }
}

/// The process.
#[derive(Debug)]
pub(crate) struct Attended {
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    /// Whether its end has been waited for.
    ended: bool,
    /// How long it may take to end by itself, then on SIGTERM.
    patience: [Duration; 2],
}

impl Attended {
    /// Starts it. The channel gives the lines of its standard output.
    pub(crate) fn start(
        command: Command,
        patience: [Duration; 2],
    ) -> io::Result<(Attended, Receiver<String>)> {
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        let attended = Attended::read_by(command, patience, move |stdout| hand_over(stdout, &sender))?;
        Ok((attended, lines))
    }

    /// Starts it. Its standard output is read by `read`, on a thread of its own.
    pub(crate) fn read_by(
        mut command: Command,
        patience: [Duration; 2],
        read: impl FnOnce(ChildStdout) + Send + 'static,
    ) -> io::Result<Attended> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .inspect_err(
                |error| warn!(command = words(&command), %error, "a process could not be started"),
            )?;
        info!(pid = child.id(), command = words(&command), "process started");
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(std::thread::spawn(move || read(stdout)));
        }
        if let Some(pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            readers.push(std::thread::spawn(move || keep_last(pipe, &kept)));
        }
        let stdin = child.stdin.take();
        Ok(Attended { stdin, child, stderr, readers, ended: false, patience })
    }

    /// Its standard input, until it is stopped.
    pub(crate) fn stdin(&mut self) -> Option<&mut ChildStdin> {
        self.stdin.as_mut()
    }

    /// The same, but the caller writes to it and ends it.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its process identifier.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        let status = self.child.try_wait().ok()??;
        self.ended = true;
        Some(Exit { status, stderr: self.last_words() })
    }

    /// Last lines of its standard error, once it has ended.
    pub(crate) fn last_words(&self) -> Vec<String> {
        // Its last output may still be in the pipe, which one of its descendants may keep open for ever.
        let until = Instant::now() + Duration::from_millis(500);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        self.last_lines()
    }

    /// Last lines of its standard error.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// From now on, stopping it waits at most this long for it to end by itself.
    pub(crate) fn hurry(&mut self, patience: Duration) {
        self.patience = self.patience.map(|usual| usual.min(patience));
    }

    /// Stops it: by the end of its standard input, then SIGTERM, then SIGKILL. Always waits for its end.
    pub(crate) fn stop(&mut self) {
        drop(self.stdin.take());
        if self.ended {
            return;
        }
        let since = Instant::now();
        let how = self.end();
        info!(pid = self.pid(), how, after = ?since.elapsed(), "process ended");
    }

    /// Ends it, and says what it took.
    fn end(&mut self) -> &'static str {
        if self.ends_within(self.patience[0]) {
            return "by the end of its standard input";
        }
        // The process has not been waited for, so its identifier is still its own, and its group's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        if self.ends_within(self.patience[1]) {
            return "by SIGTERM";
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.ended = self.child.wait().is_ok();
        "by SIGKILL"
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
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is started, as it would be typed, without secrets.
fn words(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = all.map(|word| word.to_string_lossy().into_owned()).collect();
    redaction::command_line(&words).join(" ")
}

fn hand_over(stdout: impl Read, lines: &SyncSender<String>) {
    each_line(stdout, &mut |line| {
        // Full: more lines would only fill memory.
        let _ = lines.try_send(line);
    });
}

fn keep_last(stderr: impl Read, kept: &Mutex<VecDeque<String>>) {
    each_line(stderr, &mut |line| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LINES_KEPT {
            kept.pop_front();
        }
        kept.push_back(line.trim_end().to_owned());
    });
}

/// Hands over each line, clipped. Reads to the end even if nobody listens, so that the process never blocks on a full pipe.
fn each_line(stream: impl Read, tell: &mut dyn FnMut(String)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        let bytes = match stream.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let (length, ends) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..length.min(room)]);
        let is_over = bytes.is_empty();
        stream.consume(length + usize::from(ends && !is_over));
        if ends && !(is_over && line.is_empty()) {
            tell(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
        if is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stream: impl Read) -> Vec<String> {
        let mut lines = Vec::new();
        each_line(stream, &mut |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_come_as_they_are_and_long_ones_are_cut() {
        assert_eq!(lines(&b"one\n\ntwo \xff\nthree"[..]), ["one", "", "two \u{fffd}", "three"]);
        assert_eq!(lines(&b""[..]), Vec::<String>::new());
        let long = io::repeat(b'x').take(100 << 20).chain(&b"\nnext\n"[..]);
        let found = lines(long);
        assert_eq!((found[0].len(), found[1].as_str(), found.len()), (LINE_BYTES_MAX, "next", 2));
    }

    #[test]
    fn lines_that_nobody_reads_do_not_fill_memory() {
        let (sender, waiting) = sync_channel(LINES_WAITING_MAX);
        hand_over(io::repeat(b'\n').take(1 << 20), &sender);
        drop(sender);
        assert_eq!(waiting.iter().count(), LINES_WAITING_MAX);
    }
}
