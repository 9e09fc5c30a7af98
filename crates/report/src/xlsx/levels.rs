//! The tables of the sweep: one row a run, a level, an iteration, a distribution; and the curves of percentiles.

use webstone_judge::statistics::Interval;
use webstone_judge::verdict::Verdict;
use webstone_model::metrics::Histogram;
use webstone_model::origin_figures::OriginFigures;
use webstone_model::record::RunRecord;
use webstone_model::server_figures::{ProcessFigures, ServerFigures};
use webstone_model::units::NANOS_PER_SECOND;

use super::book::{COLUMNS_MAX, Line, Sheet};
use crate::csv::{self, LevelTable};
use crate::summary::{self, Level};
use webstone_model::figures::distributions::{Distribution, Distributions};

/// A record with what every sheet needs of it.
pub(super) struct Run<'a> {
    pub(super) record: &'a RunRecord,
    /// On the whole run, whatever part of it is shown.
    pub(super) verdict: &'a Verdict,
    pub(super) levels: Vec<Level<'a>>,
}

impl<'a> Run<'a> {
    pub(super) fn of(record: &'a RunRecord, verdict: &'a Verdict) -> Run<'a> {
        Run { record, verdict, levels: summary::levels(record) }
    }
}

pub(super) const MS: f64 = 1e3;
const MBIT: f64 = 1e-6;

