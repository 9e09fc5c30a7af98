//! Markup out of text: the one place where text becomes HTML, and the drawing of tables.
//!
//! Whatever comes from a record (a server's name, the path of a page, a message) goes through [`Html::text`], which
//! escapes it. [`Html::raw`] is for markup that stands in this program.

use std::fmt::Write as _;

use crate::chart::escape;
use crate::document::Tone;
use crate::document::cell::Cell;
use crate::document::table::{Line, Row, Sheet, Table};

/// A page of HTML that grows.
#[derive(Debug, Default)]
pub(super) struct Html {
    out: String,
}

impl Html {
    /// Appends markup as it is.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Html {
        self.out.push_str(markup);
        self
    }

    /// Appends text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Html {
        escape(&mut self.out, text);
        self
    }

    /// Appends an element that holds nothing but text; `open` is its name and attributes.
    pub(super) fn element(&mut self, open: &str, text: &str) -> &mut Html {
        let name = open.split(' ').next().unwrap_or(open);
        let _ = write!(self.out, "<{open}>");
        escape(&mut self.out, text);
        let _ = write!(self.out, "</{name}>");
        self
    }

    /// A term, linked to its definition where it has one.
    pub(super) fn defined(&mut self, text: &str, definition: Option<&str>) -> &mut Html {
        match definition {
            Some(id) => self.element(&format!("a class=\"def\" href=\"#{id}\""), text),
            None => self.text(text),
        }
    }

    /// The opening of a section that a heading names.
    pub(super) fn section(&mut self, id: &str, title: &str) -> &mut Html {
        let _ = write!(self.out, "\n<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">");
        escape(&mut self.out, title);
        self.raw("</h2>\n")
    }

    /// A section, if there is anything in it.
    pub(super) fn section_of(&mut self, id: &str, title: &str, draw: impl FnOnce(&mut Html)) -> &mut Html {
        let mut body = Html::default();
        draw(&mut body);
        if !body.out.is_empty() {
            self.section(id, title).raw(&body.out).raw("</section>");
        }
        self
    }

    /// Charts side by side, if there are any.
    pub(super) fn charts(&mut self, draw: impl FnOnce(&mut Html)) -> &mut Html {
        let mut charts = Html::default();
        draw(&mut charts);
        if !charts.out.is_empty() {
            self.raw("<div class=\"charts\">").raw(&charts.out).raw("</div>");
        }
        self
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// What unfolds at a click; on paper it is unfolded.
    pub(super) fn fold(
        &mut self,
        summary: &str,
        draw: impl for<'h> FnOnce(&'h mut Html) -> &'h mut Html,
    ) -> &mut Html {
        self.raw("<details class=\"printed\"><summary>").text(summary).raw("</summary>");
        draw(self);
        self.raw("</details>")
    }

    pub(super) fn list(&mut self, items: impl IntoIterator<Item = String>) -> &mut Html {
        self.raw("<ul>");
        for item in items {
            self.element("li", &item);
        }
        self.raw("</ul>")
    }

    /// Labels with their texts, on several lines where there is little room.
    pub(super) fn facts<'t>(&mut self, facts: impl IntoIterator<Item = (&'t str, String)>) -> &mut Html {
        self.raw("<dl class=\"facts\">");
        for (label, text) in facts {
            let open = if label == "command" { "dd class=\"code\"" } else { "dd" };
            self.raw("<div>").element("dt", label).element(open, &text).raw("</div>");
        }
        self.raw("</dl>")
    }

    /// A table under a caption.
    pub(super) fn table(&mut self, caption: &str, table: Table) -> &mut Html {
        self.sheet(&Sheet::new(caption, "", table))
    }

    /// A sheet of the text report as a table.
    pub(super) fn sheet(&mut self, sheet: &Sheet) -> &mut Html {
        self.sheet_of_levels(sheet, &|_| Some(""))
    }

    /// The same of a sheet in which a row may be a level: `level` maps the first cell of a row to the level's name (empty: not a
    /// level), or to nothing if the row is left out.
    pub(super) fn sheet_of_levels<'l>(
        &mut self,
        sheet: &Sheet,
        level: &dyn Fn(&str) -> Option<&'l str>,
    ) -> &mut Html {
        if sheet.table.columns.is_empty() {
            return self.element("p", &format!("{}: {}.", sheet.title, sheet.explanation));
        }
        let caption = match sheet.explanation.as_str() {
            "" => sheet.title.clone(),
            explanation => format!("{}: {explanation}", sheet.title),
        };
        // A narrow screen scrolls it by itself, with a keyboard too.
        self.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
        self.text(&caption).raw("\"><table>").element("caption", &caption);
        self.raw("<thead><tr>");
        for column in &sheet.table.columns {
            self.raw(if column.left { "<th scope=\"col\" class=\"left\">" } else { "<th scope=\"col\">" });
            self.defined(&column.name, column.definition.as_deref());
            if !column.unit.is_empty() {
                self.raw("<br>").element("small", &column.unit);
            }
            self.raw("</th>");
        }
        self.raw("</tr></thead><tbody>");
        let width = sheet.table.columns.len();
        for line in &sheet.table.lines {
            match line {
                Line::Group(title) => {
                    let open = format!("th scope=\"rowgroup\" class=\"group\" colspan=\"{width}\"");
                    self.raw("</tbody><tbody><tr>").element(&open, title).raw("</tr>");
                }
                Line::Note(note) => {
                    let open = format!("td class=\"note\" colspan=\"{width}\"");
                    self.raw("<tr>").element(&open, note).raw("</tr>");
                }
                Line::Row(Row { cells, marked, tone }) => {
                    if let Some(level) = level(cells.first().map(Cell::shown).unwrap_or_default().trim_end())
                    {
                        self.row(sheet, cells, *marked, *tone, level);
                    }
                }
            }
        }
        self.raw("</tbody></table></div>\n");
        let explanations = sheet.table.columns.iter().filter_map(|column| column.explanation);
        for note in sheet.notes.iter().map(|(_, note)| note.as_str()).chain(explanations) {
            self.element("p class=\"note\"", note);
        }
        self
    }

    fn row(&mut self, sheet: &Sheet, cells: &[Cell], marked: bool, tone: Tone, level: &str) {
        let class = match tone {
            Tone::Good => " class=\"good\"",
            Tone::Caution => " class=\"caution\"",
            Tone::Alarm => " class=\"alarm\"",
            Tone::Plain | Tone::Strong | Tone::Faint | Tone::Code => "",
        };
        let _ = write!(self.out, "<tr{class}");
        if !level.is_empty() {
            self.raw(" data-level=\"").text(level).raw("\"");
        }
        self.raw(">");
        for (index, (cell, column)) in cells.iter().zip(&sheet.table.columns).enumerate() {
            let left = if column.left { " class=\"left\"" } else { "" };
            let open = if index == 0 { format!("th scope=\"row\"{left}") } else { format!("td{left}") };
            let mark = if marked && index == 0 { "▸ " } else { "" };
            self.element(&open, &format!("{mark}{}", cell.shown().trim_end()));
        }
        self.raw("</tr>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_close_by_their_name_and_hold_text() {
        let mut html = Html::default();
        html.element("p class=\"note\"", "<b>");
        assert_eq!(html.finish(), "<p class=\"note\">&lt;b&gt;</p>");
    }
}
