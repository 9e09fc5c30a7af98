//! `webstone servers` with servers, `webstone scale`, `webstone spice`: a series of runs, its report, and how it
//! ended.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use webstone_judge::verdict::{self, Cause, Verdict};
use webstone_measure::units::Nanos;
use webstone_model::record::{RunRecord, RunState};
use webstone_model::series::{Kind, Series};
use webstone_model::spec::RunSpec;
use webstone_report::{Format, Options, Subject, render_series};
use webstone_runner::RunnerOptions;
use webstone_runner::series::{self, SERIES, SeriesError, SeriesOutcome, SeriesStore};
use webstone_store::REPORT;
use webstone_store::plain_file::{self, Links};
use webstone_ui::registry::watched_by;

use super::cell_links::cell_links;
use super::{calibrate, run, verify};
use crate::args::SeriesArgs;
use crate::console::{self, Console};
use crate::display::Display;
use crate::events::{All, EventLines};
use crate::failure::{Exit, Failure};
use crate::intent::{self, SeriesIntent, announce, form_of, is_plan, of_series, series_failure};
use crate::signals::SignalWatch;
use crate::version;
use crate::watch::Announcement;

/// The message of an interrupted series.
const ENDING: &str =
    "ending this level; it is repeated when the series is resumed (interrupt again to stop at once)";

pub(super) fn execute(
    kind: Kind,
    args: &SeriesArgs,
    console: &Console,
    command_line: Vec<String>,
) -> Result<Exit, Failure> {
    let failed = |error: SeriesError| series_failure(&error, kind);
    let format = form_of(Subject::Series, args.output.format, args.output.output.as_deref())?;
    let output = args.output.output.as_deref();
    let (store, check_target) = match &args.resume {
        Some(path) => (resume(kind, path, args, &command_line)?, !args.client.no_check),
        None => {
            let intent = of_series(kind, args)?;
            if args.dump_spec {
                return run::dump(&RunSpec { series: Some(intent.matrix), ..intent.spec });
            }
            let SeriesIntent { spec, matrix, check_target, runs_dir } = &intent;
            let series = series::plan(kind, matrix, spec, version::tool(), &command_line).map_err(failed)?;
            if args.plan {
                console::print(&plan(&series))?;
                return Ok(Exit::Done);
            }
            if let Some(path) = output {
                run::can_be_written(path)?;
            }
            let store = SeriesStore::create(runs_dir, &spec.name, series).map_err(failed)?;
            (store, *check_target)
        }
    };
    console.note(format!("series: {}", store.path().display()));
    if args.resume.is_none() {
        console.note(length(store.series()));
    }
    for warning in &store.series().warnings {
        console.note(format!("warning: {warning}"));
    }
    let signals = SignalWatch::saying(ENDING)?;
    let watch = Announcement { command: kind.command(), name: kind.command(), command_line: &command_line };
    let watched = intent::watch(&args.output).map(|runs| watch.begin(&runs, console));
    let by_front = args.output.events.as_deref().and_then(|events| watched_by(Path::new(events)));
    let (mut watched, by) =
        watched.transpose()?.map_or((None, by_front), |(events, by)| (Some(events), Some(by)));
    let options = || RunnerOptions {
        tool: version::tool(),
        command_line: command_line.clone(),
        calibration: calibrate::file(),
        speeds: calibrate::speeds_file(),
        check_target,
        derive: Some(run::derived),
        watched_by: by.clone(),
        ..RunnerOptions::default()
    };
    let mut display = Display::of_series(*console);
    let mut events = args.output.events.as_deref().map(EventLines::open).transpose()?;
    let mut observer = All(vec![&mut display]);
    observer.0.extend([&mut events, &mut watched].into_iter().flatten().map(|events| events as _));
    let outcome = store.go_on(&options, &mut observer, &signals.interrupt);
    drop((display, events, watched));
    let records =
        series::records(store.path(), store.series()).map_err(|error| failed(SeriesError::Store(error)))?;
    if records.iter().any(Option::is_some) {
        let options = Options {
            full: args.output.full,
            full_command: Some(format!("webstone report {} --full", store.path().display())),
            ..console.report_options(output.is_some())
        };
        deliver(store.path(), store.series(), &records, format, output, &options)?;
        store_page(store.path(), store.series(), &records)?;
        console.note(format!("report: {}", store.path().join(REPORT).display()));
        let finished = records.iter().flatten().filter(|record| record.state != RunState::Partial);
        finished.map(|record| store.path().join(&record.id)).try_for_each(|path| verify::as_stored(&path))?;
    }
    ended(&store, outcome, &records, args.quick, &signals, console)
}

