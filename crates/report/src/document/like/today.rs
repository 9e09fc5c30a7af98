//! The values of today's servers below a printed row: a quantity of the record that was measured under the row's conditions.

use webstone_judge::verdict;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::{Measured, PageTotals};
use webstone_model::record::RunRecord;

use super::Source;
use crate::classic::page_size;
use crate::history::{Published, Quantity, Row, beside};
use crate::summary;

/// A server of today.
pub(super) struct Today {
    pub(super) name: String,
    /// Its cells whose figures do not count: name, verdict, first reason.
    pub(super) doubted: Vec<(String, &'static str, Option<String>)>,
    found: Vec<Found>,
}

/// A printed row and a record that was measured under its conditions.
struct Found {
    id: &'static str,
    row: &'static Row,
    figures: Vec<(Quantity, f64, u32)>,
    cell: String,
    levels: std::rc::Rc<Vec<Drawn>>,
    is_doubted: bool,
}

/// A level, as tables and figures need it.
pub(super) struct Drawn {
    pub(super) clients: u32,
    pub(super) request_rate: f64,
    pub(super) throughput_bps: f64,
    pub(super) response_bytes: f64,
    latency_s: f64,
    connection_rate: f64,
}

impl Drawn {
    pub(super) fn value(&self, quantity: Quantity) -> f64 {
        match quantity {
            Quantity::Latency => self.latency_s,
            Quantity::Throughput => self.throughput_bps,
            Quantity::ConnectionRate => self.connection_rate,
            _ => self.request_rate,
        }
    }
}

/// A value of today.
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) clients: u32,
    is_doubted: bool,
}

impl Value {
    /// The text, with a `*` if the value is doubtful.
    pub(super) fn marked(&self, text: &str) -> String {
        if self.is_doubted { format!("{text}*") } else { text.to_owned() }
    }
}

