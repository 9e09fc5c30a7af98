//! The cells of a series beside the rows of published tables that were measured under the same conditions.

use super::Report;
use crate::history::lines;
use crate::layout::{Room, Sheet, Table};
use crate::screen::Tone;

/// The table; `None` where nothing published was measured as any cell was.
pub(super) fn sheet(report: &Report<'_>) -> Option<Sheet> {
    let mut table = Table::default();
    table.text("published", Room::Flexible(14)).text("figure", Room::Always);
    table.number("then", "", Room::Always).number("now", "", Room::Always);
    table.text("unit", Room::Optional(1)).number("ratio", "", Room::Always);
    table.number("clients", "", Room::Optional(2));
    let mut any = false;
    for (cell, compared) in report.summary.cells.iter().zip(&report.published) {
        for group in compared.chunk_by(|a, b| a.id == b.id) {
            any = true;
            let group: Vec<_> = group.iter().collect();
            let published = group[0].published;
            let doubted = match (cell.counts(), cell.standing) {
                (false, Some(standing)) => format!(" ({})", standing.word()),
                _ => String::new(),
            };
            table.group(&format!(
                "{}{doubted} beside {}: {}, {}",
                cell.name, published.id, published.server, published.load
            ));
            for cells in lines(&group, "peak:") {
                table.row(cells.into());
            }
        }
    }
    let mut sheet =
        Sheet::new("Published", "results under the same conditions, then and now".to_owned(), table);
    sheet.notes.push((Tone::Faint, crate::history::CAUTION.to_owned()));
    any.then_some(sheet)
}
