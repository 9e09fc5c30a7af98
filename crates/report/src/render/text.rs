//! Documents for a terminal: wrapped text, and tables whose columns of numbers are aligned to the right, with two lines of
//! head (name and unit) and optional columns that give way when the terminal is narrow.
//!
//! No table crate: those adapt by wrapping cells, and a number on two lines cannot be read. Documents use Unicode; for a terminal
//! that only knows ASCII, their characters are replaced here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr;
use webstone_measure::shown::{lines, shown};

use crate::document::cell::Cell;
use crate::document::run::{in_a_list, rest};
use crate::document::table::{Column, Line, Room, Row, Sheet, Table};
use crate::document::{Block, Document, Tone};
use crate::{Charset, Options};

/// Spaces before every line of a table; the first may hold a marker.
const INDENT: usize = 2;
/// Spaces between columns.
const GAP: usize = 2;
/// Smallest width of a cell of words, unless all of its text is shorter.
const WORDS_WIDTH_MIN: usize = 12;
/// Narrowest width: below it a table has no room for its names and numbers.
const WIDTH_MIN: usize = 40;
/// Strong, faint, good, caution, alarm.
const STYLES: [&str; 5] = ["\x1b[1m", "\x1b[2m", "\x1b[1;32m", "\x1b[33m", "\x1b[1;31m"];
const STYLE_END: &str = "\x1b[0m";
/// Characters of documents, and what stands for them in ASCII.
const ASCII: [(&str, &str); 15] = [
    ("─", "-"),
    ("━", "="),
    ("┊", "|"),
    ("–", "-"),
    (" · ", ", "),
    ("…", "..."),
    ("≥\u{a0}", ">="),
    ("±", "+-"),
    ("µs", "us"),
    ("▸", ">"),
    ("✗", "!!"),
    ("×", "x"),
    ("\u{201c}", "\""),
    ("\u{201d}", "\""),
    ("’", "'"),
];

/// A terminal of a width, a character set, and colour or none; and whether everything is shown.
#[derive(Clone, Copy, Debug)]
struct Screen {
    width: usize,
    color: bool,
    charset: Charset,
    full: bool,
}

/// Draws a document.
pub(crate) fn render(document: &Document, options: &Options) -> String {
    let screen = Screen::new(options);
    let mut out = String::new();
    screen.document(document, &mut out);
    let left_out: Vec<String> = document.folded().into_iter().map(in_a_list).collect();
    if !left_out.is_empty() && !options.full {
        let mut end = Document::default();
        rest(&left_out, options, &mut end);
        screen.document(&end, &mut out);
    }
    // The program's own colours stay.
    lines(&out, |rest| if options.color { style_length(rest) } else { 0 }).into_owned()
}

impl Screen {
    fn new(options: &Options) -> Screen {
        let Options { color, charset, full, .. } = *options;
        Screen { width: options.width.max(WIDTH_MIN), color, charset, full }
    }

    fn document(&self, document: &Document, out: &mut String) {
        document.0.iter().for_each(|block| self.block(block, out));
    }

    fn block(&self, block: &Block, out: &mut String) {
        match block {
            Block::Gap => out.push('\n'),
            Block::Title(_, title) => self.text(&[(Tone::Strong, title.clone())], out),
            Block::Text(pieces) => self.text(pieces, out),
            Block::List(items) => items.iter().for_each(|item| self.item("-", 2, Tone::Plain, item, out)),
            Block::Fold { brief, whole, .. } => self.document(if self.full { whole } else { brief }, out),
            Block::Section(_, title, blocks) => {
                self.heading(title, "", out);
                self.document(blocks, out);
            }
            Block::Level { blocks, .. } | Block::Part(.., blocks) => self.document(blocks, out),
            Block::Chart(_, sheet) => sheet.iter().for_each(|sheet| self.sheet(sheet, out)),
            Block::Item { label, width, tone, text } => self.item(label, *width, *tone, text, out),
            Block::Heading { title, explanation } => self.heading(title, explanation, out),
            Block::Group(title) => {
                push_line(out, &format!("  {}", self.paint(Tone::Strong, &self.safe(title))));
            }
            Block::Table(table) => self.table(table, out),
            Block::Sheet(sheet) => self.sheet(sheet, out),
            Block::Line(line) => push_line(out, &self.safe(line)),
            Block::Either(text, lines_max, blocks) => {
                let fits = wrapped(text, self.width).len() <= *lines_max;
                self.block(&blocks[usize::from(!fits)], out);
            }
        }
    }

