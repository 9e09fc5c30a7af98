//! Judges the slices of a window while it is open: those in which something took CPU time from the load generator or the
//! server are left out of its figures, and the window goes on until it has its length without them, or half as long again.
//!
//! The rule (`judge/src/verdict/left_out.rs`) looks at nothing that the window is to measure. The slice after one that is left out is
//! left out, too: queues drain in it. If less than half of the window's length is left in the end, nothing is left
//! out, and the whole window is judged as it is. The same applies where requests take long against
//! a slice: those that end in a clean one may have been held up in another.

use std::time::Duration;

use webstone_engine::{Control, Sliced, WorkerSlice, slice_length_ns};
use webstone_judge::verdict::{self, SliceLoss};
use webstone_lab::window::{SliceUse, Used, Window};
use webstone_measure::metrics::{Measured, Second};
use webstone_measure::window_slices::WindowSlice;
use webstone_model::record::{CpuWatch, HostUse, IterationRecord, RunRecord, ServerUse};
use webstone_model::spec::RunSpec;

use crate::order::Step;

/// Length of a slice: long enough for the kernel's ticks of 10 ms to tell something, and for reading what the host did to
/// cost little.
const SLICE: Duration = Duration::from_millis(500);
/// A window has at least this many, or none.
const SLICES_MIN: u32 = 4;
/// How much later than its end a slice is read: workers end it at their next look at the clock.
const AFTER: Duration = Duration::from_millis(2);
/// Requests that are in progress for longer than this share of a slice on average are long against it.
const LONG_SHARE: u64 = 10;
/// How long before the window closes it is decided whether it is extended: longer than workers need to learn of it.
const DECIDED_BEFORE: Duration = Duration::from_millis(40);

/// Length of the slices of a level's window in nanoseconds, 0 for none: where one of several hosts makes load or is watched, where
/// single requests are written down, and where pages end the window or its rate changes.
pub(crate) fn length_ns(spec: &RunSpec, step: Step, can_slice: bool) -> u64 {
    let is_plain = spec.load.pages.is_none()
        && step.rate.is_none_or(|rate| !rate.is_ramp())
        && spec.load.duration.as_duration() >= SLICE * SLICES_MIN;
    let planned_ns = spec.load.duration.as_duration().as_nanos() as u64;
    if is_plain && can_slice { slice_length_ns(SLICE.as_nanos() as u64, planned_ns) } else { 0 }
}

/// See the module comment.
pub(crate) struct Slicing<'a> {
    record: &'a RunRecord,
    step: Step,
    /// The window's planned length.
    planned_ns: u64,
    length_ns: u64,
    /// What each slice used, if that was read in time, and what workers reported of it.
    used: Vec<Option<SliceUse>>,
    reports: Vec<Vec<WorkerSlice>>,
    judged: Vec<Judged>,
    kept_ns: u64,
    is_long: bool,
}

struct Judged {
    slice: WindowSlice,
    is_disturbed: bool,
}

impl<'a> Slicing<'a> {
    pub(crate) fn new(record: &'a RunRecord, step: Step, planned: Duration, length_ns: u64) -> Slicing<'a> {
        Slicing {
            record,
            step,
            planned_ns: planned.as_nanos() as u64,
            length_ns,
            used: Vec::new(),
            reports: Vec::new(),
            judged: Vec::new(),
            kept_ns: 0,
            is_long: false,
        }
    }

    /// How long nothing is to be done.
    pub(crate) fn patience(&self, control: &Control) -> Option<Duration> {
        let (open_ns, close_ns) = control.window_ns()?;
        let now_ns = Control::now_ns();
        let until = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(now_ns));
        let read = until(self.end_ns(open_ns)) + AFTER;
        let decided = until(close_ns).checked_sub(DECIDED_BEFORE).filter(|left| !left.is_zero());
        Some(decided.map_or(read, |decided| decided.min(read)))
    }

