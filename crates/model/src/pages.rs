//! Rows page by page of a stored run, which are too many for a record: a sweep of 1,000 levels over 100,000 pages has
//! a hundred million. The record has their sums over the whole run; the rows of one iteration are read when a report
//! needs them, and dropped again.
//!
//! The store (`webstone-store`) knows where rows are and how to read them; here is what a report may ask for. Rows
//! that were never stored (`--no-record`) are in the iteration itself, and reports see no difference.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::{IterationRecord, RunRecord};
pub use webstone_measure::iteration::RowsPlace;
use webstone_measure::metrics::PageTotals;

/// The totals of one page, with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PageRow {
    /// Its index in the workload, from 0.
    pub page: u32,
    /// Its totals.
    #[serde(flatten)]
    pub totals: PageTotals,
}

/// Why rows could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PageRowsError(pub String);

/// Where stored rows are read from.
pub trait PageSource: fmt::Debug + Send + Sync {
    /// At most `most` rows of an iteration, those with the most hits first.
    ///
    /// # Errors
    /// If they cannot be read, or are not those of the iteration.
    fn rows(&self, iteration: &IterationRecord, most: usize) -> Result<Vec<PageRow>, PageRowsError>;
}

/// What a record knows of rows that are not in its iterations.
#[derive(Clone, Debug, Default)]
pub struct StoredPages {
    /// Totals page by page over all iterations with stored rows.
    pub totals: Vec<PageTotals>,
    /// Where the rows themselves can be read.
    pub source: Option<Arc<dyn PageSource>>,
}

impl PartialEq for StoredPages {
    /// The source of rows is not part of what was measured.
    fn eq(&self, other: &StoredPages) -> bool {
        self.totals == other.totals
    }
}

impl StoredPages {
    /// Adds the rows of another iteration.
    pub fn add(&mut self, pages: &[PageTotals]) {
        if self.totals.len() < pages.len() {
            self.totals.resize(pages.len(), PageTotals::default());
        }
        self.totals.iter_mut().zip(pages).for_each(|(total, page)| total.merge(page));
    }

    /// Adds one row.
    pub fn add_row(&mut self, row: &PageRow) {
        let page = row.page as usize;
        if self.totals.len() <= page {
            self.totals.resize(page + 1, PageTotals::default());
        }
        self.totals[page].merge(&row.totals);
    }
}

/// Rows of the pages for which anything was counted, those with the most hits first.
pub fn by_hits(pages: &[PageTotals]) -> Vec<PageRow> {
    let asked_for = pages.iter().enumerate().filter(|(_, totals)| **totals != PageTotals::default());
    let mut rows: Vec<PageRow> =
        asked_for.map(|(page, totals)| PageRow { page: page as u32, totals: *totals }).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.totals.hits), row.page));
    rows
}

impl RunRecord {
    /// Totals page by page over all iterations; empty if nothing was counted.
    pub fn page_totals(&self) -> Cow<'_, [PageTotals]> {
        if self.iterations.iter().all(|iteration| iteration.measured.pages.is_empty()) {
            return Cow::Borrowed(&self.pages.totals);
        }
        let mut all = self.pages.clone();
        self.iterations.iter().for_each(|iteration| all.add(&iteration.measured.pages));
        Cow::Owned(all.totals)
    }

    /// The `most` pages of an iteration with the most hits, in the order of the workload.
    ///
    /// # Errors
    /// If its rows are stored but cannot be read.
    pub fn page_rows(&self, iteration: &IterationRecord, most: usize) -> Result<Vec<PageRow>, PageRowsError> {
        let mut rows = match (&self.pages.source, iteration.pages_at) {
            (_, None) => by_hits(&iteration.measured.pages),
            (Some(source), Some(_)) => source.rows(iteration, most)?,
            (None, Some(_)) => {
                return Err(PageRowsError("the rows of pages were not stored with it".to_owned()));
            }
        };
        rows.truncate(most);
        rows.sort_unstable_by_key(|row| row.page);
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn page(hits: u64) -> PageTotals {
        PageTotals { hits, ..PageTotals::default() }
    }

    #[test]
    fn rows_in_the_record_and_stored_sums_make_one_total() {
        let mut record = fixture::record("a", &[(1, &[10.0, 20.0])]);
        record.iterations[0].measured.pages = vec![page(3), page(0), page(5), page(5)];
        record.pages.totals = vec![page(1), page(1)];
        assert_eq!(*record.page_totals(), [page(4), page(1), page(5), page(5)]);
        let of = |most: usize| -> Vec<(u32, u64)> {
            let rows = record.page_rows(&record.iterations[0], most).unwrap();
            rows.iter().map(|row| (row.page, row.totals.hits)).collect()
        };
        assert_eq!(of(usize::MAX), [(0, 3), (2, 5), (3, 5)]);
        assert_eq!(of(1), [(2, 5)]);
        assert!(record.page_rows(&record.iterations[1], 9).unwrap().is_empty());
    }
}
