//! Metrics for OpenTelemetry: an `ExportMetricsServiceRequest` in the JSON encoding of OTLP, ready to be posted to a
//! collector's `/v1/metrics` or read by its file receiver.
//!
//! A record is a resource, a timed run is a set of data points from the opening of its window to its end (delta
//! temporality: windows do not follow on one another). Response times are the semantic conventions'
//! `http.client.request.duration` in seconds, body sizes their `http.client.response.body.size`; what they have no name
//! for begins with `webstone.`. Distributions are exponential histograms, which keep what HdrHistograms hold to within
//! their own resolution.
//!
//! JSON as OTLP wants it: field names in lowerCamelCase, 64-bit integers as strings, enums as numbers.

use serde::Serialize;
use webstone_judge::verdict::{NoiseBound, Verdict};
use webstone_measure::figures::table::Defined;
use webstone_measure::figures::{Figure, Quantity, Reading, Value, table};
use webstone_measure::metrics::{Histogram, Moments};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::HttpVersion;
use webstone_workload::target::Target;

use crate::definitions::definition;
use crate::judged::Judged;
use crate::numbers::in_seconds;
use crate::summary::TIMES;

/// Semantic conventions that names are taken from.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.27.0";
/// `AGGREGATION_TEMPORALITY_DELTA`.
const DELTA: u8 = 1;
/// Timed runs of a record that are exported.
const ITERATIONS_MAX: usize = 1_000;
/// Buckets of an exponential histogram, as SDKs have them at most.
const BUCKETS_MAX: i32 = 160;
/// Finest scale: its buckets are 0.27 % wide, which is about what an HdrHistogram of three digits tells apart.
const SCALE_MAX: i32 = 8;

/// How far noise may have moved the figures of a level: what it is called, what it says, and how it is read.
type Factor = (&'static str, &'static str, fn(&NoiseBound) -> Option<f64>);

/// Both have points only where noise matters and has a bound.
const NOISE: [Factor; 2] = [
    (
        "webstone.noise.rate_factor",
        "Undisturbed, the request rate of the level is at most this times the measured one",
        NoiseBound::rate_factor,
    ),
    (
        "webstone.noise.cpu_factor",
        "Undisturbed, the CPU time per request at the level is at least the measured one divided by this",
        NoiseBound::cpu_time_factor,
    ),
];

