//! Level by level: what happened in each second of the measured windows (a line per iteration, or per record), and how long connecting,
//! first bytes, responses and pages took. Only here does a reader see that a level drifts, stalls or was still warming up. The page's
//! selector shows one level; without it each level is folded, except the peak.

use webstone_measure::figures::Figure as Quantity;
use webstone_measure::figures::level::{ERROR_RATE, LATENCY_MAX, LATENCY_MEAN, REQUEST_RATE};
use webstone_measure::keys::LevelKey;
use webstone_measure::metrics::{Measured, Second};
use webstone_measure::units::NANOS_PER_SECOND;

use crate::chart::{Axis, Line, Point};
use crate::numbers::{count, decimal, spread};
use crate::summary::{Level, is_repeated, quotient, suffix};

use super::markup::Html;
use super::{Run, definitions, distributions, parts};
use crate::document::chart::{HEIGHT_LOW, LineChart, places, values};
use crate::document::figures::{definition, scale, title};

/// Levels that are drawn.
const LEVELS_MAX: usize = 8;
/// Points of a line; of longer windows several seconds make a point.
const POINTS_MAX: usize = 300;
/// A last piece of the window that is shorter says little about a rate and is left out, in seconds.
const PIECE_MIN: f64 = 0.1;

/// A few seconds of a window together.
struct Piece {
    /// Its end, in seconds since the window opened.
    end_s: f64,
    length_s: f64,
    total: Second,
}

/// A value of a piece; `None` where nothing was answered in it.
type OfPiece = fn(&Piece) -> Option<f64>;

/// What is drawn over the seconds of a window.
const QUANTITIES: [(Quantity, OfPiece); 4] = [
    (REQUEST_RATE, |piece| Some(piece.total.requests as f64 / piece.length_s)),
    (ERROR_RATE, |piece| Some(piece.total.errors as f64 / piece.length_s)),
    (LATENCY_MEAN, |piece| {
        let nanos = quotient(piece.total.response_ns as f64, piece.total.requests as f64);
        (piece.total.requests > 0).then_some(nanos / NANOS_PER_SECOND as f64)
    }),
    (LATENCY_MAX, |piece| {
        (piece.total.requests > 0).then_some(piece.total.response_ns_max as f64 / NANOS_PER_SECOND as f64)
    }),
];

/// The levels that have a part of the page, ascending.
pub(super) struct Chosen {
    keys: Vec<LevelKey>,
    /// Which of them is the first record's peak.
    peak: Option<usize>,
    /// Levels of all records, drawn or not.
    of: usize,
}

