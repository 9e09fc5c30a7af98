//! `webstone report`: stored runs, printed again.

use std::path::Path;

use webstone_report::{Format, Options, ReportError, render, render_all};
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
    if let Some(name) = &args.histogram {
        options.histogram.clone_from(name);
    }
    let format = args.format.or_else(|| args.output.as_deref().and_then(Format::of_file)).unwrap_or_default();
    console::can_be_shown(format, args.output.as_deref())?;
    let named = |run: &Path, error: &ReportError| {
        Failure::from_message(Exit::Failed, &format!("{}: {error}", run.display()))
    };
    let bytes = if format.joins() || format == Format::Hgrm {
        let mut records = Vec::new();
        for run in &args.runs {
            records.push(Store::load(run).map_err(|error| store_failure(&error))?);
        }
        render_all(&records, format, &options).map_err(|error| named(&args.runs[0], &error))?
    } else {
        // One after the other, so that no more than one record is in memory.
        let mut bytes = Vec::new();
        for run in &args.runs {
            let record = Store::load(run).map_err(|error| store_failure(&error))?;
            bytes.extend(render(&record, format, &options).map_err(|error| named(run, &error))?);
        }
        bytes
    };
    console::deliver(&bytes, args.output.as_deref())?;
    Ok(Exit::Done)
}
