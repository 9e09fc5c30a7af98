//! `webstone list`: the stored runs and series, the newest first.

use std::path::Path;

use webstone_report::{Listed, listed, listed_series, render_list};
use webstone_store::Store;

use super::records;
use crate::args::ListArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::RUNS_DIR;

/// Runs that are read unless all are asked for: each is a file of some megabytes.
const SHOWN: usize = 20;

pub(super) fn execute(args: &ListArgs, console: &Console) -> Result<Exit, Failure> {
    let runs_dir = args.runs_dir.as_deref().unwrap_or(Path::new(RUNS_DIR));
    let stored = if runs_dir.exists() { records::stored(runs_dir)? } else { Vec::new() };
    if stored.is_empty() {
        console.note(format!("there is no run in {}; `webstone run` makes one", runs_dir.display()));
        return Ok(Exit::Done);
    }
    let shown = if args.all { stored.len() } else { SHOWN };
    let rows: Vec<(String, Listed)> = stored.iter().take(shown).map(|path| (name(path), row(path))).collect();
    console::print_as_is(render_list(&rows, &console.report_options(false)).as_bytes())?;
    if stored.len() > shown {
        console.note(format!("{} more: --all", stored.len() - shown));
    }
    Ok(Exit::Done)
}

fn row(path: &Path) -> Listed {
    if let Ok((_, series)) = webstone_runner::series::load(path) {
        return listed_series(&series);
    }
    match Store::load(path) {
        Ok(record) => listed(&record),
        Err(_) => {
            Listed { what: "cannot be read; `webstone verify` says why".to_owned(), ..Listed::default() }
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
