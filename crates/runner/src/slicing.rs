//! Judges the slices of a window while it is open: those in which something took CPU time from the load generator or the
//! server are left out of its figures, and the window goes on until it has its length without them, or half as long again if
//! the sweep has the time (`overtime.rs`).
//!
//! The rule (`judge/src/verdict/left_out.rs`) looks at nothing that the window is to measure. The slice after one that is left out is
//! left out, too: queues drain in it. If less than half of the window's length is left in the end, nothing is left
//! out, and the whole window is judged as it is. The same applies where requests take long against a slice: those
//! that end in a clean one may have been delayed in another.

use std::time::Duration;

use webstone_engine::{Control, Sliced, slice_length_ns};
use webstone_judge::verdict::{self, SliceLoss};
use webstone_lab::agent::{OnHosts, ServerAgents};
use webstone_lab::window::{SliceUse, Used, Window};
use webstone_measure::metrics::Measured;
use webstone_measure::window_slices::WindowSlice;
use webstone_model::generators::GeneratorPart;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::RunSpec;

use crate::kept_on_hosts::KeptOnHosts;
use crate::order::Step;
use crate::slice_watch::{KeptUse, ReportedBy, SliceReport, SliceWatch};

/// Length of a slice: long enough that the kernel's ticks of 10 ms show something, and that reading the host's counters
/// costs little.
const SLICE: Duration = Duration::from_millis(500);
/// The same where several hosts make the load or agents watch the server: what each says of a slice goes over the network.
const SLICE_OF_HOSTS: Duration = Duration::from_secs(1);
/// A window has at least this many, or none.
const SLICES_MIN: u32 = 4;
/// Requests are long against a slice if they are in progress for more than this share of it on average.
const LONG_SHARE: u64 = 10;
/// How long before the window closes its extension is decided: longer than workers need to learn of it.
const DECIDED_BEFORE: Duration = Duration::from_millis(40);
/// How often reports of other hosts on the last slices are checked for.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// A level whose window is counted in slices.
pub(crate) trait SlicedLevel {
    /// When the window opens and closes, once that is known.
    fn window_ns(&self) -> Option<(u64, u64)>;
    /// How many report each slice: the workers of this host, or other hosts.
    fn reporters(&self) -> usize;
    /// Reports since the last call.
    fn reports(&self) -> Vec<SliceReport>;
    /// Decides whether the next slice, in order, is kept. Only one thread may call this and the methods below.
    fn judge(&self, keep: bool);
    /// Extends the window by one slice; returns whether that was in time.
    fn extend(&self) -> bool;
    /// Once every slice is judged, tells the other hosts that make the load whether all slices count or only the kept ones.
    fn settle(&self, all: bool);
    /// Whether other hosts make the load.
    fn is_elsewhere(&self) -> bool;
}

impl SlicedLevel for Control {
    fn window_ns(&self) -> Option<(u64, u64)> {
        Control::window_ns(self)
    }

    fn reporters(&self) -> usize {
        self.workers()
    }

    fn reports(&self) -> Vec<SliceReport> {
        self.slice_reports().into_iter().map(SliceReport::from).collect()
    }

    fn judge(&self, keep: bool) {
        self.judge_slice(keep);
    }

    fn extend(&self) -> bool {
        Control::extend(self)
    }

