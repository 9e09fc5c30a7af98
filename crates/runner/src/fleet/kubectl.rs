//! Asks `kubectl` what a run must know of a Job: started, read and, if it takes too long, ended. Authentication and encryption are
//! left to kubectl and its configuration; webstone holds no credentials.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tracing::info;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::servers::on_path;
use webstone_model::kubernetes::PodsOfJob;

use super::FleetError;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is checked whether kubectl has ended.
const POLL: Duration = Duration::from_millis(10);
/// How long the rest of an answer may take once kubectl has ended.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer that is read, in bytes: a pod is about 10 KB, and there are at most 1,000.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Characters of what kubectl said that a message quotes.
const SAID_CHARS_MAX: usize = 400;

/// kubectl for one Job: with its context and namespace.
pub(super) struct Kubectl<'a> {
    asked: &'a PodsOfJob,
    interrupt: &'a Interrupt,
}

/// Why kubectl has no answer.
pub(super) enum Unanswered {
    /// It said that there is no such thing.
    NotFound,
    /// Anything else.
    Failed(FleetError),
}

impl<'a> Kubectl<'a> {
    /// # Errors
    /// If it is not installed.
    pub(super) fn find(asked: &'a PodsOfJob, interrupt: &'a Interrupt) -> Result<Kubectl<'a>, FleetError> {
        if on_path("kubectl").is_some() {
            return Ok(Kubectl { asked, interrupt });
        }
        Err(FleetError::Refused {
            what: format!(
                "generators.kubernetes: the pods of the Job {} are reached by kubectl, which is not installed here",
                asked.job
            ),
            hint: "install kubectl (https://kubernetes.io/docs/tasks/tools/), and try `kubectl get pods`"
                .to_owned(),
        })
    }

    /// Without checking that kubectl is installed.
    #[cfg(test)]
    pub(super) fn unchecked(asked: &'a PodsOfJob, interrupt: &'a Interrupt) -> Kubectl<'a> {
        Kubectl { asked, interrupt }
    }

    /// The command line: kubectl, the options of every command, these words.
    pub(super) fn command(&self, namespace: Option<&str>, words: &[&str]) -> Vec<String> {
        // Two words each: an option with an equals sign would need quotes in a shell.
        let option =
            |name: &str, value: Option<&str>| value.map(|value| [format!("--{name}"), value.to_owned()]);
        let options = [
            option("kubeconfig", self.asked.kubeconfig.as_deref()),
            option("context", self.asked.context.as_deref()),
            option("namespace", namespace.or(self.asked.namespace.as_deref())),
        ];
        let words = words.iter().map(|word| (*word).to_owned());
        std::iter::once("kubectl".to_owned())
            .chain(options.into_iter().flatten().flatten())
            .chain(words)
            .collect()
    }

    /// Asks for an object, or a list of them.
    ///
    /// # Errors
    /// If there is none, or kubectl cannot tell.
    pub(super) fn get(&self, words: &[&str]) -> Result<Value, Unanswered> {
        let command =
            self.command(None, &[&["get"], words, &["--output=json", "--request-timeout=20s"]].concat());
        let shown = command.join(" ");
        let failed = |how: String, hint: &str| {
            Unanswered::Failed(FleetError::Refused {
                what: format!("generators.kubernetes: `{shown}` {how}"),
                hint: hint.to_owned(),
            })
        };
        const BY_HAND: &str = "try it by hand: kubectl needs a cluster that it reaches, and the right to get pods and jobs there";
        let started = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|error| failed(format!("cannot be started: {error}"), BY_HAND))?;
        let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
        let until = Instant::now() + PATIENCE;
        let raised = self.interrupt.count();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if self.interrupt.count() > raised => {
                    end(&mut child);
                    return Err(Unanswered::Failed(FleetError::Interrupted));
                }
                Ok(None) if Instant::now() > until => {
                    end(&mut child);
                    return Err(failed(format!("did not answer within {} s", PATIENCE.as_secs()), BY_HAND));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(failed(format!("cannot be waited for: {error}"), BY_HAND)),
            }
        };
        let answer = out.recv_timeout(REST_PATIENCE).unwrap_or_default();
        let said = err.recv_timeout(REST_PATIENCE).unwrap_or_default();
        info!(command = shown, %status, bytes = answer.len(), "kubectl was asked");
        if !status.success() {
            let said = in_one_line(&without_log(&String::from_utf8_lossy(&said)));
            return Err(match said.contains("(NotFound)") {
                true => Unanswered::NotFound,
                false if said.is_empty() => failed(format!("failed: {status}"), BY_HAND),
                false => failed(format!("failed: {said}"), BY_HAND),
            });
        }
        serde_json::from_slice(&answer)
            .map_err(|error| failed(format!("printed something else than JSON: {error}"), BY_HAND))
    }
}

impl From<Unanswered> for FleetError {
    fn from(unanswered: Unanswered) -> FleetError {
        match unanswered {
            Unanswered::Failed(error) => error,
            Unanswered::NotFound => FleetError::Refused {
                what: "generators.kubernetes: there is no such namespace".to_owned(),
                hint: "see `kubectl get namespaces`".to_owned(),
            },
        }
    }
}

/// Reads a pipe to its end, on a thread of its own: a full pipe would block its writer.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, whole) = channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A truncated answer is found when it is parsed.
            let _ = pipe.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
    }
    whole
}

/// Ends kubectl and what it started to log in.
fn end(child: &mut Child) {
    // It has not been waited for, so its identifier is still its own, and its group's.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// What kubectl said without the lines of its log (`E1124 14:53:03.856594 30327 memcache.go:265] …`), which say the same at length
/// before the sentence that is meant for people; all of it where there is no such sentence.
fn without_log(said: &str) -> String {
    let is_log = |line: &&str| {
        let head = line.split(' ').next().unwrap_or_default();
        let digits = head.get(1..).unwrap_or_default();
        head.starts_with(['I', 'W', 'E', 'F'])
            && digits.len() == 4
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let lines: Vec<&str> = said.lines().filter(|line| !is_log(line) && !line.trim().is_empty()).collect();
    if lines.is_empty() { said.to_owned() } else { lines.join("\n") }
}

/// Text of others as one line, shortened and without control characters.
pub(super) fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(SAID_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_for_people_is_shown_and_not_the_log_before_it() {
        let log = "E1124 14:53:03.856594   30327 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list\"\n";
        let sentence = "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n";
        assert_eq!(without_log(&format!("{log}{log}{sentence}")), sentence.trim());
        assert_eq!(without_log(log), log, "there is nothing else");
        assert_eq!(without_log("Error from server (NotFound): x\n"), "Error from server (NotFound): x");
    }
}
