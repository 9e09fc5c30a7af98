//! A run beside published results: the same figures, and how many times theirs ours are.

use serde::Serialize;
use webstone_model::record::RunRecord;

use super::{Published, Quantity, Row};
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
    /// Clients of the run's level.
    pub clients: u32,
    /// Whether both had the same number of clients; otherwise it is the run's level of the highest rate.
    pub same_clients: bool,
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
    /// The run's.
    pub run: f64,
    /// The run's by the published one; `None` where that is zero.
    pub ratio: Option<f64>,
}

/// The run beside each of these results: the row of their highest rate, and every row whose number of clients the run
/// has as well. Results that have no figure in common with a run are left out.
pub fn beside<'a>(record: &RunRecord, published: &[&'a Published]) -> Vec<Comparison<'a>> {
    let levels = summary::levels(record);
    let Some(best) = levels.get(summary::peak(&levels).unwrap_or(0)) else { return Vec::new() };
    let mut found = Vec::new();
    // Tables by page tell of one page, a level's figures of all.
    for result in published.iter().filter(|result| !result.quantities.contains(&Quantity::Hits)) {
        let peak = result.peak();
        for row in &result.rows {
            let same = levels.iter().find(|level| Some(level.clients) == row.clients);
            let is_peak = std::ptr::eq(row, peak);
            if same.is_none() && !is_peak {
                continue;
            }
            let level = same.unwrap_or(best);
            let figures = figures(row, level);
            if !figures.is_empty() {
                found.push(Comparison {
                    published: result,
                    id: &result.id,
                    row,
                    run: record.id.clone(),
                    clients: level.clients,
                    same_clients: same.is_some(),
                    peak: is_peak,
                    figures,
                });
            }
        }
    }
    found
}

fn figures(row: &Row, level: &Level<'_>) -> Vec<Beside> {
    let merged = summary::merged(&level.runs);
    let of = |figure: &super::Figure| {
        let run = figure.quantity.of(&level.figures, &merged)?;
        let ratio = (figure.value != 0.0).then(|| run / figure.value);
        Some(Beside { quantity: figure.quantity, published: figure.value, run, ratio })
    };
    row.figures.iter().filter_map(of).collect()
}
