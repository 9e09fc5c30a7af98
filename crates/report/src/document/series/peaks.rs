//! Both peaks of every cell, as the certified reports of the nineties summed a server up: most connections per second and highest
//! throughput, each with its number of clients, and the bottleneck there.

use webstone_judge::series::{CellSummary, LevelSummary};

use super::Report;
use super::sheets::at;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::decimal;

/// WebStone's megabit.
const MEBI: f64 = 1_048_576.0;

/// The table.
pub(super) fn sheet(report: &Report<'_>) -> Sheet {
    let connections = |cell: &CellSummary| cell.best(|level| level.connection_rate).cloned();
    let throughput = |cell: &CellSummary| cell.best(|level| level.throughput_bps).cloned();
    let told = |level: LevelSummary, value: f64| {
        format!("{} at {}", decimal(value, usize::from(value < 100.0)), at(&level))
    };
    let used = |cell: &CellSummary, of: fn(&LevelSummary) -> Option<f64>| {
        let level = connections(cell).or_else(|| throughput(cell))?;
        of(&level).map(|percent| format!("{}%", decimal(percent, 0)))
    };
    let mut table = Table::with_rows(&report.summary.cells);
    table.text("cell", Room::Distinct(14), |cell| &cell.name);
    table.number("connections/s", "at clients", Room::Always, |cell| {
        connections(cell).map(|level| (level.connection_rate, level)).map(|(rate, level)| told(level, rate))
    });
    table.number("Mbit/s (2^20)", "at clients", Room::Always, |cell| {
        throughput(cell)
            .map(|level| (level.throughput_bps / MEBI, level))
            .map(|(rate, level)| told(level, rate))
    });
    table.number("server", "CPU", Room::Always, |cell| used(cell, |level| level.server_cpu_percent));
    table.number("link", "", Room::Optional(2), |cell| used(cell, |level| level.link_percent));
    table.text("bottleneck", Room::Words, |cell| match (cell.counts(), cell.standing) {
        (false, Some(standing)) => standing.word().to_owned(),
        // Its evidence is in the cell's own report.
        _ => cell.limit.as_deref().and_then(|it| it.split([':', '.']).next()).unwrap_or_default().to_owned(),
    });
    let table = table.tones(|cell| if cell.counts() { Tone::Plain } else { Tone::Caution }).done();
    let mut sheet =
        Sheet::new("Peaks", "connections and throughput, each at its own number of clients", table);
    let text = "A megabit of 2^20 bits is WebStone's. CPU (100 % is one CPU, all of the time) and share of the link are those at the peak of connections; with kept \
                connections few are made, and that of throughput tells more. A loopback has no share.";
    sheet.notes.push((Tone::Faint, text.to_owned()));
    sheet
}
