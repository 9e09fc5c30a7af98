//! The table of all figures: the names of each, what it counts, how precisely it is shown, where it is defined, and
//! how its value is computed. Formats, comparisons and thresholds use it; a figure that is added here is in all of
//! them.
//!
//! The entries are beside the formulas: figures of a level in `level`, of the host in `host`, and so on. The order of
//! the table is the order of columns in CSV, so new groups come last. Each format decides which groups it shows, and
//! where; words, units, decimals and values come from here.

use std::fmt;

use super::host::HostFigures;
use super::quantity::Quantity;
use super::reading::Reading;
use super::{counters, generator, host, http2, http3, level, path, times, tls, unanswered};
use crate::{origin_figures, server_figures};

/// A value, in the base unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count: exact.
    Count(u64),
    /// A computed value.
    Number(f64),
    /// Computed from waits that had not ended: the true value is at least this.
    AtLeast(f64),
}

impl Value {
    /// As a number; counts above 2⁵³ lose their last digits.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Count(count) => count as f64,
            Value::Number(number) | Value::AtLeast(number) => number,
        }
    }

    /// A computed value, which may be a lower bound.
    pub fn bounded(number: f64, is_at_least: bool) -> Value {
        if is_at_least { Value::AtLeast(number) } else { Value::Number(number) }
    }

    /// Whether the true value may be higher.
    pub fn is_at_least(self) -> bool {
        matches!(self, Value::AtLeast(_))
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

/// The subject of a figure. Formats use it to choose what to show together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Events per second, and the length of the measurement.
    Rates,
    /// How much was transferred: bits, pages, requests in progress.
    Volume,
    /// Response times.
    Latency,
    /// The parts of a response time, and page times.
    Parts,
    /// Sizes of responses.
    Sizes,
    /// Counters of requests, connections and pages.
    Counters,
    /// How equally clients were served.
    Fairness,
    /// What the load generator used and added.
    Generator,
    /// The server's CPU time and memory, which are in every report.
    Machine,
    /// What the server's processes did in detail.
    Server,
    /// Raw numbers of the server's processes.
    ServerUse,
    /// Whether the figures contradict each other.
    Identities,
    /// What the kernel counted on the generator's host.
    Host,
    /// Network traffic towards the target, for either host.
    Network,
    /// What happened to an open loop's schedule.
    OpenLoop,
    /// What an agent read on the server's host.
    ServerHost,
    /// What the server behind a proxy did.
    Origin,
    /// Raw numbers of the origin.
    OriginUse,
    /// Streams and frames of HTTP/2.
    Http2,
    /// Streams of HTTP/3, and what QUIC sent and received.
    Http3,
    /// What happened to TLS handshakes.
    Tls,
    /// Requests without a valid answer, and which response times are lower bounds because of them.
    Unanswered,
    /// What the relay of a path carried, lost and added.
    Path,
}

/// Number of decimals shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Three digits, in the unit that suits the values: s, ms or µs; B to TB; kbit/s to Gbit/s.
    Scaled,
    /// In the usual unit, as many decimals as the values need, at most this many.
    UpTo(u8),
    /// In the usual unit, always with this many decimals.
    Exactly(u8),
}

/// Whether more of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is.
    More,
    /// Less is.
    Less,
    /// It depends.
    Neither,
}

/// How prominent a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// One of the few figures in a summary.
    Headline,
    /// In tables with a row for each level.
    Overview,
    /// In complete listings only.
    Detail,
}

/// The row of `docs/measurement.md` that defines a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defined {
    /// The beginning of the heading above it.
    pub section: &'static str,
    /// The name in the first column; empty if the heading itself is the definition.
    pub name: &'static str,
}

/// The name of a metric in Prometheus, with the label that distinguishes it from others of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// With the unit, as `promtool check metrics` requires; counters end in `_total`.
    pub name: &'static str,
    /// Name and value of the label, if it has one.
    pub label: Option<(&'static str, &'static str)>,
}

