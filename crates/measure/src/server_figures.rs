//! The figures of the server under test in a level, computed from what its processes used in each iteration. Every
//! formula is defined in `docs/measurement.md`.

use serde::Serialize;

use crate::figures::Reading;
use crate::figures::quantity::Quantity;
use crate::figures::table::{Better, Figure, Gate, Precision, Value, some};
use crate::iteration::IterationRecord;
use crate::server_use::{ProcessUse, ServerUse};
use crate::units::NANOS_PER_SECOND;

/// What the server used in those iterations of a level in which it was visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFigures {
    /// CPU time / window, in percent of one CPU.
    pub cpu_percent: f64,
    /// The part in user mode.
    pub cpu_user_percent: f64,
    /// The part in the kernel.
    pub cpu_system_percent: f64,
    /// CPU time per 1,000 ended requests, in seconds.
    pub cpu_per_1000_requests_s: f64,
    /// Peak resident memory, in bytes.
    pub resident_bytes_max: u64,
    /// What else its processes did; absent if they were not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessFigures>,
}

/// What the server's processes did besides using CPU time, per request and second; and how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessFigures {
    /// Voluntary context switches per ended request.
    pub switches_voluntary_per_request: f64,
    /// Involuntary context switches per second.
    pub switches_involuntary_per_s: f64,
    /// Page faults without disk access, per second.
    pub faults_minor_per_s: f64,
    /// Page faults that waited for a disk, per second.
    pub faults_major_per_s: f64,
    /// Bytes that disks read for it, per second.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes that disks wrote for it, per second.
    pub disk_written_bytes_per_s: Option<f64>,
    /// Time for which at least one of its threads waited for a disk, in percent of the window.
    pub disk_wait_percent: Option<f64>,
    /// Time for which a CPU quota throttled it, in percent of the window.
    pub throttled_percent: Option<f64>,
    /// Maximum number of processes.
    pub processes_max: u64,
    /// Maximum number of threads.
    pub threads_max: u64,
    /// Maximum number of descriptors.
    pub descriptors_max: Option<u64>,
    /// Maximum of the resident memory at the ends of windows, in bytes.
    pub resident_bytes: u64,
    /// The same with shared pages divided among the processes that share them.
    pub proportional_bytes: Option<u64>,
}

/// What a server used in a window in which it was visible, and the time and requests to relate it to.
struct Seen<'a> {
    /// How long it was monitored, in nanoseconds, and the requests that ended in that time.
    read: (f64, f64),
    used: &'a ServerUse,
}

impl ServerFigures {
    /// Over these iterations, without those in which the server was not monitored, as they would dilute its share.
    /// `None` if no others are left.
    pub fn of_runs(runs: &[&IterationRecord]) -> Option<ServerFigures> {
        ServerFigures::over(runs, |run| Some(Seen { read: while_read(run), used: run.server_used()? }))
    }

    /// The same for one of the server's hosts, by its agent; requests are those of all hosts.
    pub fn on_host(runs: &[&IterationRecord], agent: u32) -> Option<ServerFigures> {
        ServerFigures::over(runs, |run| {
            let there = run.server_hosts.iter().find(|there| there.agent == agent)?;
            let read = over_time(run, there.host.elapsed_ns as f64);
            Some(Seen { read, used: run.server_on(there)? })
        })
    }

    /// The same for the server behind a proxy; requests are those of clients.
    pub fn of_origin(runs: &[&IterationRecord]) -> Option<ServerFigures> {
        ServerFigures::over(runs, |run| {
            Some(Seen { read: while_read(run), used: run.origin.as_ref()?.server.as_ref()? })
        })
    }

