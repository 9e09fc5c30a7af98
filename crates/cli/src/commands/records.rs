//! Finds a stored run, series or duel: by path, by its directory's name or its own below the directory of runs, or as one of the
//! last.

use std::io;
use std::path::{Path, PathBuf};

use webstone_model::record::RunRecord;
use webstone_store::{Store, clock, duel};

use crate::failure::Failure;
use crate::intent::RUNS_DIR;

/// Reads the given run.
pub(super) fn load(named: &Path, runs_dir: Option<&Path>) -> Result<RunRecord, Failure> {
    let path = find(named, runs_dir.unwrap_or(Path::new(RUNS_DIR)))?;
    refuse_series(named, &path)?;
    match duel::directory(&path) {
        Some(directory) => Err(is_no_run(named, &directory)),
        None => Ok(Store::load(&path)?),
    }
}

/// Why a duel is refused where a run is needed.
fn is_no_run(named: &Path, duel: &Path) -> Failure {
    let name = duel.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".partial").unwrap_or(&name);
    let typed = named.display().to_string();
    let which = if typed == name { typed } else { format!("{typed} ({name})") };
    Failure::usage(format!("{which} is a duel, not a run")).hint(format!(
        "its contestants are compared with each other: `webstone report {}` shows how",
        named.display()
    ))
}

/// The directory of a series, of which `path` is that or the `series.json` in it.
pub(super) fn of_series(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) }
}

/// The directories of cells in that of a series, in the order in which they began.
pub(super) fn cells_in(series: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(series).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut cells: Vec<PathBuf> = entries.filter(|path| is_run_or_duel(path)).collect();
    cells.sort_unstable();
    cells
}

/// Refuses a series where one run is needed, and names a cell of it.
fn refuse_series(named: &Path, path: &Path) -> Result<(), Failure> {
    if !webstone_runner::series::is_series(path) {
        return Ok(());
    }
    let failure = Failure::usage(format!("{} is a series, not a run", named.display()));
    Err(failure.hint(match cells_in(of_series(path)).first() {
        Some(cell) => format!("give one of its cells, such as {}", cell.display()),
        None => "none of its cells is stored yet".to_owned(),
    }))
}

/// The directory of the given duel, if it is one.
pub(super) fn duel(named: &Path, runs_dir: Option<&Path>) -> Option<PathBuf> {
    duel::directory(&find(named, runs_dir.unwrap_or(Path::new(RUNS_DIR))).ok()?)
}

/// The given series, if it is one: by its path, by its name, or as the last that was measured.
pub(super) fn series(named: &Path, runs_dir: Option<&Path>) -> Option<PathBuf> {
    let runs_dir = runs_dir.unwrap_or(Path::new(RUNS_DIR));
    let is_any = |path: &Path| is_run_or_duel(path) || webstone_runner::series::is_series(path);
    let newest = || newest(runs_dir, &is_any);
    let last = (named == Path::new("last")).then(|| newest().ok()?.into_iter().next()).flatten();
    let of_name = || newest_of_name(named, runs_dir, &is_any);
    [Some(named.to_owned()), Some(runs_dir.join(named)), last]
        .into_iter()
        .chain(std::iter::once_with(of_name))
        .flatten()
        .find(|path| webstone_runner::series::is_series(path))
}

/// The directory of the given run or duel.
pub(super) fn locate(named: &Path, runs_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = find(named, runs_dir.unwrap_or(Path::new(RUNS_DIR)))?;
    refuse_series(named, &found)?;
    match duel::directory(&found) {
        Some(directory) => Ok(directory),
        None => Ok(Store::locate(&found)?),
    }
}

/// The directory of the given run, series or duel, as a path that ends in its name.
pub(super) fn any(named: &Path, runs_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = match series(named, runs_dir) {
        Some(series) => of_series(&series).to_owned(),
        None => locate(named, runs_dir)?,
    };
    match found.file_name() {
        Some(_) => Ok(found),
        None => found.canonicalize().map_err(|error| Failure::file("read", &found, &error)),
    }
}

/// The given archive or run: an archive by its path, a run as elsewhere.
pub(super) fn archive_or_run(named: &Path) -> Result<PathBuf, Failure> {
    // It may be a damaged record; reading it gives the error.
    match named.to_str().and_then(back) {
        Some(_) => find(named, Path::new(RUNS_DIR)),
        None => Ok(find(named, Path::new(RUNS_DIR)).unwrap_or_else(|_| named.to_owned())),
    }
}

fn is_run_or_duel(path: &Path) -> bool {
    path.join("record.json").is_file() || path.join(duel::DUEL).is_file()
}

