//! Charts as SVG text: lines with intervals, and bars. Static, so that they print, need no script and can be read by
//! a screen reader; colours, dashes and fonts are left to the style sheet of the page (`html/report.css`), so that one
//! drawing serves both themes.
//!
//! A drawing is in units of its view box and scales to the column that it stands in. No text of it overlaps another:
//! widths are estimated generously, and a tick's label that would touch its neighbour is left out.
//!
//! What zooms is in an inner drawing that is clipped at its edges (`area`). Its paths name x only in absolute `M` and `L`,
//! so that the page's script (`html/report.js`) can move every place by rewriting those numbers.

mod axis;
mod bars;
mod changes;
mod lab;
mod stacks;

use std::fmt::Write as _;

use webstone_judge::statistics::Interval;
use webstone_measure::shown::is_hidden;

pub(crate) use axis::Axis;
#[cfg(test)]
pub(crate) use axis::nines;
pub(crate) use bars::{Bar, bars};
pub(crate) use changes::changes;
pub(crate) use lab::{Host, lab};
pub(crate) use stacks::{Stack, patch, stacks};

/// Styles that lines can have: a colour, a dash and a marker each. Further lines start over.
pub(crate) const STYLES: usize = 8;
/// Width of every drawing.
pub(crate) const WIDTH: f64 = 380.0;
/// Lines with more points have a band for the interval: markers and error bars would touch.
const MARKED_POINTS_MAX: usize = 40;
/// Width of a digit at the size of tick labels, and a little more.
const DIGIT: f64 = 7.0;
const TOP: f64 = 26.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 40.0;
/// How far markers and ticks reach beyond the axes.
const MARGIN: f64 = 7.0;

/// One value of a line.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Where there is one: low and high end of the interval, base unit of `y`.
    pub(crate) interval: Option<(f64, f64)>,
}

impl Point {
    pub(crate) fn new(x: f64, y: f64) -> Point {
        Point { x, y, interval: None }
    }

    pub(crate) fn within(x: f64, y: f64, interval: Option<&Interval>) -> Point {
        // Values are counts or durations. Where few iterations differ widely, an interval may reach below zero, which no value can.
        Point { x, y, interval: interval.map(|interval| (interval.low.max(0.0), interval.high)) }
    }
}

/// How a line is drawn, whatever its style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dash {
    /// As its style has it.
    #[default]
    OfStyle,
    /// Dotted: what was published.
    Then,
    /// Whole: what was measured beside it.
    Now,
}

impl Dash {
    fn class(self) -> &'static str {
        match self {
            Dash::OfStyle => "",
            Dash::Then => " then",
            Dash::Now => " now",
        }
    }
}

/// One line of a plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Which of the [`STYLES`].
    pub(crate) style: usize,
    pub(crate) points: Vec<Point>,
    /// Whether values are marked where they are few.
    pub(crate) marked: bool,
    pub(crate) dash: Dash,
}

impl Line {
    /// A line with a mark at each value, where they are few.
    pub(crate) fn marked(name: impl Into<String>, style: usize, points: Vec<Point>) -> Line {
        Line { marked: true, ..Line::plain(name, style, points) }
    }

    pub(crate) fn plain(name: impl Into<String>, style: usize, points: Vec<Point>) -> Line {
        Line { name: name.into(), style, points, ..Line::default() }
    }
}

/// A plot of lines over two axes.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) height: f64,
    pub(crate) lines: Vec<Line>,
    /// A line to compare values with, from point to point; empty without one.
    pub(crate) reference: Vec<(f64, f64)>,
}

/// A value as the read-out shows it.
pub(crate) type Shown<'a> = &'a dyn Fn(f64) -> String;

