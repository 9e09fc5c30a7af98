//! `webstone report`: prints stored runs, series and duels again.

use std::path::{Path, PathBuf};

use webstone_model::record::RunRecord;
use webstone_model::series::Kind;
use webstone_model::threshold::Outcome;
use webstone_report::history::{self, Published};
use webstone_report::like::{self, Source};
use webstone_report::{Format, Options, ReportError, Subject, render_all, write};
use webstone_runner::series;
use webstone_store::plain_file::{self, Links};

use super::{gates, records};
use crate::args::ReportArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::{form_of, format_of, series_failure};

/// Largest file of results of the user's own, in bytes.
const OWN_BYTES_MAX: u64 = 1 << 20;

pub(super) fn execute(args: &ReportArgs, console: &Console) -> Result<Exit, Failure> {
    if let Some(document) = &args.like {
        return as_printed(document, args, console);
    }
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
        let format = form_of(Subject::Series, args.format, args.output.as_deref())?;
        return super::series::report(&path, format, args.output.as_deref(), &options);
    }
    if let [only] = args.runs.as_slice()
        && let Some(directory) = records::duel(only, args.runs_dir.as_deref())
    {
        has_no_levels(args)?;
        return super::duel::report(&directory, args.format, args.output.as_deref(), console);
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

/// A document's tables and figures, with these runs in them.
fn as_printed(document: &str, args: &ReportArgs, console: &Console) -> Result<Exit, Failure> {
    let mut sources: Vec<Source> = Vec::new();
    let mut add = |name: String, record: RunRecord| match sources.iter_mut().find(|it| it.name == name) {
        Some(source) => source.records.push(record),
        None => sources.push(Source { name, records: vec![record] }),
    };
    for run in &args.runs {
        let Some(path) = records::series(run, args.runs_dir.as_deref()) else {
            let record = records::load(run, args.runs_dir.as_deref())?;
            add(record.spec.name.clone(), record);
            continue;
        };
        let (directory, planned) =
            series::load(&path).map_err(|error| series_failure(&error, Kind::Servers))?;
        let records = series::records(&directory, &planned);
        let records = records.map_err(|error| series_failure(&error.into(), Kind::Servers))?;
        for (cell, record) in planned.cells.iter().zip(records) {
            record.into_iter().for_each(|record| add(cell.at.server.name(), record));
        }
    }
    let own = args.published.as_deref().map(own_results).transpose()?.unwrap_or_default();
    let format = form_of(Subject::Like, args.format, args.output.as_deref())?;
    let options = console.report_options(args.output.is_some());
    let bytes = like::render(document, sources, &own, format, &options)
        .map_err(|error| Failure::from_message(Exit::Usage, &error.to_string()))?;
    console::deliver(&bytes, args.output.as_deref())?;
    Ok(Exit::Done)
}

/// Results of the user's own.
fn own_results(path: &Path) -> Result<Vec<Published>, Failure> {
    let read = plain_file::open(path, Links::Followed)
        .and_then(|file| plain_file::text(plain_file::read_opened(&file, OWN_BYTES_MAX)?));
    let text = read
        .map_err(|error| Failure { exit: Exit::Usage, ..Failure::file("read the results", path, &error) })?;
    history::read_own(&text).map_err(|rule| {
        Failure::usage(format!("--published {}: {rule}", path.display()))
            .hint("docs/documents.md has an example")
    })
}

/// Refuses what chooses among the levels and pages of a run, or judges them: a duel has none.
fn has_no_levels(args: &ReportArgs) -> Result<(), Failure> {
    let given = [
        ("--clients", args.clients.is_some()),
        ("--iteration", args.iteration.is_some()),
        ("--table", args.table.is_some()),
        ("--histogram", args.histogram.is_some()),
        ("--pages", args.pages.is_some()),
        ("--threshold", !args.thresholds.threshold.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some(("--threshold", _)) => {
            Err(Failure::usage("--threshold: a duel has no levels to be judged by it")
                .hint("give conditions to the duel itself: webstone duel … --fail-if 'cpu > +3%'"))
        }
        Some((option, _)) => {
            Err(Failure::usage(format!("{option}: a duel has one level and no pages to choose from"))
                .hint(format!("leave {option} out")))
        }
    }
}