/// Opens a series to resume it; its plan is made again if it is on the command line.
fn resume(
    kind: Kind,
    path: &Path,
    args: &SeriesArgs,
    command_line: &[String],
) -> Result<SeriesStore, Failure> {
    let (directory, begun) = series::load(path).map_err(|error| series_failure(&error, kind))?;
    if begun.kind != kind {
        let (path, command) = (directory.display(), begun.kind.command());
        return Err(Failure::usage(format!("{path} is a series of `webstone {command}`"))
            .hint(format!("webstone {command} --resume {path}")));
    }
    let file = plain_file::open(&directory.join(SERIES), Links::Refused);
    if let Ok(Some(others_hand)) = file.and_then(|file| Ok(plain_file::others_hand(&file.metadata()?))) {
        let specs = begun.cells.iter().map(|cell| &cell.spec);
        announce(&format!("the series {}", directory.display()), others_hand, specs);
    }
    let planned = match is_plan(kind, args)? {
        false => None,
        true => {
            let SeriesIntent { spec, matrix, .. } = of_series(kind, args)?;
            let planned = series::plan(kind, &matrix, &spec, version::tool(), command_line);
            Some(planned.map_err(|error| series_failure(&error, kind))?)
        }
    };
    SeriesStore::resume(path, planned).map_err(|error| series_failure(&error, kind))
}

/// The report of a stored series.
pub(super) fn report(
    path: &Path,
    format: Format,
    output: Option<&Path>,
    options: &Options,
) -> Result<Exit, Failure> {
    let failed = |error: SeriesError| series_failure(&error, Kind::Servers);
    let (directory, series) = series::load(path).map_err(failed)?;
    let records = series::records(&directory, &series).map_err(|error| failed(SeriesError::Store(error)))?;
    deliver(&directory, &series, &records, format, output, options)?;
    Ok(Exit::Done)
}

fn deliver(
    directory: &Path,
    series: &Series,
    records: &[Option<RunRecord>],
    format: Format,
    output: Option<&Path>,
    options: &Options,
) -> Result<(), Failure> {
    let named: Vec<Option<&str>> = records.iter().map(|it| it.as_ref().map(|it| it.id.as_str())).collect();
    let links = cell_links(directory, output, &named);
    let bytes = render_series(series, records, &links, format, options)
        .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
    console::deliver(&bytes, output)
}

/// Stores the page of the series beside the records of its cells.
fn store_page(directory: &Path, series: &Series, records: &[Option<RunRecord>]) -> Result<(), Failure> {
    let bytes = page(directory, series, records)?;
    let file = directory.join(REPORT);
    let written = plain_file::emptied(&file).and_then(|mut file| file.write_all(&bytes));
    written.map_err(|error| Failure::file("write the report to", &file, &error))
}

/// The page of the series as it is stored, with links to those of its cells.
pub(super) fn page(
    directory: &Path,
    series: &Series,
    records: &[Option<RunRecord>],
) -> Result<Vec<u8>, Failure> {
    let named: Vec<Option<&str>> = records.iter().map(|it| it.as_ref().map(|it| it.id.as_str())).collect();
    let links = cell_links(directory, Some(&directory.join(REPORT)), &named);
    render_series(series, records, &links, Format::Html, &Options::default())
        .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))
}

