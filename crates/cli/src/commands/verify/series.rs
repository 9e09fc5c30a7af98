//! The same of a series: every cell, whether any is missing or was not measured as planned, and the page.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use webstone_model::record::RunRecord;
use webstone_model::series::{Kind, Series};
use webstone_runner::series::{self, SERIES, SeriesError, directory_of};
use webstone_store::{REPORT, StoreError, read_file};

use super::super::records::{cells_in, of_series};
use super::super::series::page;
use super::{Found, examine_path, named};
use crate::failure::Failure;
use crate::intent::series_failure;
use crate::version;

/// Examines the series at `path`: first what was found about the whole, then about each of its cells, with their directories.
pub(super) fn examine(path: &Path) -> Result<Vec<(PathBuf, Found)>, Failure> {
    let (directory, series) = match series::load(path) {
        Ok(loaded) => loaded,
        Err(SeriesError::Store(error @ StoreError::Content { .. })) => return without_plan(path, &error),
        Err(error) => return Err(series_failure(&error, Kind::Servers)),
    };
    let mut whole =
        Found { run: Some(series.id.clone()), cells: Some(series.cells.len()), ..Found::default() };
    let mut cells = Vec::new();
    for cell in &series.cells {
        match directory_of(&directory, &cell.name)? {
            Some(path) => cells.push((path.clone(), examine_path(&path)?)),
            None => whole.problem(&cell.name, "is missing: no record of this cell is stored"),
        }
    }
    for (path, found) in &cells {
        if !found.problems.is_empty() {
            whole.problem(&named(path, found), "does not verify: see below");
        }
    }
    // Whatever keeps records from being read is a problem of their cells.
    if let Ok(records) = series::records(&directory, &series) {
        for (cell, record) in series.cells.iter().zip(&records) {
            if let Some(record) = record
                && record.spec != cell.spec
            {
                whole.problem(&record.id, format!("was not measured as {SERIES} says"));
            }
        }
        if whole.problems.is_empty() {
            compare_page(&directory, &series, &records, &mut whole);
        }
    }
    whole.note(format!(
        "{SERIES} and {REPORT} of a series have no check sums; the files of its cells have them"
    ));
    Ok(std::iter::once((directory, whole)).chain(cells).collect())
}

/// Examines every record in the directory of a series whose plan cannot be read.
fn without_plan(path: &Path, error: &StoreError) -> Result<Vec<(PathBuf, Found)>, Failure> {
    let directory = of_series(path).to_owned();
    let mut whole = Found::default();
    whole.problem(SERIES, format!("cannot be read, so nothing was compared with it: {error}"));
    let cells = cells_in(&directory).into_iter().map(|path| Ok((path.clone(), examine_path(&path)?)));
    std::iter::once(Ok((directory, whole))).chain(cells).collect()
}

/// Whether the page of the series is what the cells give.
fn compare_page(directory: &Path, series: &Series, records: &[Option<RunRecord>], whole: &mut Found) {
    // A series may be resumed by another build than began it.
    let tools = records.iter().flatten().map(|record| &record.tool).chain([&series.tool]);
    let is_ours = tools.into_iter().all(|tool| *tool == version::tool());
    match read_file(directory, REPORT) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            whole.problem(REPORT, "is missing: every finished series is stored with it");
        }
        Err(error) => whole.problem(REPORT, format!("cannot be read: {error}")),
        Ok(_) if !is_ours => {
            whole.note(format!(
                "{REPORT} was made by another build of {}, and was not made again",
                series.tool.name
            ));
        }
        Ok(stored) if page(directory, series, records).ok().as_ref() != Some(&stored) => {
            whole.problem(REPORT, "is not the report that the cells give");
        }
        Ok(_) => {}
    }
}
