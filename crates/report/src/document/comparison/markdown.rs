//! The comparison for a pull request: a line, a short table, and the rest folded away. GitHub's and GitLab's Markdown
//! both draw it.

use webstone_judge::comparison::{Comparison, Finding, GateResult, Row, Weight};
use webstone_measure::keys::levels_named;
use webstone_measure::metric::Metric;
use webstone_measure::shown::shown;

use super::{
    compared_name, decimals, fail_when, floor_source, gate_change, gate_word, iterations, letter, scaled,
    signed, summary,
};
use crate::Options;
use crate::markdown::safe;
use crate::screen::Screen;
use crate::thresholds::said;

/// The figures that a reviewer looks at first.
const HEADLINES: [Metric; 4] = [Metric::RATE, Metric::MEAN, Metric::Percentile(99.0), Metric::ERRORS];

pub(super) fn render(comparison: &Comparison) -> String {
    let screen = Screen::new(&Options::default());
    let mut out = Vec::new();
    let failed = comparison.failed();
    for candidate in &comparison.candidates {
        let gate = if failed { "❌ " } else { "" };
        out.push(format!(
            "{gate}**webstone:** {} against A: {}",
            code(&comparison.records[candidate.record].name, &letter(candidate.record)),
            safe(&summary(candidate))
        ));
        out.push(String::new());
        let forbidding = || candidate.differences.iter().filter(|one| one.weight == Weight::Forbids);
        for difference in forbidding() {
            out.push(format!(
                "> ⚠️ not comparable: {}: {} against {}",
                difference.what,
                safe(&difference.baseline),
                safe(&difference.candidate)
            ));
        }
        // A table right below a quotation would be a line of the quotation.
        if forbidding().next().is_some() {
            out.push(String::new());
        }
        table(&screen, comparison, candidate.record - 1, Some(&HEADLINES), &mut out);
    }
    gates(&screen, comparison, &mut out);
    out.push("<details>".to_owned());
    out.push("<summary>Records, every figure, how to read it</summary>".to_owned());
    out.push(String::new());
    details(&screen, comparison, &mut out);
    out.push("</details>".to_owned());
    out.join("\n") + "\n"
}

fn details(screen: &Screen, comparison: &Comparison, out: &mut Vec<String>) {
    out.push("| | record | verdict | server | workload | iterations |".to_owned());
    out.push("|---|---|---|---|---|---|".to_owned());
    for (index, record) in comparison.records.iter().enumerate() {
        out.push(format!(
            "| {} | {} | {} | {} | {} | {} |",
            letter(index),
            safe(&record.id),
            record.standing.word(),
            safe(record.server.as_deref().unwrap_or(&record.target)),
            safe(&record.workload),
            iterations(record.iterations)
        ));
    }
    out.push(String::new());
    for (index, record) in comparison.records.iter().enumerate() {
        out.extend(
            record
                .reasons
                .iter()
                .map(|reason| format!("- {} is {}: {}", letter(index), record.standing.word(), safe(reason))),
        );
    }
    for candidate in &comparison.candidates {
        let letter = letter(candidate.record);
        for difference in &candidate.differences {
            out.push(format!(
                "- {letter} differs: {}: {} against {}",
                difference.what,
                safe(&difference.baseline),
                safe(&difference.candidate)
            ));
        }
        for (who, levels) in [("A", &candidate.only_baseline), (&*letter, &candidate.only_candidate)] {
            if !levels.is_empty() {
                out.push(format!("- only {who} has {}", levels_named(levels)));
            }
        }
        out.push(String::new());
        table(screen, comparison, candidate.record - 1, None, out);
    }
    out.push(format!(
        "Iterations are the samples; values are their means. A change is shown when the whole {:.0} % interval of the \
         ratio lies beyond the noise floor, after Holm's correction over levels and records. Errors change by percentage \
         points.",
        comparison.confidence * 100.0
    ));
    out.push(String::new());
}

/// The rows of one candidate, level by level.
fn table(
    screen: &Screen,
    comparison: &Comparison,
    candidate: usize,
    only: Option<&[Metric]>,
    out: &mut Vec<String>,
) {
    let candidate = &comparison.candidates[candidate];
    let letter = letter(candidate.record);
    if candidate.levels.is_empty() {
        return;
    }
    let noise = if only.is_none() { (" noise, ± % |", "---:|") } else { ("", "") };
    out.push(format!(
        "| clients | | A | {letter} | change, % | {:.0} % interval |{} verdict |",
        comparison.confidence * 100.0,
        noise.0
    ));
    out.push(format!("|---:|---|---:|---:|---:|---:|{}---|", noise.1));
    for at in &candidate.levels {
        let known = |row: &&Row| row.baseline.mean.is_some() || row.candidate.mean.is_some();
        let wanted = |row: &&Row| only.is_none_or(|only| only.contains(&row.metric));
        for row in at.rows.iter().filter(known).filter(wanted) {
            out.push(line(screen, at.clients, row, only.is_none()));
        }
    }
    out.push(String::new());
}

fn line(screen: &Screen, clients: u32, row: &Row, whole: bool) -> String {
    let (unit, [baseline, candidate]) = scaled(screen, row);
    let digits = row.change.as_ref().map_or(1, decimals);
    let dash = || "–".to_owned();
    let interval = row.change.as_ref().map_or_else(dash, |change| {
        format!("{} to {}", signed(change.low, digits), signed(change.high, digits))
    });
    let mark = match row.finding {
        Finding::Better => "🟢 ",
        Finding::Worse => "🔴 ",
        Finding::NoDifferenceShown | Finding::CannotTell => "",
    };
    let noise = match whole {
        true => format!(" {:.2} ({}) |", row.floor.value, floor_source(row.floor.source)),
        false => String::new(),
    };
    format!(
        "| {clients} | {}, {unit} | {baseline} | {candidate} | {} | {interval} |{noise} {mark}{} |",
        compared_name(row.metric),
        row.point().map_or_else(dash, |point| signed(point, digits)),
        row.finding.word(row.metric)
    )
}

fn gates(screen: &Screen, comparison: &Comparison, out: &mut Vec<String>) {
    if comparison.fail_if.is_empty() && comparison.thresholds.is_empty() {
        return;
    }
    out.push("| | condition | | at | measured |".to_owned());
    out.push("|---|---|---|---|---|".to_owned());
    for gate in &comparison.fail_if {
        let mark = match gate.result {
            GateResult::Passed => "✅",
            GateResult::Failed => "❌",
            GateResult::CannotTell => "❔",
        };
        out.push(format!(
            "| {mark} {} | fail if `{}` | {} | {} | {} |",
            gate_word(gate.result),
            gate.condition,
            letter(gate.record),
            gate.level,
            gate_change(gate)
        ));
    }
    for one in &comparison.thresholds {
        let outcome = &one.outcome;
        let (mark, word) = if outcome.passed { ("✅", "pass") } else { ("❌", "FAIL") };
        let measured = outcome
            .measured
            .map_or_else(|| "not measured".to_owned(), |value| said(screen, outcome.metric, value));
        out.push(format!(
            "| {mark} {word} | `{}` | {} | {} | {measured} |",
            outcome.threshold,
            letter(one.record),
            outcome.level
        ));
    }
    out.push(String::new());
    if !comparison.fail_if.is_empty() {
        out.push(format!("A condition {}.", fail_when(comparison.fail_when)));
        out.push(String::new());
    }
}

/// The run's name as code, with the letter that tables use.
fn code(name: &str, letter: &str) -> String {
    format!("`{}` ({letter})", shown(name).replace('`', " "))
}
