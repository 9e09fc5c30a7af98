//! How a level tells its workers when the window opens.
//!
//! A worker that learned of the opening too late would handle requests of the window without counting them, and the
//! announcing thread may lose its CPU at any moment, for any time. So an instant is first proposed, and becomes valid
//! only if it is still well ahead after every worker could read it. A worker that reaches a proposed instant rejects
//! it, for all workers.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::loop_clock::TICK_NS;

const NONE: u64 = u64::MAX;
/// Marks an instant that is proposed but not valid yet. No instant of the monotonic clock has this bit set.
const PROPOSED: u64 = 1 << 63;
/// How far ahead an instant must be once workers can read it: they look once per tick.
const AHEAD_NS: u64 = 2 * TICK_NS;

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Announced(AtomicU64);

impl Announced {
    /// Nothing announced yet.
    pub(crate) fn none() -> Announced {
        Announced(AtomicU64::new(NONE))
    }

    /// The instant, once it is valid; [`u64::MAX`] until then.
    pub(crate) fn get(&self) -> u64 {
        match self.0.load(SeqCst) {
            proposed if proposed & PROPOSED != 0 => NONE,
            at_ns => at_ns,
        }
    }

    /// The announced or proposed instant; [`u64::MAX`] before either.
    pub(crate) fn soonest(&self) -> u64 {
        match self.0.load(SeqCst) {
            NONE => NONE,
            at_ns => at_ns & !PROPOSED,
        }
    }

    /// Sets a valid instant, before any worker runs.
    pub(crate) fn set(&self, at_ns: u64) {
        self.0.store(at_ns, SeqCst);
    }

    /// Announces an instant, and returns whether it became valid. Only one thread may announce at a time.
    pub(crate) fn announce(&self, at_ns: u64, clock: impl FnOnce() -> u64) -> bool {
        self.propose(at_ns);
        self.settle(at_ns, clock())
    }

    pub(crate) fn propose(&self, at_ns: u64) {
        self.0.store(at_ns | PROPOSED, SeqCst);
    }

    /// Makes a proposed instant valid if `now`, read after it was proposed, is early enough; returns whether it is.
    pub(crate) fn settle(&self, at_ns: u64, now: u64) -> bool {
        let to = if now.saturating_add(AHEAD_NS) <= at_ns { at_ns } else { NONE };
        self.0.compare_exchange(at_ns | PROPOSED, to, SeqCst, SeqCst).is_ok() && to != NONE
    }

    /// What a worker acts on at `now`: as [`Announced::get`], but a proposed instant that has been reached is
    /// rejected.
    pub(crate) fn look(&self, now: u64) -> u64 {
        let found = self.0.load(SeqCst);
        if found & PROPOSED == 0 || found == NONE || now < found & !PROPOSED {
            return self.get();
        }
        match self.0.compare_exchange(found, NONE, SeqCst, SeqCst) {
            Ok(_) => NONE,
            // It is valid by now, or another worker rejected it.
            Err(_) => self.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_NS: u64 = 5_000 * TICK_NS;

    #[test]
    fn an_instant_announced_in_time_is_valid() {
        let announced = Announced::none();
        assert_eq!((announced.get(), announced.soonest(), announced.look(AT_NS)), (NONE, NONE, NONE));
        assert!(announced.announce(AT_NS, || AT_NS - AHEAD_NS));
        assert_eq!((announced.get(), announced.soonest()), (AT_NS, AT_NS));
        assert_eq!(announced.look(AT_NS + TICK_NS), AT_NS);
    }

    /// The announcing thread lost its CPU before it wrote the instant, or after.
    #[test]
    fn an_instant_announced_late_is_never_valid() {
        let announced = Announced::none();
        assert!(!announced.announce(AT_NS, || AT_NS - AHEAD_NS + 1));
        assert_eq!((announced.get(), announced.soonest()), (NONE, NONE));
        // The next one may be.
        assert!(announced.announce(2 * AT_NS, || AT_NS));
        assert_eq!(announced.look(2 * AT_NS), 2 * AT_NS);
    }

    /// The announcing thread lost its CPU after it had read the clock, and a worker reached the instant meanwhile.
    #[test]
    fn an_instant_rejected_by_one_worker_is_never_valid() {
        let announced = Announced::none();
        let in_time = || {
            assert_eq!((announced.soonest(), announced.look(AT_NS - 1)), (AT_NS, NONE));
            assert_eq!(announced.soonest(), AT_NS, "not refused before it has come");
            assert_eq!(announced.look(AT_NS), NONE);
            AT_NS - AHEAD_NS
        };
        assert!(!announced.announce(AT_NS, in_time));
        assert_eq!((announced.get(), announced.look(AT_NS)), (NONE, NONE));
    }
}