    /// `text` in the colour of its tone.
    fn paint(&self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain | Tone::Code => return text.to_owned(),
            Tone::Strong => STYLES[0],
            Tone::Faint => STYLES[1],
            Tone::Good => STYLES[2],
            Tone::Caution => STYLES[3],
            Tone::Alarm => STYLES[4],
        };
        if self.color && !text.is_empty() { format!("{style}{text}{STYLE_END}") } else { text.to_owned() }
    }

    /// Text as it may be printed: it comes from servers and files as well, and a control character in it could rewrite what the
    /// terminal already shows.
    fn safe<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let safe = shown(text);
        if self.charset == Charset::Utf8 || safe.is_ascii() {
            return safe;
        }
        let ours = ASCII.iter().fold(safe.into_owned(), |text, (ours, ascii)| text.replace(ours, ascii));
        let ascii = |c: char| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() };
        ours.chars().map(ascii).collect::<String>().into()
    }

    /// Text at the margin. Nothing from the record may begin a line, because scripts look for figures there. The second piece is one word,
    /// which no line end parts.
    fn text(&self, pieces: &[(Tone, String)], out: &mut String) {
        let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
        let tone = pieces.first().map(|(tone, _)| *tone).unwrap_or_default();
        let (end_tone, end) = pieces.get(1).map(|(tone, end)| (*tone, end.as_str())).unwrap_or_default();
        let mut lines = wrapped(&self.safe(&text), self.width.saturating_sub(INDENT));
        lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, &" ".repeat(INDENT)));
        let last = lines.pop().unwrap_or_default();
        lines.iter().for_each(|line| push_line(out, &self.paint(tone, line)));
        let before = last.strip_suffix(end).unwrap_or(&last);
        push_line(out, &format!("{}{}", self.paint(tone, before), self.paint(end_tone, end)));
    }

    /// Text after a label, wrapped, its further lines below its first.
    fn item(&self, label: &str, width: usize, tone: Tone, text: &str, out: &mut String) {
        let room = self.width.saturating_sub(INDENT + width);
        let label_tone = if tone == Tone::Plain { Tone::Faint } else { tone };
        for (index, line) in wrapped(&self.safe(text), room).iter().enumerate() {
            let label = if index == 0 { self.safe(label) } else { "".into() };
            let label = self.paint(label_tone, &padded(&label, width));
            push_line(out, &format!("{}{label}{}", " ".repeat(INDENT), self.paint(tone, line)));
        }
    }

    /// A heading after an empty line, with an explanation where there is room for it.
    fn heading(&self, title: &str, explanation: &str, out: &mut String) {
        let (title, explanation) = (self.safe(title), self.safe(explanation));
        let fits = title.width() + GAP + explanation.width() <= self.width;
        let explanation = self.paint(Tone::Faint, if fits { &explanation } else { "" });
        out.push('\n');
        push_line(out, &format!("{}{}{explanation}", self.paint(Tone::Strong, &title), " ".repeat(GAP)));
    }

    fn sheet(&self, sheet: &Sheet, out: &mut String) {
        self.heading(&sheet.title, &sheet.explanation, out);
        let table = Drawn::of_table(self, &sheet.table);
        table.draw(out);
        let dropped = table.dropped().map(|note| (Tone::Faint, note));
        let explained = table.explanations().map(|text| (Tone::Faint, text.to_owned()));
        for (tone, note) in dropped.into_iter().chain(sheet.notes.iter().cloned()).chain(explained) {
            self.item("", 0, tone, &note, out);
        }
    }

    /// A table that stands alone.
    fn table(&self, table: &Table, out: &mut String) {
        Drawn::of_table(self, table).draw(out);
    }
}

