//! A chart in a page, with its legend, what it means, and its data as a table. A single point is not drawn, because the
//! tables have it.

use crate::chart::{Bar, Line, Point, Stack, bars, key, patch, stacks};
use crate::document::chart::{BarChart, BarRow, LineChart, StackChart, places};
use crate::document::table::{Room, Table};
use crate::numbers::{Scale, count, spread};

use super::markup::Html;

/// Rows of the table beside a chart.
const ROWS_MAX: usize = 120;
/// Lines that a description for screen readers lists one by one.
const LINES_DESCRIBED_MAX: usize = 8;

impl LineChart<'_> {
    /// Draws it, if any of its lines has two points.
    pub(super) fn draw<'h>(&self, html: &'h mut Html) -> &'h mut Html {
        if self.plot.lines.iter().all(|line| line.points.len() < 2) {
            return html;
        }
        let LineChart { id, title, definition, caption, plot, show_x, scale, .. } = &self;
        let chart = |html: &mut Html| {
            legend(html, &plot.lines);
            let say = |value| scale.say(value);
            html.raw(&plot.svg(id, title, &self.description(), show_x, &say));
        };
        framed(html, title, definition.as_deref(), caption, chart, |html| self.data(html))
    }

    /// What the chart shows, in words.
    fn description(&self) -> String {
        let mut text = format!("Lines over {}.", self.plot.x.label);
        for line in self.plot.lines.iter().take(LINES_DESCRIBED_MAX) {
            let by_y = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
            let (Some(low), Some(high)) = (line.points.iter().min_by(by_y), line.points.iter().max_by(by_y))
            else {
                continue;
            };
            text.push_str(&format!(
                " {}: lowest {} at {}, highest {} at {}.",
                line.name,
                self.scale.say(low.y),
                (self.show_x)(low.x),
                self.scale.say(high.y),
                (self.show_x)(high.x)
            ));
        }
        text
    }

    /// The values as a table of at most [`ROWS_MAX`] rows.
    fn data(&self, html: &mut Html) {
        let (places, scale) = (places(&self.plot.lines), &self.scale);
        let chosen: Vec<f64> =
            spread(places.len(), ROWS_MAX, None).into_iter().map(|index| places[index]).collect();
        let mut table = Table::with_rows(&chosen);
        table.number(self.x_name, "", Room::Always, |x| (self.show_x)(*x));
        for line in &self.plot.lines {
            let at = |x: &f64| line.points.iter().find(|point| point.x == *x);
            let shown = |value: Option<f64>| value.map_or_else(String::new, |value| scale.show(value));
            let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
            let head = format!("{}{unit}", line.name);
            table.number(head, "", Room::Always, |x| shown(at(x).map(|point| point.y)));
            if line.points.iter().any(|point| point.interval.is_some()) {
                let ends = |x| at(x).and_then(|point| point.interval);
                table.number("95 % from", "", Room::Always, |x| shown(ends(x).map(|(low, _)| low)));
                table.number("to", "", Room::Always, |x| shown(ends(x).map(|(_, high)| high)));
            }
        }
        html.table(&self.title, table.done());
        if chosen.len() < places.len() {
            let text = format!(
                "{} of {} rows, evenly chosen; all values are in the record and in its CSV report.",
                count(chosen.len() as u64),
                count(places.len() as u64)
            );
            html.element("p class=\"note\"", &text);
        }
    }
}

/// A chart with its title, a caption and its values.
fn framed<'h>(
    html: &'h mut Html,
    title: &str,
    definition: Option<&str>,
    caption: &str,
    chart: impl FnOnce(&mut Html),
    data: impl FnOnce(&mut Html),
) -> &'h mut Html {
    html.raw("<figure>");
    heading(html, title, definition);
    chart(html);
    if !caption.is_empty() {
        html.element("figcaption", caption);
    }
    html.raw("<details class=\"data\"><summary>Data</summary>");
    data(html);
    html.raw("</details></figure>\n")
}

