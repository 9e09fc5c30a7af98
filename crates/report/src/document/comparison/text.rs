//! The comparison for a terminal: what was compared, what came out in a line, a table a level, the gates.

use webstone_judge::comparison::{Candidate, Comparison, Finding, Row, Weight};
use webstone_judge::verdict::Standing;
use webstone_measure::metric::Metric;

use super::{
    because, compared_name, decimals, floor_source, gates, is_known, iterations, letter, scaled, signed,
    summary, tone_of,
};
use webstone_measure::keys::levels_named;

use crate::Options;
use crate::layout::{Room, Table, heading, labelled, push_line};
use crate::numbers::counted;
use crate::screen::{Screen, Tone};
use crate::text;

pub(super) fn render(comparison: &Comparison, options: &Options) -> String {
    let screen = Screen::new(options);
    let mut out = String::new();
    records(&screen, comparison, &mut out);
    for candidate in &comparison.candidates {
        against(&screen, comparison, candidate, options, &mut out);
    }
    for sheet in gates(&screen, comparison) {
        sheet.draw(&screen, &mut out);
    }
    if !options.full {
        rest(&screen, comparison, options, &mut out);
    }
    out
}

/// What the default comparison leaves out: figures of which no difference was shown.
fn rest(screen: &Screen, comparison: &Comparison, options: &Options, out: &mut String) {
    let levels = comparison.candidates.iter().flat_map(|candidate| &candidate.levels);
    let rows =
        levels.flat_map(|level| &level.rows).filter(|row| is_known(row) && !is_told(row)).count() as u64;
    if rows > 0 {
        let what = counted(rows, "figure", "figures");
        text::rest(
            screen,
            &[format!("{what} without a difference shown, and how changes are judged")],
            options,
            out,
        );
    }
}

/// Whether the default comparison shows a figure: what changed, and the request rate always.
fn is_told(row: &Row) -> bool {
    matches!(row.finding, Finding::Better | Finding::Worse) || row.metric == Metric::RATE
}

fn records(screen: &Screen, comparison: &Comparison, out: &mut String) {
    push_line(out, &screen.paint(Tone::Strong, "webstone compare: everything against A, the baseline"));
    out.push('\n');
    for (index, record) in comparison.records.iter().enumerate() {
        let server = record.server.as_deref().unwrap_or(&record.target);
        let parts = [&record.id, &record.workload, server, &iterations(record.iterations)];
        let text = screen.safe(&parts.join(screen.dot()));
        let label = format!("{}  {}", letter(index), record.standing.word());
        let tone = match record.standing {
            Standing::Invalid => Tone::Alarm,
            Standing::Disturbed => Tone::Caution,
            Standing::Valid | Standing::Uncertified => Tone::Plain,
        };
        labelled(screen, out, &label, 16, &text, tone);
        for reason in &record.reasons {
            labelled(screen, out, "", 16, &screen.safe(reason), tone);
        }
    }
}

fn against(
    screen: &Screen,
    comparison: &Comparison,
    candidate: &Candidate,
    options: &Options,
    out: &mut String,
) {
    let letter = letter(candidate.record);
    out.push('\n');
    let worse =
        candidate.levels.iter().flat_map(|level| &level.rows).any(|row| row.finding == Finding::Worse);
    let tone = if worse { Tone::Caution } else { Tone::Strong };
    let text = format!("{letter} against A: {}", summary(candidate));
    labelled(screen, out, "", 0, &text, tone);
    for difference in &candidate.differences {
        let forbids = difference.weight == Weight::Forbids;
        let mark = if forbids { "not comparable: " } else { "differs: " };
        let text =
            format!("{mark}{}: {} against {}", difference.what, difference.baseline, difference.candidate);
        labelled(
            screen,
            out,
            screen.caution(),
            2,
            &screen.safe(&text),
            if forbids { Tone::Alarm } else { Tone::Plain },
        );
    }
    for (who, levels) in [("A", &candidate.only_baseline), (letter.as_str(), &candidate.only_candidate)] {
        if !levels.is_empty() {
            let text = format!("only {who} has {}", levels_named(levels));
            labelled(screen, out, screen.caution(), 2, &text, Tone::Plain);
        }
    }
    if options.full {
        for level in &candidate.levels {
            let title = format!("{letter} against A at {}", level.key());
            heading(screen, out, &title, "means over iterations");
            let mut table = table(screen, comparison, &letter);
            for row in level.rows.iter().filter(|row| is_known(row)) {
                table.row_in(cells(screen, row), tone_of(row.finding), false);
            }
            table.draw(screen, out);
        }
        notes(screen, candidate, out);
        return;
    }
    out.push('\n');
    let mut table = table(screen, comparison, &letter);
    for level in &candidate.levels {
        table.group(&level.key().to_string());
        for row in level.rows.iter().filter(|row| is_known(row) && is_told(row)) {
            table.row_in(cells(screen, row), tone_of(row.finding), false);
        }
    }
    table.draw(screen, out);
}

