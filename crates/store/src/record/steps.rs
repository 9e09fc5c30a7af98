//! The steps in which the store changes its directory, counted in tests, so that a writer can be killed before each of them.
//! Outside tests they cost nothing and always succeed.
//!
//! A killed writer does nothing any more: it neither rolls back nor removes what it had begun. So code that tidies up after an error
//! asks [`is_alive`] first.

use std::io;

/// The next step; an error if the writer is killed before it.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "in tests it fails")]
pub(super) fn next() -> io::Result<()> {
    Ok(())
}

/// Whether the writer still runs.
#[cfg(not(test))]
pub(super) fn is_alive() -> bool {
    true
}

#[cfg(test)]
pub(super) use counted::{is_alive, killed_before, next};

#[cfg(test)]
mod counted {
    use super::io;
    use std::cell::Cell;

    thread_local! {
        /// Steps that this thread may still take; `None`: any number.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(in crate::record) fn next() -> io::Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("killed")),
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }

    pub(in crate::record) fn is_alive() -> bool {
        LEFT.get() != Some(0)
    }

    /// Lets a writer take `step` steps and kills it before the next. Returns whether it was killed.
    pub(in crate::record) fn killed_before(step: u32, write: impl FnOnce()) -> bool {
        LEFT.set(Some(step));
        write();
        let killed = !is_alive();
        LEFT.set(None);
        killed
    }
}
