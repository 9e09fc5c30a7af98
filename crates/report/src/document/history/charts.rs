//! Published results and runs in the same charts, over the number of clients.

use webstone_measure::figures::Figure;
use webstone_measure::figures::level::{CONNECTION_RATE, LATENCY_MEAN, THROUGHPUT};
use webstone_model::record::RunRecord;

use super::{Published, Quantity};
use crate::chart::{Axis, Line, Point, STYLES};
use crate::document::chart::{Chart, LineChart, places, values};
use crate::document::figures;
use crate::numbers::{counted, round, seconds_round};
use crate::summary::{self, Level};

/// What there is to draw over clients.
const CHARTS: [(Quantity, Figure); 3] = [
    (Quantity::ConnectionRate, CONNECTION_RATE),
    (Quantity::Throughput, THROUGHPUT),
    (Quantity::Latency, LATENCY_MEAN),
];

/// What was published and the runs, in the same charts.
pub(super) fn over_clients(published: &[&Published], records: &[RunRecord]) -> impl Iterator<Item = Chart> {
    let runs: Vec<(&RunRecord, Vec<Level<'_>>)> =
        records.iter().map(|record| (record, summary::levels(record))).collect();
    CHARTS.iter().filter_map(move |(quantity, figure)| chart(published, &runs, *quantity, figure))
}

/// Published results in the order in which they are drawn while there is room: the fastest of each document, then the second fastest of
/// each, so that no document fills the chart by itself.
fn foremost<'a>(published: &[&'a Published], quantity: Quantity) -> Vec<&'a Published> {
    let rate = |result: &Published| {
        result.peak().figure(Quantity::ConnectionRate).map_or(0.0, |figure| figure.value)
    };
    let mut ranked: Vec<(usize, usize, &Published)> = Vec::new();
    let drawn = published.iter().copied().filter(|result| !result.points(quantity).is_empty());
    for (document, group) in
        drawn.collect::<Vec<_>>().chunk_by(|a, b| a.document.id == b.document.id).enumerate()
    {
        let mut group = group.to_vec();
        group.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        ranked.extend(group.into_iter().enumerate().map(|(rank, result)| (rank, document, result)));
    }
    ranked.sort_by_key(|(rank, document, _)| (*rank, *document));
    ranked.into_iter().map(|(_, _, result)| result).collect()
}

fn chart(
    published: &[&Published],
    runs: &[(&RunRecord, Vec<Level<'_>>)],
    quantity: Quantity,
    figure: &Figure,
) -> Option<Chart> {
    let mut lines: Vec<Line> = Vec::new();
    let of_runs = runs.iter().map(|(record, levels)| {
        let points = levels.iter().filter_map(|level| {
            let value = quantity.value(&level.figures, &summary::merged(&level.runs))?;
            Some((level.clients, value))
        });
        (record.id.clone(), points.collect::<Vec<_>>())
    });
    let of_published =
        foremost(published, quantity).into_iter().map(|result| (result.id.clone(), result.points(quantity)));
    let all: Vec<_> = of_runs.chain(of_published).filter(|(_, points)| !points.is_empty()).collect();
    for (name, points) in all.iter().take(STYLES) {
        let points = points.iter().filter(|(_, value)| *value > 0.0);
        let points = points.map(|(clients, value)| Point::new(f64::from(*clients), *value)).collect();
        lines.push(Line::marked(&**name, lines.len(), points));
    }
    let places = places(&lines);
    if places.is_empty() {
        return None;
    }
    let scale = figures::scale(figure, values(&lines));
    let say = |value: f64| match quantity {
        Quantity::Latency => seconds_round(value),
        _ => round(&figures::scale(figure, [value]).say(value)),
    };
    // Today's values are a thousand times the published ones, which a linear axis would draw at zero.
    let y = if runs.is_empty() {
        Axis::from_zero("", &scale, values(&lines), 5)
    } else {
        Axis::durations("logarithmic scale", values(&lines), &say)
    };
    let left_out = all.len() - lines.len();
    let caption = match left_out {
        0 => String::new(),
        left_out => format!(
            "{} in the tables; --only chooses which are drawn.",
            counted(left_out as u64, "more result is", "more results are")
        ),
    };
    let (id, x) = (format!("chart-{}", figure.key), Axis::counts("clients", 1.0, &places));
    let chart = LineChart::new(id, figures::title(figure), ("clients", x), y, scale, lines);
    Some(Chart::Lines(LineChart { caption, ..chart }))
}
