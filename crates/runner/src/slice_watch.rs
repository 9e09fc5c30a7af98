//! The slices of a window as they end: what this host used in each, and what those who make the load report of it: workers here, or other
//! hosts.

use std::time::Duration;

use webstone_engine::{Control, WorkerSlice};
use webstone_lab::window::{SOON, SliceUse, Used, Window};
use webstone_measure::metrics::WorkerUse;
use webstone_model::record::{CpuWatch, HostUse, OriginUse, ProcessUse, ServerUse};

/// How much later than its end a slice is read: workers end it at their next look at the clock.
const AFTER: Duration = Duration::from_millis(2);
/// Readings that are later than this share of a slice, in percent, are of no slice: what they say belongs partly to the next. The same as
/// for agents. The thread that reads runs before other programs where the kernel allows it, and keeps off the server's CPUs; it is late
/// by some milliseconds on a busy machine.
const LATE_PERCENT_MAX: u64 = 5;

/// What a worker of this host, or another host as a whole, reports of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceReport {
    /// Its number among those who report.
    pub(crate) number: usize,
    /// Number of the slice, from 0.
    pub(crate) slice: u32,
    /// Its length, in nanoseconds.
    pub(crate) ns: u64,
    /// Valid responses that ended in it.
    pub(crate) requests: u64,
    /// Failures in it.
    pub(crate) errors: u64,
    /// Time that requests were in progress in it, in nanoseconds.
    pub(crate) busy_ns: u64,
    /// The worker, or all of the other host.
    pub(crate) workers: Vec<WorkerUse>,
    pub(crate) by: ReportedBy,
}

/// Who reports.
#[derive(Clone, Debug, Default)]
pub(crate) enum ReportedBy {
    #[default]
    Worker,
    /// Another host, with what it used.
    Host(Box<HostUse>),
    /// Another host, which could not read in time what it used.
    BlindHost,
}

impl From<WorkerSlice> for SliceReport {
    fn from(slice: WorkerSlice) -> SliceReport {
        let WorkerSlice { number, slice, ns, worker, total, busy_ns } = slice;
        let (requests, errors, workers) = (total.requests, total.errors, vec![worker]);
        SliceReport { number, slice, ns, requests, errors, busy_ns, workers, by: ReportedBy::Worker }
    }
}

/// See the module comment.
pub(crate) struct SliceWatch {
    length_ns: u64,
    /// What each slice used, if that was read in time.
    used: Vec<Option<SliceUse>>,
    /// When the window opened, once it has.
    open_ns: Option<u64>,
    reports: Vec<Vec<SliceReport>>,
}

