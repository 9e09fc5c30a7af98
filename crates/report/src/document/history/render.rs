//! Published results, alone or with runs beside them, as text, Markdown, CSV and JSON; the page is `crate::html`'s.

use std::fmt::Write as _;

use serde::Serialize;
use webstone_measure::shown::shown;
use webstone_model::record::RunRecord;

use super::{Apart, Comparison, Document, Published, Quantity, Row, apart, beside};
use crate::layout::{Room, Table, heading, labelled, push_line};
use crate::markdown::safe;
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::{Charset, Format, Options, html, outgoing};

/// Why the history could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A format that has no form for it.
    #[error("the history cannot be written as {0}\nhint: write one of text, html, markdown, csv, json")]
    NoSuchForm(Format),
    /// It could not be written as JSON.
    #[error("the history cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It could not be written as CSV.
    #[error("the history cannot be written as CSV: {0}")]
    Csv(#[from] ::csv::Error),
}

/// Prints these results; with runs, each run beside them instead.
///
/// # Errors
/// [`HistoryError::NoSuchForm`] for formats other than text, HTML, Markdown, CSV and JSON; the others if serialising fails.
pub fn render(
    published: &[&Published],
    runs: &[RunRecord],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, HistoryError> {
    let compared: Vec<Comparison<'_>> = runs.iter().flat_map(|run| beside(run, published)).collect();
    let apart: Vec<Apart<'_>> = runs.iter().flat_map(|run| apart(run, published)).collect();
    match format {
        Format::Text => Ok(outgoing::text(text(published, runs, &compared, &apart, options), options.color)),
        Format::Markdown => Ok(outgoing::text(markdown(published, runs, &compared, &apart), false)),
        Format::Csv => csv(published, runs, &compared),
        Format::Json => {
            #[derive(Serialize)]
            struct Report<'a> {
                published: &'a [&'a Published],
                beside: &'a [Comparison<'a>],
                not_compared: &'a [Apart<'a>],
            }
            let report = Report { published, beside: &compared, not_compared: &apart };
            let text = serde_json::to_string_pretty(&report)? + "\n";
            Ok(outgoing::json(&text).into_bytes())
        }
        Format::Html => {
            let screen = Screen::new(&Options { charset: Charset::Utf8, color: false, ..options.clone() });
            Ok(outgoing::text(
                html::history::render(&screen, published, runs, &compared, &apart, CAUTION),
                false,
            ))
        }
        other => Err(HistoryError::NoSuchForm(other)),
    }
}

/// What a reader has to know before the first ratio.
pub(crate) const CAUTION: &str = "Measured under the same conditions, on other machines, networks and load generators: a ratio shows the \
                       distance between then and now, and says nothing about the servers as such.";

/// A line for each reason why tables are not compared with a run.
pub(crate) fn not_compared(apart: &[&Apart<'_>]) -> Vec<String> {
    let line = |it: &&Apart<'_>| match it.ids.len() {
        1..=4 => format!("other {}: {}", it.other.name(), it.ids.join(", ")),
        number => {
            format!("other {}: {number} tables, {} to {}", it.other.name(), it.ids[0], it.ids[number - 1])
        }
    };
    apart.iter().map(line).collect()
}

