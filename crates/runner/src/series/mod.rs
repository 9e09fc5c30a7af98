//! A series of runs: a directory with the plan (`series.json`) and an ordinary record for each cell of its matrix, iterations
//! interleaved over the cells, resumed wherever it stopped.
//!
//! ```text
//! runs/20260131T123005Z-servers/
//!   series.json                         the plan (model::series::Series); written once
//!   20260131T123005Z-nginx/             the record of a cell, as of any run
//!   20260131T123106Z-caddy.partial/     one whose rounds are not all made
//! ```
//!
//! Only the records show how far a series is: there is no other state that could contradict them. A round is one iteration of
//! every level of every cell; every second round takes the cells backwards (A B C, C B A, A B C), so that a machine that
//! drifts evenly drifts for all alike. A server is started for its part of a round and stopped after it: none takes CPU,
//! memory or cache from another, and the iterations of a cell sample its starts as well, whose luck (placement in memory,
//! seeds of hashes) is part of the difference between two runs (T. Kalibera, R. Jones, *Rigorous Benchmarking in Reasonable
//! Time*, ISMM 2013). A killed series loses the running iteration.

mod cpus;
mod interfaces;
mod replan;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use webstone_measure::strict;
use webstone_measure::units::grouped;
use webstone_model::event::Event;
use webstone_model::record::{RunRecord, Tool};
use webstone_model::series::{Cell, Kind, Matrix, SERIES_SCHEMA, Series};
use webstone_model::spec::{RunSpec, parse_cpu_list};

pub use interfaces::cells;

use crate::check::{ITERATIONS_MAX, SpecError};
use crate::observer::Observer;
use crate::rounds;
use crate::run::{Part, RunError, RunnerOptions, run};
use crate::workload_source::WorkloadSourceError;
use webstone_lab::cpus::cpu_list;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::{self, Root};
use webstone_lab::servers::{self, Refusal};
use webstone_store::clock;
use webstone_store::plain_file::{self, Links};
use webstone_store::redaction;
use webstone_store::{Store, StoreError, directory_name, replace, sync_directory};

/// The plan of a series in its directory.
pub const SERIES: &str = "series.json";
/// Length of the time that begins a record's name, with the hyphen after it: `20260131T123005Z-`.
const STAMP_LENGTH: usize = 17;
/// Largest plan that is read, in bytes: it holds the workload's path and a specification for each cell.
const PLAN_BYTES_MAX: u64 = 256 << 20;
/// What stands after the name of a record that is not finished.
const PARTIAL: &str = ".partial";

/// Why there is no series, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// What was asked for is not available.
    #[error("{what}")]
    Refused {
        /// What and why.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// It, or one of its cells, breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no workload.
    #[error(transparent)]
    Workload(#[from] WorkloadSourceError),
    /// Its files cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process works on it.
    #[error("{0} is in use by another webstone process")]
    Busy(PathBuf),
}

impl SeriesError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            SeriesError::Refused { hint, .. } => Some(hint.clone()),
            SeriesError::Spec(error) => Some(error.remedy.clone()),
            SeriesError::Workload(error) => error.hint(),
            // Check sums are of records, not of plans.
            SeriesError::Store(StoreError::Content { file, .. }) if file.ends_with(SERIES) => Some(
                "the file was changed or damaged; the cells beside it are whole records and can be read without it"
                    .to_owned(),
            ),
            SeriesError::Store(error) => error.hint().map(str::to_owned),
            SeriesError::Busy(_) => Some("wait for it to end, or end it".to_owned()),
        }
    }

    fn refused(what: impl Into<String>, hint: impl Into<String>) -> SeriesError {
        SeriesError::Refused { what: what.into(), hint: hint.into() }
    }
}

impl From<Refusal> for SeriesError {
    fn from(refusal: Refusal) -> SeriesError {
        SeriesError::Refused { what: refusal.what, hint: refusal.hint }
    }
}

