//! The part of a record that the options ask for.

use std::borrow::Cow;

use webstone_measure::keys::LevelKey;
use webstone_model::pages::StoredPages;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::numbers::listed;
use crate::{Options, ReportError};

/// Levels that a message names.
const LEVELS_MAX: usize = 20;

/// The record with only the selected iterations; borrowed where nothing is selected.
pub(crate) fn select<'a>(
    record: &'a RunRecord,
    options: &Options,
) -> Result<Cow<'a, RunRecord>, ReportError> {
    if options.clients.is_none() && options.iteration.is_none() {
        return Ok(Cow::Borrowed(record));
    }
    let is_selected = |run: &&IterationRecord| {
        options.clients.is_none_or(|clients| clients == run.clients)
            && options.iteration.is_none_or(|number| number == run.iteration)
    };
    let of = |runs: &[IterationRecord]| runs.iter().filter(is_selected).cloned().collect::<Vec<_>>();
    let iterations = of(&record.iterations);
    if iterations.is_empty() {
        return Err(ReportError::NothingSelected { wanted: wanted(options), held: held(record) });
    }
    // The stored sums are those of all iterations: they are computed again.
    let pages = StoredPages { totals: Vec::new(), source: record.pages.source.clone() };
    let mut selected =
        RunRecord { iterations, voids: of(&record.voids), pages, ..record.without_iterations() };
    for iteration in selected.iterations.iter().filter(|iteration| iteration.pages_at.is_some()) {
        record.page_rows(iteration, usize::MAX)?.iter().for_each(|row| selected.pages.add_row(row));
    }
    Ok(Cow::Owned(selected))
}

fn wanted(options: &Options) -> String {
    match (options.clients, options.iteration) {
        (Some(clients), Some(iteration)) => {
            format!("iteration {iteration} of {}", LevelKey::Clients(clients))
        }
        (Some(clients), None) => format!("level of {}", LevelKey::Clients(clients)),
        (None, Some(iteration)) => format!("iteration {iteration}"),
        (None, None) => "iterations".to_owned(),
    }
}

fn held(record: &RunRecord) -> String {
    let mut levels: Vec<Held> =
        record.iterations.iter().map(|run| (run.level(), run.clients, run.iteration)).collect();
    levels.sort_unstable();
    if levels.is_empty() {
        return "no iterations at all".to_owned();
    }
    let names: Vec<String> = levels.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(level_name).collect();
    listed(&names, LEVELS_MAX)
}

/// A level, its clients, and one of its iterations.
type Held = (LevelKey, u32, u32);

fn level_name(iterations: &[Held]) -> String {
    let numbers: Vec<String> = iterations.iter().map(|(.., number)| number.to_string()).collect();
    let (level, clients, _) = iterations[0];
    let with = match level {
        LevelKey::Clients(_) => String::new(),
        LevelKey::Rate(_) => format!(" with {}", LevelKey::Clients(clients)),
    };
    format!("{level}{with} (iteration {})", numbers.join(", "))
}
