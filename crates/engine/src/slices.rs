//! Slices of a window: spans of equal length, each counted by itself, so that those in which something took CPU time from
//! the load generator or the server can be left out of the figures.
//!
//! Every worker ends a slice at the same instants, and reports what its thread used in it. The level's watcher reads
//! what the server and the host used, judges the slice, and tells the workers, which add it to the figures or leave it out.
//! A slice is judged by what was taken in it, never by what was measured in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use webstone_measure::metrics::{Measured, Second, WorkerUse};

use crate::shared::Shared;

/// Maximum number of slices of a window, which may last twice as long as planned. In longer windows, slices are longer.
const SLICES_MAX: u64 = 4096;

/// Length of the slices of a window of this planned length, in nanoseconds: the one asked for, or longer if there would be too many.
pub fn slice_length_ns(asked_ns: u64, planned_ns: u64) -> u64 {
    asked_ns.max(planned_ns.saturating_mul(2) / SLICES_MAX)
}

/// Marks a window that cannot be extended any more.
const CLOSED: u64 = 1 << 63;
/// Mask of the number of slices in a valid extension.
const VALID: u64 = u32::MAX as u64;

/// What one worker used in a slice, and what ended in it.
#[derive(Clone, Debug, Default)]
pub struct WorkerSlice {
    /// The worker's number.
    pub number: usize,
    /// Number of the slice, from 0.
    pub slice: u32,
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// CPU time, waits and stalls.
    pub worker: WorkerUse,
    /// What ended in it.
    pub total: Second,
    /// Time that requests were in progress in it, in nanoseconds.
    pub busy_ns: u64,
}

/// What a level, its workers and their watcher tell each other about slices.
#[derive(Debug, Default)]
pub(crate) struct Judgements {
    /// Length of a slice; 0 if the window has none.
    pub(crate) length_ns: u64,
    /// How many are judged: those with the lowest numbers.
    judged: AtomicU32,
    /// A bit for each slice that is left out.
    left_out: Vec<AtomicU64>,
    /// Number of slices by which the window was extended (lower 32 bits), and is proposed to be (above them).
    extension: AtomicU64,
    /// Reports of workers that the watcher has not taken yet.
    reports: Mutex<Vec<WorkerSlice>>,
}

impl Judgements {
    /// For slices of this length, if not 0, in a window of this planned length.
    pub(crate) fn new(length_ns: u64, planned_ns: u64) -> Judgements {
        if length_ns == 0 {
            return Judgements::default();
        }
        let length_ns = slice_length_ns(length_ns, planned_ns);
        let words = planned_ns.saturating_mul(2).div_ceil(length_ns) / 64 + 1;
        Judgements {
            length_ns,
            left_out: (0..words).map(|_| AtomicU64::new(0)).collect(),
            ..Judgements::default()
        }
    }

    /// Judges the next slice. To be called by one thread only.
    pub(crate) fn judge(&self, keep: bool) {
        let slice = self.judged.load(SeqCst);
        if !keep && let Some(word) = self.left_out.get(slice as usize / 64) {
            word.fetch_or(1 << (slice % 64), SeqCst);
        }
        self.judged.store(slice + 1, SeqCst);
    }

    /// Whether a slice is kept; `None` while it is not judged.
    fn is_kept(&self, slice: u32) -> Option<bool> {
        let is_judged = slice < self.judged.load(SeqCst);
        is_judged.then(|| {
            let word = self.left_out.get(slice as usize / 64).map_or(0, |word| word.load(SeqCst));
            word & 1 << (slice % 64) == 0
        })
    }

    /// Time by which the window was extended.
    pub(crate) fn extra_ns(&self) -> u64 {
        (self.extension.load(SeqCst) & VALID) * self.length_ns
    }

    /// Extends the window by one slice; returns whether that was in time, before any worker closed it. To be called by one
    /// thread only.
    pub(crate) fn extend(&self) -> bool {
        let slices = self.extension.load(SeqCst);
        if slices & CLOSED != 0 {
            return false;
        }
        let proposed = slices | (slices + 1) << 32;
        // All workers must learn of it in time, or none: a worker that closes its window meanwhile rejects the proposal.
        self.extension.compare_exchange(slices, proposed, SeqCst, SeqCst).is_ok()
            && self.extension.compare_exchange(proposed, slices + 1, SeqCst, SeqCst).is_ok()
    }

