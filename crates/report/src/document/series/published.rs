//! The cells of a series beside the rows of published tables that were measured under the same conditions.

use super::Report;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::history::lines;

/// The table; `None` where no published row was measured under the conditions of a cell.
pub(super) fn sheet(report: &Report<'_>) -> Option<Sheet> {
    let mut rows: Vec<(Option<String>, [String; 7])> = Vec::new();
    for (cell, compared) in report.summary.cells.iter().zip(&report.published) {
        for group in compared.chunk_by(|a, b| a.id == b.id) {
            let published = group[0].published;
            let doubted = match (cell.counts(), cell.standing) {
                (false, Some(standing)) => format!(" ({})", standing.word()),
                _ => String::new(),
            };
            let (id, server, load) = (&published.id, &published.server, &published.load);
            let title = format!("{}{doubted} beside {id}: {server}, {load}", cell.name);
            let titles = std::iter::once(Some(title)).chain(std::iter::repeat(None));
            rows.extend(titles.zip(lines(&group.iter().collect::<Vec<_>>())));
        }
    }
    rows.first()?;
    let mut table = Table::with_rows(&rows);
    table.groups(|(title, _)| title.clone()).text("published", Room::Flexible(14), |(_, cells)| &cells[0]);
    table.text("figure", Room::Always, |(_, cells)| &cells[1]);
    table.number("then", "", Room::Always, |(_, cells)| &cells[2]);
    table.number("now", "", Room::Always, |(_, cells)| &cells[3]);
    table.text("unit", Room::Optional(1), |(_, cells)| &cells[4]);
    table.number("ratio", "", Room::Always, |(_, cells)| &cells[5]);
    table.number("clients", "", Room::Optional(2), |(_, cells)| &cells[6]);
    let mut sheet = Sheet::new("Published", "results under the same conditions, then and now", table.done());
    sheet.note(Tone::Faint, crate::history::CAUTION);
    Some(sheet)
}