impl Today {
    pub(super) fn of_source(source: Source, results: &[&'static Published]) -> Today {
        let mut today = Today { name: source.name, doubted: Vec::new(), found: Vec::new() };
        for record in &source.records {
            today.take(record, results);
        }
        today
    }

    fn take(&mut self, record: &RunRecord, results: &[&'static Published]) {
        let verdict = verdict::of_record(record);
        let is_doubted = !verdict.standing.is_conclusive();
        let levels: Vec<Drawn> = summary::levels(record)
            .iter()
            .map(|level| Drawn {
                clients: level.clients,
                request_rate: level.figures.request_rate,
                throughput_bps: level.figures.throughput_bps,
                response_bytes: summary::merged(&level.runs).response_bytes.mean(),
                latency_s: level.figures.latency_mean_s,
                connection_rate: level.figures.connection_rate,
            })
            .collect();
        let levels = std::rc::Rc::new(levels);
        let before = self.found.len();
        for compared in beside(record, results) {
            let figures = compared.figures.iter().map(|figure| (figure.quantity, figure.run, figure.clients));
            let mut figures: Vec<_> = figures.collect();
            let row = compared.row;
            let first =
                record.iterations.iter().find(|run| row.clients.is_none_or(|clients| run.clients == clients));
            if let Some(run) = first {
                let wanted = row.figures.iter().map(|figure| figure.quantity);
                let missing = wanted.filter(|quantity| !figures.iter().any(|(known, ..)| known == quantity));
                let of_run: Vec<_> = missing
                    .filter_map(|quantity| Some((quantity, of_run(quantity, &run.measured)?, run.clients)))
                    .collect();
                figures.extend(of_run);
            }
            let levels = levels.clone();
            self.found.push(Found {
                id: &compared.published.id,
                row,
                figures,
                cell: record.spec.name.clone(),
                levels,
                is_doubted,
            });
        }
        self.pages(record, results, &levels, is_doubted);
        if self.found.len() > before && is_doubted {
            self.doubted.push((
                record.spec.name.clone(),
                verdict.standing.word(),
                verdict.told().into_iter().next(),
            ));
        }
    }

    /// Tables by page are compared with the run that the totals of the same document are compared with.
    fn pages(
        &mut self,
        record: &RunRecord,
        results: &[&'static Published],
        levels: &std::rc::Rc<Vec<Drawn>>,
        is_doubted: bool,
    ) {
        for result in results.iter().filter(|result| result.quantities.contains(&Quantity::Hits)) {
            let totals = result.id.trim_end_matches("-pages");
            let Some(found) =
                self.found.iter().find(|found| found.id == totals && found.cell == record.spec.name)
            else {
                continue;
            };
            let clients = found.row.clients;
            let run =
                record.iterations.iter().find(|run| clients.is_none_or(|clients| run.clients == clients));
            let Some((run, rows)) = run.and_then(|run| Some((run, record.page_rows(run, usize::MAX).ok()?)))
            else {
                continue;
            };
            for (place, row) in result.rows.iter().enumerate() {
                let Some(page) = rows.iter().find(|page| page.page as usize == place) else { continue };
                let size = page_size(record, place, &page.totals).unwrap_or_default();
                let quantities = result.quantities.iter();
                let figures =
                    quantities.filter_map(|it| Some((*it, of_page(*it, &page.totals, size)?, run.clients)));
                self.found.push(Found {
                    id: &result.id,
                    row,
                    figures: figures.collect(),
                    cell: record.spec.name.clone(),
                    levels: levels.clone(),
                    is_doubted,
                });
            }
        }
    }

    fn found(&self, result: &Published, row: &Row) -> Option<&Found> {
        self.found.iter().find(|found| found.id == result.id && std::ptr::eq(found.row, row))
    }

    /// The value of a quantity under the conditions of a row.
    pub(super) fn value(&self, result: &Published, row: &Row, quantity: Quantity) -> Option<Value> {
        if quantity == Quantity::Scaling {
            // The row of the fewest CPUs has no row to compare with.
            let first = result.rows.first().filter(|first| !std::ptr::eq(*first, row))?;
            let (one, this) = (
                self.value(result, first, Quantity::RequestRate)?,
                self.value(result, row, Quantity::RequestRate)?,
            );
            let value = 100.0 * (this.value / one.value - 1.0);
            return Some(Value { value, is_doubted: one.is_doubted || this.is_doubted, ..this });
        }
        let found = self.found(result, row)?;
        let (_, value, clients) = *found.figures.iter().find(|(known, ..)| *known == quantity)?;
        Some(Value { value, clients, is_doubted: found.is_doubted })
    }

    /// The levels of the cell that was measured under the conditions of a row, with the cell's name.
    pub(super) fn levels(&self, result: &Published, row: &Row) -> Option<(String, &[Drawn])> {
        let found = self.found(result, row)?;
        Some((found.cell.clone(), &found.levels[..]))
    }
}

/// Totals of one timed run, which depend on how long it was.
fn of_run(quantity: Quantity, measured: &Measured) -> Option<f64> {
    let counts = &measured.counts;
    Some(match quantity {
        Quantity::Pages => counts.pages_completed as f64,
        Quantity::Errors => counts.failed as f64,
        Quantity::Connects => counts.succeeded as f64,
        Quantity::BytesMoved => measured.response_bytes.sum as f64,
        Quantity::CumulativeTime => measured.response.sum as f64 / 1e9,
        Quantity::BodyBytes => measured.body_bytes.sum as f64,
        Quantity::HeadBytes => measured.response_bytes.sum.saturating_sub(measured.body_bytes.sum) as f64,
        other => return other.value(&Figures::of_measured(measured), measured),
    })
}

fn of_page(quantity: Quantity, page: &PageTotals, size: u64) -> Option<f64> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    Some(match quantity {
        Quantity::Hits => page.hits as f64,
        Quantity::PageTime => seconds(page.time_ns),
        Quantity::PageTimeMax => seconds(page.time_ns_max),
        Quantity::ConnectTime => seconds(page.connect_ns),
        Quantity::ConnectMax => seconds(page.connect_ns_max),
        Quantity::PageBytes => page.body_bytes as f64,
        Quantity::PageSize => size as f64,
        Quantity::Connects => page.requests as f64,
        _ => return None,
    })
}
