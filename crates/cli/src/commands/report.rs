//! `webstone report`: stored runs, printed again.

use webstone_report::{Options, render};
use webstone_runner::store::Store;

use super::store_failure;
use crate::args::ReportArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};

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
    let mut text = Vec::new();
    for run in &args.runs {
        let record = Store::load(run).map_err(|error| store_failure(&error))?;
        let report = render(&record, args.format.unwrap_or_default(), &options)
            .map_err(|error| Failure::from_message(Exit::Failed, &format!("{}: {error}", run.display())))?;
        text.extend(report);
    }
    console::deliver(&text, args.output.as_deref())?;
    Ok(Exit::Done)
}
