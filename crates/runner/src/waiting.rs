//! Says what is waited for where that takes long: an agent whose host asks for a password, or a command that is no agent.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::scope;
use std::time::Duration;

use webstone_store::redaction;

/// How long nothing is said.
const SILENCE: Duration = Duration::from_secs(2);

/// Does `work`; where that takes longer than two seconds, `say` is called meanwhile, once.
pub(crate) fn patiently<T: Send>(work: impl FnOnce() -> T + Send, say: impl FnOnce()) -> T {
    scope(|scope| {
        let (done, is_done) = channel::<()>();
        let working = scope.spawn(move || {
            let _done = done;
            work()
        });
        if is_done.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
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
        assert_eq!(patiently(|| 1, || said += 1), 1);
        assert_eq!(said, 0);
        assert_eq!(patiently(|| std::thread::sleep(SILENCE + SILENCE), || said += 1), ());
        assert_eq!(said, 1);
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
