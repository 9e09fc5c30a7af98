//! The numbers that the verdict turns on, and the few sums that both its reasons and the limiting resource need.

use webstone_measure::metrics::WorkerUse;

/// Failed requests in percent of a level's ended ones, above which it is invalid.
pub const ERRORS_PERCENT_MAX: f64 = 1.0;
/// Share of the load in requests that stalled, in percent, above which a level is invalid: its figures are lower bounds.
pub const STALLED_PERCENT_MAX: f64 = 1.0;
/// CPU time of a worker in percent of the window, from which on it counts as saturated.
pub const WORKER_CPU_PERCENT_MAX: f64 = 90.0;
/// The event loop's own median delay in percent of the median latency, above which reports warn. It makes no run invalid:
/// answers that come in bursts wait for one another in any client.
pub const LOOP_DELAY_PERCENT_MAX: f64 = 10.0;
/// Open loop: by how much the schedule lag may make a percentile of the latency longer, in percent.
pub const SCHEDULE_LAG_PERCENT_MAX: f64 = 10.0;
/// Open loop: how much of the asked rate may be missed, in percent.
pub const RATE_MISSED_PERCENT_MAX: f64 = 1.0;
/// Time that a worker waited for its CPU in percent of the window, from which on reports warn.
pub const RUN_QUEUE_PERCENT_MAX: f64 = 5.0;
/// CPU time that others took from a worker or from the server in a window, in percent, below which it is clean. A quiet machine
/// with its own services takes some tenths.
pub const TAKEN_PERCENT_CLEAN: f64 = 2.0;
/// The same from which on the window is void: a change of a few percent, which people look for, would drown in it.
pub const TAKEN_PERCENT_VOID: f64 = 5.0;
/// A single stall, in nanoseconds, from which on a window is not clean however long it is: it is in the highest percentiles of
/// every latency.
pub const STALL_NS_CLEAN: u64 = 250_000_000;
/// A single stall, in nanoseconds, from which on a window is void however long it is.
pub const STALL_NS_VOID: u64 = 1_000_000_000;
/// How far from the agreed instant a host of several may open its window, in nanoseconds, its clock's bound included: this much, or
/// `APART_SHARE` of the window where that is more.
pub const APART_NS_MIN: u64 = 5_000_000;
/// See [`APART_NS_MIN`]: a thousandth of the window.
pub(super) const APART_SHARE: u64 = 1_000;
/// By how much a CPU of the server may be slower in a window than at its best in the same level, in percent. Neighbours on a shared
/// host make it some percent slower at any time, and requests suffer more than work in registers does: on a virtual machine of
/// two CPUs request rates fell by 10 to 14 % where this work was 6 % slower, and by 20 to 25 % where it was 11 to 13 % slower; windows
/// at the usual rate lay at 2 to 5 %.
pub const SLOWER_PERCENT_CLEAN: f64 = 6.0;
/// The same from which on the window is void.
pub const SLOWER_PERCENT_VOID: f64 = 9.0;
/// A CPU that takes 1 % longer for work in registers serves requests by up to 2 % more slowly (see [`SLOWER_PERCENT_CLEAN`]).
pub(super) const EFFECT_OF_SLOWNESS: f64 = 2.0;
/// By which factor noise may have lowered a level's rate before nothing can be concluded from it: the interval would be wider than
/// half of what the level may give undisturbed.
pub const NOISE_FACTOR_MAX: f64 = 2.0;
/// How much of the time that the test left of its CPUs other programs may use, in percent, before it counts as noise.
pub(super) const CROWDED_PERCENT_CLEAN: f64 = 8.0;
/// By how much a request may cost more where other programs use all of that time, in percent (see `crowding.rs`).
pub const CROWDED_COST_PERCENT: f64 = 60.0;
/// How busy a CPU must have been in the window, in percent, for its speed to be judged: an idle one may be slowed on purpose.
pub(super) const SPEED_BUSY_PERCENT_MIN: f64 = 50.0;
/// A window shorter than this, in nanoseconds, is judged together with the others of its level: by itself it can lie in one slice of
/// another program. The kernel's ticks of 10 ms and the pieces of work of a hundredth of a second say little of it.
pub const SHORT_WINDOW_NS: u64 = 1_000_000_000;
/// A level's 95 % interval of the request rate, in percent of its value, from which on nothing can be concluded from it.
pub const INTERVAL_PERCENT_MAX: f64 = 100.0;
/// What others took of the generator's CPUs before the levels, in percent, from which on reports warn.
pub const DISTURBED_PERCENT_MAX: f64 = 1.0;
/// How long that must have been sampled in all, in nanoseconds: a shorter sample can fall into a single tick.
pub const DISTURBANCE_NS_MIN: u64 = 50_000_000;
/// Shortest window, in nanoseconds, of which a worker's CPU and its waiting for it are judged: a shorter one shows how the worker
/// started, and nobody takes it for a benchmark (it is never certified).
pub(super) const GENERATOR_WINDOW_NS_MIN: u64 = 100_000_000;
/// What a hypervisor took of a CPU, in percent of its time, from which on it is unknown what would have limited the server.
pub(super) const STOLEN_PERCENT_MAX: f64 = 5.0;
/// How much later than set packets may leave the relay of a path on average, in nanoseconds, or in percent of the set delay where that
/// is more.
pub(super) const PATH_LATE_NS_MAX: f64 = 1e6;
/// See [`PATH_LATE_NS_MAX`].
pub(super) const PATH_LATE_PERCENT_MAX: f64 = 10.0;
/// CPU time of the server in percent of its CPUs', from which on they are its ceiling.
pub const SERVER_CPU_PERCENT_MAX: f64 = 95.0;
/// Traffic in percent of the link's speed, from which on the link is at its practical limit. Full Ethernet frames of
/// 1,514 bytes take 1,538 byte times on the wire, so that 98 % is all that the kernel can count; the rest is slack for
/// smaller packets.
pub const LINK_PERCENT_MAX: f64 = 90.0;

/// CPU time of a worker in percent of a window, without waiting awake for arrivals; 0 of no window.
pub(super) fn worker_percent(worker: &WorkerUse, window_ns: u64) -> f64 {
    percent(worker.worked_ns() as f64, window_ns as f64)
}

/// Time that a worker was ready to run and its CPU ran something else, in percent of the window; 0 where it was not
/// measured, or a worker's CPU is not judged. The kernel counts it in nanoseconds, so every window that is judged by what a worker
/// used can be judged by this as well: otherwise noise would hide a saturated worker.
pub fn run_queue_percent(worker: &WorkerUse, window_ns: u64) -> f64 {
    match worker.run_queue_ns {
        Some(waited) if window_ns >= GENERATOR_WINDOW_NS_MIN => percent(waited as f64, window_ns as f64),
        _ => 0.0,
    }
}

/// 100 a / b; 0 where b is 0.
pub(super) fn percent(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { 100.0 * a / b }
}

/// A count with its noun.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A duration with three digits.
pub(super) fn time(nanos: f64) -> String {
    match nanos {
        _ if nanos >= 1e9 => format!("{:.3} s", nanos / 1e9),
        _ if nanos >= 1e6 => format!("{:.3} ms", nanos / 1e6),
        _ => format!("{:.1} µs", nanos / 1e3),
    }
}
