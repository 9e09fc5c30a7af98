//! Documents in GitHub-flavoured Markdown, for a README or a pull request. GitLab draws it as well.
//!
//! Texts that others wrote (paths, server names, warnings) cannot leave their cell or become markup: see [`safe`].

use std::fmt::Write as _;

use webstone_measure::shown::shown;

use crate::document::cell::Cell;
use crate::document::table::{Column, Line, Table};
use crate::document::{Block, Document, Tone};
use crate::outgoing;

/// The text, ending in a newline.
pub(crate) fn render(document: &Document) -> Vec<u8> {
    let mut out = String::new();
    document.0.iter().for_each(|block| draw(block, &mut out));
    outgoing::text(&out)
}

// Writing to a String cannot fail.
fn draw(block: &Block, out: &mut String) {
    match block {
        Block::Gap => {}
        Block::Title(title) => out.push_str(&format!("### {}\n\n", safe(title))),
        Block::Heading { title, explanation } => {
            let _ = writeln!(out, "#### {}\n", safe(title));
            if !explanation.is_empty() {
                let _ = writeln!(out, "{}\n", safe(explanation));
            }
        }
        Block::Group(title) => out.push_str(&format!("**{}**\n\n", safe(title))),
        Block::Text(pieces) => {
            pieces.iter().for_each(|(tone, text)| out.push_str(&piece(*tone, text)));
            out.push_str("\n\n");
        }
        Block::Item { text, .. } | Block::Line(text) => out.push_str(&format!("{}\n\n", safe(text))),
        Block::List(items) => {
            items.iter().for_each(|item| out.push_str(&format!("- {}\n", safe(item))));
            out.push('\n');
        }
        Block::Table(table) => self::table(table, out),
        Block::Sheet(sheet) => {
            let _ = writeln!(out, "#### {}\n\n{}\n", safe(&sheet.title), safe(&sheet.explanation));
            table(&sheet.table, out);
            sheet.notes.iter().for_each(|(_, note)| out.push_str(&format!("{}\n\n", safe(note))));
        }
        Block::Fold(title, document) => {
            let _ = writeln!(out, "<details><summary>{title}</summary>\n");
            document.0.iter().for_each(|block| draw(block, out));
            out.push_str("</details>\n");
        }
        Block::Either(.., blocks) => draw(&blocks[0], out),
    }
}

fn piece(tone: Tone, text: &str) -> String {
    match tone {
        Tone::Strong => format!("**{}**", safe(text)),
        Tone::Faint => format!("*{}*", safe(text)),
        Tone::Code => format!("`{}`", shown(text).replace('`', " ")),
        _ => safe(text),
    }
}

/// A table in parts, where headings and notes stand between its rows.
fn table(table: &Table, out: &mut String) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let name = |column: &Column| match column.unit.as_str() {
        "" => safe(&column.name),
        unit => format!("{}, {}", safe(&column.name), safe(unit)).trim_start_matches(", ").to_owned(),
    };
    let rule = |column: &Column| if column.left { ":---" } else { "---:" }.to_owned();
    let head =
        || line(table.columns.iter().map(name).collect()) + &line(table.columns.iter().map(rule).collect());
    let mut open = false;
    for row in &table.lines {
        match row {
            Line::Group(title) => {
                let _ = write!(out, "{}**{}**\n\n", if open { "\n" } else { "" }, safe(title));
                open = false;
            }
            Line::Note(note) => {
                let _ = write!(out, "{}{}\n\n", if open { "\n" } else { "" }, safe(note));
                open = false;
            }
            Line::Row(row) => {
                if !std::mem::replace(&mut open, true) {
                    out.push_str(&head());
                }
                out.push_str(&line(row.cells.iter().map(cell).collect()));
            }
        }
    }
    out.push('\n');
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Toned(tone, cell) => piece(*tone, cell.shown().trim()),
        cell => safe(cell.shown().trim()),
    }
}

/// A text that others wrote, so that it stays text on its line and in its cell: what cannot be seen becomes its number, what
/// Markdown or HTML would take for markup is escaped (CommonMark, section 2.4).
pub fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in shown(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // GitHub would call a user or a team of that name.
            '@' => safe.push_str("@\u{2060}"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_cell_or_becomes_markup() {
        assert_eq!(
            safe("a|b\n<img src=x> `c` [d](e) \u{1b}[2J *f* @team"),
            "a\\|b &lt;img src=x&gt; \\`c\\` \\[d\\](e) \\\\u{1b}\\[2J \\*f\\* @\u{2060}team"
        );
    }
}
