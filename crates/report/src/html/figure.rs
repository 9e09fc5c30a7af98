//! A figure: a chart with its legend, what it means, and its data as a table.

use crate::chart::{Axis, Line, Plot, Point, bars, key};
use crate::numbers::{Scale, count};

use super::markup::{Html, spread};

/// Rows of the table beside a chart.
const ROWS_MAX: usize = 120;
/// Lines that a description for screen readers speaks of one by one.
const LINES_DESCRIBED_MAX: usize = 8;

/// A chart of lines with everything around it.
pub(super) struct Figure<'a> {
    /// Identifier, unique in the page.
    pub(super) id: String,
    pub(super) title: String,
    /// Where what it shows is defined.
    pub(super) definition: Option<&'a str>,
    /// Below the chart.
    pub(super) caption: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) height: f64,
    pub(super) lines: Vec<Line>,
    pub(super) reference: Vec<(f64, f64)>,
    /// What the values of x are, as the head of a column.
    pub(super) x_name: &'a str,
    pub(super) show_x: &'a dyn Fn(f64) -> String,
    /// Unit and decimals of the values of y.
    pub(super) scale: Scale,
}

/// Height of a chart that stands for itself.
pub(super) const HEIGHT: f64 = 236.0;
/// Height of one of several that are looked at together.
pub(super) const HEIGHT_LOW: f64 = 170.0;

impl Figure<'_> {
    pub(super) fn draw(self, html: &mut Html) {
        let description = self.description();
        let Figure { id, title, definition, caption, x, y, height, lines, reference, x_name, show_x, scale } =
            self;
        let plot = Plot { x, y, height, lines, reference };
        html.raw("<figure>");
        heading(html, &title, definition);
        legend(html, &plot.lines);
        let say = |value| scale.say(value);
        html.raw(&plot.svg(&id, &title, &description, show_x, &say));
        if !caption.is_empty() {
            html.element("figcaption", &caption);
        }
        html.raw("<details class=\"data\"><summary>Data</summary>");
        data(html, &title, &plot.lines, x_name, show_x, &scale);
        html.raw("</details></figure>\n");
    }

    /// What the chart shows, in words.
    fn description(&self) -> String {
        let mut text = format!("Lines over {}.", self.x.label);
        for line in self.lines.iter().take(LINES_DESCRIBED_MAX) {
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
}

/// A chart of bars with everything around it.
pub(super) struct BarFigure<'a> {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) definition: Option<&'a str>,
    /// What the names are, as the head of a column.
    pub(super) names: &'a str,
    pub(super) style: usize,
    pub(super) scale: Scale,
    pub(super) rows: Vec<(String, f64)>,
    /// What stands behind each value, as its interval; empty where values have none.
    pub(super) intervals: Vec<String>,
}

impl BarFigure<'_> {
    pub(super) fn draw(self, html: &mut Html) {
        let behind = self.intervals.iter().map(String::as_str).chain(std::iter::repeat(""));
        let row = |((name, value), behind): ((String, f64), &str)| {
            (name, value, format!("{}{behind}", self.scale.say_or_dash(value)))
        };
        let rows: Vec<(String, f64, String)> = self.rows.into_iter().zip(behind).map(row).collect();
        let most = rows.iter().filter(|row| row.1.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1));
        let description = most.map_or_else(String::new, |(name, _, shown)| {
            format!("{} bars; the longest is {name} with {shown}.", rows.len())
        });
        html.raw("<figure>");
        heading(html, &self.title, self.definition);
        html.raw(&bars(&self.id, &self.title, &description, self.names, self.style, &rows));
        html.raw("<details class=\"data\"><summary>Data</summary>");
        let head = [self.names.to_owned(), self.title.clone()];
        let cells: Vec<Vec<String>> = rows.iter().map(|row| vec![row.0.clone(), row.2.clone()]).collect();
        html.table(&self.title, &head, &cells).raw("</details></figure>\n");
    }
}

fn heading(html: &mut Html, title: &str, definition: Option<&str>) {
    html.raw("<p class=\"title\">").defined(title, definition).raw("</p>");
}

/// One entry a style and name: iterations of a record share theirs.
fn legend(html: &mut Html, lines: &[Line]) {
    let mut entries: Vec<(&str, usize, bool)> = Vec::new();
    for line in lines {
        if !entries.iter().any(|entry| entry.0 == line.name) {
            entries.push((&line.name, line.style, line.marked));
        }
    }
    if entries.len() < 2 {
        return;
    }
    html.raw("<ul class=\"legend\">");
    for (name, style, marked) in entries {
        html.raw("<li>").raw(&key(style, marked)).text(name).raw("</li>");
    }
    html.raw("</ul>");
}

fn data(
    html: &mut Html,
    title: &str,
    lines: &[Line],
    x_name: &str,
    show_x: &dyn Fn(f64) -> String,
    scale: &Scale,
) {
    let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    let mut head = vec![x_name.to_owned()];
    for line in lines {
        let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
        head.push(format!("{}{unit}", line.name));
        if line.points.iter().any(|point| point.interval.is_some()) {
            head.push("95 % from".to_owned());
            head.push("to".to_owned());
        }
    }
    let chosen = spread(places.len(), ROWS_MAX, None);
    let rows: Vec<Vec<String>> = chosen
        .iter()
        .map(|index| {
            let mut row = vec![show_x(places[*index])];
            for line in lines {
                let intervals = line.points.iter().any(|point| point.interval.is_some());
                let point = line.points.iter().find(|point| point.x == places[*index]);
                row.push(point.map_or_else(String::new, |point| scale.show(point.y)));
                if intervals {
                    let ends = point.and_then(|point| point.interval);
                    row.push(ends.map_or_else(String::new, |(low, _)| scale.show(low)));
                    row.push(ends.map_or_else(String::new, |(_, high)| scale.show(high)));
                }
            }
            row
        })
        .collect();
    html.table(title, &head, &rows);
    if chosen.len() < places.len() {
        let text = format!(
            "{} of {} rows, evenly chosen; all values are in the record and in its CSV report.",
            count(chosen.len() as u64),
            count(places.len() as u64)
        );
        html.element("p class=\"note\"", &text);
    }
}