impl Plot {
    /// The drawing. `id` is unique in the page; `title` and `description` are what a screen reader says; `show_x` and
    /// `show_y` write values for the read-out under the pointer.
    pub(crate) fn svg(
        &self,
        id: &str,
        title: &str,
        description: &str,
        show_x: Shown<'_>,
        show_y: Shown<'_>,
    ) -> String {
        let widest = self.y.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let left = (widest as f64 * DIGIT + 12.0).max(26.0);
        let area = Area { left, right: WIDTH - RIGHT, top: TOP, bottom: self.height - BOTTOM };
        let mut svg = open(id, "plot", self.height, title, description);
        self.grid(&area, &mut svg);
        let (x, y) = (left - MARGIN, TOP - MARGIN);
        let (width, height) = (area.right - left + 2.0 * MARGIN, area.bottom - TOP + 2.0 * MARGIN);
        let _ = write!(
            svg,
            "<svg class=\"area\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             viewBox=\"{x:.1} {y:.1} {width:.1} {height:.1}\" data-from=\"{left:.1}\" data-to=\"{:.1}\">",
            area.right
        );
        let ticks: String = (self.x.ticks.iter())
            .map(|(value, _)| format!("M{:.1} {:.1}v4", area.x(self.x.position(*value)), area.bottom))
            .collect();
        let _ = write!(svg, "<path class=\"axis\" d=\"{ticks}\"/>");
        let path: String = self
            .reference
            .iter()
            .map(|(x, y)| area.place(self, *x, *y))
            .enumerate()
            .map(|(index, (x, y))| format!("{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' }))
            .collect();
        if !path.is_empty() {
            let _ = write!(svg, "<path class=\"reference\" d=\"{path}\"/>");
        }
        for line in &self.lines {
            self.line(line, &area, &mut svg, show_x, show_y);
        }
        svg.push_str("</svg></svg>");
        svg
    }

    fn grid(&self, area: &Area, svg: &mut String) {
        let Area { left, right, top, bottom } = *area;
        let mut lines = String::new();
        let mut free_above = f64::INFINITY;
        for (value, label) in &self.y.ticks {
            let y = area.y(self.y.position(*value));
            let _ = write!(lines, "M{left:.1} {y:.1}H{right:.1}");
            if !label.is_empty() && free_above - y >= 14.0 {
                text(svg, "tick", left - 6.0, y + 4.0, "end", label);
                free_above = y;
            }
        }
        let mut occupied = f64::NEG_INFINITY;
        svg.push_str("<g class=\"x\">");
        for (value, label) in &self.x.ticks {
            let x = area.x(self.x.position(*value));
            let half = label.chars().count() as f64 * DIGIT / 2.0;
            if !label.is_empty() && x - half > occupied && x + half <= WIDTH {
                text(svg, "tick", x, bottom + 17.0, "middle", label);
                occupied = x + half + 4.0;
            }
        }
        svg.push_str("</g>");
        let _ = write!(svg, "<path class=\"grid\" d=\"{lines}\"/>");
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/>");
        text(svg, "label", 2.0, 12.0, "start", &self.y.label);
        text(svg, "label", (left + right) / 2.0, self.height - 5.0, "middle", &self.x.label);
    }

    fn line(&self, line: &Line, area: &Area, svg: &mut String, show_x: Shown<'_>, show_y: Shown<'_>) {
        let points: Vec<&Point> = line.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        if points.is_empty() {
            return;
        }
        let class = line.style % STYLES;
        let few = points.len() <= MARKED_POINTS_MAX;
        let mut path = String::new();
        let mut marks = String::new();
        let mut bars = String::new();
        let mut places = String::new();
        for (index, point) in points.iter().enumerate() {
            let (x, y) = area.place(self, point.x, point.y);
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
            let _ = write!(places, "{}{x:.1},{y:.1}", if index == 0 { "" } else { " " });
            marks.push_str(&marker(class, x, y));
            if let (Some((low, high)), true) = (point.interval, few) {
                let (low, high) = (area.place(self, point.x, low).1, area.place(self, point.x, high).1);
                let _ = write!(bars, "M{x:.1} {low:.1}m-4 0h8M{x:.1} {low:.1}V{high:.1}m-4 0h8");
            }
        }
        let _ = write!(svg, "<g class=\"series s{class}{}\"", line.dash.class());
        attribute(svg, "data-name", &line.name);
        attribute(svg, "data-at", &places);
        attribute(svg, "data-x", &points.iter().map(|p| show_x(p.x)).collect::<Vec<_>>().join("|"));
        attribute(svg, "data-y", &points.iter().map(|p| show_y(p.y)).collect::<Vec<_>>().join("|"));
        svg.push('>');
        if !few && points.iter().any(|point| point.interval.is_some()) {
            let _ = write!(svg, "<path class=\"band\" d=\"{}\"/>", self.band(&points, area));
        }
        if !bars.is_empty() {
            let _ = write!(svg, "<path class=\"error\" d=\"{bars}\"/>");
        }
        let _ = write!(svg, "<path class=\"line\" d=\"{path}\"/>");
        if (line.marked && few) || points.len() == 1 {
            let _ = write!(svg, "<path class=\"mark\" d=\"{marks}\"/>");
        }
        svg.push_str("</g>");
    }

    /// The outline of all intervals: up along the high ends, back along the low ones.
    fn band(&self, points: &[&Point], area: &Area) -> String {
        let end = |point: &Point, high: bool| {
            let (low, up) = point.interval.unwrap_or((point.y, point.y));
            area.place(self, point.x, if high { up } else { low })
        };
        let up = points.iter().map(|point| end(point, true));
        let back = points.iter().rev().map(|point| end(point, false));
        let mut path = String::new();
        for (x, y) in up.chain(back) {
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
        }
        path + "Z"
    }
}

/// The part of a drawing that holds the lines.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    fn place(&self, plot: &Plot, x: f64, y: f64) -> (f64, f64) {
        (self.x(plot.x.position(x)), self.y(plot.y.position(y)))
    }
}