/// Makes the plan of a series: every cell of the matrix, with the CPUs that this machine has for it. Everything that can be
/// known to be wrong with a cell is found here, before the first is measured.
///
/// # Errors
/// [`SeriesError::Refused`], with the cell.
pub fn plan(
    kind: Kind,
    matrix: &Matrix,
    base: &RunSpec,
    tool: Tool,
    command_line: &[String],
) -> Result<Series, SeriesError> {
    let (mut cells, mut warnings) = cells(kind, matrix, base)?;
    warnings.extend(interfaces::unequal(&cells));
    if !matrix.cpus.is_empty() {
        let taken = parse_cpu_list(&base.generator.cpus).unwrap_or_default();
        let shares = cpus::share(&machine::cpus(&Root::default()), &matrix.cpus, &taken).map_err(|what| {
            SeriesError::refused(what, "ask for fewer, or widen the set (taskset, the container's cpuset)")
        })?;
        for cell in &mut cells {
            let place = matrix.cpus.iter().position(|number| Some(*number) == cell.at.cpus);
            cell.spec.server.cpus = place.map_or_else(String::new, |place| cpu_list(&shares.server[place]));
            if taken.is_empty() {
                cell.spec.generator.cpus = cpu_list(&shares.generator);
            }
        }
        warnings.extend(shares.warnings);
    }
    for cell in &cells {
        let of_cell =
            |refusal: Refusal| Refusal { what: format!("{}: {}", cell.name, refusal.what), ..refusal };
        servers::check(&cell.spec.server).map_err(of_cell)?;
        servers::find(&cell.spec.server).map_err(of_cell)?;
    }
    Ok(Series {
        schema: SERIES_SCHEMA,
        id: String::new(),
        kind,
        tool,
        started_at: clock::rfc3339(SystemTime::now()),
        command_line: redaction::command_line(command_line),
        rounds: base.load.iterations,
        warnings,
        without_secrets: false,
        cells,
    })
}

/// A series in its directory, which nobody else works on meanwhile.
#[derive(Debug)]
pub struct SeriesStore {
    directory: PathBuf,
    series: Series,
    _lock: File,
}

impl SeriesStore {
    /// Makes the directory of a planned series below `runs`.
    pub fn create(runs: &Path, name: &str, mut series: Series) -> Result<SeriesStore, SeriesError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { doing, path, source }
        };
        fs::create_dir_all(runs).map_err(io("create", runs))?;
        let stamp = clock::file_name_stamp(SystemTime::now());
        let mut number = 1;
        let directory = loop {
            series.id =
                if number == 1 { format!("{stamp}-{name}") } else { format!("{stamp}-{name}-{number}") };
            let directory = runs.join(&series.id);
            match fs::create_dir(&directory) {
                Ok(()) => break directory,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => number += 1,
                Err(error) => return Err(io("create", &directory)(error).into()),
            }
        };
        let lock = locked(&directory)?;
        let mut stored = series.clone();
        for (cell, stored) in series.cells.iter().zip(&mut stored.cells) {
            stored.spec = redaction::spec(&cell.spec);
            series.without_secrets |= stored.spec != cell.spec;
        }
        stored.without_secrets = series.without_secrets;
        let mut text = serde_json::to_vec_pretty(&stored).expect("series have text keys");
        text.push(b'\n');
        replace(&directory.join(SERIES), &text)?;
        sync_directory(&directory)?;
        sync_directory(runs)?;
        Ok(SeriesStore { directory, series, _lock: lock })
    }

    /// Opens a series to resume it. `planned` is the same series planned again: what is not stored comes from there.
    ///
    /// # Errors
    /// [`SeriesError::Refused`] if it cannot be resumed as it is stored, and if the two plans differ.
    pub fn resume(path: &Path, planned: Option<Series>) -> Result<SeriesStore, SeriesError> {
        let (directory, mut series) = load(path)?;
        match planned {
            Some(planned) => {
                if let Some(difference) = replan::difference(&series, &planned) {
                    return Err(SeriesError::refused(
                        format!("{} was planned differently: {difference}", directory.display()),
                        "give the command line that began it: it is in its series.json",
                    ));
                }
                series.cells = planned.cells;
            }
            None if series.without_secrets => {
                return Err(SeriesError::refused(
                    format!(
                        "{} cannot be resumed by itself: its requests have secrets, or a body of more than 64 KiB, which are not \
                         stored",
                        directory.display()
                    ),
                    "give the whole command line that began it, and --resume with it; without the secrets it is in its series.json",
                ));
            }
            None => {}
        }
        let lock = locked(&directory)?;
        Ok(SeriesStore { directory, series, _lock: lock })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Its plan.
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Makes what is missing, round by round. `options` are those of each run, but for its part; `observer` hears of all. A
    /// cell that fails is left for a later attempt, and the others continue.
    pub fn go_on(
        &self,
        options: &dyn Fn() -> RunnerOptions,
        observer: &mut dyn Observer,
        interrupt: &std::sync::Arc<Interrupt>,
    ) -> SeriesOutcome {
        let mut outcome = SeriesOutcome::default();
        let mut clock = Clock::default();
        let mut todo = match self.todo() {
            Ok(todo) => todo,
            Err(error) => return SeriesOutcome { error: Some(error), ..outcome },
        };
        // The lowest round; every second round takes the cells backwards.
        while let Some(round) = todo.iter().map(|todo| todo.round).min() {
            if interrupt.count() > 0 {
                outcome.interrupted = true;
                break;
            }
            let turn = |todo: &Todo| todo.round == round;
            let place = if round % 2 == 1 { todo.iter().position(turn) } else { todo.iter().rposition(turn) };
            let Some(place) = place else { break };
            let (cell, record) = (&self.series.cells[todo[place].cell], todo[place].record.clone());
            let turns = |todo: &Todo| (self.series.rounds + 1).saturating_sub(todo.round);
            let turns_left = todo.iter().map(turns).fold(0, u32::saturating_add);
            let rounds = self.series.rounds;
            let time_left_ns = clock.left(turns_left).map(|time| time.as_nanos() as u64);
            let cell_name = cell.name.clone();
            observer.event(&Event::Turn { cell: cell_name, round, rounds, turns_left, time_left_ns });
            let started = Instant::now();
            let of_run = options();
            let of_run = RunnerOptions {
                runs_dir: Some(self.directory.clone()),
                // In its first round: webstone writes the same files again.
                checked_before: record.is_some(),
                part: Part::Round { iteration: round, record },
                series: self.directory.file_name().map(|name| name.to_string_lossy().into_owned()),
                ..of_run
            };
            let made = run(cell.spec.clone(), of_run, observer, interrupt.clone());
            match (made.error, &made.record) {
                (Some(error), _) if interrupt.count() == 0 => {
                    observer.event(&Event::CellFailed { cell: cell.name.clone(), error: error.to_string() });
                    outcome.failed.push((todo.remove(place).cell, error));
                }
                (None, Some(record)) => {
                    clock.took(started.elapsed());
                    match rounds::next_round(record) {
                        Some(next) => todo[place] = Todo { round: next, record: made.path, ..todo[place] },
                        None => drop(todo.remove(place)),
                    }
                }
                _ => {
                    outcome.interrupted = true;
                    break;
                }
            }
        }
        outcome
    }

    /// What is missing of each cell.
    fn todo(&self) -> Result<Vec<Todo>, StoreError> {
        let mut todo = Vec::new();
        for (cell, planned) in self.series.cells.iter().enumerate() {
            let record = directory_of(&self.directory, &planned.name)?;
            let round = match &record {
                None => 1,
                Some(path) if is_finished(path) => continue,
                // A run killed after its last iteration, but before it was finished, gets its last round again, with no steps in it.
                Some(path) => rounds::next_round(&Store::load(path)?).unwrap_or(self.series.rounds),
            };
            todo.push(Todo { cell, round, record });
        }
        Ok(todo)
    }
}