/// A figure in thresholds and comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The name in conditions.
    pub name: &'static str,
    /// Description for help texts: `requests/s`.
    pub help: &'static str,
    /// Whether changes are differences instead of ratios, because the value is often 0.
    pub differs: bool,
    /// Whether every comparison has it; otherwise only those that name it.
    pub compared: bool,
    /// Whether it concerns clients; otherwise it concerns a machine.
    pub of_clients: bool,
    /// The words for a better and a worse value.
    pub words: (&'static str, &'static str),
}

impl Gate {
    /// A figure that every comparison has.
    pub(crate) const fn compared(name: &'static str, help: &'static str) -> Gate {
        let words = ("faster", "slower");
        Gate { name, help, differs: false, compared: true, of_clients: true, words }
    }

    /// A figure for conditions only.
    pub(crate) const fn named(name: &'static str, help: &'static str) -> Gate {
        Gate { compared: false, ..Gate::compared(name, help) }
    }

    pub(crate) const fn differs(self) -> Gate {
        Gate { differs: true, ..self }
    }

    pub(crate) const fn of_machines(self) -> Gate {
        Gate { of_clients: false, ..self }
    }

    pub(crate) const fn words(self, better: &'static str, worse: &'static str) -> Gate {
        Gate { words: (better, worse), ..self }
    }
}

