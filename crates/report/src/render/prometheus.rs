//! Metrics in the text format of Prometheus, version 0.0.4: for the textfile collector of node_exporter, for a
//! Pushgateway, for whatever scrapes a file.
//!
//! Names carry base units (seconds, bytes) and counters end in `_total`, as `promtool check metrics` demands. What was
//! counted in a timed run has the labels `run`, `clients` and `iteration`; verdicts and distributions are per level, all iterations
//! together; pages per run, the most requested ones. The number of series is bounded, and what was left out is counted in
//! `webstone_export_omitted`. There are no timestamps, because both collectors refuse them; when an iteration began is
//! a metric. Help texts are the definitions of `docs/measurement.md`.

use std::fmt::Write as _;

use webstone_judge::verdict::{Standing, Verdict};
use webstone_measure::errors::ErrorClass;
use webstone_measure::figures::table::Defined;
use webstone_measure::figures::{Figure, PERCENTILES, Quantity, Reading, Value, table};
use webstone_measure::keys::LevelKey;
use webstone_measure::metrics::{Histogram, Moments, times_at};
use webstone_measure::shown::shown;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{HostUse, IterationRecord, RunRecord};
use webstone_model::spec::HttpVersion;
use webstone_workload::{FileRequest, TlsPages};

use crate::Options;
use crate::definitions::{Definition, definition};
use crate::judged::Judged;
use crate::numbers::in_seconds;
use crate::summary::{self, TIMES};

