//! Stored runs and series as a table, one line each. The caller reads the library and says what a line holds.

use crate::Options;
use crate::document::table::{Room, Table};
use crate::document::{Block, Document};
use crate::render::text;

/// A run or a series in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Workload, and target unless it is the embedded server.
    pub what: String,
    /// The highest request rate with its load, or what a search found; empty where there is none.
    pub result: String,
    /// The word of the verdict; of a series the worst of its cells.
    pub standing: &'static str,
    /// Its tags; empty where it has none.
    pub tags: String,
}

/// The table; each line begins with the name of its run.
pub fn render_list(rows: &[(String, Listed)], options: &Options) -> String {
    let mut table = Table::with_rows(rows);
    table.text("run", Room::Always, |(name, _)| name);
    table.text("workload", Room::Flexible(12), |(_, listed)| &*listed.what);
    table.number("result", "", Room::Always, |(_, listed)| &*listed.result);
    table.text("verdict", Room::Always, |(_, listed)| listed.standing);
    if rows.iter().any(|(_, listed)| !listed.tags.is_empty()) {
        table.text("tags", Room::Words, |(_, listed)| &*listed.tags);
    }
    text::render(&Document(vec![Block::Table(table.done())]), options)
}
