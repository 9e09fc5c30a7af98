//! Tables and wrapped text for a terminal: columns of numbers aligned to the right, two lines of head (name and
//! unit), optional columns that give way when the terminal is narrow.
//!
//! No table crate: those adapt by wrapping cells, and a number on two lines is no number.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr;

use webstone_measure::figures::Figure;
use webstone_measure::shown::shown;

use crate::definitions::anchor_of;
use crate::screen::{Screen, Tone};

/// Spaces before every line of a table; the first may hold a marker.
const INDENT: usize = 2;
/// Spaces between columns.
const GAP: usize = 2;

/// What a column does when the terminal is too narrow for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Stays.
    Always,
    /// Is left out; the lowest number first.
    Optional(u8),
    /// Is cut to what remains, but not below this width.
    Flexible(usize),
    /// The same, and not so far that two of its cells that differ would look alike.
    Distinct(usize),
}

/// A table that is filled row by row and drawn at the end.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) lines: Vec<Line>,
}

/// A column: two lines of head, and what it does where there is little room.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) left: bool,
    /// What it holds, said below the table; none where the head says it.
    pub(crate) explanation: Option<&'static str>,
    /// Where what it holds is defined: an anchor of the page of definitions.
    pub(crate) definition: Option<String>,
    room: Room,
}

/// What stands below the head.
#[derive(Debug)]
pub(crate) enum Line {
    Row { cells: Vec<String>, marked: bool, tone: Tone },
    Group(String),
    Note(String),
}

/// A table with what stands around it: a section of the report, whatever the format.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) title: &'static str,
    pub(crate) explanation: String,
    pub(crate) table: Table,
    /// Lines below the table.
    pub(crate) notes: Vec<(Tone, String)>,
}

impl Sheet {
    pub(crate) fn new(title: &'static str, explanation: impl Into<String>, table: Table) -> Sheet {
        Sheet { title, explanation: explanation.into(), table, notes: Vec::new() }
    }

    /// Draws it for a terminal.
    pub(crate) fn draw(&self, screen: &Screen, out: &mut String) {
        heading(screen, out, self.title, &self.explanation);
        self.table.draw(screen, out);
        if let Some(note) = self.table.dropped(screen) {
            labelled(screen, out, "", 0, &note, Tone::Faint);
        }
        for (tone, note) in &self.notes {
            labelled(screen, out, "", 0, note, *tone);
        }
        for explanation in self.table.explanations(screen.width) {
            labelled(screen, out, "", 0, explanation, Tone::Faint);
        }
    }
}

impl Table {
    /// A column of numbers, or of text that is aligned like them.
    pub(crate) fn number(&mut self, name: &str, unit: &str, room: Room) -> &mut Table {
        self.columns.push(Column {
            name: name.to_owned(),
            unit: unit.to_owned(),
            left: false,
            explanation: None,
            definition: None,
            room,
        });
        self
    }

    /// A column of text.
    pub(crate) fn text(&mut self, name: &str, room: Room) -> &mut Table {
        self.columns.push(Column {
            name: name.to_owned(),
            unit: String::new(),
            left: true,
            explanation: None,
            definition: None,
            room,
        });
        self
    }

    /// Says where the last column is defined: by a name under a heading that begins with `section`.
    pub(crate) fn defined(&mut self, section: &str, name: &str) -> &mut Table {
        let anchor = anchor_of(section, name);
        debug_assert!(anchor.is_some(), "{section}: {name} has a definition");
        self.columns.last_mut().expect("it is called behind the column").definition = anchor;
        self
    }

    /// The same, of a column that holds a figure.
    pub(crate) fn defined_as(&mut self, figure: &Figure) -> &mut Table {
        self.defined(figure.defined.section, figure.defined.name)
    }

