//! The blocks of a document as parts of a page.

use super::figure::heading;
use super::markup::Html;
use crate::chart;
use crate::document::chart::{Changes, Chart};
use crate::document::table::Sheet;
use crate::document::{Block, Document, Tone};

impl Html {
    /// Draws a document below the title of its page or section.
    pub(super) fn document(&mut self, Document(blocks): &Document) -> &mut Html {
        // A table without a title stands below its heading.
        let (mut caption, mut group) = ("", "h3");
        for alike in blocks.chunk_by(|a, b| is_fact(a) && is_fact(b) || is_chart(a) && is_chart(b)) {
            match &alike[0] {
                block if is_fact(block) => {
                    self.facts(alike.iter().filter_map(|block| match block {
                        Block::Item { label, text, .. } => Some((label.trim(), text.clone())),
                        _ => None,
                    }));
                }
                block if is_chart(block) => {
                    self.charts(|html| alike.iter().for_each(|block| html.block(block)));
                }
                Block::Table(table) => {
                    self.table(caption, table.clone());
                }
                Block::Group(title) => {
                    self.element(group, title);
                    caption = title;
                }
                block => {
                    if let Block::Heading { title, .. } = block {
                        (caption, group) = (title, "h4");
                    }
                    self.block(block);
                }
            }
        }
        self
    }

    fn block(&mut self, block: &Block) {
        match block {
            // The page has a title.
            Block::Gap | Block::Title(..) => self,
            Block::Text(pieces) => {
                let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
                match pieces.first().map(|(tone, _)| *tone).unwrap_or_default() {
                    Tone::Strong => self.verdict("verdict", &text),
                    Tone::Good => self.verdict("verdict valid", &text),
                    Tone::Caution => self.verdict("verdict noisy", &text),
                    Tone::Alarm => self.verdict("verdict invalid", &text),
                    tone => self.element(paragraph(tone), &text),
                }
            }
            Block::Item { tone, text, .. } => self.element(paragraph(*tone), text),
            Block::Heading { title, explanation } => {
                self.element("h3", title);
                if explanation.is_empty() { self } else { self.element("p", explanation) }
            }
            Block::Group(_) | Block::Table(_) => self.document(&Document(vec![block.clone()])),
            Block::Sheet(sheet) => self.sheet(sheet),
            Block::Line(line) => self.element("p", line),
            Block::List(items) => self.list(items.iter().cloned()),
            Block::Chart(chart, sheet) => self.chart(chart, sheet.as_ref()),
            Block::Section(id, title, blocks) => self.section(id, title).document(blocks).raw("</section>"),
            Block::Part(id, title, blocks) => self.section_of(id, title, |html| {
                html.document(blocks);
            }),
            Block::Level { load, is_open, blocks } => {
                self.raw("<details class=\"level\" data-level=\"").text(load);
                self.raw(if *is_open { "\" open>" } else { "\">" });
                self.raw("<summary><h3>").text(load).raw("</h3></summary>");
                self.document(blocks).raw("</details>")
            }
            // Sections stand open, so that links lead to them.
            Block::Fold { title, brief, whole }
                if brief.0.is_empty() && !matches!(whole.0[..], [Block::Section(..), ..]) =>
            {
                self.fold(title, |html| html.document(whole))
            }
            Block::Fold { whole, .. } => self.document(whole),
            Block::Either(.., blocks) => {
                self.block(&blocks[0]);
                self
            }
        };
    }

    fn verdict(&mut self, class: &str, text: &str) -> &mut Html {
        self.raw(&format!("<div class=\"{class}\">")).element("p", text).raw("</div>")
    }

    fn chart(&mut self, chart: &Chart, sheet: Option<&Sheet>) -> &mut Html {
        let Changes { id, title, definition, caption, rows } = match chart {
            Chart::Changes(changes) => changes,
            Chart::Lines(lines) => return lines.draw(self),
            Chart::Bars(bars) => return bars.draw(self),
        };
        self.raw(if sheet.is_some() { "<figure class=\"wide\">" } else { "<figure>" });
        heading(self, title, definition.as_deref());
        let said: Vec<String> = rows.iter().map(|row| format!("{}: {}.", row.name, row.shown)).collect();
        self.raw(&chart::changes(id, title, &said.join(" "), "change, %", rows));
        if let Some(sheet) = sheet {
            self.sheet(sheet);
        }
        if !caption.is_empty() {
            self.element("figcaption", caption);
        }
        self.raw("</figure>\n")
    }
}

fn paragraph(tone: Tone) -> &'static str {
    if tone == Tone::Faint { "p class=\"note\"" } else { "p" }
}

/// Whether a block is a label with a text.
fn is_fact(block: &Block) -> bool {
    matches!(block, Block::Item { label, .. } if !label.is_empty())
}

/// Whether a block is a chart without a table.
fn is_chart(block: &Block) -> bool {
    matches!(block, Block::Chart(_, None))
}