fn text(
    published: &[&Published],
    runs: &[RunRecord],
    compared: &[Comparison<'_>],
    apart: &[Apart<'_>],
    options: &Options,
) -> String {
    let screen = Screen::new(options);
    let mut out = String::new();
    if runs.is_empty() {
        let mut last: Option<&Document> = None;
        for result in published {
            let document = &result.document;
            if last.replace(document) != Some(document) {
                heading(&screen, &mut out, &document.title, "");
                let year = document.year.map(|year| format!(" · {year}")).unwrap_or_default();
                let line = format!("{} · {}{year}", document.authors, document.published);
                labelled(&screen, &mut out, "", 0, &line, Tone::Faint);
                for (column, words) in &document.wording {
                    labelled(
                        &screen,
                        &mut out,
                        &format!("{column}  "),
                        19,
                        &format!("\u{201c}{words}\u{201d}"),
                        Tone::Plain,
                    );
                }
            }
            out.push('\n');
            described(&screen, result, &mut out);
            rows(&screen, result, &mut out);
        }
        return out.trim_start_matches('\n').to_owned();
    }
    for run in runs {
        heading(&screen, &mut out, &format!("{} beside published results", run.id), "");
        labelled(&screen, &mut out, "", 0, CAUTION, Tone::Plain);
        let of_run: Vec<&Comparison<'_>> = compared.iter().filter(|c| c.run == run.id).collect();
        if of_run.is_empty() {
            push_line(
                &mut out,
                "  Nothing to compare: none of these results was measured under the conditions of the run.",
            );
        }
        for group in of_run.chunk_by(|a, b| a.id == b.id) {
            out.push('\n');
            described(&screen, group[0].published, &mut out);
            comparison(&screen, group, &mut out);
        }
        let of_run: Vec<&Apart<'_>> = apart.iter().filter(|apart| apart.run == run.id).collect();
        for (place, line) in not_compared(&of_run).iter().enumerate() {
            if place == 0 {
                out.push('\n');
            }
            labelled(&screen, &mut out, if place == 0 { "not compared" } else { "" }, 14, line, Tone::Faint);
        }
    }
    out.trim_start_matches('\n').to_owned()
}

fn described(screen: &Screen, result: &Published, out: &mut String) {
    let safe = |text: &str| screen.safe(text);
    let title = format!("{}: {}, {}", result.id, result.server, result.load);
    labelled(screen, out, "", 0, &safe(&title), Tone::Strong);
    for (name, value) in [
        ("system", result.system.as_str()),
        ("software", &result.software),
        ("tool", &result.tool),
        ("source", &format!("{}: {}", result.document.title, result.place)),
        ("note", result.note.as_deref().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            labelled(screen, out, name, 10, &safe(value), Tone::Plain);
        }
    }
}

fn rows(screen: &Screen, result: &Published, out: &mut String) {
    let mut table = Table::default();
    for heading in keys(result) {
        if heading == "clients" {
            table.number(heading, "", Room::Always);
        } else {
            table.text(heading, Room::Always);
        }
    }
    for quantity in &result.quantities {
        table.number(quantity.name(), quantity.printed_unit(&result.document), Room::Always);
    }
    for row in &result.rows {
        let mut cells: Vec<String> = key_cells(result, row);
        cells.extend(result.quantities.iter().map(|quantity| printed(row, *quantity, screen.dash())));
        table.row_in(cells, Tone::Plain, result.has_peak() && std::ptr::eq(row, result.peak()));
    }
    table.draw(screen, out);
}

/// A table as it was published: headings with units, and rows.
pub(crate) fn printed_table(result: &Published) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head: Vec<String> = keys(result).iter().map(|key| (*key).to_owned()).collect();
    head.extend(result.quantities.iter().map(|quantity| match quantity.printed_unit(&result.document) {
        "" => quantity.name().to_owned(),
        unit => format!("{}, {unit}", quantity.name()),
    }));
    let cells = |row| {
        let figures = result.quantities.iter().map(|quantity| printed(row, *quantity, "–"));
        key_cells(result, row).into_iter().chain(figures).collect()
    };
    (head, result.rows.iter().map(cells).collect())
}

/// Headings of the columns that name a row.
fn keys(result: &Published) -> Vec<&'static str> {
    let has = |of: fn(&Row) -> bool| result.rows.iter().any(of);
    let label = has(|row| row.label.is_some()).then_some("of");
    label.into_iter().chain(has(|row| row.clients.is_some()).then_some("clients")).collect()
}

fn key_cells(result: &Published, row: &Row) -> Vec<String> {
    let cell = |key: &&str| match *key {
        "clients" => row.clients.map(|n| count(n.into())).unwrap_or_default(),
        _ => row.label.clone().unwrap_or_default(),
    };
    keys(result).iter().map(cell).collect()
}

fn printed(row: &Row, quantity: Quantity, nothing: &str) -> String {
    row.figure(quantity).map_or_else(|| nothing.to_owned(), |figure| figure.printed.clone())
}

