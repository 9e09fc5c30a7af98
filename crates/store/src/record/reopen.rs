//! Resuming a record that is not finished: what a killed writer left after its last whole iteration is removed, and the logs grow from
//! there.
//!
//! Iterations are appended one after the other, and `iterations.ndjson` is always written last. So whatever the other files hold of an
//! iteration that is not in it is at their ends.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use webstone_measure::keys::IterationKey;
use webstone_measure::strict;
use webstone_model::record::{IterationRecord, RunRecord, RunState};

use super::append::AppendFile;
use super::read::IntervalLine;
use super::{
    HISTOGRAMS, INTERVALS, ITERATION_LINE_BYTES_MAX, ITERATIONS, PAGE_ROWS, PARTIAL, RECORD, Store,
    StoreError, held, hlog, pages, read,
};
use crate::plain_file::{self, Links};

impl Store {
    /// Opens a record that was not finished, to append iterations to it.
    ///
    /// # Errors
    /// If it is finished, cannot be read, or its files cannot be written.
    pub fn reopen(path: &Path) -> Result<(Store, RunRecord), StoreError> {
        let directory = read::directory_of(path)?;
        let mut record = Store::load(&directory)?;
        let is_named_partial = directory.extension() == Some(OsStr::new(&PARTIAL[1..]));
        if record.state != RunState::Partial && is_named_partial {
            // Killed after its record was whole and before its directory had its final name.
            Store::unfinish(&directory, &mut record)?;
        }
        if record.state != RunState::Partial {
            let file = directory.join(RECORD);
            return Err(StoreError::content(&file, 1, "the record is finished: nothing can be added to it"));
        }
        record.iterations.iter_mut().for_each(|iteration| iteration.measured.pack());
        let known: HashSet<IterationKey> = record.iterations.iter().map(IterationRecord::key).collect();
        let of_histograms = |line: &str| {
            line.starts_with(['#', '"']) || hlog::owner(line).is_some_and(|key| known.contains(&key))
        };
        let of_intervals = |line: &str| {
            let line = strict::json::<IntervalLine>(line.as_bytes());
            line.is_ok_and(|line| known.contains(&line.key()))
        };
        let log = |name: &str, is_kept: &dyn Fn(&str) -> bool| -> Result<AppendFile, StoreError> {
            let file = directory.join(name);
            let kept = kept_bytes(&file, is_kept)?;
            AppendFile::reopen(file, kept)
        };
        let rows = record.iterations.iter().filter_map(|run| run.pages_at);
        let rows_end = rows.map(|place| place.offset + place.bytes).max();
        let store = Store {
            runs: match directory.parent() {
                Some(runs) if !runs.as_os_str().is_empty() => runs.to_owned(),
                _ => ".".into(),
            },
            id: record.id.clone(),
            histograms: log(HISTOGRAMS, &of_histograms)?,
            intervals: log(INTERVALS, &of_intervals)?,
            page_rows: AppendFile::reopen(
                directory.join(PAGE_ROWS),
                rows_end.unwrap_or(pages::heading().len() as u64),
            )?,
            iterations: log(ITERATIONS, &|_| true)?,
            stored: record.iterations.len(),
            _held: held(&directory),
            directory,
        };
        if record.pages.source.is_none() {
            let rows = read::open_rows(&store.directory, record.workload.pages.len())?;
            record.pages.source = Some(Arc::new(rows));
        }
        Ok((store, record))
    }
}