/// Timed runs of a record that have metrics of their own.
const ITERATIONS_MAX: usize = 200;
/// Levels of a record that have distributions.
const LEVELS_MAX: usize = 50;
/// Bounds of buckets in seconds: 10 µs to 100 s, three per decade.
const BOUNDS_S: [f64; 22] = [
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// The metrics of all records, family by family.
pub(crate) fn render(records: &[Judged<'_>], options: &Options) -> String {
    let mut metrics = Metrics::default();
    for Judged { record, verdict, .. } in records {
        of_run(&mut metrics, record, verdict);
        let run = Labels::default().with("run", &record.id);
        for iteration in record.iterations.iter().take(ITERATIONS_MAX) {
            of_iteration(&mut metrics, &run, iteration);
            of_errors(&mut metrics, &run, record, iteration);
        }
        of_levels(&mut metrics, &run, record, verdict);
        of_pages(&mut metrics, &run, record, options.pages_max);
        let omitted = |held: usize, max: usize| held.saturating_sub(max) as f64;
        for (what, count) in [
            ("iterations", omitted(record.iterations.len(), ITERATIONS_MAX)),
            ("levels", omitted(record.levels().len(), LEVELS_MAX)),
            ("pages", omitted(record.page_totals().len(), options.pages_max)),
        ] {
            let help =
                "What the record holds and this export leaves out, so that the number of series stays small";
            metrics.add(Kind::Gauge, "webstone_export_omitted", help, &run.with("what", what), count);
        }
    }
    metrics.text()
}

fn of_run(metrics: &mut Metrics, record: &RunRecord, verdict: &Verdict) {
    let run = Labels::default().with("run", &record.id);
    let state = serde_json::to_value(record.state).unwrap_or_default();
    let info = run
        .with("version", &record.tool.version)
        .with("target", &record.target.url)
        .with("server", record.target.server.as_deref().unwrap_or_default())
        .with("workload", &record.workload.name)
        .with("workload_sha256", &record.workload_sha256)
        .with("state", state.as_str().unwrap_or_default());
    metrics.add(Kind::Gauge, "webstone_run_info", "What was run against what; always 1", &info, 1.0);
    for standing in Standing::ALL {
        let labels = run.with("verdict", &standing.word().to_ascii_lowercase());
        let help = "The verdict on the run: 1 for the one that it has (docs/measurement.md, Verdict)";
        let value = f64::from(u8::from(verdict.standing == standing));
        metrics.add(Kind::Gauge, "webstone_run_verdict", help, &labels, value);
    }
    if let Some(at_s) = unix_seconds(&record.started_at) {
        let help = "When the run began, in Unix time";
        metrics.add(Kind::Gauge, "webstone_run_start_time_seconds", help, &run, at_s);
    }
}

fn of_iteration(metrics: &mut Metrics, run: &Labels, iteration: &IterationRecord) {
    let labels = level_labels(run, iteration).with("iteration", &iteration.iteration.to_string());
    if let Some(at_s) = unix_seconds(&iteration.started_at) {
        let (name, text) =
            ("webstone_iteration_start_time_seconds", "When the measured window opened, in Unix time");
        metrics.add(Kind::Gauge, name, text, &labels, at_s);
    }
    let reading = Reading::of_run(iteration);
    for figure in table::all() {
        let Some((exported, value)) = figure.prometheus.zip(figure.value(&reading)) else { continue };
        let labels = exported.label.map_or_else(|| labels.clone(), |(name, value)| labels.with(name, value));
        let kind = if exported.name.ends_with("_total") { Kind::Counter } else { Kind::Gauge };
        metrics.add(kind, exported.name, &help_of(figure), &labels, monitored(figure, value));
    }
    for maker in iteration.load_makers() {
        let Some(host) = maker.host else { continue };
        let labels = match maker.generator {
            None => labels.clone(),
            Some(number) => labels.with("generator", &(number + 1).to_string()),
        };
        of_host(metrics, &labels, host);
    }
}

/// Failed requests by class; also, as zeros, the classes of the run's protocols that did not occur.
fn of_errors(metrics: &mut Metrics, run: &Labels, record: &RunRecord, iteration: &IterationRecord) {
    let labels = level_labels(run, iteration).with("iteration", &iteration.iteration.to_string());
    let occurred = |class| record.iterations.iter().any(|run| run.measured.errors.count(class) > 0);
    for class in ErrorClass::ALL.into_iter().filter(|class| can_occur(*class, record) || occurred(*class)) {
        let text = "Failed requests by class of error; docs/measurement.md, Errors, says when each occurs";
        let (labels, errors) = (labels.with("class", class.name()), iteration.measured.errors.count(class));
        metrics.add(Kind::Counter, "webstone_errors_total", text, &labels, errors as f64);
    }
}

/// Whether a class of error is of a protocol that a run speaks.
fn can_occur(class: ErrorClass, record: &RunRecord) -> bool {
    let is_https = |url: &str| url.starts_with("https:");
    let files = || record.workload.pages.iter().flat_map(|page| &page.files);
    let speaks_tls = || {
        record.target.url.split(' ').any(is_https)
            || record.workload.tls_pages() != TlsPages::None
            || files().any(|file| is_https(&file.url))
    };
    (!class.is_of_http2() || record.spec.client.http == HttpVersion::Http2)
        && (!class.is_of_http3() || record.spec.client.http == HttpVersion::Http3)
        && (!class.is_of_tls() || speaks_tls())
}

/// A value in the unit that monitoring wants.
fn monitored(figure: &Figure, value: Value) -> f64 {
    value.as_f64() * figure.quantity.monitored().factor
}

/// A figure's definition.
fn help_of(figure: &Figure) -> String {
    let Defined { section, name } = figure.defined;
    if definition(section, name).is_none() {
        return format!("{} (docs/measurement.md)", figure.long);
    }
    match figure.quantity {
        // Defined in bits and percent.
        Quantity::BitsPerSecond => help(section, name, " / 8"),
        Quantity::Percent => help(section, name, " / 100"),
        _ => help(section, name, ""),
    }
}

/// What each CPU and each interface of a host that made load did.
fn of_host(metrics: &mut Metrics, labels: &Labels, host: &HostUse) {
    let (section, counter) = ("The host", Kind::Counter);
    for cpu in &host.cpus {
        let of_cpu = labels.with("cpu", &cpu.cpu.to_string());
        for (mode, nanos) in [
            ("user", cpu.user_ns),
            ("system", cpu.system_ns),
            ("interrupt", cpu.interrupt_ns),
            ("idle", cpu.idle_ns),
            ("stolen", cpu.stolen_ns),
        ] {
            let text = help(section, "cpus", "");
            metrics.add(
                counter,
                "webstone_host_cpu_seconds_total",
                &text,
                &of_cpu.with("mode", mode),
                in_seconds(nanos),
            );
        }
    }
    for link in &host.links {
        let of_link = labels.with("interface", &link.name);
        for (way, bytes, packets) in [
            ("received", link.received_bytes, link.received_packets),
            ("sent", link.sent_bytes, link.sent_packets),
        ] {
            let (of_way, text) = (of_link.with("direction", way), help(section, "interfaces", ""));
            metrics.add(counter, "webstone_host_network_bytes_total", &text, &of_way, bytes as f64);
            metrics.add(counter, "webstone_host_network_packets_total", &text, &of_way, packets as f64);
        }
    }
}

/// Labels of an iteration's level: its clients, and in open loop its rate.
fn level_labels(run: &Labels, iteration: &IterationRecord) -> Labels {
    let labels = run.with("clients", &iteration.clients.to_string());
    iteration.rate.map_or_else(|| labels.clone(), |rate| labels.with("rate", &rate.to_string()))
}

/// What the figures of a level are worth, and how far noise may have moved them.
fn of_standing(metrics: &mut Metrics, level: &Labels, verdict: &Verdict, key: LevelKey) {
    for standing in Standing::ALL {
        let labels = level.with("verdict", &standing.word().to_ascii_lowercase());
        let help = "The verdict on the level: 1 for the one that it has (docs/measurement.md, Verdict)";
        let value = f64::from(u8::from(verdict.of_level(key) == standing));
        metrics.add(Kind::Gauge, "webstone_level_verdict", help, &labels, value);
    }
    let noise = verdict.noise_of(key);
    for (name, help, factor) in [
        (
            "webstone_level_noise_rate_factor",
            "Undisturbed, the request rate of the level is at most this times the measured one; absent without noise that matters, \
             and where it has no bound (docs/measurement.md, How far noise may have moved a figure)",
            noise.and_then(|noise| noise.rate_factor()),
        ),
        (
            "webstone_level_noise_cpu_factor",
            "Undisturbed, the CPU time per request at the level is at least the measured one divided by this; absent without noise \
             that matters, and where it has no bound (docs/measurement.md, How far noise may have moved a figure)",
            noise.and_then(|noise| noise.cpu_time_factor()),
        ),
    ] {
        if let Some(factor) = factor {
            metrics.add(Kind::Gauge, name, help, level, factor);
        }
    }
}

fn of_levels(metrics: &mut Metrics, run: &Labels, record: &RunRecord, verdict: &Verdict) {
    for (key, runs) in record.levels().into_iter().take(LEVELS_MAX) {
        let labels = level_labels(run, runs[0]);
        of_standing(metrics, &labels, verdict, key);
        let merged = summary::merged(&runs);
        let waits = merged.unanswered.histograms.named().map(|(_, waits)| waits);
        for ((name, text, of), waits) in TIMES.into_iter().zip(waits) {
            let (histogram, moments) = of(&merged);
            if histogram.is_empty() {
                continue;
            }
            let family = format!("webstone_{name}_duration_seconds");
            metrics.distribution(&family, text, &labels, histogram, moments);
            let percentiles: Vec<f64> = PERCENTILES.into_iter().chain([100.0]).collect();
            let quantiles: Vec<f64> = percentiles.iter().map(|percentile| percentile / 100.0).collect();
            let (values, _) = times_at(histogram, waits, &quantiles);
            for (percentile, value) in percentiles.iter().zip(values) {
                let text = "Percentiles of the distributions or, where that is longer, with the time that those waited that were not answered, \
                            from histograms of three significant digits; 100 is the longest, exactly";
                let labels = labels.with("time", name).with("percentile", &percentile.to_string());
                let value = in_seconds(value);
                metrics.add(Kind::Gauge, "webstone_duration_percentile_seconds", text, &labels, value);
            }
        }
    }
}

fn of_pages(metrics: &mut Metrics, run: &Labels, record: &RunRecord, pages_max: usize) {
    let totals = record.page_totals();
    let mut pages: Vec<_> = totals.iter().enumerate().collect();
    pages.sort_by_key(|(index, page)| (std::cmp::Reverse(page.hits), *index));
    for (index, page) in pages.into_iter().take(pages_max) {
        let file = record.workload.pages.get(index).and_then(|page| page.files.first());
        let name = file.map(FileRequest::shown).unwrap_or_default();
        let labels = run.with("page", &index.to_string()).with("file", &name);
        for (name, defined, value) in [
            ("webstone_page_hits_total", "hits", page.hits as f64),
            ("webstone_page_failed_total", "failed", page.failed as f64),
            ("webstone_page_requests_total", "requests", page.requests as f64),
            ("webstone_page_errors_total", "errors", page.errors as f64),
            ("webstone_page_body_bytes_total", "body_bytes", page.body_bytes as f64),
            ("webstone_page_time_seconds_total", "time_ns", in_seconds(page.time_ns)),
        ] {
            metrics.add(Kind::Counter, name, &help("Pages", defined, ""), &labels, value);
        }
        let (name, text) = ("webstone_page_time_max_seconds", help("Pages", "time_ns_max", ""));
        metrics.add(Kind::Gauge, name, &text, &labels, in_seconds(page.time_ns_max));
    }
}

/// The definition of a name; `factor` converts the defined value to the exported one.
fn help(section: &str, name: &str, factor: &str) -> String {
    let sentence = definition(section, name).map_or_else(|| name.to_owned(), Definition::sentence);
    format!("{sentence} (docs/measurement.md, {name}{factor})")
}

fn unix_seconds(rfc3339: &str) -> Option<f64> {
    let at: jiff::Timestamp = rfc3339.parse().ok()?;
    // Milliseconds since 1970 are exact in a double, nanoseconds are not.
    Some(at.as_millisecond() as f64 / 1e3)
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Labels, already written.
#[derive(Clone, Default)]
struct Labels(String);

impl Labels {
    fn with(&self, name: &str, value: &str) -> Labels {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        let value = shown(value).replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(text, "{name}=\"{value}\"");
        Labels(text)
    }
}

/// Families in the order in which they were first seen: the format wants all samples of a name together.
#[derive(Default)]
struct Metrics(indexmap::IndexMap<String, Family>);

struct Family {
    kind: Kind,
    help: String,
    samples: String,
}

impl Metrics {
    fn family(&mut self, kind: Kind, name: &str, help: &str) -> &mut Family {
        let new = || Family { kind, help: help.to_owned(), samples: String::new() };
        self.0.entry(name.to_owned()).or_insert_with(new)
    }

    fn add(&mut self, kind: Kind, name: &str, help: &str, labels: &Labels, value: f64) {
        let _ = writeln!(self.family(kind, name, help).samples, "{name}{{{}}} {value}", labels.0);
    }

    /// A value is counted at the upper end of its histogram's bucket: as with percentiles, it is never taken for less than it was.
    fn distribution(
        &mut self,
        name: &str,
        help: &str,
        labels: &Labels,
        histogram: &Histogram,
        moments: &Moments,
    ) {
        let mut counts = [0_u64; BOUNDS_S.len()];
        for (lowest, width, count) in histogram.buckets() {
            let value_s = in_seconds((lowest + width - 1).min(histogram.max()));
            let place = BOUNDS_S.partition_point(|bound| *bound < value_s);
            if let Some(slot) = counts.get_mut(place) {
                *slot += count;
            }
        }
        let samples = &mut self.family(Kind::Histogram, name, help).samples;
        let mut below = 0;
        for (bound, count) in BOUNDS_S.iter().zip(counts) {
            below += count;
            let _ = writeln!(samples, "{name}_bucket{{{}}} {below}", labels.with("le", &bound.to_string()).0);
        }
        let all = histogram.len();
        let _ = writeln!(samples, "{name}_bucket{{{}}} {all}", labels.with("le", "+Inf").0);
        let _ =
            writeln!(samples, "{name}_sum{{{}}} {}", labels.0, moments.sum as f64 / NANOS_PER_SECOND as f64);
        let _ = writeln!(samples, "{name}_count{{{}}} {all}", labels.0);
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for (name, family) in &self.0 {
            let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", family.samples);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_be_left() {
        let labels = Labels::default().with("run", "a").with("file", "/\"x\\y\n{}");
        assert_eq!(labels.0, r#"run="a",file="/\"x\\y {}""#);
    }

    #[test]
    fn buckets_count_what_is_not_above_them() {
        let (mut histogram, mut moments) = (Histogram::new(), Moments::default());
        for nanos in [10_000, 10_001, 20_000, 1_000_000, 200 * NANOS_PER_SECOND] {
            histogram.record(nanos);
            moments.record(nanos);
        }
        let mut metrics = Metrics::default();
        metrics.distribution("t", "h", &Labels::default(), &histogram, &moments);
        let text = metrics.text();
        // 10,000 and 10,001 ns share a bucket of 8 ns, whose upper end lies above the bound.
        for line in [
            "t_bucket{le=\"0.00001\"} 0",
            "t_bucket{le=\"0.00002\"} 2",
            "t_bucket{le=\"100\"} 4",
            "t_bucket{le=\"+Inf\"} 5",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
