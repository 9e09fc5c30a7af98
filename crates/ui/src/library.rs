//! The library's rows as the pages have them, and what is done to a stored run: notes, trash.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use webstone_judge::steps::{RUNS_MIN, Step};
use webstone_measure::units::grouped;
use webstone_model::record::RunState;
use webstone_store::library::{
    History, HistoryMetric, Library, LibraryRow, Notes, Peak, Query, RowKind, trash,
};

use crate::answer::Failed;

/// Rows that are made before a page is answered; each may be a record of some megabytes that nobody has read before.
const FIRST: usize = 100;
/// Rows that are made at a time afterwards, while pages are answered from what there is.
const MORE: usize = 50;
/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(10);
/// Shortest time between two looks at the directory that searches cause.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Most rows of an answer.
const ROWS_MAX: usize = 1000;

/// The library of a front: opened when a page first asks for it.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    library: Arc<Mutex<Option<Library>>>,
    /// Whether a thread reads records that were not read yet.
    is_read_on: Arc<AtomicBool>,
    /// Whether a thread checks what has changed.
    is_looked_at: Arc<AtomicBool>,
    /// Whether the front itself has changed something since it last looked.
    is_changed: AtomicBool,
}

/// Notes as a page sends them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noted {
    text: String,
    tags: Vec<String>,
}

impl Shelf {
    /// The rows that a search finds, in the order of a column (`rate`, falling: `-rate`), a number of them from a place on.
    pub(crate) fn rows(
        &self,
        runs_dir: &Path,
        search: &str,
        sort: &str,
        (offset, limit): (usize, usize),
    ) -> Result<Value, Failed> {
        let library = if search.trim().is_empty() { self.current(runs_dir)? } else { self.known(runs_dir)? };
        let Some(library) = library.as_ref() else {
            return Ok(
                json!({ "rows": [], "total": 0, "matched": 0, "unread": 0, "problem": null, "sort": sort }),
            );
        };
        let (query, problem) = match Query::parse(search) {
            Ok(query) => (query, Value::Null),
            Err(error) => (Query::default(), json!({ "message": error.to_string(), "hint": error.hint })),
        };
        let found: Vec<&LibraryRow> =
            if problem.is_null() { library.find(&query).collect() } else { Vec::new() };
        let (found, is_sorted) = sorted(found, sort);
        let shown = found.iter().skip(offset).take(limit.min(ROWS_MAX));
        Ok(json!({
            "rows": shown.map(|row| of_row(library, row)).collect::<Vec<_>>(),
            "total": library.rows().len(),
            "matched": found.len(),
            "unread": library.rows().iter().filter(|row| row.unread).count(),
            "problem": problem,
            "sort": is_sorted.then_some(sort),
        }))
    }

    /// The row of a run.
    pub(crate) fn row(&self, runs_dir: &Path, name: &str) -> Result<Option<Value>, Failed> {
        let library = self.current(runs_dir)?;
        let library = library.as_ref();
        Ok(library.and_then(|library| Some(of_row(library, library.row(name)?))))
    }

    /// The runs that were measured like one of them, the oldest first, with the steps among them.
    pub(crate) fn history(&self, runs_dir: &Path, name: &str) -> Result<Option<Value>, Failed> {
        let library = self.current(runs_dir)?;
        let Some((library, run)) = library.as_ref().and_then(|library| Some((library, library.row(name)?)))
        else {
            return Ok(None);
        };
        let found = library.history_of(name, HistoryMetric::Rate);
        let excluded = found.as_ref().map_or(0, |found| found.left_out);
        let Some(line) = found.as_ref().and_then(|found| found.lines.first()) else {
            let why = "A history is made of single runs that ended as planned and are neither INVALID nor INCONCLUSIVE";
            return Ok(Some(json!({
                "server": run.server_or_target(), "points": [], "steps": [], "excluded": excluded, "why": why,
            })));
        };
        let points = line.runs.iter().map(|run| {
            json!({
                "run": run.name, "started": run.started, "value": run.value, "verdict": run.verdict,
                "low": run.interval.map(|ends| ends[0]), "high": run.interval.map(|ends| ends[1]),
            })
        });
        let steps = line.steps.iter().flatten();
        Ok(Some(json!({
            "server": run.server_or_target(),
            "metric": format!("requests/s at {}", line.level),
            "unit": "requests/s",
            "points": points.collect::<Vec<_>>(),
            "steps": steps.map(|step| of_step(step, line)).collect::<Vec<_>>(),
            "excluded": excluded,
            "why": line.steps.is_none().then(|| format!("Steps are looked for in {RUNS_MIN} runs or more")),
        })))
    }

