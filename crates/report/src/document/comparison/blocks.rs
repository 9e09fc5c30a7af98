//! The document: the result against each candidate in a line, the gates, what was compared, and every figure.

use std::collections::BTreeSet;

use webstone_judge::comparison::{Candidate, Compared, Comparison, Difference, Finding, Row, Weight, Why};
use webstone_judge::verdict::Standing;

use super::{
    changes, digits, floor_sources, gates, is_known, is_worse, known, leading, letter, only, open_ends,
    reasons, rows, summary, title, tone_of,
};
use crate::definitions::anchor_of;
use crate::document::chart::{Change, Changes, Chart};
use crate::document::table::Sheet;
use crate::document::{Block, Document, Tone};
use crate::numbers::{DOT, counted, signed};
use crate::summary::suffix;

/// The hint at `webstone duel` appears where a change of the leading figure shows only from this size on, in percent.
const DUEL_FROM_PERCENT: f64 = 3.0;
/// Differences that are shown before they are folded.
const DIFFERENCES_MAX: usize = 6;
/// Width of the labels.
const LABEL: usize = 16;
const HOW_TO_READ: &str = "A dot is a change, its line the interval; grey is the noise floor.";

/// What is shown of records that must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Only why.
    Refused,
    /// The changes as well, by the user's wish.
    Forced,
}

/// The document.
pub(crate) fn document(comparison: &Comparison, forbidden: Forbidden) -> Document {
    let mut doc = Document::default();
    let names = called(&comparison.records);
    let others: Vec<&str> =
        comparison.candidates.iter().map(|candidate| names[candidate.record].as_str()).collect();
    let sign = if comparison.failed() { "❌ " } else { "" };
    doc.title(sign, format!("Comparison: {} against {}", others.join(", "), names[0]));
    doc.gap();
    let (mut brief, mut whole) = (Document::default(), Document::default());
    for candidate in &comparison.candidates {
        let letter = letter(candidate.record);
        let is_forbidden = candidate.differences.iter().any(|one| one.weight == Weight::Forbids);
        if is_forbidden && forbidden == Forbidden::Refused {
            let refused = "not compared, because the two runs were not measured alike";
            doc.text(Tone::Alarm, format!("{letter} against A: {refused}"));
            differences(candidate, &mut doc);
            continue;
        }
        let tone = if is_worse(candidate) { Tone::Caution } else { Tone::Strong };
        doc.text(tone, format!("{letter} against A: {}", summary(candidate)));
        if is_forbidden {
            doc.text(Tone::Alarm, "Not measured alike: what differs may be the cause of every change.");
        }
        differences(candidate, &mut doc);
        in_brief(comparison, candidate, &mut brief);
        if comparison.candidates.len() > 1 {
            whole.heading(format!("{} against {}", names[candidate.record], names[0]), "");
        }
        in_full(comparison, candidate, &mut whole);
    }
    if comparison.candidates.iter().any(shows_little) {
        let hint =
            "`webstone duel` shows smaller changes: it loads both servers in turn, many times a second";
        doc.note(Tone::Faint, hint);
    }
    doc.sheets(gates(comparison));
    records(&comparison.records, &mut doc);
    if brief.0.is_empty() {
        return doc;
    }
    let figures = counted(comparison.candidates.iter().flat_map(known).count() as u64, "figure", "figures");
    doc.fold(format!("All {figures}, and how changes are judged"), brief, whole);
    doc
}

/// `after (B)`: by their names if these differ, otherwise by their identifiers.
fn called(records: &[Compared]) -> Vec<String> {
    let is_distinct =
        records.iter().map(|record| &record.name).collect::<BTreeSet<_>>().len() == records.len();
    let name = |record: &Compared| if is_distinct { record.name.clone() } else { record.id.clone() };
    records
        .iter()
        .enumerate()
        .map(|(place, record)| format!("{} ({})", name(record), letter(place)))
        .collect()
}

