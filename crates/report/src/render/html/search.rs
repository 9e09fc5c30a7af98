//! The search for an SLO (`webstone find`): each condition against the load, with the limit. One section per report, with a part for each
//! of several records. The answer stands among the notes, the levels as a table among the tables.

use webstone_judge::search::Finding;
use webstone_judge::statistics::Method;
use webstone_measure::metric::Quantity;
use webstone_model::search::Over;

use crate::chart::{Axis, Line, Point};
use crate::numbers::{Scale, seconds_round};

use super::markup::Html;
use super::{Run, definitions};
use crate::document::chart::{LineChart, tops};
use crate::text::search::metric_of;

/// Draws the section, where a record is that of a search.
pub(super) fn draw(html: &mut Html, runs: &[Run<'_>]) {
    let found = runs.iter().filter_map(|run| {
        let (over, finding) = run.judged.found.as_ref().filter(|(_, finding)| !finding.levels.is_empty())?;
        Some((run, *over, finding))
    });
    html.section_of("search", "Search for an SLO", |html| {
        for (number, (run, over, finding)) in found.enumerate() {
            let mut charts = Html::default();
            charts.charts(|html| {
                for place in 0..finding.levels[0].conditions.len() {
                    condition(html, &format!("chart-search-{number}-{place}"), over, finding, place);
                }
            });
            let charts = charts.finish();
            if runs.len() > 1 && !charts.is_empty() {
                html.element("h3", &run.name);
            }
            html.raw(&charts);
        }
    });
}

/// One condition of the SLO: its value at every level, and the limit.
fn condition(html: &mut Html, id: &str, over: Over, finding: &Finding, place: usize) {
    let of = |level: &webstone_judge::search::LevelFound| {
        let value = level.conditions[place].value?;
        let interval = Some(&value).filter(|value| value.method != Method::None);
        Some(Point::within(level.load as f64, value.point, interval))
    };
    let condition = &finding.levels[0].conditions[place];
    let points: Vec<Point> = finding.levels.iter().filter_map(of).collect();
    let (Some(metric), true) = (metric_of(&condition.condition), points.len() > 1) else { return };
    // A share that is the same at every level needs no chart.
    if metric.quantity() == Quantity::Percent && points.iter().all(|point| point.y == points[0].y) {
        return;
    }
    let loads: Vec<f64> = points.iter().map(|point| point.x).collect();
    let ends = (loads[0], loads[loads.len() - 1]);
    let lines = vec![Line::marked(metric.to_string(), 0, points.clone())];
    let tops: Vec<f64> = tops(&lines).collect();
    let values = || points.iter().map(|point| point.y).chain([condition.limit]);
    let (y, scale) = match metric.quantity() {
        Quantity::Seconds => {
            let times = tops.into_iter().chain(values());
            let axis = Axis::durations("logarithmic scale", times, &|value| seconds_round(value));
            (axis, Scale::seconds(values()))
        }
        quantity => {
            let scale = match quantity {
                Quantity::BitsPerSecond => Scale::bits_per_second(values()),
                _ => Scale::plain(3, values()),
            };
            let unit = if quantity == Quantity::Percent { "%" } else { "" };
            (Axis::from_zero(unit, &scale, tops.into_iter().chain([condition.limit]), 5), scale)
        }
    };
    let x_name = match over {
        Over::Rate => "arrivals/s",
        Over::Clients => "clients",
    };
    let caption = format!(
        "Dashed: the limit. Bars are {:.1} % intervals over the timed runs of a level; those away from the edge were \
         measured once.",
        100.0 * finding.confidence
    );
    let (title, x) =
        (format!("{}, against the load", condition.condition), Axis::counts(x_name, 1.0, &loads));
    let mut figure = LineChart::new(id, title, (x_name, x), y, scale, lines);
    figure.definition = Some(definitions::SEARCH.to_owned());
    figure.caption = caption;
    figure.plot.reference = vec![(ends.0, condition.limit), (ends.1, condition.limit)];
    figure.draw(html);
}
