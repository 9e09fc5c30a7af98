//! Reading a run's directory, finished or cut short. Whatever is wrong is told with its file and line.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use webstone_measure::keys::{IterationKey, LevelKey};
use webstone_measure::metrics::{PageTotals, Second};
use webstone_measure::rate::RateProfile;
use webstone_measure::strict;
use webstone_model::pages::{PageSource, StoredPages};
use webstone_model::record::{IterationRecord, RunRecord, RunState, SCHEMA_VERSION};

use super::pages::{self, RowsFile};
use super::{
    HISTOGRAMS, INTERVALS, ITERATION_LINE_BYTES_MAX, ITERATIONS, LINE_BYTES_MAX, PAGE_ROWS, PAGES, PARTIAL,
    RECORD, StoreError, bytes_max, hlog,
};
use crate::plain_file::{self, Links};

/// Whether distributions of single pages are read: of a large record they are most of what there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageDistributions {
    Read,
    LeftOut,
}

/// See [`super::Store::load`] and [`super::Store::load_whole`].
pub(super) fn load(path: &Path, page_distributions: PageDistributions) -> Result<RunRecord, StoreError> {
    let directory = directory_of(path)?;
    let mut record = read_record(&directory.join(RECORD))?;
    let partial = record.state == RunState::Partial;
    if partial && record.iterations.is_empty() {
        let file = directory.join(ITERATIONS);
        lines(&file, partial, &mut |_, line| {
            let iteration: IterationRecord =
                strict::json(line.as_bytes()).map_err(|error| error.to_string())?;
            record.iterations.push(iteration);
            Ok(())
        })?;
    }
    let places = Places::of_record(&record, partial);
    let pages = record.workload.pages.len();
    lines(&directory.join(HISTOGRAMS), partial, &mut |_, line| {
        if page_distributions == PageDistributions::LeftOut && hlog::is_of_a_page(line) {
            return Ok(());
        }
        let Some(line) = hlog::Line::parse(line)? else { return Ok(()) };
        match places.find(line.key)? {
            Some(place) => line.restore(&mut record.iterations[place], pages),
            None => Ok(()),
        }
    })?;
    lines(&directory.join(INTERVALS), partial, &mut |_, line| {
        let line: IntervalLine = strict::json(line.as_bytes()).map_err(|error| error.to_string())?;
        let Some(place) = places.find(line.key())? else { return Ok(()) };
        let seconds = &mut record.iterations[place].measured.seconds.0;
        if line.second != seconds.len() {
            return Err(format!("second {} where second {} is expected", line.second, seconds.len()));
        }
        seconds.push(line.interval);
        Ok(())
    })?;
    record.pages = stored_pages(&directory, &record)?;
    Ok(record)
}

/// Sums of pages, and the way to their rows. Of a run that never ended the sums are taken from the rows.
fn stored_pages(directory: &Path, record: &RunRecord) -> Result<StoredPages, StoreError> {
    if record.iterations.iter().all(|iteration| iteration.pages_at.is_none()) {
        return Ok(StoredPages::default());
    }
    let pages = record.workload.pages.len();
    let rows = open_rows(directory, pages)?;
    let mut stored = StoredPages { totals: vec![PageTotals::default(); pages], source: None };
    if record.state == RunState::Partial {
        for iteration in record.iterations.iter().filter(|iteration| iteration.pages_at.is_some()) {
            let rows = rows.rows(iteration, usize::MAX);
            rows.map_err(StoreError::PageRows)?.iter().for_each(|row| stored.add_row(row));
        }
    } else {
        lines(&directory.join(PAGES), false, &mut |number, line| {
            pages::read_total(number, line, &mut stored.totals)
        })?;
    }
    stored.source = Some(Arc::new(rows));
    Ok(stored)
}

/// The rows of pages of a record in `directory`, whose workload has `pages` of them.
pub(super) fn open_rows(directory: &Path, pages: usize) -> Result<RowsFile, StoreError> {
    let path = directory.join(PAGE_ROWS);
    RowsFile::open(&path, pages).map_err(|error| StoreError::io("read", &path, error))
}

/// A line of `intervals.ndjson`.
#[derive(Deserialize)]
pub(super) struct IntervalLine {
    clients: u32,
    #[serde(default)]
    rate: Option<RateProfile>,
    iteration: u32,
    second: usize,
    #[serde(flatten)]
    interval: Second,
}

impl IntervalLine {
    /// Whose second it is.
    pub(super) fn key(&self) -> IterationKey {
        IterationKey::new(LevelKey::new(self.clients, self.rate), self.iteration)
    }
}

/// Where each iteration stands in the record.
struct Places {
    by_key: HashMap<IterationKey, usize>,
    partial: bool,
}

