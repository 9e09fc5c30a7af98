//! The report of a series: its cells compared, as tables for a terminal, Markdown, HTML, JSON and CSV. The cells themselves are
//! ordinary records, each with a report of its own.
//!
//! `webstone_model::series` computes; here is the layout. Tables are made once ([`sheets`]) and drawn by every format that has tables.

mod batches;
mod bounds;
mod charts;
mod csv;
mod doubts;
mod families;
mod handshakes;
mod law;
mod lines;
mod network;
pub(crate) mod notes;
mod peaks;
mod published;
mod sheets;

use serde::Serialize;
use webstone_judge::series::{AlarmKind, Summary};
use webstone_model::record::RunRecord;
use webstone_model::series::{Cell, Handshakes, Kind, Series};

use crate::document::table::Sheet;
use crate::document::{Block, Document, Tone};
use crate::history::{self, Comparison};
use crate::judged::Judged;
use crate::numbers::{count, counted};
use crate::render::drawn;
use crate::text;
use crate::{Format, Options, ReportError, Subject, configuration, html, outgoing, xlsx};

use lines::{efficiency_lines, scaling_lines};

/// Makes the report of a series from its plan and the record of each cell, as far as there is one. `links` are where a page may
/// link to the report of each cell: relative URLs in the order of the plan.
///
/// # Errors
/// [`ReportError::NoSuchForm`], [`ReportError::NothingMeasured`]; the others if serialising fails.
pub fn render_series(
    series: &Series,
    records: &[Option<RunRecord>],
    links: &[Option<String>],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, ReportError> {
    Subject::Series.check(format)?;
    let summary = Summary::of_series(series, records);
    let cell_notes = notes::of_cells(records);
    let all: Vec<&history::Published> = history::published().iter().collect();
    let published: Vec<Vec<Comparison<'static>>> = records
        .iter()
        .map(|it| it.as_ref().map(|record| history::beside(record, &all)).unwrap_or_default())
        .collect();
    let named: Vec<(&str, &RunRecord)> = (series.cells.iter().zip(records))
        .filter_map(|(cell, record)| Some((cell.name.as_str(), record.as_ref()?)))
        .collect();
    let configuration = configuration::of_all(&named);
    let report = Report { series, summary: &summary, cell_notes, published, configuration };
    match format {
        Format::Json => {
            #[derive(Serialize)]
            struct Whole<'a> {
                series: &'a Series,
                computed: &'a Summary,
                notes: &'a [notes::CellNote],
                published: &'a [Vec<Comparison<'static>>],
            }
            let (notes, published) = (&report.cell_notes, &report.published);
            Ok(outgoing::json(&Whole { series, computed: &summary, notes, published })?)
        }
        Format::Csv => Ok(csv::render(&report)?),
        Format::Xlsx => {
            let judged: Vec<_> = records.iter().flatten().map(Judged::whole).collect();
            match judged.is_empty() {
                true => Err(ReportError::NothingMeasured),
                false => Ok(xlsx::render_with(&judged, &report.sheets())?),
            }
        }
        Format::Html => {
            let (together, notes) = (cells_together(&report), notes_of_page(&report));
            let (title, subtitle) = (report.title(), report.subtitle());
            let page = html::of_series(&title, &subtitle, &together, &notes, records, links, options);
            Ok(outgoing::text(&page))
        }
        Format::Markdown => Ok(drawn(&short(&report), format, options)),
        _ => Ok(drawn(&document(&report, records, options), format, options)),
    }
}

/// A series with what was computed from it.
pub(crate) struct Report<'a> {
    pub(crate) series: &'a Series,
    pub(crate) summary: &'a Summary,
    /// What each record's own report warns of, cell by cell.
    pub(crate) cell_notes: Vec<notes::CellNote>,
    /// What was measured where, over all cells.
    pub(crate) configuration: Vec<configuration::Group>,
    /// By cell: rows of published tables that were measured under its conditions.
    pub(crate) published: Vec<Vec<Comparison<'static>>>,
}