/// A sample of a style for a legend: a stretch of line with its marker.
pub(crate) fn key(line: &Line) -> String {
    let class = line.style % STYLES;
    let mark = if line.marked {
        format!("<path class=\"mark\" d=\"{}\"/>", marker(class, 14.0, 6.0))
    } else {
        String::new()
    };
    format!(
        "<svg class=\"key s{class}{}\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"line\" d=\"M0 6H28\"/>{mark}</svg>",
        line.dash.class()
    )
}

/// A shape around a point; each style has its own, so that lines differ in more than colour.
fn marker(class: usize, x: f64, y: f64) -> String {
    let at = |shape: &str| format!("M{x:.1} {y:.1}{shape}");
    match class {
        0 => at("m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z"),
        1 => at("m-3-3h6v6h-6z"),
        2 => at("m0-3.9l3.7 6.6h-7.4z"),
        3 => at("m0-4.1l4.1 4.1-4.1 4.1-4.1-4.1z"),
        4 => at("m0 3.9l3.7-6.6h-7.4z"),
        5 => at("m-1.2-3.8h2.4v2.6h2.6v2.4h-2.6v2.6h-2.4v-2.6h-2.6v-2.4h2.6z"),
        6 => at("m-4-2h8v4h-8z"),
        _ => at("m-2-4h4v8h-4z"),
    }
}

/// The beginning of a drawing, with what a screen reader says of it.
fn open(id: &str, class: &str, height: f64, title: &str, description: &str) -> String {
    let mut svg = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">"
    );
    escape(&mut svg, title);
    let _ = write!(svg, "</title><desc id=\"{id}-d\">");
    escape(&mut svg, description);
    svg.push_str("</desc>");
    svg
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let _ = write!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">");
    escape(svg, content);
    svg.push_str("</text>");
}

fn attribute(svg: &mut String, name: &str, value: &str) {
    let _ = write!(svg, " {name}=\"");
    escape(svg, value);
    svg.push('"');
}

/// Appends text so that markup in it is text: the five characters that HTML and XML know, and nothing invisible.
pub(crate) fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            _ if is_hidden(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Scale;

    fn plot(points: Vec<Point>) -> Plot {
        let scale = Scale::plain(0, [100.0]);
        Plot {
            x: Axis::counts("clients", 0.0, &[0.0, 10.0]),
            y: Axis::from_zero("requests/s", &scale, [100.0], 2),
            height: 240.0,
            lines: vec![Line { name: "a<b".to_owned(), style: 9, points, marked: true, ..Line::default() }],
            reference: Vec::new(),
        }
    }

    fn svg(plot: &Plot) -> String {
        plot.svg("c", "Rate", "Two <points>", &|x| format!("{x}"), &|y| format!("{y}"))
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let svg = svg(&plot(vec![Point::new(0.0, 0.0), Point::new(10.0, 100.0)]));
        // Left of the plot: three digits and twelve units; it ends RIGHT from the edge.
        assert!(svg.contains("d=\"M33.0 200.0L362.0 26.0\""), "{svg}");
        assert!(
            svg.contains("class=\"series s1\" data-name=\"a&lt;b\" data-at=\"33.0,200.0 362.0,26.0\""),
            "{svg}"
        );
        assert!(svg.contains("data-x=\"0|10\" data-y=\"0|100\""), "{svg}");
    }

    #[test]
    fn few_points_have_error_bars_and_many_a_band() {
        let point = |n: usize| Point { x: n as f64 / 10.0, y: 50.0, interval: Some((40.0, 60.0)) };
        let few = svg(&plot((0..3).map(point).collect()));
        assert!(
            few.contains("class=\"error\"")
                && few.contains("class=\"mark\"")
                && !few.contains("class=\"band\"")
        );
        let many = svg(&plot((0..100).map(point).collect()));
        assert!(
            !many.contains("class=\"error\"")
                && !many.contains("class=\"mark\"")
                && many.contains("class=\"band\"")
        );
    }

    #[test]
    fn what_is_not_a_number_is_not_drawn() {
        let svg = svg(&plot(vec![Point::new(0.0, f64::NAN), Point::new(f64::INFINITY, 1.0)]));
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("class=\"line\""), "{svg}");
    }

    #[test]
    fn markup_is_text() {
        let mut out = String::new();
        escape(&mut out, "<script>'\"&\u{202e}\u{0}");
        assert_eq!(out, "&lt;script&gt;&#39;&quot;&amp;\\u{202e}\\u{0}");
    }
}
