//! Levels that end after a number of pages, in the form of the tables of WASD's chapter on performance: how long the batch took,
//! requests and kilobytes per second, and what the server's cache gained.

use crate::document::cell::Cell;
use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_measure::units::Nanos;
use webstone_model::series::{Caching, Coordinates};

use super::Report;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::signed;

/// The table; `None` where time ends levels.
pub(super) fn sheet(report: &Report<'_>) -> Option<Sheet> {
    let load = &report.series.cells.first()?.spec.load;
    if load.duration > Nanos::ZERO {
        return None;
    }
    let of = |cell| -> Vec<(&CellSummary, &LevelSummary)> {
        let cell: &CellSummary = cell;
        cell.levels.iter().map(|level| (cell, level)).collect()
    };
    let rows: Vec<_> = report.summary.cells.iter().flat_map(of).collect();
    let mut table = Table::with_rows(&rows);
    table.text("cell", Room::Distinct(14), |(cell, _)| &cell.name);
    table.number("concurrent", "", Room::Always, |(_, level)| level.clients.to_string());
    table.number("duration", "s", Room::Always, |(_, level)| {
        Cell::Decimal(level.iteration_s, if level.iteration_s < 1.0 { 4 } else { 2 })
    });
    table.number("requests", "1/s", Room::Always, |(_, level)| {
        Cell::Decimal(level.request_rate, usize::from(level.request_rate < 100.0))
    });
    table.number("Kbytes", "1000/s", Room::Always, |(_, level)| Cell::Decimal(level.throughput_bps / 8e3, 0));
    table.number("caching", "% over off", Room::Optional(2), |(cell, level)| {
        gain_percent(report, cell, level).map(|gain| format!("{}%", signed(gain, 0)))
    });
    table.tones(|(cell, _)| if cell.counts() { Tone::Plain } else { Tone::Caution });
    let explanation = "the time that all pages of a level took, mean of its iterations";
    Some(Sheet::new("Batches", explanation, table.done()))
}

/// How much higher the request rate is with the server's cache than without it, in percent.
fn gain_percent(report: &Report<'_>, cell: &CellSummary, level: &LevelSummary) -> Option<f64> {
    let off = Coordinates { caching: Some(Caching::Off), ..cell.at.clone() };
    let cells = &report.summary.cells;
    let without = cells.iter().find(|it| it.at == off && cell.at.caching == Some(Caching::On))?;
    let counts = |level: &&LevelSummary| level.standing.is_conclusive();
    let base = without.level(level.clients).filter(|base| counts(base) && counts(&level))?.request_rate;
    (base > 0.0).then(|| 100.0 * (level.request_rate / base - 1.0))
}
