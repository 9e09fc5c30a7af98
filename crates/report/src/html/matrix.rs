//! The page of a series: what its cells say together stands before the charts and tables that any several records have, with
//! one line a cell.

use webstone_judge::verdict;
use webstone_model::record::RunRecord;

use super::figure::{BarFigure, Figure, HEIGHT};
use super::markup::Html;
use super::{page, runs};
use crate::Options;
use crate::chart::{Axis, Line, Point};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::series::{Report, efficiency_lines, notes, range, scaling_lines};

/// Steps in which a fitted law is drawn.
const LAW_STEPS: u32 = 48;

/// The page.
pub(crate) fn of_series(
    screen: &Screen,
    report: &Report<'_>,
    records: &[Option<RunRecord>],
    options: &Options,
) -> String {
    let records: Vec<_> = records.iter().flatten().map(|record| (record, verdict::of(record))).collect();
    let runs = runs(&records);
    let mut matrix = Html::default();
    matrix.section("matrix", "The series");
    for (tone, note) in report.notes() {
        match tone {
            Tone::Alarm => matrix.raw("<div class=\"verdict invalid\">").element("p", &note).raw("</div>"),
            _ => matrix.element("p class=\"note\"", &note),
        };
    }
    for sheet in report.sheets(screen).iter().filter(|sheet| sheet.title != "Levels of each cell") {
        matrix.element("h3", sheet.title).sheet(sheet, &|_| true);
    }
    if !report.cell_notes.is_empty() {
        matrix.element("h3", notes::TITLE).raw("<ul>");
        for note in notes::grouped(report) {
            matrix.element("li", &note.sentence());
        }
        matrix.raw("</ul>");
    }
    matrix.raw("<div class=\"charts\">");
    scaling(&mut matrix, report);
    efficiency(&mut matrix, report);
    matrix.raw("</div></section>");
    page(screen, &report.title(), &report.subtitle(), &matrix.finish(), &runs, options)
}

/// Peak rates over CPUs: what was measured with intervals, the fitted law as a line without marks.
fn scaling(html: &mut Html, report: &Report<'_>) {
    let groups = scaling_lines(report.summary);
    let mut lines = Vec::new();
    let mut cpus: Vec<f64> = Vec::new();
    for (style, (scaling, points)) in groups.iter().enumerate() {
        let measured = points.iter().map(|(n, rate)| {
            let interval = Some(rate).filter(|rate| rate.low < rate.high);
            Point::within(*n, rate.point, interval)
        });
        cpus.extend(points.iter().map(|(n, _)| *n));
        lines.push(Line { name: scaling.of.clone(), style, points: measured.collect(), marked: true });
        let Some(law) = &scaling.law else { continue };
        let most = points.iter().map(|(n, _)| *n).fold(1.0, f64::max);
        let at = |step| 1.0 + (most - 1.0) * f64::from(step) / f64::from(LAW_STEPS);
        let fitted = (0..=LAW_STEPS).map(|step| Point::new(at(step), law.at(at(step))));
        let name = format!("{}, fitted", scaling.of);
        lines.push(Line { name, style: style + groups.len(), points: fitted.collect(), marked: false });
    }
    if cpus.is_empty() {
        return;
    }
    cpus.sort_by(f64::total_cmp);
    cpus.dedup();
    let ends = |point: &Point| [point.y, point.interval.map_or(point.y, |(_, high)| high)];
    let rates: Vec<f64> = lines.iter().flat_map(|line| &line.points).flat_map(ends).collect();
    let scale = Scale::plain(0, rates.iter().copied());
    Figure {
        id: "chart-scaling".to_owned(),
        title: "Peak requests/s over CPUs of the server".to_owned(),
        definition: None,
        caption: "Bars are 95 % intervals of the mean over iterations; lines without marks are the fitted Universal \
                  Scalability Law."
            .to_owned(),
        x: Axis::counts("CPUs", 0.0, &cpus),
        y: Axis::from_zero("requests/s", &scale, rates.iter().copied(), 5),
        height: HEIGHT,
        lines,
        reference: Vec::new(),
        x_name: "CPUs",
        show_x: &|n| if n.fract() == 0.0 { count(n as u64) } else { format!("{n:.2}") },
        scale,
    }
    .draw(html);
}

fn efficiency(html: &mut Html, report: &Report<'_>) {
    let rows = efficiency_lines(report.summary);
    if rows.is_empty() {
        return;
    }
    BarFigure {
        id: "chart-spice".to_owned(),
        title: "SPICE request efficiency at the peak, %".to_owned(),
        definition: None,
        names: "server, interface",
        style: 0,
        scale: Scale::plain(1, rows.iter().map(|row| row.1.point)),
        intervals: rows.iter().map(|(_, efficiency)| range(efficiency)).collect(),
        rows: rows.into_iter().map(|(name, efficiency)| (name, efficiency.point)).collect(),
    }
    .draw(html);
}
