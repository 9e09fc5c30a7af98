//! What the load generator used and added, and how an open loop's schedule was kept. A generator near 100 % measures
//! itself.

use super::quantity::Quantity;
use super::table::{Better, Figure, Gate, Precision, some};
use super::{Figures, quotient, seconds};
use crate::iteration::ScheduleKept;
use crate::metrics::Measured;
use crate::units::{NANOS_PER_SECOND, sum};

/// How much of its CPUs the load generator used, and how late it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeneratorFigures {
    /// Number of workers.
    pub workers: usize,
    /// CPU time of all workers / (workers × window), in percent, without waiting awake.
    pub cpu_percent: f64,
    /// The same for the busiest worker.
    pub busiest_percent: f64,
    /// For the worker with the longest wait: how long it was ready to run but had no CPU, in percent of the window,
    /// if the kernel reported it.
    pub waited_percent: Option<f64>,
    /// CPU time per ended request, in seconds.
    pub cpu_per_request_s: f64,
    /// Median delay from readiness to handling, in seconds, if measured.
    pub loop_delay_p50_s: Option<f64>,
    /// 99th percentile of the delay from readiness to handling, in seconds, if measured.
    pub loop_delay_p99_s: Option<f64>,
    /// How long bytes lay in the kernel before they were read: median, 99th percentile and maximum in seconds, if
    /// measured.
    pub receive_lag_s: Option<[f64; 3]>,
    /// How much longer connecting took for the client than for the kernel: the median, in seconds, if measured.
    pub connect_lag_p50_s: Option<f64>,
}

impl GeneratorFigures {
    /// From a window, or several merged, and the figures computed from it.
    pub fn of_measured(measured: &Measured, figures: &Figures) -> GeneratorFigures {
        let (generator, window_ns) = (&measured.generator, measured.window_ns as f64);
        let percent: Vec<f64> = generator
            .workers
            .iter()
            .map(|worker| quotient(worker.worked_ns() as f64 * 100.0, window_ns))
            .collect();
        let loop_delay_s = |percentile| {
            let delay = &generator.loop_delay;
            (!delay.is_empty()).then(|| seconds(delay.value_at_percentile(percentile)))
        };
        GeneratorFigures {
            workers: percent.len(),
            cpu_percent: quotient(percent.iter().sum(), percent.len() as f64),
            busiest_percent: percent.iter().copied().fold(0.0, f64::max),
            waited_percent: generator
                .workers
                .iter()
                .filter_map(|worker| worker.run_queue_ns)
                .map(|waited| quotient(waited as f64 * 100.0, window_ns))
                .reduce(f64::max),
            cpu_per_request_s: figures.generator_cpu_per_request_s,
            loop_delay_p50_s: loop_delay_s(50.0),
            loop_delay_p99_s: loop_delay_s(99.0),
            receive_lag_s: {
                let lag = &generator.receive_lag;
                let all = [lag.value_at_percentile(50.0), lag.value_at_percentile(99.0), lag.max()];
                (!lag.is_empty()).then(|| all.map(seconds))
            },
            connect_lag_p50_s: {
                let lag = &generator.connect_lag;
                (!lag.is_empty()).then(|| seconds(lag.value_at_percentile(50.0)))
            },
        }
    }
}

/// What happened to an open loop's schedule.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoopFigures {
    /// How well it was kept.
    pub kept: ScheduleKept,
    /// Complete pages per second.
    pub achieved_rate: f64,
    /// Arrivals that found no free client and were skipped.
    pub skipped: u64,
    /// Arrivals that were waiting for a client at the end.
    pub queued: u64,
    /// Arrivals that had waited for a client.
    pub waited: u64,
    /// Time that workers spun for arrivals, in percent of their CPUs.
    pub awake_percent: f64,
}

