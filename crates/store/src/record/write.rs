//! Writing a run's directory while the run lasts. The layout and its reasons are in the module above.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use webstone_measure::metrics::Second;
use webstone_measure::rate::RateProfile;
use webstone_model::pages::{RowsPlace, StoredPages};
use webstone_model::record::{IterationRecord, RunRecord, RunState};

use super::append::{AppendFile, remove_if_there, replace, sync_directory, temporary};
use super::{
    CERTIFICATE, Derived, ENVIRONMENT, FIGURES, HISTOGRAMS, INTERVALS, ITERATIONS, Integrity, MANIFEST,
    PAGE_ROWS, PAGES, PARTIAL, RECORD, REPORT, SIGNATURE, StoreError, hlog, manifest, pages, read, steps,
};
use crate::clock;

/// Longest part of a directory's name that the run's name may take.
const NAME_BYTES_MAX: usize = 80;
/// Runs of one name that may begin within one second.
const SAME_SECOND_MAX: u32 = 10_000;

/// The record of one run, being written.
#[derive(Debug)]
pub struct Store {
    /// Directory that holds the runs.
    pub(super) runs: PathBuf,
    pub(super) id: String,
    /// This run's directory, as it is named now.
    pub(super) directory: PathBuf,
    pub(super) histograms: AppendFile,
    pub(super) intervals: AppendFile,
    pub(super) page_rows: AppendFile,
    pub(super) iterations: AppendFile,
    /// Iterations stored so far.
    pub(super) stored: usize,
    /// So that nobody throws it away meanwhile.
    pub(super) _held: Option<File>,
}

/// A line of `intervals.ndjson`.
#[derive(Serialize)]
struct IntervalLine<'a> {
    clients: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateProfile>,
    iteration: u32,
    second: usize,
    #[serde(flatten)]
    interval: &'a Second,
}

impl Store {
    /// Makes the directory of a run that started at `started` below `runs` (made as well where it is missing), gives
    /// the record its identifier, and writes it, still without iterations. Two runs of one name in one second get
    /// different directories.
    pub fn create(runs: &Path, started: SystemTime, record: &mut RunRecord) -> Result<Store, StoreError> {
        fs::create_dir_all(runs).map_err(|error| StoreError::io("create", runs, error))?;
        let (id, directory) = reserve(runs, started, &record.spec.name)?;
        record.id.clone_from(&id);
        let mut fill = || -> Result<Store, StoreError> {
            let log = |name| AppendFile::create(directory.join(name));
            let mut store = Store {
                runs: runs.to_owned(),
                id: id.clone(),
                histograms: log(HISTOGRAMS)?,
                intervals: log(INTERVALS)?,
                page_rows: log(PAGE_ROWS)?,
                iterations: log(ITERATIONS)?,
                directory: directory.clone(),
                stored: 0,
                _held: held(&directory),
            };
            let head = hlog::header(clock::since_epoch(started), &clock::rfc3339(started));
            store.histograms.append(head.as_bytes())?;
            store.page_rows.append(&pages::heading())?;
            record.pages = StoredPages {
                totals: Vec::new(),
                source: Some(Arc::new(read::open_rows(&directory, record.workload.pages.len())?)),
            };
            store.rewrite(record)?;
            sync_directory(&directory)?;
            sync_directory(runs)?;
            Ok(store)
        };
        // A directory without a record is useless.
        fill().inspect_err(|_| {
            if steps::is_alive() {
                let _ = fs::remove_dir_all(&directory);
            }
        })
    }

    /// Reads a record: a run's directory, finished or partial, or the `record.json` in it. Distributions and seconds
    /// are put back, with exact maxima, but those of single pages, which no report shows. Rows of pages stay on the disk
    /// until they are asked for. A partial record holds every iteration that had ended.
    pub fn load(path: &Path) -> Result<RunRecord, StoreError> {
        read::load(path, read::PageDistributions::LeftOut)
    }

    /// As [`Store::load`], with the distributions of single pages.
    pub fn load_whole(path: &Path) -> Result<RunRecord, StoreError> {
        read::load(path, read::PageDistributions::Read)
    }

    /// Checks the files of a finished record against their check sums. `directory` is the record's own.
    pub fn check(directory: &Path) -> Result<Integrity, StoreError> {
        manifest::check(directory, &manifest::OF_RUN)
    }

    /// Puts a certificate into a finished record and writes the check sums again. A signature of the former ones is removed, because it is
    /// no longer valid.
    pub fn certify(directory: &Path, certificate: &[u8]) -> Result<(), StoreError> {
        let signature = directory.join(SIGNATURE);
        remove_if_there(&signature).map_err(|error| StoreError::io("remove", &signature, error))?;
        replace(&directory.join(CERTIFICATE), certificate)?;
        manifest::write(directory, &manifest::OF_RUN)?;
        sync_directory(directory)
    }

