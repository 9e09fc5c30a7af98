//! What hosts say of the slices of a level's window, and what they are told of them.

use std::sync::Mutex;

use webstone_judge::plausible;
use webstone_lab::agent::load::{HostSlice, LoadAsk};

use super::member::lock;
use crate::slice_watch::{ReportedBy, SliceReport};

/// See the module comment.
#[derive(Default)]
pub(super) struct SlicesOfHosts {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Of each host: its workers, and the number of the slice that it reports next.
    hosts: Vec<(u32, u32)>,
    reports: Vec<SliceReport>,
    asks: Vec<LoadAsk>,
}

impl SlicesOfHosts {
    /// A level begins in which hosts have these numbers of workers; 0: no part in it.
    pub(super) fn begin(&self, workers: impl Iterator<Item = u32>) {
        *lock(&self.inner) =
            Inner { hosts: workers.map(|workers| (workers, 0)).collect(), ..Inner::default() };
    }

    /// The hosts that have a part, which report each slice.
    pub(super) fn makers(&self) -> Vec<usize> {
        let inner = lock(&self.inner);
        let has_part = |(place, (workers, _)): (usize, &(u32, u32))| (*workers > 0).then_some(place);
        inner.hosts.iter().enumerate().filter_map(has_part).collect()
    }

    /// A host has said what it did in its next slice.
    ///
    /// # Errors
    /// If it cannot be right, with the reason.
    pub(super) fn said(&self, place: usize, slice: &HostSlice) -> Result<(), String> {
        let mut inner = lock(&self.inner);
        let (workers, next) = inner.hosts.get_mut(place).ok_or("it has no part in the level")?;
        if slice.workers.len() != *workers as usize || slice.number != *next {
            let of = format!("slice {} of {} workers", slice.number, slice.workers.len());
            return Err(format!("{of} came instead of slice {next} of {workers}"));
        }
        *next += 1;
        slice.host.as_ref().map_or(Ok(()), plausible::of_host)?;
        let HostSlice { number, ns, requests, errors, busy_ns, workers, host } = slice.clone();
        let by = host.map_or(ReportedBy::BlindHost, |host| ReportedBy::Host(Box::new(host)));
        let report = SliceReport { number: place, slice: number, ns, requests, errors, busy_ns, workers, by };
        inner.reports.push(report);
        Ok(())
    }

    /// Reports since the last call.
    pub(super) fn reports(&self) -> Vec<SliceReport> {
        std::mem::take(&mut lock(&self.inner).reports)
    }

    /// Queues a message to all hosts.
    pub(super) fn ask(&self, ask: LoadAsk) {
        lock(&self.inner).asks.push(ask);
    }

    /// Messages to all hosts since the last call.
    pub(super) fn asks(&self) -> Vec<LoadAsk> {
        std::mem::take(&mut lock(&self.inner).asks)
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::WorkerUse;

    use super::*;

    #[test]
    fn slices_come_in_order_and_of_all_workers() {
        let slices = SlicesOfHosts::default();
        slices.begin([2, 0, 1].into_iter());
        assert_eq!(slices.makers(), [0, 2]);
        let of = |number, workers| HostSlice {
            number,
            workers: vec![WorkerUse::default(); workers],
            ..HostSlice::default()
        };
        slices.said(0, &of(0, 2)).unwrap();
        slices.said(2, &of(0, 1)).unwrap();
        let why = |said: Result<(), String>| said.unwrap_err();
        assert_eq!(why(slices.said(0, &of(0, 2))), "slice 0 of 2 workers came instead of slice 1 of 2");
        assert_eq!(why(slices.said(2, &of(1, 2))), "slice 1 of 2 workers came instead of slice 1 of 1");
        assert_eq!(why(slices.said(7, &of(0, 1))), "it has no part in the level");
        assert_eq!(slices.reports().iter().map(|report| report.number).collect::<Vec<_>>(), [0, 2]);
        assert!(slices.reports().is_empty());
    }
}
