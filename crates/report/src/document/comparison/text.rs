//! The comparison for a terminal: the result in a line, what was compared, one table per level, the gates.

use webstone_judge::comparison::{Candidate, Compared, Comparison, Difference, Finding, Row, Weight};
use webstone_judge::verdict::Standing;

use super::{
    Look, changes, floor_sources, gates, is_known, is_worse, iterations, known, leading, letter, only,
    open_ends, reasons, rows, summary,
};

use crate::Options;
use crate::document::{Block, Document, Tone};
use crate::numbers::{DOT, counted};
use crate::text;

/// The hint at `webstone duel` appears where a change of the leading figure shows only from this size on, in percent.
const DUEL_FROM_PERCENT: f64 = 3.0;

pub(super) fn document(comparison: &Comparison, options: &Options) -> Document {
    let mut doc = Document::default();
    doc.text(Tone::Strong, "webstone compare: everything against A, the baseline");
    doc.gap();
    results(comparison, &mut doc);
    records(comparison, options, &mut doc);
    for candidate in &comparison.candidates {
        against(comparison, candidate, options, &mut doc);
    }
    doc.sheets(gates(comparison));
    if !options.full {
        rest(comparison, options, &mut doc);
    }
    doc
}

/// What the default comparison leaves out: figures of which no difference was shown.
fn rest(comparison: &Comparison, options: &Options, doc: &mut Document) {
    let left = |candidate: &Candidate| {
        let rows = candidate.levels.iter().flat_map(|level| &level.rows);
        rows.filter(|row| is_known(row) && !is_told(candidate, row)).count() as u64
    };
    let rows: u64 = comparison.candidates.iter().map(left).sum();
    let mut left_out = Vec::new();
    if rows > 0 {
        let what = counted(rows, "figure", "figures");
        left_out.push(format!("{what} without a difference shown, and how changes are judged"));
    }
    let more =
        comparison.records.iter().map(|record| record.reasons.len() - told_reasons(record, options).len());
    let more = more.sum::<usize>() as u64;
    if more > 0 {
        left_out.push(format!("{} for doubt", counted(more, "more reason", "more reasons")));
    }
    if !left_out.is_empty() {
        text::rest(&left_out, options, doc);
    }
}

/// Whether the default comparison shows a figure: what changed, and the leading figure always.
fn is_told(candidate: &Candidate, row: &Row) -> bool {
    matches!(row.finding, Finding::Better | Finding::Worse) || row.metric == leading(candidate)
}

/// The result against each candidate, in a line.
fn results(comparison: &Comparison, doc: &mut Document) {
    for candidate in &comparison.candidates {
        let tone = if is_worse(candidate) { Tone::Caution } else { Tone::Strong };
        doc.note(tone, format!("{} against A: {}", letter(candidate.record), summary(candidate)));
    }
    let shows_little = |candidate: &Candidate| {
        let changes = || rows(candidate, leading(candidate)).map(|(_, row)| row);
        let is_too_small = |row: &Row| row.shows_from.is_some_and(|percent| percent > DUEL_FROM_PERCENT);
        changes().any(is_too_small) && !changes().any(|row| row.finding.is_difference())
    };
    if comparison.candidates.iter().any(shows_little) {
        let hint =
            "`webstone duel` shows smaller changes: it loads both servers in turn, many times a second";
        doc.item("", 2, Tone::Faint, hint);
    }
}

/// Reasons of a record that the comparison tells: all that make it INVALID, and of those for doubt the first.
fn told_reasons<'a>(record: &'a Compared, options: &Options) -> &'a [String] {
    let is_whole = options.full || record.standing == Standing::Invalid;
    if is_whole { &record.reasons } else { &record.reasons[..record.reasons.len().min(1)] }
}

fn records(comparison: &Comparison, options: &Options, doc: &mut Document) {
    doc.gap();
    for (index, record) in comparison.records.iter().enumerate() {
        let server = record.server.as_deref().unwrap_or(&record.target);
        let parts = [&record.id, &record.workload, server, &iterations(record.iterations)];
        let tone = match record.standing {
            Standing::Invalid => Tone::Alarm,
            Standing::Noisy | Standing::Inconclusive => Tone::Caution,
            Standing::Valid | Standing::Sound => Tone::Plain,
        };
        doc.item(format!("{}  {}", letter(index), record.standing.word()), 16, tone, parts.join(DOT));
        told_reasons(record, options).iter().for_each(|reason| doc.item("", 16, tone, reason));
    }
}

fn against(comparison: &Comparison, candidate: &Candidate, options: &Options, doc: &mut Document) {
    let letter = letter(candidate.record);
    let has_notes = !candidate.differences.is_empty() || only(candidate).next().is_some();
    if comparison.candidates.len() > 1 || has_notes {
        doc.gap();
        doc.note(Tone::Strong, format!("{letter} against A"));
    }
    for Difference { what, baseline, candidate, weight } in &candidate.differences {
        let (mark, tone) = match weight {
            Weight::Forbids => ("not comparable", Tone::Alarm),
            Weight::Noted => ("differs", Tone::Plain),
        };
        doc.item("!", 2, tone, format!("{mark}: {what}: {baseline} against {candidate}"));
    }
    only(candidate).for_each(|levels| doc.item("!", 2, Tone::Plain, format!("only {levels}")));
    if options.full {
        for level in &candidate.levels {
            doc.heading(format!("{letter} against A at {}", level.key()), "means over iterations");
            let known = level.rows.iter().filter(|row| is_known(row));
            let rows: Vec<_> = known.map(|row| (None, level, row)).collect();
            doc.0.push(Block::Table(changes(comparison, candidate, &rows, Look::Text)));
        }
        notes(candidate, doc);
        return;
    }
    doc.gap();
    let mut told = Vec::new();
    for level in &candidate.levels {
        let rows = level.rows.iter().filter(|row| is_known(row) && is_told(candidate, row)).enumerate();
        told.extend(rows.map(|(place, row)| ((place == 0).then(|| level.key().to_string()), level, row)));
    }
    doc.0.push(Block::Table(changes(comparison, candidate, &told, Look::Text)));
}

/// How to read the tables, once.
fn notes(candidate: &Candidate, doc: &mut Document) {
    let mut note = |text: &str| doc.note(Tone::Faint, text);
    let sources = floor_sources(candidate);
    if !sources.is_empty() {
        note(&format!(
            "noise: {}; a change is shown when its whole interval lies beyond it",
            sources.join(", ")
        ));
    }
    for finding in [Finding::NoDifferenceShown, Finding::CannotTell] {
        if let Some((word, reasons)) = reasons(candidate, finding) {
            note(&format!("{word}: {reasons}"));
        }
    }
    open_ends(candidate).into_iter().for_each(&mut note);
    let mut differing: Vec<String> = Vec::new();
    for metric in known(candidate).map(|row| row.metric).filter(|metric| metric.differs()) {
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
    let outliers: usize =
        known(candidate).map(|row| row.baseline.outliers.len() + row.candidate.outliers.len()).sum();
    if outliers > 0 {
        note("some iterations are outliers; they are flagged in the JSON format, and part of every mean");
    }
}
