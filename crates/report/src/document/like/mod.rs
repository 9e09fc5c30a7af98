//! The tables and figures of five published documents in their printed shape, with today's values under the printed ones. The shapes
//! are data (`shapes.toml`), and so is what was printed (`history/published.toml`): here rows are filled, whatever the document.
//!
//! A row of today stands below a printed one only if it was measured under its conditions (`history::beside`); NA otherwise.

mod charts;
#[cfg(test)]
mod tests;
mod today;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use webstone_model::record::RunRecord;
use webstone_model::toml_text;

use crate::document::table::{Room, Sheet, Table};
use crate::document::{Block, Document, Tone};
use crate::history::{CAUTION, Published, Quantity, Row, published};
use crate::numbers::{count, counted, decimal};
use crate::render::drawn;
use crate::{Format, Options, ReportError, Subject, html, outgoing};

use today::Today;

/// A server of a series, or a single run, with its records.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its records.
    pub records: Vec<RunRecord>,
}

/// The documents that `--like` knows.
pub fn names() -> Vec<&'static str> {
    shapes().iter().map(|shape| shape.name.as_str()).collect()
}

/// A document's tables and figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    name: String,
    /// The documents of `published.toml` whose results it shows.
    documents: Vec<String>,
    title: String,
    /// Head of the column that names rows.
    #[serde(default)]
    label: String,
    /// What the document prints where it has no number.
    #[serde(default)]
    missing: String,
    note: Option<String>,
    /// Heads of columns, on two lines.
    #[serde(default)]
    heads: BTreeMap<String, (String, String)>,
    #[serde(rename = "table")]
    tables: Vec<Form>,
    #[serde(default, rename = "figure")]
    figures: Vec<Drawn>,
    #[serde(default)]
    bars: Vec<Drawn>,
}

/// A figure: a quantity of several results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawn {
    title: String,
    quantity: Quantity,
    #[serde(default)]
    of: Vec<String>,
    /// Title of a table of shares, to draw as bars.
    #[serde(default)]
    shares: Option<String>,
}

impl Drawn {
    fn results(&self) -> impl Iterator<Item = &'static Published> {
        self.of.iter().map(|id| result(id))
    }
}

/// A table; `shapes.toml` says what each kind is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Form {
    title: String,
    each: Option<String>,
    crossed: Option<String>,
    columns: Vec<String>,
    lines: Vec<(String, Quantity, String)>,
    peaks: Vec<Vec<String>>,
    turned: Vec<String>,
    row: usize,
    shares: Vec<(String, String, usize, String, usize)>,
    quantity: Option<Quantity>,
    head: (String, String),
    sizes: Option<String>,
}

impl Form {
    /// A line of a table of shares, in percent: of a server of today, or as it was printed.
    fn share(&self, place: usize, today: Option<&Today>) -> Option<f64> {
        let (_, id, row, other, other_row) = &self.shares[place];
        let quantity = self.quantity.unwrap_or(Quantity::RequestRate);
        let value = |id: &str, row: usize| {
            let (result, row) = (result(id), &result(id).rows[row]);
            match today {
                Some(today) => today.value(result, row, quantity).map(|it| it.value),
                None => row.figure(quantity).map(|figure| figure.value),
            }
        };
        let (a, b) = (value(id, *row)?, value(other, *other_row)?);
        (b > 0.0).then(|| 100.0 * a / b)
    }
}

fn shapes() -> &'static [Shape] {
    #[derive(Deserialize)]
    struct File {
        like: Vec<Shape>,
    }
    static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
        let text = include_str!("shapes.toml");
        let read: Result<File, String> =
            toml_text::read(text).map_err(|error| format!("line {}: {}", error.line(text), error.rule));
        read.expect("a test reads shapes.toml").like
    });
    &SHAPES
}

fn result(id: &str) -> &'static Published {
    published().iter().find(|result| result.id == id).expect("a test finds every result of shapes.toml")
}