    /// When the slice ends that is not read yet.
    fn end_ns(&self, open_ns: u64) -> u64 {
        open_ns.saturating_add((self.used.len() as u64 + 1).saturating_mul(self.length_ns))
    }

    /// Reads what is due while the window is open, judges what is known, and extends the window if it needs that.
    pub(crate) fn look(&mut self, control: &Control, window: &mut Window<'_>) {
        let Some((open_ns, close_ns)) = control.window_ns() else { return };
        let now_ns = Control::now_ns();
        if now_ns >= self.end_ns(open_ns) && now_ns < close_ns {
            let used = window.end_slice();
            self.used.push(Some(used));
            if self.end_ns(open_ns) <= now_ns {
                // This thread was held up, so that it is unknown which of them used what.
                self.used.pop();
                self.used.push(None);
            }
            while self.end_ns(open_ns) <= now_ns {
                self.used.push(None);
            }
        }
        self.take(control.slice_reports());
        while let Some(keep) = self.judge_next(control.workers()) {
            control.judge_slice(keep);
        }
        let left = Duration::from_nanos(close_ns.saturating_sub(now_ns));
        if left <= DECIDED_BEFORE && !left.is_zero() {
            self.extend(control, close_ns - open_ns);
        }
    }

    /// Extends the window by a slice while clean time is missing, most of it was clean, and the plan allows it.
    fn extend(&self, control: &Control, span_ns: u64) {
        // The current slice, and the one before if it is not judged yet, may be clean.
        let unknown_ns = span_ns.saturating_sub(self.judged.len() as u64 * self.length_ns);
        let is_missing = self.kept_ns + unknown_ns < self.planned_ns;
        let is_worth_it = 2 * (self.kept_ns + unknown_ns) >= span_ns && !self.is_long;
        if is_missing && is_worth_it && 2 * (span_ns + self.length_ns) <= 3 * self.planned_ns {
            control.extend();
        }
    }

    fn take(&mut self, reports: Vec<WorkerSlice>) {
        for report in reports {
            let slice = report.slice as usize;
            self.reports.resize_with(self.reports.len().max(slice + 1), Vec::new);
            self.reports[slice].push(report);
        }
    }

    /// Judges the next slice, once everything is known of it by this number of workers: whether it is kept.
    fn judge_next(&mut self, workers: usize) -> Option<bool> {
        let next = self.judged.len();
        let used = self.used.get(next)?;
        let mut reports = self.reports.get(next).filter(|reports| reports.len() >= workers)?.clone();
        reports.sort_by_key(|report| report.number);
        let mut total = Second::default();
        reports.iter().for_each(|report| total.merge(&report.total));
        let ns = reports.iter().map(|report| report.ns).max().unwrap_or(0);
        let after_disturbed = self.judged.last().is_some_and(|before| before.is_disturbed);
        let lost = match used {
            Some(used) => self.lost(used, &reports, ns),
            None => SliceLoss {
                percent: 100.0,
                left_out: Some("this program was held up and could not read what was used".to_owned()),
            },
        };
        let is_disturbed = lost.left_out.is_some();
        let why =
            lost.left_out.or_else(|| after_disturbed.then(|| "the slice before was disturbed".to_owned()));
        let is_kept = why.is_none();
        if is_kept {
            // A server that has fallen silent answers nothing, and takes long for it.
            let busy_ns: u64 = reports.iter().map(|report| report.busy_ns).sum();
            let ended = total.requests + total.errors;
            self.is_long |= busy_ns > ended.saturating_mul(self.length_ns / LONG_SHARE);
        }
        self.kept_ns += if is_kept { ns } else { 0 };
        let server = used.as_ref().and_then(|used| used.server.as_ref());
        let slice = WindowSlice {
            ns,
            requests: total.requests,
            errors: total.errors,
            server_cpu_ns: server.map(|server| server.user_ns + server.system_ns),
            lost_percent: lost.percent,
            left_out: why,
        };
        self.judged.push(Judged { slice, is_disturbed });
        Some(is_kept)
    }