fn table(screen: &Screen, comparison: &Comparison, letter: &str) -> Table {
    let confidence = comparison.confidence * 100.0;
    let mut table = Table::default();
    table.text("", Room::Always).text("", Room::Always);
    table.number("A", "", Room::Always).number(letter, "", Room::Always);
    table.number("change", "%", Room::Always);
    table.number(&format!("{confidence:.0} % interval"), "%", Room::Always);
    table.number("noise", &format!("{} %", screen.plus_minus()), Room::Optional(1));
    table.text("verdict", Room::Always);
    table
}

fn cells(screen: &Screen, row: &Row) -> Vec<String> {
    let (unit, [baseline, candidate]) = scaled(screen, row);
    let dash = || screen.dash().to_owned();
    let digits = row.change.as_ref().map_or(1, decimals);
    let interval = row.change.as_ref().map_or_else(dash, |change| {
        format!("{} to {}", signed(change.low, digits), signed(change.high, digits))
    });
    vec![
        compared_name(row.metric),
        unit,
        baseline,
        candidate,
        row.point().map_or_else(dash, |point| signed(point, digits)),
        interval,
        format!("{:.2}", row.floor.value),
        row.finding.word(row.metric).to_owned(),
    ]
}

/// What a reader of the tables has to know, once.
fn notes(screen: &Screen, candidate: &Candidate, out: &mut String) {
    let rows = || candidate.levels.iter().flat_map(|level| &level.rows).filter(|row| is_known(row));
    let mut note = |text: &str| labelled(screen, out, "", 0, text, Tone::Faint);
    let mut sources: Vec<&str> = rows().map(|row| floor_source(row.floor.source)).collect();
    sources.sort_unstable();
    sources.dedup();
    if !sources.is_empty() {
        note(&format!(
            "noise: {}; a change is shown when its whole interval lies beyond it",
            sources.join(", ")
        ));
    }
    let mut reasons: Vec<(&str, &str)> =
        rows().filter_map(|row| Some((row.finding.word(row.metric), because(row.why?)))).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for finding in ["no difference shown", "cannot tell"] {
        let of: Vec<&str> =
            reasons.iter().filter(|(word, _)| *word == finding).map(|(_, because)| *because).collect();
        if !of.is_empty() {
            note(&format!("{finding}: {}", of.join(", or ")));
        }
    }
    let mut differing: Vec<String> = Vec::new();
    for metric in rows().map(|row| row.metric).filter(|metric| metric.differs()) {
        let unit = match metric.unit_of_change() {
            "pp" => "percentage points".to_owned(),
            _ => "their difference".to_owned(),
        };
        let said = format!("{metric} change by {unit}");
        if !differing.contains(&said) {
            note(&said);
            differing.push(said);
        }
    }
    let outliers: usize = rows().map(|row| row.baseline.outliers.len() + row.candidate.outliers.len()).sum();
    if outliers > 0 {
        note("some iterations are outliers; they are flagged in the JSON format, and part of every mean");
    }
}
