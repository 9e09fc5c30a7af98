//! How a duel went: the interval of the leading figure as it narrowed, and the figure over time.

use webstone_judge::duel::{self, DuelComparison, DuelJudgement, DuelRatio};
use webstone_model::duel::DuelRecord;

use super::{is_cpu_by_slice, unweighted};
use crate::chart::{Axis, Line, Point};
use crate::document::chart::{Chart, LineChart};
use crate::numbers::Scale;

/// The interval after each start: it narrows.
pub(super) fn course(record: &DuelRecord, judgement: &DuelJudgement, of: &DuelComparison) -> Option<Chart> {
    let course = duel::course(record, of.contestant, judgement.leading);
    // The first intervals are as wide as the page.
    let drawn: Vec<&DuelRatio> = course.iter().filter(|ratio| ratio.starts >= 3).collect();
    let last = drawn.last()?;
    let in_percent = |value: f64| 100.0 * (value - 1.0);
    let reach = drawn
        .iter()
        .filter(|ratio| ratio.starts >= 4)
        .map(|ratio| in_percent(ratio.high).max(-in_percent(ratio.low)));
    let reach = reach.fold(in_percent(last.high).abs().max(in_percent(last.low).abs()), f64::max) * 1.1;
    let point = |ratio: &&DuelRatio| Point {
        x: ratio.starts as f64,
        y: in_percent(ratio.ratio),
        interval: Some((in_percent(ratio.low), in_percent(ratio.high))),
    };
    let points: Vec<Point> = drawn.iter().map(point).collect();
    let starts: Vec<f64> = points.iter().map(|point| point.x).collect();
    let mut chart = LineChart::new(
        format!("chart-course-{}", of.contestant),
        format!("{}: the interval after each start", judgement.leading.name()),
        ("starts", Axis::counts("starts of each contestant", 0.0, &starts)),
        Axis::around_zero("change, %", -reach, reach, 6),
        Scale::exactly("%", 1.0, 2),
        vec![Line::marked(judgement.leading.name(), 0, points)],
    );
    chart.plot.reference = vec![(starts[0], 0.0), (*starts.last().unwrap_or(&1.0), 0.0)];
    Some(Chart::Lines(chart))
}

/// Points of a contestant in the chart over time, at most.
const POINTS_MAX: usize = 150;

/// The leading figure of all contestants over time, a few rounds of slices at a time. A disturbance of the machine shows in all lines.
pub(super) fn over_time(record: &DuelRecord, judgement: &DuelJudgement) -> Option<Chart> {
    let is_cpu = is_cpu_by_slice(record, judgement);
    let round = (2 * record.contestants.len()).max(1);
    let rounds: usize = record.starts.iter().map(|start| start.slices.len() / round).sum();
    let together = round * rounds.div_ceil(POINTS_MAX).max(1);
    let mut lines: Vec<Line> = record
        .contestants
        .iter()
        .enumerate()
        .map(|(style, contestant)| Line::plain(&*contestant.name, style, Vec::new()))
        .collect();
    for start in &record.starts {
        for slices in start.slices.chunks(together) {
            let x = start.at_ns.saturating_add(slices[0].at_ns) as f64 / 1e9;
            for (number, line) in lines.iter_mut().enumerate() {
                let y = unweighted(slices, number, is_cpu);
                line.points.extend(y.map(|y| Point { x, y, interval: None }));
            }
        }
    }
    // A value outside of the usual range is a slice that something disturbed: its line leaves the chart, and its number stays.
    let mut values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
    values.sort_unstable_by(f64::total_cmp);
    let most = values.get(values.len() * 98 / 100)? * 1.25;
    let (name, scale) = match is_cpu {
        true => ("CPU time per request", Scale::exactly("µs", 1.0, 1)),
        false => ("requests/s while it has the load", Scale::exactly("", 1.0, 0)),
    };
    let seconds: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.y.min(most));
    let y = Axis::from_zero("", &scale, values, 4);
    let x = Axis::counts("seconds", 0.0, &seconds);
    Some(Chart::Lines(LineChart {
        caption: format!(
            "Each point is {} of slices. What the machine does, it does to all contestants; what differs between them stays.",
            if together == round { "a round".to_owned() } else { format!("{} rounds", together / round) }
        ),
        ..LineChart::new("chart-time", name, ("seconds", x), y, scale, lines)
    }))
}

#[cfg(test)]
mod tests {
    use crate::{Format, Options, render_duel};

    #[test]
    fn what_a_disturbed_slice_took_is_tabulated_as_it_was() {
        let mut record = webstone_model::fixture::duel("d", &[("old", 10_000), ("new", 10_240)], 6);
        let mut slices = record.starts[2].slices.iter_mut().filter(|slice| slice.side == 0);
        // Two of 100 requests each are a point.
        for slice in [slices.next(), slices.next()].into_iter().flatten() {
            slice.cpu_ns = Some(432_100_000);
        }
        let html = render_duel(&record, Format::Html, &Options::default()).unwrap();
        let html = String::from_utf8(html).unwrap();
        assert!(html.contains("4,321.0"), "the point is cut to the chart");
    }
}