/// A table as a screen has it: heads and cells in its characters, and the columns that there is room for.
struct Drawn<'a> {
    screen: &'a Screen,
    table: &'a Table,
    /// Name and unit of each column.
    heads: Vec<[String; 2]>,
    /// The cells of each line; none of headings and notes.
    cells: Vec<Vec<String>>,
    /// The columns that are drawn, with their widths.
    layout: Vec<(usize, usize)>,
}

impl<'a> Drawn<'a> {
    fn of_table(screen: &'a Screen, table: &'a Table) -> Drawn<'a> {
        let head = |column: &Column| [&column.name, &column.unit].map(|text| screen.safe(text).into_owned());
        let cell = |cell: &Cell| match cell {
            Cell::Named { short, .. } => screen.safe(short).into_owned(),
            cell => screen.safe(&cell.shown()).into_owned(),
        };
        let cells = |line: &Line| match line {
            Line::Row(row) => row.cells.iter().map(cell).collect(),
            _ => Vec::new(),
        };
        let heads = table.columns.iter().map(head).collect();
        let cells = table.lines.iter().map(cells).collect();
        let mut drawn = Drawn { screen, table, heads, cells, layout: Vec::new() };
        drawn.layout = drawn.layout(screen.width);
        drawn.bars();
        drawn
    }

    fn draw(&self, out: &mut String) {
        if self.layout.is_empty() {
            return;
        }
        let (screen, indent) = (self.screen, " ".repeat(INDENT));
        for (place, tone) in [(0, Tone::Strong), (1, Tone::Faint)] {
            let heads: Vec<&str> = self.heads.iter().map(|head| &*head[place]).collect();
            if self.layout.iter().any(|(index, _)| !heads[*index].is_empty()) {
                push_line(out, &format!("{indent}{}", screen.paint(tone, self.row(&heads).trim_end())));
            }
        }
        let is_named = |(index, _): &(usize, usize)| self.heads[*index].iter().any(|text| !text.is_empty());
        if self.layout.iter().any(is_named) {
            let drawn = self.layout.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP);
            let rule = screen.safe("─").repeat(drawn);
            push_line(out, &format!("{indent}{}", screen.paint(Tone::Faint, &rule)));
        }
        for (line, cells) in self.table.lines.iter().zip(&self.cells) {
            match line {
                Line::Row(Row { marked, tone, .. }) => {
                    let mark = padded(&screen.safe(if *marked { "▸" } else { "" }), INDENT);
                    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                    let text = format!("{mark}{}", self.row(&cells));
                    push_line(out, &screen.paint(*tone, text.trim_end()));
                }
                Line::Group(title) => screen.block(&Block::Group(title.clone()), out),
                Line::Note(text) => {
                    for line in wrapped(&screen.safe(text), screen.width.saturating_sub(2 * INDENT)) {
                        push_line(out, &format!("{indent}{indent}{}", screen.paint(Tone::Faint, &line)));
                    }
                }
            }
        }
    }

    /// What is drawn of a row.
    fn row(&self, cells: &[&str]) -> String {
        let cell = |&(index, width): &(usize, usize)| {
            let (column, ellipsis) = (&self.table.columns[index], self.screen.safe("…"));
            match column.room {
                Room::Words => fitted(&first_words(cells[index], width, &ellipsis), width, column.left, ""),
                _ => fitted(cells[index], width, column.left, &ellipsis),
            }
        };
        self.layout.iter().map(cell).collect::<Vec<_>>().join(&" ".repeat(GAP))
    }

    /// The explanations of columns that are drawn.
    fn explanations(&self) -> impl Iterator<Item = &'static str> {
        self.layout.iter().filter_map(|(index, _)| self.table.columns[*index].explanation)
    }

    /// Names the columns for which there is no room, each once and without its unit of measurement.
    fn dropped(&self) -> Option<String> {
        let is_drawn = |column: usize| self.layout.iter().any(|(index, _)| *index == column);
        let name = |[name, unit]: &[String; 2]| {
            let space = if unit.starts_with('/') { "" } else { " " };
            format!("{name}{space}{}", unit.split(", ").next().unwrap_or_default()).trim().to_owned()
        };
        let dropped = self.heads.iter().enumerate().filter(|(index, _)| !is_drawn(*index));
        let mut names: Vec<String> = dropped.map(|(_, head)| name(head)).collect();
        names.dedup();
        let width = self.screen.width;
        (!names.is_empty()).then(|| format!("not shown at {width} columns: {}", names.join(", ")))
    }

    /// The smallest width of a column in which cells that differ are drawn differently, whatever the ellipsis.
    fn distinct_width(&self, index: usize, least: usize, most: usize) -> usize {
        let cells: BTreeSet<&str> =
            self.cells.iter().filter_map(|cells| cells.get(index)).map(String::as_str).collect();
        let drawn = |width: usize| -> BTreeSet<String> {
            let fits = |text: &str| text.width() <= width;
            let drawn = cells
                .iter()
                .map(|text| if fits(text) { (*text).to_owned() } else { cut(text, width, "...") });
            drawn.collect()
        };
        (least..most).find(|width| drawn(*width).len() == cells.len()).unwrap_or(most)
    }

    /// The columns that are drawn, with their widths.
    fn layout(&self, width_max: usize) -> Vec<(usize, usize)> {
        let columns = &self.table.columns;
        let mut widths: Vec<usize> = self.heads.iter().map(|[a, b]| a.width().max(b.width())).collect();
        for cells in &self.cells {
            widths.iter_mut().zip(cells).for_each(|(width, cell)| *width = (*width).max(cell.width()));
        }
        let least: Vec<Option<usize>> = (0..columns.len())
            .map(|index| match columns[index].room {
                Room::Flexible(least) => Some(least),
                Room::Distinct(least) => Some(self.distinct_width(index, least, widths[index])),
                Room::Words => {
                    let cells = self.cells.iter().filter_map(|cells| cells.get(index));
                    Some(cells.map(|cell| words_width_min(cell)).max().unwrap_or(0))
                }
                _ => None,
            })
            .collect();
        let mut layout: Vec<(usize, usize)> = widths.into_iter().enumerate().collect();
        // What can be cut counts as cut while optional columns are left out.
        let slack = |layout: &[(usize, usize)]| {
            layout
                .iter()
                .map(|(index, width)| least[*index].map_or(0, |least| width.saturating_sub(least)))
                .sum::<usize>()
        };
        while total(&layout) - slack(&layout) > width_max {
            let rank = |(position, (index, _)): (usize, &(usize, usize))| match columns[*index].room {
                Room::Optional(rank) => Some((rank, position)),
                _ => None,
            };
            let Some((_, position)) = layout.iter().enumerate().filter_map(rank).min() else { break };
            layout.remove(position);
        }
        let mut excess = total(&layout).saturating_sub(width_max);
        for (index, width) in &mut layout {
            if let Some(least) = least[*index] {
                let cut = excess.min(width.saturating_sub(least));
                *width -= cut;
                excess -= cut;
            }
        }
        layout
    }

    /// Fills what is left of the width with the bars of a column that has them.
    fn bars(&mut self) {
        let (left, screen) = (self.screen.width.saturating_sub(total(&self.layout)), self.screen);
        for (line, cells) in self.table.lines.iter().zip(&mut self.cells) {
            let Line::Row(row) = line else { continue };
            for (index, (cell, drawn)) in row.cells.iter().zip(cells).enumerate() {
                let Cell::Bar { length, limit } = cell else { continue };
                // Beside a limit, a bar is rounded; without one it is rounded up, so that the shortest is visible.
                let (room, filled) = match limit {
                    Some(_) => (left.clamp(10, 60), (length * left.clamp(10, 60) as f64).round() as usize),
                    None => (left.min(40), (length * left.min(40) as f64).ceil() as usize),
                };
                let filled = if limit.is_some() && *length > 0.0 { filled.clamp(1, room) } else { filled };
                let limit = limit.map(|limit| ((limit * room as f64).round() as usize).min(room - 1));
                let letter = |at: usize| match at {
                    at if Some(at) == limit => "┊",
                    at if at < filled => "━",
                    _ => " ",
                };
                let bar: String = (0..room).map(letter).collect();
                *drawn = screen.safe(bar.trim_end()).into_owned();
                self.layout
                    .iter_mut()
                    .filter(|(place, _)| *place == index)
                    .for_each(|(_, width)| *width = room);
            }
        }
    }
}