    /// Its [`Sliced`] is settled when the level has ended.
    fn settle(&self, _: bool) {}

    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// Length of the slices of a level's window in nanoseconds, 0 for none: where single requests are written down, where pages end the
/// window or its rate changes, and where the server's agents are too far away.
pub(crate) fn length_ns(spec: &RunSpec, step: Step, can_slice: bool) -> u64 {
    let is_here = spec.generators.is_empty() && spec.server.agents.is_empty();
    let length = if is_here { SLICE } else { SLICE_OF_HOSTS };
    let is_plain = spec.load.pages.is_none()
        && step.rate.is_none_or(|rate| !rate.is_ramp())
        && spec.load.duration.as_duration() >= length * SLICES_MIN;
    if !is_plain || !can_slice {
        return 0;
    }
    let planned_ns = spec.load.duration.as_duration().as_nanos() as u64;
    let length_ns = slice_length_ns(length.as_nanos() as u64, planned_ns);
    // Slices of equal length: a last one of a few milliseconds would be over before the one before it is read.
    planned_ns.div_ceil(planned_ns / length_ns)
}

/// See the module comment.
pub(crate) struct Slicing<'a> {
    record: &'a RunRecord,
    step: Step,
    /// The window's planned length.
    planned_ns: u64,
    /// By how much it may be longer.
    longer_ns: u64,
    watch: SliceWatch,
    judged: Vec<Judged>,
    kept_ns: u64,
    /// What agents say of the server in slices that are kept.
    kept_on_hosts: KeptOnHosts,
    is_long: bool,
    /// Other hosts have been told which slices make the figures.
    is_settled: bool,
}

struct Judged {
    slice: WindowSlice,
    is_disturbed: bool,
}

