//! Distributions as HdrHistogram plots them: the percentile on an axis that gives each further nine the same room, the time on a
//! logarithmic one. One record has a line per level; several have a line each, at its peak; a single level has a line per kind of time.

use std::borrow::Cow;

use webstone_measure::metrics::Histogram;
use webstone_measure::units::NANOS_PER_SECOND;

use crate::chart::{Axis, Line, Point, STYLES};
use crate::numbers::{Scale, counted, seconds_round, spread};
use crate::summary::{self, Level};

use super::markup::Html;
use super::{Run, definitions};
use crate::document::chart::{LineChart, places, values};

/// Points per nine.
const RESOLUTION: f64 = 16.0;

/// The response times of a few levels, or of each record's peak.
pub(super) fn draw(html: &mut Html, runs: &[Run<'_>]) {
    let of_level =
        |name: String, style: usize, level: &Level<'_>| line(name, style, &summary::response_times(level));
    let (title, caption, lines): (_, _, Vec<Line>) = match runs {
        [only] => {
            let chosen = spread(only.levels.len(), STYLES, only.peak());
            let caption = match only.levels.len() - chosen.len() {
                0 => String::new(),
                more => format!(
                    "{} levels, evenly chosen; {} in the table of times.",
                    chosen.len(),
                    counted(more as u64, "more is", "more are")
                ),
            };
            let levels = chosen.iter().map(|index| &only.levels[*index]).enumerate();
            let lines = levels.map(|(style, level)| of_level(level.load(), style, level)).collect();
            ("Latency by percentile", caption, lines)
        }
        several => {
            let peak = |(style, run): (usize, &Run<'_>)| {
                let level = run.best()?;
                Some(of_level(format!("{}, {}", run.name, level.load()), style, level))
            };
            let lines = several.iter().enumerate().filter_map(peak).collect();
            ("Latency by percentile, at each peak", String::new(), lines)
        }
    };
    chart(html, "chart-distribution", title, &caption, lines);
}

/// Connecting, first byte, response and page of a level.
pub(super) fn times(html: &mut Html, level: &Level<'_>, id: &str) {
    let merged = summary::merged(&level.runs);
    let named = merged.histograms.named().into_iter().zip(merged.unanswered.histograms.named());
    let mut captions = Vec::new();
    let lines = named.enumerate().map(|(style, ((name, answered), (_, waits)))| {
        let name = match name {
            "connect" => "connect time",
            "first-byte" => "time to first byte",
            "response" => "latency",
            _ => "page time",
        };
        let times = summary::with_waits(answered, waits);
        let has_waits = matches!(times, Cow::Owned(_)).then_some(name);
        (line(name.to_owned(), style, &times), has_waits)
    });
    let (mut lines, with_waits): (Vec<Line>, Vec<Option<&str>>) = lines.unzip();
    let with_waits: Vec<&str> = with_waits.into_iter().flatten().collect();
    if let Some(open_loop) = &merged.open_loop {
        let more = [
            ("latency from the actual start", &open_loop.uncorrected.response),
            ("schedule lag", &open_loop.lag_histogram),
        ];
        lines.extend(more.iter().enumerate().map(|(n, (name, of))| line((*name).to_owned(), 4 + n, of)));
        captions.push("All but the last two count from the intended start. The schedule lag is the load generator’s own.".to_owned());
    }
    if !with_waits.is_empty() {
        captions.push(format!("Waits without an answer are part of: {}.", with_waits.join(", ")));
    }
    if let Some(handshakes) = &merged.handshakes {
        lines.push(line("TLS handshake".to_owned(), 6, &handshakes.histogram));
    }
    chart(html, id, "Times by percentile", &captions.join(" "), lines);
}

fn chart(html: &mut Html, id: &str, title: &str, caption: &str, mut lines: Vec<Line>) {
    lines.retain(|line| !line.points.is_empty());
    let most = places(&lines).last().copied().unwrap_or(0.0);
    let y = Axis::durations("logarithmic scale", values(&lines), &seconds_round);
    let scale = Scale::seconds(values(&lines));
    LineChart {
        definition: Some(definitions::PERCENTILES.to_owned()),
        caption: caption.to_owned(),
        show_x: &percentile,
        ..LineChart::new(id, title, ("percentile", Axis::percentiles(most)), y, scale, lines)
    }
    .draw(html);
}

/// The quantiles of a histogram, up to the last that its number of values supports.
fn line(name: String, style: usize, histogram: &Histogram) -> Line {
    let mut points = Vec::new();
    if !histogram.is_empty() {
        let most = (histogram.len() as f64).log10().max(1.0);
        let places: Vec<f64> =
            (0..=(most * RESOLUTION) as u32).map(|step| f64::from(step) / RESOLUTION).collect();
        let quantiles: Vec<f64> = places.iter().map(|x| 1.0 - 10_f64.powf(-x)).collect();
        for (x, nanos) in places.into_iter().zip(histogram.values_at_quantiles(&quantiles)) {
            let value = nanos as f64 / NANOS_PER_SECOND as f64;
            // Below the clock's resolution there is nothing to show on a logarithmic axis.
            if value > 0.0 {
                points.push(Point::new(x, value));
            }
        }
    }
    Line::plain(name, style, points)
}

/// The percentile at a position on the axis, with enough decimals to differ from its neighbours.
fn percentile(x: f64) -> String {
    let decimals = x.ceil().max(1.0) as usize;
    let text = format!("{:.decimals$}", 100.0 * (1.0 - 10_f64.powf(-x)));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("p{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::nines;

    #[test]
    fn a_line_ends_where_single_values_begin() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|millis| histogram.record(millis * 1_000_000));
        let line = line(String::new(), 0, &histogram);
        let last = line.points.last().unwrap();
        assert!((last.x - 3.0).abs() < 1e-12);
        // 999 of 1,000 values are no longer; a histogram's value is at most 0.1 % above.
        assert!((last.y / 0.999 - 1.0).abs() < 1.1e-3, "{last:?}");
        let at_90 = line.points.iter().find(|point| point.x == nines(0.9)).unwrap();
        assert!((at_90.y / 0.9 - 1.0).abs() < 1.1e-3, "{at_90:?}");
    }

    #[test]
    fn percentiles_are_named_as_people_do() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(percentile), ["p0", "p90", "p99", "p99.9", "p99.99"]);
        assert_eq!(percentile(nines(0.5)), "p50");
    }
}
