//! Tables of a series as sheets: what the report of the series says of all cells together.

use crate::cell::Cell;
use crate::csv::Row;
use crate::document::table::{Line, Sheet as Told};

use super::book::Sheet;

/// Sheets of a series' workbook, in order, by the titles of its tables.
pub(super) const TITLES: [&str; 8] =
    ["Ranks", "Scaling", "SPICE", "Handshakes", "Origin", "Peaks", "Batches", "Published"];

/// All tables of a title as one, with what each is about in its first column. `None` without such a table.
pub(super) fn sheet<'a>(title: &'static str, all: &[Told]) -> Option<Sheet<'a>> {
    let of_title: Vec<&Told> = all.iter().filter(|sheet| sheet.title == title).collect();
    let first = of_title.first()?;
    let heads: Vec<String> = (first.table.columns.iter())
        .map(|column| match column.unit.as_str() {
            "" => column.name.clone(),
            unit => format!("{} ({unit})", column.name),
        })
        .collect();
    let row = |of: &str, cells: &[Cell]| {
        let mut row = Row::default();
        row.cell("Table", "", of);
        for (place, head) in heads.iter().enumerate() {
            row.cell(head.clone(), "", cells.get(place).cloned().map_or(Cell::None, plain));
        }
        row
    };
    let mut rows = Vec::new();
    for sheet in &of_title {
        let mut of = sheet.explanation.clone();
        for line in &sheet.table.lines {
            match line {
                Line::Group(group) => of.clone_from(group),
                Line::Row(cells) => rows.push(row(&of, &cells.cells)),
                Line::Note(_) => {}
            }
        }
    }
    Some(Sheet::of(title, row("", &[]), rows, 1))
}

/// A number as Excel keeps it.
fn plain(cell: Cell) -> Cell {
    match cell {
        Cell::Toned(_, inner) => plain(*inner),
        Cell::Decimal(value, _) => value.into(),
        Cell::Scaled(value, scale) => scale.in_unit(value.as_f64()).into(),
        Cell::Bar { .. } => Cell::None,
        other => other,
    }
}
