//! Published results, alone or with runs beside them: the document, CSV and JSON.

use serde::Serialize;
use webstone_model::record::RunRecord;

use super::charts::over_clients;
use super::{Apart, Comparison, Published, Quantity, Row, apart, beside};
use crate::csv::plain;
use crate::document::table::{Room, Table};
use crate::document::{Block, Document, Tone};
use crate::numbers::{DOT, Scale, count};
use crate::render::drawn;
use crate::{Format, Options, ReportError, Subject, html, outgoing};

/// Prints these results; with runs, each run beside them instead.
///
/// # Errors
/// [`ReportError::NoSuchForm`]; the others if serialising fails.
pub fn render(
    published: &[&Published],
    runs: &[RunRecord],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, ReportError> {
    let compared: Vec<Comparison<'_>> = runs.iter().flat_map(|run| beside(run, published)).collect();
    let apart: Vec<Apart<'_>> = runs.iter().flat_map(|run| apart(run, published)).collect();
    match Subject::History.check(format)? {
        Format::Csv => csv(published, runs, &compared),
        Format::Json => {
            #[derive(Serialize)]
            struct Report<'a> {
                published: &'a [&'a Published],
                beside: &'a [Comparison<'a>],
                not_compared: &'a [Apart<'a>],
            }
            Ok(outgoing::json(&Report { published, beside: &compared, not_compared: &apart })?)
        }
        Format::Html => {
            let document = document(published, runs, &compared, &apart);
            Ok(outgoing::text(&html::of_document("webstone history", "", &document)))
        }
        _ => {
            let options = Options { full_command: Some("webstone history".to_owned()), ..options.clone() };
            Ok(drawn(&document(published, runs, &compared, &apart), format, &options))
        }
    }
}

/// Columns up to which a table of one row is drawn as a row.
const COLUMNS_MAX: usize = 12;

/// What a reader has to know before the first ratio.
pub(crate) const CAUTION: &str = "Measured under the same conditions, on other machines, networks and load generators: a ratio shows the \
                       distance between then and now, and says nothing about the servers as such.";

/// A line for each reason why tables are not compared with a run.
fn not_compared(apart: &[&Apart<'_>]) -> Vec<String> {
    let line = |it: &&Apart<'_>| match it.ids.len() {
        1..=4 => format!("other {}: {}", it.other.name(), it.ids.join(", ")),
        number => {
            format!("other {}: {number} tables, {} to {}", it.other.name(), it.ids[0], it.ids[number - 1])
        }
    };
    apart.iter().map(line).collect()
}

