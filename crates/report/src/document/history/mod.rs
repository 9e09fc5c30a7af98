//! Results that others published between 1995 and 2000 with WebStone, WebBench and WWWRKOUT, as data: every figure as
//! its document printed it, with the document's own words for what it is. They were measured on other machines with
//! other files, so a comparison with them shows progress, not a winner.
//!
//! The numbers are in `published.toml`. Nothing is computed for them that the documents do not print.

mod beside;
mod charts;
mod conditions;
mod quantity;
mod render;

use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use webstone_model::toml_text;

pub use beside::{Apart, Beside, Comparison, apart, beside};
pub use conditions::{Conditions, Other};
pub use quantity::Quantity;
pub use render::render;
pub(crate) use render::{CAUTION, lines};

/// The document that published a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Short name.
    pub id: String,
    /// Title.
    pub title: String,
    /// Who wrote it.
    pub authors: String,
    /// When it was published and, where it says so, when it was measured.
    pub published: String,
    /// Year of the measurement; `None` where the document does not say.
    pub year: Option<u16>,
    /// Bits of what it calls a megabit.
    #[serde(default = "decimal_mbit")]
    pub mbit_bits: f64,
    /// Whether its tables hold only peaks, each figure's own.
    #[serde(default)]
    pub peaks: bool,
    /// How everything in it was measured.
    #[serde(default)]
    pub conditions: Conditions,
    /// The document's words for each column, by its name.
    pub wording: IndexMap<String, String>,
}

/// A table that was published: one server under one kind of load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Short name.
    pub id: String,
    /// Where it was published.
    pub document: Document,
    /// Section and table of the document.
    pub place: String,
    /// The server under test.
    pub server: String,
    /// What was requested.
    pub load: String,
    /// Hardware and network.
    pub system: String,
    /// Operating system.
    pub software: String,
    /// The load generator and its settings.
    pub tool: String,
    /// What has to be known besides.
    pub note: Option<String>,
    /// Quantities of the table, in its order.
    pub quantities: Vec<Quantity>,
    /// Its rows, in its order.
    pub rows: Vec<Row>,
    /// For a user's own result: the printed one whose rows it stands beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// One row of a published table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Clients (or concurrent requests), where the table is by them.
    pub clients: Option<u32>,
    /// What names the row otherwise: a size, a number of CPUs, a page.
    pub label: Option<String>,
    /// How it was measured. A run is compared with it only if it was measured in the same way.
    pub conditions: Conditions,
    /// The numbers that are printed.
    pub figures: Vec<Figure>,
}

/// A number as it was printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it measures.
    pub quantity: Quantity,
    /// Its digits in the document, in the document's unit.
    pub printed: String,
    /// Its value, in the unit of the quantity.
    pub value: f64,
}

impl Row {
    /// The figure of a quantity, where the row has it.
    pub fn figure(&self, quantity: Quantity) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.quantity == quantity)
    }

    /// Name of the row: its clients, its label, or both.
    pub fn name(&self) -> String {
        let clients = self.clients.map(|n| format!("{n} {}", if n == 1 { "client" } else { "clients" }));
        self.label.iter().cloned().chain(clients).collect::<Vec<_>>().join(", ")
    }

    /// Connections per second, or requests where these are not given.
    fn rate(&self) -> Option<f64> {
        let figure = self.figure(Quantity::ConnectionRate).or_else(|| self.figure(Quantity::RequestRate));
        figure.map(|figure| figure.value)
    }
}

impl Published {
    /// Its row with the same clients and label as another.
    pub(crate) fn row_like(&self, other: &Row) -> Option<&Row> {
        self.rows.iter().find(|row| row.clients == other.clients && row.label == other.label)
    }

    /// A quantity over the number of clients: what a chart is drawn from. Empty where the table is not by clients.
    pub fn points(&self, quantity: Quantity) -> Vec<(u32, f64)> {
        let of = |row: &Row| Some((row.clients?, row.figure(quantity)?.value));
        self.rows.iter().filter_map(of).collect()
    }