    /// What was taken from the load generator or the server in a slice.
    fn lost(&self, used: &SliceUse, reports: &[WorkerSlice], ns: u64) -> SliceLoss {
        let mut measured = Measured { window_ns: ns, ..Measured::default() };
        measured.generator.workers = reports.iter().map(|report| report.worker.clone()).collect();
        let run = IterationRecord {
            clients: self.step.clients,
            rate: self.step.rate,
            iteration: self.step.iteration,
            measured,
            host: Some(used.host.clone()),
            server: used.server.clone(),
            ..IterationRecord::default()
        };
        verdict::lost_in_slice(self.record, &run)
    }

    /// The window is closed, and `window` has seen that: its figures, and what was used in the time that they are about.
    pub(crate) fn finish(mut self, sliced: Sliced, window: &mut Window<'_>) -> (Measured, Option<Kept>) {
        self.take(sliced.reports());
        let workers = self.reports.iter().map(Vec::len).max().unwrap_or(0);
        while self.used.len() < self.reports.len() {
            // All but the first of these, if there are several, were missed.
            let used = (self.used.len() + 1 == self.reports.len()).then(|| window.end_slice());
            self.used.push(used);
        }
        while let Some(keep) = self.judge_next(workers) {
            sliced.judge(keep);
        }
        let is_kept = |judged: &Judged| judged.slice.left_out.is_none();
        let all = self.is_long || 2 * self.kept_ns < self.planned_ns;
        let measured = sliced.together(all);
        if self.judged.iter().all(is_kept) {
            return (measured, None);
        }
        let (mut host, mut server) = (HostUse::default(), ServerUse::default());
        let clean = self.judged.iter().zip(&self.used).filter(|(judged, _)| is_kept(judged));
        for used in clean.filter_map(|(_, used)| used.as_ref()) {
            host.append(&used.host);
            if let Some(used) = &used.server {
                server.append(used);
            }
        }
        let slices = self.judged.into_iter().map(|judged| judged.slice).collect();
        (measured, Some(Kept { slices, used: (!all).then_some((host, server)) }))
    }
}

/// What is known of a window of which some slices were disturbed.
pub(crate) struct Kept {
    pub(crate) slices: Vec<WindowSlice>,
    /// What was used in the slices that are kept; `None` if all are.
    used: Option<(HostUse, ServerUse)>,
}

impl Kept {
    /// Limits what was used in the window to the slices that are kept.
    pub(crate) fn limit(&self, window: &mut Used) {
        let Some((host, server)) = &self.used else { return };
        let whole = std::mem::take(&mut window.host);
        window.host = HostUse {
            elapsed_ns: host.elapsed_ns,
            others: host.others.clone(),
            throttled_ns: host.throttled_ns,
            suspended_ns: host.suspended_ns,
            tcp: host.tcp,
            cpus: host.cpus.clone(),
            links: host.links.clone(),
            watched: whole.watched.iter().map(|watch| of_kept(watch, host)).collect(),
            ..whole
        };
        let whole = std::mem::take(&mut window.server);
        window.server = ServerUse {
            user_ns: server.user_ns,
            system_ns: server.system_ns,
            processes: whole
                .processes
                .zip(server.processes.as_ref())
                .map(|(whole, kept)| whole.limited_to(kept)),
            ..whole
        };
    }
}