/// Each run beside the results; then the results, which are all there is without runs.
fn document(
    published: &[&Published],
    runs: &[RunRecord],
    compared: &[Comparison<'_>],
    apart: &[Apart<'_>],
) -> Document {
    let mut doc = Document::default();
    doc.title("", title(runs));
    let charts = Document::of_charts(over_clients(published, runs));
    doc.part("load", "Against the number of clients", charts);
    let mut printed = Document::default();
    printed.section("published", "Published tables", tables(published));
    if runs.is_empty() {
        doc.0.append(&mut printed.0);
        return doc;
    }
    if !compared.is_empty() {
        doc.note(Tone::Plain, CAUTION);
    }
    let (mut side_by_side, mut others) = (Document::default(), Document::default());
    for run in runs {
        if runs.len() > 1 {
            side_by_side.heading(run.id.as_str(), "");
        }
        let of_run: Vec<&Comparison<'_>> = compared.iter().filter(|it| it.run == run.id).collect();
        if of_run.is_empty() {
            let text =
                "Nothing to compare: none of these results was measured under the conditions of the run.";
            side_by_side.note(Tone::Plain, text);
        }
        for group in of_run.chunk_by(|a, b| a.id == b.id) {
            described(group[0].published, &mut side_by_side);
            side_by_side.0.push(Block::Table(beside_table(group)));
        }
        let of_run: Vec<&Apart<'_>> = apart.iter().filter(|it| it.run == run.id).collect();
        if runs.len() > 1 && !of_run.is_empty() {
            others.heading(run.id.as_str(), "");
        }
        others.list(not_compared(&of_run));
    }
    doc.section("beside", "Side by side", side_by_side);
    doc.section("apart", "Not compared", others);
    doc.fold("The published tables", Document::default(), printed);
    doc
}

/// What a page or a document is called.
fn title(runs: &[RunRecord]) -> String {
    match runs {
        [] => "Published results, 1995 to 2000".to_owned(),
        [only] => format!("{} beside published results", only.id),
        several => format!("{} runs beside published results", several.len()),
    }
}

/// Every table, below the words of its document.
fn tables(published: &[&Published]) -> Document {
    let mut doc = Document::default();
    for results in published.chunk_by(|a, b| a.document == b.document) {
        let document = &results[0].document;
        doc.heading(document.title.as_str(), "");
        let year = document.year.map(|year| format!("{DOT}{year}")).unwrap_or_default();
        doc.note(Tone::Faint, format!("{}{DOT}{}{year}", document.authors, document.published));
        for (column, words) in &document.wording {
            doc.item(format!("{column}  "), 19, Tone::Plain, format!("\u{201c}{words}\u{201d}"));
        }
        for result in results {
            described(result, &mut doc);
            let table = printed_table(result);
            // A single row of many figures is read from top to bottom.
            let is_long = table.lines.len() == 1 && table.columns.len() > COLUMNS_MAX;
            doc.0.push(Block::Table(if is_long { table.turned() } else { table }));
        }
    }
    doc
}

fn described(result: &Published, doc: &mut Document) {
    doc.gap();
    doc.0.push(Block::Group(format!("{}: {}, {}", result.id, result.server, result.load)));
    for (name, value) in [
        ("system", result.system.as_str()),
        ("software", &result.software),
        ("tool", &result.tool),
        ("source", &format!("{}: {}", result.document.title, result.place)),
        ("note", result.note.as_deref().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            doc.item(name, 10, Tone::Plain, value);
        }
    }
}

/// A table as it was published.
fn printed_table(result: &Published) -> Table {
    let has = |of: fn(&Row) -> bool| result.rows.iter().any(of);
    let mut table = Table::with_rows(&result.rows);
    if has(|row| row.label.is_some()) {
        table.text("of", Room::Always, |row| row.label.clone().unwrap_or_default());
    }
    if has(|row| row.clients.is_some()) {
        table.number("clients", "", Room::Always, |row| {
            row.clients.map(|clients| count(clients.into())).unwrap_or_default()
        });
    }
    for quantity in &result.quantities {
        table.number(quantity.name(), quantity.printed_unit(&result.document), Room::Always, |row| {
            row.figure(*quantity).map(|figure| &figure.printed)
        });
    }
    table.marks(|row| result.has_peak() && std::ptr::eq(row, result.peak())).done()
}

/// A published table and a run, figure by figure.
fn beside_table(group: &[&Comparison<'_>]) -> Table {
    let rows = lines(group);
    let mut table = Table::with_rows(&rows);
    table
        .text("published at", Room::Flexible(12), |cells| &cells[0])
        .text("figure", Room::Always, |it| &it[1]);
    table.number("published", "", Room::Always, |cells| &cells[2]);
    table.number("this run", "", Room::Always, |cells| &cells[3]).text("unit", Room::Always, |it| &it[4]);
    table.number("ratio", "", Room::Always, |cells| &cells[5]);
    table.number("clients", "", Room::Always, |cells| &cells[6]).done()
}

fn printed(row: &Row, quantity: Quantity) -> &str {
    row.figure(quantity).map_or("", |figure| &figure.printed)
}

/// The rows of a comparison: published row, figure, both values, unit, ratio, the run's clients.
pub(crate) fn lines(group: &[&Comparison<'_>]) -> Vec<[String; 7]> {
    let mut lines = Vec::new();
    for compared in group {
        let name = match (compared.peak, compared.row.name()) {
            (true, name) if name.is_empty() => "peak".to_owned(),
            (true, name) => format!("peak: {name}"),
            (false, name) => name,
        };
        for (index, figure) in compared.figures.iter().enumerate() {
            let document = &compared.published.document;
            let ours = figure.run / figure.quantity.factor(document);
            lines.push([
                if index == 0 { name.clone() } else { String::new() },
                figure.quantity.name().to_owned(),
                printed(compared.row, figure.quantity).to_owned(),
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

/// One row per figure.
fn csv(
    published: &[&Published],
    runs: &[RunRecord],
    compared: &[Comparison<'_>],
) -> Result<Vec<u8>, ReportError> {
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
            writer.write_record(cells.iter().map(|cell| plain(cell)))?;
        }
    }
    Ok(writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?)
}