    /// The library as it last was: a search is answered at once, and the directory is read afterwards.
    fn known(&self, runs_dir: &Path) -> Result<MutexGuard<'_, Option<Library>>, Failed> {
        let library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        if library.is_none() || self.is_changed.load(Ordering::Acquire) {
            drop(library);
            return self.current(runs_dir);
        }
        if !self.is_looked_at.swap(true, Ordering::AcqRel) {
            let (shared, ends) = (Arc::clone(&self.library), Arc::clone(&self.is_looked_at));
            let runs_dir = runs_dir.to_owned();
            let looks = move || {
                let listing = Library::look(&runs_dir);
                let mut library = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match (library.as_mut(), listing) {
                    (Some(library), Ok(listing)) => drop(library.refresh_from(listing, FIRST)),
                    // The next answer says what is wrong with the directory.
                    _ => *library = None,
                }
                drop(library);
                std::thread::sleep(LOOK_EVERY);
                ends.store(false, Ordering::Release);
            };
            if let Err(error) = std::thread::Builder::new().name("library".to_owned()).spawn(looks) {
                self.is_looked_at.store(false, Ordering::Release);
                tracing::warn!(%error, "the library is not looked at");
            }
        }
        Ok(library)
    }

    /// Writes the notes of a run.
    pub(crate) fn note(&self, directory: &Path, noted: Noted) -> Result<Value, Failed> {
        for tag in &noted.tags {
            Notes::check_tag(tag)?;
        }
        let notes = Notes::edit(directory, |notes| {
            notes.text = noted.text;
            notes.tags = noted.tags.into_iter().collect();
        })?;
        self.is_changed.store(true, Ordering::Release);
        Ok(of_notes(&notes))
    }

    /// Moves a run to the trash.
    pub(crate) fn discard(&self, runs_dir: &Path, name: &str) -> Result<(), Failed> {
        trash::discard(runs_dir, name)?;
        self.is_changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Moves a run out of the trash.
    pub(crate) fn restore(&self, runs_dir: &Path, name: &str) -> Result<(), Failed> {
        trash::restore(runs_dir, name)?;
        self.is_changed.store(true, Ordering::Release);
        Ok(())
    }

    /// The library as it is now; `None` if the directory of runs does not exist yet.
    fn current(&self, runs_dir: &Path) -> Result<MutexGuard<'_, Option<Library>>, Failed> {
        self.is_changed.store(false, Ordering::Release);
        if !runs_dir.exists() {
            let mut library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
            *library = None;
            return Ok(library);
        }
        // Most of the time goes into this look, which holds no lock on the library.
        let listing = Library::look(runs_dir)?;
        let mut library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        match library.as_mut() {
            Some(library) => {
                library.refresh_from(listing, FIRST);
            }
            None => *library = Some(Library::open_newest(runs_dir, FIRST)?),
        }
        if library.as_ref().is_some_and(|library| library.rows().iter().any(|row| row.unread)) {
            self.read_on(runs_dir);
        }
        Ok(library)
    }

    /// Makes the rows that are missing, a few at a time, so that pages are answered in between.
    fn read_on(&self, runs_dir: &Path) {
        if self.is_read_on.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shared, ends) = (Arc::clone(&self.library), Arc::clone(&self.is_read_on));
        let runs_dir = runs_dir.to_owned();
        let thread = std::thread::Builder::new().name("library".to_owned());
        let started = thread.spawn(move || {
            let mut rows = FIRST;
            let mut is_whole = false;
            while !is_whole {
                rows += MORE;
                let listing = Library::look(&runs_dir);
                let mut library = shared.lock().unwrap_or_else(PoisonError::into_inner);
                is_whole = match (library.as_mut(), listing) {
                    (Some(library), Ok(listing)) => {
                        library.refresh_from(listing, rows);
                        !library.rows().iter().any(|row| row.unread)
                    }
                    _ => true,
                };
                drop(library);
                // Requests that wait for the library go first: a lock is not fair.
                std::thread::sleep(PAUSE);
            }
            ends.store(false, Ordering::Release);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "the library is not read to its end");
        }
    }
}

