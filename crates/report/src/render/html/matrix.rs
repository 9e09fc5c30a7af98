//! The page of a series: the verdict on each cell, then what all cells say together, before the charts and tables that any several records
//! have, with one line per cell.

use webstone_measure::figures::level::REQUEST_RATE;
use webstone_model::record::RunRecord;

use super::families;
use super::markup::Html;
use super::{Lead, page, runs};
use crate::Options;
use crate::chart::{Axis, Line, Point};
use crate::document::Tone;
use crate::document::chart::{BarChart, LineChart, tops};
use crate::document::figures::{definition, scale, title};
use crate::judged::Judged;
use crate::numbers::{Scale, count};
use crate::series::{Report, efficiency_lines, notes, scaling_lines};

/// Steps in which a fitted law is drawn.
const LAW_STEPS: u32 = 48;

/// The page. `links` lead to the reports of the cells, in the order of the plan, where they have one.
pub(crate) fn of_series(
    report: &Report<'_>,
    records: &[Option<RunRecord>],
    links: &[Option<String>],
    options: &Options,
) -> String {
    let linked = links.iter().cloned().chain(std::iter::repeat(None));
    let (records, links): (Vec<_>, Vec<Option<String>>) = (records.iter().zip(linked))
        .filter_map(|(record, link)| Some((Judged::whole(record.as_ref()?), link)))
        .unzip();
    let runs = runs(&records);
    let mut matrix = Html::default();
    matrix.section("matrix", "The series");
    let sheets = report.sheets();
    let (ranked, others): (Vec<_>, Vec<_>) = (sheets.iter())
        .filter(|sheet| sheet.title != "Levels of each cell")
        .partition(|sheet| matches!(&*sheet.title, "Ranks" | "Scaling" | "SPICE"));
    matrix.charts(|html| {
        peaks(html, report);
        scaling(html, report);
        efficiency(html, report);
        families::draw(html, report);
    });
    for sheet in ranked.into_iter().chain(others) {
        matrix.sheet(sheet);
    }
    matrix.raw("</section>");
    let mut told = Html::default();
    of_cells(&mut told, report);
    let lead = Lead::Series { links: &links, matrix: &matrix.finish(), notes: &told.finish() };
    page(&report.title(), &report.subtitle(), &lead, &runs, options)
}

/// How far the series is, what is wrong with it, and what the report of each cell warns of.
fn of_cells(html: &mut Html, report: &Report<'_>) {
    for (tone, note) in report.notes() {
        match tone {
            Tone::Alarm => html.raw("<div class=\"verdict invalid\">").element("p", &note).raw("</div>"),
            _ => html.element("p", &note),
        };
    }
    if !report.cell_notes.is_empty() {
        let notes = notes::grouped(report);
        html.raw("<details class=\"printed\"><summary>").element("h3", notes::TITLE);
        html.text(&format!(" ({})", notes.len())).raw("</summary>");
        html.list(notes.iter().map(notes::Grouped::sentence)).raw("</details>");
    }
}

/// The highest rate of each cell, with its interval.
fn peaks(html: &mut Html, report: &Report<'_>) {
    // Over CPUs a line says it better.
    if scaling_lines(report.summary).iter().any(|(_, points)| points.len() > 1) {
        return;
    }
    let peak = |cell: &webstone_judge::series::CellSummary| {
        let level = cell.peak_level().filter(|_| cell.counts())?;
        let interval = level.request_rate_interval.filter(|interval| interval.low < interval.high);
        Some((cell.name.clone(), level.request_rate, interval.map(|it| (it.low.max(0.0), it.high))))
    };
    let mut rows: Vec<_> = report.summary.cells.iter().filter_map(peak).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    BarChart {
        id: "chart-peaks".to_owned(),
        title: format!("{} at the peak", title(&REQUEST_RATE)),
        definition: definition(&REQUEST_RATE),
        caption: "Whiskers: 95 % intervals of the mean over iterations. Invalid cells are left out.",
        names: "cell",
        style: 0,
        scale: scale(&REQUEST_RATE, rows.iter().map(|row| row.1)),
        rows,
    }
    .draw(html);
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
        lines.push(Line::marked(&*scaling.of, style, measured.collect()));
        let Some(law) = &scaling.law else { continue };
        let most = points.iter().map(|(n, _)| *n).fold(1.0, f64::max);
        let at = |step| 1.0 + (most - 1.0) * f64::from(step) / f64::from(LAW_STEPS);
        let fitted = (0..=LAW_STEPS).map(|step| Point::new(at(step), law.at(at(step))));
        let name = format!("{}, fitted", scaling.of);
        lines.push(Line::plain(name, style + groups.len(), fitted.collect()));
    }
    cpus.sort_by(f64::total_cmp);
    cpus.dedup();
    let scale = scale(&REQUEST_RATE, tops(&lines));
    let (x, y) = (Axis::counts("CPUs", 0.0, &cpus), Axis::from_zero("", &scale, tops(&lines), 5));
    let title = format!("{} at the peak, over CPUs of the server", title(&REQUEST_RATE));
    LineChart {
        definition: definition(&REQUEST_RATE),
        caption: "Bars are 95 % intervals of the mean over iterations; lines without marks are the fitted Universal \
                  Scalability Law."
            .to_owned(),
        show_x: &|n| if n.fract() == 0.0 { count(n as u64) } else { format!("{n:.2}") },
        ..LineChart::new("chart-scaling", title, ("CPUs", x), y, scale, lines)
    }
    .draw(html);
}

fn efficiency(html: &mut Html, report: &Report<'_>) {
    let rows = efficiency_lines(report.summary);
    BarChart {
        id: "chart-spice".to_owned(),
        title: "SPICE request efficiency at the peak, %".to_owned(),
        definition: None,
        caption: "Whiskers: 95 % intervals.",
        names: "server, interface",
        style: 0,
        scale: Scale::plain(1, rows.iter().map(|row| row.1.point)),
        rows: (rows.into_iter())
            .map(|(name, efficiency)| {
                let interval = Some(efficiency).filter(|efficiency| efficiency.low < efficiency.high);
                (name, efficiency.point, interval.map(|it| (it.low.max(0.0), it.high)))
            })
            .collect(),
    }
    .draw(html);
}