/// Bytes up to the end of the last whole line that is kept.
fn kept_bytes(file: &Path, is_kept: &dyn Fn(&str) -> bool) -> Result<u64, StoreError> {
    let io = |error| StoreError::io("read", file, error);
    let mut reader = BufReader::new(plain_file::open(file, Links::Refused).map_err(io)?);
    let (mut kept, mut at, mut line) = (0, 0, Vec::new());
    loop {
        let length =
            plain_file::read_line(&mut reader, &mut line, ITERATION_LINE_BYTES_MAX).map_err(io)? as u64;
        if length == 0 || line.last() != Some(&b'\n') {
            return Ok(kept);
        }
        at += length;
        if std::str::from_utf8(&line).is_ok_and(|line| is_kept(line.trim_end())) {
            kept = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::steps::killed_before;
    use crate::tests::{iteration, record, started};
    use crate::{Derived, FIGURES, REPORT};
    use std::collections::BTreeMap;
    use std::fs;

    /// Files of a finished record that come from its iterations.
    const LOGS: [&str; 4] = [HISTOGRAMS, INTERVALS, PAGE_ROWS, super::super::PAGES];

    /// A record with these iterations, finished in one go.
    fn in_one_go(runs: &Path, iterations: &[(u32, u32)]) -> Vec<Vec<u8>> {
        let mut record = record();
        let mut store = Store::create(runs, started(), &mut record).unwrap();
        for (clients, number) in iterations {
            record.iterations.push(iteration(*clients, *number));
            store.append(&mut record).unwrap();
        }
        record.state = RunState::Complete;
        let path = store.finish(&mut record, &[]).unwrap();
        LOGS.map(|name| fs::read(path.join(name)).unwrap()).into()
    }

    #[test]
    fn a_record_goes_on_as_if_it_had_never_stopped() {
        let all = [(5, 1), (9, 1), (5, 2), (9, 2)];
        for stop in 0..all.len() {
            let runs = tempfile::tempdir().unwrap();
            let expected = in_one_go(&runs.path().join("whole"), &all);
            let mut begun = record();
            let mut store = Store::create(runs.path(), started(), &mut begun).unwrap();
            for (clients, number) in &all[..stop] {
                begun.iterations.push(iteration(*clients, *number));
                store.append(&mut begun).unwrap();
            }
            // Killed in the middle of the next one: its lines are in every log but the last, the last has half of its own.
            let path = store.path().to_owned();
            let mut next = record();
            next.id.clone_from(&begun.id);
            next.iterations = begun.iterations.clone();
            next.pages = begun.pages.clone();
            next.iterations.push(iteration(all[stop].0, all[stop].1));
            store.append(&mut next).unwrap();
            drop(store);
            let iterations = path.join(ITERATIONS);
            let text = fs::read(&iterations).unwrap();
            fs::write(&iterations, &text[..text.len() - 20]).unwrap();

            let (mut store, mut reopened) = Store::reopen(&path).unwrap();
            assert_eq!(reopened.iterations.len(), stop);
            for (clients, number) in &all[stop..] {
                reopened.iterations.push(iteration(*clients, *number));
                store.append(&mut reopened).unwrap();
            }
            reopened.state = RunState::Complete;
            let path = store.finish(&mut reopened, &[]).unwrap();
            for (name, expected) in LOGS.iter().zip(&expected) {
                assert!(fs::read(path.join(name)).unwrap() == *expected, "{name} after a stop at {stop}");
            }
            assert_eq!(Store::load(&path).unwrap(), reopened);
            assert!(Store::check(&path).unwrap().damage.is_empty());
        }
    }

    /// Where a record is, under either name of its directory; `None` if it had not begun.
    fn left_behind(runs: &Path) -> Option<std::path::PathBuf> {
        let mut there: Vec<_> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
        there.retain(|path| path.join(RECORD).is_file());
        assert!(there.len() <= 1, "{there:?}");
        there.pop()
    }

    /// Completes a record of two iterations from its present state.
    fn go_through(runs: &Path) {
        let opened = match left_behind(runs) {
            Some(path) if !path.to_string_lossy().ends_with(PARTIAL) => return,
            Some(path) => Store::reopen(&path),
            None => {
                let mut begun = record();
                Store::create(runs, started(), &mut begun).map(|store| (store, begun))
            }
        };
        let Ok((mut store, mut record)) = opened else { return };
        for (clients, number) in [(5, 1), (9, 1)].into_iter().skip(record.iterations.len()) {
            record.iterations.push(iteration(clients, number));
            if store.append(&mut record).is_err() {
                return;
            }
        }
        record.state = RunState::Complete;
        record.finished_at = Some("2026-01-31T12:31:00.000Z".into());
        let _ = store.finish(&mut record, &derived());
    }

    fn derived() -> [Derived; 2] {
        [(FIGURES, b"{}\n".to_vec()), (REPORT, b"<html>".to_vec())]
            .map(|(name, bytes)| Derived { name, bytes })
    }

    /// Every file of a finished record.
    fn finished_files(runs: &Path) -> BTreeMap<String, Vec<u8>> {
        let path = left_behind(runs).unwrap();
        assert!(!path.to_string_lossy().ends_with(PARTIAL), "{}", path.display());
        assert_eq!(Store::check(&path).unwrap().damage, []);
        let named = |path: std::path::PathBuf| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        };
        fs::read_dir(&path).unwrap().map(|entry| named(entry.unwrap().path())).collect()
    }

    #[test]
    fn a_record_killed_before_any_step_resumes_and_ends_the_same() {
        let runs = tempfile::tempdir().unwrap();
        go_through(runs.path());
        let expected = finished_files(runs.path());
        let (mut step, mut steps) = (0, 0);
        loop {
            let runs = tempfile::tempdir().unwrap();
            if !killed_before(step, || go_through(runs.path())) {
                break;
            }
            // The resumed run is killed, too, twice, at a different step each time.
            for again in [step % 11, step * 5 % 31] {
                steps += u32::from(killed_before(again, || go_through(runs.path())));
            }
            go_through(runs.path());
            let found = finished_files(runs.path());
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "step {step}");
            // A directory whose making was cut short is left behind, so that the next has another name.
            for name in LOGS {
                assert!(found[name] == expected[name], "{name} after a kill before step {step}");
            }
            step += 1;
        }
        assert!(step > 30 && steps > step, "killed {step} times, and {steps} times again");
    }

    #[test]
    fn a_finished_record_is_not_opened() {
        let runs = tempfile::tempdir().unwrap();
        in_one_go(runs.path(), &[(5, 1)]);
        let path = fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
        let error = Store::reopen(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("record.json:1: the record is finished: nothing can be added to it"),
            "{error}"
        );
    }
}