/// The next part of a cell.
struct Todo {
    cell: usize,
    round: u32,
    record: Option<PathBuf>,
}

/// How long a turn takes.
#[derive(Default)]
struct Clock {
    turns: u32,
    time: Duration,
}

impl Clock {
    fn took(&mut self, time: Duration) {
        self.turns += 1;
        self.time += time;
    }

    /// How long this many turns will take, if as long as those before; `None` before the first has ended.
    fn left(&self, turns: u32) -> Option<Duration> {
        (self.turns > 0).then(|| self.time / self.turns * turns)
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct SeriesOutcome {
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// Cells that failed, by their places.
    pub failed: Vec<(usize, RunError)>,
    /// Why it could not go on at all.
    pub error: Option<StoreError>,
}

/// Reads the plan of a series: its directory, or the `series.json` in it.
pub fn load(path: &Path) -> Result<(PathBuf, Series), SeriesError> {
    let directory = match path.file_name() {
        Some(name) if name == SERIES => path.parent().filter(|parent| !parent.as_os_str().is_empty()),
        _ => Some(path),
    };
    let directory = directory.unwrap_or(Path::new(".")).to_owned();
    let file = directory.join(SERIES);
    let text = plain_file::read_text(&file, Links::Refused, PLAN_BYTES_MAX).map_err(|source| match source
        .kind()
    {
        io::ErrorKind::NotFound if directory.is_dir() => SeriesError::refused(
            format!("{} is not a series: it has no {SERIES}", directory.display()),
            "give the directory that the series printed when it began",
        ),
        _ => StoreError::Io { doing: "read", path: file.clone(), source }.into(),
    })?;
    let content =
        |line: usize, what: String| StoreError::Content { file: file.clone(), line: line as u64, what };
    let series: Series = strict::json(text.as_bytes()).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        content(error.line(), format!("column {}: {what}", error.column()))
    })?;
    if series.schema > SERIES_SCHEMA {
        return Err(StoreError::Newer { file, found: series.schema, known: SERIES_SCHEMA }.into());
    }
    if !(1..=ITERATIONS_MAX).contains(&series.rounds) {
        let what = format!("rounds: `{}` is not from 1 to {}", series.rounds, grouped(ITERATIONS_MAX.into()));
        return Err(content(1, what).into());
    }
    Ok((directory, series))
}

