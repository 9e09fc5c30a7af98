//! Metrics in the text format of Prometheus, version 0.0.4: for the textfile collector of node_exporter, for a
//! Pushgateway, for whatever scrapes a file.
//!
//! Names carry base units (seconds, bytes) and counters end in `_total`, as `promtool check metrics` demands. What was
//! counted in a timed run has the labels `run`, `clients` and `iteration`; distributions are per level, all iterations
//! together; pages per run, the most requested ones. The number of series is bounded, and what was left out is told in
//! `webstone_export_omitted`. There are no timestamps, because both collectors refuse them; when an iteration began is
//! a metric. Help texts are the definitions of `docs/measurement.md`.

use std::fmt::Write as _;

use webstone_judge::verdict::{Standing, Verdict};
use webstone_model::errors::ErrorClass;
use webstone_model::figures::{Figures, PERCENTILES};
use webstone_model::metrics::{Histogram, Moments, fairness};
use webstone_model::rate::RateProfile;
use webstone_model::record::{HostUse, IterationRecord, OriginUse, ProcessUse, RunRecord};
use webstone_model::server_figures::ServerFigures;
use webstone_model::shown::shown;
use webstone_model::units::NANOS_PER_SECOND;

use crate::definitions::definition;
use crate::{Judged, Options, summary};

