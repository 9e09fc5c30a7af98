//! `webstone report`: stored runs, printed again.

use webstone_report::{Options, render};

use super::{gates, records};
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
    let thresholds = gates::typed(&args.thresholds.threshold);
    let format = args.format.unwrap_or_default();
    let mut text = Vec::new();
    let mut outcomes = Vec::new();
    for run in &args.runs {
        let record = records::load(run, args.runs_dir.as_deref())?;
        let levels: Vec<u32> = record.levels().into_iter().map(|(clients, _)| clients).collect();
        gates::select(&thresholds, &levels)?;
        let report = render(&record, format, &options)
            .map_err(|error| Failure::from_message(Exit::Failed, &format!("{}: {error}", run.display())))?;
        text.extend(report);
        outcomes.extend(gates::hold(&thresholds, &record, format, &options, &mut text));
    }
    console::deliver(&text, args.output.as_deref())?;
    Ok(gates::exit(&outcomes))
}
