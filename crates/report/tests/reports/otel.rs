//! The export for OpenTelemetry, read by the project's own published types: a second opinion on names, types and nesting.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use serde_json::Value;
use webstone_report::{Format, Options, render_all};

use crate::records;

/// Where something of ours is missing in theirs: their types drop a name that they do not know.
fn missing(ours: &Value, theirs: &Value, place: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().find_map(|(name, value)| {
            let place = format!("{place}.{name}");
            missing(value, theirs.get(name).unwrap_or(&Value::Null), &place)
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.find_map(|(index, (ours, theirs))| missing(ours, theirs, &format!("{place}[{index}]")))
        }
        (Value::Number(ours), Value::Number(theirs)) if ours.as_f64() == theirs.as_f64() => None,
        _ => (ours != theirs).then(|| format!("{place}: {ours} became {theirs}")),
    }
}

#[test]
fn the_published_types_read_every_field_and_lose_none() {
    for record in records::all() {
        let bytes = render_all(std::slice::from_ref(&record), Format::Otel, &Options::default()).unwrap();
        let request: ExportMetricsServiceRequest = serde_json::from_slice(&bytes).unwrap();
        let ours: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(missing(&ours, &serde_json::to_value(&request).unwrap(), &record.id), None);
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let response = metrics.iter().find(|metric| metric.name == "http.client.request.duration");
        let Some(Data::ExponentialHistogram(response)) = response.and_then(|metric| metric.data.as_ref())
        else {
            assert!(record.iterations.iter().all(|run| run.measured.histograms.response.is_empty()));
            continue;
        };
        let counted: u64 = response.data_points.iter().map(|point| point.count).sum();
        let held: u64 = record.iterations.iter().map(|run| run.measured.histograms.response.len()).sum();
        assert_eq!(counted, held, "{}", record.id);
        for point in &response.data_points {
            let buckets: u64 = point.positive.iter().flat_map(|buckets| &buckets.bucket_counts).sum();
            assert_eq!(buckets + point.zero_count, point.count);
        }
    }
}

#[test]
fn a_name_that_the_published_types_do_not_have_is_found() {
    let bytes = render_all(&[records::small()], Format::Otel, &Options::default()).unwrap();
    let misnamed = String::from_utf8(bytes).unwrap().replace("zeroCount", "zero_count");
    let request: ExportMetricsServiceRequest = serde_json::from_str(&misnamed).unwrap();
    let theirs = serde_json::to_value(&request).unwrap();
    let found = missing(&serde_json::from_str(&misnamed).unwrap(), &theirs, "small").unwrap();
    assert!(found.contains(".exponentialHistogram.dataPoints[0].zero_count"), "{found}");
}