impl<'a> Slicing<'a> {
    pub(crate) fn new(
        record: &'a RunRecord,
        step: Step,
        planned: Duration,
        longer_ns: u64,
        length_ns: u64,
    ) -> Slicing<'a> {
        Slicing {
            record,
            step,
            planned_ns: planned.as_nanos() as u64,
            longer_ns,
            watch: SliceWatch::new(length_ns),
            judged: Vec::new(),
            kept_ns: 0,
            kept_on_hosts: KeptOnHosts::default(),
            is_long: false,
            is_settled: false,
        }
    }

    /// How long there is nothing to do.
    pub(crate) fn patience(&self, level: &dyn SlicedLevel) -> Option<Duration> {
        let (open_ns, close_ns) = level.window_ns()?;
        let left = Duration::from_nanos(close_ns.saturating_sub(Control::now_ns()));
        if left.is_zero() {
            return (level.is_elsewhere() && !self.is_settled).then_some(LAST_LOOK);
        }
        let read = self.watch.until_read(open_ns);
        let decided = left.checked_sub(DECIDED_BEFORE).filter(|left| !left.is_zero());
        Some(decided.map_or(read, |decided| decided.min(read)))
    }

    /// Reads what is due while the window is open, judges what is known, and extends the window if it needs that.
    pub(crate) fn look(
        &mut self,
        level: &dyn SlicedLevel,
        window: &mut Window<'_>,
        agents: &mut ServerAgents,
    ) {
        let Some((open_ns, close_ns)) = level.window_ns() else { return };
        let now_ns = Control::now_ns();
        // Those farther away are told first.
        if let Some(slice) = self.watch.due(now_ns, (open_ns, close_ns)) {
            agents.end_slice(slice);
        }
        self.watch.read(now_ns, (open_ns, close_ns), window);
        self.judge(level, agents);
        let left = Duration::from_nanos(close_ns.saturating_sub(now_ns));
        if left <= DECIDED_BEFORE && !left.is_zero() {
            self.extend(level, close_ns - open_ns);
        }
    }

    /// After the close, which `window` has seen: judges the last slices, for which other hosts wait.
    pub(crate) fn settle(
        &mut self,
        level: &dyn SlicedLevel,
        window: &mut Window<'_>,
        agents: &mut ServerAgents,
    ) {
        if self.is_settled {
            return;
        }
        let slices = self.planned_ns.div_ceil(self.watch.length_ns()) as usize;
        self.watch.close(slices, window);
        self.judge(level, agents);
        if self.judged.len() >= slices {
            self.is_settled = true;
            level.settle(self.is_whole());
        }
    }

    fn judge(&mut self, level: &dyn SlicedLevel, agents: &mut ServerAgents) {
        self.watch.take(level.reports());
        while let Some(keep) = self.judge_next(level.reporters(), agents) {
            level.judge(keep);
        }
    }

    /// Whether all slices make the figures.
    fn is_whole(&self) -> bool {
        self.is_long || 2 * self.kept_ns < self.planned_ns
    }

    /// Extends the window by a slice if clean time is missing, most of it was clean, and the limit allows it.
    fn extend(&self, level: &dyn SlicedLevel, span_ns: u64) {
        let length_ns = self.watch.length_ns();
        // The current slice, and the one before if it is not judged yet, may be clean.
        let unknown_ns = span_ns.saturating_sub(self.judged.len() as u64 * length_ns);
        let is_missing = self.kept_ns + unknown_ns < self.planned_ns;
        let is_worth_it = 2 * (self.kept_ns + unknown_ns) >= span_ns && !self.is_long;
        if is_missing && is_worth_it && span_ns + length_ns <= self.planned_ns + self.longer_ns {
            level.extend();
        }
    }

    /// Judges the next slice, once everything is known of it by this number of reports and from the server's agents: whether it is kept.
    fn judge_next(&mut self, reporters: usize, agents: &mut ServerAgents) -> Option<bool> {
        let (used, reports) = self.watch.whole(self.judged.len(), reporters)?;
        let on_hosts = match used {
            Some(_) if !agents.is_empty() => Some(agents.in_slice(self.judged.len())?),
            _ => None,
        };
        let sum = |of: fn(&SliceReport) -> u64| reports.iter().map(of).fold(0, u64::saturating_add);
        let (requests, errors) = (sum(|it| it.requests), sum(|it| it.errors));
        let ns = reports.iter().map(|report| report.ns).max().unwrap_or(0);
        let after_disturbed = self.judged.last().is_some_and(|before| before.is_disturbed);
        let lost = match used {
            Some(used) => self.lost(used, on_hosts.as_ref(), &reports, ns),
            None => unseen("this program was held up"),
        };
        let there = on_hosts.as_ref().and_then(|on_hosts| on_hosts.server.as_ref());
        let server = there.or_else(|| used.and_then(|used| used.server.as_ref()));
        let server_cpu_ns = server.map(|server| server.user_ns + server.system_ns);
        let is_disturbed = lost.left_out.is_some();
        let why =
            lost.left_out.or_else(|| after_disturbed.then(|| "the slice before was disturbed".to_owned()));
        let is_kept = why.is_none();
        if is_kept {
            // If the server ends no request, requests count as long.
            let ended = requests.saturating_add(errors);
            self.is_long |= sum(|it| it.busy_ns) > ended.saturating_mul(self.watch.length_ns() / LONG_SHARE);
        }
        if let Some(on_hosts) = on_hosts.filter(|_| is_kept) {
            self.kept_on_hosts.append(on_hosts);
        }
        self.kept_ns += if is_kept { ns } else { 0 };
        let lost_percent = lost.percent;
        let slice = WindowSlice { ns, requests, errors, server_cpu_ns, lost_percent, left_out: why };
        self.judged.push(Judged { slice, is_disturbed });
        Some(is_kept)
    }

    /// What was taken from the load generator or the server in a slice.
    fn lost(
        &self,
        used: &SliceUse,
        on_hosts: Option<&OnHosts>,
        reports: &[SliceReport],
        ns: u64,
    ) -> SliceLoss {
        let mut measured = Measured { window_ns: ns, ..Measured::default() };
        let mut parts = Vec::new();
        for report in reports {
            measured.generator.workers.extend(report.workers.iter().cloned());
            let host = match &report.by {
                ReportedBy::Worker => continue,
                ReportedBy::Host(host) => (**host).clone(),
                ReportedBy::BlindHost => {
                    return unseen(&format!("generator {} was held up", report.number + 1));
                }
            };
            parts.push(GeneratorPart {
                generator: report.number as u32,
                workers: report.workers.len() as u32,
                host: Some(host),
                ..GeneratorPart::default()
            });
        }
        let run = IterationRecord {
            clients: self.step.clients,
            rate: self.step.rate,
            iteration: self.step.iteration,
            measured,
            host: Some(used.host.clone()),
            server: used.server.clone(),
            origin: used.origin.clone(),
            parts,
            ..IterationRecord::default()
        };
        let run = match on_hosts.cloned() {
            Some(OnHosts { server, hosts: server_hosts, missing: server_missing }) => {
                IterationRecord { server, server_hosts, server_missing, ..run }
            }
            None => run,
        };
        verdict::lost_in_slice(self.record, &run)
    }

    /// The window is closed, and `window` has seen that: its figures, and what was used in the time that they are about.
    pub(crate) fn finish(
        mut self,
        sliced: Sliced,
        window: &mut Window<'_>,
        agents: &mut ServerAgents,
    ) -> (Measured, Option<Kept>) {
        self.watch.take(sliced.reports().into_iter().map(SliceReport::from));
        self.watch.close(self.watch.reported(), window);
        while let Some(keep) = self.judge_next(self.watch.reporters(), agents) {
            sliced.judge(keep);
        }
        let all = self.is_whole();
        let measured = sliced.together(all);
        (measured, self.kept(all))
    }

    /// The same for what other hosts measured, who have been told which slices to keep.
    pub(crate) fn settled(self, measured: &Measured) -> Option<Kept> {
        self.is_settled.then(|| self.kept(measured.left_out.is_empty()))?
    }

    fn kept(self, all: bool) -> Option<Kept> {
        let is_kept = |judged: &Judged| judged.slice.left_out.is_none();
        if self.judged.iter().all(is_kept) {
            return None;
        }
        let used = (!all).then(|| self.watch.used_in(self.judged.iter().map(is_kept)));
        let on_hosts = (!all).then_some(self.kept_on_hosts);
        let slices = self.judged.into_iter().map(|judged| judged.slice).collect();
        Some(Kept { slices, used, on_hosts })
    }
}