impl Chosen {
    pub(super) fn of_runs(runs: &[Run<'_>]) -> Chosen {
        let mut keys: Vec<LevelKey> = runs.iter().flat_map(|run| &run.levels).map(Level::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let peak = runs.first().and_then(Run::best).map(Level::key);
        let peak = keys.iter().position(|key| Some(*key) == peak);
        let places = spread(keys.len(), LEVELS_MAX, peak);
        let peak = peak.and_then(|peak| places.iter().position(|place| *place == peak));
        Chosen { of: keys.len(), peak, keys: places.into_iter().map(|place| keys[place]).collect() }
    }

    /// Whether there is anything to choose from.
    pub(super) fn is_choice(&self) -> bool {
        self.keys.len() > 1
    }

    /// Draws a part of each that `draw` has something for, as a fold where there are several.
    pub(super) fn each(&self, html: &mut Html, mut draw: impl FnMut(&mut Html, LevelKey)) {
        for (place, key) in self.keys.iter().enumerate() {
            let mut body = Html::default();
            draw(&mut body, *key);
            let body = body.finish();
            if body.is_empty() {
                continue;
            }
            if !self.is_choice() {
                html.raw(&body);
                continue;
            }
            let is_peak = self.peak == Some(place);
            html.raw("<details class=\"level\" data-level=\"").text(&key.to_string()).raw("\"");
            html.raw(if is_peak || (self.peak.is_none() && place == 0) { " open>" } else { ">" });
            html.raw("<summary><h3>").text(&key.to_string()).raw(if is_peak {
                " <small>peak</small>"
            } else {
                ""
            });
            html.raw("</h3></summary>").raw(&body).raw("</details>");
        }
    }

    /// The selector, which the page's script puts to use.
    pub(super) fn selector(&self, html: &mut Html) {
        html.raw("<label id=\"level\" hidden>Level <select><option value=\"\">all</option>");
        for (place, key) in self.keys.iter().enumerate() {
            let name = key.to_string();
            html.raw("<option value=\"").text(&name).raw("\">").text(&name);
            html.text(if self.peak == Some(place) { ", peak" } else { "" }).raw("</option>");
        }
        html.raw("</select></label>");
    }
}

pub(super) fn draw(html: &mut Html, runs: &[Run<'_>], chosen: &Chosen) {
    let heading = if chosen.is_choice() { "Level by level" } else { "In detail" };
    html.section_of("levels", heading, |html| {
        let pieces = longest(runs).div_ceil(POINTS_MAX).max(1);
        let mut drawn = Html::default();
        let mut has_seconds = false;
        chosen.each(&mut drawn, |html, key| {
            html.charts(|html| {
                if let [only] = runs
                    && let Some(level) = only.level(key)
                {
                    if !chosen.is_choice() {
                        parts::draw(html, runs);
                    }
                    distributions::times(html, level, &format!("chart-times-{}", suffix(key)));
                }
                let mut seconds = Html::default();
                for (quantity, of) in &QUANTITIES {
                    over_seconds(&mut seconds, runs, key, (quantity, *of), pieces);
                }
                let seconds = seconds.finish();
                has_seconds |= !seconds.is_empty();
                html.raw(&seconds);
            });
        });
        let drawn = drawn.finish();
        if drawn.is_empty() {
            return;
        }
        note(html, chosen, has_seconds.then_some(pieces));
        html.raw(&drawn);
    });
}

/// What a point is, and what is not drawn.
fn note(html: &mut Html, chosen: &Chosen, pieces: Option<usize>) {
    html.raw("<p class=\"note\">");
    let point = match pieces {
        None => "The windows are too short to be drawn second by second.".to_owned(),
        Some(1) => "Over time, a point is one second of the measured window.".to_owned(),
        Some(several) => format!("Over time, a point is {several} seconds of the measured window."),
    };
    html.text(&point).raw(" ").defined("Definition", Some(definitions::SECONDS)).text(".");
    if chosen.keys.len() < chosen.of {
        let (drawn, of) = (count(chosen.keys.len() as u64), count(chosen.of as u64));
        html.text(&format!(" {drawn} of {of} levels are drawn, evenly chosen."));
    }
    html.raw("</p>");
}

fn over_seconds(
    html: &mut Html,
    runs: &[Run<'_>],
    key: LevelKey,
    (quantity, of): (&Quantity, OfPiece),
    seconds: usize,
) {
    let mut lines = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let Some(level) = run.level(key) else { continue };
        for (index, iteration) in level.runs.iter().enumerate() {
            let points = pieces(&iteration.measured, seconds);
            let (name, style) = match runs.len() {
                1 if is_repeated(run.record) => (format!("iteration {}", iteration.iteration), index),
                1 => (level.load(), index),
                _ => (run.name.clone(), number),
            };
            let points = points.iter().filter_map(|p| Some(Point::new(p.end_s, of(p)?))).collect();
            lines.push(Line::plain(name, style, points));
        }
    }
    if quantity == &ERROR_RATE && values(&lines).all(|value| value == 0.0) {
        return;
    }
    let scale = scale(quantity, values(&lines));
    let last = places(&lines).into_iter().fold(1.0, f64::max);
    let grid: Vec<f64> = (0..=last.ceil() as u32).map(f64::from).collect();
    let x = Axis::counts("seconds since the window opened", 0.0, &grid);
    let y = Axis::from_zero("", &scale, values(&lines), 3);
    let (id, title) =
        (format!("chart-{}-{}", quantity.key, suffix(key)), format!("{}, over time", title(quantity)));
    let mut figure = LineChart::new(id, title, ("until second", x), y, scale, lines);
    figure.definition = definition(quantity);
    figure.plot.height = HEIGHT_LOW;
    figure.show_x = &|second| decimal(second, if second.fract() == 0.0 { 0 } else { 2 });
    figure.draw(html);
}

/// The window in pieces of whole seconds; the last may be shorter.
fn pieces(measured: &Measured, seconds: usize) -> Vec<Piece> {
    let window_s = measured.span_ns() as f64 / NANOS_PER_SECOND as f64;
    let chunks = measured.seconds.0.chunks(seconds).enumerate();
    let piece = |(index, chunk): (usize, &[Second])| {
        let begin = (index * seconds) as f64;
        let end_s = (begin + chunk.len() as f64).min(window_s);
        let mut total = Second::default();
        chunk.iter().for_each(|second| total.merge(second));
        Piece { end_s, length_s: end_s - begin, total }
    };
    chunks.map(piece).filter(|piece| piece.length_s >= PIECE_MIN).collect()
}

fn longest(runs: &[Run<'_>]) -> usize {
    let iterations = runs.iter().flat_map(|run| &run.levels).flat_map(|level| &level.runs);
    iterations.map(|run| run.measured.seconds.0.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::metrics::Seconds;

    fn measured(window_ns: u64, requests: &[u64]) -> Measured {
        let second = |requests: &u64| Second { requests: *requests, ..Second::default() };
        Measured { window_ns, seconds: Seconds(requests.iter().map(second).collect()), ..Measured::default() }
    }

    fn rates(pieces: &[Piece]) -> Vec<(f64, f64)> {
        pieces.iter().map(|piece| (piece.end_s, piece.total.requests as f64 / piece.length_s)).collect()
    }

    #[test]
    fn a_last_second_that_is_short_counts_by_its_length() {
        let half = measured(2_500_000_000, &[100, 100, 50]);
        assert_eq!(rates(&pieces(&half, 1)), [(1.0, 100.0), (2.0, 100.0), (2.5, 100.0)]);
        let sliver = measured(2_000_050_000, &[100, 100, 1]);
        assert_eq!(rates(&pieces(&sliver, 1)), [(1.0, 100.0), (2.0, 100.0)]);
    }

    #[test]
    fn long_windows_are_drawn_in_pieces() {
        let long = measured(4_000_000_000, &[10, 30, 50, 70]);
        assert_eq!(rates(&pieces(&long, 2)), [(2.0, 20.0), (4.0, 60.0)]);
    }
}