impl Report<'_> {
    /// What it is about, in a line.
    pub(crate) fn title(&self) -> String {
        let servers = |most: usize| {
            let mut names: Vec<String> = Vec::new();
            for cell in &self.series.cells {
                let name = cell.at.server.name();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            match names.len() {
                number if number > most => format!("{number} servers"),
                _ => names.join(", "),
            }
        };
        let workload = self.series.cells.first().map_or("", |cell| cell.spec.workload.as_str());
        match self.series.kind {
            Kind::Servers => format!("Servers compared: {} ({workload})", servers(6)),
            Kind::Scale => format!("CPU scaling: {} ({workload})", servers(6)),
            Kind::Spice => format!("Dynamic responses against files: {}", servers(6)),
        }
    }

    /// How complete it is, and what is wrong with it.
    pub(crate) fn notes(&self) -> Vec<(Tone, String)> {
        let mut doubts = self.standings(&|_, reasons| {
            let more = match reasons.len() {
                1 => String::new(),
                several => format!(" (and {})", counted(several as u64 - 1, "more reason", "more reasons")),
            };
            format!("{}{more}", reasons[0])
        });
        doubts.extend(self.alarms());
        self.notes_with(doubts)
    }

    /// The same, with these sentences about doubtful figures.
    fn notes_with(&self, doubts: Vec<(Tone, String)>) -> Vec<(Tone, String)> {
        let Summary { iterations_done, iterations_planned, cells, .. } = self.summary;
        let mut notes = Vec::new();
        if iterations_done < iterations_planned {
            let text = format!(
                "Not finished: {} of {} iterations done; `webstone {} --resume DIR` continues.",
                count(*iterations_done),
                count(*iterations_planned),
                self.series.kind.command()
            );
            notes.push((Tone::Caution, text));
        }
        notes.extend(doubts);
        if self.summary.alarms.iter().any(|alarm| alarm.kind == AlarmKind::Inconclusive) {
            let text = "For narrower intervals stop other programs, or use longer windows (-d) or more iterations (-i).";
            notes.push((Tone::Plain, text.to_owned()));
        }
        notes.extend(
            self.series.warnings.iter().map(|warning| (Tone::Caution, format!("Warning: {warning}."))),
        );
        for cell in cells {
            if let Some(most) = cell.cpus_max {
                let text = format!(
                    "{} runs on {} and is configured to keep {} busy.",
                    cell.name,
                    counted(cell.server_cpus.len() as u64, "CPU", "CPUs"),
                    counted(u64::from(most), "of them", "of them")
                );
                notes.push((Tone::Caution, text));
            }
        }
        notes
    }

    /// What the report is made from, in a line.
    pub(crate) fn subtitle(&self) -> String {
        let (series, cells) = (self.series, self.series.cells.len() as u64);
        format!(
            "{}, {} of each level, interleaved{}; series {}",
            counted(cells, "cell", "cells"),
            counted(u64::from(series.rounds), "iteration", "iterations"),
            self.tls(),
            series.id
        )
    }

    /// The TLS settings that all cells share, in words; empty without TLS, or if they differ: the cells' names then say how.
    fn tls(&self) -> String {
        let is_alike = |cell: &Cell| cell.spec.server.tls.is_some() && cell.at.handshakes.is_none();
        let Some(first) = self.series.cells.first().filter(|_| self.series.cells.iter().all(is_alike)) else {
            return String::new();
        };
        let handshakes = Handshakes::Resumed(first.spec.client.tls.resume);
        let has_both = |cell: &Cell| cell.spec.server.tls.as_ref().is_some_and(|tls| tls.listen.is_some());
        let beside = if self.series.cells.iter().any(has_both) { " and without TLS" } else { "" };
        format!(", over TLS{beside} with {}", handshakes.in_words())
    }

    pub(crate) fn sheets(&self) -> Vec<Sheet> {
        sheets::sheets(self)
    }
}

fn document(report: &Report<'_>, records: &[Option<RunRecord>], options: &Options) -> Document {
    let mut doc = Document::default();
    doc.text(Tone::Strong, report.title());
    doc.note(Tone::Faint, report.subtitle());
    let in_brief = || [report.standings_in_brief(records), report.alarms_in_brief()].concat();
    let notes = if options.full { report.notes() } else { report.notes_with(in_brief()) };
    notes.into_iter().for_each(|(tone, note)| doc.note(tone, note));
    if options.full {
        doc.sheets(report.sheets());
        notes::list(report, &mut doc);
        configuration::list(&report.configuration, &mut doc);
        return doc;
    }
    let (sheets, mut left_out) = sheets::brief(report);
    doc.sheets(sheets);
    if !report.configuration.is_empty() {
        left_out.push(text::in_a_list(configuration::TITLE));
    }
    let noted = notes::grouped(report).len() as u64;
    if noted > 0 {
        left_out.push(counted(noted, "note on cells", "notes on cells"));
    }
    text::rest(&left_out, options, &mut doc);
    doc
}

/// What all cells say together: charts, and every table but that of each cell's levels, which are drawn for each cell.
fn cells_together(report: &Report<'_>) -> Document {
    let sheets = report.sheets().into_iter().filter(|sheet| sheet.title != "Levels of each cell");
    let (ranked, others): (Vec<_>, Vec<_>) =
        sheets.partition(|sheet| matches!(&*sheet.title, "Ranks" | "Scaling" | "SPICE"));
    let mut together = Document::of_charts(charts::all(report));
    together.sheets(ranked.into_iter().chain(others));
    let mut doc = Document::default();
    doc.part("matrix", "The series", together);
    doc
}

/// How far the series is, what is wrong with it, and what the report of each cell warns of.
fn notes_of_page(report: &Report<'_>) -> Document {
    let mut doc = Document::default();
    for (tone, note) in report.notes() {
        match tone {
            Tone::Alarm => doc.text(tone, note),
            _ => doc.note(tone, note),
        }
    }
    let of_cells: Vec<String> = notes::grouped(report).iter().map(notes::Grouped::sentence).collect();
    if !of_cells.is_empty() {
        let title = format!("{} ({})", notes::TITLE, of_cells.len());
        doc.fold(title, Document::default(), Document(vec![Block::List(of_cells)]));
    }
    doc
}

/// For a README or a pull request: everything.
fn short(report: &Report<'_>) -> Document {
    let mut doc = Document(vec![Block::Title("", report.title())]);
    doc.text(Tone::Plain, report.subtitle());
    doc.list(report.notes().into_iter().map(|(_, note)| note).collect());
    doc.sheets(report.sheets());
    let of_cells: Vec<String> = notes::grouped(report).iter().map(notes::Grouped::sentence).collect();
    if !of_cells.is_empty() {
        doc.heading(notes::TITLE, "");
        doc.list(of_cells);
    }
    if !report.configuration.is_empty() {
        doc.sheets([configuration::sheet(&report.configuration)]);
    }
    doc
}