    /// The row of its highest rate; the first where it has none.
    pub fn peak(&self) -> &Row {
        let rate = |row: &Row| row.rate().unwrap_or(f64::NEG_INFINITY);
        let best = |best: usize, index: usize| {
            if rate(&self.rows[index]) > rate(&self.rows[best]) { index } else { best }
        };
        &self.rows[(1..self.rows.len()).fold(0, best)]
    }

    /// Whether one of several rows is a peak: tables by page have no rate.
    pub fn has_peak(&self) -> bool {
        self.rows.len() > 1 && self.rows.iter().any(|row| row.rate().is_some())
    }

    /// Whether a text occurs in any of its names, in any case.
    pub fn matches(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let names = [
            &self.id,
            &self.document.id,
            &self.document.title,
            &self.server,
            &self.system,
            &self.load,
            &self.tool,
        ];
        names.into_iter().any(|name| name.to_lowercase().contains(&wanted))
    }
}

fn decimal_mbit() -> f64 {
    1e6
}

/// Every published result, in the order of publication.
pub fn published() -> &'static [Published] {
    static PUBLISHED: LazyLock<Vec<Published>> =
        LazyLock::new(|| read(include_str!("published.toml")).expect("a test reads published.toml"));
    &PUBLISHED
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    document: Vec<Document>,
    result: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    document: String,
    server: String,
    load: String,
    system: String,
    software: String,
    tool: String,
    place: String,
    note: Option<String>,
    #[serde(default)]
    conditions: Conditions,
    /// By label: conditions of single rows.
    #[serde(default)]
    labels: IndexMap<String, Conditions>,
    beside: Option<String>,
    columns: Vec<String>,
    rows: String,
}

