//! A duel in every format that it has.

use webstone_judge::duel::{self, DuelJudgement, GateOutcome};
use webstone_model::duel::DuelRecord;
use webstone_model::record::Tool;

use super::junit::{self, Case, Suite};
use super::{drawn, html, outgoing};
use crate::document::duel as document;
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
    let judgement = duel::of_record(record);
    Ok(match Subject::Duel.check(format)? {
        Format::Html => {
            let subtitle = format!("{}; {}", document::how(record), record.id);
            let document = document::document(record, &judgement);
            outgoing::text(&html::of_document("webstone duel", &subtitle, &document))
        }
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
        _ => {
            let whole = match record.id.as_str() {
                "" => "webstone duel … -o duel.html".to_owned(),
                id => format!("webstone report {id} -o duel.html"),
            };
            let options = Options { full_command: Some(whole), ..options.clone() };
            drawn(&document::document(record, &judgement), format, &options)
        }
    })
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
