//! The row of a duel in the library: contestants, the answer in short, and its standing. It has no figures for a history.

use std::path::Path;

use webstone_judge::duel::{self, DuelJudgement};
use webstone_model::duel::DuelFigure;

use super::row::{LibraryRow, RowKind, clipped, command, host, joined, protocol};
use crate::duel::load;

pub(super) fn row(name: &str, path: &Path) -> Result<LibraryRow, String> {
    let record = load(path).map_err(|error| error.to_string())?;
    let judgement = duel::of_record(&record);
    let programs = record.contestants.iter().filter_map(|it| it.software.as_ref());
    let fought = record.contestants.iter().filter(|it| !it.is_twin);
    let runs = || record.starts.iter().flat_map(|start| &start.sides);
    Ok(LibraryRow {
        name: name.to_owned(),
        kind: RowKind::Duel,
        started: clipped(&record.started_at),
        duration_s: (record.took_ns > 0).then_some(record.took_ns as f64 / 1e9),
        command: command(&record.command_line),
        tool: clipped(&format!("{} {}", record.tool.name, record.tool.version)),
        server: joined(programs.map(|software| software.name.as_str())),
        workload: clipped(&record.workload.name),
        protocol: protocol(record.spec.client.http).to_owned(),
        tls: record.spec.server.tls.is_some() || fought.clone().any(|it| it.given.starts_with("https:")),
        host: host(&record.environment),
        standing: (!record.starts.is_empty()).then_some(judgement.standing),
        state: Some(record.state),
        windows: record.starts.len() as u64,
        errors: runs().map(|run| run.counts.failed).fold(0, u64::saturating_add),
        contestants: fought.map(|it| clipped(&it.name)).collect(),
        answer: clipped(&answer(&judgement)),
        ..LibraryRow::default()
    })
}

/// `new +2.4 % CPU/request`, of the first that is compared; empty while nothing is known.
fn answer(judgement: &DuelJudgement) -> String {
    let figure = match judgement.leading {
        DuelFigure::Cpu => "CPU/request",
        other => other.name(),
    };
    let Some(of) = judgement.comparisons.first() else { return String::new() };
    let Some(ratio) = of.ratio(judgement.leading).filter(|ratio| ratio.high.is_finite()) else {
        return String::new();
    };
    let said = match ratio.differs() {
        true => format!("{:+.1} % {figure}", 100.0 * (ratio.ratio - 1.0)),
        false => "no difference shown".to_owned(),
    };
    match judgement.comparisons.len() - 1 {
        0 if !ratio.differs() => said,
        0 => format!("{} {said}", of.name),
        more => format!("{} {said}; {more} more", of.name),
    }
}
