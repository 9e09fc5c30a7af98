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
             hint: timed runs that were completed are kept: `webstone list` shows them",
        );
    }));
}