fn comparison(screen: &Screen, group: &[&Comparison<'_>], out: &mut String) {
    let mut table = Table::default();
    table.text("published at", Room::Flexible(12)).text("figure", Room::Always);
    table.number("published", "", Room::Always).number("this run", "", Room::Always);
    table.text("unit", Room::Always).number("ratio", "", Room::Always).number("clients", "", Room::Always);
    for cells in lines(group, screen.marker()) {
        table.row(cells.into());
    }
    table.draw(screen, out);
}

/// The rows of a comparison: published row, figure, both values, unit, ratio, the run's clients.
pub(crate) fn lines(group: &[&Comparison<'_>], peak: &str) -> Vec<[String; 7]> {
    let mut lines = Vec::new();
    for compared in group {
        let name =
            if compared.peak { format!("{peak} {}", compared.row.name()) } else { compared.row.name() };
        let name = if name.trim() == peak.trim() { format!("{peak} peak") } else { name };
        for (index, figure) in compared.figures.iter().enumerate() {
            let document = &compared.published.document;
            let ours = figure.run / figure.quantity.factor(document);
            lines.push([
                if index == 0 { name.trim().to_owned() } else { String::new() },
                figure.quantity.name().to_owned(),
                printed(compared.row, figure.quantity, ""),
                Scale::plain(significant(ours), [ours]).show(ours).trim().to_owned(),
                figure.quantity.printed_unit(document).to_owned(),
                figure.ratio.map(ratio).unwrap_or_default(),
                count(figure.clients.into()),
            ]);
        }
    }
    lines
}

/// Decimals that show three digits of a value below one.
fn significant(value: f64) -> usize {
    if value > 0.0 && value < 1.0 { (2.0 - value.log10().floor()).min(9.0) as usize } else { 2 }
}

fn ratio(value: f64) -> String {
    format!("{} ×", Scale::plain(significant(value), [value]).show(value).trim())
}

fn markdown(
    published: &[&Published],
    runs: &[RunRecord],
    compared: &[Comparison<'_>],
    apart: &[Apart<'_>],
) -> String {
    let mut out = String::new();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let title = |result: &Published, out: &mut String| {
        let _ =
            writeln!(out, "#### {}: {}, {}\n", safe(&result.id), safe(&result.server), safe(&result.load));
        let year = result.document.year.map(|year| format!(" ({year})")).unwrap_or_default();
        let (system, tool) = (safe(&result.system), safe(&result.tool));
        let source = format!("*{}*{year}, {}", safe(&result.document.title), safe(&result.place));
        let _ = writeln!(
            out,
            "{system}. {tool}. {source}. {}\n",
            safe(result.note.as_deref().unwrap_or_default())
        );
    };
    if runs.is_empty() {
        for result in published {
            title(result, &mut out);
            let (head, rows) = printed_table(result);
            out.push_str(&line(&head));
            out.push_str(&line(&vec!["---:".to_owned(); head.len()]));
            rows.iter().for_each(|cells| {
                out.push_str(&line(&cells.iter().map(|cell| safe(cell)).collect::<Vec<_>>()))
            });
            out.push('\n');
        }
        return out;
    }
    for run in runs {
        let _ = writeln!(out, "### {} beside published results\n\n{CAUTION}\n", safe(&run.id));
        let of_run: Vec<&Comparison<'_>> = compared.iter().filter(|c| c.run == run.id).collect();
        for group in of_run.chunk_by(|a, b| a.id == b.id) {
            title(group[0].published, &mut out);
            out.push_str("| published at | figure | published | this run | unit | ratio | at clients |\n");
            out.push_str("| :--- | :--- | ---: | ---: | :--- | ---: | ---: |\n");
            for cells in lines(group, "peak:") {
                out.push_str(&line(&cells.map(|cell| cell.replace('*', "\\*"))));
            }
            out.push('\n');
        }
        let of_run: Vec<&Apart<'_>> = apart.iter().filter(|apart| apart.run == run.id).collect();
        if !of_run.is_empty() {
            out.push_str("Not compared:\n\n");
            not_compared(&of_run).iter().for_each(|line| out.push_str(&format!("- {}\n", safe(line))));
            out.push('\n');
        }
    }
    out
}

/// One row a figure.
fn csv(
    published: &[&Published],
    runs: &[RunRecord],
    compared: &[Comparison<'_>],
) -> Result<Vec<u8>, HistoryError> {
    let mut writer = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    let mut head = vec![
        "id", "server", "load", "system", "tool", "document", "place", "year", "clients", "label", "figure",
        "unit", "printed", "value",
    ];
    if !runs.is_empty() {
        head.extend(["run", "run_clients", "run_value", "ratio"]);
    }
    writer.write_record(head)?;
    let begun = |result: &Published, row: &Row, figure: &super::Figure| {
        let year = result.document.year.map(|year| year.to_string()).unwrap_or_default();
        vec![
            result.id.clone(),
            result.server.clone(),
            result.load.clone(),
            result.system.clone(),
            result.tool.clone(),
            result.document.title.clone(),
            result.place.clone(),
            year,
            row.clients.map(|n| n.to_string()).unwrap_or_default(),
            row.label.clone().unwrap_or_default(),
            figure.quantity.name().to_owned(),
            figure.quantity.unit().to_owned(),
            figure.printed.clone(),
            figure.value.to_string(),
        ]
    };
    if runs.is_empty() {
        for result in published {
            for (row, figure) in result.rows.iter().flat_map(|row| row.figures.iter().map(move |f| (row, f)))
            {
                writer.write_record(begun(result, row, figure))?;
            }
        }
    }
    for c in compared {
        for figure in &c.figures {
            let Some(printed) = c.row.figure(figure.quantity) else { continue };
            let mut cells = begun(c.published, c.row, printed);
            cells.extend([
                c.run.clone(),
                figure.clients.to_string(),
                figure.run.to_string(),
                figure.ratio.map(|ratio| ratio.to_string()).unwrap_or_default(),
            ]);
            writer.write_record(cells.iter().map(|cell| shown(cell).into_owned()))?;
        }
    }
    Ok(writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?)
}
