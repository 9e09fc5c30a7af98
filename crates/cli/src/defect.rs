//! The user's message for a panic: a defect of this program, to be reported; or a thread that the system refuses,
//! which the standard library also reports by a panic.

use std::panic;

use crate::console;

/// The standard library's panic message if a thread cannot be started.
const NO_THREAD: &str = "failed to spawn thread: ";

/// The description in an error of the operating system that was formatted for debugging.
fn reason(error: &str) -> &str {
    error.split('"').nth(1).unwrap_or(error)
}

/// Makes a panic say, below its own message, where the fault lies and what happens to the measurements. In a packaged
/// program (profile `dist`) a panic ends the program at once: completed timed runs are on disk by then, and servers
/// are stopped by another process.
pub(crate) fn explain() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // The payload of a formatted message, such as the standard library's.
        let what = panicked.payload().downcast_ref::<String>();
        if let Some(error) = what.and_then(|what| what.strip_prefix(NO_THREAD)) {
            console::complain(format!("error: cannot start a thread: {}", reason(error)));
            console::complain(
                "hint: see `ulimit -v` (memory), `ulimit -u` (threads) and the limits of the control group; a stored run keeps the timed runs \
                 that were completed",
            );
            return;
        }
        before(panicked);
        console::complain(
            "error: this is a defect of webstone; please report it with the lines above\n\
             hint: a stored run keeps the timed runs that were completed; `webstone list` names it",
        );
    }));
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_refused_thread_is_reported_with_the_systems_reason() {
        let error = std::io::Error::from_raw_os_error(11);
        assert_eq!(reason(&format!("{error:?}")), "Resource temporarily unavailable");
        assert_eq!(reason("another form"), "another form");
    }

    #[test]
    fn a_panic_says_whose_fault_it_is_and_what_is_kept() {
        const IS_TO_PANIC: &str = "WEBSTONE_TEST_IS_TO_PANIC";
        if env::var_os(IS_TO_PANIC).is_some() {
            explain();
            panic!("planted");
        }
        let test = "defect::tests::a_panic_says_whose_fault_it_is_and_what_is_kept";
        let mut itself = Command::new(env::current_exe().unwrap());
        let said = itself.args(["--exact", test, "--nocapture"]).env(IS_TO_PANIC, "1").output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        let (theirs, ours) =
            err.split_once("error: this is a defect of webstone").unwrap_or_else(|| panic!("{err}"));
        assert!(!said.status.success() && theirs.contains("planted"), "{err}");
        assert!(ours.contains("hint: a stored run keeps the timed runs that were completed"), "{err}");
    }
}
