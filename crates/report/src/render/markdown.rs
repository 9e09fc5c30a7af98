//! Documents in GitHub-flavoured Markdown, for a README or a pull request. GitLab draws it as well.
//!
//! Texts that others wrote (paths, server names, warnings) cannot leave their cell or become markup: see [`safe`].

use std::fmt::Write as _;

use webstone_measure::shown::shown;

use crate::document::cell::Cell;
use crate::document::table::{Column, Line, Sheet, Table};
use crate::document::{Block, Document, Tone};
use crate::outgoing;

/// The text, ending in a newline.
pub(crate) fn render(document: &Document) -> Vec<u8> {
    let mut out = String::new();
    blocks(document, &mut out);
    outgoing::text(&(out.trim_end().to_owned() + "\n"))
}

fn blocks(Document(blocks): &Document, out: &mut String) {
    let is_item = |block: &Block| matches!(block, Block::Item { label, .. } if !label.is_empty());
    for alike in blocks.chunk_by(|a, b| is_item(a) && is_item(b)) {
        alike.iter().for_each(|block| draw(block, out));
        // The end of a list.
        out.push_str(if is_item(&alike[0]) { "\n" } else { "" });
    }
}

// Writing to a String cannot fail.
fn draw(block: &Block, out: &mut String) {
    match block {
        Block::Gap => {}
        Block::Title(sign, title) => out.push_str(&format!("### {sign}{}\n\n", safe(title))),
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
        Block::Item { label, text, .. } if !label.is_empty() => {
            out.push_str(&format!("- {}: {}\n", safe(label.trim()), safe(text)));
        }
        Block::Item { text, .. } | Block::Line(text) => out.push_str(&format!("{}\n\n", safe(text))),
        Block::List(items) => {
            items.iter().for_each(|item| out.push_str(&format!("- {}\n", safe(item))));
            out.push('\n');
        }
        Block::Table(table) => self::table(table, out),
        Block::Sheet(sheet) => self::sheet(sheet, out),
        Block::Section(_, title, blocks) => {
            let _ = writeln!(out, "#### {title}\n");
            self::blocks(blocks, out);
        }
        Block::Chart(_, sheet) => sheet.iter().for_each(|sheet| self::sheet(sheet, out)),
        Block::Level { blocks, .. } | Block::Part(.., blocks) => self::blocks(blocks, out),
        Block::Fold { title, brief, whole } => {
            self::blocks(brief, out);
            let _ = writeln!(out, "<details><summary>{}</summary>\n", safe(title));
            self::blocks(whole, out);
            out.push_str("</details>\n\n");
        }
        Block::Either(.., blocks) => draw(&blocks[0], out),
    }
}

fn sheet(sheet: &Sheet, out: &mut String) {
    let _ = writeln!(out, "#### {}\n\n{}\n", safe(&sheet.title), safe(&sheet.explanation));
    table(&sheet.table, out);
    sheet.notes.iter().for_each(|(_, note)| out.push_str(&format!("{}\n\n", safe(note))));
}

fn piece(tone: Tone, text: &str) -> String {
    match tone {
        Tone::Strong | Tone::Good | Tone::Caution | Tone::Alarm => format!("**{}**", safe(text)),
        Tone::Faint => format!("*{}*", safe(text)),
        Tone::Code => format!("`{}`", shown(text).replace('`', " ")),
        _ => safe(text),
    }
}

/// A table, in parts where notes stand between its rows; headings are rows.
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
        let cells = match row {
            Line::Note(note) => {
                let _ = write!(out, "{}{}\n\n", if open { "\n" } else { "" }, safe(note));
                open = false;
                continue;
            }
            Line::Group(title) => {
                let mut cells = vec![String::new(); table.columns.len()];
                cells[0] = piece(Tone::Strong, title);
                cells
            }
            Line::Row(row) => row.cells.iter().map(cell).collect(),
        };
        if !std::mem::replace(&mut open, true) {
            out.push_str(&head());
        }
        out.push_str(&line(cells));
    }
    out.push('\n');
}

fn cell(of: &Cell) -> String {
    match of {
        Cell::Signed(sign, of) => format!("{sign} {}", cell(of)),
        Cell::Toned(tone, of) => piece(*tone, of.shown().trim()),
        of => safe(of.shown().trim()),
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
