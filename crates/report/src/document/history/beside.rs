//! A run beside published results: the same figures, measured under the same conditions, and their ratio.

use serde::Serialize;
use webstone_model::record::RunRecord;

use super::conditions::RunConditions;
use super::{Other, Published, Quantity, Row};
use crate::summary::{self, Level};

/// One row of a published table with a level of a run beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison<'a> {
    /// The published table.
    #[serde(skip)]
    pub published: &'a Published,
    /// Its short name.
    pub id: &'a str,
    /// The published row.
    pub row: &'a Row,
    /// The run.
    pub run: String,
    /// Whether it is the published table's row of the highest rate.
    pub peak: bool,
    /// Figures that both have, in the order of the table.
    pub figures: Vec<Beside>,
}

/// A figure of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// What it is.
    pub quantity: Quantity,
    /// The published value, in the unit of the quantity.
    pub published: f64,
    /// The run's value, in the same unit.
    pub run: f64,
    /// Clients of the run's level: the row's number, or that of the run's own peak if the table is of peaks.
    pub clients: u32,
    /// The run's value divided by the published one; `None` where that is zero.
    pub ratio: Option<f64>,
}

/// Published results that a run is not compared with, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Apart<'a> {
    /// The run.
    pub run: String,
    /// The condition in which they differ.
    pub other: Other,
    /// Short names of the tables.
    pub ids: Vec<&'a str>,
}

/// Compares the run with each of these results: with every row measured under the same conditions, at the same number of clients. Tables of
/// peaks are compared with the run's own peaks. Rows without a figure in common are left out.
pub fn beside<'a>(record: &RunRecord, published: &[&'a Published]) -> Vec<Comparison<'a>> {
    let levels = summary::levels(record);
    let run = RunConditions::of_record(record);
    let rows = published.iter().flat_map(|result| {
        let peak = result.peak();
        result.rows.iter().map(move |row| (*result, row, std::ptr::eq(row, peak)))
    });
    let rows = rows.filter(|(result, row, _)| unmet(result, row, &run, &levels).is_none());
    let compared = rows.map(|(result, row, peak)| Comparison {
        published: result,
        id: &result.id,
        row,
        run: record.id.clone(),
        peak,
        figures: figures(result, row, &run, &levels),
    });
    compared.filter(|compared| !compared.figures.is_empty()).collect()
}

/// The results that no level of the run can be compared with, grouped by the first condition that the closest level does not meet.
pub fn apart<'a>(record: &RunRecord, published: &[&'a Published]) -> Vec<Apart<'a>> {
    let levels = summary::levels(record);
    let run = RunConditions::of_record(record);
    let mut found: Vec<Apart<'a>> = Vec::new();
    for result in published.iter().filter(|result| is_of_levels(result)) {
        let unmet =
            result.rows.iter().map(|row| unmet(result, row, &run, &levels)).collect::<Option<Vec<_>>>();
        let Some(other) = unmet.and_then(|unmet| unmet.into_iter().max()) else { continue };
        match found.iter_mut().find(|apart| apart.other == other) {
            Some(apart) => apart.ids.push(&result.id),
            None => found.push(Apart { run: record.id.clone(), other, ids: vec![&result.id] }),
        }
    }
    found.sort_by_key(|apart| apart.other);
    found
}

/// False for tables by page: a row of theirs is about one page, a level's figures are about all.
fn is_of_levels(result: &Published) -> bool {
    !result.quantities.contains(&Quantity::Hits)
}

fn unmet(result: &Published, row: &Row, run: &RunConditions<'_>, levels: &[Level<'_>]) -> Option<Other> {
    let has_level = || {
        clients_of(row)
            .is_none_or(|clients| result.document.peaks || levels.iter().any(|it| it.clients == clients))
    };
    match is_of_levels(result) {
        false => Some(Other::Workload),
        true => row.conditions.unmet(run).or_else(|| (!has_level()).then_some(Other::Clients)),
    }
}

fn clients_of(row: &Row) -> Option<u32> {
    row.clients.or(row.conditions.clients)
}

fn figures(result: &Published, row: &Row, run: &RunConditions<'_>, levels: &[Level<'_>]) -> Vec<Beside> {
    let of = |figure: &super::Figure| {
        let quantity = figure.quantity;
        let value = |level: &Level<'_>| match quantity {
            Quantity::Duration => {
                let whole = run.batch.is_some() && run.batch == row.conditions.batch && !level.interrupted();
                // Iterations of a level are merged; the batch is one of them.
                whole.then(|| level.figures.test_time_s / level.runs.len() as f64)
            }
            quantity => quantity.value(&level.figures, &summary::merged(&level.runs)),
        };
        let of_level = |level: &Level<'_>| Some((value(level)?, level.clients));
        // For a table of peaks, or one without clients, the run's best level counts.
        let (run, clients) = match clients_of(row) {
            Some(clients) if !result.document.peaks => {
                of_level(levels.iter().find(|level| level.clients == clients)?)?
            }
            _ => {
                let best = |level: &Level<'_>| match quantity {
                    Quantity::Throughput | Quantity::TransferRate => level.figures.throughput_bps,
                    _ => level.figures.request_rate,
                };
                of_level(&levels[summary::highest(levels, best)?])?
            }
        };
        let ratio = (figure.value != 0.0).then(|| run / figure.value);
        Some(Beside { quantity, published: figure.value, run, clients, ratio })
    };
    row.figures.iter().filter_map(of).collect()
}