/// A column: what names a row, or a quantity.
enum Column {
    Clients,
    Label(&'static str),
    Of(Quantity),
}

/// Results of the user's own, in the form of `published.toml`. `beside` of each names the printed result that it stands beside.
///
/// # Errors
/// Line and rule, or the printed result that is not there.
pub fn read_own(text: &str) -> Result<Vec<Published>, String> {
    let own = read(text)?;
    let is_known = |id: &String| published().iter().any(|result| result.id == *id);
    match own.iter().find_map(|result| result.beside.as_ref().filter(|id| !is_known(id))) {
        Some(id) => Err(format!("beside: there is no published result `{id}`")),
        None => Ok(own),
    }
}

fn read(text: &str) -> Result<Vec<Published>, String> {
    let file: File =
        toml_text::read(text).map_err(|error| format!("line {}: {}", error.line(text), error.rule))?;
    file.result.into_iter().map(|entry| of_entry(entry, &file.document)).collect()
}

fn of_entry(entry: Entry, documents: &[Document]) -> Result<Published, String> {
    let document = documents.iter().find(|document| document.id == entry.document);
    let document = document.ok_or_else(|| format!("{}: no document {}", entry.id, entry.document))?;
    let column = |name: &String| match name.as_str() {
        "clients" | "concurrent" => Ok(Column::Clients),
        "label" => Ok(Column::Label("")),
        "cpus" => Ok(Column::Label(" CPU")),
        "page" => Ok(Column::Label("page ")),
        name => serde_json::from_value(name.into())
            .map(Column::Of)
            .map_err(|error| format!("{}: {error}", entry.id)),
    };
    let columns = entry.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let of_all = entry.conditions.within(&document.conditions);
    let rows = entry.rows.lines().map(|line| {
        let mut row = row(line, &columns, document).map_err(|error| format!("{}: {error}", entry.id))?;
        let own = row.label.as_ref().and_then(|label| entry.labels.get(label)).cloned().unwrap_or_default();
        row.conditions = own.within(&row.conditions).within(&of_all);
        Ok::<Row, String>(row)
    });
    let quantities = columns.iter().filter_map(|column| match column {
        Column::Of(quantity) => Some(*quantity),
        _ => None,
    });
    Ok(Published {
        document: document.clone(),
        quantities: quantities.collect(),
        rows: rows.collect::<Result<_, _>>()?,
        id: entry.id,
        place: entry.place,
        server: entry.server,
        load: entry.load,
        system: entry.system,
        software: entry.software,
        tool: entry.tool,
        note: entry.note,
        beside: entry.beside,
    })
}

/// A row as its document has it: cells between bars, or between spaces.
fn row(line: &str, columns: &[Column], document: &Document) -> Result<Row, String> {
    let cells: Vec<&str> = match line.contains('|') {
        true => line.trim_end_matches('|').split('|').map(str::trim).collect(),
        false => line.split_whitespace().collect(),
    };
    if cells.len() != columns.len() {
        return Err(format!("`{line}` has {} cells of {}", cells.len(), columns.len()));
    }
    let mut row = Row { clients: None, label: None, conditions: Conditions::default(), figures: Vec::new() };
    for (cell, column) in cells.into_iter().zip(columns) {
        match column {
            Column::Clients => {
                row.clients = Some(cell.parse().map_err(|error| format!("`{cell}`: {error}"))?)
            }
            Column::Label("") => row.label = Some(cell.to_owned()),
            Column::Label("page ") => row.label = Some(format!("page {cell}")),
            Column::Label(unit) => {
                row.label = Some(format!("{cell}{unit}{}", if cell == "1" { "" } else { "s" }));
                row.conditions.cpus = Some(cell.parse().map_err(|error| format!("`{cell}`: {error}"))?);
            }
            Column::Of(_) if matches!(cell, "-" | "NA") => {}
            Column::Of(quantity) => {
                let digits = cell.replace(',', "");
                let value: f64 =
                    digits.trim_end_matches('%').parse().map_err(|error| format!("`{cell}`: {error}"))?;
                row.figures.push(Figure {
                    quantity: *quantity,
                    printed: cell.to_owned(),
                    value: value * quantity.factor(document),
                });
            }
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_id(id: &str) -> &'static Published {
        published().iter().find(|published| published.id == id).unwrap()
    }

    #[test]
    fn the_file_holds_the_five_documents() {
        let all = read(include_str!("published.toml")).unwrap();
        let mut documents: Vec<&str> = all.iter().map(|published| published.document.id.as_str()).collect();
        documents.dedup();
        assert_eq!(documents, ["webstone-paper", "fasttrack", "proliant-5000", "netserver-lt6000r", "wasd"]);
        let count = |id: &str| all.iter().filter(|published| published.document.id == id).count();
        assert_eq!(
            documents.iter().map(|id| count(id)).collect::<Vec<_>>(),
            [4, 12, 9, 5, 6],
            "Netsite and NCSA with their pages, 6 loads on 1 and 2 CPUs, 3 each on 1, 2 and 4, tables 1 to 5, 6 tables"
        );
        let figures: usize =
            all.iter().flat_map(|published| &published.rows).map(|row| row.figures.len()).sum();
        assert_eq!(figures, 2 * 15 + 12 * 8 + 12 * 8 * 4 + 16 + 5 * 4 + 15 - 2 + 4 * 6 + 4 * 2 + 2 * 12 + 4);
        let mut ids: Vec<&str> = all.iter().map(|published| published.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }

    /// What the abstracts and summaries of the documents say of their own tables.
    #[test]
    fn tables_agree_with_the_sentences_about_them() {
        let peak = |id: &str, quantity| {
            let values =
                by_id(id).rows.iter().filter_map(|row| row.figure(quantity)).map(|figure| figure.value);
            values.fold(0.0, f64::max)
        };
        let rate = |id: &str| peak(id, Quantity::ConnectionRate);
        // FastTrack, abstract: 263, 25, 78 and 134 connections per second; with the second CPU 30 %, 60 %, 23 to 52 %.
        assert_eq!([rate("fasttrack-1cpu-html"), rate("fasttrack-1cpu-cgi")], [263.0, 25.0]);
        assert_eq!(rate("fasttrack-1cpu-nsapi-c"), 134.0);
        let gain = |load: &str| {
            rate(&format!("fasttrack-2cpu-{load}")) / rate(&format!("fasttrack-1cpu-{load}")) * 100.0 - 100.0
        };
        assert_eq!(
            [gain("html"), gain("cgi"), gain("nsapi"), gain("nsapi-c")].map(f64::round),
            [30.0, 60.0, 23.0, 52.0]
        );
        // FastTrack, Network: at most 18.46 Mbit/s, of 2^20 bits.
        assert_eq!(peak("fasttrack-2cpu-html", Quantity::Throughput), 18.5 * 1_048_576.0);
        // ProLiant, Performance Analysis: 137.7 Mbit/s is 68.85 % of two networks of 100 Mbit/s, if they are of 2^20 bits, too.
        let share = peak("proliant-2cpu-html", Quantity::Throughput) / (200.0 * 1_048_576.0);
        assert!((share - 0.6885).abs() < 1e-9, "{share}");
        // NetServer: each "% Than 1 CPU" follows from its request rates, to a percent.
        for published in published().iter().filter(|published| published.document.id == "netserver-lt6000r") {
            let one = published.rows[0].figure(Quantity::RequestRate).unwrap().value;
            for row in &published.rows[1..] {
                let (Some(rate), Some(scaling)) =
                    (row.figure(Quantity::RequestRate), row.figure(Quantity::Scaling))
                else {
                    continue;
                };
                assert!(
                    (rate.value / one * 100.0 - 100.0 - scaling.value).abs() <= 1.0,
                    "{} {}",
                    published.id,
                    row.name()
                );
            }
        }
        // WebStone paper: hits and connects of the pages add up to the totals.
        for id in ["netsite", "ncsa"] {
            let pages = by_id(&format!("{id}-pages"));
            let sum =
                |quantity| pages.rows.iter().map(|row| row.figure(quantity).unwrap().value).sum::<f64>();
            let total = |quantity| by_id(id).rows[0].figure(quantity).unwrap().value;
            assert_eq!(sum(Quantity::Hits), total(Quantity::Pages), "{id}");
            let connects = sum(Quantity::Connects) - total(Quantity::Connects);
            // The paper's own sums: Netsite's pages have 12,092 connects and its totals 12,099; NCSA's 3,898 and 3,920.
            assert_eq!(connects, if id == "netsite" { -7.0 } else { -22.0 }, "{id}");
        }
        // WASD: 200 accesses divided by their duration give the rate, within the rounding of both.
        for published in published()
            .iter()
            .filter(|published| ["wasd-cached", "wasd-uncached"].contains(&published.id.as_str()))
        {
            for row in &published.rows {
                let of = |quantity| row.figure(quantity).unwrap().value;
                assert!(
                    (200.0 / of(Quantity::Duration) - of(Quantity::RequestRate)).abs() < 1.0,
                    "{} {}",
                    published.id,
                    row.name()
                );
            }
        }
    }

    /// Bytes per connection show which megabit a table counts in: WebStone's lists have them with 2^20 bits.
    #[test]
    fn a_megabit_of_webstone_has_2_to_the_20_bits() {
        let bytes = |id: &str, row: usize| {
            let value = |quantity| by_id(id).rows[row].figure(quantity).unwrap().value;
            value(Quantity::Throughput) / 8.0 / value(Quantity::ConnectionRate)
        };
        // Silicon Surf: 7,026 bytes per access with headers; filelist.standard: 19,773 bytes and a head.
        assert!((bytes("fasttrack-1cpu-html", 0) - 7_026.0).abs() < 50.0);
        assert!(
            (bytes("proliant-2cpu-html", 0) - 19_773.0).abs() < 500.0,
            "{}",
            bytes("proliant-2cpu-html", 0)
        );
    }

    #[test]
    fn a_table_by_clients_has_points_and_a_peak() {
        let html = by_id("fasttrack-1cpu-html");
        let points = html.points(Quantity::ConnectionRate);
        assert_eq!((points.len(), points[0], points[7]), (8, (16, 262.0), (128, 256.0)));
        assert_eq!(html.peak().clients, Some(32));
        assert!(by_id("lt6000r-asp").points(Quantity::RequestRate).is_empty());
        assert_eq!(by_id("lt6000r-asp").peak().name(), "6 CPUs");
        assert!(html.has_peak() && !by_id("netsite-pages").has_peak(), "pages have hits, and no rate");
    }

    #[test]
    fn a_name_or_a_system_finds_its_results() {
        let found = |text: &str| published().iter().filter(|published| published.matches(text)).count();
        assert_eq!((found("FASTTRACK"), found("ProLiant"), found("pentium"), found("IIS 5")), (12, 9, 26, 5));
        assert_eq!(found("no such server"), 0);
    }
}
