//! `webstone report`: stored runs, printed again.

use std::path::PathBuf;

use webstone_model::record::RunRecord;
use webstone_report::{Format, Options, ReportError, render, render_all};
use webstone_runner::store::Store;

use super::store_failure;
use crate::args::ReportArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::format_of;

pub(super) fn execute(args: &ReportArgs, console: &Console) -> Result<Exit, Failure> {
    let mut options = Options {
        clients: args.clients,
        iteration: args.iteration,
        csv_table: args.table.unwrap_or_default(),
        ..console.report_options(args.output.is_some())
    };
    if let Some(pages) = args.pages {
        options.pages_max = pages as usize;
    }
    let format = format_of(args.format, args.output.as_deref()).unwrap_or_default();
    let failed = |index: usize, error: ReportError| {
        Failure::from_message(Exit::Failed, &format!("{}: {error}", args.runs[index].display()))
    };
    let load = |run: &PathBuf| Store::load(run).map_err(|error| store_failure(&error));
    let report = if format == Format::Html {
        let records: Vec<RunRecord> = args.runs.iter().map(load).collect::<Result<_, _>>()?;
        render_all(&records, format, &options).map_err(|(index, error)| failed(index, error))?
    } else {
        // One after the other: a record is large, and these formats need no two at a time.
        let mut all = Vec::new();
        for (index, run) in args.runs.iter().enumerate() {
            all.extend(render(&load(run)?, format, &options).map_err(|error| failed(index, error))?);
        }
        all
    };
    console::deliver(&report, args.output.as_deref())?;
    Ok(Exit::Done)
}
