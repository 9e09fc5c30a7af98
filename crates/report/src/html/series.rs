//! What each second of the measured window brought: requests, errors, and latency, a line an iteration (or a record).
//! A level that drifts, stalls or was still warming up is seen here and nowhere else.

use webstone_model::metrics::{Interval, Measured};
use webstone_model::rate::RateProfile;
use webstone_model::units::NANOS_PER_SECOND;

use crate::chart::{Axis, Line, Point};
use crate::numbers::{Scale, count, decimal};
use crate::screen::Screen;
use crate::summary::{self, Level, quotient};

use super::figure::{Figure, HEIGHT_LOW};
use super::markup::{Html, spread};
use super::{Run, definitions};

/// Levels that are drawn.
const LEVELS_MAX: usize = 6;
/// Points of a line; of longer windows several seconds make a point.
const POINTS_MAX: usize = 300;
/// A last piece of the window that is shorter says little about a rate and is left out, in seconds.
const PIECE_MIN: f64 = 0.1;

/// A few seconds of a window together.
struct Piece {
    /// Its end, in seconds since the window opened.
    end_s: f64,
    length_s: f64,
    total: Interval,
}

struct Quantity {
    id: &'static str,
    title: &'static str,
    of: fn(&Piece) -> Option<f64>,
    time: bool,
    definition: &'static str,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        id: "requests",
        title: "Requests/s",
        of: |piece| Some(piece.total.requests as f64 / piece.length_s),
        time: false,
        definition: definitions::REQUESTS,
    },
    Quantity {
        id: "errors",
        title: "Errors/s",
        of: |piece| Some(piece.total.errors as f64 / piece.length_s),
        time: false,
        definition: definitions::ERRORS,
    },
    Quantity {
        id: "latency",
        title: "Latency, mean",
        of: |piece| {
            let nanos = quotient(piece.total.response_ns as f64, piece.total.requests as f64);
            (piece.total.requests > 0).then_some(nanos / NANOS_PER_SECOND as f64)
        },
        time: true,
        definition: definitions::LATENCY,
    },
    Quantity {
        id: "latency-max",
        title: "Latency, longest",
        of: |piece| {
            (piece.total.requests > 0).then_some(piece.total.response_ns_max as f64 / NANOS_PER_SECOND as f64)
        },
        time: true,
        definition: definitions::SERIES,
    },
];

/// Rate and clients of a level.
type Key = (Option<RateProfile>, u32);

pub(super) fn draw(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    let mut levels: Vec<Key> = runs
        .iter()
        .flat_map(|run| &run.levels)
        .filter(|level| level.runs.iter().any(|run| !run.measured.series.0.is_empty()))
        .map(Level::key)
        .collect();
    levels.sort_unstable();
    levels.dedup();
    if levels.is_empty() {
        return;
    }
    let peak = runs.first().and_then(Run::best).and_then(|best| levels.iter().position(|l| *l == best.key()));
    let chosen = spread(levels.len(), LEVELS_MAX, peak);
    html.section("seconds", "Second by second");
    let pieces = longest(runs).div_ceil(POINTS_MAX).max(1);
    let mut note = match pieces {
        1 => "Each point is one second of the measured window".to_owned(),
        several => format!("Each point is {several} seconds of the measured window"),
    };
    note.push_str("; a last piece shorter than 0.1 s is left out.");
    if chosen.len() < levels.len() {
        note.push_str(&format!(
            " {} of {} levels are drawn, evenly chosen.",
            count(chosen.len() as u64),
            count(levels.len() as u64)
        ));
    }
    html.raw("<p class=\"note\">").text(&note).raw(" ").defined("Definition", Some(definitions::SERIES));
    html.raw(".</p>");
    for (place, index) in chosen.iter().enumerate() {
        let key = levels[*index];
        let open = place == 0 || peak == Some(*index);
        html.raw(if open { "<details open" } else { "<details" });
        html.raw(" class=\"level\"><summary><h3>").text(&summary::load(key.1, key.0));
        html.raw(if peak == Some(*index) && levels.len() > 1 { " <small>peak</small>" } else { "" });
        html.raw("</h3></summary><div class=\"charts\">");
        for quantity in &QUANTITIES {
            level(html, screen, runs, key, quantity, pieces);
        }
        html.raw("</div></details>");
    }
    html.raw("</section>");
}

fn level(html: &mut Html, screen: &Screen, runs: &[Run<'_>], key: Key, quantity: &Quantity, seconds: usize) {
    let mut lines = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let Some(level) = run.levels.iter().find(|level| level.key() == key) else { continue };
        for (index, iteration) in level.runs.iter().enumerate() {
            let points = pieces(&iteration.measured, seconds);
            let (name, style) = match runs.len() {
                1 => (format!("iteration {}", iteration.iteration), index),
                _ => (run.name.clone(), number),
            };
            let points = points.iter().filter_map(|p| Some(Point::new(p.end_s, (quantity.of)(p)?))).collect();
            lines.push(Line { name, style, points, marked: false });
        }
    }
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.y);
    let silent = values().all(|value| value == 0.0);
    if values().next().is_none() || (quantity.id == "errors" && silent) {
        return;
    }
    let scale = if quantity.time { Scale::seconds(screen, values()) } else { Scale::plain(1, values()) };
    let places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    let last = places.iter().copied().fold(1.0, f64::max);
    let grid: Vec<f64> = (0..=last.ceil() as u32).map(f64::from).collect();
    Figure {
        id: match key {
            (None, clients) => format!("chart-{}-{clients}", quantity.id),
            (Some(rate), _) => format!("chart-{}-{}", quantity.id, rate.to_string().replace(['.', '/'], "-")),
        },
        title: quantity.title.to_owned(),
        definition: Some(quantity.definition),
        caption: String::new(),
        x: Axis::counts("seconds since the window opened", 0.0, &grid),
        y: Axis::from_zero("", &scale, values(), 3),
        height: HEIGHT_LOW,
        lines,
        reference: Vec::new(),
        x_name: "until second",
        show_x: &|second| decimal(second, if second.fract() == 0.0 { 0 } else { 2 }),
        scale,
    }
    .draw(html);
}

/// The series of a window in pieces of whole seconds; the last may be shorter.
fn pieces(measured: &Measured, seconds: usize) -> Vec<Piece> {
    let window_s = measured.window_ns as f64 / NANOS_PER_SECOND as f64;
    let chunks = measured.series.0.chunks(seconds).enumerate();
    let piece = |(index, chunk): (usize, &[Interval])| {
        let begin = (index * seconds) as f64;
        let end_s = (begin + chunk.len() as f64).min(window_s);
        let mut total = Interval::default();
        chunk.iter().for_each(|second| total.merge(second));
        Piece { end_s, length_s: end_s - begin, total }
    };
    chunks.map(piece).filter(|piece| piece.length_s >= PIECE_MIN).collect()
}

fn longest(runs: &[Run<'_>]) -> usize {
    let iterations = runs.iter().flat_map(|run| &run.levels).flat_map(|level| &level.runs);
    iterations.map(|run| run.measured.series.0.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::metrics::Series;

    fn measured(window_ns: u64, requests: &[u64]) -> Measured {
        let second = |requests: &u64| Interval { requests: *requests, ..Interval::default() };
        Measured { window_ns, series: Series(requests.iter().map(second).collect()), ..Measured::default() }
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
