//! The outcomes of thresholds and conditions: each with the measured value, and whether it passed.

use webstone_measure::metric::{Metric, Quantity};
use webstone_model::record::RunRecord;
use webstone_model::threshold::{Outcome, evaluate};

use crate::Options;
use crate::document::cell::Cell;
use crate::document::table::{Room, Sheet, Table};
use crate::document::{Document, Tone};
use crate::numbers::{Scale, bytes, percent, seconds};
use crate::render::text;

/// The table of thresholds, ending in a newline; nothing without any.
pub fn render_thresholds(outcomes: &[Outcome], options: &Options) -> String {
    let mut doc = Document::default();
    doc.sheets(sheet_of(outcomes));
    text::render(&doc, options)
}

/// The outcomes of these options' thresholds, at every level that is shown.
pub fn checked(record: &RunRecord, options: &Options) -> Vec<Outcome> {
    let mut outcomes = evaluate(&options.thresholds, record);
    outcomes.retain(|outcome| options.clients.is_none_or(|clients| clients == outcome.clients));
    outcomes
}

/// The table of one record; `None` without outcomes.
pub(crate) fn sheet_of(outcomes: &[Outcome]) -> Option<Sheet> {
    let of_run: Vec<(Option<String>, &Outcome)> = outcomes.iter().map(|outcome| (None, outcome)).collect();
    (!outcomes.is_empty()).then(|| sheet(&of_run))
}

/// The table of outcomes, with the record of each where there are several.
pub(crate) fn sheet(outcomes: &[(Option<String>, &Outcome)]) -> Sheet {
    let mut table = Table::with_rows(outcomes);
    table.text("", Room::Always, |(_, outcome)| {
        Cell::from(passed(outcome.passed).0).signed(if outcome.passed { "✅" } else { "❌" })
    });
    table.text("threshold", Room::Flexible(12), |(_, outcome)| {
        Cell::from(&outcome.threshold).toned(Tone::Code)
    });
    if outcomes.iter().any(|(record, _)| record.is_some()) {
        table.text("", Room::Always, |(record, _)| record.clone().unwrap_or_default());
    }
    table.number("level", "", Room::Always, |(_, outcome)| outcome.level.to_string());
    table.number("measured", "", Room::Always, |(_, outcome)| measured(outcome));
    table.tones(|(_, outcome)| passed(outcome.passed).1);
    Sheet::new("Thresholds", "measured over all iterations of a level", table.done())
}

/// The value, and the share of unanswered requests if that is why the limit is exceeded.
pub(crate) fn measured(outcome: &Outcome) -> String {
    let value =
        outcome.measured.map_or_else(|| "not measured".to_owned(), |value| said(outcome.metric, value));
    match outcome.unanswered_percent {
        Some(share) => format!("{value}, {} unanswered", percent(share)),
        None => value,
    }
}

pub(crate) fn passed(passed: bool) -> (&'static str, Tone) {
    if passed { ("pass", Tone::Good) } else { ("FAIL", Tone::Alarm) }
}

/// One value with its unit, for prose.
pub(crate) fn said(metric: Metric, value: f64) -> String {
    match metric.quantity() {
        Quantity::Seconds | Quantity::Duration => seconds(value),
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
