//! The charts over the number of clients, as the reports of the nineties had them: connections, throughput, latency;
//! with them Little's load factor, the error level and the CPU of both sides. One line a record; of one record alone,
//! percentiles and both CPUs share a chart.

use webstone_judge::statistics::{Interval, LevelStatistics, mean_interval};
use webstone_model::figures::Figures;

use crate::chart::{Axis, Line, Point};
use crate::numbers::{Scale, count, decimal, seconds_round};
use crate::screen::Screen;
use crate::summary::Level;
use webstone_model::figures::distributions::Distribution;

use super::figure::{BarFigure, Figure, HEIGHT};
use super::markup::Html;
use super::{Run, definitions};

/// A figure of a level that has a chart of its own.
struct Quantity {
    id: &'static str,
    title: &'static str,
    definition: &'static str,
    of: fn(&Figures) -> f64,
    /// Its interval among the statistics of a level; none: computed here.
    interval: Option<fn(&LevelStatistics) -> Option<Interval>>,
    scale: fn(&Screen, &[f64]) -> Scale,
}

fn plain(_: &Screen, values: &[f64]) -> Scale {
    Scale::plain(2, values.iter().copied())
}

fn times(screen: &Screen, values: &[f64]) -> Scale {
    Scale::seconds(screen, values.iter().copied())
}

const CONNECTIONS: Quantity = Quantity {
    id: "connections",
    title: "Connections/s",
    definition: definitions::CONNECTIONS,
    of: |figures| figures.connection_rate,
    interval: Some(|statistics| statistics.connection_rate),
    scale: plain,
};
const REQUESTS: Quantity = Quantity {
    id: "requests",
    title: "Requests/s",
    definition: definitions::REQUESTS,
    of: |figures| figures.request_rate,
    interval: Some(|statistics| statistics.request_rate),
    scale: plain,
};
const THROUGHPUT: Quantity = Quantity {
    id: "throughput",
    title: "Throughput",
    definition: definitions::THROUGHPUT,
    of: |figures| figures.throughput_bps,
    interval: Some(|statistics| statistics.throughput_bps),
    scale: |_, values| Scale::bits_per_second(values.iter().copied()),
};
const LATENCY: Quantity = Quantity {
    id: "latency",
    title: "Latency, mean",
    definition: definitions::LATENCY,
    of: |figures| figures.latency_mean_s,
    interval: Some(|statistics| statistics.latency_mean_s),
    scale: times,
};
const LITTLE: Quantity = Quantity {
    id: "little",
    title: "Little’s load factor",
    definition: definitions::LITTLE,
    of: |figures| figures.little,
    interval: None,
    scale: plain,
};
const PAGES: Quantity = Quantity {
    id: "pages",
    title: "Pages/s",
    definition: definitions::PAGES,
    of: |figures| figures.pages_per_minute / 60.0,
    interval: None,
    scale: plain,
};
const ERROR_LEVEL: Quantity = Quantity {
    id: "error-level",
    title: "Error level, %",
    definition: definitions::ERROR_LEVEL,
    of: |figures| figures.error_level_percent,
    interval: None,
    scale: plain,
};

/// Draws the section, where there is anything to be compared.
pub(super) fn draw(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    let sweep = runs.iter().any(|run| run.levels.len() > 1);
    let measured = runs.iter().filter(|run| !run.levels.is_empty()).count();
    if !sweep && measured < 2 {
        return;
    }
    html.section(
        "load",
        match (sweep, is_open_loop(runs)) {
            (false, _) => "Side by side",
            (true, false) => "Against the number of clients",
            (true, true) => "Against the rate of arrivals",
        },
    );
    if sweep && runs.iter().any(Run::repeated) {
        html.element(
            "p class=\"note\"",
            "Bars (bands, where levels are many) are 95 % intervals of the mean over a level’s iterations; a level of \
             one iteration has none. Points are all iterations together.",
        );
    }
    html.raw("<div class=\"charts\">");
    for quantity in quantities(runs) {
        if sweep {
            lines(html, screen, runs, quantity);
        } else {
            side_by_side(html, screen, runs, quantity);
        }
    }
    if sweep {
        percentiles(html, screen, runs);
        against_rate(html, screen, runs);
        cpu(html, runs);
    }
    html.raw("</div>");
    if all_values(runs, |level| level.figures.error_level_percent).iter().all(|level| *level == 0.0) {
        let ended: u64 = runs.iter().flat_map(|run| &run.levels).map(|level| level.counts.ended()).sum();
        html.raw("<p class=\"note\">").defined("Error level", Some(definitions::ERROR_LEVEL));
        html.text(&format!(": 0 at every level; none of {} requests failed.", count(ended))).raw("</p>");
    }
    html.raw("</section>");
}