/// The figures of a row, all of one level: that which keeps the SLO need not be the peak.
#[derive(Default)]
struct Best {
    rate: Option<f64>,
    unit: &'static str,
    at: Option<String>,
    p99_ms: Option<f64>,
}

fn best(row: &LibraryRow) -> Best {
    let ms = |level: &Peak| level.p99_s.map(|seconds| seconds * 1e3);
    match (&row.kept, &row.peak) {
        (Some(kept), _) => {
            let level = kept.over.level(kept.load).to_string();
            let p99_ms = row.levels.iter().find(|it| it.level == level).and_then(ms);
            Best { rate: Some(kept.load as f64), unit: "SLO kept at", at: Some(level), p99_ms }
        }
        (None, Some(peak)) => Best {
            rate: Some(peak.rate_per_s),
            unit: "requests/s",
            at: Some(peak.level.clone()),
            p99_ms: ms(peak),
        },
        (None, None) => Best::default(),
    }
}

fn server(row: &LibraryRow) -> String {
    match (row.kind, row.cells.len()) {
        (RowKind::Series, cells) => {
            format!("{} of {} cells", grouped(cells as u64), grouped(row.planned.len() as u64))
        }
        (RowKind::Run, _) => row.server_or_target(),
        (RowKind::Duel, _) => row.duellists(),
    }
}

/// The rows in the order of a column, and whether there is such a column. Rows without a value there are last, rising or falling.
fn sorted<'a>(rows: Vec<&'a LibraryRow>, sort: &str) -> (Vec<&'a LibraryRow>, bool) {
    let (column, falls) = sort.strip_prefix('-').map_or((sort, false), |column| (column, true));
    let number = |value: Option<f64>| (value, String::new());
    let text = |text: &str| (None, text.to_lowercase());
    let value = |row: &LibraryRow| {
        Some(match column {
            "name" => text(&row.name),
            "started" => text(&row.started),
            "server" => text(&server(row)),
            "workload" => text(&row.workload),
            "rate" => number(best(row).rate),
            "at" => number(best(row).at.as_deref().and_then(first_number)),
            "p99_ms" => number(best(row).p99_ms),
            "limit" => text(json!(row.limit).as_str().unwrap_or_default()),
            "errors" => number(Some(row.errors as f64)),
            "duration_s" => number(row.duration_s),
            "verdict" => text(row.verdict()),
            _ => return None,
        })
    };
    if value(&LibraryRow::default()).is_none() {
        return (rows, false);
    }
    let mut keyed: Vec<_> = rows.into_iter().filter_map(|row| Some((value(row)?, row))).collect();
    keyed.sort_by(|((a, a_text), _), ((b, b_text), _)| {
        let is_none = |number: &Option<f64>, text: &str| number.is_none() && text.is_empty();
        let (a_number, b_number) = (a.unwrap_or(0.0), b.unwrap_or(0.0));
        let order = a_number.total_cmp(&b_number).then_with(|| a_text.cmp(b_text));
        let order = if falls { order.reverse() } else { order };
        is_none(a, a_text).cmp(&is_none(b, b_text)).then(order)
    });
    (keyed.into_iter().map(|(_, row)| row).collect(), true)
}

/// The number that a level begins with: 1000 of `1,000 arrivals/s`.
fn first_number(level: &str) -> Option<f64> {
    let is_part = |c: &char| c.is_ascii_digit() || matches!(c, '.' | ',');
    level.chars().take_while(is_part).filter(|c| *c != ',').collect::<String>().parse().ok()
}

/// A row as pages have it.
fn of_row(library: &Library, row: &LibraryRow) -> Value {
    let notes = library.notes(&row.name);
    let state = match row.state {
        Some(RunState::Complete) => "complete",
        Some(RunState::Interrupted) => "interrupted",
        Some(RunState::Partial) => "partial",
        Some(RunState::Failed) => "failed",
        None => "",
    };
    let Best { rate, unit, at, p99_ms } = best(row);
    let server = server(row);
    let note = notes.and_then(|notes| notes.text.lines().next()).unwrap_or_default();
    json!({
        "name": row.name,
        "kind": row.kind,
        "started": row.started,
        "server": server,
        "server_version": row.server_version,
        "workload": row.workload,
        "target": row.target,
        "command": row.command,
        "protocol": if row.tls { format!("{} over TLS", row.protocol) } else { row.protocol.clone() },
        "host": row.host,
        "verdict": row.verdict(),
        "standing": row.standing,
        "state": state,
        "rate": rate,
        "rate_unit": unit,
        "at": at,
        "answer": row.answer,
        "p99_ms": p99_ms,
        "limit": row.limit,
        "errors": row.errors,
        "duration_s": row.duration_s,
        "tags": notes.map(|notes| &notes.tags),
        "note": note,
        "unreadable": row.problem,
        "unread": row.unread,
    })
}