/// How a value is computed.
#[derive(Clone, Copy, Debug)]
enum Source {
    Level(fn(&Reading<'_>) -> Option<Value>),
    Host(fn(&HostFigures) -> Option<Value>),
}

/// One figure. Figures with the same key are equal.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its stable name, with its unit: the column in CSV.
    pub key: &'static str,
    /// What it counts.
    pub quantity: Quantity,
    /// How precisely it is shown.
    pub precision: Precision,
    /// Where it is defined.
    pub defined: Defined,
    /// Whether more of it is better.
    pub better: Better,
    /// How prominent it is.
    pub rank: Rank,
    /// Its long name: `Server CPU in user mode`.
    pub long: &'static str,
    /// Its name in the table of a summary: `server CPU`.
    pub short: &'static str,
    /// Head of a narrow column, in two lines; `*` stands for the unit. Empty if terminals do not show it.
    pub head: (&'static str, &'static str),
    /// How long its column stays in a narrow table: the lowest is dropped first, [`Figure::ALWAYS`] never.
    pub stays: u8,
    /// Whether it counts something rare, so that a column of zeros is left out.
    pub is_seldom: bool,
    /// Its path among the computed figures in JSON: `figures.request_rate`. Several with the same path make a list.
    pub json: Option<&'static str>,
    /// Its metric in Prometheus.
    pub prometheus: Option<Exported>,
    /// Its metric in OpenTelemetry, and the unit there (UCUM).
    pub otel: Option<(&'static str, &'static str)>,
    /// Its role in thresholds and comparisons, if any.
    pub gate: Option<Gate>,
    source: Source,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Figure) -> bool {
        self.key == other.key
    }
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

/// Any kind of value as `Some`.
pub(crate) fn some(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

impl Figure {
    /// For a column that is never dropped.
    pub const ALWAYS: u8 = u8::MAX;

    /// A figure of an iteration or a level.
    pub(crate) const fn new(
        key: &'static str,
        quantity: Quantity,
        of: fn(&Reading<'_>) -> Option<Value>,
    ) -> Figure {
        Figure::from(key, quantity, Source::Level(of))
    }

    /// A figure of a host: of the generator's, and of the server's if an agent monitored it.
    pub(crate) const fn of_host(
        key: &'static str,
        quantity: Quantity,
        of: fn(&HostFigures) -> Option<Value>,
    ) -> Figure {
        Figure::from(key, quantity, Source::Host(of))
    }

    const fn from(key: &'static str, quantity: Quantity, source: Source) -> Figure {
        let precision = match quantity {
            Quantity::Seconds | Quantity::Bytes | Quantity::BytesPerSecond => Precision::Scaled,
            Quantity::Percent => Precision::Exactly(1),
            Quantity::Share => Precision::Exactly(4),
            Quantity::Count => Precision::Exactly(0),
            Quantity::PerMinute => Precision::UpTo(1),
            _ => Precision::UpTo(2),
        };
        Figure {
            key,
            quantity,
            precision,
            defined: Defined { section: "", name: "" },
            better: Better::Neither,
            rank: Rank::Overview,
            long: key,
            short: key,
            head: ("", ""),
            stays: 0,
            is_seldom: false,
            json: None,
            prometheus: None,
            otel: None,
            gate: None,
            source,
        }
    }

    /// Its names: in headings, and in summaries.
    pub(crate) const fn called(self, long: &'static str, short: &'static str) -> Figure {
        Figure { long, short, ..self }
    }

    /// The head of its column in narrow tables, and how long the column stays.
    pub(crate) const fn column(self, name: &'static str, unit: &'static str, stays: u8) -> Figure {
        Figure { head: (name, unit), stays, ..self }
    }

    pub(crate) const fn defined(self, section: &'static str, name: &'static str) -> Figure {
        Figure { defined: Defined { section, name }, ..self }
    }

    pub(crate) const fn precision(self, precision: Precision) -> Figure {
        Figure { precision, ..self }
    }

    pub(crate) const fn json(self, place: &'static str) -> Figure {
        Figure { json: Some(place), ..self }
    }

    pub(crate) const fn prometheus(self, name: &'static str) -> Figure {
        Figure { prometheus: Some(Exported { name, label: None }), ..self }
    }

    pub(crate) const fn labelled(
        self,
        name: &'static str,
        label: &'static str,
        value: &'static str,
    ) -> Figure {
        Figure { prometheus: Some(Exported { name, label: Some((label, value)) }), ..self }
    }

    pub(crate) const fn otel(self, name: &'static str, unit: &'static str) -> Figure {
        Figure { otel: Some((name, unit)), ..self }
    }

    /// Its role in thresholds and comparisons, and which values are better.
    pub(crate) const fn gate(self, gate: Gate, better: Better) -> Figure {
        Figure { gate: Some(gate), better, ..self }
    }

    pub(crate) const fn headline(self) -> Figure {
        Figure { rank: Rank::Headline, ..self }
    }

    pub(crate) const fn detail(self) -> Figure {
        Figure { rank: Rank::Detail, ..self }
    }

    /// Counts something rare.
    pub(crate) const fn seldom(self) -> Figure {
        Figure { is_seldom: true, ..self }
    }

    pub(crate) const fn overview(self) -> Figure {
        Figure { rank: Rank::Overview, ..self }
    }

    /// The same for a number of bytes.
    pub(crate) const fn in_bytes(self) -> Figure {
        Figure { quantity: Quantity::Bytes, precision: Precision::Scaled, ..self }
    }

    /// Its value in an iteration or a level; `None` if what it needs was not measured.
    pub fn value(&self, reading: &Reading<'_>) -> Option<Value> {
        match self.source {
            Source::Level(of) => of(reading),
            Source::Host(of) => reading.host().and_then(of),
        }
    }

    /// Its value for one host; `None` for figures of levels.
    pub fn value_of(&self, host: &HostFigures) -> Option<Value> {
        match self.source {
            Source::Level(_) => None,
            Source::Host(of) => of(host),
        }
    }
}

/// Every figure, by group. A group may occur more than once.
pub static TABLE: [(Group, &[Figure]); 41] = [
    (Group::Rates, level::RATES),
    (Group::Volume, level::VOLUME),
    (Group::Latency, level::LATENCY),
    (Group::Parts, times::CONNECT),
    (Group::Parts, times::FIRST_BYTE),
    (Group::Parts, times::PAGE),
    (Group::Sizes, counters::SIZES),
    (Group::Counters, counters::COUNTERS),
    (Group::Fairness, level::FAIRNESS),
    (Group::Generator, generator::USE),
    (Group::ServerUse, server_figures::CPU_USE),
    (Group::Identities, level::IDENTITIES),
    (Group::Host, host::TCP),
    (Group::OpenLoop, generator::ARRIVALS),
    (Group::OpenLoop, times::SCHEDULE_LAG),
    (Group::OpenLoop, times::LATENCY_UNCORRECTED),
    (Group::OpenLoop, times::FIRST_BYTE_UNCORRECTED),
    (Group::Server, server_figures::COST),
    (Group::ServerUse, server_figures::PROCESS_USE),
    (Group::Host, host::COUNTED),
    (Group::ServerHost, host::SERVER_HOST),
    (Group::OriginUse, origin_figures::USE),
    (Group::Origin, origin_figures::ASKED),
    (Group::Parts, level::PARTS),
    (Group::Generator, generator::SHARES),
    (Group::Machine, server_figures::MACHINE),
    (Group::Server, server_figures::PROCESSES),
    (Group::Fairness, level::FAIRNESS_TIMES),
    (Group::OpenLoop, generator::KEPT),
    (Group::Origin, origin_figures::MACHINE),
    (Group::Network, host::NETWORK),
    (Group::Counters, counters::MORE),
    (Group::Http2, http2::STREAMS),
    (Group::Tls, tls::HANDSHAKES),
    (Group::Tls, times::TLS_HANDSHAKE),
    (Group::Unanswered, unanswered::UNANSWERED),
    (Group::Parts, times::P99_999),
    (Group::Http3, http3::STREAMS),
    (Group::Http3, http3::DATAGRAMS),
    (Group::Network, host::NETWORK_BYTES),
    (Group::Path, path::CARRIED),
];

/// Every figure, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    TABLE.iter().flat_map(|(_, figures)| figures.iter())
}

/// The figures of a group, in the order of the table.
pub fn of_group(group: Group) -> impl Iterator<Item = &'static Figure> {
    TABLE.iter().filter(move |(of, _)| *of == group).flat_map(|(_, figures)| figures.iter())
}

/// The figure with this key.
pub fn figure(key: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.key == key)
}

