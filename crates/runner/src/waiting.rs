//! Messages about slow work: an agent whose host asks for a password, or a command that is not an agent.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::scope;
use std::time::Duration;

use webstone_store::redaction;

/// How long starting an agent may take before a message says what it waits for.
pub(crate) const AGENT_SILENCE: Duration = Duration::from_secs(2);

/// Does the work on another thread; calls `say` once if it takes longer than `silence`.
pub(crate) fn saying_after<T: Send>(
    silence: Duration,
    work: impl FnOnce() -> T + Send,
    say: impl FnOnce(),
) -> T {
    scope(|scope| {
        let (done, is_done) = channel::<()>();
        let working = scope.spawn(move || {
            let _done = done;
            work()
        });
        if is_done.recv_timeout(silence) == Err(RecvTimeoutError::Timeout) {
            say();
        }
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The agents that have not answered, in words: the first by its command.
pub(crate) fn for_agents(whose: &str, commands: &[&str]) -> String {
    let first = commands.first().map(|command| redaction::text(command).text).unwrap_or_default();
    match commands.len() {
        0 | 1 => format!("waiting for the agent of {whose} to answer: {first}"),
        several => format!("waiting for {several} agents to answer, that of {whose} among them: {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_long_is_said() {
        let mut said = 0;
        assert_eq!(saying_after(Duration::from_secs(60), || 7, || said += 1), 7);
        assert_eq!(said, 0);
        let (go_on, wait) = channel::<()>();
        // The work lasts until something was said.
        let work = move || wait.recv().is_ok();
        assert!(saying_after(Duration::from_millis(1), work, || go_on.send(()).unwrap()));
    }

    #[test]
    fn agents_are_named_without_their_secrets() {
        assert_eq!(
            for_agents("generator 1", &["sleep 100"]),
            "waiting for the agent of generator 1 to answer: sleep 100"
        );
        let told =
            for_agents("generator 2", &["ssh b webstone agent --password=geheim", "ssh c webstone agent"]);
        assert!(told.starts_with("waiting for 2 agents to answer, that of generator 2 among them: ssh b"));
        assert!(!told.contains("geheim"), "{told}");
    }
}
