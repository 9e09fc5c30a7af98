//! The quantities in which published results are given, with their units and our figure for each.

use serde::Serialize;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::Measured;

use super::Document;

/// What a published number measures. Names are those of the columns in `published.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Connections per second.
    ConnectionRate,
    /// Requests per second.
    RequestRate,
    /// Errors per second.
    ErrorRate,
    /// Mean response time, in seconds.
    Latency,
    /// Longest response time, in seconds.
    LatencyMax,
    /// Data transfer rate, in bit/s; printed in Mbit/s.
    Throughput,
    /// What a waiting client receives, in bytes/s.
    ClientThroughput,
    /// Pages per minute, truncated.
    WebstoneNumber,
    /// Pages of the whole run.
    Pages,
    /// Errors of the whole run.
    Errors,
    /// Connections of the whole run.
    Connects,
    /// Mean time to connect, in seconds.
    ConnectMean,
    /// Longest time to connect, in seconds.
    ConnectMax,
    /// Bytes of the whole run.
    BytesMoved,
    /// Times that a page was fetched.
    Hits,
    /// Sum of a page's times, in seconds.
    PageTime,
    /// Longest of a page's times, in seconds.
    PageTimeMax,
    /// Sum of a page's connect times, in seconds.
    ConnectTime,
    /// Bytes moved for a page.
    PageBytes,
    /// Size of a page, in bytes.
    PageSize,
    /// Length of a batch of requests, in seconds.
    Duration,
    /// Gain over one CPU, in percent.
    Scaling,
    /// Sum of all response times of a run, in seconds.
    CumulativeTime,
    /// Bytes of bodies of the whole run.
    BodyBytes,
    /// Bytes of heads of the whole run.
    HeadBytes,
    /// Mean size of a body, in bytes.
    BodyMean,
    /// Mean size of an answer, in bytes.
    RetrievalMean,
    /// Rate of one transfer in Kbytes/s, of 1,000 bytes as its durations show; the document does not say.
    TransferRate,
}

impl Quantity {
    /// The name of the column.
    pub fn name(self) -> &'static str {
        self.described().0
    }

    /// The unit that values are in; empty for a number of things.
    pub fn unit(self) -> &'static str {
        self.described().1
    }

    /// A document's number times this factor is in [`Quantity::unit`].
    pub(crate) fn factor(self, document: &Document) -> f64 {
        if self == Quantity::Throughput { document.mbit_bits } else { 1.0 }
    }

    /// The unit that documents print, for headings of tables that show their digits.
    pub(super) fn printed_unit(self, document: &Document) -> &'static str {
        match self {
            Quantity::Throughput if document.mbit_bits == 1e6 => "Mbit/s",
            Quantity::Throughput => "Mbit/s (2^20)",
            other => other.unit(),
        }
    }

    fn described(self) -> (&'static str, &'static str) {
        match self {
            Quantity::ConnectionRate => ("connections", "1/s"),
            Quantity::RequestRate => ("requests", "1/s"),
            Quantity::ErrorRate => ("errors", "1/s"),
            Quantity::Latency => ("latency", "s"),
            Quantity::LatencyMax => ("latency max", "s"),
            Quantity::Throughput => ("throughput", "bit/s"),
            Quantity::ClientThroughput => ("client throughput", "bytes/s"),
            Quantity::WebstoneNumber => ("WEBSTONE number", "1/min"),
            Quantity::Pages => ("pages", ""),
            Quantity::Errors => ("errors", ""),
            Quantity::Connects => ("connects", ""),
            Quantity::ConnectMean => ("connect mean", "s"),
            Quantity::ConnectMax => ("connect max", "s"),
            Quantity::BytesMoved => ("data moved", "bytes"),
            Quantity::Hits => ("hits", ""),
            Quantity::PageTime => ("page time", "s"),
            Quantity::PageTimeMax => ("page time max", "s"),
            Quantity::ConnectTime => ("connect time", "s"),
            Quantity::PageBytes => ("data moved", "bytes"),
            Quantity::PageSize => ("page size", "bytes"),
            Quantity::Duration => ("duration", "s"),
            Quantity::Scaling => ("over 1 CPU", "%"),
            Quantity::CumulativeTime => ("cumulative time", "s"),
            Quantity::BodyBytes => ("body bytes", "bytes"),
            Quantity::HeadBytes => ("header bytes", "bytes"),
            Quantity::BodyMean => ("body mean", "bytes"),
            Quantity::RetrievalMean => ("retrieval mean", "bytes"),
            Quantity::TransferRate => ("transfer rate", "Kbytes/s"),
        }
    }

    /// The same figure of a measured level, in [`Quantity::unit`]; `None` where there is none, or where a total depends
    /// on how long the run was.
    pub fn value(self, figures: &Figures, measured: &Measured) -> Option<f64> {
        let answered = measured.counts.succeeded > 0;
        let connected = measured.connect.count > 0;
        match self {
            Quantity::ConnectionRate => Some(figures.connection_rate),
            Quantity::RequestRate => Some(figures.request_rate),
            Quantity::ErrorRate => Some(figures.error_rate),
            Quantity::Latency => answered.then_some(figures.latency_mean_s),
            Quantity::LatencyMax => answered.then_some(figures.latency_max_s),
            Quantity::Throughput => Some(figures.throughput_bps),
            Quantity::ClientThroughput => answered.then_some(figures.client_throughput_bps / 8.0),
            Quantity::WebstoneNumber => Some(figures.webstone_number as f64),
            Quantity::BodyMean => answered.then(|| measured.body_bytes.mean()),
            Quantity::RetrievalMean => answered.then(|| measured.response_bytes.mean()),
            Quantity::TransferRate => Some(figures.throughput_bps / 8e3),
            Quantity::ConnectMean => connected.then_some(figures.connect_mean_s),
            Quantity::ConnectMax => connected.then_some(measured.connect.max as f64 / 1e9),
            _ => None,
        }
    }
}
