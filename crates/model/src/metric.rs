//! The headline figures by the names that comparisons and thresholds use, and their values in an iteration or a level.
//!
//! No figure is defined here: every value is one of [`Figures`], of a histogram, or of the server's own CPU time, as
//! `docs/measurement.md` defines it. What a name reads as stands in [`crate::threshold`]'s grammar.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::figures::Figures;
use crate::metrics::{Measured, fairness};
use crate::record::{IterationRecord, RunRecord};
use crate::server_figures::while_read;
use crate::units::NANOS_PER_SECOND;

/// A headline figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// `rate`: valid responses per second.
    Rate,
    /// `connects`: connections established per second.
    Connects,
    /// `throughput`: bits of valid responses per second.
    Throughput,
    /// `avg`: mean response time.
    Mean,
    /// `min`: shortest response time, exactly.
    Min,
    /// `max`: longest response time, exactly.
    Max,
    /// `med` and `p(N)`: response time at a percentile, above 0 and at most 100.
    Percentile(f64),
    /// `errors`: the error level, in percent.
    Errors,
    /// `offered`: open loop: arrivals that began a page, in percent of those that were due.
    Offered,
    /// `fairness`: Jain's index over the clients' completed pages, 1 where all got the same.
    Fairness,
    /// `client-cpu`: CPU time of the generator per ended request.
    ClientCpu,
    /// `server-cpu`: CPU time of the server's processes per ended request, where they could be asked.
    ServerCpu,
}

/// What a metric's value counts, always in the base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// 1/s.
    PerSecond,
    /// bit/s.
    BitsPerSecond,
    /// Seconds.
    Seconds,
    /// Percent.
    Percent,
    /// A plain number between 0 and 1.
    Share,
}

impl Metric {
    /// What its value counts.
    pub fn quantity(self) -> Quantity {
        match self {
            Metric::Rate | Metric::Connects => Quantity::PerSecond,
            Metric::Throughput => Quantity::BitsPerSecond,
            Metric::Errors | Metric::Offered => Quantity::Percent,
            Metric::Fairness => Quantity::Share,
            _ => Quantity::Seconds,
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        let quantities = [Quantity::PerSecond, Quantity::BitsPerSecond, Quantity::Share];
        self == Metric::Offered || quantities.contains(&self.quantity())
    }

    /// Whether more load brings more of it, as long as the server keeps up.
    pub fn grows_with_load(self) -> bool {
        matches!(self.quantity(), Quantity::PerSecond | Quantity::BitsPerSecond)
    }
}

impl fmt::Display for Metric {
    /// The name that [`crate::threshold`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Metric::Rate => "rate",
            Metric::Connects => "connects",
            Metric::Throughput => "throughput",
            Metric::Mean => "avg",
            Metric::Min => "min",
            Metric::Max => "max",
            Metric::Percentile(50.0) => "med",
            Metric::Percentile(percentile) => return write!(f, "p({percentile})"),
            Metric::Errors => "errors",
            Metric::Offered => "offered",
            Metric::Fairness => "fairness",
            Metric::ClientCpu => "client-cpu",
            Metric::ServerCpu => "server-cpu",
        })
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Metric {
    fn schema_name() -> Cow<'static, str> {
        "Metric".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "rate and connects in 1/s; throughput in bit/s; avg, min, med, max, p(N), client-cpu and server-cpu in s; errors and offered in %; fairness without unit"
        })
    }
}

/// What a metric's value is read from: one iteration, or all of a level.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    measured: Cow<'a, Measured>,
    figures: Figures,
    /// CPU time of the server, and the requests that ended in those iterations for which it was asked.
    server: Option<(u64, f64)>,
}

impl<'a> Reading<'a> {
    /// Reads one iteration.
    pub fn of(run: &'a IterationRecord) -> Reading<'a> {
        Reading::new(Cow::Borrowed(&run.measured), &[run])
    }

    /// Reads all iterations of a level as one measurement.
    pub fn of_level(runs: &[&'a IterationRecord]) -> Reading<'a> {
        match runs {
            [run] => Reading::of(run),
            _ => Reading::new(Cow::Owned(RunRecord::merged(runs)), runs),
        }
    }

    fn new(measured: Cow<'a, Measured>, runs: &[&IterationRecord]) -> Reading<'a> {
        let mut server = None;
        for run in runs {
            let Some(used) = &run.server else { continue };
            let (cpu, ended) = server.get_or_insert((0_u64, 0.0));
            *cpu = cpu.saturating_add(used.user_ns).saturating_add(used.system_ns);
            *ended += while_read(run).1;
        }
        Reading { figures: Figures::of(&measured), measured, server }
    }

    /// The value in the base unit of [`Metric::quantity`]; `None` where nothing was measured that it could be of.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let figures = &self.figures;
        let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SECOND as f64;
        let windowed = figures.test_time_s > 0.0;
        let ended = self.measured.counts.ended();
        let answered = self.measured.response.count > 0;
        match metric {
            Metric::Rate => windowed.then_some(figures.request_rate),
            Metric::Connects => windowed.then_some(figures.connection_rate),
            Metric::Throughput => windowed.then_some(figures.throughput_bps),
            Metric::Mean => answered.then_some(figures.latency_mean_s),
            Metric::Min => answered.then(|| seconds(self.measured.response.min_or_zero())),
            Metric::Max => answered.then_some(figures.latency_max_s),
            Metric::Percentile(percentile) => {
                let histogram = &self.measured.histograms.response;
                (!histogram.is_empty()).then(|| seconds(histogram.value_at_percentile(percentile)))
            }
            // Where nothing could even be tried there is no share of errors.
            Metric::Errors => (ended > 0 || self.measured.counts.connections_failed > 0)
                .then_some(figures.error_level_percent),
            Metric::Offered => {
                let open_loop = self.measured.open_loop.as_ref().filter(|open_loop| open_loop.planned > 0)?;
                Some(100.0 * open_loop.started as f64 / open_loop.planned as f64)
            }
            Metric::Fairness => fairness(&self.measured.clients).map(|served| served.jain_pages),
            Metric::ClientCpu => (ended > 0 && figures.generator_cpu_per_request_s > 0.0)
                .then_some(figures.generator_cpu_per_request_s),
            // A server whose processes could not be looked into reports no time at all.
            Metric::ServerCpu => self
                .server
                .filter(|(cpu, ended)| *cpu > 0 && *ended > 0.0)
                .map(|(cpu, ended)| seconds(cpu) / ended),
        }
    }
}