/// Those that tell something: with a connection for each request, requests are connections; no chart of no errors.
fn quantities(runs: &[Run<'_>]) -> Vec<&'static Quantity> {
    let levels = || runs.iter().flat_map(|run| &run.levels);
    let same = |level: &Level<'_>| {
        (level.figures.connection_rate - level.figures.request_rate).abs()
            <= 0.02 * level.figures.request_rate
    };
    let mut quantities = Vec::new();
    if levels().any(|level| level.figures.connection_rate > 0.01 * level.figures.request_rate) {
        quantities.push(&CONNECTIONS);
    }
    if !levels().all(same) {
        quantities.push(&REQUESTS);
    }
    if is_open_loop(runs) {
        quantities.push(&PAGES);
    }
    quantities.extend([&THROUGHPUT, &LATENCY, &LITTLE]);
    if levels().any(|level| level.figures.error_level_percent > 0.0) {
        quantities.push(&ERROR_LEVEL);
    }
    quantities
}

/// The 95 % interval of a quantity over the iterations of a level; `None` below two.
fn interval(level: &Level<'_>, statistics: &LevelStatistics, quantity: &Quantity) -> Option<Interval> {
    if let Some(of) = quantity.interval {
        return of(statistics);
    }
    let values = level.runs.iter().map(|run| (quantity.of)(&Figures::of(&run.measured)));
    mean_interval(&values.collect::<Vec<_>>())
}

fn lines(html: &mut Html, screen: &Screen, runs: &[Run<'_>], quantity: &Quantity) {
    let line = |(style, run): (usize, &Run<'_>)| Line {
        name: run.label(runs, quantity.title),
        style,
        marked: true,
        points: run
            .levels
            .iter()
            .zip(&run.statistics)
            .filter(|(level, _)| level.counts.succeeded > 0 || quantity.id == ERROR_LEVEL.id)
            .map(|(level, statistics)| {
                let interval = interval(level, statistics, quantity);
                Point::within(level.load_number(), (quantity.of)(&level.figures), interval.as_ref())
            })
            .collect(),
    };
    let lines: Vec<Line> = runs.iter().enumerate().map(line).collect();
    let caption = match quantity.id {
        "little" if !is_open_loop(runs) => {
            "Dashed: as many requests in progress as clients, as a closed loop without pauses must have (identity 2)."
        }
        "pages" if is_open_loop(runs) => "Dashed: as many as arrivals were asked for.",
        _ => "",
    };
    // From level to level, as the lines are: on a logarithmic axis the two ends alone would lie elsewhere.
    let reference =
        if caption.is_empty() { Vec::new() } else { loads(runs).iter().map(|load| (*load, *load)).collect() };
    draw_lines(html, screen, runs, quantity, lines, caption, reference);
}

fn draw_lines(
    html: &mut Html,
    screen: &Screen,
    runs: &[Run<'_>],
    quantity: &Quantity,
    lines: Vec<Line>,
    caption: &str,
    reference: Vec<(f64, f64)>,
) {
    let values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
    let scale = (quantity.scale)(screen, &values);
    let tops =
        lines.iter().flat_map(|line| &line.points).map(|p| p.interval.map_or(p.y, |ends| ends.1.max(p.y)));
    Figure {
        id: format!("chart-{}", quantity.id),
        title: quantity.title.to_owned(),
        definition: Some(quantity.definition),
        caption: caption.to_owned(),
        x: Axis::counts(load_name(runs), 1.0, &loads(runs)),
        y: Axis::from_zero("", &scale, tops.chain(reference.last().map(|end| end.1)), 5),
        height: HEIGHT,
        lines,
        reference,
        x_name: load_name(runs),
        show_x: &|load| decimal(load, 0),
        scale,
    }
    .draw(html);
}

/// Bars instead of lines, where every record has one level.
fn side_by_side(html: &mut Html, screen: &Screen, runs: &[Run<'_>], quantity: &Quantity) {
    let measured = || runs.iter().filter_map(|run| Some((run, run.levels.first()?)));
    let value = |level: &Level<'_>| (quantity.of)(&level.figures);
    let values: Vec<f64> = measured().map(|(_, level)| value(level)).collect();
    BarFigure {
        id: format!("chart-{}", quantity.id),
        title: quantity.title.to_owned(),
        definition: Some(quantity.definition),
        names: "record",
        style: 0,
        scale: (quantity.scale)(screen, &values),
        rows: measured()
            .map(|(run, level)| (format!("{}, {}", run.name, level.load()), value(level)))
            .collect(),
        intervals: Vec::new(),
    }
    .draw(html);
}

/// The line of a record: a point for each level that has one.
fn line(
    style: usize,
    run: &Run<'_>,
    name: impl Into<String>,
    point: impl Fn(&Level<'_>) -> Option<Point>,
) -> Line {
    Line { name: name.into(), style, marked: true, points: run.levels.iter().filter_map(point).collect() }
}

/// A line of each record.
fn line_each(runs: &[Run<'_>], point: impl Fn(&Level<'_>) -> Option<Point>) -> Vec<Line> {
    runs.iter().enumerate().map(|(style, run)| line(style, run, run.name.clone(), &point)).collect()
}

/// Percentiles of the response time: four lines of one record, or the 99th of each of several.
fn percentiles(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    type Percentile = (&'static str, fn(&Distribution) -> f64);
    const ALL: [Percentile; 4] =
        [("p50", |d| d.p50_s), ("p90", |d| d.p90_s), ("p99", |d| d.p99_s), ("p99.9", |d| d.p99_9_s)];
    let point = |level: &Level<'_>, of: fn(&Distribution) -> f64| {
        Some(Point::new(level.load_number(), of(level.distributions.response.as_ref()?)))
    };
    let lines: Vec<Line> = match runs {
        [only] => {
            (0..).zip(ALL).map(|(n, (name, of))| line(n, only, name, |level| point(level, of))).collect()
        }
        several => line_each(several, |level| point(level, |d| d.p99_s)),
    };
    let values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
    if values.is_empty() {
        return;
    }
    Figure {
        id: "chart-percentiles".to_owned(),
        title: if runs.len() == 1 {
            "Latency, percentiles".to_owned()
        } else {
            "Latency, 99th percentile".to_owned()
        },
        definition: Some(definitions::PERCENTILES),
        caption: String::new(),
        x: Axis::counts(load_name(runs), 1.0, &loads(runs)),
        y: Axis::durations("logarithmic scale", values.iter().copied(), &|value| {
            seconds_round(screen, value)
        }),
        height: HEIGHT,
        lines,
        reference: Vec::new(),
        x_name: load_name(runs),
        show_x: &|load| decimal(load, 0),
        scale: Scale::seconds(screen, values),
    }
    .draw(html);
}

/// Latency against the request rate, level after level in the order of load: where a line turns up, or back, the server
/// has no more to give.
fn against_rate(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    let point = |level: &Level<'_>, of: fn(&Distribution) -> f64| {
        Some(Point::new(level.figures.request_rate, of(level.distributions.response.as_ref()?)))
    };
    let mut lines: Vec<Line> = match runs {
        [only] => vec![
            line(0, only, "p50", |level| point(level, |d| d.p50_s)),
            line(2, only, "p99", |level| point(level, |d| d.p99_s)),
        ],
        several => line_each(several, |level| point(level, |d| d.p99_s)),
    };
    lines.retain(|line| line.points.len() > 1);
    let points = || lines.iter().flat_map(|line| &line.points);
    let rates: Vec<f64> = points().map(|point| point.x).collect();
    let times: Vec<f64> = points().map(|point| point.y).collect();
    if rates.is_empty() {
        return;
    }
    let rate = Scale::plain(1, rates.iter().copied());
    Figure {
        id: "chart-latency-rate".to_owned(),
        title: if runs.len() == 1 {
            "Latency against requests/s".to_owned()
        } else {
            "Latency, 99th percentile, against requests/s".to_owned()
        },
        definition: Some(definitions::PERCENTILES),
        caption: "A point a level, in the order of load.".to_owned(),
        x: Axis::from_zero("requests/s", &rate, rates.iter().copied(), 6),
        y: Axis::durations("logarithmic scale", times.iter().copied(), &|value| seconds_round(screen, value)),
        height: HEIGHT,
        lines,
        reference: Vec::new(),
        x_name: "requests/s",
        show_x: &|value| rate.say(value),
        scale: Scale::seconds(screen, times),
    }
    .draw(html);
}

/// CPUs that each side kept busy: of one record both in one chart, of several a chart each.
fn cpu(html: &mut Html, runs: &[Run<'_>]) {
    let generator: fn(&Level<'_>) -> Option<f64> = |level| {
        (level.generator.workers > 0)
            .then(|| level.generator.cpu_percent * level.generator.workers as f64 / 100.0)
    };
    let server: fn(&Level<'_>) -> Option<f64> =
        |level| level.server.as_ref().map(|server| server.cpu_percent / 100.0);
    let point = |level: &Level<'_>, of: fn(&Level<'_>) -> Option<f64>| {
        Some(Point::new(level.load_number(), of(level)?))
    };
    match runs {
        [only] => {
            let workers = only.levels.iter().map(|level| level.generator.workers).max().unwrap_or(0) as u64;
            let mut lines = vec![
                line(0, only, "load generator", |level| point(level, generator)),
                line(1, only, "server", |level| point(level, server)),
            ];
            let server = match only.record.target.cpus.len() as u64 {
                _ if lines[1].points.is_empty() => "; the server’s could not be read".to_owned(),
                0 => String::new(),
                cpus => format!(", the server {}", count(cpus)),
            };
            let caption = format!("The load generator had {} to use{server}.", cpus(workers));
            let behind = line(2, only, "origin", |level| {
                Some(Point::new(level.load_number(), level.origin?.server?.cpu_percent / 100.0))
            });
            lines.extend(Some(behind).filter(|behind| !behind.points.is_empty()));
            cpu_chart(html, runs, "chart-cpu", "CPUs busy", None, &caption, lines);
        }
        several => {
            for (id, title, definition, of) in [
                ("chart-cpu-generator", "CPUs busy, load generator", definitions::GENERATOR_CPU, generator),
                ("chart-cpu-server", "CPUs busy, server", definitions::SERVER_CPU, server),
            ] {
                let lines = line_each(several, |level| point(level, of));
                cpu_chart(html, runs, id, title, Some(definition), "", lines);
            }
        }
    }
}

fn cpus(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "CPU" } else { "CPUs" })
}

fn cpu_chart(
    html: &mut Html,
    runs: &[Run<'_>],
    id: &str,
    title: &str,
    definition: Option<&str>,
    caption: &str,
    mut lines: Vec<Line>,
) {
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return;
    }
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.y);
    let scale = Scale::plain(2, values());
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        definition: definition.or(Some(definitions::SERVER_CPU)),
        caption: caption.to_owned(),
        x: Axis::counts(load_name(runs), 1.0, &loads(runs)),
        y: Axis::from_zero("", &scale, values().chain([1.0]), 5),
        height: HEIGHT,
        lines,
        reference: Vec::new(),
        x_name: load_name(runs),
        show_x: &|load| decimal(load, 0),
        scale,
    }
    .draw(html);
}

/// Whether a record is an open loop's, whose levels are rates.
fn is_open_loop(runs: &[Run<'_>]) -> bool {
    runs.iter().flat_map(|run| &run.levels).any(|level| level.rate.is_some())
}

fn load_name(runs: &[Run<'_>]) -> &'static str {
    if is_open_loop(runs) { "arrivals/s" } else { "clients" }
}

/// Every load that any record has, ascending.
fn loads(runs: &[Run<'_>]) -> Vec<f64> {
    let mut loads = all_values(runs, |level| level.load_number());
    loads.sort_unstable_by(f64::total_cmp);
    loads.dedup();
    loads
}

fn all_values(runs: &[Run<'_>], of: impl Fn(&Level<'_>) -> f64) -> Vec<f64> {
    runs.iter().flat_map(|run| &run.levels).map(of).collect()
}