/// Whether a path is that of a series.
pub fn is_series(path: &Path) -> bool {
    path.join(SERIES).is_file() || (path.ends_with(SERIES) && path.is_file())
}

/// The record of each cell so far; `None` where nothing of a cell is stored.
pub fn records(directory: &Path, series: &Series) -> Result<Vec<Option<RunRecord>>, StoreError> {
    let of_cell = |cell: &Cell| match directory_of(directory, &cell.name)? {
        Some(path) => {
            Store::load(&path).map(|record| Some(record).filter(|record| !record.iterations.is_empty()))
        }
        None => Ok(None),
    };
    series.cells.iter().map(of_cell).collect()
}

/// The directory of a cell's record: its name ends in the cell's, after the time when it began.
pub fn directory_of(directory: &Path, cell: &str) -> Result<Option<PathBuf>, StoreError> {
    let io = |source| StoreError::Io { doing: "read", path: directory.to_owned(), source };
    let cell = directory_name(cell);
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.strip_suffix(PARTIAL).unwrap_or(name);
        // A directory without a record is one whose making was cut short.
        if name.get(STAMP_LENGTH..) == Some(&*cell) && path.join(webstone_store::RECORD).is_file() {
            // Resuming would change a record outside the series.
            if path.is_symlink() {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
                return Err(StoreError::Io { doing: "read", path, source });
            }
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().next())
}

/// Checks that each cell can have a record of its own: a directory has no more of a name than a file system takes.
fn distinct(cells: &[Cell]) -> Result<(), SeriesError> {
    let mut known = HashMap::new();
    for cell in cells {
        if let Some(other) = known.insert(directory_name(&cell.name), cell) {
            let of = |cell: &Cell| format!("`{}` ({})", cell.name, cell.spec.workload);
            return Err(SeriesError::refused(
                format!("the records of two cells would have one name: {} and {}", of(other), of(cell)),
                "rename the workload's file, or make a series of each: a cell is named by the file without directory and \
                 extension, and a record by at most 80 characters of it, with hyphens for all but ASCII letters, digits, `.` \
                 and `_`",
            ));
        }
    }
    Ok(())
}

fn is_finished(record: &Path) -> bool {
    record.extension().is_none_or(|extension| extension != &PARTIAL[1..])
}

fn locked(directory: &Path) -> Result<File, SeriesError> {
    let io = |source| StoreError::Io { doing: "lock", path: directory.to_owned(), source };
    let file = File::open(directory).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SeriesError::Busy(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(io(source).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(workloads: &[&str]) -> Vec<Cell> {
        let matrix = Matrix {
            workloads: workloads.iter().map(|workload| (*workload).to_owned()).collect(),
            ..Matrix::default()
        };
        matrix.cells(&RunSpec::default()).unwrap()
    }

    #[test]
    fn two_cells_never_share_the_name_of_a_record() {
        assert!(distinct(&planned(&["v1/shop.toml", "v2/mall.toml"])).is_ok());
        let long = "x".repeat(80);
        for twice in [
            ["v1/shop.toml", "v2/shop.toml"],
            ["general", "./general.toml"],
            ["größe.toml", "grüße.toml"],
            [&format!("{long}1"), &format!("{long}2")],
        ] {
            let told = distinct(&planned(&twice)).unwrap_err().to_string();
            assert!(twice.iter().all(|workload| told.contains(workload)), "{told}");
        }
    }

    #[test]
    fn a_cell_has_its_record_however_its_directory_is_named() {
        let runs = tempfile::tempdir().unwrap();
        for workload in ["shop.toml", "größe.toml", &"x".repeat(90)] {
            let cell = &planned(&[workload])[0];
            assert_eq!(directory_of(runs.path(), &cell.name).unwrap(), None);
            let mut record = RunRecord { spec: cell.spec.clone(), ..RunRecord::default() };
            let store = Store::create(runs.path(), SystemTime::now(), &mut record).unwrap();
            assert_eq!(directory_of(runs.path(), &cell.name).unwrap().as_deref(), Some(store.path()));
        }
    }
}