    fn over<'a>(
        runs: &[&'a IterationRecord],
        of: impl Fn(&'a IterationRecord) -> Option<Seen<'a>>,
    ) -> Option<ServerFigures> {
        let seen: Vec<Seen<'_>> = runs.iter().filter_map(|run| of(run)).collect();
        if seen.is_empty() {
            return None;
        }
        let base = Base::of_seen(seen.iter());
        let mut figures = ServerFigures::default();
        let (mut user_ns, mut system_ns) = (0.0, 0.0);
        for Seen { used, .. } in &seen {
            user_ns += used.user_ns as f64;
            system_ns += used.system_ns as f64;
            figures.resident_bytes_max = figures.resident_bytes_max.max(used.resident_bytes_max);
        }
        Some(ServerFigures {
            cpu_percent: base.percent(user_ns + system_ns),
            cpu_user_percent: base.percent(user_ns),
            cpu_system_percent: base.percent(system_ns),
            cpu_per_1000_requests_s: base.per_request((user_ns + system_ns) / NANOS_PER_SECOND as f64)
                * 1000.0,
            processes: ProcessFigures::of_seen(&seen),
            ..figures
        })
    }
}

impl ProcessFigures {
    fn of_seen(seen: &[Seen<'_>]) -> Option<ProcessFigures> {
        let base = Base::of_seen(seen.iter().filter(|seen| seen.used.processes.is_some()));
        let used = seen.iter().filter_map(|seen| seen.used.processes.clone()).reduce(together)?;
        let per_s = |bytes: Option<u64>| bytes.map(|bytes| base.per_s(bytes as f64));
        Some(ProcessFigures {
            switches_voluntary_per_request: base.per_request(used.switches_voluntary as f64),
            switches_involuntary_per_s: base.per_s(used.switches_involuntary as f64),
            faults_minor_per_s: base.per_s(used.faults_minor as f64),
            faults_major_per_s: base.per_s(used.faults_major as f64),
            disk_read_bytes_per_s: per_s(used.disk_read_bytes),
            disk_written_bytes_per_s: per_s(used.disk_written_bytes),
            disk_wait_percent: used.disk_wait_ns.map(|nanos| base.percent(nanos as f64)),
            throttled_percent: used.throttled_ns.map(|nanos| base.percent(nanos as f64)),
            processes_max: used.processes_max,
            threads_max: used.threads_max,
            descriptors_max: used.descriptors_max,
            resident_bytes: used.resident_bytes,
            proportional_bytes: used.proportional_bytes,
        })
    }
}

/// Two windows as one: counters are added; memory, processes, threads and descriptors are the maximum.
fn together(mut a: ProcessUse, b: ProcessUse) -> ProcessUse {
    a.add_counts(&b);
    ProcessUse {
        processes_max: a.processes_max.max(b.processes_max),
        threads_max: a.threads_max.max(b.threads_max),
        descriptors_max: a.descriptors_max.max(b.descriptors_max),
        resident_bytes: a.resident_bytes.max(b.resident_bytes),
        proportional_bytes: a.proportional_bytes.max(b.proportional_bytes),
        // Threads of two windows are different ones.
        busiest: Vec::new(),
        ..a
    }
}

/// What a server's processes used in the windows in which they were visible; `None` if in none. Counters are added;
/// memory, processes, threads and descriptors are the maximum.
pub(crate) fn server_use(
    runs: &[&IterationRecord],
    of: fn(&IterationRecord) -> Option<&ServerUse>,
) -> Option<ServerUse> {
    let seen = runs.iter().filter_map(|run| of(run));
    seen.cloned().reduce(|a, b| ServerUse {
        user_ns: a.user_ns.saturating_add(b.user_ns),
        system_ns: a.system_ns.saturating_add(b.system_ns),
        resident_bytes_max: a.resident_bytes_max.max(b.resident_bytes_max),
        processes: match (a.processes, b.processes) {
            (Some(a), Some(b)) => Some(together(a, b)),
            (a, b) => a.or(b),
        },
        ..ServerUse::default()
    })
}

/// How long a window's server was monitored, in nanoseconds, and the requests that ended in that time. The time is
/// that of the window, or between an agent's two readings, or the mean of several agents' times; requests end at the
/// window's rate.
pub fn while_read(run: &IterationRecord) -> (f64, f64) {
    over_time(run, run.server_read_ns().unwrap_or_default())
}

/// A time other than the window, and the requests that ended in it; those of the window if the time is 0.
fn over_time(run: &IterationRecord, read_ns: f64) -> (f64, f64) {
    let (window_ns, ended) = (run.measured.window_ns as f64, run.measured.counts.ended() as f64);
    if read_ns > 0.0 { (read_ns, quotient(ended * read_ns, window_ns)) } else { (window_ns, ended) }
}

/// The base of shares and rates.
struct Base {
    window_ns: f64,
    ended: f64,
}

impl Base {
    fn of_seen<'a>(seen: impl Iterator<Item = &'a Seen<'a>>) -> Base {
        let mut base = Base { window_ns: 0.0, ended: 0.0 };
        for Seen { read: (read_ns, ended), .. } in seen {
            base.window_ns += read_ns;
            base.ended += ended;
        }
        base
    }

    fn percent(&self, nanos: f64) -> f64 {
        quotient(nanos * 100.0, self.window_ns)
    }

    fn per_s(&self, count: f64) -> f64 {
        quotient(count * NANOS_PER_SECOND as f64, self.window_ns)
    }