/// The request.
pub(crate) fn request(records: &[Judged<'_>]) -> Request {
    Request {
        resource_metrics: records
            .iter()
            .map(|judged| resource_metrics(judged.record, &judged.verdict))
            .collect(),
    }
}

fn resource_metrics(record: &RunRecord, verdict: &Verdict) -> ResourceMetrics {
    let mut resource = vec![
        text("service.name", &record.tool.name),
        text("service.version", &record.tool.version),
        text("webstone.run.id", &record.id),
        text("webstone.workload.name", &record.workload.name),
        text("webstone.workload.sha256", &record.workload_sha256),
    ];
    resource.push(text("webstone.verdict", verdict.standing.word()));
    resource.extend(record.target.server.as_ref().map(|server| text("webstone.target.server", server)));
    for (name, key) in [("host.name", "hostname"), ("os.version", "kernel.release")] {
        let value = record.environment.get(key).and_then(serde_json::Value::as_str);
        resource.extend(value.map(|value| text(name, value)));
    }
    let omitted = record.iterations.len().saturating_sub(ITERATIONS_MAX) as u64;
    if omitted > 0 {
        resource.push(whole("webstone.export.omitted_iterations", omitted));
    }
    ResourceMetrics {
        resource: Resource { attributes: resource },
        scope_metrics: vec![ScopeMetrics {
            scope: Scope { name: "webstone".to_owned(), version: record.tool.version.clone() },
            metrics: metrics(record, verdict),
            schema_url: SCHEMA_URL,
        }],
        schema_url: SCHEMA_URL,
    }
}

fn metrics(record: &RunRecord, verdict: &Verdict) -> Vec<Metric> {
    let points: Vec<Points<'_>> = record
        .iterations
        .iter()
        .take(ITERATIONS_MAX)
        .map(|run| Points::of_iteration(record, verdict, run))
        .collect();
    let mut metrics = Vec::new();
    let [connect, first_byte, (_, _, response), page] = TIMES;
    let own =
        [connect, first_byte, page].map(|(name, text, of)| (format!("webstone.{name}.duration"), text, of));
    let text = "Start to last byte of requests that succeeded, connecting included";
    for (name, text, of) in
        [("http.client.request.duration".to_owned(), text, response)].into_iter().chain(own)
    {
        let made: Vec<_> = points.iter().filter_map(|it| it.exponential(of(&it.run.measured))).collect();
        metrics.extend((!made.is_empty()).then(|| Metric::new(&name, text, "s", Data::exponential(made))));
    }
    let sizes: Vec<_> = points.iter().filter_map(Points::body_sizes).collect();
    if !sizes.is_empty() {
        let data = Data::Histogram { aggregation_temporality: DELTA, data_points: sizes };
        metrics.push(Metric::new(
            "http.client.response.body.size",
            "Bodies of requests that succeeded",
            "By",
            data,
        ));
    }
    let errors: Vec<_> = points.iter().flat_map(Points::errors).collect();
    if !errors.is_empty() {
        let description = "Failed requests by class; error.type is the class";
        metrics.push(Metric::new("webstone.errors", description, "{request}", Data::sum(errors)));
    }
    for figure in table::all() {
        let Some((name, unit)) = figure.otel else { continue };
        let made: Vec<_> = points
            .iter()
            .filter_map(|p| Some(p.number(number(figure, figure.value(&p.reading)?), Vec::new())))
            .collect();
        // What is counted adds up over windows, what is computed does not.
        let data = match figure.quantity {
            Quantity::Count | Quantity::Bytes => Data::sum(made),
            _ => Data::Gauge { data_points: made },
        };
        metrics.push(Metric::new(name, &described(figure), unit, data));
    }
    for (name, text, of) in NOISE {
        let factors = points.iter().filter_map(|it| Some((it, of(&it.noise?)?)));
        let made = factors.map(|(it, factor)| it.number(Number::Double(factor), Vec::new())).collect();
        metrics.push(Metric::new(name, text, "1", Data::Gauge { data_points: made }));
    }
    // A metric without points says nothing, and collectors refuse it.
    metrics.retain(|metric| !metric.data.is_empty());
    metrics
}

/// A value in the unit that monitoring wants.
fn number(figure: &Figure, value: Value) -> Number {
    match value {
        Value::Count(count) => Number::Whole(count),
        Value::Number(number) | Value::AtLeast(number) => {
            Number::Double(number * figure.quantity.monitored().factor)
        }
    }
}

/// What a figure is: its words, and its definition.
fn described(figure: &Figure) -> String {
    let Defined { section, name } = figure.defined;
    definition(section, name)
        .map_or_else(|| figure.long.to_owned(), |it| format!("{}: {}", figure.long, it.sentence()))
}

/// A timed run with what all of its data points share.
struct Points<'a> {
    run: &'a IterationRecord,
    reading: Reading<'a>,
    /// How far noise may have moved the figures of its level.
    noise: Option<NoiseBound>,
    /// Attributes of the semantic conventions' metrics, with level and iteration.
    http: Vec<Attribute>,
    own: Vec<Attribute>,
    start: String,
    end: String,
}