/// A step as pages have it.
fn of_step(step: &Step, line: &History<'_>) -> Value {
    let unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let changed = step.changed.iter().map(|one| {
        let mostly = if one.throughout { "" } else { " (mostly)" };
        format!("{}: {} → {}{mostly}", one.what, unknown(&one.before), unknown(&one.after))
    });
    json!({
        "at_run": line.runs.get(step.index).map(|run| run.name),
        "before": step.before,
        "after": step.after,
        "change_percent": step.change.as_ref().map(|change| change.point),
        "low_percent": step.change.as_ref().map(|change| change.low),
        "high_percent": step.change.as_ref().map(|change| change.high),
        "p": step.p_value,
        "changed": changed.collect::<Vec<_>>(),
    })
}

/// The notes of a run.
pub(crate) fn notes(directory: &Path) -> Result<Value, Failed> {
    Ok(of_notes(&Notes::load(directory)?))
}

fn of_notes(notes: &Notes) -> Value {
    json!({ "text": notes.text, "tags": notes.tags, "updated": notes.updated })
}

/// What is in the trash.
pub(crate) fn trashed(runs_dir: &Path) -> Result<Value, Failed> {
    let rows = trash::list(runs_dir)?.into_iter().map(|name| json!({ "name": name }));
    Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use webstone_judge::verdict::Standing;
    use webstone_model::search::Over;
    use webstone_store::library::Kept;

    use super::*;

    /// A level of a search over arrivals.
    fn level(load: u64, p99_s: f64) -> Peak {
        Peak {
            level: Over::Rate.level(load).to_string(),
            clients: 10,
            rate_per_s: load as f64,
            rate_interval: None,
            p99_s: Some(p99_s),
            standing: Standing::Sound,
            noise: None,
        }
    }

    #[test]
    fn the_response_time_is_that_of_the_load_that_keeps_the_slo() {
        let runs = tempfile::tempdir().unwrap();
        let library = Library::open(runs.path()).unwrap();
        let mut row = LibraryRow {
            kept: Some(Kept { over: Over::Rate, load: 1000 }),
            levels: vec![level(1000, 0.01), level(2000, 0.9)],
            peak: Some(level(2000, 0.9)),
            ..LibraryRow::default()
        };
        let shown = of_row(&library, &row);
        assert_eq!((&shown["at"], &shown["p99_ms"]), (&json!("1,000 arrivals/s"), &json!(10.0)));
        // A row of many levels has only its peak.
        row.levels.remove(0);
        assert_eq!(of_row(&library, &row)["p99_ms"], Value::Null);
    }

    #[test]
    fn rows_are_in_the_order_of_a_column_and_those_without_a_value_last() {
        let row = |name: &str, load: Option<u64>| LibraryRow {
            name: name.to_owned(),
            peak: load.map(|load| level(load, 1.0)),
            ..LibraryRow::default()
        };
        let rows = [row("b", Some(900)), row("c", None), row("A", Some(10_000)), row("d", Some(2000))];
        let order = |sort: &str| {
            let (sorted, is_known) = sorted(rows.iter().collect(), sort);
            (sorted.iter().map(|row| row.name.as_str()).collect::<String>(), is_known)
        };
        assert_eq!(order("rate"), ("bdAc".to_owned(), true));
        assert_eq!(order("-rate"), ("Adbc".to_owned(), true));
        assert_eq!(order("-at"), ("Adbc".to_owned(), true));
        assert_eq!(order("name"), ("Abcd".to_owned(), true));
        assert_eq!(order("-errors"), ("bcAd".to_owned(), true), "equal ones stay as they are");
        assert_eq!(order("colour"), ("bcAd".to_owned(), false));
    }
}