/// Timed runs of a record that have metrics of their own.
const ITERATIONS_MAX: usize = 200;
/// Levels of a record that have distributions.
const LEVELS_MAX: usize = 50;
/// Bounds of buckets in seconds: 10 µs to 100 s, three a decade.
const BOUNDS_S: [f64; 22] = [
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// The metrics of all records, family by family.
pub(crate) fn render(records: &[Judged<'_>], options: &Options) -> String {
    let mut metrics = Metrics::default();
    for (record, verdict) in records {
        of_run(&mut metrics, record, verdict);
        let run = Labels::default().with("run", &record.id);
        for iteration in record.iterations.iter().take(ITERATIONS_MAX) {
            of_iteration(&mut metrics, &run, iteration);
        }
        of_levels(&mut metrics, &run, record);
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
    for standing in [Standing::Valid, Standing::Uncertified, Standing::Disturbed, Standing::Invalid] {
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
    let labels = level_labels(run, iteration.clients, iteration.rate)
        .with("iteration", &iteration.iteration.to_string());
    let measured = &iteration.measured;
    let (counts, figures) = (&measured.counts, Figures::of(measured));
    let mut put = |kind, name: &str, (section, defined): (&str, &str), labels: &Labels, value: f64| {
        metrics.add(kind, name, &help(section, defined), labels, value);
    };
    if let Some(at_s) = unix_seconds(&iteration.started_at) {
        let name = "webstone_iteration_start_time_seconds";
        put(Kind::Gauge, name, ("", "When the measured window opened, in Unix time"), &labels, at_s);
    }
    for (name, defined, value) in [
        ("webstone_window_seconds", "test_time_s", figures.test_time_s),
        ("webstone_connections_per_second", "connection_rate", figures.connection_rate),
        ("webstone_requests_per_second", "request_rate", figures.request_rate),
        ("webstone_errors_per_second", "error_rate", figures.error_rate),
        ("webstone_error_ratio", "error_level_percent", figures.error_level_percent / 100.0),
        ("webstone_throughput_bytes_per_second", "throughput_bps", figures.throughput_bps / 8.0),
        (
            "webstone_client_throughput_bytes_per_second",
            "client_throughput_bps",
            figures.client_throughput_bps / 8.0,
        ),
        ("webstone_little_load", "little", figures.little),
        ("webstone_number", "webstone_number", figures.webstone_number as f64),
        (
            "webstone_generator_cpu_per_request_seconds",
            "generator_cpu_per_request_s",
            figures.generator_cpu_per_request_s,
        ),
    ] {
        put(Kind::Gauge, name, ("Figures", defined), &labels, value);
    }
    let counters = "Counters";
    for (name, defined, value) in [
        ("webstone_requests_planned_total", "planned", counts.planned),
        ("webstone_requests_skipped_total", "skipped", counts.skipped),
        ("webstone_requests_carried_in_total", "carried_in", counts.carried_in),
        ("webstone_requests_started_total", "started", counts.started),
        ("webstone_requests_succeeded_total", "succeeded", counts.succeeded),
        ("webstone_requests_failed_total", "failed", counts.failed),
        ("webstone_connections_total", "connections", counts.connections),
        ("webstone_connections_failed_total", "connections_failed", counts.connections_failed),
        ("webstone_stale_retries_total", "stale_retries", counts.stale_retries),
        ("webstone_pages_completed_total", "pages_completed", counts.pages_completed),
        ("webstone_pages_failed_total", "pages_failed", counts.pages_failed),
        ("webstone_head_bytes_total", "head_bytes", counts.head_bytes),
        ("webstone_body_bytes_total", "body_bytes", counts.body_bytes),
        ("webstone_framing_bytes_total", "framing_bytes", counts.framing_bytes),
        ("webstone_sent_bytes_total", "sent_bytes", counts.sent_bytes),
    ] {
        put(Kind::Counter, name, (counters, defined), &labels, value as f64);
    }
    put(
        Kind::Gauge,
        "webstone_requests_in_flight",
        (counters, "in_flight"),
        &labels,
        counts.in_flight as f64,
    );
    for class in ErrorClass::ALL {
        let text = "Failed requests by class of error; docs/measurement.md, Errors, says when each occurs";
        let labels = labels.with("class", class.name());
        put(Kind::Counter, "webstone_errors_total", ("", text), &labels, measured.errors.count(class) as f64);
    }
    if let Some(fairness) = fairness(&measured.clients) {
        for (of, value) in [("jain_pages", fairness.jain_pages), ("jain_latency", fairness.jain_latency)] {
            let name = format!("webstone_fairness_{of}_ratio");
            put(Kind::Gauge, &name, ("Fairness", of), &labels, value);
        }
        put(
            Kind::Gauge,
            "webstone_clients_starved",
            ("Fairness", "starved"),
            &labels,
            fairness.starved as f64,
        );
    }
    let broken = iteration.identities.iter().filter(|check| !check.holds).count();
    let text = "Identities that do not hold: where there is one, the figures cannot be trusted";
    put(Kind::Gauge, "webstone_identities_broken", ("", text), &labels, broken as f64);
    let workers = &measured.generator.workers;
    let user_ns: u64 = workers.iter().map(|worker| worker.user_ns).sum();
    let system_ns: u64 = workers.iter().map(|worker| worker.system_ns).sum();
    for (mode, nanos) in [("user", user_ns), ("system", system_ns)] {
        let (name, text) =
            ("webstone_generator_cpu_seconds_total", "CPU time of the load generator's workers");
        put(Kind::Counter, name, ("", text), &labels.with("mode", mode), seconds(nanos));
    }
    if let Some(server) = &iteration.server {
        for (mode, nanos) in [("user", server.user_ns), ("system", server.system_ns)] {
            let name = "webstone_server_cpu_seconds_total";
            put(Kind::Counter, name, ("The server", "user_ns"), &labels.with("mode", mode), seconds(nanos));
        }
        let (name, resident) =
            ("webstone_server_resident_memory_max_bytes", server.resident_bytes_max as f64);
        put(Kind::Gauge, name, ("The server", "resident_bytes_max"), &labels, resident);
    }
    if let Some(figures) = ServerFigures::of(&[iteration]) {
        let (name, cost) = ("webstone_server_cpu_per_1000_requests_seconds", figures.cpu_per_1000_requests_s);
        put(Kind::Gauge, name, ("The server", "cpu_per_1000_requests_s"), &labels, cost);
    }
    if let Some(used) = iteration.server.as_ref().and_then(|server| server.processes.as_ref()) {
        of_processes(metrics, &labels, used);
    }
    if let Some(origin) = &iteration.origin {
        of_origin(metrics, &labels, origin);
    }
    if let Some(host) = &iteration.host {
        of_host(metrics, &labels, host);
    }
}

/// What the server's processes did besides using CPU time.
fn of_processes(metrics: &mut Metrics, labels: &Labels, used: &ProcessUse) {
    use Kind::{Counter, Gauge};
    for (kind, name, defined, value) in [
        (Counter, "switches_voluntary_total", "switches_voluntary", Some(used.switches_voluntary)),
        (Counter, "switches_involuntary_total", "switches_involuntary", Some(used.switches_involuntary)),
        (Counter, "faults_minor_total", "faults_minor", Some(used.faults_minor)),
        (Counter, "faults_major_total", "faults_major", Some(used.faults_major)),
        (Counter, "disk_read_bytes_total", "disk_read_bytes", used.disk_read_bytes),
        (Counter, "disk_written_bytes_total", "disk_written_bytes", used.disk_written_bytes),
        (Gauge, "processes_max", "processes_max", Some(used.processes_max)),
        (Gauge, "threads_max", "threads_max", Some(used.threads_max)),
        (Gauge, "descriptors_max", "descriptors_max", used.descriptors_max),
        (Gauge, "resident_memory_bytes", "resident_bytes", Some(used.resident_bytes)),
        (Gauge, "proportional_memory_bytes", "proportional_bytes", used.proportional_bytes),
    ] {
        if let Some(value) = value {
            let (name, text) = (format!("webstone_server_{name}"), help("The server", defined));
            metrics.add(kind, &name, &text, labels, value as f64);
        }
    }
    if let Some(throttled_ns) = used.throttled_ns {
        let (name, text) = ("webstone_server_throttled_seconds_total", help("The server", "throttled_ns"));
        metrics.add(Counter, name, &text, labels, seconds(throttled_ns));
    }
}

/// What the server behind a proxy did.
fn of_origin(metrics: &mut Metrics, labels: &Labels, origin: &OriginUse) {
    let section = "The origin behind a proxy";
    if let Some(used) = &origin.server {
        for (mode, nanos) in [("user", used.user_ns), ("system", used.system_ns)] {
            let (name, labels) = ("webstone_origin_cpu_seconds_total", labels.with("mode", mode));
            metrics.add(Kind::Counter, name, &help(section, "server"), &labels, seconds(nanos));
        }
    }
    let Some(counted) = origin.counted else { return };
    for (name, value) in [
        ("requests", counted.requests),
        ("not_modified", counted.not_modified),
        ("connections", counted.connections),
        ("body_bytes", counted.body_bytes),
        ("sent_bytes", counted.sent_bytes),
        ("received_bytes", counted.received_bytes),
    ] {
        let full = format!("webstone_origin_{name}_total");
        metrics.add(Kind::Counter, &full, &help(section, name), labels, value as f64);
    }
}

/// What each CPU and each interface of this host did, and what looking cost.
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
            let text = help(section, "cpus");
            metrics.add(
                counter,
                "webstone_host_cpu_seconds_total",
                &text,
                &of_cpu.with("mode", mode),
                seconds(nanos),
            );
        }
    }
    for link in &host.interfaces {
        let of_link = labels.with("interface", &link.name);
        for (way, bytes, packets) in [
            ("received", link.received_bytes, link.received_packets),
            ("sent", link.sent_bytes, link.sent_packets),
        ] {
            let (of_way, text) = (of_link.with("direction", way), help(section, "interfaces"));
            metrics.add(counter, "webstone_host_network_bytes_total", &text, &of_way, bytes as f64);
            metrics.add(counter, "webstone_host_network_packets_total", &text, &of_way, packets as f64);
        }
    }
    if let Some(tcp) = host.tcp {
        let text = help(section, "listen_overflows");
        metrics.add(
            counter,
            "webstone_host_listen_overflows_total",
            &text,
            labels,
            tcp.listen_overflows as f64,
        );
    }
    if let Some(seen) = host.disturbance {
        for (name, kind, nanos) in [
            ("looked_seconds_total", counter, seen.looked_ns),
            ("taken_seconds_total", counter, seen.taken_ns),
            ("longest_seconds", Kind::Gauge, seen.longest_ns),
        ] {
            let name = format!("webstone_disturbance_{name}");
            metrics.add(kind, &name, &help(section, "disturbance"), labels, seconds(nanos));
        }
    }
    if host.probes > 0 {
        metrics.add(counter, "webstone_probes_total", &help(section, "probes"), labels, host.probes as f64);
        let text = help(section, "probe_cpu_ns");
        metrics.add(counter, "webstone_probe_cpu_seconds_total", &text, labels, seconds(host.probe_cpu_ns));
    }
}

/// Labels of a level: its clients, and in open loop its rate.
fn level_labels(run: &Labels, clients: u32, rate: Option<RateProfile>) -> Labels {
    let labels = run.with("clients", &clients.to_string());
    rate.map_or_else(|| labels.clone(), |rate| labels.with("rate", &rate.to_string()))
}

fn of_levels(metrics: &mut Metrics, run: &Labels, record: &RunRecord) {
    for (clients, runs) in record.levels().into_iter().take(LEVELS_MAX) {
        let labels = level_labels(run, clients, runs[0].rate);
        let merged = summary::merged(&runs);
        let histograms = &merged.histograms;
        for (name, text, histogram, moments) in [
            (
                "connect",
                "TCP connect time, of connections established in the window",
                &histograms.connect,
                &merged.connect,
            ),
            (
                "first_byte",
                "Start to first byte, of requests that succeeded",
                &histograms.first_byte,
                &merged.first_byte,
            ),
            (
                "response",
                "Start to last byte, of requests that succeeded: the latency",
                &histograms.response,
                &merged.response,
            ),
            (
                "page",
                "Start of the first file to last byte of the last, of pages fetched whole",
                &histograms.page,
                &merged.page,
            ),
        ] {
            if histogram.is_empty() {
                continue;
            }
            let family = format!("webstone_{name}_duration_seconds");
            metrics.distribution(&family, text, &labels, histogram, moments);
            for percentile in PERCENTILES.into_iter().chain([100.0]) {
                let value = seconds(histogram.value_at_percentile(percentile));
                let text = "Percentiles of the distributions, from histograms of three significant digits; 100 is the longest, exactly";
                let labels = labels.with("time", name).with("percentile", &percentile.to_string());
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
        let labels = run.with("page", &index.to_string()).with("file", file.map_or("", |file| &file.url));
        for (name, defined, value) in [
            ("webstone_page_hits_total", "hits", page.hits as f64),
            ("webstone_page_failed_total", "failed", page.failed as f64),
            ("webstone_page_requests_total", "requests", page.requests as f64),
            ("webstone_page_errors_total", "errors", page.errors as f64),
            ("webstone_page_body_bytes_total", "body_bytes", page.body_bytes as f64),
            ("webstone_page_time_seconds_total", "time_ns", seconds(page.time_ns)),
        ] {
            metrics.add(Kind::Counter, name, &help("Pages", defined), &labels, value);
        }
        let (name, text) = ("webstone_page_time_max_seconds", help("Pages", "time_ns_max"));
        metrics.add(Kind::Gauge, name, &text, &labels, seconds(page.time_ns_max));
    }
}

/// The definition of a name; where no section is given, the text itself.
fn help(section: &str, name: &str) -> String {
    // Defined in bits and percent, exported in bytes and as a ratio.
    let factor = match name {
        "throughput_bps" | "client_throughput_bps" => " / 8",
        "error_level_percent" => " / 100",
        _ => "",
    };
    match definition(section, name) {
        Some(definition) if !section.is_empty() => {
            format!("{} (docs/measurement.md, {name}{factor})", definition.sentence())
        }
        _ => name.to_owned(),
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
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

/// Families in the order in which they were first seen: all samples of a name have to stand together.
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

    /// A value counts in the bucket that the upper end of its histogram's bucket lies in: as percentiles do, it is
    /// never taken for less than it was.
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
            let value_s = seconds((lowest + width - 1).min(histogram.max()));
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

    #[test]
    fn every_help_text_that_names_a_definition_has_one() {
        for (section, name) in [
            ("Figures", "little"),
            ("Counters", "planned"),
            ("Pages", "hits"),
            ("Fairness", "starved"),
            ("The server", "user_ns"),
        ] {
            assert_ne!(help(section, name), name);
        }
    }
}
