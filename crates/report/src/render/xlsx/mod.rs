//! An Excel workbook (Office Open XML), as WebBench made its reports: a summary with charts, the data of every client, one sheet per table,
//! native charts drawn from the cells.
//!
//! Units stand in the headings and are the same in a whole column. A cell is empty where nothing was measured. Numbers
//! are written whole and shown rounded. The same records give the same bytes: the workbook is dated with the first
//! record's end, not with the clock.

mod book;
mod charts;
mod details;
mod levels;
mod tables;

use rust_xlsxwriter::{ExcelDateTime, XlsxError};
use webstone_judge::calibration;
use webstone_measure::figures::level::{
    CONNECTION_RATE, LATENCY_MEAN, LATENCY_P99, REQUEST_RATE, THROUGHPUT,
};

use crate::csv::Row;
use crate::document::table::Sheet as Told;
use book::{Book, Sheet};
use levels::BookRun;

use crate::judged::Judged;
use crate::summary;
use crate::text::problems;

/// The workbook of one record or several, whole.
pub(crate) fn render(records: &[Judged<'_>]) -> Result<Vec<u8>, XlsxError> {
    render_with(records, &[])
}

/// The same of the cells of a series, with its own tables after the summary.
pub(crate) fn render_with(records: &[Judged<'_>], told: &[Told]) -> Result<Vec<u8>, XlsxError> {
    let runs: Vec<BookRun<'_>> = records.iter().map(BookRun::of_record).collect();
    let title = format!("webstone report: {}", runs.first().map_or("", |run| run.record.id.as_str()));
    let dated = runs.first().map(|run| run.record.finished_at.as_ref().unwrap_or(&run.record.started_at));
    let mut book = Book::new(&title, dated.and_then(|date| moment(date)));
    let summary = book.sheet(self::summary(&runs))?;
    for sheet in tables::TITLES.iter().filter_map(|title| tables::sheet(title, told)) {
        book.sheet(sheet)?;
    }
    book.sheet(details::configuration(&runs))?;
    book.sheet(details::disclosure(&runs))?;
    let levels = book.sheet(levels::levels(&runs))?;
    book.sheet(levels::iterations(&runs))?;
    book.sheet(details::clients(&runs))?;
    book.sheet(details::pages(&runs))?;
    book.sheet(levels::percentiles(&runs))?;
    let curves = book.sheet(levels::curves(&runs))?;
    let series = book.sheet(details::series(&runs))?;
    book.sheet(details::errors(&runs))?;
    book.sheet(details::identities(&runs))?;
    book.sheet(details::workers(&runs))?;
    if runs.iter().any(|run| !run.record.generators.is_empty()) {
        book.sheet(details::generators(&runs))?;
    }
    if runs.iter().any(|run| run.record.target.agents.len() > 1) {
        book.sheet(details::server_hosts(&runs))?;
    }
    book.sheet(details::environment(&runs))?;
    book.sheet(details::meanings())?;

    let several = runs.len() > 1;
    let row = summary.lines as u32 + 2;
    // What makes the figures invalid comes above the charts, everything else below them.
    let row = write_notes(&mut book, row, runs.iter().flat_map(|run| reasons(run, several)).collect())?;
    let below = charts::of_levels(&mut book, &levels, &runs, row)?;
    let mut notes: Vec<String> = runs.iter().flat_map(|run| notes(run, several)).collect();
    notes.extend(book.cuts.iter().map(|cut| format!("Cut in the sheet {cut}")));
    write_notes(&mut book, below, notes)?;
    charts::of_curves(&mut book, &curves, &runs)?;
    charts::of_series(&mut book, &series, &runs)?;
    book.workbook.save_to_buffer()
}

/// RFC 3339 in UTC, as records have it, to the second.
fn moment(text: &str) -> Option<ExcelDateTime> {
    ExcelDateTime::parse_from_str(text.get(..19)?).ok()
}

/// `Summary`: one row per run.
fn summary<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    Sheet {
        name: "Summary",
        blank: summary_line(&runs[0]),
        count: runs.len(),
        lines: Box::new(runs.iter().map(summary_line)),
        frozen: 1,
    }
}

fn summary_line(run: &BookRun<'_>) -> Row {
    let record = run.record;
    // The level of the highest rate; of a single level that one.
    let peak = summary::peak(&run.levels).unwrap_or(0);
    let peak = run.levels.get(peak);
    let mut line = Row::default();
    line.cell("Run", "", &record.id);
    line.cell("Verdict", "", run.verdict.standing.word());
    line.cell("Peak at clients", "", peak.map(|level| level.clients));
    line.cell("Peak at rate", "1/s", peak.and_then(|level| level.rate).map(|rate| rate.to_string()));
    for figure in [&REQUEST_RATE, &CONNECTION_RATE, &THROUGHPUT] {
        levels::put(&mut line, figure, peak);
    }
    line.cell(
        "Throughput as WebBench gives it",
        "bytes/s",
        peak.map(|level| level.figures.throughput_bps / 8.0),
    );
    for figure in [&LATENCY_MEAN, &LATENCY_P99] {
        levels::put(&mut line, figure, peak);
    }
    let counts = summary::counts(record);
    line.cell("Valid responses of the run", "", counts.succeeded);
    line.cell("Errors of the run", "", counts.failed);
    line.cell("Levels", "", run.levels.len());
    line.cell("Target", "", &record.target.url);
    line.cell("Server", "", record.target.server.as_ref());
    line.cell("Workload", "", &record.workload.name);
    line.cell("Started", "", &record.started_at);
    line.cell("Finished", "", record.finished_at.as_ref());
    line
}

/// Writes lines below the table of the first sheet; gives the row after the empty one that follows.
fn write_notes(book: &mut Book, row: u32, notes: Vec<String>) -> Result<u32, XlsxError> {
    let sheet = book.workbook.worksheet_from_index(0)?;
    for (index, note) in notes.iter().enumerate() {
        sheet.write_string(row + index as u32, 0, book::fitting(note))?;
    }
    Ok(row + notes.len() as u32 + u32::from(!notes.is_empty()))
}

/// Why a run is invalid or in doubt.
fn reasons(run: &BookRun<'_>, several: bool) -> Vec<String> {
    let (of, word) = (named(run, several), run.verdict.standing.word());
    run.verdict.told().iter().map(|reason| format!("{of}{word}: {reason}")).collect()
}

/// Other notes on a run: its bottleneck, what was searched for, cautions and warnings, run rules.
fn notes(run: &BookRun<'_>, several: bool) -> Vec<String> {
    let of = named(run, several);
    let mut notes = vec![format!("{of}{}", run.verdict.limit.sentence)];
    notes.extend(run.judged.finding().map(|found| format!("{of}Search: {}", found.sentence)));
    notes.extend(calibration::said(run.record).map(|said| format!("{of}Load generator: {said}")));
    let cautions = problems::cautions(run.judged, &run.levels);
    notes.extend(cautions.into_iter().map(|(title, text)| format!("{of}{title}: {text}")));
    let unmet = run.verdict.unmet_rules.iter();
    notes.extend(unmet.map(|rule| format!("{of}Run rule not met: {} ({})", rule.text, rule.evidence)));
    notes
}

/// The run that a note is about, where there are several.
fn named(run: &BookRun<'_>, several: bool) -> String {
    if several { format!("{}: ", run.record.id) } else { String::new() }
}
