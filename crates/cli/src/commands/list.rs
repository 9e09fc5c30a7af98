//! `webstone list`: the stored runs, series and duels, the newest first, or those that a search finds.

use std::path::Path;

use webstone_measure::units::grouped;
use webstone_report::{Listed, render_list};
use webstone_store::library::{Kept, Library, LibraryRow, Query, RowKind};

use crate::args::ListArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::RUNS_DIR;
use webstone_model::search::Over;

/// Number of runs shown unless all are requested. Without a search, records of other runs are not read.
const SHOWN: usize = 20;

pub(super) fn execute(args: &ListArgs, console: &Console) -> Result<Exit, Failure> {
    let runs_dir = args.runs_dir.as_deref().unwrap_or(Path::new(RUNS_DIR));
    let text = args.query.join(" ");
    let query = Query::parse(&text).map_err(|error| Failure::usage(error.to_string()).hint(error.hint))?;
    let read = if args.all || !query.is_empty() { usize::MAX } else { SHOWN };
    let library = match runs_dir.exists() {
        true => Some(Library::open_newest(runs_dir, read)?),
        false => None,
    };
    let Some(library) = library.filter(|library| !library.rows().is_empty()) else {
        console.note(format!("there is no run in {}; `webstone run` makes one", runs_dir.display()));
        return Ok(Exit::Done);
    };
    let found: Vec<&LibraryRow> = library.find(&query).collect();
    if found.is_empty() {
        console.note(format!("no run in {} matches {text}", runs_dir.display()));
        return Ok(Exit::Done);
    }
    let shown = if args.all { found.len() } else { SHOWN };
    let rows: Vec<(String, Listed)> =
        found.iter().take(shown).map(|row| (row.name.clone(), listed(row, &library))).collect();
    console::print_as_is(render_list(&rows, &console.report_options(false)).as_bytes())?;
    if found.len() > shown {
        console.note(format!("{} more: --all", found.len() - shown));
    }
    Ok(Exit::Done)
}

fn listed(row: &LibraryRow, library: &Library) -> Listed {
    let tags = library
        .notes(&row.name)
        .map(|notes| notes.tags.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    let what = match row.kind {
        _ if row.problem.is_some() => "cannot be read; `webstone verify` says why".to_owned(),
        RowKind::Series => {
            let first: Vec<&str> = row.planned.iter().take(3).map(String::as_str).collect();
            let more = if row.planned.len() > first.len() { " …" } else { "" };
            let cells = if row.planned.len() == 1 { "cell" } else { "cells" };
            format!("{} {cells}: {}{more}", row.planned.len(), first.join(", "))
        }
        RowKind::Duel => row.duellists(),
        RowKind::Run if row.embedded => row.workload.clone(),
        RowKind::Run => format!("{}, {}", row.workload, row.server_or_target()),
    };
    Listed { what, result: result(row), standing: row.verdict(), tags: tags.unwrap_or_default() }
}

fn result(row: &LibraryRow) -> String {
    if row.kind == RowKind::Duel {
        return row.answer.clone();
    }
    match (&row.kept, &row.peak) {
        (Some(Kept { over: Over::Rate, load }), _) => format!("SLO kept at {}/s", grouped(*load)),
        (Some(Kept { over, load }), _) => format!("SLO kept with {}", over.level(*load)),
        (None, Some(peak)) => {
            format!("{}/s at {}", grouped(peak.rate_per_s.round_ties_even() as u64), peak.level)
        }
        (None, None) if row.voids == 0 => String::new(),
        (None, None) => "void windows only".to_owned(),
    }
}
