//! The instant at which a window opens, as a level tells its workers.
//!
//! A worker that learned of it late would have handled requests of the window without counting them, and the announcer may
//! lose its CPU at any moment, for any time. So an instant is proposed first, and holds only if it was still well ahead once every
//! worker could read it. A worker that comes to a proposed instant refuses it: then it holds for none.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::loop_clock::TICK_NS;

const NONE: u64 = u64::MAX;
/// Marks an instant that is proposed and does not hold yet. On the monotonic clock no instant has this bit.
const PROPOSED: u64 = 1 << 63;
/// How far ahead an instant must be once it can be read: workers look once a tick.
const AHEAD_NS: u64 = 2 * TICK_NS;

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Announced(AtomicU64);

impl Announced {
    /// Not announced.
    pub(crate) fn none() -> Announced {
        Announced(AtomicU64::new(NONE))
    }

    /// The instant, once it holds; [`u64::MAX`] until then.
    pub(crate) fn get(&self) -> u64 {
        match self.0.load(SeqCst) {
            proposed if proposed & PROPOSED != 0 => NONE,
            at_ns => at_ns,
        }
    }

    /// The instant, though it may not hold yet: [`u64::MAX`] where there is none.
    pub(crate) fn soonest(&self) -> u64 {
        match self.0.load(SeqCst) {
            NONE => NONE,
            at_ns => at_ns & !PROPOSED,
        }
    }

    /// Sets an instant that holds, before any worker runs.
    pub(crate) fn set(&self, at_ns: u64) {
        self.0.store(at_ns, SeqCst);
    }

    /// Announces an instant; whether it holds. For one announcer at a time.
    pub(crate) fn announce(&self, at_ns: u64, clock: impl FnOnce() -> u64) -> bool {
        self.propose(at_ns);
        self.settle(at_ns, clock())
    }

    pub(crate) fn propose(&self, at_ns: u64) {
        self.0.store(at_ns | PROPOSED, SeqCst);
    }

    /// Whether what was proposed holds, by a clock that was read since.
    pub(crate) fn settle(&self, at_ns: u64, now: u64) -> bool {
        let to = if now.saturating_add(AHEAD_NS) <= at_ns { at_ns } else { NONE };
        self.0.compare_exchange(at_ns | PROPOSED, to, SeqCst, SeqCst).is_ok() && to != NONE
    }

    /// What a worker goes by whose clock shows `now`: [`Announced::get`], and a proposed instant that has come is refused.
    pub(crate) fn look(&self, now: u64) -> u64 {
        let found = self.0.load(SeqCst);
        if found & PROPOSED == 0 || found == NONE || now < found & !PROPOSED {
            return self.get();
        }
        match self.0.compare_exchange(found, NONE, SeqCst, SeqCst) {
            Ok(_) => NONE,
            // It holds by now, or another worker refused it.
            Err(_) => self.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_NS: u64 = 5_000 * TICK_NS;

    #[test]
    fn what_is_announced_in_time_holds() {
        let announced = Announced::none();
        assert_eq!((announced.get(), announced.soonest(), announced.look(AT_NS)), (NONE, NONE, NONE));
        assert!(announced.announce(AT_NS, || AT_NS - AHEAD_NS));
        assert_eq!((announced.get(), announced.soonest()), (AT_NS, AT_NS));
        assert_eq!(announced.look(AT_NS + TICK_NS), AT_NS);
    }

    /// Its announcer lost its CPU before it was written, or after.
    #[test]
    fn what_is_announced_late_holds_for_nobody() {
        let announced = Announced::none();
        assert!(!announced.announce(AT_NS, || AT_NS - AHEAD_NS + 1));
        assert_eq!((announced.get(), announced.soonest()), (NONE, NONE));
        // The next one may.
        assert!(announced.announce(2 * AT_NS, || AT_NS));
        assert_eq!(announced.look(2 * AT_NS), 2 * AT_NS);
    }

    /// Its announcer lost its CPU after it had looked at the clock, and a worker came to the instant meanwhile.
    #[test]
    fn what_is_refused_by_one_worker_holds_for_nobody() {
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