fn shows_little(candidate: &Candidate) -> bool {
    let changes = || rows(candidate, leading(candidate)).map(|(_, row)| row);
    let is_too_small = |row: &Row| row.shows_from.is_some_and(|percent| percent > DUEL_FROM_PERCENT);
    changes().any(is_too_small) && !changes().any(|row| row.finding.is_difference())
}

/// How a record differs from the first, apart from its figures.
fn differences(candidate: &Candidate, doc: &mut Document) {
    let item = |one: &Difference| {
        let (label, tone) = match one.weight {
            Weight::Forbids => ("not comparable", Tone::Alarm),
            Weight::Noted => ("differs", Tone::Plain),
        };
        let text = format!("{}: {} against {}", one.what, one.baseline, one.candidate);
        Block::Item { label: label.to_owned(), width: LABEL, tone, text }
    };
    let only = only(candidate).map(|text| Block::Item {
        label: "levels".to_owned(),
        width: LABEL,
        tone: Tone::Plain,
        text: format!("only {text}"),
    });
    let mut items: Vec<Block> = only.chain(candidate.differences.iter().map(item)).collect();
    let rest = items.split_off(items.len().min(DIFFERENCES_MAX));
    doc.0.append(&mut items);
    if !rest.is_empty() {
        let more = counted(rest.len() as u64, "more difference", "more differences");
        doc.fold(format!("{more} of {}", letter(candidate.record)), Document::default(), Document(rest));
    }
}

/// What was compared, and why it is INVALID or in doubt: of doubts, the first is shown.
fn records(records: &[Compared], doc: &mut Document) {
    doc.gap();
    let mut rest = Document::default();
    for (place, record) in records.iter().enumerate() {
        let tone = match record.standing {
            Standing::Invalid => Tone::Alarm,
            Standing::Noisy | Standing::Inconclusive => Tone::Caution,
            Standing::Valid | Standing::Sound => Tone::Plain,
        };
        let letter = letter(place);
        let server = record.server.as_deref().unwrap_or(&record.target);
        let parts = [&record.id, &record.workload, server, &iterations(record.iterations)];
        doc.item(format!("{letter}  {}", record.standing.word()), LABEL, tone, parts.join(DOT));
        let told = if record.standing == Standing::Invalid { record.reasons.len() } else { 1 };
        for (number, reason) in record.reasons.iter().enumerate() {
            let doc = if number < told { &mut *doc } else { &mut rest };
            doc.item(letter.as_str(), LABEL, tone, reason);
        }
    }
    if !rest.0.is_empty() {
        let more = counted(rest.0.len() as u64, "more reason", "more reasons");
        doc.fold(format!("{more} for doubt"), Document::default(), rest);
    }
}

/// `3 iterations per level`, `2 to 3 iterations per level`.
fn iterations((fewest, most): (usize, usize)) -> String {
    if fewest == most {
        return format!("{} per level", counted(most as u64, "iteration", "iterations"));
    }
    format!("{fewest} to {most} iterations per level")
}

/// What changed, and the leading figure always.
fn in_brief(comparison: &Comparison, candidate: &Candidate, doc: &mut Document) {
    let leading = leading(candidate);
    let mut told = Vec::new();
    for level in &candidate.levels {
        let is_told = |row: &&Row| is_known(row) && (row.finding.is_difference() || row.metric == leading);
        let rows = level.rows.iter().filter(is_told).enumerate();
        told.extend(rows.map(|(place, row)| ((place == 0).then(|| level.key().to_string()), row)));
    }
    let title = format!("{} against A", letter(candidate.record));
    doc.sheets([Sheet::new(title, "means over iterations", changes(comparison, candidate, &told))]);
    doc.0.extend(told.iter().filter_map(|(_, row)| by_difference(row)).next().map(note));
}