    /// Puts a signature beside the check sums that it signs.
    pub fn sign(directory: &Path, signature: &[u8]) -> Result<(), StoreError> {
        replace(&directory.join(SIGNATURE), signature)?;
        sync_directory(directory)
    }

    /// The directory of the record at a path, which is the directory or the `record.json` in it.
    pub fn locate(path: &Path) -> Result<PathBuf, StoreError> {
        read::directory_of(path)
    }

    /// The run's directory, under the name that it has now.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes everything of the record but its iterations, which stand in a file of their own until it is finished.
    pub fn rewrite(&self, record: &RunRecord) -> Result<(), StoreError> {
        write_record(&self.directory, &record.without_iterations())
    }

    /// Stores the first iteration of the record that is not stored yet, and frees the parts that no report needs in memory.
    /// After an error everything stored before is still there, and this one is not.
    pub fn append(&mut self, record: &mut RunRecord) -> Result<(), StoreError> {
        let Some(iteration) = record.iterations.get_mut(self.stored) else { return Ok(()) };
        let marks = (self.histograms.mark(), self.intervals.mark(), self.page_rows.mark());
        match self.try_append(iteration) {
            Ok(()) => {
                self.stored += 1;
                record.pages.add(&std::mem::take(&mut iteration.measured.pages));
                iteration.measured.page_histograms = Vec::new();
                iteration.measured.pack();
                Ok(())
            }
            Err(error) => {
                iteration.pages_at = None;
                self.histograms.roll_back(marks.0);
                self.intervals.roll_back(marks.1);
                self.page_rows.roll_back(marks.2);
                Err(error)
            }
        }
    }

    fn try_append(&mut self, iteration: &mut IterationRecord) -> Result<(), StoreError> {
        if !iteration.measured.pages.is_empty() {
            let (member, rows) = pages::rows_of(iteration);
            let offset = self.page_rows.end()?;
            self.page_rows.append(&member)?;
            iteration.pages_at = Some(RowsPlace { offset, bytes: member.len() as u64, rows });
        }
        let start = Duration::from_nanos(iteration.opened_ns.unwrap_or_default());
        self.histograms.append(hlog::lines(iteration, start).as_bytes())?;

        let mut seconds = Vec::new();
        for (second, interval) in iteration.measured.seconds.0.iter().enumerate() {
            let IterationRecord { clients, rate, iteration, .. } = *iteration;
            json_line(&mut seconds, &IntervalLine { clients, rate, iteration, second, interval });
        }
        self.intervals.append(&seconds)?;

        let mut line = Vec::new();
        json_line(&mut line, iteration);
        self.iterations.append(&line)
    }

    /// Writes the whole record, what was derived from it, check sums, and gives the directory
    /// its final name, which is returned. Iterations that could not be stored before are tried once more. After an error
    /// the partial directory stays, readable.
    pub fn finish(mut self, record: &mut RunRecord, derived: &[Derived]) -> Result<PathBuf, StoreError> {
        while self.stored < record.iterations.len() {
            self.append(record)?;
        }
        let sums = pages::totals_text(&record.pages.totals);
        replace(&self.directory.join(PAGES), sums.as_bytes())?;
        write_record(&self.directory, record)?;
        for file in derived {
            replace(&self.directory.join(file.name), &file.bytes)?;
        }
        let iterations = self.iterations.path();
        remove_if_there(iterations).map_err(|error| StoreError::io("remove", iterations, error))?;
        self.sweep_up()?;
        manifest::write(&self.directory, &manifest::OF_RUN)?;
        sync_directory(&self.directory)?;
        let name = self.runs.join(&self.id);
        steps::next()
            .and_then(|()| fs::rename(&self.directory, &name))
            .map_err(|error| StoreError::io("rename to", &name, error))?;
        sync_directory(&self.runs)?;
        Ok(name)
    }

    /// Removes what a writer that was killed had begun to write.
    fn sweep_up(&self) -> Result<(), StoreError> {
        for name in [CERTIFICATE, ENVIRONMENT, FIGURES, ITERATIONS, MANIFEST, PAGES, RECORD, REPORT] {
            let left = temporary(&self.directory.join(name));
            remove_if_there(&left).map_err(|error| StoreError::io("remove", &left, error))?;
        }
        Ok(())
    }