impl Places {
    fn of_record(record: &RunRecord, partial: bool) -> Places {
        let by_key = record.iterations.iter().enumerate().map(|(place, it)| (it.key(), place)).collect();
        Places { by_key, partial }
    }

    /// `None`: a line of an iteration whose storing was cut short.
    fn find(&self, key: IterationKey) -> Result<Option<usize>, String> {
        match self.by_key.get(&key) {
            Some(place) => Ok(Some(*place)),
            None if self.partial => Ok(None),
            None => Err(format!("the record has no iteration {} of {}", key.iteration, key.level)),
        }
    }
}

pub(super) fn directory_of(path: &Path) -> Result<PathBuf, StoreError> {
    let mut directory = path.to_owned();
    if path.file_name() == Some(OsStr::new(RECORD)) {
        directory.pop();
        if directory.as_os_str().is_empty() {
            directory.push(".");
        }
    }
    if directory.join(RECORD).is_file() {
        return Ok(directory);
    }
    // The final name of a run that never got it.
    let mut partial = directory.clone().into_os_string();
    partial.push(PARTIAL);
    let partial = PathBuf::from(partial);
    if partial.join(RECORD).is_file() {
        return Ok(partial);
    }
    match directory.metadata() {
        Ok(_) => Err(StoreError::NoRecord { path: directory }),
        Err(error) => Err(StoreError::io("read", &directory, error)),
    }
}

fn read_record(file: &Path) -> Result<RunRecord, StoreError> {
    /// The one field that every version has.
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let text = plain_file::read_text(file, Links::Refused, bytes_max(RECORD))
        .map_err(|error| StoreError::io("read", file, error))?;
    let wrong = |error: serde_json::Error| {
        // serde_json ends its messages with the position, which stands in front here.
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        StoreError::content(file, error.line() as u64, format!("column {}: {what}", error.column()))
    };
    let newer = |found| StoreError::Newer { file: file.to_owned(), found, known: SCHEMA_VERSION };
    match strict::json::<RunRecord>(text.as_bytes()) {
        Ok(record) if record.schema > SCHEMA_VERSION => Err(newer(record.schema)),
        Ok(record) => Ok(record),
        // A newer record may look different. This is read only after an error, because a second reading of a large record takes time.
        Err(error) => match strict::json::<Version>(text.as_bytes()) {
            Ok(version) if version.schema > SCHEMA_VERSION => Err(newer(version.schema)),
            _ => Err(wrong(error)),
        },
    }
}

