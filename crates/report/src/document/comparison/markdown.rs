//! The comparison for a pull request: a line, a short table, and the rest folded away.

use webstone_judge::comparison::{Candidate, Comparison, Difference, GateResult, Row, Weight};
use webstone_measure::metric::Metric;

use super::{Look, changes, fail_when, gate_change, gate_word, is_known, iterations, letter, only, summary};
use crate::document::cell::Cell;
use crate::document::table::{Room, Table};
use crate::document::{Block, Document, Tone};
use crate::thresholds::said;

/// The figures that a reviewer looks at first.
const HEADLINES: [Metric; 4] = [Metric::RATE, Metric::MEAN, Metric::Percentile(99.0), Metric::ERRORS];

pub(super) fn document(comparison: &Comparison) -> Document {
    let mut doc = Document::default();
    for candidate in &comparison.candidates {
        let (record, letter) = (&comparison.records[candidate.record], letter(candidate.record));
        let gate = if comparison.failed() { "❌ " } else { "" };
        doc.0.push(Block::Text(vec![
            (Tone::Plain, gate.to_owned()),
            (Tone::Strong, "webstone:".to_owned()),
            (Tone::Plain, " ".to_owned()),
            (Tone::Code, record.name.clone()),
            (Tone::Plain, format!(" ({letter}) against A: {}", summary(candidate))),
        ]));
        let forbidding = candidate.differences.iter().filter(|one| one.weight == Weight::Forbids);
        doc.list(forbidding.map(|one| format!("⚠️ not comparable: {}", differs(one))).collect());
        doc.0.extend(table(comparison, candidate, Look::Short).map(Block::Table));
    }
    gates(comparison, &mut doc);
    doc.0.push(Block::Fold("Records, every figure, how to read it", details(comparison)));
    doc
}

fn differs(Difference { what, baseline, candidate, .. }: &Difference) -> String {
    format!("{what}: {baseline} against {candidate}")
}

fn details(comparison: &Comparison) -> Document {
    let mut doc = Document::default();
    let records: Vec<_> = comparison.records.iter().enumerate().collect();
    let mut table = Table::of(&records);
    table.text("", Room::Always, |(index, _)| letter(*index)).text("record", Room::Always, |(_, it)| &it.id);
    table.text("verdict", Room::Always, |(_, record)| record.standing.word());
    table.text("server", Room::Always, |(_, record)| record.server.as_ref().unwrap_or(&record.target));
    table.text("workload", Room::Always, |(_, record)| &record.workload);
    table.text("iterations", Room::Always, |(_, record)| iterations(record.iterations));
    doc.0.push(Block::Table(table.done()));
    let reasons = records.iter().flat_map(|(index, record)| {
        let is = format!("{} is {}", letter(*index), record.standing.word());
        record.reasons.iter().map(move |reason| format!("{is}: {reason}"))
    });
    doc.list(reasons.collect());
    for candidate in &comparison.candidates {
        let letter = letter(candidate.record);
        let differences =
            candidate.differences.iter().map(|one| format!("{letter} differs: {}", differs(one)));
        doc.list(differences.chain(only(candidate).map(|levels| format!("only {levels}"))).collect());
        doc.0.extend(self::table(comparison, candidate, Look::Whole).map(Block::Table));
    }
    let text = format!(
        "Iterations are the samples; values are their means. A change is shown when the whole {:.0} % interval of the \
         ratio lies beyond the noise floor, after Holm's correction over figures, levels and records. Errors change by percentage \
         points.",
        comparison.confidence * 100.0
    );
    doc.text(Tone::Plain, text);
    doc
}

/// The rows of one candidate, level by level; in short, only the headlines.
fn table(comparison: &Comparison, candidate: &Candidate, look: Look) -> Option<Table> {
    let is_wanted = |row: &&Row| is_known(row) && (look == Look::Whole || HEADLINES.contains(&row.metric));
    let rows: Vec<_> = (candidate.levels.iter())
        .flat_map(|level| level.rows.iter().filter(is_wanted).map(move |row| (None, level, row)))
        .collect();
    (!candidate.levels.is_empty()).then(|| changes(comparison, candidate, &rows, look))
}

fn gates(comparison: &Comparison, doc: &mut Document) {
    let conditions = comparison.fail_if.iter().map(|gate| {
        let mark = match gate.result {
            GateResult::Passed => "✅",
            GateResult::Failed => "❌",
            GateResult::CannotTell => "❔",
        };
        let condition = format!("fail if {}", gate.condition);
        let word = format!("{mark} {}", gate_word(gate.result));
        [word, condition, letter(gate.record), gate.level.to_string(), gate_change(gate)]
    });
    let thresholds = comparison.thresholds.iter().map(|one| {
        let outcome = &one.outcome;
        let word = if outcome.passed { "✅ pass" } else { "❌ FAIL" };
        let measured = outcome.measured.map(|value| said(outcome.metric, value));
        let measured = measured.unwrap_or_else(|| "not measured".to_owned());
        let (threshold, level) = (outcome.threshold.clone(), outcome.level.to_string());
        [word.to_owned(), threshold, letter(one.record), level, measured]
    });
    let rows: Vec<[String; 5]> = conditions.chain(thresholds).collect();
    if rows.is_empty() {
        return;
    }
    let mut table = Table::of(&rows);
    table.text("", Room::Always, |cells| &cells[0]);
    table.text("condition", Room::Always, |cells| Cell::from(&cells[1]).toned(Tone::Code));
    table.text("", Room::Always, |cells| &cells[2]).text("at", Room::Always, |cells| &cells[3]);
    doc.0.push(Block::Table(table.text("measured", Room::Always, |cells| &cells[4]).done()));
    if !comparison.fail_if.is_empty() {
        doc.text(Tone::Plain, format!("A condition {}.", fail_when(comparison.fail_when)));
    }
}