impl<'a> Points<'a> {
    fn of_iteration(record: &RunRecord, verdict: &Verdict, run: &'a IterationRecord) -> Points<'a> {
        let start = run.started_at.parse::<jiff::Timestamp>().map_or(0, |at| at.as_nanosecond().max(0));
        let rate = run.rate.map(|rate| text("webstone.rate", &rate.to_string()));
        let own = vec![
            whole("webstone.clients", run.clients.into()),
            whole("webstone.iteration", run.iteration.into()),
            text("webstone.level.verdict", verdict.of_level(run.level()).word()),
        ];
        let own: Vec<_> = own.into_iter().chain(rate).collect();
        let mut http = vec![text("http.request.method", &record.spec.client.method)];
        let version = match record.spec.client.http {
            HttpVersion::Http10 => "1.0",
            HttpVersion::Http11 | HttpVersion::Auto => "1.1",
            HttpVersion::Http2 => "2",
            HttpVersion::Http3 => "3",
        };
        http.push(text("network.protocol.version", version));
        // Of several URLs, the first.
        let url = record.target.url.split(' ').next().unwrap_or_default();
        if let Ok((target, _)) = Target::split(url) {
            http.push(text("url.scheme", target.scheme.name()));
            http.push(text("server.address", &target.host));
            http.push(whole("server.port", target.port.into()));
        }
        http.extend(own.iter().cloned());
        Points {
            run,
            reading: Reading::of_run(run),
            noise: verdict.noise_of(run.level()),
            http,
            own,
            start: start.to_string(),
            end: (start + i128::from(run.measured.span_ns())).to_string(),
        }
    }

    fn number(&self, value: Number, more: Vec<Attribute>) -> NumberPoint {
        let mut attributes = self.own.clone();
        attributes.extend(more);
        NumberPoint {
            attributes,
            start_time_unix_nano: self.start.clone(),
            time_unix_nano: self.end.clone(),
            value,
        }
    }

    fn errors(&self) -> Vec<NumberPoint> {
        let classes = self.run.measured.errors.iter();
        classes
            .map(|(class, count, _)| {
                self.number(Number::Whole(count), vec![text("error.type", class.name())])
            })
            .collect()
    }

    fn exponential(&self, (histogram, moments): (&Histogram, &Moments)) -> Option<ExponentialPoint> {
        let last = histogram.buckets().last()?;
        let value_s =
            |(lowest, width, _): (u64, u64, u64)| in_seconds((lowest + width - 1).min(histogram.max()));
        // A value of 0 ns has no logarithm; it counts as zero.
        let zeros: u64 =
            histogram.buckets().filter(|bucket| value_s(*bucket) == 0.0).map(|bucket| bucket.2).sum();
        let above = || histogram.buckets().filter(|bucket| value_s(*bucket) > 0.0);
        let first_s = above().next().map_or(1.0, value_s);
        let last_s = value_s(last).max(first_s);
        let scale = (-10..=SCALE_MAX)
            .rev()
            .find(|scale| index(last_s, *scale) - index(first_s, *scale) < BUCKETS_MAX)
            .unwrap_or(-10);
        let offset = index(first_s, scale);
        let mut counts = vec![0_u64; (index(last_s, scale) - offset) as usize + 1];
        for bucket in above() {
            counts[(index(value_s(bucket), scale) - offset) as usize] += bucket.2;
        }
        Some(ExponentialPoint {
            attributes: self.http.clone(),
            start_time_unix_nano: self.start.clone(),
            time_unix_nano: self.end.clone(),
            count: histogram.len().to_string(),
            sum: moments.sum as f64 / NANOS_PER_SECOND as f64,
            scale,
            zero_count: zeros.to_string(),
            positive: Buckets { offset, bucket_counts: counts.iter().map(u64::to_string).collect() },
            min: in_seconds(moments.min_or_zero()),
            max: in_seconds(moments.max),
        })
    }

    /// Sizes have exact sums and no histogram: one bucket that holds them all.
    fn body_sizes(&self) -> Option<HistogramPoint> {
        let sizes = &self.run.measured.body_bytes;
        (sizes.count > 0).then(|| HistogramPoint {
            attributes: self.http.clone(),
            start_time_unix_nano: self.start.clone(),
            time_unix_nano: self.end.clone(),
            count: sizes.count.to_string(),
            sum: sizes.sum as f64,
            bucket_counts: vec![sizes.count.to_string()],
            explicit_bounds: Vec::new(),
            min: sizes.min_or_zero() as f64,
            max: sizes.max as f64,
        })
    }
}

/// The bucket of a value at a scale: bucket i holds (b^i, b^(i+1)] with b = 2^(2^−scale) (OpenTelemetry, metrics data
/// model, "Exponential Buckets").
fn index(value: f64, scale: i32) -> i32 {
    (value.log2() * f64::from(scale).exp2()).ceil() as i32 - 1
}

fn text(key: &str, value: &str) -> Attribute {
    Attribute { key: key.to_owned(), value: AnyValue::StringValue(value.to_owned()) }
}

fn whole(key: &str, value: u64) -> Attribute {
    Attribute { key: key.to_owned(), value: AnyValue::IntValue(value.to_string()) }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Resource,
    scope_metrics: Vec<ScopeMetrics>,
    schema_url: &'static str,
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<Metric>,
    schema_url: &'static str,
}

#[derive(Serialize)]
struct Scope {
    name: String,
    version: String,
}

#[derive(Serialize)]
struct Metric {
    name: String,
    description: String,
    unit: &'static str,
    #[serde(flatten)]
    data: Data,
}

impl Metric {
    fn new(name: &str, description: &str, unit: &'static str, data: Data) -> Metric {
        Metric { name: name.to_owned(), description: description.to_owned(), unit, data }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Data {
    Gauge { data_points: Vec<NumberPoint> },
    Sum { aggregation_temporality: u8, is_monotonic: bool, data_points: Vec<NumberPoint> },
    Histogram { aggregation_temporality: u8, data_points: Vec<HistogramPoint> },
    ExponentialHistogram { aggregation_temporality: u8, data_points: Vec<ExponentialPoint> },
}

impl Data {
    fn is_empty(&self) -> bool {
        match self {
            Data::Gauge { data_points } | Data::Sum { data_points, .. } => data_points.is_empty(),
            Data::Histogram { data_points, .. } => data_points.is_empty(),
            Data::ExponentialHistogram { data_points, .. } => data_points.is_empty(),
        }
    }

    fn sum(data_points: Vec<NumberPoint>) -> Data {
        Data::Sum { aggregation_temporality: DELTA, is_monotonic: true, data_points }
    }

    fn exponential(data_points: Vec<ExponentialPoint>) -> Data {
        Data::ExponentialHistogram { aggregation_temporality: DELTA, data_points }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NumberPoint {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    #[serde(flatten)]
    value: Number,
}

#[derive(Serialize)]
enum Number {
    #[serde(rename = "asDouble")]
    Double(f64),
    #[serde(rename = "asInt", serialize_with = "as_text")]
    Whole(u64),
}

fn as_text<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistogramPoint {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    count: String,
    sum: f64,
    bucket_counts: Vec<String>,
    explicit_bounds: Vec<f64>,
    min: f64,
    max: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExponentialPoint {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    count: String,
    sum: f64,
    scale: i32,
    zero_count: String,
    positive: Buckets,
    min: f64,
    max: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Buckets {
    offset: i32,
    bucket_counts: Vec<String>,
}

#[derive(Clone, Serialize)]
struct Attribute {
    key: String,
    value: AnyValue,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue {
    StringValue(String),
    IntValue(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds of the data model: at scale 0 buckets are (1, 2], (2, 4], …; at scale 1 they are halved by √2.
    #[test]
    fn buckets_are_open_below_and_closed_above() {
        for (value, scale, expected) in
            [(1.0, 0, -1), (1.5, 0, 0), (2.0, 0, 0), (2.1, 0, 1), (4.0, 1, 3), (0.5, 0, -2), (4.0, -1, 0)]
        {
            assert_eq!(index(value, scale), expected, "{value} at scale {scale}");
        }
    }
}