/// Makes the report: the shape of a document, filled with these sources and with the user's own results, each of which names the printed
/// one that it stands beside.
///
/// # Errors
/// [`ReportError::NoSuchDocument`], [`ReportError::NoSuchForm`]; [`ReportError::Json`] if serialising fails.
pub fn render(
    name: &str,
    sources: Vec<Source>,
    own: &[Published],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, ReportError> {
    let is_meant =
        |shape: &&Shape| shape.name == name || shape.documents.iter().any(|document| document == name);
    let shape = shapes().iter().find(is_meant).ok_or_else(|| ReportError::NoSuchDocument(name.to_owned()))?;
    let ids: Vec<&'static Published> =
        published().iter().filter(|result| shape.documents.contains(&result.document.id)).collect();
    let today: Vec<Today> = sources.into_iter().map(|source| Today::of_source(source, &ids)).collect();
    let filled = Filled { shape, today, own };
    match Subject::Like.check(format)? {
        Format::Html => Ok(outgoing::text(&html::of_document("webstone report", "", &filled.document()))),
        Format::Json => Ok(outgoing::json(&filled.sheets())?),
        _ => Ok(drawn(&filled.document(), format, options)),
    }
}

/// A shape with what fills it.
struct Filled<'a> {
    shape: &'static Shape,
    today: Vec<Today>,
    own: &'a [Published],
}

/// A line of a table: what names it, whose it is, its numbers.
struct Line {
    group: Option<String>,
    label: String,
    clients: String,
    whose: String,
    cells: Vec<String>,
    tone: Tone,
}