/// Hands every line to `each`, with its number from 1. A last line without its end is one whose writing was cut short:
/// of a run that was killed it is left out, in a finished one it is damage.
fn lines(
    file: &Path,
    partial: bool,
    each: &mut dyn FnMut(u64, &str) -> Result<(), String>,
) -> Result<(), StoreError> {
    let io = |error| StoreError::io("read", file, error);
    let opened = plain_file::open(file, Links::Refused).map_err(io)?;
    let mut reader = BufReader::with_capacity(1 << 16, opened);
    let line_bytes_max = match file.ends_with(ITERATIONS) {
        true => ITERATION_LINE_BYTES_MAX,
        false => LINE_BYTES_MAX,
    };
    let mut line = Vec::new();
    for number in 1_u64.. {
        match plain_file::read_line(&mut reader, &mut line, line_bytes_max) {
            Ok(0) => break,
            Ok(_) if line.last() != Some(&b'\n') && partial => break,
            Ok(_) if line.last() != Some(&b'\n') => {
                return Err(StoreError::content(file, number, "the file ends in the middle of this line"));
            }
            Ok(_) => {
                let text = std::str::from_utf8(&line).map_err(|_| "the line is not UTF-8 text".to_owned());
                text.and_then(|line| each(number, line.trim_end_matches(['\n', '\r'])))
                    .map_err(|what| StoreError::content(file, number, what))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return Err(StoreError::content(file, number, error.to_string()));
            }
            Err(error) => return Err(io(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::tests::{iteration, record, started};
    use std::fs;

    /// A partial run with two iterations, and one that is finished with the same two.
    fn two_runs(runs: &Path) -> (PathBuf, PathBuf, RunRecord) {
        let make = || {
            let mut record = record();
            let mut store = Store::create(runs, started(), &mut record).unwrap();
            for clients in [5, 9] {
                record.iterations.push(iteration(clients, 1));
                store.append(&mut record).unwrap();
            }
            (store, record)
        };
        let (store, mut record) = make();
        record.state = RunState::Complete;
        let finished = store.finish(&mut record, &[]).unwrap();
        let (store, partial_record) = make();
        (store.path().to_owned(), finished, partial_record)
    }

    fn cut(file: &Path, bytes: u64) {
        let opened = fs::OpenOptions::new().write(true).open(file).unwrap();
        opened.set_len(opened.metadata().unwrap().len() - bytes).unwrap();
    }

    fn error_of(path: &Path) -> String {
        Store::load(path).unwrap_err().to_string()
    }

    #[test]
    fn an_iteration_cut_short_is_left_out_and_the_others_are_whole() {
        let runs = tempfile::tempdir().unwrap();
        let (partial, _, record) = two_runs(runs.path());
        // Killed before the line that makes the second iteration count was whole: its histograms are there already.
        cut(&partial.join(ITERATIONS), 1);
        let loaded = Store::load(&partial).unwrap();
        assert_eq!(loaded.iterations, record.iterations[..1]);
    }

    #[test]
    fn a_torn_last_line_of_any_log_does_not_hide_the_rest() {
        let runs = tempfile::tempdir().unwrap();
        let (partial, _, record) = two_runs(runs.path());
        cut(&partial.join(ITERATIONS), 40);
        cut(&partial.join(HISTOGRAMS), 40);
        cut(&partial.join(INTERVALS), 4);
        assert_eq!(Store::load(&partial).unwrap().iterations, record.iterations[..1]);
    }

    #[test]
    fn a_finished_run_whose_files_were_cut_short_is_damaged() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        for name in [INTERVALS, HISTOGRAMS] {
            let file = finished.join(name);
            let good = fs::read(&file).unwrap();
            fs::write(&file, &good[..good.len() - 3]).unwrap();
            let error = error_of(&finished);
            assert!(error.ends_with(": the file ends in the middle of this line"), "{error}");
            fs::write(&file, good).unwrap();
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        for (name, line) in [(INTERVALS, 3), (HISTOGRAMS, 8)] {
            let file = finished.join(name);
            let good = fs::read_to_string(&file).unwrap();
            let mut text: Vec<&str> = good.lines().collect();
            text[line - 1] = "{";
            fs::write(&file, text.join("\n") + "\n").unwrap();
            let error = error_of(&finished);
            assert!(error.starts_with(&format!("{}:{line}: ", file.display())), "{error}");
            fs::write(&file, good).unwrap();
        }
        fs::write(finished.join(INTERVALS), b"\xff\n").unwrap();
        assert!(error_of(&finished).ends_with("intervals.ndjson:1: the line is not UTF-8 text"));
    }

    #[test]
    fn lines_of_unknown_iterations_are_an_error_in_a_finished_record() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        let file = finished.join(INTERVALS);
        let text = fs::read_to_string(&file).unwrap().replace("\"clients\":9", "\"clients\":8");
        fs::write(&file, text).unwrap();
        let error = error_of(&finished);
        assert!(error.ends_with("intervals.ndjson:3: the record has no iteration 1 of 8 clients"), "{error}");
    }

    #[test]
    fn a_missing_second_is_an_error() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        let file = finished.join(INTERVALS);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.split_inclusive('\n').skip(1).collect::<String>()).unwrap();
        assert!(error_of(&finished).ends_with("intervals.ndjson:1: second 1 where second 0 is expected"));
    }

    #[test]
    fn a_newer_schema_is_told_as_such() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        fs::write(finished.join(RECORD), r#"{"schema": 99, "new": true}"#).unwrap();
        let error = Store::load(&finished).unwrap_err();
        assert!(error.to_string().contains("schema 99; this version of webstone reads schemas up to 1"));
        assert!(error.hint().unwrap().contains("version that wrote it"));
    }

    #[test]
    fn an_unreadable_record_is_reported_with_line_and_remedy() {
        let runs = tempfile::tempdir().unwrap();
        let (_, finished, _) = two_runs(runs.path());
        assert!(error_of(runs.path()).ends_with("is not a record: it is a directory without record.json"));
        let report = runs.path().join("report.json");
        fs::write(&report, "{}").unwrap();
        assert!(error_of(&report).ends_with("it is a file, and a record is a directory with record.json"));
        assert!(error_of(&runs.path().join("nothing")).contains("No such file or directory"));
        fs::write(finished.join(RECORD), "{\n \"schema\": 1,\n oops").unwrap();
        assert!(
            error_of(&finished).contains("record.json:3: column 2: key must be a string"),
            "{}",
            error_of(&finished)
        );
        fs::write(finished.join(RECORD), "").unwrap();
        assert!(error_of(&finished).contains("record.json:1: "), "{}", error_of(&finished));
        fs::remove_file(finished.join(HISTOGRAMS)).unwrap();
        assert!(Store::load(&finished).is_err());
    }
}