    /// A row; as many cells as columns.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.row_in(cells, Tone::Plain, false);
    }

    /// A row in a tone, with a marker before it or none.
    pub(crate) fn row_in(&mut self, cells: Vec<String>, tone: Tone, marked: bool) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        let cells = cells.into_iter().map(one_line).collect();
        self.lines.push(Line::Row { cells, marked, tone });
    }

    /// A heading between rows.
    pub(crate) fn group(&mut self, title: &str) {
        self.lines.push(Line::Group(one_line(title.to_owned())));
    }

    /// Running text below a row, wrapped.
    pub(crate) fn note(&mut self, text: &str) {
        self.lines.push(Line::Note(one_line(text.to_owned())));
    }

    /// Says below the table what the last column holds, wherever that column is shown.
    pub(crate) fn explained(&mut self, explanation: &'static str) {
        self.columns.last_mut().expect("it is called behind the column").explanation = Some(explanation);
    }

    /// The explanations of columns that are drawn at this width.
    fn explanations(&self, width: usize) -> impl Iterator<Item = &'static str> {
        self.layout(width).into_iter().filter_map(|(index, _)| self.columns[index].explanation)
    }

    /// Names the columns for which this width has no room, each once and without its unit of measurement.
    pub(crate) fn dropped(&self, screen: &Screen) -> Option<String> {
        let layout = self.layout(screen.width);
        let is_drawn = |column: usize| layout.iter().any(|(index, _)| *index == column);
        let name = |column: &Column| {
            let space = if column.unit.starts_with('/') { "" } else { " " };
            let unit = column.unit.split(", ").next().unwrap_or_default();
            format!("{}{space}{unit}", column.name).trim().to_owned()
        };
        let dropped = self.columns.iter().enumerate().filter(|(index, _)| !is_drawn(*index));
        let mut names: Vec<String> = dropped.map(|(_, column)| name(column)).collect();
        names.dedup();
        (!names.is_empty()).then(|| format!("not shown at {} columns: {}", screen.width, names.join(", ")))
    }

    /// Draws the table.
    pub(crate) fn draw(&self, screen: &Screen, out: &mut String) {
        let layout = self.layout(screen.width);
        if layout.is_empty() {
            return;
        }
        let has_names = layout.iter().any(|(index, _)| !self.columns[*index].name.is_empty());
        let has_units = layout.iter().any(|(index, _)| !self.columns[*index].unit.is_empty());
        if has_names {
            self.draw_cells(screen, out, &layout, |column| &column.name, Tone::Strong);
        }
        if has_units {
            self.draw_cells(screen, out, &layout, |column| &column.unit, Tone::Faint);
        }
        let drawn = layout.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP);
        let rule = screen.rule().repeat(drawn);
        if has_names || has_units {
            push_line(out, &format!("{}{}", " ".repeat(INDENT), screen.paint(Tone::Faint, &rule)));
        }
        for line in &self.lines {
            match line {
                Line::Row { cells, marked, tone } => {
                    let mark = if *marked { screen.marker() } else { "" };
                    let body: Vec<String> = layout
                        .iter()
                        .map(|&(index, width)| fitted(&cells[index], width, self.columns[index].left, screen))
                        .collect();
                    let text =
                        format!("{}{}", fitted(mark, INDENT, true, screen), body.join(&" ".repeat(GAP)));
                    push_line(out, &screen.paint(*tone, text.trim_end()));
                }
                Line::Group(title) => {
                    push_line(out, &format!("{}{}", " ".repeat(INDENT), screen.paint(Tone::Strong, title)));
                }
                Line::Note(text) => {
                    for line in wrapped(text, screen.width.saturating_sub(2 * INDENT)) {
                        push_line(
                            out,
                            &format!("{}{}", " ".repeat(2 * INDENT), screen.paint(Tone::Faint, &line)),
                        );
                    }
                }
            }
        }
    }

    fn draw_cells(
        &self,
        screen: &Screen,
        out: &mut String,
        layout: &[(usize, usize)],
        cell: fn(&Column) -> &String,
        tone: Tone,
    ) {
        let cells: Vec<String> = layout
            .iter()
            .map(|&(index, width)| {
                fitted(cell(&self.columns[index]), width, self.columns[index].left, screen)
            })
            .collect();
        let text = cells.join(&" ".repeat(GAP));
        push_line(out, &format!("{}{}", " ".repeat(INDENT), screen.paint(tone, text.trim_end())));
    }

    /// The smallest width of a column in which cells that differ are drawn differently, whatever the ellipsis.
    fn distinct_width(&self, index: usize, least: usize, most: usize) -> usize {
        let cells: BTreeSet<&str> = self
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Row { cells, .. } => Some(cells[index].as_str()),
                _ => None,
            })
            .collect();
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
        let mut widths: Vec<usize> =
            self.columns.iter().map(|c| c.name.width().max(c.unit.width())).collect();
        for line in &self.lines {
            let Line::Row { cells, .. } = line else { continue };
            widths.iter_mut().zip(cells).for_each(|(width, cell)| *width = (*width).max(cell.width()));
        }
        let least: Vec<Option<usize>> = (0..self.columns.len())
            .map(|index| match self.columns[index].room {
                Room::Flexible(least) => Some(least),
                Room::Distinct(least) => Some(self.distinct_width(index, least, widths[index])),
                _ => None,
            })
            .collect();
        let mut layout: Vec<(usize, usize)> = widths.into_iter().enumerate().collect();
        let total = |layout: &[(usize, usize)]| {
            layout.iter().map(|(_, width)| width + GAP).sum::<usize>() + INDENT - GAP
        };
        // What can be cut counts as cut while optional columns are left out.
        let slack = |layout: &[(usize, usize)]| {
            layout
                .iter()
                .map(|(index, width)| least[*index].map_or(0, |least| width.saturating_sub(least)))
                .sum::<usize>()
        };
        while total(&layout) - slack(&layout) > width_max {
            let rank = |(position, (index, _)): (usize, &(usize, usize))| match self.columns[*index].room {
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
}

/// What stands in a table stays on its line and commands no terminal, wherever it came from.
fn one_line(text: String) -> String {
    match shown(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(safe) => safe,
    }
}

/// Appends a line without trailing spaces.
pub(crate) fn push_line(out: &mut String, line: &str) {
    // One line, whatever was put into it: scripts and readers look for words of ours where lines begin.
    for part in line.trim_end().split('\n') {
        out.push_str(part);
        out.push(' ');
    }
    out.pop();
    out.push('\n');
}

/// Appends a heading after an empty line, with an explanation where there is room for it.
pub(crate) fn heading(screen: &Screen, out: &mut String, title: &str, explanation: &str) {
    out.push('\n');
    let (title, explanation) = (&*shown(title), &*shown(explanation));
    let fits = title.width() + GAP + explanation.width() <= screen.width;
    let explanation = if fits { explanation } else { "" };
    let title = screen.paint(Tone::Strong, title);
    push_line(out, &format!("{title}{}{}", " ".repeat(GAP), screen.paint(Tone::Faint, explanation)));
}

/// Appends text behind a label, wrapped, its further lines below its first.
pub(crate) fn labelled(
    screen: &Screen,
    out: &mut String,
    label: &str,
    label_width: usize,
    text: &str,
    tone: Tone,
) {
    let room = screen.width.saturating_sub(INDENT + label_width);
    for (index, line) in wrapped(text, room).iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let label =
            screen.paint(if tone == Tone::Plain { Tone::Faint } else { tone }, &padded(label, label_width));
        push_line(out, &format!("{}{label}{}", " ".repeat(INDENT), screen.paint(tone, line)));
    }
}

