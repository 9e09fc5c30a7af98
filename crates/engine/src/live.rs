//! Percentiles of a window while it is open: once per second each worker leaves a copy of its response times, and the
//! watcher merges them. A worker never waits for a reader.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use webstone_measure::live::LivePercentiles;
use webstone_measure::metrics::Histogram;

/// How often copies are left: each takes a few microseconds of a worker's time.
pub(crate) const COPIED_EVERY_NS: u64 = 1_000_000_000;

/// A worker's copy.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    response: Mutex<Histogram>,
    copies: AtomicU64,
}

impl Copied {
    /// Leaves a copy, with the waits of unanswered requests added, unless the previous copy is being read.
    pub(crate) fn leave(&self, response: [&Histogram; 2], waits_ns: impl Iterator<Item = u64>) {
        if let Ok(mut copy) = self.response.try_lock() {
            copy.clone_from(response[0]);
            copy.merge(response[1]);
            waits_ns.for_each(|wait_ns| copy.record(wait_ns));
            self.copies.fetch_add(1, Relaxed);
        }
    }
}

/// The last result, and the number of copies that it was computed from.
#[derive(Debug, Default)]
pub(crate) struct Merged(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    copies: u64,
    response: Histogram,
    percentiles: Option<LivePercentiles>,
}

impl Merged {
    /// Percentiles over all workers' copies; computed again only if a copy is new.
    pub(crate) fn percentiles<'a>(
        &self,
        workers: impl Iterator<Item = &'a Copied> + Clone,
    ) -> Option<LivePercentiles> {
        self.renewed(workers, |last| last.percentiles)?
    }

    /// All workers' copies merged.
    pub(crate) fn response<'a>(&self, workers: impl Iterator<Item = &'a Copied> + Clone) -> Histogram {
        self.renewed(workers, |last| last.response.clone()).unwrap_or_default()
    }

    fn renewed<'a, T>(
        &self,
        workers: impl Iterator<Item = &'a Copied> + Clone,
        wanted: impl FnOnce(&Last) -> T,
    ) -> Option<T> {
        let copies = workers.clone().map(|worker| worker.copies.load(Relaxed)).sum();
        let mut last = self.0.lock().ok()?;
        if last.copies != copies {
            let mut all = Histogram::default();
            for worker in workers {
                all.merge(&*worker.response.lock().ok()?);
            }
            *last = Last { copies, percentiles: LivePercentiles::of_histogram(&all), response: all };
        }
        Some(wanted(&last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_all_workers_make_the_percentiles() {
        let (workers, merged) = ([Copied::default(), Copied::default()], Merged::default());
        assert_eq!(merged.percentiles(workers.iter()), None);
        let mut response = Histogram::default();
        response.record_n(1_000, 90);
        workers[0].leave([&Histogram::default(), &response], std::iter::empty());
        let first = merged.percentiles(workers.iter()).unwrap();
        assert_eq!((first.count, first.p50_ns, first.max_ns), (90, 1_000, 1_000));
        let mut slow = Histogram::default();
        slow.record_n(2_000, 10);
        workers[1].leave([&slow, &Histogram::default()], std::iter::empty());
        let both = merged.percentiles(workers.iter()).unwrap();
        assert_eq!((both.count, both.p50_ns, both.p99_ns, both.max_ns), (100, 1_000, 2_000, 2_000));
        // A reader does not delay the worker.
        let reading = workers[0].response.lock().unwrap();
        workers[0].leave([&slow, &Histogram::default()], std::iter::empty());
        drop(reading);
        assert_eq!(merged.percentiles(workers.iter()).unwrap(), both);
        assert_eq!(LivePercentiles::of_histogram(&merged.response(workers.iter())), Some(both));
    }
}