/// If the path exists, it is used; otherwise the run with that name, or counted from the last.
fn find(named: &Path, runs_dir: &Path) -> Result<PathBuf, Failure> {
    // The name of a run that was killed ends in `.partial`; the store finds it by itself.
    let exists = |path: &Path| {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        path.exists() || Path::new(&partial).exists()
    };
    if exists(named) {
        return Ok(named.to_owned());
    }
    let by_name = runs_dir.join(named);
    if named.components().count() == 1 && exists(&by_name) {
        return Ok(by_name);
    }
    if let Some(newest) = newest_of_name(named, runs_dir, &is_run_or_duel) {
        return Ok(newest);
    }
    match named.to_str().and_then(back) {
        Some(back) => last(runs_dir, back),
        None if named.components().count() == 1 => Err(Failure::failed(format!(
            "there is no run {}: neither here nor in {}",
            named.display(),
            runs_dir.display()
        ))
        .hint(
            "`last` is the newest run, `last~1` the one before; --runs-dir names another directory of runs",
        )),
        // The store's message says what does not exist.
        None => Ok(named.to_owned()),
    }
}

/// The newest with the name that `--name` gave. The directory's own name begins with the time of the start.
fn newest_of_name(named: &Path, runs_dir: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let name = named.to_str()?;
    let has_name = |path: &Path| {
        let directory = path.file_name().and_then(|directory| directory.to_str()).unwrap_or_default();
        let directory = directory.strip_suffix(".partial").unwrap_or(directory);
        directory.split_once('-').is_some_and(|(time, rest)| rest == name && clock::is_file_name_stamp(time))
    };
    newest(runs_dir, &|path| has_name(path) && is_wanted(path)).ok()?.into_iter().next()
}

/// `last`: 0; `last~2`: 2.
fn back(text: &str) -> Option<usize> {
    match text.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// Names of runs begin with their time, so that alphabetical order is chronological.
fn last(runs_dir: &Path, back: usize) -> Result<PathBuf, Failure> {
    let mut runs = newest(runs_dir, &is_run_or_duel)?;
    if runs.is_empty() {
        return Err(Failure::failed(format!("there is no run in {}", runs_dir.display())).hint(
            "`webstone run` makes one, and `webstone hit` with --store; --runs-dir names another directory",
        ));
    }
    let is_held = back < runs.len();
    is_held.then(|| runs.swap_remove(back)).ok_or_else(|| {
        let held = match runs.len() {
            1 => "1 run".to_owned(),
            number => format!("{number} runs"),
        };
        Failure::usage(format!("last~{back}: {} has {held}", runs_dir.display()))
            .hint("`last` is the newest, `last~1` the one before; --runs-dir names another directory")
    })
}

fn newest(runs_dir: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Failure> {
    let entries = match std::fs::read_dir(runs_dir) {
        // Nothing was stored yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Failure::file("read", runs_dir, &error))?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| is_wanted(path)).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_path_by_name_and_from_the_end() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["1-a", "2-b", "3-c"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("record.json"), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("4-no-run")).unwrap();
        std::fs::create_dir(dir.path().join("0-duel")).unwrap();
        std::fs::write(dir.path().join("0-duel").join("duel.json"), "").unwrap();
        let found = |named: &str| find(Path::new(named), dir.path()).map_err(|failure| failure.message);
        assert_eq!(found("2-b"), Ok(dir.path().join("2-b")));
        assert_eq!(found("last"), Ok(dir.path().join("3-c")));
        assert_eq!(found("last~2"), Ok(dir.path().join("1-a")));
        assert_eq!(found("last~3"), Ok(dir.path().join("0-duel")));
        assert_eq!(found("last~4"), Err(format!("last~4: {} has 4 runs", dir.path().display())));
        let duel = |named: &str| duel(Path::new(named), Some(dir.path()));
        assert_eq!((duel("0-duel"), duel("last~3")), (Some(dir.path().join("0-duel")), found("last~3").ok()));
        assert_eq!((duel("1-a"), duel("none")), (None, None));
        for (named, said) in [("last~3", "last~3 (0-duel) is a duel"), ("0-duel", "0-duel is a duel")] {
            let refused = load(Path::new(named), Some(dir.path())).unwrap_err();
            assert_eq!(refused.message, format!("{said}, not a run"));
            assert!(refused.hint.unwrap().contains(&format!("`webstone report {named}`")));
        }
        let empty = dir.path().join("4-no-run");
        for dir in [empty.clone(), empty.join("none")] {
            let none = last(&dir, 0).unwrap_err();
            assert_eq!(none.message, format!("there is no run in {}", dir.display()));
            assert!(none.hint.is_some_and(|hint| hint.starts_with("`webstone run` makes one")));
        }
        // The newest of a name, finished or not; what only ends alike is another name.
        for directory in ["20260101T000000Z-b", "20260102T000000Z-b.partial", "20260103T000000Z-a-b"] {
            std::fs::create_dir(dir.path().join(directory)).unwrap();
            std::fs::write(dir.path().join(directory).join("record.json"), "").unwrap();
        }
        assert_eq!(found("b"), Ok(dir.path().join("20260102T000000Z-b.partial")));
        assert_eq!(found("a-b"), Ok(dir.path().join("20260103T000000Z-a-b")));
        let none = format!("there is no run elsewhere: neither here nor in {}", dir.path().display());
        assert_eq!(found("elsewhere"), Err(none));
        assert_eq!(found("elsewhere/1"), Ok(PathBuf::from("elsewhere/1")));
        assert_eq!(found("/tmp"), Ok(PathBuf::from("/tmp")));
    }
}