impl OpenLoopFigures {
    /// From a window, or several merged; `None` in closed loop, and for a window without length.
    pub fn of_measured(measured: &Measured) -> Option<OpenLoopFigures> {
        let (open_loop, workers) = (measured.open_loop.as_ref()?, &measured.generator.workers);
        let window_ns = measured.window_ns as f64;
        let spun_ns: f64 = workers.iter().map(|worker| worker.spun_ns as f64).sum();
        let pages = measured.counts.pages_completed as f64;
        Some(OpenLoopFigures {
            kept: ScheduleKept::of_measured(measured)?,
            achieved_rate: quotient(pages * NANOS_PER_SECOND as f64, window_ns),
            skipped: open_loop.skipped,
            queued: open_loop.queued,
            waited: open_loop.waited,
            awake_percent: quotient(spun_ns * 100.0, window_ns * workers.len() as f64),
        })
    }
}

/// CPU time of its threads.
pub(super) static USE: &[Figure] = &[
    Figure::new("generator_workers", Quantity::Count, |r| some(r.measured().generator.workers.len()))
        .called("Generator workers", "generator workers")
        .defined("Instants", "")
        .column("workers", "", 1),
    Figure::new("generator_user_s", Quantity::Duration, |r| {
        let workers = &r.measured().generator.workers;
        (!workers.is_empty()).then(|| seconds(sum(workers.iter().map(|it| it.user_ns))).into())
    })
    .called("Generator user", "generator user time")
    .defined("Figures", "generator_cpu_per_request_s")
    .labelled("webstone_generator_cpu_seconds_total", "mode", "user")
    .detail(),
    Figure::new("generator_system_s", Quantity::Duration, |r| {
        let workers = &r.measured().generator.workers;
        (!workers.is_empty()).then(|| seconds(sum(workers.iter().map(|it| it.system_ns))).into())
    })
    .called("Generator system", "generator system time")
    .defined("Figures", "generator_cpu_per_request_s")
    .labelled("webstone_generator_cpu_seconds_total", "mode", "system")
    .detail(),
    CPU_PER_REQUEST,
];

/// `client-cpu`: CPU time of the generator per ended request.
pub const CPU_PER_REQUEST: Figure = Figure::new("generator_cpu_per_request_s", Quantity::Seconds, |r| {
    let cost = r.figures().generator_cpu_per_request_s;
    (r.measured().counts.ended() > 0 && cost > 0.0).then(|| cost.into())
})
.called("Generator CPU per request", "generator CPU per request")
.defined("Figures", "generator_cpu_per_request_s")
.json("figures.generator_cpu_per_request_s")
.prometheus("webstone_generator_cpu_per_request_seconds")
.gate(Gate::compared("client-cpu", "CPU time per request").of_machines().words("less", "more"), Better::Less)
.detail();

/// CPU shares of the generator, and how late it was.
pub(super) static SHARES: &[Figure] = &[
    Figure::new("generator_cpu_percent", Quantity::Percent, |r| {
        (r.generator().workers > 0).then(|| r.generator().cpu_percent.into())
    })
    .called("Generator CPU", "generator CPU")
    .defined("Figures", "generator_cpu_per_request_s")
    .precision(Precision::Exactly(0))
    .column("generator", "% of its CPUs", Figure::ALWAYS),
    Figure::new("generator_busiest_percent", Quantity::Percent, |r| {
        (r.generator().workers > 0).then(|| r.generator().busiest_percent.into())
    })
    .called("Generator busiest worker", "busiest worker")
    .defined("Figures", "generator_cpu_per_request_s")
    .precision(Precision::Exactly(0))
    .column("busiest", "worker, %", 6),
    Figure::new("disturbance_taken_percent", Quantity::Percent, |r| {
        some(r.host()?.disturbance?.taken_percent())
    })
    .called("Generator CPU taken by others before", "taken by others before")
    .defined("The host", "disturbance")
    .precision(Precision::UpTo(2)),
    Figure::new("disturbance_taken_at_once_s", Quantity::Seconds, |r| {
        some(seconds(r.host()?.disturbance?.longest_ns))
    })
    .called("Generator CPU taken at once", "taken at once")
    .defined("The host", "disturbance"),
];