/// Width that a layout takes.
fn total(layout: &[(usize, usize)]) -> usize {
    layout.iter().map(|(_, width)| width + GAP).sum::<usize>() + INDENT - GAP
}

/// Appends a line without trailing spaces.
fn push_line(out: &mut String, line: &str) {
    // Line ends within are removed: scripts look for our words where lines begin.
    for part in line.trim_end().split('\n') {
        out.push_str(part);
        out.push(' ');
    }
    out.pop();
    out.push('\n');
}

/// Length of the escape sequence that a text begins with, if it is one of ours; 0 otherwise.
fn style_length(text: &str) -> usize {
    let mut styles = STYLES.iter().chain([&STYLE_END]);
    styles.find(|style| text.starts_with(**style)).map_or(0, |style| style.len())
}

/// Breaks text at spaces into lines of at most `width` columns; a longer word is broken where it must be.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (width, text) = (width.max(1), shown(text));
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if line.width() + c.to_string().width() > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Spaces up to a width after a text.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A cell in its width: cut with an ellipsis, or filled with spaces on the side away from its alignment.
fn fitted(text: &str, width: usize, left: bool, ellipsis: &str) -> String {
    let own = text.width();
    if own > width {
        return padded(&cut(text, width, ellipsis), width);
    }
    let fill = " ".repeat(width - own);
    if left { format!("{text}{fill}") } else { format!("{fill}{text}") }
}

