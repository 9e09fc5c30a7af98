//! Levels that so many pages end, as WASD's chapter on performance tabled them: how long the batch took, requests and kilobytes a
//! second, and what the server's cache gained.

use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_measure::units::Nanos;
use webstone_model::series::{Caching, Coordinates};

use super::Report;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{decimal, signed};
use crate::screen::{Screen, Tone};

/// The table; `None` where time ends levels.
pub(super) fn sheet(screen: &Screen, report: &Report<'_>) -> Option<Sheet> {
    let load = &report.series.cells.first()?.spec.load;
    if load.duration > Nanos::ZERO {
        return None;
    }
    let mut table = Table::default();
    table.text("cell", Room::Distinct(14)).number("concurrent", "", Room::Always);
    table.number("duration", "s", Room::Always).number("requests", "1/s", Room::Always);
    table.number("Kbytes", "1000/s", Room::Always).number("caching", "% over off", Room::Optional(2));
    for cell in &report.summary.cells {
        for level in &cell.levels {
            let gain = gain_percent(report, cell, level);
            let row = vec![
                cell.name.clone(),
                level.clients.to_string(),
                decimal(level.iteration_s, if level.iteration_s < 1.0 { 4 } else { 2 }),
                decimal(level.request_rate, usize::from(level.request_rate < 100.0)),
                decimal(level.throughput_bps / 8e3, 0),
                gain.map_or_else(|| screen.dash().to_owned(), |gain| format!("{}%", signed(gain, 0))),
            ];
            table.row_in(row, if cell.counts() { Tone::Plain } else { Tone::Caution }, false);
        }
    }
    let explanation = "the time that all pages of a level took, mean of its iterations";
    Some(Sheet::new("Batches", explanation.to_owned(), table))
}

/// How much more the cache makes of the same load.
fn gain_percent(report: &Report<'_>, cell: &CellSummary, level: &LevelSummary) -> Option<f64> {
    let off = Coordinates { caching: Some(Caching::Off), ..cell.at.clone() };
    let cells = &report.summary.cells;
    let without = cells.iter().find(|it| it.at == off && cell.at.caching == Some(Caching::On))?;
    let base = without.level(level.clients).filter(|_| without.counts() && cell.counts())?.request_rate;
    (base > 0.0).then(|| 100.0 * (level.request_rate / base - 1.0))
}
