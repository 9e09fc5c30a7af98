//! `RUNS/.index.ndjson`: the rows of the library as they were read last, each with the sizes and times by which a change is
//! noticed. It may be deleted at any time, and parts that cannot be used are made again silently.
//!
//! ```text
//! {"index":6,"version":"0.1.0"}
//! {"environment":{"kernel":"6.18.0", …}}                      numbered from 0, in order
//! {"row":{…},"stamp":{"size":…,"changed_ns":…},"environments":[0]}   the row's own, then one for each cell
//! ```
//!
//! Hundreds of runs share an environment, which would otherwise be most of the file. Rows of another version of webstone are
//! made again: verdicts follow from rules that change.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use webstone_measure::strict;

use super::files::Stamp;
use super::row::LibraryRow;
use super::written::write_beside;
use crate::plain_file::{self, Links};

/// Name of the file.
pub const INDEX: &str = ".index.ndjson";
/// Version of its form.
const FORMAT: u32 = 6;
/// Largest index that is read, in bytes: some 300,000 rows.
const INDEX_BYTES_MAX: u64 = 256 << 20;

type Environment = Arc<BTreeMap<String, String>>;

/// A row and its stamp.
pub(super) type Kept = (LibraryRow, Option<Stamp>);

#[derive(Serialize, Deserialize)]
struct Head {
    index: u32,
    version: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<LibraryRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    environments: Vec<usize>,
}

/// The rows that were kept, by name. Empty where there is no index that can be used.
pub(super) fn read(runs_dir: &Path) -> HashMap<String, Kept> {
    let Ok(bytes) = plain_file::read(&runs_dir.join(INDEX), Links::Refused, INDEX_BYTES_MAX) else {
        return HashMap::new();
    };
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let head = lines.next().and_then(|line| strict::json::<Head>(line).ok());
    if head.is_none_or(|head| head.index != FORMAT || head.version != env!("CARGO_PKG_VERSION")) {
        return HashMap::new();
    }
    let mut environments: Vec<Environment> = Vec::new();
    let mut rows = HashMap::new();
    for line in lines {
        match strict::json::<Line>(line) {
            Ok(Line { environment: Some(environment), .. }) => environments.push(environment),
            Ok(Line { row: Some(row), stamp, environments: places, .. }) => {
                rows.extend(
                    restored(row, &places, &environments).map(|row| (row.name.clone(), (row, stamp))),
                );
            }
            // Later numbers would be of other environments.
            Err(_) if line.starts_with(b"{\"environment\"") => break,
            _ => {}
        }
    }
    rows
}

/// The row with its own environments and those of its cells; `None` if one is missing.
fn restored(mut row: LibraryRow, places: &[usize], environments: &[Environment]) -> Option<LibraryRow> {
    let mut places = places.iter();
    let mut next = || environments.get(*places.next()?).cloned();
    row.environment = next()?;
    for cell in &mut row.cells {
        cell.environment = next()?;
    }
    Some(row)
}

/// Writes rows with their stamps.
pub(super) fn write<'a>(
    runs_dir: &Path,
    rows: impl Iterator<Item = (&'a LibraryRow, Option<Stamp>)>,
) -> io::Result<()> {
    write_beside(&runs_dir.join(INDEX), |file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let head = Head { index: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned() };
        line(&mut out, &head)?;
        let mut known: HashMap<Environment, usize> = HashMap::new();
        for (row, stamp) in rows {
            let mut environments = Vec::with_capacity(1 + row.cells.len());
            let mut bare = row.clone();
            for environment in std::iter::once(&mut bare.environment)
                .chain(bare.cells.iter_mut().map(|cell| &mut cell.environment))
            {
                let environment = std::mem::take(environment);
                let next = known.len();
                let place = *known.entry(environment.clone()).or_insert(next);
                if place == next {
                    line(&mut out, &Line { environment: Some(environment), ..Line::default() })?;
                }
                environments.push(place);
            }
            line(&mut out, &Line { row: Some(bare), stamp, environments, ..Line::default() })?;
        }
        out.flush()
    })
}

fn line(out: &mut impl Write, content: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, content)?;
    out.write_all(b"\n")
}
