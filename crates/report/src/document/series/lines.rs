//! What charts of a series draw.

use webstone_judge::series::{Scaling, Summary};
use webstone_judge::statistics::Interval;

/// For a chart: of every group, its name and peak rates over CPUs with their intervals.
pub(crate) fn scaling_lines(summary: &Summary) -> Vec<(&Scaling, Vec<(f64, Interval)>)> {
    let points = |scaling: &Scaling| -> Vec<(f64, Interval)> {
        scaling.rows.iter().filter_map(|row| Some((f64::from(row.cpus), row.peak_rate?))).collect()
    };
    summary
        .scaling
        .iter()
        .map(|scaling| (scaling, points(scaling)))
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

/// For a chart: of every interface, its name and efficiency.
pub(crate) fn efficiency_lines(summary: &Summary) -> Vec<(String, Interval)> {
    let rows = summary.spice.iter().flat_map(|spice| spice.rows.iter().map(move |row| (spice, row)));
    rows.filter_map(|(spice, row)| {
        let efficiency = row.efficiency_percent.filter(|_| summary.cells[row.cell].at.is_dynamic())?;
        Some((format!("{}, {}", spice.of, row.interface), efficiency))
    })
    .collect()
}
