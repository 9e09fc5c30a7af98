//! A listing of a directory of runs by names, sizes and times, which decide which rows are made again. No file is opened.
//!
//! Links are not followed: their targets do not belong to the library, and a row says so.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::row::{RowKind, SERIES};
use crate::clock;
use crate::duel::DUEL;
use crate::{ITERATIONS, PARTIAL, RECORD};

/// Ending of the file of a run's notes, after the run's name.
pub(super) const NOTES: &str = ".notes.toml";
/// A change within this many nanoseconds of the last look may not change times: file systems count in ticks.
const TICK_NS: i64 = 2_000_000_000;

/// Sizes and times by which a change is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Bytes of the record file.
    pub(super) size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub(super) changed_ns: i64,
    /// The same of its directory, where certificates come and go.
    #[serde(default)]
    pub(super) directory_ns: i64,
    /// A hash of names, sizes and times of what grows beside it: iterations and cells.
    #[serde(default)]
    pub(super) parts: u64,
}

/// A directory that holds a run, a duel or a series.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) name: String,
    pub(super) kind: RowKind,
    /// `None`: a change now might not be seen, so that the row is made again next time.
    pub(super) stamp: Option<Stamp>,
    /// Why it is not read.
    pub(super) problem: Option<String>,
    /// Of a series: the directories of its runs, in the order of their names.
    pub(super) cells: Vec<String>,
}

/// What lies in a directory of runs.
#[derive(Debug, Default)]
pub struct Listing {
    /// The newest first: names begin with the time.
    pub(super) folders: Vec<Folder>,
    /// Notes, by the name of their run.
    pub(super) notes: BTreeMap<String, Option<Stamp>>,
    /// When the look began.
    pub(super) begun: Option<Instant>,
}

/// Whether a name is of a run that has not ended.
pub(super) fn is_partial(name: &str) -> bool {
    name.ends_with(PARTIAL)
}

/// A run's final name, without `.partial`: notes have it from the beginning.
pub(super) fn final_name(name: &str) -> &str {
    name.strip_suffix(PARTIAL).unwrap_or(name)
}

/// Looks at a directory of runs. The row of a directory that cannot be read says so.
pub(super) fn list(runs_dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing { begun: Some(Instant::now()), ..Listing::default() };
    let now = clock::since_epoch(SystemTime::now()).as_nanos() as i64;
    for entry in fs::read_dir(runs_dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let kind = entry.file_type()?;
        if let (false, Some(run)) = (kind.is_dir(), name.strip_suffix(NOTES)) {
            let stamp = entry.metadata().ok().and_then(|found| settled(stamp(&found), now));
            listing.notes.insert(run.to_owned(), stamp);
        } else if kind.is_dir() {
            let is_text = entry.file_name().to_str().is_some();
            listing.folders.extend(folder(&entry.path(), name, is_text, now));
        } else if kind.is_symlink() {
            listing.folders.extend(link(&entry.path(), name));
        }
    }
    listing.folders.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    Ok(listing)
}

/// What a directory holds, by its file. If it has several of these files, the first counts.
const KINDS: [(&str, RowKind); 3] =
    [(RECORD, RowKind::Run), (DUEL, RowKind::Duel), (SERIES, RowKind::Series)];

/// A directory with a record or a plan in it; `None` of any other.
fn folder(path: &Path, name: String, is_text: bool, now: i64) -> Option<Folder> {
    let found = KINDS.into_iter().find_map(|(file, kind)| match path.join(file).symlink_metadata() {
        Ok(found) => Some(Ok((kind, found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(error)),
    });
    let (kind, found) = match found? {
        Ok(found) => found,
        Err(error) => {
            let problem = Some(format!("cannot be looked at: {}", crate::without_number(&error)));
            return Some(Folder { name, kind: RowKind::Run, stamp: None, problem, cells: Vec::new() });
        }
    };
    let mut stamp = stamp(&found);
    stamp.directory_ns = path.symlink_metadata().map_or(0, |found| changed_ns(&found));
    let mut newest = stamp.changed_ns.max(stamp.directory_ns);
    let mut cells = Vec::new();
    let mut parts = DefaultHasher::new();
    let mut add = |file: &Path, parts: &mut DefaultHasher| {
        if let Ok(found) = file.symlink_metadata() {
            let changed = changed_ns(&found);
            newest = newest.max(changed);
            (found.size(), changed).hash(parts);
        }
    };
    if kind == RowKind::Series {
        cells = runs_of(path);
        for cell in &cells {
            let directory = path.join(cell);
            cell.hash(&mut parts);
            [RECORD, ITERATIONS, "."].iter().for_each(|file| add(&directory.join(file), &mut parts));
        }
        stamp.parts = parts.finish();
    } else if is_partial(&name) {
        add(&path.join(ITERATIONS), &mut parts);
        stamp.parts = parts.finish();
    }
    let stamp = (!is_recent(newest, now)).then_some(stamp);
    let problem = match found.file_type() {
        _ if !is_text => Some("its name is not text in UTF-8; rename it".to_owned()),
        kind if kind.is_file() => None,
        kind if kind.is_symlink() => {
            Some("its record is a symbolic link; only plain files are read".to_owned())
        }
        _ => Some("its record is not a plain file".to_owned()),
    };
    Some(Folder { name, kind, stamp, problem, cells })
}

/// A link to what would be a run.
fn link(path: &Path, name: String) -> Option<Folder> {
    let leads_to = |file: &str| path.join(file).symlink_metadata().is_ok();
    let (_, kind) = KINDS.into_iter().find(|(file, _)| leads_to(file))?;
    let problem =
        Some("it is a symbolic link; the library reads what lies in the directory itself".to_owned());
    Some(Folder { name, kind, stamp: None, problem, cells: Vec::new() })
}

/// The runs of a series, by their directories' names.
fn runs_of(series: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(series) else { return Vec::new() };
    let is_run = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.path().join(RECORD).symlink_metadata().is_ok_and(|found| found.is_file())
    };
    let entries = entries.filter_map(Result::ok).filter(is_run);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn stamp(found: &Metadata) -> Stamp {
    Stamp { size: found.size(), changed_ns: changed_ns(found), ..Stamp::default() }
}

fn changed_ns(found: &Metadata) -> i64 {
    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
}

fn settled(stamp: Stamp, now: i64) -> Option<Stamp> {
    (!is_recent(stamp.changed_ns, now)).then_some(stamp)
}

fn is_recent(changed_ns: i64, now: i64) -> bool {
    changed_ns.abs_diff(now) < TICK_NS as u64
}
