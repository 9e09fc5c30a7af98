//! Charts as data. Formats that cannot draw leave them out; the values stand in tables as well.

use std::fmt;

use super::Tone;
use crate::chart::{Axis, Line, Plot};
use crate::numbers::{Scale, load};

/// A chart.
#[derive(Clone, Debug)]
pub(crate) enum Chart {
    Changes(Changes),
    Lines(LineChart<'static>),
    Bars(BarChart<'static>),
}

/// Changes around zero, in percent.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    /// Unique in the document.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where what it shows is defined.
    pub(crate) definition: Option<String>,
    /// How it is read, once in a document.
    pub(crate) caption: &'static str,
    pub(crate) rows: Vec<Change>,
}

/// A change with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: String,
    /// As it is written, with what is concluded.
    pub(crate) shown: String,
    pub(crate) point: f64,
    /// Where there is one.
    pub(crate) interval: Option<(f64, f64)>,
    /// Changes up to this one, either way, are noise.
    pub(crate) noise: f64,
    /// Whether nothing is concluded from it.
    pub(crate) is_open: bool,
    pub(crate) tone: Tone,
}

/// Lines over two axes.
#[derive(Clone)]
pub(crate) struct LineChart<'a> {
    /// Unique in the document.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where what it shows is defined.
    pub(crate) definition: Option<String>,
    /// Below the chart.
    pub(crate) caption: String,
    pub(crate) plot: Plot,
    /// What the values of x are, as the head of a column.
    pub(crate) x_name: &'a str,
    pub(crate) show_x: &'a dyn Fn(f64) -> String,
    /// Unit and decimals of the values of y.
    pub(crate) scale: Scale,
}

impl fmt::Debug for LineChart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineChart").field("id", &self.id).field("plot", &self.plot).finish_non_exhaustive()
    }
}

/// Height of a chart that stands for itself.
pub(crate) const HEIGHT: f64 = 236.0;
/// Height of one of several that are looked at together.
pub(crate) const HEIGHT_LOW: f64 = 170.0;

impl<'a> LineChart<'a> {
    /// A chart over whole numbers, of the usual height; callers set what else it has.
    pub(crate) fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        (x_name, x): (&'a str, Axis),
        y: Axis,
        scale: Scale,
        lines: Vec<Line>,
    ) -> LineChart<'a> {
        LineChart {
            id: id.into(),
            title: title.into(),
            definition: None,
            caption: String::new(),
            plot: Plot { x, y, height: HEIGHT, lines, reference: Vec::new() },
            x_name,
            show_x: &load,
            scale,
        }
    }
}

/// Bars, longest to shortest or in the order of what they are of.
#[derive(Clone, Debug)]
pub(crate) struct BarChart<'a> {
    /// Unique in the document.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where what it shows is defined.
    pub(crate) definition: Option<String>,
    /// Below the chart.
    pub(crate) caption: &'a str,
    /// What the names are, as the head of a column.
    pub(crate) names: &'a str,
    pub(crate) style: usize,
    pub(crate) scale: Scale,
    pub(crate) rows: Vec<BarRow>,
}

/// Name, value, and the ends of its interval where it has one.
pub(crate) type BarRow = (String, f64, Option<(f64, f64)>);

/// Wholes and their parts, as bars.
#[derive(Clone, Debug)]
pub(crate) struct StackChart<'a> {
    /// Unique in the document.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where what it shows is defined.
    pub(crate) definition: Option<String>,
    /// Below the chart.
    pub(crate) caption: &'a str,
    /// What the wholes are, as the head of a column.
    pub(crate) names: &'a str,
    /// What the parts are, in the order in which they stand.
    pub(crate) parts: &'a [&'a str],
    pub(crate) scale: Scale,
    /// Name, and each of its parts.
    pub(crate) rows: Vec<(String, Vec<f64>)>,
}

/// How far an interval may reach beyond the largest value of its chart.
const REACH: f64 = 4.0;

/// Every place that a line has a value at, ascending.
pub(crate) fn places(lines: &[Line]) -> Vec<f64> {
    let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    places
}

/// Every value.
pub(crate) fn values(lines: &[Line]) -> impl Iterator<Item = f64> + Clone + '_ {
    lines.iter().flat_map(|line| &line.points).map(|point| point.y)
}

/// What an axis has to reach: values, and the upper ends of their intervals. Ends beyond [`REACH`] times the largest value are
/// cut: of two iterations that differ, an interval may be a thousand times as long as its value.
pub(crate) fn tops(lines: &[Line]) -> impl Iterator<Item = f64> + '_ {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.y).fold(0.0, f64::max) * REACH;
    points().map(move |point| point.interval.map_or(point.y, |(_, high)| high.min(most).max(point.y)))
}