/// `Levels`: one row a run and level, its iterations together.
pub(super) fn levels<'a>(runs: &'a [Run<'a>]) -> Sheet<'a> {
    let nothing = csv::nothing();
    let blank = level_line("", &summary::level(0, vec![&nothing]));
    Sheet {
        name: "Levels",
        blank,
        count: runs.iter().map(|run| run.levels.len()).sum(),
        lines: Box::new(
            runs.iter().flat_map(|run| run.levels.iter().map(|level| level_line(&run.record.id, level))),
        ),
        frozen: 2,
    }
}

/// Columns that hold how far the 95 % intervals over iterations reach below and above the level's figures, in the order
/// of the charts.
pub(super) const BARS: [(&str, &str, &str); 4] = [
    ("Connections to lower end of 95 % interval", "Connections to upper end of 95 % interval", "1/s"),
    ("Requests to lower end of 95 % interval", "Requests to upper end of 95 % interval", "1/s"),
    ("Throughput to lower end of 95 % interval", "Throughput to upper end of 95 % interval", "Mbit/s"),
    ("Latency mean to lower end of 95 % interval", "Latency mean to upper end of 95 % interval", "ms"),
];

fn in_unit(interval: Interval, factor: f64) -> Interval {
    Interval { low: interval.low * factor, high: interval.high * factor, ..interval }
}

fn level_line(run: &str, level: &Level<'_>) -> Line {
    let f = &level.figures;
    let response = level.distributions.response.as_ref();
    let at = |value: fn(&Distribution) -> f64| response.map(|d| value(d) * MS);
    let answered = |value: f64| (level.counts.succeeded > 0).then_some(value);
    let mut line = Line::default();
    line.put("Run", "", run);
    line.put("Clients", "", level.clients);
    line.put("Iterations", "", level.runs.len());
    line.put("Test time", "s", f.test_time_s);
    line.put("Connections", "1/s", f.connection_rate);
    line.put("Requests", "1/s", f.request_rate);
    line.put("Errors", "1/s", f.error_rate);
    line.put("Error level", "%", f.error_level_percent);
    line.put("Latency mean", "ms", answered(f.latency_mean_s * MS));
    line.put("Latency p50", "ms", at(|d| d.p50_s));
    line.put("Latency p90", "ms", at(|d| d.p90_s));
    line.put("Latency p99", "ms", at(|d| d.p99_s));
    line.put("Latency p99.9", "ms", at(|d| d.p99_9_s));
    line.put("Latency max", "ms", answered(f.latency_max_s * MS));
    line.put("Connect mean", "ms", (level.counts.connections > 0).then_some(f.connect_mean_s * MS));
    line.put("First byte mean", "ms", answered(f.first_byte_mean_s * MS));
    line.put("Throughput", "Mbit/s", f.throughput_bps * MBIT);
    line.put("Throughput as WebBench gives it", "bytes/s", f.throughput_bps / 8.0);
    line.put("Throughput of a waiting client", "Mbit/s", f.client_throughput_bps * MBIT);
    line.put("Little's load factor", "", f.little);
    line.put("Pages", "1/min", f.pages_per_minute);
    line.put("WEBSTONE number", "", f.webstone_number);
    line.put("Fairness by pages (Jain)", "index", level.fairness.map(|fairness| fairness.jain_pages));
    line.put("Fairness by latency (Jain)", "index", level.fairness.map(|fairness| fairness.jain_latency));
    line.put("Starved clients", "", level.fairness.map(|fairness| fairness.starved));
    let generator = (level.generator.workers > 0).then_some(&level.generator);
    line.put("Generator CPU", "%", generator.map(|share| share.cpu_percent));
    line.put("Generator busiest worker", "%", generator.map(|share| share.busiest_percent));
    let seen = summary::disturbance(level.runs.iter().copied());
    line.put("Generator CPU taken by others before", "%", seen.map(|seen| seen.taken_percent()));
    line.put("Generator CPU taken at once", "ms", seen.map(|seen| seen.longest_ns as f64 / 1e6));
    line.put("Server CPU", "%", level.server.map(|share| share.cpu_percent));
    line.put("Server memory", "bytes", level.server.map(|share| share.resident_bytes_max));
    server_columns(&mut line, level.server);
    line.put("Requests in the lowest iteration", "1/s", level.request_rates.0);
    line.put("Requests in the highest iteration", "1/s", level.request_rates.1);
    line.put("Rate", "1/s", level.rate.map(|rate| rate.to_string()));
    let open_loop = level.open_loop.as_ref();
    line.put("Arrivals asked for", "1/s", open_loop.map(|o| o.kept.asked_rate));
    line.put("Arrivals offered", "1/s", open_loop.map(|o| o.kept.offered_rate));
    line.put("Arrivals skipped", "", open_loop.map(|o| o.skipped));
    line.put("Schedule lag p99", "ms", open_loop.map(|o| o.kept.lag_p99_ns as f64 / 1e6));
    origin_columns(&mut line, level.origin);
    // As distances, because that is what error bars are drawn from.
    let statistics = &level.statistics;
    for ((below, above, unit), shown, interval) in [
        (BARS[0], f.connection_rate, statistics.connection_rate),
        (BARS[1], f.request_rate, statistics.request_rate),
        (BARS[2], f.throughput_bps * MBIT, statistics.throughput_bps.map(|i| in_unit(i, MBIT))),
        (BARS[3], f.latency_mean_s * MS, statistics.latency_mean_s.map(|i| in_unit(i, MS))),
    ] {
        // Nothing that is shown can be below zero, wherever the interval of a few iterations ends.
        line.put(below, unit, interval.map(|interval| (shown - interval.low.max(0.0)).max(0.0)));
        line.put(above, unit, interval.map(|interval| (interval.high - shown).max(0.0)));
    }
    line
}

/// The server's figures besides its CPU and its peak of memory.
fn server_columns(line: &mut Line, server: Option<ServerFigures>) {
    line.put("Server CPU in user mode", "%", server.map(|it| it.cpu_user_percent));
    line.put("Server CPU in the kernel", "%", server.map(|it| it.cpu_system_percent));
    line.put("Server CPU for 1,000 requests", "ms", server.map(|it| it.cpu_per_1000_requests_s * MS));
    let processes = server.and_then(|it| it.processes);
    let mut put = |heading, unit, of: fn(ProcessFigures) -> Option<f64>| {
        line.put(heading, unit, processes.and_then(of))
    };
    put("Server memory, shared pages once", "bytes", |it| it.proportional_bytes.map(|bytes| bytes as f64));
    put("Server voluntary switches a request", "", |it| Some(it.switches_voluntary_per_request));
    put("Server involuntary switches", "1/s", |it| Some(it.switches_involuntary_per_s));
    put("Server page faults", "1/s", |it| Some(it.faults_minor_per_s));
    put("Server page faults from disk", "1/s", |it| Some(it.faults_major_per_s));
    put("Server disk read", "bytes/s", |it| it.disk_read_bytes_per_s);
    put("Server disk written", "bytes/s", |it| it.disk_written_bytes_per_s);
    put("Server held up by a CPU quota", "%", |it| it.throttled_percent);
    put("Server descriptors", "", |it| it.descriptors_max.map(|count| count as f64));
    put("Server processes", "", |it| Some(it.processes_max as f64));
    put("Server threads", "", |it| Some(it.threads_max as f64));
}

/// What the server behind a proxy did.
fn origin_columns(line: &mut Line, origin: Option<OriginFigures>) {
    let server = origin.and_then(|it| it.server);
    line.put("Origin CPU", "%", server.map(|it| it.cpu_percent));
    line.put("Origin CPU for 1,000 requests", "ms", server.map(|it| it.cpu_per_1000_requests_s * MS));
    line.put("Origin memory", "bytes", server.map(|it| it.resident_bytes_max));
    let asked = origin.and_then(|it| it.asked);
    line.put("Origin requests", "1/s", asked.map(|it| it.origin_request_rate));
    line.put("Origin requests a request", "", asked.and_then(|it| it.origin_requests_per_request));
    line.put("Cache hits", "%", asked.and_then(|it| it.hit_percent));
    line.put("Origin requests answered 304", "%", asked.and_then(|it| it.revalidated_percent));
    line.put("Bytes saved", "%", asked.and_then(|it| it.saved_percent));
    line.put("Origin bodies", "Mbit/s", asked.map(|it| it.origin_body_bps * MBIT));
    line.put("Origin connections a request", "", asked.and_then(|it| it.origin_connections_per_request));
}

/// `Iterations`: everything that the CSV table of levels has, one row a timed run.
pub(super) fn iterations<'a>(runs: &'a [Run<'a>]) -> Sheet<'a> {
    Sheet {
        name: "Iterations",
        blank: iteration_line(LevelTable::of(runs[0].record).row(runs[0].record, &csv::nothing())),
        count: runs.iter().map(|run| run.record.iterations.len()).sum(),
        lines: Box::new(runs.iter().flat_map(|run| {
            let table = LevelTable::of(run.record);
            run.record.iterations.iter().map(move |it| iteration_line(table.row(run.record, it)))
        })),
        frozen: 3,
    }
}

fn iteration_line(row: csv::Row) -> Line {
    let mut line = Line::default();
    for (name, cell) in row.names.iter().zip(row.cells) {
        let (heading, unit) = in_words(name);
        line.put(heading, unit, cell);
    }
    line
}

/// The name of a CSV column as a heading with a unit: `latency_p99_9_s` is "Latency p99.9" in s.
fn in_words(name: &str) -> (String, &'static str) {
    for (suffix, end) in [("_ci95_low", ", 95 % from"), ("_ci95_high", ", 95 % to")] {
        if let Some(figure) = name.strip_suffix(suffix) {
            let (heading, unit) = in_words(figure);
            return (heading + end, unit);
        }
    }
    const UNITS: [(&str, &str); 6] = [
        ("_bit_per_s", "bit/s"),
        ("_per_s", "1/s"),
        ("_per_minute", "1/min"),
        ("_percent", "%"),
        ("_bytes", "bytes"),
        ("_s", "s"),
    ];
    let found = UNITS.iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, *unit)));
    let (stem, unit) = found.unwrap_or((name, ""));
    let words = stem.replace("p99_9", "p99.9").replace("99_99", "99.99").replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    (first.into_iter().chain(letters).collect(), unit)
}

