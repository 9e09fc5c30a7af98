//! How the user ends a run early: once to keep what was measured, twice to stop at once.
//!
//! The counter is one atomic, so that a signal handler may raise it. The caller installs the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the user asked to stop. Shared between a signal handler and the sweep, which looks at it many times a
/// second.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicU32,
}

impl Interrupt {
    /// An interrupt that was not raised yet.
    pub fn new() -> Arc<Interrupt> {
        Arc::new(Interrupt::default())
    }

    /// Asks to stop. The first time, the running level's window closes and the sweep ends; the second time the
    /// running level is cut off. Safe to call from a signal handler: one atomic addition.
    pub fn raise(&self) {
        self.raised.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was raised.
    pub fn count(&self) -> u32 {
        self.raised.load(Ordering::Relaxed)
    }
}
