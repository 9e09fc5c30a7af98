//! A duel in every format that it has.

use webstone_judge::duel::{self, DuelComparison, DuelJudgement, GateOutcome};
use webstone_model::duel::DuelRecord;
use webstone_model::record::Tool;

use super::chart::escape;
use super::{drawn, html, outgoing};
use crate::document::duel as document;
use crate::document::{Block, Document};
use crate::{Format, Options, ReportError, Subject};

/// The report of a duel in JSON.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct DuelReport<'a> {
    /// The program that measured.
    tool: &'a Tool,
    /// What is concluded from the record.
    judgement: &'a DuelJudgement,
    /// The same in a sentence for each contestant that was compared with the first.
    sentences: Vec<String>,
    /// The record, without its slices.
    duel: &'a DuelRecord,
}

/// The report of a duel.
///
/// # Errors
/// [`ReportError::NoSuchForm`]; [`ReportError::Json`] if serialising fails, which no record does.
pub fn render_duel(record: &DuelRecord, format: Format, options: &Options) -> Result<Vec<u8>, ReportError> {
    let judgement = duel::of(record);
    Ok(match Subject::Duel.check(format)? {
        Format::Html => outgoing::text(&html::duel::render(record, &judgement)),
        Format::Markdown => drawn(&comment(record, &judgement), format, options),
        Format::Json => {
            let sentences = judgement.comparisons.iter();
            let sentences = sentences.map(|of| document::sentence(record, &judgement, of)).collect();
            outgoing::json(&DuelReport {
                tool: &record.tool,
                judgement: &judgement,
                sentences,
                duel: record,
            })?
        }
        Format::Junit => outgoing::text(&junit(record, &judgement)),
        _ => drawn(&document::document(record, &judgement), format, options),
    })
}

/// A comment on a pull request: the answer is seen, the rest unfolds.
fn comment(record: &DuelRecord, judgement: &DuelJudgement) -> Document {
    let mut doc = Document::default();
    let broken = judgement.gates.iter().any(|gate| gate.outcome == GateOutcome::Broken);
    let mark = match (judgement.standing.is_conclusive(), broken) {
        (false, _) => "⚠️ ",
        (true, true) => "❌ ",
        (true, false) if !judgement.gates.is_empty() => "✅ ",
        (true, false) => "",
    };
    doc.0.push(Block::Title(format!("{mark}{}", document::title(record))));
    for of in &judgement.comparisons {
        doc.0.push(Block::Text(vec![(
            crate::document::Tone::Strong,
            document::sentence(record, judgement, of),
        )]));
    }
    doc.list(document::differences_and_gates(record, judgement));
    doc.note(crate::document::Tone::Faint, document::verdict_line(record, judgement));
    let mut rest = Document::default();
    rest.sheets(judgement.comparisons.iter().map(|of: &DuelComparison| document::sheet(record, of)));
    let mut notes: Vec<String> = document::twin_line(record, judgement).into_iter().collect();
    notes.push(document::how(record));
    notes.extend(document::conditions(record));
    notes.extend(judgement.notes.iter().cloned());
    rest.list(notes);
    doc.0.push(Block::Fold("All figures", rest));
    doc
}

/// Each condition is a test case, and so is the verdict.
fn junit(record: &DuelRecord, judgement: &DuelJudgement) -> String {
    let quoted = |text: &str| {
        let mut out = String::new();
        escape(&mut out, text);
        format!("\"{out}\"")
    };
    let mut cases = Vec::new();
    let verdict = document::verdict_line(record, judgement);
    let is_wrong = !judgement.standing.is_conclusive();
    cases.push(("verdict".to_owned(), is_wrong.then_some(("error", verdict.clone())), verdict));
    for of in &judgement.comparisons {
        let said = document::sentence(record, judgement, of);
        let gates: Vec<_> =
            judgement.gates.iter().filter(|judged| judged.contestant == of.contestant).collect();
        if gates.is_empty() {
            cases.push((of.name.clone(), None, said.clone()));
        }
        for judged in gates {
            let outcome = match judged.outcome {
                GateOutcome::Kept => None,
                GateOutcome::Broken => Some(("failure", said.clone())),
                GateOutcome::Unknown => Some(("error", format!("cannot be told in this time: {said}"))),
            };
            cases.push((format!("{}: not {}", of.name, judged.gate), outcome, said.clone()));
        }
    }
    let of = |kind: &str| {
        cases.iter().filter(|(_, outcome, _)| outcome.as_ref().is_some_and(|it| it.0 == kind)).count()
    };
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\"",
        cases.len(),
        of("failure"),
        of("error"),
        record.took_ns as f64 / 1e9
    );
    let class = format!("webstone.{}", document::title(record).replace('.', "_"));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"webstone\" {counts}>\n  <testsuite name={} timestamp={} {counts}>\n",
        quoted(&record.id),
        quoted(record.started_at.get(..19).unwrap_or(&record.started_at)),
    );
    for (name, outcome, said) in &cases {
        out += &format!("    <testcase classname={} name={}>\n", quoted(&class), quoted(name));
        if let Some((kind, why)) = outcome {
            out += &format!("      <{kind} message={}/>\n", quoted(why));
        }
        let mut text = String::new();
        escape(&mut text, said);
        out += &format!("      <system-out>{text}</system-out>\n    </testcase>\n");
    }
    out + "  </testsuite>\n</testsuites>\n"
}