/// The figures that thresholds and comparisons use, in the order of the table.
pub fn gated() -> impl Iterator<Item = &'static Figure> {
    all().filter(|figure| figure.gate.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::iteration::IterationRecord;

    #[test]
    fn no_two_figures_share_a_name() {
        let names: [fn(&Figure) -> Option<String>; 4] = [
            |figure| Some(figure.key.to_owned()),
            |figure| Some(format!("{:?}", figure.prometheus?)),
            |figure| Some(figure.otel?.0.to_owned()),
            |figure| Some(figure.gate?.name.to_owned()),
        ];
        for of in names {
            let mut known = BTreeSet::new();
            for name in all().filter_map(of) {
                assert!(known.insert(name.clone()), "{name}");
            }
        }
    }

    #[test]
    fn unmeasured_figures_have_no_value() {
        let nothing = IterationRecord::default();
        let reading = Reading::of_run(&nothing);
        // Counts are 0 if nothing happened; no other figure is.
        for figure in all().filter(|figure| figure.quantity != Quantity::Count) {
            let value = figure.value(&reading).map(Value::as_f64);
            let is_counted = figure.quantity == Quantity::Bytes || figure.key == "test_time_s";
            assert!(value.is_none() || (is_counted && value == Some(0.0)), "{figure:?}: {value:?}");
        }
    }

    #[test]
    fn a_figure_with_a_column_has_a_head_for_it() {
        for figure in all() {
            assert!(!figure.long.is_empty() && !figure.short.is_empty(), "{figure:?}");
            assert!(figure.rank == Rank::Detail || figure.long != figure.key, "{figure:?} has no words");
        }
    }
}
