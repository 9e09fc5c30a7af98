//! Reports from a stored record: a [`RunRecord`] in, bytes out.
//!
//! Nothing but the record is read, so that every report can be made again years later, on another machine. Nothing is
//! printed here either: the command line decides where the bytes go. Each format has a module of its own; what several of them need
//! (the summary of a level, number formats, the drawing of tables) is beside them.
//!
//! What the figures mean is defined by `webstone_measure::figures`; samples of every format are in `docs/reports.md`.
#![forbid(unsafe_code)]

mod document;
pub mod figures;
mod format;
mod judged;
mod render;
mod selection;

use std::io;

use webstone_model::pages::PageRowsError;
use webstone_model::record::RunRecord;
use webstone_model::threshold::Threshold;

use document::Document;
use document::run as text;
use document::{
    advice, asctime, calibration, cell, comparison, configuration, definitions, generators, hit, list,
    numbers, series, server_hosts, summary, thresholds, timeline, workout,
};
use judged::Judged;
use render::{
    chart, classic, csv, hgrm, html, json, json_objects, markdown, outgoing, webstone1, webstone2, xlsx,
};

pub use crate::calibration::{calibration_line, disturbance_line, render_calibration};
pub use crate::comparison::{compared_name, comparison_sentences, render_comparison};
pub use crate::document::duel::{interval_bar, sentence as duel_sentence, verdict_line as duel_verdict};
pub use crate::document::{history, like};
pub use crate::format::{Format, Subject, UnknownFormat};
pub use crate::html::STYLE;
pub use crate::list::{Listed, render_list};
pub use crate::markdown::safe as markdown_text;
pub use crate::render::duel::render_duel;
#[cfg(feature = "schema")]
pub use crate::render::schemas::{comparison_schema, duel_schema, event_schema, json_schema, spec_schema};
pub use crate::series::render_series;
pub use crate::thresholds::{checked, render_thresholds};
pub use crate::timeline::{Timeline, TimelineRun, TimelineUnit, render_timelines};
pub use crate::workout::{answer_line, asked, phase_line, phase_names, render_workout};

/// The characters that a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Rules, markers and the micro sign from Unicode.
    #[default]
    Utf8,
    /// ASCII only, for terminals and files that know nothing else. Text from the record is escaped to it as well.
    Ascii,
}

/// How a report is drawn and what of the record it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Columns of the terminal, for [`Format::Text`] and [`Format::Hit`]. Tables leave out optional columns below it.
    pub width: usize,
    /// Whether to colour with ANSI escape sequences, for [`Format::Text`] and [`Format::Hit`].
    pub color: bool,
    /// Characters that rules, markers and units are made of, for [`Format::Text`] and [`Format::Hit`].
    pub charset: Charset,
    /// Everything, for [`Format::Text`]; without it, what fits a screen.
    pub full: bool,
    /// The command that shows everything, named where something is left out.
    pub full_command: Option<String>,
    /// Most pages in the per-page tables of [`Format::Text`], [`Format::Html`] and [`Format::Prometheus`], and of an
    /// iteration in [`Format::Webstone1`] and [`Format::Webstone2`]: those with the most hits.
    pub pages_max: usize,
    /// Whether [`Format::Webstone2`] has a block for each client, as the original's `-a`.
    pub all_clients: bool,
    /// Which distribution [`Format::Hgrm`] writes: a name of `webstone_measure::metrics::Histograms::named`.
    pub histogram: String,
    /// Which table [`Format::Csv`] writes.
    pub csv_table: CsvTable,
    /// Whether the report is stored beside its record, so that [`Format::Html`] links from a cell to the page of its series.
    pub beside_record: bool,
    /// Only the level with this number of clients.
    pub clients: Option<u32>,
    /// Only iterations of this number, from 1.
    pub iteration: Option<u32>,
    /// Their outcomes are printed below [`Format::Text`] and [`Format::Hit`].
    pub thresholds: Vec<Threshold>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            width: 80,
            color: false,
            charset: Charset::Utf8,
            full: false,
            full_command: None,
            pages_max: 20,
            all_clients: false,
            histogram: "response".to_owned(),
            csv_table: CsvTable::Levels,
            beside_record: false,
            clients: None,
            iteration: None,
            thresholds: Vec::new(),
        }
    }
}

/// The tables that CSV can hold: a file of comma-separated values is one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsvTable {
    /// One row per level and iteration.
    #[default]
    Levels,
    /// One row per page that was asked for in a level and iteration.
    Pages,
    /// One row per host that made load in a level and iteration, where several did.
    Generators,
    /// One row per host of the server in a level and iteration, where agents watched it.
    ServerHosts,
}

