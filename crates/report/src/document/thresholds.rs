//! Thresholds and conditions as they came out: each with the value that was measured, and whether it passed.

use webstone_measure::metric::{Metric, Quantity};
use webstone_model::threshold::Outcome;

use crate::Options;
use crate::layout::{Room, Table, heading};
use crate::numbers::{Scale, bytes, percent, seconds};
use crate::screen::{Screen, Tone};

/// The table of thresholds, ending in a newline; nothing without any.
pub fn render_thresholds(outcomes: &[Outcome], options: &Options) -> String {
    let screen = Screen::new(options);
    let mut out = String::new();
    if outcomes.is_empty() {
        return out;
    }
    heading(&screen, &mut out, "Thresholds", "measured over all iterations of a level");
    let mut table = Table::default();
    table.text("", Room::Always).text("threshold", Room::Flexible(12));
    table.number("level", "", Room::Always).number("measured", "", Room::Always);
    for outcome in outcomes {
        let (word, tone) = passed(outcome.passed);
        let cells = vec![
            word.to_owned(),
            outcome.threshold.clone(),
            outcome.level.to_string(),
            measured(&screen, outcome),
        ];
        table.row_in(cells, tone, false);
    }
    table.draw(&screen, &mut out);
    out
}

/// The value, and what it leaves out where that is what breaks the limit.
fn measured(screen: &Screen, outcome: &Outcome) -> String {
    let value = outcome
        .measured
        .map_or_else(|| "not measured".to_owned(), |value| said(screen, outcome.metric, value));
    match outcome.unanswered_percent {
        Some(share) => format!("{value}, {} unanswered", percent(share)),
        None => value,
    }
}

pub(crate) fn passed(passed: bool) -> (&'static str, Tone) {
    if passed { ("pass", Tone::Good) } else { ("FAIL", Tone::Alarm) }
}

/// One value with its unit, for prose.
pub(crate) fn said(screen: &Screen, metric: Metric, value: f64) -> String {
    match metric.quantity() {
        Quantity::Seconds | Quantity::Duration => seconds(screen, value),
        Quantity::Percent => format!("{value:.3} %"),
        Quantity::Share => format!("{value:.4}"),
        Quantity::PerSecond => format!("{}/s", Scale::plain(1, [value]).say(value)),
        Quantity::BitsPerSecond => format!("{} Mbit/s", Scale::plain(3, [value / 1e6]).say(value / 1e6)),
        Quantity::Bytes => bytes(value.max(0.0) as u64),
        Quantity::BytesPerSecond => format!("{}/s", bytes(value.max(0.0) as u64)),
        Quantity::PerMinute => format!("{}/min", Scale::plain(1, [value]).say(value)),
        Quantity::Count | Quantity::Ratio => Scale::plain(3, [value]).say(value),
    }
}