    /// Makes a record resumable again that is finished except for the name of its directory, as a killed [`Store::finish`]
    /// leaves it. If it is killed, too, the record is in one state or the other.
    pub(super) fn unfinish(directory: &Path, record: &mut RunRecord) -> Result<(), StoreError> {
        let manifest = directory.join(MANIFEST);
        remove_if_there(&manifest).map_err(|error| StoreError::io("remove", &manifest, error))?;
        let mut lines = Vec::new();
        record.iterations.iter().for_each(|iteration| json_line(&mut lines, iteration));
        replace(&directory.join(ITERATIONS), &lines)?;
        record.state = RunState::Partial;
        record.finished_at = None;
        write_record(directory, &record.without_iterations())
    }

    /// Removes the directory if nothing was measured.
    pub fn discard(self) {
        if self.stored == 0 {
            // If it cannot be removed, it reads as a partial record without iterations.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Makes a directory whose name no other run has, and whose final name no other will have.
pub(crate) fn reserve(runs: &Path, started: SystemTime, name: &str) -> Result<(String, PathBuf), StoreError> {
    let stem = format!("{}-{}", clock::file_name_stamp(started), directory_name(name));
    steps::next().map_err(|error| StoreError::io("create", runs, error))?;
    for number in 1..=SAME_SECOND_MAX {
        let id = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
        let partial = runs.join(format!("{id}{PARTIAL}"));
        match fs::create_dir(&partial) {
            // Another run of this name has made its partial directory before, so this one is ours.
            Ok(()) if !runs.join(&id).exists() => return Ok((id, partial)),
            Ok(()) => drop(fs::remove_dir(&partial)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("create", &partial, error)),
        }
    }
    let crowded = io::Error::new(io::ErrorKind::AlreadyExists, "too many runs of this name in one second");
    Err(StoreError::io("create", &runs.join(stem), crowded))
}

/// Marks a directory as being written for as long as the file is open; `None` where the file system has no locks.
pub(crate) fn held(directory: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(directory, flags, Mode::empty()).ok()?);
    directory.try_lock_shared().ok()?;
    Some(directory)
}

/// A run's name as its directory has it, after the time when it began: letters, digits, dots, hyphens and underscores.
pub fn directory_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(allowed).take(NAME_BYTES_MAX).collect();
    // A name that ends as a partial directory does would be taken for one.
    let name = name.trim_end_matches(PARTIAL);
    if name.is_empty() { "run".to_owned() } else { name.to_owned() }
}

fn json_line(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *out, value).expect("records have text keys, and a Vec accepts every write");
    out.push(b'\n');
}