/// Why no report could be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The options select nothing that the record holds.
    #[error(
        "the record has no {wanted}: it holds {held}\nhint: leave out the selection, or choose one of these"
    )]
    NothingSelected {
        /// What was asked for, in words.
        wanted: String,
        /// The levels of the record, in words.
        held: String,
    },
    /// The report has no form of this format.
    #[error("{subject} cannot be written as {format}\nhint: {}", subject.remedy())]
    NoSuchForm {
        /// What it is of.
        subject: Subject,
        /// The format.
        format: Format,
    },
    /// There is no published document of this name.
    #[error("--like: `{0}` is not a document\nhint: write one of {names}", names = like::names().join(", "))]
    NoSuchDocument(String),
    /// Nothing is measured that could fill a workbook.
    #[error("nothing of the series is measured yet, so there is no workbook")]
    NothingMeasured,
    /// It could not be written as JSON.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A format that holds one record was asked for several.
    #[error(
        "a report in the format {format} holds one run\nhint: name one run, and write each into a file of its own"
    )]
    OneOnly {
        /// The format.
        format: Format,
    },
    /// It could not be written as a workbook.
    #[error("the report cannot be written as a workbook: {0}")]
    Xlsx(#[from] rust_xlsxwriter::XlsxError),
    /// It could not be written as CSV.
    #[error("the report cannot be written as CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// Rows of pages are stored beside the record and could not be read.
    #[error("{0}")]
    Pages(#[from] PageRowsError),
    /// Writing the report to its destination failed.
    #[error("the report cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Makes a report of a record.
///
/// `record` must hold its histograms and series (they are stored beside `record.json`); without histograms the
/// percentiles are left out, and the text says so. Every format but [`Format::Json`] and [`Format::Csv`] also reads
/// well without any iteration.
///
/// # Errors
/// [`ReportError::NothingSelected`] if [`Options::clients`], [`Options::iteration`] or [`Options::histogram`] name what
/// the record does not hold; the others if serialising fails, which no record read from a file does.
pub fn render(record: &RunRecord, format: Format, options: &Options) -> Result<Vec<u8>, ReportError> {
    let mut report = Vec::new();
    write(record, format, options, &mut report)?;
    Ok(report)
}

/// [`render()`] into a stream. Formats that list every iteration page by page are written as they are read: such a report may
/// be larger than memory.
///
/// # Errors
/// Those of [`render()`]; [`ReportError::Write`] if the stream fails.
pub fn write(
    record: &RunRecord,
    format: Format,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let selected = selection::select(record, options)?;
    let shown = selected.as_ref();
    let judged = Judged::part(shown, record);
    let whole = match (document(&judged, format, options), format) {
        (Some(document), _) => render::drawn(&document, format, options),
        (None, Format::Json) => outgoing::json(&json::report(judged))?,
        (None, Format::Csv) => return csv::write(&judged, options.csv_table, out),
        (None, Format::Webstone1) => return webstone1::write(&judged, options.pages_max, out),
        (None, Format::Webstone2) => return webstone2::write(&judged, options, out),
        (None, Format::Hgrm) => outgoing::text(&hgrm::render(&judged, options)?),
        _ => render::joined(&[judged], format, options)?,
    };
    Ok(out.write_all(&whole)?)
}

/// The blocks that a format draws; `None` if it has a shape of its own.
fn document(judged: &Judged<'_>, format: Format, options: &Options) -> Option<Document> {
    let mut document = match format {
        Format::Text => text::document(judged, options),
        Format::Hit => hit::document(judged),
        Format::Markdown => return Some(text::short::document(judged)),
        _ => return None,
    };
    document.sheets(thresholds::sheet_of(&checked(judged.whole, options)));
    Some(document)
}

/// The blocks that [`Format::Text`], [`Format::Hit`] and [`Format::Markdown`] draw, as JSON, one block per line; empty for formats with a
/// shape of their own.
///
/// # Errors
/// Those of [`render()`].
pub fn blocks(record: &RunRecord, format: Format, options: &Options) -> Result<String, ReportError> {
    let selected = selection::select(record, options)?;
    let Document(blocks) = document(&Judged::part(&selected, record), format, options).unwrap_or_default();
    let lines = blocks.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Makes a report of several records: one document where the format [joins](Format::joins) them, otherwise the reports
/// of each, one after the other. Errors name the record by its index.
///
/// # Errors
/// Those of [`render()`], with the index of the record; [`ReportError::OneOnly`] where the format holds one and there
/// are more.
pub fn render_all(
    records: &[RunRecord],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, (usize, ReportError)> {
    if format.joins() {
        let selected: Vec<_> = (records.iter().enumerate())
            .map(|(index, record)| selection::select(record, options).map_err(|error| (index, error)))
            .collect::<Result<_, _>>()?;
        let shown: Vec<_> =
            selected.iter().zip(records).map(|(shown, whole)| Judged::part(shown.as_ref(), whole)).collect();
        return render::joined(&shown, format, options).map_err(|error| (0, error));
    }
    if format == Format::Hgrm && records.len() > 1 {
        return Err((1, ReportError::OneOnly { format }));
    }
    let mut all = Vec::new();
    for (index, record) in records.iter().enumerate() {
        all.extend(render(record, format, options).map_err(|error| (index, error))?);
    }
    Ok(all)
}
