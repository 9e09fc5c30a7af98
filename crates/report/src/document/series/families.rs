//! The charts of the reports of the nineties: over the number of clients, a chart for each interface with a line for each number of
//! CPUs, and one for each number of CPUs with a line for each interface. Peaks alone are marked, as theirs were.

use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_measure::figures::Figure as Quantity;
use webstone_measure::figures::level::{CONNECTION_RATE, LATENCY_MEAN, REQUEST_RATE, THROUGHPUT};

use super::Report;
use crate::chart::{Axis, Line, Point, STYLES};
use crate::document::chart::{Chart, LineChart, places, values};
use crate::document::figures::{definition, scale, title};

/// Most charts of each kind that a series has; the rest is in the tables only.
const FAMILIES_MAX: usize = 12;

/// What is drawn of a level.
type Value = fn(&LevelSummary) -> f64;

/// Both kinds, where there is more than one line.
pub(super) fn all(report: &Report<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    let cells: Vec<&CellSummary> = report.summary.cells.iter().filter(|cell| cell.counts()).collect();
    let per_interface: [(&Quantity, Value); 2] =
        [(&REQUEST_RATE, |level| level.request_rate), (&LATENCY_MEAN, |level| level.latency_mean_s)];
    let cpus = |cell: &CellSummary| {
        cell.at.cpus.map(|cpus| format!("{cpus} {}", if cpus == 1 { "CPU" } else { "CPUs" }))
    };
    for (place, (name, of)) in families(&cells, &CellSummary::beside_cpus, &cpus).iter().enumerate() {
        for (quantity, value) in per_interface {
            let id = format!("chart-family-{}-{place}", quantity.key);
            charts.extend(chart(&id, name, of, quantity, value));
        }
    }
    let per_cpus: [(&Quantity, Value); 2] =
        [(&THROUGHPUT, |level| level.throughput_bps), (&CONNECTION_RATE, |level| level.connection_rate)];
    let beside_interface = |cell: &CellSummary| {
        let at = webstone_model::series::Coordinates { interface: None, ..cell.at.clone() };
        at.to_string()
    };
    let interface = |cell: &CellSummary| cell.at.interface.map(|interface| interface.to_string());
    for (place, (name, of)) in families(&cells, &beside_interface, &interface).iter().enumerate() {
        for (quantity, value) in per_cpus {
            let id = format!("chart-interfaces-{}-{place}", quantity.key);
            charts.extend(chart(&id, name, of, quantity, value));
        }
    }
    charts
}

/// Cells that share a name, each with the name of its line; only where there are several.
fn families<'a>(
    cells: &[&'a CellSummary],
    family: &dyn Fn(&CellSummary) -> String,
    line: &dyn Fn(&CellSummary) -> Option<String>,
) -> Vec<(String, Vec<(String, &'a CellSummary)>)> {
    let mut found: Vec<(String, Vec<(String, &CellSummary)>)> = Vec::new();
    for cell in cells {
        let Some(line) = line(cell) else { continue };
        let name = family(cell);
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push((line, cell)),
            None => found.push((name, vec![(line, cell)])),
        }
    }
    found.retain(|(_, of)| of.len() > 1);
    found.truncate(FAMILIES_MAX);
    found
}

fn chart(
    id: &str,
    name: &str,
    of: &[(String, &CellSummary)],
    quantity: &Quantity,
    value: Value,
) -> Option<Chart> {
    let mut lines = Vec::new();
    for (style, (line, cell)) in of.iter().enumerate().take(STYLES) {
        let at = |level: &LevelSummary| Point::new(f64::from(level.clients), value(level));
        let levels = cell.levels.iter().filter(|level| level.rate.is_none() && level.request_rate > 0.0);
        lines.push(Line::plain(&**line, style, levels.map(at).collect()));
        // The mark is where the rate is highest, also in charts of latency, as in those documents.
        let peak = cell.peak_level().filter(|level| level.rate.is_none());
        lines.push(Line::marked(format!("{line}, peak"), style, peak.map(at).into_iter().collect()));
    }
    let places = places(&lines);
    if places.is_empty() {
        return None;
    }
    let scale = scale(quantity, values(&lines));
    let (x, y) = (Axis::counts("clients", 1.0, &places), Axis::from_zero("", &scale, values(&lines), 5));
    let title = format!("{}: {name}", title(quantity));
    Some(Chart::Lines(LineChart {
        definition: definition(quantity),
        caption: "The mark is the level of the highest request rate. Invalid cells are left out.".to_owned(),
        ..LineChart::new(id, title, ("clients", x), y, scale, lines)
    }))
}
