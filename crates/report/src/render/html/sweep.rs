//! The charts over the number of clients, as the reports of the nineties had them: connections, throughput, latency; with them Little's
//! load factor, the error level and the CPU of both sides. One line per record; for a single record, all percentiles share a chart, and so
//! do both CPUs.

use webstone_measure::figures::Figure as Quantity;
use webstone_measure::figures::level::{
    CONNECTION_RATE, ERROR_LEVEL, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, LITTLE,
    PAGES_PER_MINUTE, REQUEST_RATE, THROUGHPUT,
};
use webstone_measure::figures::table;

use crate::chart::{Axis, Line, Point};
use crate::numbers::{Scale, count, seconds_round};
use crate::summary::Level;

use super::markup::Html;
use super::{Run, definitions, distributions, parts};
use crate::document::chart::{BarChart, LineChart, tops, values};
use crate::document::figures::{definition, interval, scale, title, value};

/// With more levels than this, figures have no intervals: they would have to be computed for the chart.
const INTERVALS_MAX: usize = 40;

/// Draws the section, where there is anything to be compared.
pub(super) fn draw(html: &mut Html, runs: &[Run<'_>]) {
    let sweep = runs.iter().any(|run| run.levels.len() > 1);
    let measured = runs.iter().filter(|run| !run.levels.is_empty()).count();
    if !sweep && measured < 2 {
        return;
    }
    let heading = match (sweep, is_open_loop(runs)) {
        (false, _) => "Side by side",
        (true, false) => "Against the number of clients",
        (true, true) => "Against the arrival rate",
    };
    html.section_of("load", heading, |html| {
        if runs.iter().any(Run::repeated) {
            html.element(
                "p class=\"note\"",
                "Points: all iterations together. Bars, or bands where there are many levels: 95 % intervals of the mean \
                 over iterations.",
            );
        }
        html.charts(|html| {
            for (index, quantity) in quantities(runs).into_iter().enumerate() {
                match sweep {
                    true => lines(html, runs, quantity),
                    false => side_by_side(html, runs, quantity),
                }
                // Requests, throughput and latency first, then what the latency is made of.
                if index == 2 {
                    if sweep {
                        percentiles(html, runs);
                    }
                    parts::draw(html, runs);
                    distributions::draw(html, runs);
                }
            }
            if sweep {
                against_rate(html, runs);
                cpu(html, runs);
            }
        });
        if all_values(runs, |level| level.figures.error_level_percent).iter().all(|level| *level == 0.0) {
            let ended: u64 = runs.iter().flat_map(|run| &run.levels).map(|level| level.counts.ended()).sum();
            html.raw("<p class=\"note\">").defined(&title(&ERROR_LEVEL), definition(&ERROR_LEVEL).as_deref());
            html.text(&format!(": 0 at every level; none of {} requests failed.", count(ended))).raw("</p>");
        }
    });
}

/// Charts worth drawing: with a connection for each request, connections are requests; without errors there is no chart of them.
fn quantities(runs: &[Run<'_>]) -> Vec<&'static Quantity> {
    let levels = || runs.iter().flat_map(|run| &run.levels);
    let mut quantities: Vec<&Quantity> = vec![&REQUEST_RATE, &THROUGHPUT, &LATENCY_MEAN];
    if levels().any(|level| level.figures.error_level_percent > 0.0) {
        quantities.push(&ERROR_LEVEL);
    }
    let connects = |level: &Level<'_>| level.figures.connection_rate / level.figures.request_rate;
    if levels().any(|level| connects(level) > 0.01 && (connects(level) - 1.0).abs() > 0.02) {
        quantities.push(&CONNECTION_RATE);
    }
    if is_open_loop(runs) {
        quantities.push(&PAGES_PER_MINUTE);
    }
    quantities.push(&LITTLE);
    quantities
}

/// The value of a level with its interval; `None` where nothing was answered, but for the share of errors.
fn point(run: &Run<'_>, level: &Level<'_>, quantity: &Quantity) -> Option<Point> {
    let is_shown = level.counts.succeeded > 0 || quantity == &ERROR_LEVEL;
    let value = value(level, quantity).filter(|_| is_shown)?;
    let within = (run.levels.len() <= INTERVALS_MAX).then(|| interval(level, quantity)).flatten();
    Some(Point::within(level.load_number(), value, within.as_ref()))
}

/// The line of a record over its levels.
fn line(run: &Run<'_>, style: usize, name: &str, quantity: &Quantity) -> Line {
    Line::marked(name, style, run.levels.iter().filter_map(|level| point(run, level, quantity)).collect())
}

/// A line per record; that of a single record bears the name of what is shown.
fn line_each(runs: &[Run<'_>], quantity: &Quantity) -> Vec<Line> {
    let line =
        |(style, run): (usize, &Run<'_>)| line(run, style, &run.label(runs, &title(quantity)), quantity);
    runs.iter().enumerate().map(line).collect()
}

fn lines(html: &mut Html, runs: &[Run<'_>], quantity: &'static Quantity) {
    let (per_load, caption) = match quantity {
        _ if quantity == &LITTLE && !is_open_loop(runs) => (
            1.0,
            "Dashed: as many requests in progress as clients, as a closed loop without pauses must have (identity 2).",
        ),
        _ if quantity == &PAGES_PER_MINUTE => (60.0, "Dashed: the arrivals that were asked for."),
        _ => (0.0, ""),
    };
    // A point at each level: on a logarithmic axis, a straight line between the two ends would be wrong.
    let loads = loads(runs);
    let reference: Vec<(f64, f64)> =
        loads.iter().filter(|_| per_load > 0.0).map(|load| (*load, load * per_load)).collect();
    let lines = line_each(runs, quantity);
    let scale = scale(quantity, values(&lines));
    let y = Axis::from_zero("", &scale, tops(&lines).chain(reference.last().map(|end| end.1)), 5);
    let mut figure = LineChart::new(id(quantity), title(quantity), over_load(runs), y, scale, lines);
    figure.definition = definition(quantity);
    figure.caption = caption.to_owned();
    figure.plot.reference = reference;
    figure.draw(html);
}

/// Bars instead of lines, where every record has one level.
fn side_by_side(html: &mut Html, runs: &[Run<'_>], quantity: &'static Quantity) {
    let measured = || {
        runs.iter().filter_map(|run| {
            let level = run.levels.first()?;
            Some((format!("{}, {}", run.name, level.load()), point(run, level, quantity)))
        })
    };
    let value = |point: &Option<Point>| point.as_ref().map_or(f64::NAN, |point| point.y);
    BarChart {
        id: id(quantity),
        title: title(quantity),
        definition: definition(quantity),
        caption: "",
        names: "record",
        style: 0,
        scale: scale(quantity, measured().map(|(_, point)| value(&point))),
        rows: measured()
            .map(|(name, point)| (name, value(&point), point.and_then(|it| it.interval)))
            .collect(),
    }
    .draw(html);
}

/// Percentiles of the response time: four lines of one record, or the 99th of each of several.
fn percentiles(html: &mut Html, runs: &[Run<'_>]) {
    let lines: Vec<Line> = match runs {
        [only] => {
            let all = [
                Some(&LATENCY_P50),
                Some(&LATENCY_P90),
                Some(&LATENCY_P99),
                table::figure("latency_p99_9_s"),
            ];
            let all = all.into_iter().flatten().enumerate();
            all.map(|(style, figure)| line(only, style, figure.short, figure)).collect()
        }
        several => line_each(several, &LATENCY_P99),
    };
    let title = if runs.len() == 1 { "Latency, percentiles".to_owned() } else { title(&LATENCY_P99) };
    let y = Axis::durations("logarithmic scale", values(&lines).chain(tops(&lines)), &seconds_round);
    let scale = scale(&LATENCY_P99, values(&lines));
    LineChart {
        definition: definition(&LATENCY_P99),
        ..LineChart::new("chart-percentiles", title, over_load(runs), y, scale, lines)
    }
    .draw(html);
}

/// Latency against the request rate, level after level in the order of load: where a line turns up, or back, the server is
/// saturated.
fn against_rate(html: &mut Html, runs: &[Run<'_>]) {
    let line = |style: usize, run: &Run<'_>, name: &str, figure: &Quantity| {
        let point = |level: &Level<'_>| Some(Point::new(level.figures.request_rate, value(level, figure)?));
        Line::marked(name, style, run.levels.iter().filter_map(point).collect())
    };
    let mut lines: Vec<Line> = match runs {
        [only] => vec![
            line(0, only, LATENCY_P50.short, &LATENCY_P50),
            line(2, only, LATENCY_P99.short, &LATENCY_P99),
        ],
        several => {
            let each = several.iter().enumerate();
            each.map(|(style, run)| line(style, run, &run.name, &LATENCY_P99)).collect()
        }
    };
    lines.retain(|line| line.points.len() > 1);
    let rates: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    let rate = scale(&REQUEST_RATE, rates.iter().copied());
    let x_name = title(&REQUEST_RATE).to_lowercase();
    let of = if runs.len() == 1 { "Latency".to_owned() } else { title(&LATENCY_P99) };
    let x = Axis::from_zero(&x_name, &rate, rates.iter().copied(), 6);
    let y = Axis::durations("logarithmic scale", values(&lines), &seconds_round);
    let scale = scale(&LATENCY_P99, values(&lines));
    LineChart {
        definition: definition(&LATENCY_P99),
        caption: "A point is a level, in the order of load.".to_owned(),
        show_x: &|value| rate.say(value),
        ..LineChart::new(
            "chart-latency-rate",
            format!("{of} against {x_name}"),
            (&x_name, x),
            y,
            scale,
            lines,
        )
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
    let line = |style: usize, run: &Run<'_>, name: &str, of: &dyn Fn(&Level<'_>) -> Option<f64>| {
        let point = |level: &Level<'_>| Some(Point::new(level.load_number(), of(level)?));
        Line::marked(name, style, run.levels.iter().filter_map(point).collect())
    };
    match runs {
        [only] => {
            let workers = only.levels.iter().map(|level| level.generator.workers).max().unwrap_or(0) as u64;
            let mut lines =
                vec![line(0, only, "load generator", &generator), line(1, only, "server", &server)];
            let server = match only.record.target.cpus.len() as u64 {
                _ if lines[1].points.is_empty() => "; the server’s could not be read".to_owned(),
                0 => String::new(),
                cpus => format!(", the server {}", count(cpus)),
            };
            let caption = format!("The load generator had {} to use{server}.", cpus(workers));
            let behind = line(2, only, "origin", &|level| Some(level.origin?.server?.cpu_percent / 100.0));
            lines.extend(Some(behind).filter(|behind| !behind.points.is_empty()));
            cpu_chart(html, runs, "chart-cpu", "CPUs busy", None, &caption, lines);
        }
        several => {
            for (id, title, definition, of) in [
                ("chart-cpu-generator", "CPUs busy, load generator", definitions::GENERATOR_CPU, generator),
                ("chart-cpu-server", "CPUs busy, server", definitions::SERVER_CPU, server),
            ] {
                let each = several.iter().enumerate();
                let lines = each.map(|(style, run)| line(style, run, &run.name, &of)).collect();
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
    let scale = Scale::plain(2, values(&lines));
    let y = Axis::from_zero("", &scale, values(&lines).chain([1.0]), 5);
    LineChart {
        definition: Some(definition.unwrap_or(definitions::SERVER_CPU).to_owned()),
        caption: caption.to_owned(),
        ..LineChart::new(id, title, over_load(runs), y, scale, lines)
    }
    .draw(html);
}

/// The axis of loads, with its name.
fn over_load(runs: &[Run<'_>]) -> (&'static str, Axis) {
    (load_name(runs), Axis::counts(load_name(runs), 1.0, &loads(runs)))
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

/// Identifier of a figure's chart.
fn id(quantity: &Quantity) -> String {
    format!("chart-{}", quantity.key)
}

fn all_values(runs: &[Run<'_>], of: impl Fn(&Level<'_>) -> f64) -> Vec<f64> {
    runs.iter().flat_map(|run| &run.levels).map(of).collect()
}