/// What happened to arrivals.
pub(super) static ARRIVALS: &[Figure] = &[
    Figure::new("asked_per_s", Quantity::PerSecond, |r| some(r.open_loop()?.kept.asked_rate))
        .called("Arrivals asked for", "arrivals asked for")
        .column("asked", "/s", 4)
        .defined(OPEN, "asked_rate"),
    Figure::new("offered_per_s", Quantity::PerSecond, |r| some(r.open_loop()?.kept.offered_rate))
        .called("Arrivals offered", "arrivals offered")
        .column("offered", "/s", Figure::ALWAYS)
        .defined(OPEN, "offered_rate"),
    Figure::new("arrivals_carried_in", Quantity::Count, |r| {
        some(r.measured().open_loop.as_ref()?.carried_in)
    })
    .called("Arrivals carried in", "arrivals carried in")
    .defined(OPEN, "carried_in")
    .detail(),
    Figure::new("arrivals_planned", Quantity::Count, |r| some(r.measured().open_loop.as_ref()?.planned))
        .called("Arrivals planned", "arrivals planned")
        .defined(OPEN, "planned")
        .detail(),
    Figure::new("arrivals_started", Quantity::Count, |r| some(r.measured().open_loop.as_ref()?.started))
        .called("Arrivals started", "arrivals started")
        .defined(OPEN, "started")
        .detail(),
    Figure::new("arrivals_skipped", Quantity::Count, |r| some(r.measured().open_loop.as_ref()?.skipped))
        .called("Arrivals skipped", "arrivals skipped")
        .column("skipped", "", Figure::ALWAYS)
        .defined(OPEN, "skipped"),
    Figure::new("arrivals_queued", Quantity::Count, |r| some(r.measured().open_loop.as_ref()?.queued))
        .called("Arrivals queued", "arrivals queued")
        .column("queued", "at the end", 5)
        .defined(OPEN, "queued"),
    Figure::new("arrivals_waited", Quantity::Count, |r| some(r.measured().open_loop.as_ref()?.waited))
        .called("Arrivals waited", "arrivals that waited")
        .column("waited", "for a client", 2)
        .defined(OPEN, "waited"),
    Figure::new("generator_spun_s", Quantity::Duration, |r| {
        r.measured().open_loop.as_ref()?;
        some(seconds(sum(r.measured().generator.workers.iter().map(|worker| worker.spun_ns))))
    })
    .called("Generator spun", "generator awake")
    .defined(OPEN, "spun_ns")
    .detail(),
];

/// `offered`: open loop: arrivals that began a page, in percent of those that were due.
pub const OFFERED: Figure = Figure::new("offered_percent", Quantity::Percent, |r| {
    let open_loop = r.measured().open_loop.as_ref().filter(|open_loop| open_loop.planned > 0)?;
    some(100.0 * open_loop.started as f64 / open_loop.planned as f64)
})
.called("Arrivals offered of those asked for", "arrivals offered")
.precision(Precision::UpTo(3))
.defined(OPEN, "offered_rate")
.gate(Gate::named("offered", "% of the arrivals that were due"), Better::More);

const OPEN: &str = "Open loop";

/// How well the schedule was kept.
pub(super) static KEPT: &[Figure] = &[
    Figure::new("clients_standing_by", Quantity::Count, |r| {
        r.open_loop()?;
        some(u64::from(r.runs().first()?.clients))
    })
    .called("Clients standing by", "clients standing by")
    .column("clients", "stand by", 3)
    .defined(OPEN, "")
    .detail(),
    OFFERED,
    Figure::new("pages_per_s", Quantity::PerSecond, |r| some(r.open_loop()?.achieved_rate))
        .called("Pages achieved", "pages achieved")
        .column("achieved", "pages/s", Figure::ALWAYS)
        .defined(OPEN, ""),
    Figure::new("awake_percent", Quantity::Percent, |r| some(r.open_loop()?.awake_percent))
        .called("Generator awake", "generator awake")
        .precision(Precision::Exactly(0))
        .column("awake", "% of a CPU", 1)
        .defined(OPEN, "spun_ns"),
];