fn unseen(why: &str) -> SliceLoss {
    let left_out = Some(format!("{why} and could not read what was used"));
    SliceLoss { percent: 100.0, left_out }
}

/// What is known of a window of which some slices were disturbed.
pub(crate) struct Kept {
    pub(crate) slices: Vec<WindowSlice>,
    /// What was used in the slices that are kept; `None` if all are.
    used: Option<KeptUse>,
    on_hosts: Option<KeptOnHosts>,
}

impl Kept {
    /// Limits what was used in the window to the slices that are kept.
    pub(crate) fn limit(&self, window: &mut Used) {
        if let Some(used) = &self.used {
            used.limit(window);
        }
    }

    /// The same of what was used on the server's hosts.
    pub(crate) fn limit_on_hosts(&self, window: &mut OnHosts) {
        if let Some(on_hosts) = &self.on_hosts {
            on_hosts.limit(window);
        }
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::WorkerUse;
    use webstone_measure::units::Nanos;
    use webstone_model::record::{CpuUse, HostUse, OtherUse, OthersUse, ProcessUse, ServerUse};

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
        let mut slicing = Slicing::new(record, step, Duration::from_secs(2), 1000 * MS, 250 * MS);
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
            slicing.watch.push(Some(SliceUse { host, server: Some(server), origin: None }));
            let worker =
                WorkerUse { cpu: Some(1), run_queue_ns: Some(worker_ms * MS), ..WorkerUse::default() };
            let (ns, busy_ns, workers) = (250 * MS, 100 * response_ns, vec![worker]);
            let report = SliceReport { slice, ns, requests: 100, busy_ns, workers, ..SliceReport::default() };
            slicing.watch.take([report]);
        }
        let kept = std::iter::from_fn(|| slicing.judge_next(1, &mut ServerAgents::default())).collect();
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
        // In a disturbed slice, long responses say nothing about the server.
        assert!(!judged(&[(200, 0); 8], 26 * MS).1.is_long);
        // Two requests are in progress all the time, and none ends.
        let (_, mut silent) = judged(&[quiet], MS);
        silent.watch.push(Some(SliceUse::default()));
        silent.watch.take([SliceReport { busy_ns: 500 * MS, ..report(1) }]);
        assert!(silent.judge_next(1, &mut ServerAgents::default()).is_some() && silent.is_long);
    }

    #[test]
    fn a_slice_that_nobody_saw_is_left_out() {
        let (_, mut slicing) = judged(&[(0, 0)], MS);
        slicing.watch.push(None);
        slicing.watch.take([report(1)]);
        assert_eq!(slicing.judge_next(1, &mut ServerAgents::default()), Some(false));
    }

    /// Nothing is judged before every worker has reported it.
    #[test]
    fn all_workers_are_waited_for() {
        let (_, mut slicing) = judged(&[(0, 0)], MS);
        slicing.watch.push(Some(SliceUse::default()));
        slicing.watch.take([report(1)]);
        assert_eq!(slicing.judge_next(2, &mut ServerAgents::default()), None);
        slicing.watch.take([SliceReport { number: 1, ..report(1) }]);
        assert!(slicing.judge_next(2, &mut ServerAgents::default()).is_some());
    }

    #[test]
    fn slices_are_alike_and_long_in_long_windows() {
        let mut spec = RunSpec::default();
        let step = Step { clients: 10, rate: None, iteration: 1, arm: None };
        let mut length = |seconds: u64, can_slice: bool| {
            spec.load.duration = Nanos::from_secs(seconds);
            length_ns(&spec, step, can_slice) / MS
        };
        assert_eq!([1, 2, 1_000, 3_600].map(|seconds| length(seconds, true)), [0, 500, 500, 1_757]);
        assert_eq!(length(60, false), 0);
        spec.load.duration = Nanos(2_999 * MS + 1);
        assert_eq!(length_ns(&spec, step, true), 599_800_001);
        spec.generators = vec![webstone_model::generators::GeneratorHost::default()];
        spec.load.duration = Nanos::from_secs(3);
        assert_eq!(length_ns(&spec, step, true), 0);
        spec.load.duration = Nanos::from_secs(4);
        assert_eq!(length_ns(&spec, step, true), 1_000 * MS);
    }

    /// What one of several hosts lost is left out on all of them.
    #[test]
    fn the_host_that_lost_most_decides() {
        let record = RunRecord::default();
        let step = Step { clients: 10, rate: None, iteration: 1, arm: None };
        let mut slicing = Slicing::new(&record, step, Duration::from_secs(1), 500 * MS, 250 * MS);
        let mut reported = |slice: u32, waited_ms: u64, first: ReportedBy| {
            slicing.watch.push(Some(SliceUse::default()));
            let of = |number: usize, run_queue_ms: u64, by: ReportedBy| {
                let run_queue_ns = Some(run_queue_ms * MS);
                let workers = vec![WorkerUse { cpu: Some(1), run_queue_ns, ..WorkerUse::default() }];
                SliceReport { number, workers, requests: 50, by, ..report(slice) }
            };
            let seen = || ReportedBy::Host(Box::default());
            slicing.watch.take([of(1, waited_ms, seen()), of(0, 1, first)]);
            let keep = slicing.judge_next(2, &mut ServerAgents::default()).unwrap();
            let judged = slicing.judged.last().unwrap();
            (keep, judged.slice.requests, judged.slice.left_out.clone().unwrap_or_default())
        };
        let seen = || ReportedBy::Host(Box::default());
        assert_eq!(reported(0, 2, seen()), (true, 100, String::new()));
        let (keep, _, why) = reported(1, 90, seen());
        assert!(!keep && why.starts_with("worker 0 of generator 2 on CPU 1 lost 36.0 %"), "{why}");
        assert!(!reported(2, 0, seen()).0, "it follows");
        let (keep, _, why) = reported(3, 0, ReportedBy::BlindHost);
        assert!(!keep && why.starts_with("generator 1 was held up and could not read"), "{why}");
    }

    fn report(slice: u32) -> SliceReport {
        SliceReport { slice, ns: 250 * MS, ..SliceReport::default() }
    }
}