/// Wrapped text whose further lines are indented: nothing that the record brings along may begin a line, where scripts
/// look for figures.
pub(crate) fn hanging(text: &str, width: usize) -> Vec<String> {
    let mut lines = wrapped(text, width.saturating_sub(INDENT));
    lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, &" ".repeat(INDENT)));
    lines
}

/// Breaks text at spaces into lines of at most `width` columns; a longer word is broken where it must be.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
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

/// Spaces up to a width behind a text.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A cell in its width: cut with an ellipsis, or filled with spaces on the side away from its alignment.
fn fitted(text: &str, width: usize, left: bool, screen: &Screen) -> String {
    let own = text.width();
    if own > width {
        return padded(&cut(text, width, screen.ellipsis()), width);
    }
    let fill = " ".repeat(width - own);
    if left { format!("{text}{fill}") } else { format!("{fill}{text}") }
}

/// Cuts in the middle: both the directory and the file name of a long URL tell something.
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
    use crate::{Charset, Options};

    fn screen(width: usize) -> Screen {
        Screen::new(&Options { width, charset: Charset::Ascii, ..Options::default() })
    }

    fn table() -> Table {
        let mut table = Table::default();
        table.text("page", Room::Flexible(8));
        table.number("hits", "1/s", Room::Always).number("extra", "", Room::Optional(1));
        table.row(vec!["/a/very/long/path/to/a/file.html".into(), "1".into(), "22".into()]);
        table.row_in(vec!["/b".into(), "1,000".into(), "3".into()], Tone::Plain, true);
        table
    }

    fn drawn(width: usize) -> Vec<String> {
        let mut out = String::new();
        table().draw(&screen(width), &mut out);
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
        let layout = table().layout(20);
        assert_eq!(layout, [(0, 11), (1, 5)], "the optional column is gone and the name has what remains");
    }

    #[test]
    fn names_that_differ_look_different_and_columns_give_way() {
        let mut table = Table::default();
        table.text("cell", Room::Distinct(16));
        table.number("hits", "1/s", Room::Always).number("extra", "", Room::Optional(1));
        for name in ["nginx-proxy-cache-off", "nginx-proxy-tuned-cache-off"] {
            table.row(vec![name.into(), "1".into(), "22".into()]);
        }
        // Shorter than the first name, both would be its head and its tail.
        assert_eq!(table.layout(30), [(0, 22), (1, 4)]);
        assert_eq!(table.layout(24), [(0, 21), (1, 4)]);
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
}