    fn per_request(&self, amount: f64) -> f64 {
        quotient(amount, self.ended)
    }
}

/// a / b; 0 for a window without length or requests.
fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

const SERVER: &str = "The server";

fn per_1000_requests(server: Option<&ServerFigures>) -> Option<Value> {
    // A server whose processes were not visible reports no CPU time.
    let cost = server?.cpu_per_1000_requests_s;
    (cost > 0.0).then(|| cost.into())
}

fn percent(percent: f64) -> Option<Value> {
    (percent > 0.0).then(|| percent.into())
}

/// CPU time and memory, unchanged.
pub(crate) static CPU_USE: &[Figure] = &[
    Figure::new("server_user_s", Quantity::Duration, |r| some(r.server_use()?.user_ns as f64 / 1e9))
        .called("Server user", "server user time")
        .defined(SERVER, "user_ns")
        .labelled("webstone_server_cpu_seconds_total", "mode", "user")
        .detail(),
    Figure::new("server_system_s", Quantity::Duration, |r| some(r.server_use()?.system_ns as f64 / 1e9))
        .called("Server system", "server system time")
        .defined(SERVER, "system_ns")
        .labelled("webstone_server_cpu_seconds_total", "mode", "system")
        .detail(),
    Figure::new("server_resident_max_bytes", Quantity::Bytes, |r| some(r.server_use()?.resident_bytes_max))
        .called("Server memory", "server memory")
        .column("memory", "max, *", 8)
        .defined(SERVER, "resident_bytes_max")
        .prometheus("webstone_server_resident_memory_max_bytes"),
];

/// `server-cpu` as tables show it: CPU time per 1,000 requests.
pub(crate) static COST: &[Figure] =
    &[Figure::new("server_cpu_per_1000_requests_s", Quantity::Seconds, |r| per_1000_requests(r.server()))
        .called("Server CPU per 1,000 requests", "server CPU per 1,000 requests")
        .column("1,000 requests", "CPU *", Figure::ALWAYS)
        .defined(SERVER, "cpu_per_1000_requests_s")
        .prometheus("webstone_server_cpu_per_1000_requests_seconds")
        .headline()];

/// A raw value of its processes.
macro_rules! raw {
    ($key:literal, $quantity:ident, $long:literal, $name:literal, $metric:literal, $of:expr) => {
        Figure::new($key, Quantity::$quantity, |r| processes(r).and_then($of))
            .called($long, $long)
            .defined(SERVER, $name)
            .prometheus(concat!("webstone_server_", $metric))
            .detail()
    };
}

fn processes<'r>(reading: &'r Reading<'_>) -> Option<&'r ProcessUse> {
    reading.server_use()?.processes.as_ref()
}

/// What its processes did, unchanged.
pub(crate) static PROCESS_USE: &[Figure] = &[
    raw!(
        "server_switches_voluntary",
        Count,
        "Server switches voluntary",
        "switches_voluntary",
        "switches_voluntary_total",
        |used| some(used.switches_voluntary)
    ),
    raw!(
        "server_switches_involuntary",
        Count,
        "Server switches involuntary",
        "switches_involuntary",
        "switches_involuntary_total",
        |used| some(used.switches_involuntary)
    ),
    raw!("server_faults_minor", Count, "Server faults minor", "faults_minor", "faults_minor_total", |used| {
        some(used.faults_minor)
    }),
    raw!("server_faults_major", Count, "Server faults major", "faults_major", "faults_major_total", |used| {
        some(used.faults_major)
    }),
    raw!(
        "server_disk_read_bytes",
        Bytes,
        "Server disk read",
        "disk_read_bytes",
        "disk_read_bytes_total",
        |used| some(used.disk_read_bytes?)
    ),
    raw!(
        "server_disk_written_bytes",
        Bytes,
        "Server disk written",
        "disk_written_bytes",
        "disk_written_bytes_total",
        |used| some(used.disk_written_bytes?)
    ),
    raw!("server_processes_max", Count, "Server processes", "processes_max", "processes_max", |used| {
        some(used.processes_max)
    })
    .column("processes", "max", 2)
    .overview(),
    raw!("server_threads_max", Count, "Server threads", "threads_max", "threads_max", |used| {
        some(used.threads_max)
    })
    .column("threads", "max", 3)
    .overview(),
    raw!(
        "server_descriptors_max",
        Count,
        "Server open files",
        "descriptors_max",
        "descriptors_max",
        |used| { some(used.descriptors_max?) }
    )
    .column("open files", "max", 7)
    .overview(),
    raw!(
        "server_resident_bytes",
        Bytes,
        "Server resident",
        "resident_bytes",
        "resident_memory_bytes",
        |used| { some(used.resident_bytes) }
    ),
    raw!(
        "server_proportional_bytes",
        Bytes,
        "Server memory, shared pages once",
        "proportional_bytes",
        "proportional_memory_bytes",
        |used| some(used.proportional_bytes?)
    )
    .column("memory", "shared once, *", 5)
    .overview(),
    raw!(
        "server_throttled_s",
        Duration,
        "Server throttled",
        "throttled_ns",
        "throttled_seconds_total",
        |used| { some(used.throttled_ns? as f64 / 1e9) }
    ),
];

/// `server-cpu`: CPU time of the server's processes per ended request, if known.
pub const CPU_PER_REQUEST: Figure = Figure::new("server_cpu_per_request_s", Quantity::Seconds, |r| {
    per_1000_requests(r.server()).map(|cost| (cost.as_f64() / 1000.0).into())
})
.called("Server CPU per request", "server CPU per request")
.defined(SERVER, "cpu_per_1000_requests_s")
.gate(Gate::compared("server-cpu", "CPU time per request").of_machines().words("less", "more"), Better::Less)
.detail();

/// Its share of CPUs.
pub(crate) static MACHINE: &[Figure] = &[
    Figure::new("server_cpu_percent", Quantity::Percent, |r| percent(r.server()?.cpu_percent))
        .called("Server CPU", "server CPU")
        .precision(Precision::Exactly(0))
        .defined(SERVER, "cpu_percent")
        .headline(),
    Figure::new("server_cpu_user_percent", Quantity::Percent, |r| some(r.server()?.cpu_user_percent))
        .called("Server CPU in user mode", "server CPU in user mode")
        .precision(Precision::Exactly(0))
        .column("user", "% of a CPU", Figure::ALWAYS)
        .defined(SERVER, "cpu_user_percent"),
    Figure::new("server_cpu_system_percent", Quantity::Percent, |r| some(r.server()?.cpu_system_percent))
        .called("Server CPU in the kernel", "server CPU in the kernel")
        .precision(Precision::Exactly(0))
        .column("system", "% of a CPU", Figure::ALWAYS)
        .defined(SERVER, "cpu_system_percent"),
    CPU_PER_REQUEST,
];

fn figures<'r>(reading: &'r Reading<'_>) -> Option<&'r ProcessFigures> {
    reading.server()?.processes.as_ref()
}

/// What its processes did, per request and second.
pub(crate) static PROCESSES: &[Figure] = &[
    Figure::new("server_switches_voluntary_per_request", Quantity::Ratio, |r| {
        some(figures(r)?.switches_voluntary_per_request)
    })
    .called("Server voluntary switches per request", "voluntary switches per request")
    .column("switches", "per request", 9)
    .defined(SERVER, "switches_voluntary_per_request"),
    Figure::new("server_switches_involuntary_per_s", Quantity::PerSecond, |r| {
        some(figures(r)?.switches_involuntary_per_s)
    })
    .called("Server involuntary switches", "involuntary switches")
    .column("preempted", "1/s", 6)
    .defined(SERVER, "switches_involuntary_per_s"),
    Figure::new("server_faults_minor_per_s", Quantity::PerSecond, |r| some(figures(r)?.faults_minor_per_s))
        .called("Server page faults", "page faults")
        .column("faults", "1/s", 4)
        .defined(SERVER, "faults_minor_per_s"),
    Figure::new("server_faults_major_per_s", Quantity::PerSecond, |r| some(figures(r)?.faults_major_per_s))
        .called("Server page faults from disk", "page faults from disk")
        .column("from disk", "faults, 1/s", 2)
        .seldom()
        .defined(SERVER, "faults_major_per_s"),
    Figure::new("server_disk_read_bytes_per_s", Quantity::BytesPerSecond, |r| {
        some(figures(r)?.disk_read_bytes_per_s?)
    })
    .called("Server disk read", "disk read")
    .column("disk read", "*/s", 1)
    .seldom()
    .defined(SERVER, "disk_read_bytes_per_s"),
    Figure::new("server_disk_written_bytes_per_s", Quantity::BytesPerSecond, |r| {
        some(figures(r)?.disk_written_bytes_per_s?)
    })
    .called("Server disk written", "disk written")
    .column("written", "*/s", 3)
    .seldom()
    .defined(SERVER, "disk_written_bytes_per_s"),
    Figure::new("server_disk_wait_percent", Quantity::Percent, |r| some(figures(r)?.disk_wait_percent?))
        .called("Server waiting for a disk", "waiting for a disk")
        .precision(Precision::UpTo(2))
        .column("waiting for", "a disk, %", 1)
        .seldom()
        .defined(SERVER, "disk_wait_percent"),
    Figure::new("server_throttled_percent", Quantity::Percent, |r| some(figures(r)?.throttled_percent?))
        .called("Server throttled by a CPU quota", "throttled by a CPU quota")
        .precision(Precision::UpTo(2))
        .column("throttled", "by a quota, %", 1)
        .seldom()
        .defined(SERVER, "throttled_percent"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_use::HostUse;
    use crate::metrics::{Counts, Measured};
    use crate::server_hosts::ServerHostUse;

    fn run(server: Option<ServerUse>) -> IterationRecord {
        let counts = Counts { succeeded: 1_900, failed: 100, ..Counts::default() };
        let measured = Measured { window_ns: 2 * NANOS_PER_SECOND, counts, ..Measured::default() };
        IterationRecord { server, measured, ..IterationRecord::default() }
    }

    #[test]
    fn sums_are_over_all_windows_in_which_the_server_was_visible() {
        let used = |switches_voluntary, descriptors_max| ServerUse {
            user_ns: 300_000_000,
            system_ns: 700_000_000,
            resident_bytes_max: switches_voluntary,
            processes: Some(ProcessUse {
                switches_voluntary,
                switches_involuntary: 8,
                faults_minor: 40,
                faults_major: 2,
                disk_read_bytes: Some(4096),
                disk_written_bytes: None,
                disk_wait_ns: Some(300_000_000),
                throttled_ns: Some(200_000_000),
                processes_max: 3,
                threads_max: descriptors_max,
                descriptors_max: Some(descriptors_max),
                resident_bytes: 5,
                proportional_bytes: Some(descriptors_max),
                ..ProcessUse::default()
            }),
            ..ServerUse::default()
        };
        // A server that was not read in time has only what it counted itself, and its zeros do not count.
        let unread = ServerUse { sent_bytes: Some(48), ..ServerUse::default() };
        let runs =
            [run(Some(used(3_000, 9))), run(None), run(Some(unread.clone())), run(Some(used(5_000, 7)))];
        assert_eq!(ServerFigures::of_runs(&[&run(Some(unread))]), None);
        let figures = ServerFigures::of_runs(&runs.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            (figures.cpu_user_percent, figures.cpu_system_percent, figures.cpu_percent),
            (15.0, 35.0, 50.0)
        );
        // 2 s of CPU time for 4,000 requests.
        assert_eq!((figures.cpu_per_1000_requests_s, figures.resident_bytes_max), (0.5, 5_000));
        let expected = ProcessFigures {
            switches_voluntary_per_request: 2.0,
            switches_involuntary_per_s: 4.0,
            faults_minor_per_s: 20.0,
            faults_major_per_s: 1.0,
            disk_read_bytes_per_s: Some(2048.0),
            disk_written_bytes_per_s: None,
            disk_wait_percent: Some(15.0),
            throttled_percent: Some(10.0),
            processes_max: 3,
            threads_max: 9,
            descriptors_max: Some(9),
            resident_bytes: 5,
            proportional_bytes: Some(9),
        };
        assert_eq!(figures.processes, Some(expected));
    }

    #[test]
    fn an_agents_figures_are_of_its_own_interval() {
        // Read over 2.5 s of the agent's clock, for a window of 2 s with 2,000 requests: 2,500 end in that time.
        let mut run = run(Some(ServerUse { user_ns: 1_250_000_000, ..ServerUse::default() }));
        let host = HostUse { elapsed_ns: 2_500_000_000, ..HostUse::default() };
        run.server_hosts = vec![ServerHostUse { host, ..ServerHostUse::default() }];
        let figures = ServerFigures::of_runs(&[&run]).unwrap();
        assert_eq!((figures.cpu_percent, figures.cpu_per_1000_requests_s), (50.0, 0.5));
    }

    #[test]
    fn nothing_measured_gives_nothing() {
        assert_eq!(ServerFigures::of_runs(&[&run(None)]), None);
        let of_no_time = |used| {
            let run = IterationRecord { server: Some(used), ..IterationRecord::default() };
            ServerFigures::of_runs(&[&run])
        };
        assert_eq!(of_no_time(ServerUse::default()), None);
        let idle = ServerUse { processes: Some(ProcessUse::default()), ..ServerUse::default() };
        let none =
            ServerFigures { processes: of_no_time(idle.clone()).unwrap().processes, ..Default::default() };
        assert_eq!(of_no_time(idle), Some(none));
    }
}
