//! The figures in comparisons and thresholds, by their names there: those of the table that have a [`Gate`], and the
//! response time at any percentile.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::figures::table::{self, Better, Figure, Gate};
use crate::figures::{generator, level};
use crate::server_figures;

pub use crate::figures::quantity::Quantity;
pub use crate::figures::reading::Reading;

/// The percentiles in every comparison.
const COMPARED: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// A figure to judge by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// A figure of the table that has a [`Gate`].
    Of(&'static Figure),
    /// `med` and `p(N)`: response time at a percentile, above 0 and at most 100.
    Percentile(f64),
}

impl Metric {
    /// `rate`: valid responses per second.
    pub const RATE: Metric = Metric::Of(&level::REQUEST_RATE);
    /// `connects`: connections established per second.
    pub const CONNECTS: Metric = Metric::Of(&level::CONNECTION_RATE);
    /// `throughput`: bits of valid responses per second.
    pub const THROUGHPUT: Metric = Metric::Of(&level::THROUGHPUT);
    /// `avg`: mean response time.
    pub const MEAN: Metric = Metric::Of(&level::LATENCY_MEAN);
    /// `errors`: the error level, in percent.
    pub const ERRORS: Metric = Metric::Of(&level::ERROR_LEVEL);
    /// `offered`: open loop: arrivals that began a page, in percent of those that were due.
    pub const OFFERED: Metric = Metric::Of(&generator::OFFERED);
    /// `server-cpu`: CPU time of the server's processes per ended request, if known.
    pub const SERVER_CPU: Metric = Metric::Of(&server_figures::CPU_PER_REQUEST);

    /// The metric with this name, except for `p(N)`; `None` if there is none.
    pub fn named(name: &str) -> Option<Metric> {
        match name {
            "med" => Some(Metric::Percentile(50.0)),
            _ => table::gated()
                .find(|figure| figure.gate.is_some_and(|gate| gate.name == name))
                .map(Metric::Of),
        }
    }

    /// All names with descriptions, those in every comparison first: for messages and help texts.
    pub fn names() -> Vec<(&'static str, &'static str)> {
        let others = table::gated().map(Metric::Of).filter(|it| it.gate().is_some_and(|gate| !gate.compared));
        let all = Metric::compared().into_iter().chain(others);
        all.filter_map(|metric| match metric {
            Metric::Of(figure) => figure.gate.map(|gate| (gate.name, gate.help)),
            Metric::Percentile(50.0) => Some(("med", "median response time")),
            Metric::Percentile(99.0) => Some(("p(99)", "response time at that percentile, or at any other")),
            Metric::Percentile(_) => None,
        })
        .collect()
    }

    /// The metrics in every comparison, in the order of reports: rates, response times, and costs.
    pub fn compared() -> Vec<Metric> {
        let figures = table::gated().filter(|figure| figure.gate.is_some_and(|gate| gate.compared));
        let mut metrics: Vec<Metric> =
            figures.map(Metric::Of).chain(COMPARED.map(Metric::Percentile)).collect();
        metrics.sort_by_key(|metric| match metric {
            Metric::Of(_) if *metric == Metric::RATE => 0,
            Metric::Of(_) if metric.grows_with_load() => 1,
            Metric::Of(_) if *metric == Metric::MEAN => 2,
            Metric::Percentile(_) => 3,
            Metric::Of(_) => 4,
        });
        metrics
    }

    fn gate(self) -> Option<Gate> {
        match self {
            Metric::Of(figure) => figure.gate,
            Metric::Percentile(_) => level::LATENCY_MEAN.gate,
        }
    }

    /// What its value counts.
    pub fn quantity(self) -> Quantity {
        match self {
            Metric::Of(figure) => figure.quantity,
            Metric::Percentile(_) => Quantity::Seconds,
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Metric::Of(figure) if figure.better == Better::More)
    }

    /// Whether it grows with the load as long as the server keeps up.
    pub fn grows_with_load(self) -> bool {
        self.quantity().is_rate()
    }

    /// Whether changes of it are differences instead of ratios, because it is often 0.
    pub fn differs(self) -> bool {
        self.gate().is_some_and(|gate| gate.differs)
    }

    /// The unit of a change: percent of the baseline; for differences percentage points, or no unit.
    pub fn unit_of_change(self) -> &'static str {
        match (self.differs(), self.quantity()) {
            (false, _) => "%",
            (true, Quantity::Percent) => "pp",
            (true, quantity) => quantity.base().name,
        }
    }

    /// Whether it concerns clients; otherwise it concerns machines.
    pub fn is_of_clients(self) -> bool {
        self.gate().is_none_or(|gate| gate.of_clients)
    }

    /// Whether it is a time that clients wait; CPU time is not.
    pub fn is_time_of_clients(self) -> bool {
        self.quantity() == Quantity::Seconds && self.is_of_clients()
    }

    /// The words for a better and a worse value.
    pub fn words(self) -> (&'static str, &'static str) {
        self.gate().map_or(("better", "worse"), |gate| gate.words)
    }

    /// Its value in the base unit of [`Metric::quantity`]; `None` if what it needs was not measured.
    pub fn value(self, reading: &Reading<'_>) -> Option<f64> {
        match self {
            Metric::Of(figure) => Some(figure.value(reading)?.as_f64()),
            Metric::Percentile(percentile) => reading.percentile(percentile),
        }
    }
}

impl fmt::Display for Metric {
    /// The name in thresholds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Of(figure) => f.write_str(figure.gate.map_or(figure.key, |gate| gate.name)),
            Metric::Percentile(50.0) => f.write_str("med"),
            Metric::Percentile(percentile) => write!(f, "p({percentile})"),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Metric {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Metric".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "The name of a figure as conditions write it (docs/compare.md); values are in s, 1/s, bit/s, % or without unit"
        })
    }
}
