//! A duel in every format that it has.

use webstone_judge::duel::{self, DuelComparison, DuelJudgement, GateOutcome};
use webstone_model::duel::DuelRecord;
use webstone_model::record::Tool;

use super::junit::{self, Case, Suite};
use super::{drawn, html, outgoing};
use crate::document::duel as document;
use crate::document::{Document, Tone};
use crate::{Format, Options, ReportError, Subject};

/// The report of a duel in JSON.
#[derive(serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    let sign = match (judgement.standing.is_conclusive(), broken) {
        (false, _) => "⚠️ ",
        (true, true) => "❌ ",
        (true, false) if !judgement.gates.is_empty() => "✅ ",
        (true, false) => "",
    };
    doc.title(sign, document::title(record));
    for of in &judgement.comparisons {
        doc.text(Tone::Strong, document::sentence(record, judgement, of));
    }
    let gates = document::gates(record, judgement);
    doc.list(document::listed([document::differences(record), gates].concat()));
    doc.note(Tone::Faint, document::verdict_line(record, judgement));
    let mut rest = Document::default();
    rest.sheets(judgement.comparisons.iter().map(|of: &DuelComparison| document::sheet(record, of)));
    rest.list(document::listed(document::notes(record, judgement)));
    doc.fold("All figures", Document::default(), rest);
    doc
}

/// Each condition is a test case, and so is the verdict.
fn junit(record: &DuelRecord, judgement: &DuelJudgement) -> String {
    let verdict = document::verdict_line(record, judgement);
    let is_wrong = !judgement.standing.is_conclusive();
    let outcome = is_wrong.then(|| ("error", judgement.standing.word(), vec![verdict.clone()]));
    let mut cases = vec![Case {
        name: "verdict".to_owned(),
        time_s: record.took_ns as f64 / 1e9,
        outcome,
        output: vec![verdict],
    }];
    for of in &judgement.comparisons {
        let said = document::sentence(record, judgement, of);
        let case = |name: String, outcome| Case { name, time_s: 0.0, outcome, output: vec![said.clone()] };
        let gates = || judgement.gates.iter().filter(|judged| judged.contestant == of.contestant);
        if gates().next().is_none() {
            cases.push(case(of.name.clone(), None));
        }
        cases.extend(gates().map(|judged| {
            let outcome = match judged.outcome {
                GateOutcome::Kept => None,
                GateOutcome::Broken => Some(("failure", "condition", vec![said.clone()])),
                GateOutcome::Unknown => {
                    Some(("error", "unknown", vec![format!("not decided in this time: {said}")]))
                }
            };
            case(format!("{}: not {}", of.name, judged.gate), outcome)
        }));
    }
    junit::document(&[Suite {
        id: &record.id,
        started_at: &record.started_at,
        host: record.environment.get("hostname"),
        class: document::title(record),
        properties: Vec::new(),
        cases,
    }])
}
