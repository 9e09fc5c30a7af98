//! A window that is counted in slices (`slices.rs`): where the current slice ends, and what the earlier ones added up to.

use webstone_measure::metrics::{Histogram, Measured, Second, Statuses, WorkerUse};

use super::{COUNTS, Recorder};
use crate::exchange::Exchange;
use crate::live::COPIED_EVERY_NS;
use crate::slices::{Judgements, Slices, WorkerSlice};

/// What is kept of the slices that have ended.
pub(super) struct Sliced {
    pub(super) slices: Slices,
    /// What the current one began with.
    pub(super) empty: Measured,
    /// End of the current one.
    pub(super) end_ns: u64,
    /// Totals of all that have ended.
    pub(super) ended: Second,
    /// Arrivals planned and started in them.
    pub(super) arrivals: (u64, u64),
}

impl Recorder {
    /// End of the current slice; [`u64::MAX`] in a window without slices, and outside of it.
    pub(crate) fn slice_end_ns(&self) -> u64 {
        self.sliced.as_ref().filter(|_| self.is_open).map_or(u64::MAX, |sliced| sliced.end_ns)
    }

    /// Whether a slice has begun before this instant.
    pub(crate) fn is_in_slice(&self, at_ns: u64) -> bool {
        self.sliced.is_some() && self.is_open && at_ns > self.part_ns
    }

    /// Ends a slice with this many requests in progress and waiting arrivals, and begins the next. If the worker stood still for some
    /// time that is later, it noticed the end when that was over, and as much of its waiting for a CPU is of what follows.
    pub(crate) fn end_slice(
        &mut self,
        at_ns: u64,
        (worker, later_ns): (WorkerUse, u64),
        (requests, arrivals): (u32, u64),
        (number, judgements): (usize, &Judgements),
    ) {
        self.measured.counts.in_flight = u64::from(requests);
        if let Some(open_loop) = &mut self.measured.open_loop {
            open_loop.queued = arrivals;
        }
        let waits_later_ns = self.close_use(at_ns, worker, later_ns);
        self.measured.statuses = Statuses::of_counts(&*self.statuses);
        self.statuses.fill(0);
        let Some(sliced) = &mut self.sliced else { return };
        let mut next = sliced.empty.clone();
        // These cover the whole window, or the whole level.
        next.seconds = std::mem::take(&mut self.measured.seconds);
        next.lifetime = std::mem::take(&mut self.measured.lifetime);
        let ended = std::mem::replace(&mut self.measured, next);
        let total = ended.total();
        sliced.ended.merge(&total);
        if let Some(open_loop) = &ended.open_loop {
            sliced.arrivals.0 += open_loop.planned;
            sliced.arrivals.1 += open_loop.started;
        }
        let worker = ended.generator.workers[0].clone();
        let (slice, ns, busy_ns) = (sliced.slices.number, ended.window_ns, ended.counts.busy_ns);
        judgements.report(WorkerSlice { number, slice, ns, worker, total, busy_ns });
        sliced.slices.end(ended);
        sliced.slices.settle(judgements);
        self.open_part(at_ns, (requests, arrivals), judgements.length_ns);
        if let Some(waited_ns) = &mut self.cpu_at_open.run_queue_ns {
            *waited_ns = waited_ns.saturating_sub(waits_later_ns);
        }
    }

    /// The slices, which `finish` does not return.
    pub(crate) fn take_slices(&mut self) -> Option<Slices> {
        self.sliced.take().map(|sliced| sliced.slices)
    }

    /// Mean and distributions of response times so far, and distributions of failed requests, if a copy of them is due.
    pub(crate) fn copy_due(&mut self, now: u64) -> Option<(u64, [&Histogram; 2], [&Histogram; 2])> {
        static NOTHING: Histogram = Histogram::new();
        if !self.is_open || now < self.copied_ns + COPIED_EVERY_NS {
            return None;
        }
        self.copied_ns = now;
        let totals = self.totals();
        let current = &self.measured;
        let earlier = self.sliced.as_ref().map(|sliced| sliced.slices.kept());
        let response = earlier.map_or(&NOTHING, |earlier| &earlier.histograms.response);
        let failed = earlier.map_or(&NOTHING, |earlier| &earlier.unanswered.histograms.response);
        Some((
            totals.response_ns / totals.requests.max(1),
            [response, &current.histograms.response],
            [failed, &current.unanswered.histograms.response],
        ))
    }

    /// Arrivals planned and started, in open loop.
    pub(crate) fn arrivals(&self) -> Option<(u64, u64)> {
        let (planned, started) = self.sliced.as_ref().map_or((0, 0), |sliced| sliced.arrivals);
        self.measured.open_loop.as_ref().map(|now| (planned + now.planned, started + now.started))
    }

    /// Adds the time for which a request has been in progress, as a slice ends.
    pub(crate) fn in_progress(&mut self, exchange: &Exchange, at_ns: u64) {
        if COUNTS {
            self.measured.counts.busy_ns += self.clipped(exchange.start_ns, at_ns);
        }
    }
}
