//! Tables of a series as sheets: what the report of the series says of all cells together.

use crate::cell::Cell;
use crate::csv::Row;
use crate::document::table::{Line, Sheet as Told, Table};

use super::book::Sheet;

/// Sheets of a series' workbook, in order, by the titles of its tables.
pub(super) const TITLES: [&str; 8] =
    ["Ranks", "Scaling", "SPICE", "Handshakes", "Origin", "Peaks", "Batches", "Published"];

/// All tables of a title as one, with what each is about in its first column, and every column that one of them has. `None` without such
/// a table.
pub(super) fn sheet<'a>(title: &'static str, all: &[Told]) -> Option<Sheet<'a>> {
    let of_title: Vec<&Told> = all.iter().filter(|sheet| sheet.title == title).collect();
    of_title.first()?;
    let mut heads: Vec<Head> = Vec::new();
    for head in of_title.iter().flat_map(|sheet| heads_of(&sheet.table)) {
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    let row = |of: &str, own: &[Head], cells: &[Cell]| {
        let mut row = Row::default();
        row.cell("Table", "", of);
        for head in &heads {
            let cell = own.iter().position(|own| own == head).and_then(|place| cells.get(place));
            row.cell(head.0.clone(), "", cell.cloned().map_or(Cell::None, plain));
        }
        row
    };
    let mut rows = Vec::new();
    for sheet in &of_title {
        let own = heads_of(&sheet.table);
        let mut of = sheet.explanation.clone();
        for line in &sheet.table.lines {
            match line {
                Line::Group(group) => of.clone_from(group),
                Line::Row(cells) => rows.push(row(&of, &own, &cells.cells)),
                Line::Note(_) => {}
            }
        }
    }
    Some(Sheet::new(title, row("", &[], &[]), rows, 1))
}

/// A column's name with its unit, and how many before it in its table have the same.
type Head = (String, usize);

fn heads_of(table: &Table) -> Vec<Head> {
    let mut heads: Vec<Head> = Vec::new();
    for column in &table.columns {
        let name = match column.unit.as_str() {
            "" => column.name.clone(),
            unit => format!("{} ({unit})", column.name),
        };
        let before = heads.iter().filter(|(other, _)| *other == name).count();
        heads.push((name, before));
    }
    heads
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::table::Room;

    #[test]
    fn tables_of_a_title_share_their_columns_by_name_and_not_by_place() {
        let told = |of: &str, columns: &[&str], cells: &'static [u64]| {
            let things = [cells];
            let mut rows = Table::with_rows(&things);
            for (place, column) in columns.iter().enumerate() {
                rows.number(*column, "", Room::Always, move |cells| cells[place]);
            }
            Told::new("Scaling", of, rows.done())
        };
        let tables = [
            told("a", &["clients", "rate"], &[1, 10]),
            told("b", &["CPUs", "rate", "rate"], &[2, 20, 21]),
            Told::new("Ranks", "c", Table::default()),
        ];
        let sheet = sheet("Scaling", &tables).unwrap();
        let heads: Vec<String> = sheet.blank.columns.iter().map(|column| column.title()).collect();
        assert_eq!(heads, ["Table", "clients", "rate", "CPUs", "rate"]);
        let text = |row: Row| row.cells.iter().map(Cell::to_string).collect::<Vec<_>>();
        let rows: Vec<Vec<String>> = sheet.lines.map(text).collect();
        assert_eq!(rows, [["a", "1", "10", "", ""], ["b", "", "20", "2", "21"]]);
    }
}