/// A CPU's speed is known of the whole window, its stalls of the slices that are kept.
fn of_kept(whole: &CpuWatch, host: &HostUse) -> CpuWatch {
    let kept = host.watched.iter().find(|kept| kept.cpu == whole.cpu).copied().unwrap_or_default();
    CpuWatch { stalled_ns: kept.stalled_ns, stalled_ns_max: kept.stalled_ns_max, ..*whole }
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::WorkerUse;
    use webstone_measure::units::Nanos;
    use webstone_model::record::{CpuUse, OtherUse, OthersUse, ProcessUse};

    use super::*;

    const MS: u64 = 1_000_000;

    /// A server of webstone's on CPU 0, and a worker on CPU 1.
    fn record() -> RunRecord {
        let mut record = RunRecord::default();
        record.target.embedded = true;
        record.target.cpus = vec![0];
        record
    }

    /// Slices of 250 ms: how long the worker and the server waited for their CPUs in each, and how long responses took.
    fn judged(slices: &[(u64, u64)], response_ns: u64) -> (Vec<bool>, Slicing<'static>) {
        let record = Box::leak(Box::new(record()));
        let step = Step { clients: 10, rate: None, iteration: 1, arm: None };
        let mut slicing = Slicing::new(record, step, Duration::from_secs(2), 250 * MS);
        for (slice, (worker_ms, server_ms)) in (0..).zip(slices) {
            let cc = OtherUse { process: 7, name: "cc".to_owned(), cpu_ns: (worker_ms + server_ms) * MS };
            let cpu = |cpu| CpuUse { cpu, busy_ns: 100 * MS, idle_ns: 150 * MS, ..CpuUse::default() };
            let host = HostUse {
                elapsed_ns: 250 * MS,
                others: Some(OthersUse { cpu_ns: cc.cpu_ns, busiest: vec![cc] }),
                cpus: vec![cpu(0), cpu(1)],
                ..HostUse::default()
            };
            let processes = ProcessUse { run_queue_ns: Some(server_ms * MS), ..ProcessUse::default() };
            let server = ServerUse { user_ns: 90 * MS, processes: Some(processes), ..ServerUse::default() };
            slicing.used.push(Some(SliceUse { host, server: Some(server) }));
            let worker =
                WorkerUse { cpu: Some(1), run_queue_ns: Some(worker_ms * MS), ..WorkerUse::default() };
            let total = Second { requests: 100, ..Second::default() };
            let busy_ns = 100 * response_ns;
            slicing.take(vec![WorkerSlice { number: 0, slice, ns: 250 * MS, worker, total, busy_ns }]);
        }
        let kept = std::iter::from_fn(|| slicing.judge_next(1)).collect();
        (kept, slicing)
    }

    #[test]
    fn what_is_left_out_is_what_was_disturbed_and_what_follows() {
        let quiet = (1, 1);
        let (kept, slicing) = judged(&[quiet, (100, 0), quiet, quiet, (0, 60), (0, 60), quiet, quiet], MS);
        assert_eq!(kept, [true, false, false, true, false, false, false, true]);
        let why = |slice: usize| slicing.judged[slice].slice.left_out.clone().unwrap_or_default();
        assert!(why(1).starts_with("worker 0 of the load generator on CPU 1 lost 40.0 %"), "{}", why(1));
        assert!(why(1).contains("cc (process 7)"), "{}", why(1));
        assert_eq!(why(2), "the slice before was disturbed");
        assert!(why(4).starts_with("the server lost 24.0 %"), "{}", why(4));
        assert_eq!((slicing.kept_ns, slicing.is_long), (750 * MS, false));
    }

    /// The rule looks at nothing that is measured, but for one thing: whether slices are long enough to have any.
    #[test]
    fn responses_that_are_long_against_a_slice_keep_the_window_whole() {
        let quiet = (0, 0);
        assert!(!judged(&[quiet; 8], 25 * MS).1.is_long);
        assert!(judged(&[quiet; 8], 26 * MS).1.is_long);
        // Where something was taken it says nothing of the server.
        assert!(!judged(&[(200, 0); 8], 26 * MS).1.is_long);
        // Two requests are in progress all the time, and none ends.
        let (_, mut silent) = judged(&[quiet], MS);
        silent.used.push(silent.used[0].clone());
        let report = WorkerSlice { slice: 1, ns: 250 * MS, busy_ns: 500 * MS, ..WorkerSlice::default() };
        silent.take(vec![report]);
        assert!(silent.judge_next(1).is_some() && silent.is_long);
    }

    #[test]
    fn a_slice_that_nobody_saw_is_left_out() {
        let (_, mut slicing) = judged(&[(0, 0)], MS);
        slicing.used.push(None);
        slicing.take(vec![WorkerSlice { slice: 1, ns: 250 * MS, ..WorkerSlice::default() }]);
        assert_eq!(slicing.judge_next(1), Some(false));
    }

    #[test]
    fn long_windows_have_long_slices() {
        let mut spec = RunSpec::default();
        let step = Step { clients: 10, rate: None, iteration: 1, arm: None };
        let mut length = |seconds: u64, can_slice: bool| {
            spec.load.duration = Nanos::from_secs(seconds);
            length_ns(&spec, step, can_slice) / MS
        };
        assert_eq!([1, 2, 1_000, 3_600].map(|seconds| length(seconds, true)), [0, 500, 500, 1_757]);
        assert_eq!(length(60, false), 0);
    }

    /// What was used in the slices that are kept replaces what was used in the window; peaks and speeds stay the window's.
    #[test]
    fn what_was_used_is_limited_to_what_is_kept() {
        let cpu = |busy_ns| CpuUse { cpu: 0, busy_ns, ..CpuUse::default() };
        let watch =
            |stalled_ns, work_ns_median| CpuWatch { stalled_ns, work_ns_median, ..CpuWatch::default() };
        let slice = |busy_ns, stalled_ns, server_ns| {
            let host = HostUse {
                elapsed_ns: 500 * MS,
                cpus: vec![cpu(busy_ns)],
                watched: vec![watch(stalled_ns, 0)],
                ..HostUse::default()
            };
            let processes = ProcessUse { run_queue_ns: Some(server_ns / 10), ..ProcessUse::default() };
            (host, ServerUse { user_ns: server_ns, processes: Some(processes), ..ServerUse::default() })
        };
        let (mut host, mut server) = slice(100 * MS, 0, 60 * MS);
        let (more, more_server) = slice(200 * MS, 10 * MS, 80 * MS);
        host.append(&more);
        server.append(&more_server);
        let kept = Kept { slices: Vec::new(), used: Some((host, server)) };
        let (whole, mut whole_server) = slice(900 * MS, 70 * MS, 300 * MS);
        whole_server.resident_bytes_max = 7;
        let mut used = Used {
            host: HostUse { descriptors: Some(9), watched: vec![watch(70 * MS, 5)], ..whole },
            server: whole_server,
            ..Used::default()
        };
        kept.limit(&mut used);
        assert_eq!((used.host.elapsed_ns, used.host.cpus[0].busy_ns), (1_000 * MS, 300 * MS));
        assert_eq!((used.host.watched[0].stalled_ns, used.host.watched[0].work_ns_median), (10 * MS, 5));
        assert_eq!((used.host.descriptors, used.server.resident_bytes_max), (Some(9), 7));
        assert_eq!(
            (used.server.user_ns, used.server.processes.unwrap().run_queue_ns),
            (140 * MS, Some(14 * MS))
        );
    }

    /// Nothing is judged before every worker has reported it.
    #[test]
    fn all_workers_are_waited_for() {
        let (_, mut slicing) = judged(&[(0, 0)], MS);
        slicing.used.push(Some(SliceUse::default()));
        slicing.take(vec![WorkerSlice { slice: 1, ns: 250 * MS, ..WorkerSlice::default() }]);
        assert_eq!(slicing.judge_next(2), None);
        slicing.take(vec![WorkerSlice { number: 1, slice: 1, ns: 250 * MS, ..WorkerSlice::default() }]);
        assert!(slicing.judge_next(2).is_some());
    }
}
