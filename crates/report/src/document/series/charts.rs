//! What all cells of a series say together, in charts: peaks, scaling with its fitted law, SPICE efficiency.

use webstone_measure::figures::level::REQUEST_RATE;

use super::{Report, efficiency_lines, families, scaling_lines};
use crate::chart::{Axis, Line, Point};
use crate::document::chart::{BarChart, Chart, LineChart, tops};
use crate::document::figures::{definition, scale, title};
use crate::numbers::{Scale, count};

/// Steps in which a fitted law is drawn.
const LAW_STEPS: u32 = 48;

/// All charts of the series; of each cell, its own report has more.
pub(super) fn all(report: &Report<'_>) -> Vec<Chart> {
    let own = [peaks(report), Some(scaling(report)), Some(efficiency(report))];
    own.into_iter().flatten().chain(families::all(report)).collect()
}

/// The highest rate of each cell, with its interval.
fn peaks(report: &Report<'_>) -> Option<Chart> {
    // Over CPUs a line says it better.
    if scaling_lines(report.summary).iter().any(|(_, points)| points.len() > 1) {
        return None;
    }
    let peak = |cell: &webstone_judge::series::CellSummary| {
        let level = cell.peak_level().filter(|_| cell.counts())?;
        let interval = level.request_rate_interval.filter(|interval| interval.low < interval.high);
        Some((cell.name.clone(), level.request_rate, interval.map(|it| (it.low.max(0.0), it.high))))
    };
    let mut rows: Vec<_> = report.summary.cells.iter().filter_map(peak).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Chart::Bars(BarChart {
        id: "chart-peaks".to_owned(),
        title: format!("{} at the peak", title(&REQUEST_RATE)),
        definition: definition(&REQUEST_RATE),
        caption: "Whiskers: 95 % intervals of the mean over iterations. Invalid cells are left out.",
        names: "cell",
        style: 0,
        scale: scale(&REQUEST_RATE, rows.iter().map(|row| row.1)),
        rows,
    }))
}

/// Peak rates over CPUs: what was measured with intervals, the fitted law as a line without marks.
fn scaling(report: &Report<'_>) -> Chart {
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
    Chart::Lines(LineChart {
        definition: definition(&REQUEST_RATE),
        caption: "Bars are 95 % intervals of the mean over iterations; lines without marks are the fitted Universal \
                  Scalability Law."
            .to_owned(),
        show_x: &|n| if n.fract() == 0.0 { count(n as u64) } else { format!("{n:.2}") },
        ..LineChart::new("chart-scaling", title, ("CPUs", x), y, scale, lines)
    })
}

fn efficiency(report: &Report<'_>) -> Chart {
    let rows = efficiency_lines(report.summary);
    Chart::Bars(BarChart {
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
    })
}
