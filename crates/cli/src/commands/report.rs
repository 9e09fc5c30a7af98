//! `webstone report`: prints stored runs again.

use std::path::PathBuf;

use webstone_model::record::RunRecord;
use webstone_model::threshold::Outcome;
use webstone_report::{Format, Options, ReportError, render_all, write};

use super::{gates, records};
use crate::args::ReportArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::format_of;

pub(super) fn execute(args: &ReportArgs, console: &Console) -> Result<Exit, Failure> {
    let mut options = Options {
        clients: args.clients,
        iteration: args.iteration,
        csv_table: args.table.unwrap_or_default(),
        full: args.full,
        all_clients: args.all_clients,
        thresholds: gates::typed(&args.thresholds.threshold),
        ..console.report_options(args.output.is_some())
    };
    if let Some(pages) = args.pages {
        options.pages_max = pages as usize;
    }
    if let Some(name) = &args.histogram {
        options.histogram.clone_from(name);
    }
    if let [only] = args.runs.as_slice()
        && let Some(path) = records::series(only, args.runs_dir.as_deref())
    {
        let format = format_of(args.format, args.output.as_deref())?.unwrap_or_default();
        return super::series::report(&path, format, args.output.as_deref(), &options);
    }
    let format = format_of(args.format, args.output.as_deref())?.unwrap_or_default();
    console::can_be_shown(format, args.output.as_deref())?;
    let failed = |index: usize, error: ReportError| {
        Failure::from_message(Exit::Failed, &format!("{}: {error}", args.runs[index].display()))
    };
    let load = |run: &PathBuf| -> Result<RunRecord, Failure> {
        let record = records::load(run, args.runs_dir.as_deref())?;
        let levels: Vec<u32> = record.levels().into_iter().map(|(_, runs)| runs[0].clients).collect();
        gates::select(&options.thresholds, &levels)?;
        Ok(record)
    };
    let mut out = console::Delivery::to(args.output.as_deref());
    let mut outcomes: Vec<Outcome> = Vec::new();
    if format.joins() || format == Format::Hgrm {
        let records: Vec<RunRecord> = args.runs.iter().map(load).collect::<Result<_, _>>()?;
        let report = render_all(&records, format, &options).map_err(|(index, error)| failed(index, error))?;
        out.take(&report);
        for record in &records {
            outcomes.extend(gates::check(record, format, &options));
        }
    } else {
        // One after the other: a record is large, and these formats do not need two at once.
        for (index, run) in args.runs.iter().enumerate() {
            let record = load(run)?;
            match write(&record, format, &options, &mut out) {
                Err(_) if out.is_failed() => {}
                other => other.map_err(|error| failed(index, error))?,
            }
            outcomes.extend(gates::check(&record, format, &options));
        }
    }
    out.end()?;
    Ok(gates::exit(&outcomes))
}