/// Every figure at every level.
fn in_full(comparison: &Comparison, candidate: &Candidate, doc: &mut Document) {
    let (letter, several) = (letter(candidate.record), candidate.levels.len() > 1);
    if several {
        let leading = leading(candidate);
        let changes =
            rows(candidate, leading).filter_map(|(level, row)| change(row, level.to_string())).collect();
        let title = format!("{}, at each level", title(leading));
        doc.charts(chart(format!("chart-changes-{}", candidate.record), title, HOW_TO_READ, changes));
    }
    for at in &candidate.levels {
        let known: Vec<&Row> = at.rows.iter().filter(|row| is_known(row)).collect();
        let heading = format!("{letter} against A at {}", at.key());
        let id = format!("chart-changes-{}-{}", candidate.record, suffix(at.key()));
        let drawn = known.iter().filter_map(|row| change(row, title(row.metric))).collect();
        let rows: Vec<_> = known.iter().map(|row| (None, *row)).collect();
        let sheet =
            Sheet::new(heading.as_str(), "means over iterations", changes(comparison, candidate, &rows));
        let caption = if several { "" } else { HOW_TO_READ };
        let block = match chart(id, heading, caption, drawn) {
            Some(chart) => Block::Chart(Box::new(chart), Some(sheet)),
            None => Block::Sheet(sheet),
        };
        let is_open = known.iter().any(|row| row.finding.is_difference()) || *at == candidate.levels[0];
        doc.0.push(match several {
            true => Block::Level { load: at.key().to_string(), is_open, blocks: Document(vec![block]) },
            false => block,
        });
    }
    doc.0.extend(notes(comparison, candidate).into_iter().map(note));
}

fn chart(id: String, title: String, caption: &'static str, rows: Vec<Change>) -> Option<Chart> {
    let definition = anchor_of("Comparison", "");
    (!rows.is_empty()).then_some(Chart::Changes(Changes { id, title, definition, caption, rows }))
}

/// `None` where nothing can be drawn: no change is known, or it is no percentage.
fn change(row: &Row, name: String) -> Option<Change> {
    if row.metric.differs() {
        return None;
    }
    let point = row.point().filter(|point| point.is_finite())?;
    let interval = row.change.filter(|change| change.low < change.high).map(|it| (it.low, it.high));
    let word = row.finding.word(row.metric);
    Some(Change {
        name,
        shown: format!("{} %, {word}", signed(point, digits(row))),
        point,
        interval,
        noise: row.floor.map_or(0.0, |floor| floor.value),
        is_open: row.finding == Finding::CannotTell || row.why == Some(Why::Unbounded),
        tone: tone_of(row.finding),
    })
}

fn note(text: String) -> Block {
    Block::Item { label: String::new(), width: 0, tone: Tone::Faint, text }
}

/// How the change of a figure is given that has none in percent.
fn by_difference(row: &Row) -> Option<String> {
    let change = match row.metric.unit_of_change() {
        "pp" => "in percentage points",
        _ => "a difference",
    };
    row.metric.differs().then(|| format!("The change of {} is {change}.", row.metric))
}

/// How to read the tables.
fn notes(comparison: &Comparison, candidate: &Candidate) -> Vec<String> {
    let sources = floor_sources(candidate);
    let floor = if sources.is_empty() { String::new() } else { format!(" ({})", sources.join(", ")) };
    let mut notes = vec![format!(
        "Iterations are the samples. A change is shown when its whole {:.0} % interval lies beyond the noise floor{floor}, after \
         Holm's correction over figures, levels and records.",
        comparison.confidence * 100.0
    )];
    let reasons =
        [Finding::NoDifferenceShown, Finding::CannotTell].map(|finding| reasons(candidate, finding));
    notes.extend(reasons.into_iter().flatten().map(|(word, reasons)| format!("“{word}”: {reasons}.")));
    notes.extend(open_ends(candidate).map(str::to_owned));
    notes.extend(known(candidate).filter_map(by_difference).collect::<BTreeSet<_>>());
    if known(candidate).any(|row| !row.baseline.outliers.is_empty() || !row.candidate.outliers.is_empty()) {
        notes.push(
            "Some iterations are outliers: the JSON format flags them, and they are part of every mean."
                .to_owned(),
        );
    }
    notes
}