impl BarChart<'_> {
    /// Draws it, if there are bars to compare.
    pub(super) fn draw<'h>(&self, html: &'h mut Html) -> &'h mut Html {
        if self.rows.len() < 2 {
            return html;
        }
        let scale = &self.scale;
        let bar = |(name, value, interval): &BarRow| {
            let within = interval.map(|(low, high)| {
                format!(" ({} to {})", scale.show(low.max(0.0)).trim_end(), scale.show(high).trim_end())
            });
            let shown = format!("{}{}", scale.say_or_dash(*value), within.unwrap_or_default());
            Bar { name: name.clone(), value: *value, interval: *interval, shown }
        };
        let rows: Vec<Bar> = self.rows.iter().map(bar).collect();
        let most = rows.iter().filter(|bar| bar.value.is_finite()).max_by(|a, b| a.value.total_cmp(&b.value));
        let description = most.map_or_else(String::new, |bar| {
            format!("{} bars; the longest is {} with {}.", rows.len(), bar.name, bar.shown)
        });
        let chart = |html: &mut Html| {
            html.raw(&bars(&self.id, &self.title, &description, self.names, self.style, &rows));
        };
        let mut table = Table::with_rows(&rows);
        table.number(self.names, "", Room::Always, |bar| &bar.name);
        let table = table.number(&*self.title, "", Room::Always, |bar| &bar.shown).done();
        framed(html, &self.title, self.definition.as_deref(), self.caption, chart, |html| {
            html.table(&self.title, table);
        })
    }
}

impl StackChart<'_> {
    pub(super) fn draw(&self, html: &mut Html) {
        let scale = &self.scale;
        let stack = |(name, parts): &(String, Vec<f64>)| {
            let shown = scale.say(parts.iter().sum());
            Stack { name: name.clone(), parts: parts.clone(), shown }
        };
        let rows: Vec<Stack> = self.rows.iter().map(stack).collect();
        let description: Vec<String> = rows.iter().map(|row| described(row, self.parts, scale)).collect();
        let chart = |html: &mut Html| {
            html.raw("<ul class=\"legend\">");
            for (style, part) in self.parts.iter().enumerate() {
                html.raw("<li>").raw(&patch(style)).text(part).raw("</li>");
            }
            html.raw("</ul>");
            html.raw(&stacks(&self.id, &self.title, &description.join(" "), self.names, &rows));
        };
        let mut table = Table::with_rows(&rows);
        table.number(self.names, "", Room::Always, |row| &row.name);
        for (place, part) in self.parts.iter().enumerate() {
            let name = format!("{part}, {}", scale.unit);
            table.number(name, "", Room::Always, |row| scale.show(row.parts[place]));
        }
        let table = table.done();
        framed(html, &self.title, self.definition.as_deref(), self.caption, chart, |html| {
            html.table(&self.title, table);
        });
    }
}

fn described(row: &Stack, parts: &[&str], scale: &Scale) -> String {
    let parts = parts.iter().zip(&row.parts).map(|(name, part)| format!("{name} {}", scale.say(*part)));
    format!("{}: {}.", row.name, parts.collect::<Vec<_>>().join(", "))
}

/// What a figure is called, above it.
pub(super) fn heading(html: &mut Html, title: &str, definition: Option<&str>) {
    html.raw("<p class=\"title\">").defined(title, definition).raw("</p>");
}

/// One entry per style and name: iterations of a record share theirs.
fn legend(html: &mut Html, lines: &[Line]) {
    let mut entries: Vec<&Line> = Vec::new();
    for line in lines {
        if !entries.iter().any(|entry| entry.name == line.name) {
            entries.push(line);
        }
    }
    if entries.len() < 2 {
        return;
    }
    html.raw("<ul class=\"legend lines\">");
    for line in entries {
        html.raw("<li>").raw(&key(line)).text(&line.name).raw("</li>");
    }
    html.raw("</ul>");
}
