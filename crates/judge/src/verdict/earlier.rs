//! CPUs of the server that were slower than in earlier runs on the same machine.
//!
//! A virtual machine is slow for minutes while its neighbours are busy. The windows of one run do not show it, because all of them are slow
//! alike. So the record has the speed of each CPU in earlier runs ([`EarlierSpeed`]), and the verdict says how much higher the figures may
//! be. Ranks do not use it, since what they set side by side was slow alike; a comparison uses the speeds of the two records that it
//! compares. It makes no window void.

use std::collections::BTreeMap;

use webstone_model::record::{CpuWatch, EarlierSpeed, IterationRecord, RunRecord};

use super::bounds::{EFFECT_OF_SLOWNESS, SHORT_WINDOW_NS, percent};
use super::server_hosts;
use super::slowness::{is_busy, share};

/// Timings of echoes that a window needs, eight exchanges each: a second has ten.
const ECHOES_MIN: u64 = 8;

/// The server's CPU that was slowest by its earlier speed, in a window or in all of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drift {
    pub(super) earlier: EarlierSpeed,
    /// How much longer the fixed work took than earlier, in percent, weighed by the part of the CPU's time that the server wanted.
    pub(super) slower_percent: f64,
}

impl Drift {
    /// By which factor a request may have cost more than on the machine at its best.
    pub(super) fn factor(self) -> f64 {
        1.0 + EFFECT_OF_SLOWNESS * self.slower_percent / 100.0
    }
}

/// Not a short window, which has too few pieces of work, nor a server that agents watch on other machines.
fn is_judged(record: &RunRecord, run: &IterationRecord) -> bool {
    record.target.agents.is_empty() && run.measured.window_ns >= SHORT_WINDOW_NS
}

/// Of a window; `None` where nothing is known of `earlier` speeds, or no CPU was slower.
pub(super) fn of_window(
    record: &RunRecord,
    run: &IterationRecord,
    earlier: &[EarlierSpeed],
) -> Option<Drift> {
    if !is_judged(record, run) {
        return None;
    }
    let hosts = server_hosts::in_window(record, run);
    let drifts = hosts.iter().flat_map(|there| {
        let share = share(record, run, *there);
        let judged = there.host.watched.iter().filter(|it| there.cpus.contains(&it.cpu));
        judged.filter(|it| is_busy(there.host, it.cpu)).filter_map(move |watch| {
            let earlier = earlier.iter().find(|earlier| earlier.cpu == watch.cpu)?;
            let (took, earlier_ns) = (watch.work_ns_median as f64, earlier.work_ns as f64);
            let slower_percent = share * percent(took - earlier_ns, earlier_ns);
            (slower_percent > 0.0).then_some(Drift { earlier: *earlier, slower_percent })
        })
    });
    drifts.max_by(|a, b| a.slower_percent.total_cmp(&b.slower_percent))
}

/// Of a level: of its slowest window, with the mean of all.
pub(super) fn of_level(
    record: &RunRecord,
    runs: &[&IterationRecord],
    earlier: &[EarlierSpeed],
) -> Option<Drift> {
    let drifts: Vec<Drift> = runs.iter().filter_map(|run| of_window(record, run, earlier)).collect();
    let slowest = drifts.iter().max_by(|a, b| a.slower_percent.total_cmp(&b.slower_percent))?;
    let all: f64 = drifts.iter().map(|drift| drift.slower_percent).sum();
    Some(Drift { slower_percent: all / runs.len() as f64, ..*slowest })
}

/// A time of the fixed work in nanoseconds, such as `work_ns_best`, on the server's CPUs of this host: CPU by CPU, window by window, void
/// ones included. Only where the CPU was busy, since an idle one may be slowed on purpose.
pub fn speeds(record: &RunRecord, of: impl Fn(&CpuWatch) -> u64) -> BTreeMap<u32, Vec<u64>> {
    let runs = record.iterations.iter().chain(&record.voids);
    speeds_in(record, runs, of)
}

/// How much longer the fixed work took on average in these windows than in those of another record, in percent, on the CPU of the server where
/// that is most; weighed by the part of its time that the server wanted, and negative where all were faster. `None` unless each CPU was
/// busy and watched in every window of both.
pub(super) fn slower_than(
    record: &RunRecord,
    runs: &[&IterationRecord],
    (other, theirs): (&RunRecord, &[&IterationRecord]),
) -> Option<f64> {
    let means = |record, runs: &[&IterationRecord]| -> Option<BTreeMap<u32, f64>> {
        let speeds = speeds_in(record, runs.iter().copied(), |watch| watch.work_ns_median);
        let of_cpu = |(cpu, times): (u32, Vec<u64>)| {
            let is_whole = times.len() == runs.len();
            is_whole.then(|| (cpu, times.iter().sum::<u64>() as f64 / times.len() as f64))
        };
        speeds.into_iter().map(of_cpu).collect()
    };
    let (ours, others) = (means(record, runs)?, means(other, theirs)?);
    if !ours.keys().eq(others.keys()) {
        return None;
    }
    let shares = runs.iter().flat_map(|run| {
        server_hosts::in_window(record, run).into_iter().map(|there| share(record, run, there))
    });
    let share = shares.fold(0.0, f64::max);
    let slower =
        ours.iter().zip(others.values()).map(|((_, took), other)| share * percent(took - other, *other));
    slower.reduce(f64::max)
}

/// How long an echo between the CPUs of the server and those of the load generator took in each of these windows on average, in nanoseconds.
/// `None` unless it was timed often enough in every one, on CPUs that were busy: what does not wait for a CPU does not follow its speed.
pub(crate) fn echoes(record: &RunRecord, runs: &[&IterationRecord]) -> Option<Vec<f64>> {
    let of_window = |run: &&IterationRecord| {
        let hosts = server_hosts::in_window(record, run);
        let watched = hosts.iter().flat_map(|there| {
            let watched = there.host.watched.iter().filter(|watch| there.cpus.contains(&watch.cpu));
            watched.filter(|watch| watch.echoes > 0 && is_busy(there.host, watch.cpu))
        });
        let (echoes, sum) = watched.fold((0, 0.0), |(echoes, sum), watch| {
            (echoes + watch.echoes, sum + watch.echo_ns as f64 * watch.echoes as f64)
        });
        (echoes >= ECHOES_MIN).then(|| sum / echoes as f64)
    };
    runs.iter().map(of_window).collect()
}

fn speeds_in<'a>(
    record: &'a RunRecord,
    runs: impl Iterator<Item = &'a IterationRecord>,
    of: impl Fn(&CpuWatch) -> u64,
) -> BTreeMap<u32, Vec<u64>> {
    let mut speeds: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for run in runs.filter(|run| is_judged(record, run)) {
        for there in server_hosts::in_window(record, run) {
            let watched = there.host.watched.iter().filter(|it| there.cpus.contains(&it.cpu));
            for watch in watched.filter(|it| of(it) > 0 && is_busy(there.host, it.cpu)) {
                speeds.entry(watch.cpu).or_default().push(of(watch));
            }
        }
    }
    speeds
}