/// `Percentiles`: one row a run, level and distribution.
pub(super) fn percentiles<'a>(runs: &'a [Run<'a>]) -> Sheet<'a> {
    let rows: Vec<Line> = runs
        .iter()
        .flat_map(|run| run.levels.iter().map(move |level| (run, level)))
        .flat_map(|(run, level)| {
            named(&level.distributions)
                .into_iter()
                .filter_map(|(name, d)| Some(percentile_line(&run.record.id, level, name, d?)))
        })
        .collect();
    let blank = Distribution {
        count: 0,
        p50_s: 0.0,
        p75_s: 0.0,
        p90_s: 0.0,
        p95_s: 0.0,
        p99_s: 0.0,
        p99_9_s: 0.0,
        p99_99_s: 0.0,
        max_s: 0.0,
    };
    let nothing = csv::nothing();
    Sheet {
        name: "Percentiles",
        blank: percentile_line("", &summary::level(0, vec![&nothing]), "", &blank),
        count: rows.len(),
        lines: Box::new(rows.into_iter()),
        frozen: 3,
    }
}

fn named(distributions: &Distributions) -> [(&'static str, Option<&Distribution>); 8] {
    [
        ("connect", distributions.connect.as_ref()),
        ("first byte", distributions.first_byte.as_ref()),
        ("response", distributions.response.as_ref()),
        ("page", distributions.page.as_ref()),
        ("first byte, from actual start", distributions.first_byte_uncorrected.as_ref()),
        ("response, from actual start", distributions.response_uncorrected.as_ref()),
        ("page, from actual start", distributions.page_uncorrected.as_ref()),
        ("schedule lag", distributions.schedule_lag.as_ref()),
    ]
}

fn percentile_line(run: &str, level: &Level<'_>, name: &str, d: &Distribution) -> Line {
    let mut line = Line::default();
    line.put("Run", "", run);
    line.put("Clients", "", level.clients);
    line.put("Time of", "", name);
    line.put("Values", "", d.count);
    for (heading, value) in [
        ("p50", d.p50_s),
        ("p75", d.p75_s),
        ("p90", d.p90_s),
        ("p95", d.p95_s),
        ("p99", d.p99_s),
        ("p99.9", d.p99_9_s),
        ("p99.99", d.p99_99_s),
        ("Max", d.max_s),
    ] {
        line.put(heading, "ms", value * MS);
    }
    line.put("Rate", "1/s", level.rate.map(|rate| rate.to_string()));
    line
}

/// The columns before the curves in `Percentile Curves`.
pub(super) const CURVES_FROM: u16 = 2;

/// `Percentile Curves`: response times of each run and level over 1/(1 − p), the axis on which the rare ones show. A
/// column has a cell as long as at least one value lies beyond that percentile.
pub(super) fn curves(runs: &[Run<'_>]) -> Sheet<'static> {
    let room = COLUMNS_MAX + 1 - usize::from(CURVES_FROM);
    let several = runs.len() > 1;
    let mut curves: Vec<(String, Vec<f64>)> = Vec::new();
    for run in runs {
        for level in run.levels.iter().take(room.saturating_sub(curves.len())) {
            let of = if several { format!(" · {}", run.record.id) } else { String::new() };
            let merged = summary::merged(&level.runs);
            curves.push((format!("{} clients{of}", level.clients), curve(&merged.histograms.response)));
        }
    }
    let rows = curves.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let line = move |row: usize| {
        let beyond = STEPS[row % STEPS.len()] * 10_f64.powi((row / STEPS.len()) as i32);
        let mut line = Line::default();
        line.put("Percentile", "%ile", 100.0 - 100.0 / beyond);
        line.put("1/(1 − p)", "", beyond);
        for (name, values) in &curves {
            line.put(name.clone(), "ms", values.get(row).map(|value| value * MS));
        }
        line
    };
    Sheet {
        name: "Percentile Curves",
        blank: line(0),
        count: rows,
        lines: Box::new((0..rows).map(line)),
        frozen: CURVES_FROM,
    }
}

/// Steps of a decade of 1/(1 − p): about even on a logarithmic axis, with 50, 80, 90, 95, 99 % among them.
const STEPS: [f64; 8] = [1.0, 1.25, 1.6, 2.0, 2.5, 4.0, 5.0, 8.0];

/// Response times in seconds at 1/(1 − p) = 1, 1.25, … as far as there are values.
fn curve(histogram: &Histogram) -> Vec<f64> {
    let decades = (0..).map(|exponent| 10_f64.powi(exponent));
    let quantiles: Vec<f64> = decades
        .flat_map(|decade| STEPS.map(|step| step * decade))
        .take_while(|beyond| *beyond <= histogram.len() as f64)
        .map(|beyond| 1.0 - 1.0 / beyond)
        .collect();
    let values = histogram.values_at_quantiles(&quantiles);
    values.into_iter().map(|nanos| nanos as f64 / NANOS_PER_SECOND as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_become_headings() {
        for (name, heading, unit) in [
            ("latency_p99_9_s", "Latency p99.9", "s"),
            ("latency_p99_99_s", "Latency p99.99", "s"),
            ("throughput_bit_per_s", "Throughput", "bit/s"),
            ("requests_per_s", "Requests", "1/s"),
            ("pages_per_minute", "Pages", "1/min"),
            ("error_level_percent", "Error level", "%"),
            ("head_bytes", "Head", "bytes"),
            ("errors_refused", "Errors refused", ""),
            ("level_latency_mean_s_ci95_low", "Level latency mean, 95 % from", "s"),
            ("level_requests_per_s_ci95_high", "Level requests, 95 % to", "1/s"),
        ] {
            assert_eq!(in_words(name), (heading.to_owned(), unit));
        }
    }

    #[test]
    fn a_curve_ends_where_no_value_lies_beyond() {
        let mut histogram = Histogram::new();
        (1..=10).for_each(|value| histogram.record(value * 100));
        let curve: Vec<f64> = curve(&histogram).iter().map(|value| (value * 1e9).round()).collect();
        // 1/(1 − p) = 1, 1.25, 1.6, 2, 2.5, 4, 5, 8, 10: p = 0, 20, 37.5, 50, 60, 75, 80, 87.5, 90 %.
        assert_eq!(curve, [100.0, 200.0, 400.0, 500.0, 600.0, 800.0, 800.0, 900.0, 900.0]);
        assert_eq!(super::curve(&Histogram::new()), Vec::<f64>::new());
    }
}
