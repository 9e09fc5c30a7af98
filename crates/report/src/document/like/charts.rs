//! A document's figures, then and now: printed curves are dotted, today's are whole.

use super::{Drawn, Filled, Shape, Today, row_of};
use crate::chart::{Axis, Dash, Line, Point, STYLES};
use crate::document::chart::{BarChart, Chart, LineChart, places, values};
use crate::history::{Published, Quantity, Row};
use crate::numbers::{Scale, round, seconds_round};

/// The document's figures in its order: bars, then curves.
pub(super) fn all(filled: &Filled<'_>) -> Vec<Chart> {
    let Shape { bars: all, figures, .. } = filled.shape;
    let bars = all.iter().enumerate().flat_map(|(n, drawn)| bars(&format!("chart-bars-{n}"), filled, drawn));
    let lines = figures.iter().enumerate();
    let lines = lines.filter_map(|(n, drawn)| lines_of(&format!("chart-figure-{n}"), filled, drawn));
    bars.chain(lines).collect()
}

/// What a line of a figure is called: what was asked, and the row where a result has several.
fn called(result: &Published, row: &Row) -> String {
    match (&row.label, row.clients) {
        (Some(label), _) if result.rows.len() > 1 => label.clone(),
        _ => result.load.clone(),
    }
}

/// The first row for each number of CPUs.
fn rows(result: &'static Published) -> Vec<&'static Row> {
    let mut rows: Vec<&Row> = Vec::new();
    for row in &result.rows {
        if !rows.iter().any(|known| known.conditions.cpus == row.conditions.cpus) {
            rows.push(row);
        }
    }
    rows
}

fn lines_of(id: &str, filled: &Filled<'_>, drawn: &Drawn) -> Option<Chart> {
    let quantity = drawn.quantity;
    // Round numbers of the unit that the document prints.
    let divisor = drawn.results().next().map_or(1.0, |result| quantity.factor(&result.document));
    let mut lines: Vec<Line> = Vec::new();
    let mut levels: Vec<(String, &'static Published, usize, Option<f64>)> = Vec::new();
    for result in drawn.results() {
        let year = result.document.year.unwrap_or_default();
        for row in rows(result) {
            let style = levels.len() % STYLES;
            let name = called(result, row);
            for today in &filled.today {
                let Some((_, measured)) = today.levels(result, row) else { continue };
                let points = measured.iter().map(|it| Point::new(f64::from(it.clients), it.value(quantity)));
                let points = points.filter(|point| point.y > 0.0).collect();
                let name = format!("{name}, {}", today.name);
                lines.push(Line { dash: Dash::Now, ..Line::marked(name, style, points) });
            }
            let printed = row.figure(quantity).map(|figure| figure.value);
            levels.push((format!("{name}, {year}"), result, style, printed));
        }
    }
    // A peak without its clients holds over the whole width.
    let here = places(&lines);
    let (from, to) = (here.first().copied().unwrap_or(1.0), here.last().copied().unwrap_or(1.0));
    for (name, result, style, printed) in levels {
        let by_clients =
            result.points(quantity).into_iter().map(|(clients, value)| Point::new(f64::from(clients), value));
        let mut points: Vec<Point> = by_clients.filter(|point| point.y > 0.0).collect();
        if let (true, Some(value)) = (points.is_empty(), printed) {
            points = vec![Point::new(from, value), Point::new(to, value)];
        }
        lines.push(Line { dash: Dash::Then, ..Line::marked(name, style, points) });
    }
    lines.retain(|line| !line.points.is_empty());
    lines.iter_mut().flat_map(|line| &mut line.points).for_each(|point| point.y /= divisor);
    let places = places(&lines);
    if places.is_empty() {
        return None;
    }
    let unit = Scale::plain(3, values(&lines));
    let say = |value: f64| match quantity {
        Quantity::Latency => seconds_round(value),
        _ => round(&unit.say(value)),
    };
    // Today's values are a thousand times the printed ones, which a linear axis would draw at zero.
    let label = if divisor > 1.0 { "Mbit/s (2^20), logarithmic scale" } else { "logarithmic scale" };
    let y = Axis::durations(label, values(&lines), &say);
    let caption =
        "Dotted: as printed; a peak whose clients were not printed is a line over all. Whole: today.";
    let x = Axis::counts("clients", 1.0, &places);
    let chart = LineChart::new(id, &*drawn.title, ("clients", x), y, unit, lines);
    Some(Chart::Lines(LineChart { caption: caption.to_owned(), ..chart }))
}

/// Peaks or shares as bars: then, and now, each on a scale of its own.
fn bars(id: &str, filled: &Filled<'_>, drawn: &Drawn) -> Vec<Chart> {
    let quantity = drawn.quantity;
    if let Some(printed) = filled.shares_of(drawn, None) {
        let measured = |today: &Today| filled.shares_of(drawn, Some(today)).unwrap_or_default();
        return then_and_now(id, filled, drawn, ("as printed", printed), measured);
    }
    let row_of = |result: &'static Published| row_of(result, quantity);
    let name = |result: &'static Published| {
        let cpus = row_of(result).conditions.cpus.unwrap_or_default();
        format!("{}, {cpus} {}", result.load, if cpus == 1 { "processor" } else { "processors" })
    };
    let printed =
        drawn.results().filter_map(|result| Some((name(result), row_of(result).figure(quantity)?.value)));
    let year = drawn.results().next().and_then(|result| result.document.year).unwrap_or_default();
    let measured = |today: &Today| {
        let value = |result| today.value(result, row_of(result), quantity).map(|it| it.value);
        drawn.results().filter_map(|result| Some((name(result), value(result)?))).collect()
    };
    then_and_now(id, filled, drawn, (&year.to_string(), printed.collect()), measured)
}

/// What was printed, then a chart for each server of today.
fn then_and_now(
    id: &str,
    filled: &Filled<'_>,
    drawn: &Drawn,
    (then, printed): (&str, Vec<(String, f64)>),
    measured: impl Fn(&Today) -> Vec<(String, f64)>,
) -> Vec<Chart> {
    let mut charts = vec![chart(format!("{id}-then"), format!("{}, {then}", drawn.title), drawn, printed)];
    charts.extend(filled.today.iter().enumerate().map(|(place, today)| {
        let title = format!("{}, {}", drawn.title, today.name);
        chart(format!("{id}-{place}"), title, drawn, measured(today))
    }));
    charts
}

fn chart(id: String, title: String, drawn: &Drawn, rows: Vec<(String, f64)>) -> Chart {
    let divisor = drawn.results().next().map_or(1.0, |result| drawn.quantity.factor(&result.document));
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| (name, value / divisor, None)).collect();
    let caption = match drawn.quantity {
        Quantity::Throughput => "Mbit/s; a Mbit has 2^20 bits, as WebStone's.",
        Quantity::ConnectionRate => "Connections/s.",
        _ => "Request rate in percent of that of static files.",
    };
    Chart::Bars(BarChart {
        id,
        title,
        definition: None,
        caption,
        names: "configuration",
        style: 0,
        scale: Scale::plain(1, rows.iter().map(|row| row.1)),
        rows,
    })
}