fn ended(
    store: &SeriesStore,
    outcome: SeriesOutcome,
    records: &[Option<RunRecord>],
    quick: bool,
    signals: &SignalWatch,
    console: &Console,
) -> Result<Exit, Failure> {
    let (series, path) = (store.series(), store.path().display());
    let go_on = match series.without_secrets {
        false => format!("webstone {} --resume {path}", series.kind.command()),
        true => format!("the same command line again, with --resume {path}"),
    };
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    if let (true, Some(exit)) = (outcome.interrupted, signals.exit()) {
        console.note(format!("interrupted; to resume: {go_on}"));
        return Ok(exit);
    }
    if !outcome.failed.is_empty() {
        let told =
            outcome.failed.iter().map(|(cell, error)| format!("{}: {error}", series.cells[*cell].name));
        let told: Vec<String> = told.collect();
        let what = format!("{} of {} cells failed: {}", told.len(), series.cells.len(), told.join("; "));
        return Err(Failure::failed(what).hint(format!("the others are measured; to try again: {go_on}")));
    }
    let mut exit = Exit::Done;
    let mut not_measured = Vec::new();
    for (cell, record) in series.cells.iter().zip(records) {
        let Some(record) = record else {
            not_measured.push(cell.name.as_str());
            continue;
        };
        let verdict = verdict::of_record(record);
        if !verdict.standing.is_conclusive() {
            if !(quick && is_tried(record, &verdict)) {
                exit = Exit::Invalid;
            }
            let reason = verdict.told().into_iter().next().unwrap_or_default();
            console::complain(format!("{}: {}: {reason}", verdict.standing.word().to_lowercase(), cell.name));
        }
    }
    if !not_measured.is_empty() {
        let (number, cells, names) = (not_measured.len(), series.cells.len(), not_measured.join(", "));
        let what = format!("{number} of {cells} cells have no measured iteration: {names}");
        return Err(Failure::failed(what).hint(format!("to try again: {go_on}")));
    }
    Ok(exit)
}

/// Whether a file that is only tried out works, whatever its figures are worth. On a busy machine a short window may end before the
/// first answer; where nothing failed either, that is no defect.
pub(super) fn is_tried(record: &RunRecord, verdict: &Verdict) -> bool {
    let nothing_failed = record.iterations.iter().all(|run| run.measured.counts.failed == 0);
    let is_harmless =
        |cause: Cause| cause.is_of_measuring() || (cause == Cause::NothingSucceeded && nothing_failed);
    verdict.reasons.iter().chain(&verdict.doubts).all(|reason| is_harmless(reason.cause))
}

/// The cells, one line each, and how long they take.
fn plan(series: &Series) -> String {
    let mut text = String::new();
    for cell in &series.cells {
        let cpus = match cell.spec.server.cpus.as_str() {
            "" => String::new(),
            list => format!(", CPU {list}"),
        };
        text += &format!("{:<28} {}{cpus}, {}\n", cell.name, cell.at, cell.spec.workload);
    }
    series.warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    text + &length(series) + "\n"
}

/// How long a series takes.
fn length(series: &Series) -> String {
    let (cells, rounds) = (series.cells.len(), series.rounds);
    let levels = series.cells.first().map_or(0, |cell| cell.spec.load.levels());
    let time = Nanos(series.round_time().0.saturating_mul(u64::from(rounds)));
    let counted = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        several => format!("{several} {one}s"),
    };
    let under_load = match time {
        Nanos::ZERO => "until their pages are fetched".to_owned(),
        time => format!("{} under load", crate::display::wait(Duration::from_nanos(time.0))),
    };
    format!(
        "{} × {} × {}: {under_load}, and {} of servers",
        counted(cells, "cell"),
        counted(levels, "level"),
        counted(rounds as usize, "iteration"),
        counted(cells * rounds as usize, "start"),
    )
}
