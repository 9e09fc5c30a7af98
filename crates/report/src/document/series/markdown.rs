//! The tables of a series as GitHub's Markdown.

use std::fmt::Write as _;

use super::{Report, notes};
use crate::configuration;
use crate::layout::{Line, Sheet};
use crate::markdown::safe;
use crate::screen::Screen;

pub(super) fn render(report: &Report<'_>, screen: &Screen) -> String {
    let mut out = format!("### {}\n\n{}\n\n", safe(&report.title()), safe(&report.subtitle()));
    let notes = report.notes();
    for (_, note) in &notes {
        let _ = writeln!(out, "- {}", safe(note));
    }
    if !notes.is_empty() {
        out.push('\n');
    }
    report.sheets(screen).iter().for_each(|sheet| draw(sheet, &mut out));
    let of_cells = notes::grouped(report);
    if !of_cells.is_empty() {
        let _ = writeln!(out, "#### {}\n", notes::TITLE);
        of_cells.iter().for_each(|note| out.push_str(&format!("- {}\n", safe(&note.sentence()))));
        out.push('\n');
    }
    if !report.configuration.is_empty() {
        draw(&configuration::sheet(&report.configuration), &mut out);
    }
    out
}

/// A sheet under a heading.
pub(crate) fn draw(sheet: &Sheet, out: &mut String) {
    let _ = writeln!(out, "#### {}\n\n{}\n", sheet.title, safe(&sheet.explanation));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let columns = &sheet.table.columns;
    let head = || {
        let name = |column: &crate::layout::Column| match column.unit.as_str() {
            "" => safe(&column.name),
            unit => format!("{}, {}", safe(&column.name), safe(unit)).trim_start_matches(", ").to_owned(),
        };
        let rule = |column: &crate::layout::Column| if column.left { ":---" } else { "---:" }.to_owned();
        line(columns.iter().map(name).collect()) + &line(columns.iter().map(rule).collect())
    };
    let mut open = false;
    for row in &sheet.table.lines {
        match row {
            Line::Group(title) => {
                let _ = write!(out, "{}**{}**\n\n", if open { "\n" } else { "" }, safe(title));
                open = false;
            }
            Line::Note(note) => {
                let _ = write!(out, "{}{}\n\n", if open { "\n" } else { "" }, safe(note));
                open = false;
            }
            Line::Row { cells, .. } => {
                if !std::mem::replace(&mut open, true) {
                    out.push_str(&head());
                }
                out.push_str(&line(cells.iter().map(|cell| safe(cell.trim_end())).collect()));
            }
        }
    }
    out.push('\n');
    for (_, note) in &sheet.notes {
        let _ = writeln!(out, "{}\n", safe(note));
    }
}