impl Filled<'_> {
    fn document(&self) -> Document {
        let mut doc = Document::default();
        doc.title("", format!("{}, then and now", self.shape.title));
        self.notes().into_iter().for_each(|note| doc.note(Tone::Faint, note));
        doc.part("figures", "Figures", Document::of_charts(charts::all(self)));
        doc.part("tables", "Tables", Document(self.sheets().into_iter().map(Block::Sheet).collect()));
        doc
    }

    /// What has to be known before the first number.
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![CAUTION.to_owned()];
        notes.extend(self.shape.note.clone());
        notes.push("NA: not measured under the conditions of that row.".to_owned());
        let mut doubted = self.today.iter().flat_map(|today| &today.doubted);
        if let Some((cell, word, why)) = doubted.next() {
            let others = match doubted.count() {
                0 => String::new(),
                more => format!(
                    " {} marked, too; the report of the series has the reasons.",
                    counted(more as u64, "more cell is", "more cells are")
                ),
            };
            let why = why.as_deref().unwrap_or("its figures prove nothing");
            notes.push(format!("*: {cell} is {word}: {why}.{others}"));
        }
        notes
    }

    fn sheets(&self) -> Vec<Sheet> {
        self.shape
            .tables
            .iter()
            .filter_map(|form| Some(Sheet::new(&*form.title, "", self.table(form)?)))
            .collect()
    }

    fn head(&self, quantity: Quantity) -> (String, String) {
        let name = serde_json::to_value(quantity).ok().and_then(|name| name.as_str().map(str::to_owned));
        let known = name.and_then(|name| self.shape.heads.get(&name).cloned());
        known.unwrap_or_else(|| (quantity.name().to_owned(), quantity.unit().to_owned()))
    }

    fn table(&self, form: &Form) -> Option<Table> {
        if let Some(id) = &form.each {
            return Some(self.each(result(id)));
        }
        if let Some(id) = &form.crossed {
            return Some(self.crossed(result(id), form));
        }
        if !form.peaks.is_empty() {
            return Some(self.peaks(&form.peaks));
        }
        if !form.turned.is_empty() {
            let results: Vec<_> = form.turned.iter().map(|id| result(id)).collect();
            return Some(self.turned(&results, form.row));
        }
        match &form.sizes {
            Some(id) => self.sizes(result(id)),
            None => Some(self.shares(form)),
        }
    }

    /// Sources that have a line below each printed one: results of the user's own, then servers of today.
    fn below(
        &self,
        result: &Published,
        row: usize,
        cell: &dyn Fn(Whose<'_>) -> Vec<String>,
    ) -> Vec<(String, Vec<String>)> {
        let own = self.own.iter().filter(|own| own.beside.as_deref() == Some(&result.id));
        let same = |own: &&Published| own.row_like(&result.rows[row]).is_some();
        let own = own.filter(same).map(|own| (own.server.clone(), cell(Whose::Own(own))));
        own.chain(self.today.iter().map(|today| (today.name.clone(), cell(Whose::Today(today))))).collect()
    }

    fn each(&self, result: &'static Published) -> Table {
        let mut lines = Vec::new();
        for (place, row) in result.rows.iter().enumerate() {
            let printed = |quantity: &Quantity| {
                row.figure(*quantity).map_or_else(|| self.missing(place, *quantity), |it| it.printed.clone())
            };
            let cells =
                |whose: Whose<'_>| result.quantities.iter().map(|it| whose.cell(result, row, *it)).collect();
            let below = self.below(result, place, &cells);
            lines.extend(named(row, &year(result), result.quantities.iter().map(printed).collect(), below));
        }
        let label = result.rows.iter().any(|row| row.label.is_some());
        let heads = result.quantities.iter().map(|it| self.head(*it)).collect::<Vec<_>>();
        self.drawn(&lines, label.then_some(self.shape.label.as_str()), self.clients_head(result), &heads)
    }

    /// The first row of a table of gains has no row before it to compare with.
    fn missing(&self, place: usize, quantity: Quantity) -> String {
        if quantity == Quantity::Scaling && place == 0 { "-".to_owned() } else { self.shape.missing.clone() }
    }

    fn clients_head(&self, result: &Published) -> Option<(String, String)> {
        let named = || self.shape.heads.get("clients").cloned();
        let has_clients = result.rows.iter().any(|row| row.clients.is_some());
        has_clients.then(|| named().unwrap_or_else(|| (self.shape.label.clone(), String::new())))
    }

    fn crossed(&self, result: &'static Published, form: &Form) -> Table {
        let mut lines = Vec::new();
        for (head, quantity, key) in &form.lines {
            let rows: Vec<(usize, &Row)> = (form.columns.iter())
                .filter_map(|column| {
                    let label = format!("{column}, {key}");
                    result.rows.iter().enumerate().find(|(_, row)| row.label.as_deref() == Some(&label))
                })
                .collect();
            let printed = |(_, row): &(usize, &Row)| {
                row.figure(*quantity).map(|it| it.printed.clone()).unwrap_or_default()
            };
            let cells =
                |whose: Whose<'_>| rows.iter().map(|(_, row)| whose.cell(result, row, *quantity)).collect();
            let below = self.below(result, rows[0].0, &cells);
            let mut named = named(rows[0].1, &year(result), rows.iter().map(printed).collect(), below);
            named[0].label.clone_from(head);
            lines.extend(named);
        }
        let heads: Vec<_> = form
            .columns
            .iter()
            .map(|column| match column.split_once(' ') {
                Some((first, rest)) => (first.to_owned(), rest.to_owned()),
                None => (column.clone(), String::new()),
            })
            .collect();
        self.drawn(&lines, Some(""), None, &heads)
    }

    /// `HTML: 820 @ 50 clients`.
    fn peaks(&self, groups: &[Vec<String>]) -> Table {
        let quantities = [Quantity::ConnectionRate, Quantity::Throughput];
        let mut lines = Vec::new();
        for group in groups {
            for (place, id) in group[1..].iter().enumerate() {
                let result = result(id);
                let printed = |quantity: Quantity| {
                    printed_peak(result, quantity).unwrap_or_else(|| self.shape.missing.clone())
                };
                let cells = |whose: Whose<'_>| quantities.iter().map(|it| whose.peak(result, *it)).collect();
                let below = self.below(result, 0, &cells);
                let mut named = named(
                    row_of(result, quantities[0]),
                    &year(result),
                    quantities.map(printed).to_vec(),
                    below,
                );
                named[0].label = format!("{}:", result.load);
                named[0].group = (place == 0).then(|| group[0].clone());
                named.iter_mut().for_each(|line| line.clients.clear());
                lines.extend(named);
            }
        }
        let heads: Vec<_> = quantities.iter().map(|it| self.head(*it)).collect();
        self.drawn(&lines, Some(&self.shape.label), None, &heads)
    }

    /// Rows in percent of other rows.
    fn shares(&self, form: &Form) -> Table {
        let mut lines = Vec::new();
        for (place, (label, id, row, ..)) in form.shares.iter().enumerate() {
            let result = result(id);
            let percent = |today| {
                form.share(place, today).map_or_else(|| "NA".to_owned(), |percent| format!("{percent:.0}%"))
            };
            let below = self.today.iter().map(|today| (today.name.clone(), vec![percent(Some(today))]));
            let printed = vec![percent(None)];
            let mut named = named(&result.rows[*row], &year(result), printed, below.collect());
            named[0].label.clone_from(label);
            named.iter_mut().for_each(|line| line.clients.clear());
            lines.extend(named);
        }
        self.drawn(&lines, Some(""), None, std::slice::from_ref(&form.head))
    }

    /// What a drawing of shares has for a server of today, or as printed: names and percent.
    fn shares_of(&self, drawn: &Drawn, today: Option<&Today>) -> Option<Vec<(String, f64)>> {
        let title = drawn.shares.as_ref()?;
        let form = self.shape.tables.iter().find(|form| form.title == *title)?;
        let known = form.shares.iter().enumerate();
        Some(
            known
                .filter_map(|(place, (label, ..))| Some((label.clone(), form.share(place, today)?)))
                .collect(),
        )
    }

    /// The lines as a table.
    fn drawn(
        &self,
        lines: &[Line],
        label: Option<&str>,
        clients: Option<(String, String)>,
        heads: &[(String, String)],
    ) -> Table {
        let mut table = Table::with_rows(lines);
        if let Some(label) = label {
            table.text(label, Room::Flexible(14), |line| &line.label);
        }
        if let Some((name, unit)) = clients {
            table.number(name, unit, Room::Always, |line| &line.clients);
        }
        table.text("", Room::Flexible(10), |line| &line.whose);
        for (place, (name, unit)) in heads.iter().enumerate() {
            table.number(name, unit, Room::Always, move |line| line.cells.get(place));
        }
        table.groups(|line| line.group.clone()).tones(|line| line.tone).done()
    }

    /// A line for each quantity, in the document's words.
    fn turned(&self, results: &[&'static Published], row: usize) -> Table {
        let first = results[0];
        let words = |quantity: &Quantity| {
            let name = serde_json::to_value(quantity).unwrap_or_default();
            name.as_str().and_then(|name| first.document.wording.get(name).cloned()).unwrap_or_default()
        };
        let mut table = Table::with_rows(&first.quantities);
        table.text("", Room::Flexible(20), words);
        for result in results {
            let printed =
                |quantity: &Quantity| result.rows[row].figure(*quantity).map(|it| it.printed.clone());
            table.number(result.server.clone(), year(result), Room::Always, printed);
        }
        for today in &self.today {
            let cell = |quantity: &Quantity| Whose::Today(today).cell(first, &first.rows[row], *quantity);
            table.number(today.name.clone(), "", Room::Always, cell);
        }
        table.done()
    }

    /// Today's servers only: the document prints no such table, but says how to make one.
    fn sizes(&self, result: &'static Published) -> Option<Table> {
        let mut rows = Vec::new();
        for today in &self.today {
            for row in &result.rows {
                let (_, levels) = today.levels(result, row).unwrap_or_default();
                let name = || match &row.label {
                    Some(label) => format!("{label}, {}", today.name),
                    None => today.name.clone(),
                };
                rows.extend(levels.iter().map(|level| (name(), level)));
            }
        }
        rows.first()?;
        let mut table = Table::with_rows(&rows);
        table.text("", Room::Flexible(14), |(name, _)| name);
        table.number("clients", "", Room::Always, |(_, level)| level.clients);
        table.number("requests", "per second", Room::Always, |(_, level)| told(level.request_rate, 0));
        table.number("throughput", "bytes/s", Room::Always, |(_, level)| told(level.throughput_bps / 8.0, 0));
        table.number("mean response", "bytes", Room::Always, |(_, level)| told(level.response_bytes, 0));
        Some(table.done())
    }
}

/// A printed line, and those below it.
fn named(row: &Row, printed: &str, cells: Vec<String>, below: Vec<(String, Vec<String>)>) -> Vec<Line> {
    let label = row.label.clone().unwrap_or_default();
    let label = label.trim_end_matches(" CPUs").trim_end_matches(" CPU").to_owned();
    let clients = row.clients.map(|clients| count(clients.into())).unwrap_or_default();
    let first = Line { group: None, label, clients, whose: printed.to_owned(), cells, tone: Tone::Faint };
    let today = below.into_iter().map(|(whose, cells)| Line {
        group: None,
        label: String::new(),
        clients: String::new(),
        whose,
        cells,
        tone: Tone::Plain,
    });
    std::iter::once(first).chain(today).collect()
}

fn year(result: &Published) -> String {
    result.document.year.map_or_else(|| "printed".to_owned(), |year| year.to_string())
}

/// Where a number below a printed one comes from.
enum Whose<'a> {
    Own(&'a Published),
    Today(&'a Today),
}

impl Whose<'_> {
    /// A number, with at least as many decimals as the printed one.
    fn cell(&self, result: &Published, row: &Row, quantity: Quantity) -> String {
        let found = match self {
            Whose::Own(own) => {
                own.row_like(row).and_then(|row| row.figure(quantity)).map(|it| it.printed.clone())
            }
            Whose::Today(today) => match today.value(result, row, quantity) {
                None if quantity == Quantity::Scaling && std::ptr::eq(row, &result.rows[0]) => {
                    Some("-".to_owned())
                }
                found => found.map(|it| it.marked(&printed_as(it.value, quantity, result, row))),
            },
        };
        found.unwrap_or_else(|| "NA".to_owned())
    }

    /// The peak, with the number of clients at which it was reached.
    fn peak(&self, result: &Published, quantity: Quantity) -> String {
        let found = match self {
            Whose::Own(own) => printed_peak(own, quantity),
            Whose::Today(today) => {
                let row = row_of(result, quantity);
                today.value(result, row, quantity).map(|it| {
                    let value = printed_as(it.value, quantity, result, row);
                    it.marked(&format!("{value} @ {} clients", count(it.clients.into())))
                })
            }
        };
        found.unwrap_or_else(|| "NA".to_owned())
    }
}

/// The row of a result that has a figure.
fn row_of(result: &Published, quantity: Quantity) -> &Row {
    result.rows.iter().find(|row| row.figure(quantity).is_some()).unwrap_or(&result.rows[0])
}

/// `820 @ 50 clients`, as it was printed.
fn printed_peak(result: &Published, quantity: Quantity) -> Option<String> {
    let row = row_of(result, quantity);
    let printed = &row.figure(quantity)?.printed;
    Some(format!("{printed} @ {} clients", row.clients.unwrap_or_default()))
}

/// A value in the unit of its document.
fn printed_as(value: f64, quantity: Quantity, result: &Published, row: &Row) -> String {
    let value = value / quantity.factor(&result.document);
    if quantity == Quantity::Scaling {
        return format!("{value:.0}%");
    }
    let printed = row.figure(quantity).and_then(|figure| figure.printed.split_once('.'));
    told(value, printed.map_or(0, |(_, decimals)| decimals.len()))
}

/// With at least this number of decimals; below 1, with at least two digits.
fn told(value: f64, decimals: usize) -> String {
    let small = if value > 0.0 && value < 1.0 { (1.0 - value.log10().floor()) as usize } else { 0 };
    decimal(value, decimals.max(small.min(6)))
}
