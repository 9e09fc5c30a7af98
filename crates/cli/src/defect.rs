//! What a panic is for the user: a defect of this program, to be reported.

use std::panic;

use crate::console;

/// Has a panic say, below its own message, whose fault it is and what becomes of the measurements. In a package's program (profile
/// `dist`) it ends the program at once: completed timed runs are on disk by then, and servers are stopped by another process.
pub(crate) fn explain() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
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
