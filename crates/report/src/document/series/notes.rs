//! The warnings of every cell's own report, in the report of the series: readers of the ranks do not open each record.

use serde::Serialize;
use webstone_judge::series::Summary;
use webstone_model::record::RunRecord;

use super::Report;
use crate::document::{Document, Tone};
use crate::judged::Judged;
use crate::summary;
use crate::text::problems;

/// Head of the section.
pub(crate) const TITLE: &str = "Notes on cells";

/// A warning about one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CellNote {
    /// The cell, by its place.
    pub(crate) cell: usize,
    /// What it is about, in capitals: `OUTLIERS`.
    pub(crate) title: &'static str,
    /// In a sentence.
    pub(crate) text: String,
}

/// All, cell by cell.
pub(crate) fn of_cells(records: &[Option<RunRecord>]) -> Vec<CellNote> {
    let of_cell = |(cell, record): (usize, &Option<RunRecord>)| -> Vec<CellNote> {
        let Some(record) = record else { return Vec::new() };
        let cautions = problems::cautions(&Judged::whole(record), &summary::levels(record));
        cautions.into_iter().map(|(title, text)| CellNote { cell, title, text }).collect()
    };
    records.iter().enumerate().flat_map(of_cell).collect()
}

/// One warning about one cell or several.
pub(crate) struct Grouped<'a> {
    cells: Vec<&'a str>,
    title: &'static str,
    text: &'a str,
}

impl Grouped<'_> {
    /// `OUTLIERS, nginx: apart from …`.
    pub(crate) fn sentence(&self) -> String {
        format!("{}, {}: {}", self.title, self.cells.join(", "), self.text)
    }
}

/// A warning that several cells have is printed once.
pub(crate) fn grouped<'a>(report: &'a Report<'_>) -> Vec<Grouped<'a>> {
    let mut groups: Vec<Grouped<'a>> = Vec::new();
    for note in &report.cell_notes {
        let name = report.summary.cells[note.cell].name.as_str();
        match groups.iter_mut().find(|group| group.title == note.title && group.text == note.text) {
            Some(group) if group.cells.contains(&name) => {}
            Some(group) => group.cells.push(name),
            None => groups.push(Grouped { cells: vec![name], title: note.title, text: &note.text }),
        }
    }
    groups
}

/// The section.
pub(super) fn list(report: &Report<'_>, doc: &mut Document) {
    let groups = grouped(report);
    if !groups.is_empty() {
        doc.heading(TITLE, "");
    }
    groups.iter().for_each(|group| doc.item("!", 3, Tone::Caution, group.sentence()));
}

/// All notes on a cell in one line of a table: why its figures are invalid, its alarms, its warnings.
pub(super) fn of_cell(report: &Report<'_>, place: usize) -> String {
    let cell = &report.summary.cells[place];
    let word = cell.standing.map_or("not measured", |standing| standing.word());
    let mut notes: Vec<String> = cell.reasons.iter().map(|reason| format!("{word}: {reason}")).collect();
    if cell.standing.is_none() {
        notes.push(word.to_owned());
    }
    notes.extend(report.summary.alarms_of(place).map(|alarm| alarm.sentence.clone()));
    let own = report.cell_notes.iter().filter(|note| note.cell == place);
    notes.extend(own.map(|note| format!("{}: {}", note.title, note.text)));
    notes.join(" | ")
}

/// Names of the cells that do not differ significantly from this one.
pub(super) fn not_told_from(summary: &Summary, place: usize) -> String {
    let ranked = summary.ranks.iter().flat_map(|ranks| &ranks.ranked).find(|ranked| ranked.cell == place);
    let names = ranked.into_iter().flat_map(|ranked| &ranked.not_told_from);
    names.map(|other| summary.cells[*other].name.as_str()).collect::<Vec<_>>().join(" | ")
}