/// Writes a record and its environment, which stands in a file of its own as well: the only place that writes either, so that
/// what is added to a record after it was begun is in both.
fn write_record(directory: &Path, record: &RunRecord) -> Result<(), StoreError> {
    write_json(&directory.join(ENVIRONMENT), &record.environment)?;
    // Last, because a directory with a record can be resumed.
    write_json(&directory.join(RECORD), record)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let mut text = serde_json::to_vec_pretty(value).expect("records have text keys");
    text.push(b'\n');
    replace(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{iteration, record, started};
    use sha2::{Digest, Sha256};

    fn stored(runs: &Path, iterations: usize) -> (Store, RunRecord) {
        let mut record = record();
        let mut store = Store::create(runs, started(), &mut record).unwrap();
        for number in 1..=iterations as u32 {
            record.iterations.push(iteration(10 * number, 1));
            store.append(&mut record).unwrap();
        }
        (store, record)
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_finished_run_reads_back_equal() {
        let runs = tempfile::tempdir().unwrap();
        let (store, mut record) = stored(runs.path(), 3);
        assert_eq!(record.id, "20260131T123005Z-webstone");
        assert_eq!(names(runs.path()), ["20260131T123005Z-webstone.partial"]);
        record.state = RunState::Complete;
        record.finished_at = Some("2026-01-31T12:31:00.000Z".into());
        let path = store.finish(&mut record, &[]).unwrap();
        assert_eq!(path, runs.path().join("20260131T123005Z-webstone"));
        assert_eq!(names(&path), [MANIFEST, ENVIRONMENT, HISTOGRAMS, INTERVALS, PAGE_ROWS, PAGES, RECORD]);
        assert_eq!(Store::load(&path).unwrap(), record);
        assert_eq!(Store::load(&path.join(RECORD)).unwrap(), record);
    }

    #[test]
    fn what_is_added_to_a_record_that_was_begun_is_in_both_of_its_files() {
        let runs = tempfile::tempdir().unwrap();
        let (store, mut record) = stored(runs.path(), 1);
        let environment = |path: &Path| -> serde_json::Value {
            serde_json::from_slice(&fs::read(path.join(ENVIRONMENT)).unwrap()).unwrap()
        };
        record.environment.insert("added".to_owned(), 1.into());
        store.rewrite(&record).unwrap();
        assert_eq!(environment(store.path())["added"], 1);
        record.environment.insert("watched_by".to_owned(), 2.into());
        record.state = RunState::Complete;
        let path = store.finish(&mut record, &[]).unwrap();
        assert_eq!(environment(&path), serde_json::to_value(&record.environment).unwrap());
        assert_eq!(Store::load(&path).unwrap().environment, record.environment);
    }

    #[test]
    fn what_several_hosts_measured_reads_back_equal() {
        let runs = tempfile::tempdir().unwrap();
        let (mut store, mut record) = stored(runs.path(), 0);
        let mut of_hosts = record.clone();
        of_hosts.iterations = vec![iteration(20, 1)];
        webstone_model::fixture::split(&mut of_hosts, 3);
        let mut lost = IterationRecord { clients: 20, iteration: 1, ..IterationRecord::default() };
        lost.parts = of_hosts.iterations[0].parts[..2].to_vec();
        let why = "ended: killed by signal 9".to_owned();
        lost.lost = Some(webstone_model::generators::GeneratorLoss { generator: 2, why });
        record.generators = of_hosts.generators;
        record.voids = vec![lost];
        record.iterations = of_hosts.iterations;
        store.append(&mut record).unwrap();
        let path = store.finish(&mut record, &[]).unwrap();
        let read = Store::load(&path).unwrap();
        assert_eq!(read, record);
        assert_eq!((read.generators.len(), read.iterations[0].parts.len()), (3, 3));
        assert_eq!(read.iterations[0].parts[1].clock.offset_ns, 3_600_000_000_000);
    }

    #[test]
    fn the_manifest_is_what_sha256sum_checks() {
        let runs = tempfile::tempdir().unwrap();
        let (store, mut record) = stored(runs.path(), 1);
        let path = store.finish(&mut record, &[]).unwrap();
        let manifest = fs::read_to_string(path.join(MANIFEST)).unwrap();
        let lines: Vec<(&str, &str)> = manifest.lines().filter_map(|line| line.split_once("  ")).collect();
        assert_eq!(lines.len(), 6);
        for (sum, name) in lines {
            let content = fs::read(path.join(name)).unwrap();
            assert_eq!(sum, format!("{:x}", Sha256::digest(content)), "{name}");
        }
    }

    #[test]
    fn a_partial_run_reads_as_far_as_it_went() {
        let runs = tempfile::tempdir().unwrap();
        let (store, record) = stored(runs.path(), 2);
        assert_eq!(Store::load(store.path()).unwrap(), record);
        // Under its final name, too, which is what a user has seen announced.
        assert_eq!(Store::load(&runs.path().join(&record.id)).unwrap(), record);
    }

    #[test]
    fn runs_in_one_second_do_not_meet() {
        let runs = tempfile::tempdir().unwrap();
        let (first, mut first_record) = stored(runs.path(), 0);
        first.finish(&mut first_record, &[]).unwrap();
        let (_second, second_record) = stored(runs.path(), 0);
        let (_third, third_record) = stored(runs.path(), 0);
        assert_eq!(second_record.id, "20260131T123005Z-webstone-2");
        assert_eq!(third_record.id, "20260131T123005Z-webstone-3");
    }

    #[test]
    fn names_are_safe_as_file_names() {
        assert_eq!(directory_name("nginx 1.28/epoll"), "nginx-1.28-epoll");
        assert_eq!(directory_name("../../etc"), "..-..-etc");
        assert_eq!(directory_name("x.partial"), "x");
        assert_eq!(directory_name(""), "run");
        assert_eq!(directory_name(&"é".repeat(300)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn a_directory_that_cannot_be_made_names_itself_and_a_remedy() {
        let runs = tempfile::NamedTempFile::new().unwrap();
        let error = Store::create(&runs.path().join("x"), started(), &mut record()).unwrap_err();
        assert!(error.to_string().starts_with("cannot create /"), "{error}");
        assert!(error.hint().unwrap().contains("--runs-dir"), "{error:?}");
    }

    #[test]
    fn an_iteration_that_was_not_stored_is_tried_again_at_the_end() {
        let runs = tempfile::tempdir().unwrap();
        let (store, mut record) = stored(runs.path(), 1);
        record.iterations.push(iteration(77, 1));
        let path = store.finish(&mut record, &[]).unwrap();
        assert_eq!(Store::load(&path).unwrap().iterations[1], record.iterations[1]);
    }

    #[test]
    fn only_an_empty_record_is_discarded() {
        let runs = tempfile::tempdir().unwrap();
        stored(runs.path(), 0).0.discard();
        assert_eq!(names(runs.path()), Vec::<String>::new());
        stored(runs.path(), 1).0.discard();
        assert_eq!(names(runs.path()), ["20260131T123005Z-webstone.partial"]);
    }
}
