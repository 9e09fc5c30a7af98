//! Tables as data: columns with their heads and what they do where there is little room, rows of typed cells, headings and
//! notes between them. Formats decide what is drawn, and how.

use serde::Serialize;
use webstone_measure::figures::Figure;

use super::Tone;
use super::cell::Cell;
use super::definitions::anchor_of;

/// What a column does when the terminal is too narrow for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Room {
    /// Stays.
    Always,
    /// Is left out; the lowest number first.
    Optional(u8),
    /// Is cut to what remains, but not below this width.
    Flexible(usize),
    /// The same, but cells that differ still look different.
    Distinct(usize),
    /// Loses words at the end (of a list, whole items), but never the first.
    Words,
}

/// A table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) lines: Vec<Line>,
}

/// A column: two lines of head, and what it does where there is little room.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) unit: String,
    pub(crate) left: bool,
    pub(crate) room: Room,
    /// What it holds, printed below the table if the column is drawn; `None` where the head says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explanation: Option<&'static str>,
    /// Where what it holds is defined: an anchor of the page of definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<String>,
}

/// What stands below the head.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Line {
    Row(Row),
    /// A heading between rows.
    Group(String),
    /// Running text below a row.
    Note(String),
}

/// Cells, with a marker before them or none.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) marked: bool,
    pub(crate) tone: Tone,
}

/// A table with its title and notes: a section of the report in every format.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sheet {
    pub(crate) title: String,
    pub(crate) explanation: String,
    pub(crate) table: Table,
    /// Lines below the table.
    pub(crate) notes: Vec<(Tone, String)>,
}

impl Sheet {
    pub(crate) fn new(title: impl Into<String>, explanation: impl Into<String>, table: Table) -> Sheet {
        Sheet { title: title.into(), explanation: explanation.into(), table, notes: Vec::new() }
    }

    pub(crate) fn note(&mut self, tone: Tone, text: impl Into<String>) {
        self.notes.push((tone, text.into()));
    }

    /// The first of some cautions, and how many there are besides.
    pub(crate) fn cautions(&mut self, most: usize, texts: Vec<String>) {
        let more = texts.len().saturating_sub(most);
        self.notes.extend(texts.into_iter().take(most).map(|text| (Tone::Caution, text)));
        if more > 0 {
            self.note(Tone::Faint, format!("and {more} more of this kind"));
        }
    }
}

impl Table {
    /// A table with a row for each of these, to be filled column by column.
    pub(crate) fn with_rows<T>(things: &[T]) -> Rows<'_, T> {
        let rows = things.iter().map(|thing| (thing, [None, None], Row::default()));
        Rows { columns: Vec::new(), rows: rows.collect() }
    }

    /// The first row from top to bottom: a line per column.
    pub(crate) fn turned(&self) -> Table {
        let cells = match self.lines.first() {
            Some(Line::Row(row)) => &row.cells[..],
            _ => &[],
        };
        let rows: Vec<(&Column, &Cell)> = self.columns.iter().zip(cells).collect();
        let mut table = Table::with_rows(&rows);
        table.text("figure", Room::Always, |(column, _)| match column.unit.as_str() {
            "" => column.name.clone(),
            unit => format!("{}, {unit}", column.name),
        });
        table.number("printed", "", Room::Always, |(_, cell)| (*cell).clone()).done()
    }
}

/// A table being filled: a column names its head and gives the cell of each row, so that the two cannot drift apart.
pub(crate) struct Rows<'a, T> {
    columns: Vec<Column>,
    /// Each with what it is of, and with the heading before it and the note after it.
    rows: Vec<(&'a T, [Option<String>; 2], Row)>,
}

impl<'a, T> Rows<'a, T> {
    fn column<C: Into<Cell>>(&mut self, column: Column, cell: impl Fn(&'a T) -> C) -> &mut Self {
        self.columns.push(column);
        self.rows.iter_mut().for_each(|(thing, _, row)| row.cells.push(cell(thing).into()));
        self
    }

    /// A column of numbers, or of text that is aligned like them.
    pub(crate) fn number<C: Into<Cell>>(
        &mut self,
        name: impl Into<String>,
        unit: impl Into<String>,
        room: Room,
        cell: impl Fn(&'a T) -> C,
    ) -> &mut Self {
        let (name, unit) = (name.into(), unit.into());
        self.column(Column { name, unit, left: false, room, explanation: None, definition: None }, cell)
    }

    /// A column of text.
    pub(crate) fn text<C: Into<Cell>>(
        &mut self,
        name: impl Into<String>,
        room: Room,
        cell: impl Fn(&'a T) -> C,
    ) -> &mut Self {
        let (name, unit) = (name.into(), String::new());
        self.column(Column { name, unit, left: true, room, explanation: None, definition: None }, cell)
    }

    fn last(&mut self) -> &mut Column {
        self.columns.last_mut().expect("it is called after a column was added")
    }

    /// Says where the last column is defined: by a name under a heading that begins with `section`.
    pub(crate) fn defined(&mut self, section: &str, name: &str) -> &mut Self {
        let anchor = anchor_of(section, name);
        debug_assert!(anchor.is_some(), "{section}: {name} has a definition");
        self.last().definition = anchor;
        self
    }

    /// The same, of a column that holds a figure.
    pub(crate) fn defined_as(&mut self, figure: &Figure) -> &mut Self {
        self.defined(figure.defined.section, figure.defined.name)
    }

    /// Says below the table what the last column holds.
    pub(crate) fn explained(&mut self, explanation: &'static str) -> &mut Self {
        self.last().explanation = Some(explanation);
        self
    }

    /// The tone of each row.
    pub(crate) fn tones(&mut self, of: impl Fn(&'a T) -> Tone) -> &mut Self {
        self.rows.iter_mut().for_each(|(thing, _, row)| row.tone = of(thing));
        self
    }

    /// Which rows have a marker before them.
    pub(crate) fn marks(&mut self, is: impl Fn(&'a T) -> bool) -> &mut Self {
        self.rows.iter_mut().for_each(|(thing, _, row)| row.marked = is(thing));
        self
    }

    /// A heading before some of the rows.
    pub(crate) fn groups(&mut self, title: impl Fn(&'a T) -> Option<String>) -> &mut Self {
        self.rows.iter_mut().for_each(|(thing, [before, _], _)| *before = title(thing));
        self
    }

    /// A note after some of the rows.
    pub(crate) fn notes(&mut self, note: impl Fn(&'a T) -> Option<String>) -> &mut Self {
        self.rows.iter_mut().for_each(|(thing, [_, after], _)| *after = note(thing));
        self
    }

    /// The table, filled.
    pub(crate) fn done(&mut self) -> Table {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let lines = rows.flat_map(|(_, [before, after], row)| {
            [before.map(Line::Group), Some(Line::Row(row)), after.map(Line::Note)].into_iter().flatten()
        });
        Table { columns: std::mem::take(&mut self.columns), lines: lines.collect() }
    }
}