/// Where a text may be cut: after each item of a list, or each word of a sentence.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    let mark = if text.contains(", ") { ", " } else { " " };
    text.match_indices(mark).map(|(at, _)| at)
}

/// The smallest width of a cell of words: a list's first item, or a short piece of a sentence.
fn words_width_min(text: &str) -> usize {
    let end = if text.contains(", ") { ends(text).next() } else { None };
    end.map_or(text.width().min(WORDS_WIDTH_MIN), |end| text[..end].width())
}

/// As many parts as there is room for; an ellipsis if it fits after them.
fn first_words(text: &str, width: usize, ellipsis: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(end) = ends(text).filter(|end| text[..*end].width() <= width).last() else {
        return cut(text, width, ellipsis);
    };
    let marked = format!("{}{ellipsis}", &text[..end]);
    if marked.width() <= width { marked } else { text[..end].to_owned() }
}

/// Cuts in the middle, because both directory and file name of a long URL matter.
fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    let room = width.saturating_sub(ellipsis.width());
    let head = taken(text.chars(), room / 2);
    let tail: String = taken(text.chars().rev(), room - room / 2).chars().rev().collect();
    format!("{head}{ellipsis}{tail}")
}

fn taken(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut text = String::new();
    for c in chars {
        if text.width() + c.to_string().width() > width {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Screen {
        Screen::new(&Options { width, charset: Charset::Ascii, ..Options::default() })
    }

    fn table() -> Table {
        let rows = [("/a/very/long/path/to/a/file.html", 1_u64, 22_u64), ("/b", 1000, 3)];
        let mut table = Table::with_rows(&rows);
        table.text("page", Room::Flexible(8), |row| row.0);
        table.number("hits", "1/s", Room::Always, |row| row.1);
        table.number("extra", "", Room::Optional(1), |row| row.2).marks(|row| row.0 == "/b").done()
    }

    fn drawn(width: usize) -> Vec<String> {
        let mut out = String::new();
        screen(width).table(&table(), &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        assert_eq!(
            drawn(80),
            [
                "  page                               hits  extra",
                "                                      1/s",
                "  ----------------------------------------------",
                "  /a/very/long/path/to/a/file.html      1     22",
                "> /b                                1,000      3",
            ]
        );
    }

    #[test]
    fn a_narrow_one_cuts_names_first_and_then_leaves_out_columns() {
        assert_eq!(
            drawn(40),
            [
                "  page                       hits  extra",
                "                              1/s",
                "  --------------------------------------",
                "  /a/very/lo...a/file.html      1     22",
                "> /b                        1,000      3",
            ]
        );
        let layout = Drawn::of_table(&screen(40), &table()).layout(20);
        assert_eq!(layout, [(0, 11), (1, 5)], "the optional column is gone and the name has what remains");
    }

    #[test]
    fn names_that_differ_look_different_and_columns_give_way() {
        let mut table = Table::with_rows(&["nginx-proxy-cache-off", "nginx-proxy-tuned-cache-off"]);
        table.text("cell", Room::Distinct(16), |name| *name).number("hits", "1/s", Room::Always, |_| 1_u64);
        let table = table.number("extra", "", Room::Optional(1), |_| 22_u64).done();
        let screen = screen(40);
        let table = Drawn::of_table(&screen, &table);
        // Cut to less than the first name, both would look alike.
        assert_eq!(table.layout(30), [(0, 22), (1, 4)]);
        assert_eq!(table.layout(24), [(0, 21), (1, 4)]);
    }

    #[test]
    fn remarks_lose_whole_words_and_never_the_first() {
        for (text, width, expected) in [
            ("INCONCLUSIVE, 3 notes", 21, "INCONCLUSIVE, 3 notes"),
            ("INCONCLUSIVE, 3 notes", 20, "INCONCLUSIVE..."),
            ("INCONCLUSIVE, 3 notes", 14, "INCONCLUSIVE"),
            ("The server is the bottleneck", 20, "The server is the..."),
            ("The server is the bottleneck", 12, "The server"),
        ] {
            assert_eq!(first_words(text, width, "..."), expected, "{width}");
        }
        let mut table = Table::with_rows(&["INCONCLUSIVE, 3 notes", "INVALID"]);
        table.number("peak", "", Room::Always, |_| 123_456_u64).text("", Room::Words, |text| *text);
        let table = table.done();
        let screen = screen(40);
        let drawn = Drawn::of_table(&screen, &table);
        // However narrow it is, the verdict stays.
        assert_eq!((drawn.layout(80), drawn.layout(10)), (vec![(0, 7), (1, 21)], vec![(0, 7), (1, 12)]));
    }

    #[test]
    fn text_wraps_at_spaces_and_breaks_what_is_too_long() {
        assert_eq!(wrapped("aa bb ccccccc d", 5), ["aa bb", "ccccc", "cc d"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("漢字漢字", 5), ["漢字", "漢字"]);
    }

    #[test]
    fn wide_characters_are_counted_by_columns() {
        assert_eq!(cut("漢字漢字漢字", 9, "..."), "漢...字");
    }

    #[test]
    fn text_from_a_server_cannot_command_the_terminal() {
        let screen = Screen::new(&Options::default());
        assert_eq!(screen.safe("a\x1b[2J\r\nb\u{202e}"), "a\\u{1b}[2J  b\\u{202e}");
        assert_eq!(screen.safe("größe"), "größe");
        let ascii = Screen::new(&Options { charset: Charset::Ascii, ..Options::default() });
        assert_eq!(ascii.safe("größe"), "gr\\u{f6}\\u{df}e");
    }

    #[test]
    fn without_colour_there_is_no_escape() {
        let plain = Screen::new(&Options::default());
        assert_eq!(plain.paint(Tone::Alarm, "x"), "x");
        let colored = Screen::new(&Options { color: true, ..Options::default() });
        assert_eq!(colored.paint(Tone::Alarm, "x"), "\x1b[1;31mx\x1b[0m");
        assert_eq!(colored.paint(Tone::Plain, "x"), "x");
    }
}
