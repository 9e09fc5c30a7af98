//! What the level and its workers tell each other: a few words that are written once or read rarely.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::announced::Announced;
use crate::live::Copied;
use crate::plan::Plan;
use crate::slices::Judgements;

/// What the level and its workers tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// When the window opens.
    pub(crate) opening: Announced,
    /// How long it is open, unless it is extended or ends early; [`u64::MAX`] if its number of pages ends it.
    pub(crate) duration_ns: u64,
    /// Slices of the window.
    pub(crate) judgements: Judgements,
    /// When it ends early; [`u64::MAX`] if it does not.
    pub(crate) end_ns: AtomicU64,
    /// Finish at once, without a drain.
    pub(crate) abort: AtomicBool,
    /// In page-limited runs: clients begin no page until the window opens.
    pub(crate) settle: AtomicBool,
    /// Pages that may still begin on this host, in page-limited runs.
    pub(crate) pages_left: AtomicU64,
    /// Exchanges traced so far.
    pub(crate) traced: AtomicU32,
    /// What each worker publishes.
    pub(crate) workers: Vec<Published>,
}

impl Shared {
    /// For a level that has not begun.
    pub(crate) fn new(plan: &Plan, pages_left: u64, workers: usize) -> Shared {
        Shared {
            opening: Announced::none(),
            duration_ns: if plan.duration_ns > 0 { plan.duration_ns } else { u64::MAX },
            judgements: Judgements::default(),
            end_ns: AtomicU64::new(u64::MAX),
            abort: AtomicBool::new(false),
            settle: AtomicBool::new(false),
            pages_left: AtomicU64::new(pages_left),
            traced: AtomicU32::new(0),
            workers: (0..workers).map(|_| Published::default()).collect(),
        }
    }

    /// When the window closes; [`u64::MAX`] while that is unknown.
    pub(crate) fn close_ns(&self) -> u64 {
        self.closes_ns(self.opening.get())
    }

    /// When a window that opens at `open_ns` closes.
    pub(crate) fn closes_ns(&self, open_ns: u64) -> u64 {
        let extra_ns = self.judgements.extra_ns();
        open_ns.saturating_add(self.duration_ns).saturating_add(extra_ns).min(self.end_ns.load(Relaxed))
    }
}

/// One worker's totals, for the live display, on their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    /// Every client was started and has had its first answer, or first error.
    pub(crate) all_answered: AtomicBool,
    pub(crate) settled: AtomicBool,
    pub(crate) draining: AtomicBool,
    pub(crate) planned: AtomicU64,
    pub(crate) offered: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) response_ns: AtomicU64,
    pub(crate) oldest_in_flight_ns: AtomicU64,
    pub(crate) copied: Copied,
}
