//! Both peaks of every cell, as the certified reports of the nineties summed a server up: connections at their clients, throughput
//! at its own, and what was used up there.

use webstone_judge::series::LevelSummary;

use super::Report;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{count, decimal};
use crate::screen::{Screen, Tone};

/// WebStone's megabit.
const MEBI: f64 = 1_048_576.0;

/// The table.
pub(super) fn sheet(screen: &Screen, report: &Report<'_>) -> Sheet {
    let mut table = Table::default();
    table.text("cell", Room::Distinct(14)).number("connections/s", "at clients", Room::Always);
    table.number("Mbit/s (2^20)", "at clients", Room::Always);
    table.number("server", "CPU", Room::Always).number("link", "", Room::Optional(2));
    table.text("bottleneck", Room::Flexible(12));
    let dash = || screen.dash().to_owned();
    for cell in &report.summary.cells {
        let connections = cell.best(|level| level.connection_rate);
        let throughput = cell.best(|level| level.throughput_bps);
        let told = |level: Option<&LevelSummary>, value: fn(&LevelSummary) -> f64| {
            let Some(level) = level else { return dash() };
            let value = value(level);
            let clients = level.rate.map_or_else(|| count(level.clients.into()), |rate| format!("{rate}/s"));
            format!("{} at {clients}", decimal(value, usize::from(value < 100.0)))
        };
        let percent = |value: Option<f64>| value.map_or_else(dash, |value| format!("{}%", decimal(value, 0)));
        let limit = match (cell.counts(), cell.standing) {
            (false, Some(standing)) => standing.word().to_owned(),
            // Its evidence is in the cell's own report.
            _ => cell
                .limit
                .as_deref()
                .and_then(|it| it.split([':', '.']).next())
                .unwrap_or_default()
                .to_owned(),
        };
        let row = vec![
            cell.name.clone(),
            told(connections, |level| level.connection_rate),
            told(throughput, |level| level.throughput_bps / MEBI),
            percent(connections.or(throughput).and_then(|level| level.server_cpu_percent)),
            percent(connections.or(throughput).and_then(|level| level.link_percent)),
            limit,
        ];
        table.row_in(row, if cell.counts() { Tone::Plain } else { Tone::Caution }, false);
    }
    let mut sheet =
        Sheet::new("Peaks", "connections and throughput, each at its own number of clients", table);
    let text = "A megabit of 2^20 bits is WebStone's. CPU (100 % is one CPU, all of the time) and share of the link are those at the peak of connections; with kept \
                connections few are made, and that of throughput tells more. A loopback has no share.";
    sheet.notes.push((Tone::Faint, text.to_owned()));
    sheet
}