    /// A worker closes its window: from now on no further extension becomes valid.
    pub(crate) fn closes(&self) {
        let _ = self.extension.fetch_update(SeqCst, SeqCst, |slices| Some(slices & VALID | CLOSED));
    }

    pub(crate) fn report(&self, slice: WorkerSlice) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(slice);
    }

    pub(crate) fn take_reports(&self) -> Vec<WorkerSlice> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A window in slices, before it is decided which slices count.
#[derive(Debug)]
pub struct Sliced {
    /// Of each worker: what was in progress at the end, and its slices.
    pub(crate) workers: Vec<(Measured, Slices)>,
    pub(crate) shared: Arc<Shared>,
}

impl Sliced {
    /// Judges the next slice; see [`crate::Control::judge_slice`].
    pub fn judge(&self, keep: bool) {
        self.shared.judgements.judge(keep);
    }

    /// What workers reported since the last call; see [`crate::Control::slice_reports`].
    pub fn reports(&self) -> Vec<WorkerSlice> {
        self.shared.judgements.take_reports()
    }

    /// The figures of the slices that are kept, or of `all`. Unjudged slices are kept.
    pub fn together(self, all: bool) -> Measured {
        let mut measured = Measured::default();
        for (ending, slices) in self.workers {
            measured.merge_parallel(slices.together(&self.shared.judgements, all, &ending));
        }
        measured
    }
}

/// A worker's slices so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    /// Number of the current one.
    pub(crate) number: u32,
    kept: Measured,
    /// The number of the last one that was kept.
    last_kept: Option<u32>,
    /// All slices together, once one was left out.
    whole: Option<Box<Measured>>,
    left_out: u32,
    /// Those that are not judged yet, in order.
    waiting: VecDeque<(u32, Measured)>,
}

impl Slices {
    /// A slice has ended.
    pub(crate) fn end(&mut self, measured: Measured) {
        self.waiting.push_back((self.number, measured));
        self.number += 1;
    }

    /// Length of all slices so far.
    pub(crate) fn span_ns(&self) -> u64 {
        let settled = self.whole.as_deref().unwrap_or(&self.kept).window_ns;
        settled + self.waiting.iter().map(|(_, slice)| slice.window_ns).sum::<u64>()
    }

    /// Adds up those that are judged.
    pub(crate) fn settle(&mut self, judgements: &Judgements) {
        while let Some((slice, _)) = self.waiting.front()
            && let Some(keep) = judgements.is_kept(*slice)
        {
            self.settle_next(keep);
        }
    }

    fn settle_next(&mut self, keep: bool) {
        let Some((slice, measured)) = self.waiting.pop_front() else { return };
        if !keep && self.whole.is_none() {
            self.whole = Some(Box::new(self.kept.clone()));
        }
        if let Some(whole) = &mut self.whole {
            whole.append(&measured, true);
        }
        if keep {
            let follows = slice == 0 || self.last_kept.is_some_and(|last| last + 1 == slice);
            self.kept.append(&measured, follows);
            self.last_kept = Some(slice);
        } else {
            self.left_out += 1;
        }
    }

    /// Those that are kept so far, together.
    pub(crate) fn kept(&self) -> &Measured {
        &self.kept
    }

    /// The figures of the window: of the slices that are kept, or of all. `ending` is what was in progress when it closed, and
    /// what is counted over all slices. Unjudged slices are kept.
    pub(crate) fn together(mut self, judgements: &Judgements, all: bool, ending: &Measured) -> Measured {
        self.settle(judgements);
        while !self.waiting.is_empty() {
            self.settle_next(true);
        }
        let follows = self.number == 0 || self.last_kept.is_some_and(|last| last + 1 == self.number);
        let Some(mut whole) = self.whole.take() else {
            self.kept.append(ending, true);
            return self.kept;
        };
        if all {
            whole.append(ending, true);
            return *whole;
        }
        let (kept, everything) = (self.kept.total(), whole.total());
        let left_out = &mut self.kept.left_out;
        left_out.ns = whole.window_ns - self.kept.window_ns;
        left_out.slices = self.left_out.into();
        left_out.total = everything.since(&kept);
        self.kept.append(ending, follows);
        self.kept
    }
}