impl SliceWatch {
    pub(crate) fn new(length_ns: u64) -> SliceWatch {
        SliceWatch { length_ns, used: Vec::new(), open_ns: None, reports: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn push(&mut self, used: Option<SliceUse>) {
        self.used.push(used);
    }

    pub(crate) fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// How long it is until a slice is to be read.
    pub(crate) fn until_read(&self, open_ns: u64) -> Duration {
        Duration::from_nanos(self.end_ns(open_ns).saturating_sub(Control::now_ns())) + AFTER
    }

    /// When the next slice to be read ends.
    fn end_ns(&self, open_ns: u64) -> u64 {
        open_ns.saturating_add((self.used.len() as u64 + 1).saturating_mul(self.length_ns))
    }

    /// The slice that is to be read now in a window that is open from one instant to another.
    pub(crate) fn due(&self, now_ns: u64, (open_ns, close_ns): (u64, u64)) -> Option<usize> {
        (now_ns >= self.end_ns(open_ns) && now_ns < close_ns).then_some(self.used.len())
    }

    /// Reads it.
    pub(crate) fn read(&mut self, now_ns: u64, (open_ns, close_ns): (u64, u64), window: &mut Window<'_>) {
        self.open_ns = Some(open_ns);
        if self.due(now_ns, (open_ns, close_ns)).is_none() {
            return;
        }
        let late_ns = now_ns - self.end_ns(open_ns);
        let used = window.end_slice();
        let is_on_time = self.is_on_time(late_ns, &used, window);
        self.used.push(is_on_time.then_some(used));
        // Those that were over by then were missed.
        while self.end_ns(open_ns) <= now_ns {
            self.used.push(None);
        }
    }

    /// Whether what was read belongs to the slice, with which it began and ended. One that begins with a late reading needs no look: it
    /// follows one that was not read in time, and is left out for that.
    fn is_on_time(&self, late_ns: u64, used: &SliceUse, window: &Window<'_>) -> bool {
        let late_ns_max = self.length_ns * LATE_PERCENT_MAX / 100;
        let mut elapsed_ns_max = self.length_ns + late_ns_max;
        let mut opened_late_ns = 0;
        if self.used.is_empty() {
            // The first reading may be of the warm-up.
            elapsed_ns_max += SOON.as_nanos() as u64;
            opened_late_ns = self.open_ns.map_or(0, |open_ns| window.opened_at_ns().saturating_sub(open_ns));
        }
        // Reading takes time, too, in which a thread may be interrupted.
        late_ns.max(opened_late_ns) <= late_ns_max && used.host.elapsed_ns <= elapsed_ns_max
    }

    /// Reads the last of this number of slices, after the close of `window`. Earlier ones that are not read yet were missed.
    pub(crate) fn close(&mut self, slices: usize, window: &mut Window<'_>) {
        while self.used.len() < slices {
            let is_last = self.used.len() + 1 == slices;
            let used = is_last.then(|| window.end_slice()).filter(|used| {
                // Earlier than planned, if somebody ended the window.
                let end_ns = self.open_ns.map(|open_ns| self.end_ns(open_ns));
                let closed_ns = window.closed_at_ns();
                let late_ns = closed_ns.zip(end_ns).map_or(0, |(closed, end)| closed.saturating_sub(end));
                self.is_on_time(late_ns, used, window)
            });
            self.used.push(used);
        }
    }

    pub(crate) fn take(&mut self, reports: impl IntoIterator<Item = SliceReport>) {
        for report in reports {
            let slice = report.slice as usize;
            self.reports.resize_with(self.reports.len().max(slice + 1), Vec::new);
            self.reports[slice].push(report);
        }
    }

    /// Number of slices of which something was reported.
    pub(crate) fn reported(&self) -> usize {
        self.reports.len()
    }

    /// Most reports of a slice.
    pub(crate) fn reporters(&self) -> usize {
        self.reports.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// A slice, once it is read and has this number of reports: what was used in it, and the reports in order.
    pub(crate) fn whole(
        &self,
        slice: usize,
        reporters: usize,
    ) -> Option<(Option<&SliceUse>, Vec<SliceReport>)> {
        let used = self.used.get(slice)?;
        let mut reports = self.reports.get(slice).filter(|reports| reports.len() >= reporters)?.clone();
        reports.sort_by_key(|report| report.number);
        Some((used.as_ref(), reports))
    }

    /// What was used in the slices that are kept.
    pub(crate) fn used_in(&self, kept: impl IntoIterator<Item = bool>) -> KeptUse {
        let mut sum = KeptUse::default();
        let clean = kept.into_iter().zip(&self.used).filter(|(is_kept, _)| *is_kept);
        clean.filter_map(|(_, used)| used.as_ref()).for_each(|used| sum.append(used));
        sum
    }
}

/// What was used in those slices of a window that are kept.
#[derive(Default)]
pub(crate) struct KeptUse {
    host: HostUse,
    server: ServerUse,
    origin: Option<OriginUse>,
}

impl KeptUse {
    fn append(&mut self, used: &SliceUse) {
        self.host.append(&used.host);
        if let Some(server) = &used.server {
            self.server.append(server);
        }
        match (&mut self.origin, &used.origin) {
            (Some(origin), Some(used)) => origin.append(used),
            (origin, used) => origin.clone_from(used),
        }
    }

    /// Limits what was used in the window to the slices that are kept. Peaks and speeds stay those of the whole.
    pub(crate) fn limit(&self, window: &mut Used) {
        let KeptUse { host, server, origin } = self;
        window.host = limited_host(std::mem::take(&mut window.host), host);
        // Where the window has no figures of the server, its slices have none either.
        if window.server.was_read() {
            window.server = limited_server(std::mem::take(&mut window.server), server);
        }
        if let (Some(whole), Some(kept)) = (&mut window.origin, origin) {
            let resident_bytes_max = whole.server.as_ref().map_or(0, |server| server.resident_bytes_max);
            let server = kept.server.clone().map(|server| {
                let processes = server.processes.map(ProcessUse::of_window);
                ServerUse { resident_bytes_max, processes, ..server }
            });
            *whole = OriginUse { server, counted: kept.counted };
        }
    }
}

/// What a host did in the slices that are kept. Peaks and speeds stay those of the whole window.
pub(crate) fn limited_host(whole: HostUse, kept: &HostUse) -> HostUse {
    HostUse {
        elapsed_ns: kept.elapsed_ns,
        others: kept.others.clone(),
        throttled_ns: kept.throttled_ns,
        suspended_ns: kept.suspended_ns,
        tcp: kept.tcp,
        // Read for the window alone; the host's own count of the kept slices bounds it.
        listener_drops: whole
            .listener_drops
            .map(|drops| kept.tcp.map_or(drops, |tcp| drops.min(tcp.listen_drops))),
        cpus: kept.cpus.clone(),
        links: kept.links.clone(),
        path: kept.path,
        watched: whole.watched.iter().map(|watch| of_kept(watch, kept)).collect(),
        ..whole
    }
}

/// What a server used in the slices that are kept. Peaks stay those of the whole window.
pub(crate) fn limited_server(whole: ServerUse, kept: &ServerUse) -> ServerUse {
    ServerUse {
        user_ns: kept.user_ns,
        system_ns: kept.system_ns,
        processes: whole.processes.zip(kept.processes.as_ref()).map(|(whole, kept)| whole.limited_to(kept)),
        ..whole
    }
}

/// A CPU's speed is known of the whole window, its stalls of the slices that are kept.
fn of_kept(whole: &CpuWatch, host: &HostUse) -> CpuWatch {
    let kept = host.watched.iter().find(|kept| kept.cpu == whole.cpu).copied().unwrap_or_default();
    CpuWatch { stalled_ns: kept.stalled_ns, stalled_ns_max: kept.stalled_ns_max, ..*whole }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use webstone_lab::listeners::Ports;
    use webstone_lab::window::Watched;
    use webstone_model::event::Phase;
    use webstone_model::record::{CpuUse, DirectionUse, OriginCounts, PathUse, TcpUse};

    use super::*;

    const MS: u64 = 1_000_000;
    /// So long that no machine is too busy to read one in time.
    const LENGTH_NS: u64 = 20_000 * MS;

    /// A window that opened this long ago is read for its opening only now; then slices of it are read. Whether each counts.
    fn watched(open_for_ns: u64, read: impl FnOnce(&mut SliceWatch, u64, &mut Window<'_>)) -> Vec<bool> {
        let (links, targets) = (BTreeSet::new(), BTreeSet::new());
        let mut window = Window::before(Watched {
            server: None,
            origin: None,
            from_start: true,
            links: &links,
            cpus: Vec::new(),
            targets: &targets,
            listening: Ports::default(),
            path: None,
            echoes: Vec::new(),
        });
        window.look(Phase::Measuring);
        let mut watch = SliceWatch::new(LENGTH_NS);
        read(&mut watch, Control::now_ns() - open_for_ns, &mut window);
        watch.used.iter().map(Option::is_some).collect()
    }

    /// Whether each slice counts that was read at these times, in thousandths of a slice after the window opened.
    fn read_at(times: &[u64]) -> Vec<bool> {
        let read = |watch: &mut SliceWatch, open_ns: u64, window: &mut Window<'_>| {
            for time in times {
                let now_ns = open_ns + time * LENGTH_NS / 1_000;
                watch.read(now_ns, (open_ns, open_ns + 100 * LENGTH_NS), window);
            }
        };
        watched(0, read)
    }

    /// What a late reading says belongs partly to the next slice.
    #[test]
    fn a_slice_that_was_read_late_does_not_count() {
        assert_eq!(read_at(&[1_000, 2_010, 2_999, 3_049]), [true; 3]);
        assert_eq!(read_at(&[1_000, 2_060, 3_000]), [true, false, true], "the last follows a disturbed one");
        assert_eq!(read_at(&[1_400]), [false]);
        assert_eq!(read_at(&[1_000, 3_800, 4_000]), [true, false, false, true]);
    }

    #[test]
    fn a_window_whose_opening_was_read_late_does_not_count_its_first_slice() {
        let read = |watch: &mut SliceWatch, open_ns: u64, window: &mut Window<'_>| {
            for slice in 1..=2 {
                watch.read(open_ns + slice * LENGTH_NS, (open_ns, open_ns + 100 * LENGTH_NS), window);
            }
        };
        assert_eq!(watched(LENGTH_NS / 50, read), [true, true]);
        assert_eq!(watched(LENGTH_NS / 10, read), [false, true]);
    }

    /// The last slice ends with the window, and the window may be read late as well.
    #[test]
    fn a_window_whose_close_was_read_late_does_not_count_its_last_slice() {
        let close = |closed_late_ns: u64| {
            let read = |watch: &mut SliceWatch, now_ns: u64, window: &mut Window<'_>| {
                // The first of two was missed.
                watch.used.push(None);
                watch.open_ns = Some(now_ns - closed_late_ns - 2 * LENGTH_NS);
                window.look(Phase::Draining);
                watch.close(2, window);
            };
            watched(0, read)
        };
        assert_eq!(close(LENGTH_NS / 50), [false, true]);
        assert_eq!(close(LENGTH_NS / 10), [false, false]);
    }

    fn host(busy_ns: u64, stalled_ns: u64, work_ns_median: u64) -> HostUse {
        HostUse {
            elapsed_ns: 500 * MS,
            cpus: vec![CpuUse { cpu: 0, busy_ns, ..CpuUse::default() }],
            watched: vec![CpuWatch { stalled_ns, work_ns_median, ..CpuWatch::default() }],
            ..HostUse::default()
        }
    }

    fn server(user_ns: u64) -> ServerUse {
        let processes = ProcessUse { run_queue_ns: Some(user_ns / 10), ..ProcessUse::default() };
        ServerUse { user_ns, processes: Some(processes), ..ServerUse::default() }
    }

    fn path(late_ns_max: u64) -> PathUse {
        let late = DirectionUse { packets: 5, late_ns_max, ..DirectionUse::default() };
        PathUse { to_clients: late, ..PathUse::default() }
    }

    fn origin(requests: u64, resident_bytes_max: u64) -> OriginUse {
        OriginUse {
            server: Some(ServerUse { user_ns: 10 * requests, resident_bytes_max, ..ServerUse::default() }),
            counted: Some(OriginCounts { requests, ..OriginCounts::default() }),
        }
    }

    /// What was used in the slices that are kept replaces what was used in the window; peaks and speeds stay the window's.
    #[test]
    fn what_was_used_is_limited_to_what_is_kept() {
        let mut watch = SliceWatch::new(500 * MS);
        let slice = |busy_ms: u64, stalled_ms: u64, server_ms: u64, late_ns: u64, requests: u64| SliceUse {
            host: HostUse {
                path: Some(path(late_ns)),
                tcp: Some(TcpUse { listen_drops: 1, ..TcpUse::default() }),
                ..host(busy_ms * MS, stalled_ms * MS, 0)
            },
            server: Some(server(server_ms * MS)),
            origin: Some(origin(requests, 0)),
        };
        watch.used = vec![
            Some(slice(100, 0, 60, 3, 20)),
            Some(slice(499, 400, 1, 70, 1)),
            None,
            Some(slice(200, 10, 80, 2, 30)),
        ];
        let mut whole = Used {
            host: HostUse {
                descriptors: Some(9),
                path: Some(path(90)),
                listener_drops: Some(4),
                ..host(900 * MS, 70 * MS, 5)
            },
            server: ServerUse { resident_bytes_max: 7, ..server(300 * MS) },
            origin: Some(origin(100, 8)),
            ..Used::default()
        };
        watch.used_in([true, false, false, true]).limit(&mut whole);
        let Used { host, server, origin, .. } = whole;
        assert_eq!((host.elapsed_ns, host.cpus[0].busy_ns), (1_000 * MS, 300 * MS));
        assert_eq!((host.watched[0].stalled_ns, host.watched[0].work_ns_median), (10 * MS, 5));
        assert_eq!((host.descriptors, server.resident_bytes_max), (Some(9), 7));
        assert_eq!(host.listener_drops, Some(2));
        assert_eq!((server.user_ns, server.processes.unwrap().run_queue_ns), (140 * MS, Some(14 * MS)));
        let path = host.path.unwrap().to_clients;
        assert_eq!((path.packets, path.late_ns_max), (10, 3));
        let (counted, origin) = origin.map(|it| (it.counted.unwrap(), it.server.unwrap())).unwrap();
        assert_eq!((counted.requests, origin.user_ns, origin.resident_bytes_max), (50, 500, 8));
    }
}
