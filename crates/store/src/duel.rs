//! The record of a duel: a directory with `duel.json`, the slices as packed CSV, and the check sums of both. While the duel lasts, the
//! directory's name ends in `.partial`, and its files are replaced after every start.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use webstone_measure::slices::Slice;
use webstone_measure::strict;
use webstone_model::duel::{DUEL_SCHEMA, DuelRecord};
use webstone_model::record::RunState;

use crate::record::{
    Derived, PARTIAL, StoreError, held, manifest, read_file, replace, reserve, sync_directory,
};
use crate::{Integrity, RECORD, REPORT};

/// The record without its slices.
pub const DUEL: &str = "duel.json";
/// The slices.
pub const SLICES: &str = "slices.csv.gz";
/// Largest table of slices, unpacked, in bytes: two hours of slices of 1 ms.
const SLICES_BYTES_MAX: u64 = 1 << 30;
/// The table's heading: fields of [`Slice`], after the number of the start.
const HEADING: &str = "start,side,at_ns,took_ns,requests,errors,bytes,response_ns,unanswered,cpu_ns,resting_cpu_ns,waited_ns,generator_waited_ns\n";
/// The files of a duel.
const FILES: manifest::Files = manifest::Files { required: &[DUEL, SLICES], optional: &[REPORT] };

/// A record that is being written.
#[derive(Debug)]
pub struct DuelStore {
    runs: PathBuf,
    directory: PathBuf,
    /// What is computed from a finished record and stored beside it.
    derive: Option<fn(&DuelRecord) -> Vec<Derived>>,
    /// So that nobody throws it away meanwhile.
    _held: Option<File>,
}

impl DuelStore {
    /// Makes the directory of a duel below `runs`, and gives the record its name.
    pub fn create(
        runs: &Path,
        started: SystemTime,
        record: &mut DuelRecord,
        derive: Option<fn(&DuelRecord) -> Vec<Derived>>,
    ) -> Result<DuelStore, StoreError> {
        fs::create_dir_all(runs).map_err(|error| StoreError::io("create", runs, error))?;
        let (id, directory) = reserve(runs, started, "duel")?;
        record.id = id;
        let _held = held(&directory);
        let store = DuelStore { runs: runs.to_owned(), directory, derive, _held };
        store.append(record)?;
        sync_directory(runs)?;
        Ok(store)
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes what there is by now.
    pub fn append(&self, record: &DuelRecord) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec_pretty(record).expect("records have text keys");
        text.push(b'\n');
        // First, so that the record never has a start without its slices.
        replace(&self.directory.join(SLICES), &packed(record))?;
        replace(&self.directory.join(DUEL), &text)
    }

    /// Writes all of it with its check sums, and gives the directory its final name, which is returned.
    pub fn finish(self, record: &DuelRecord) -> Result<PathBuf, StoreError> {
        self.append(record)?;
        for file in self.derive.map(|derive| derive(record)).unwrap_or_default() {
            replace(&self.directory.join(file.name), &file.bytes)?;
        }
        manifest::write(&self.directory, &FILES)?;
        sync_directory(&self.directory)?;
        let name = self.runs.join(&record.id);
        fs::rename(&self.directory, &name).map_err(|error| StoreError::io("rename to", &name, error))?;
        sync_directory(&self.runs)?;
        Ok(name)
    }

    /// Removes a record in which nothing was measured.
    pub fn discard(self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The directory of the duel at a path, or with `duel.json` at it. A killed duel is also found by its final name.
pub fn directory(path: &Path) -> Option<PathBuf> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL);
    let inside = path.file_name().filter(|name| *name == DUEL).and_then(|_| path.parent());
    let inside = inside.map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    [Some(path), Some(Path::new(&partial)), inside]
        .into_iter()
        .flatten()
        .find(|path| path.join(DUEL).is_file())
        .map(Path::to_owned)
}

/// Whether a directory is that of a duel, and not of a run: also of a damaged one, without its record.
pub fn is_duel(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
    (has(DUEL) || has(SLICES)) && !has(RECORD)
}

/// Reads a record. A killed one holds every start that had ended.
pub fn load(directory: &Path) -> Result<DuelRecord, StoreError> {
    let read = |name: &str| {
        read_file(directory, name).map_err(|error| StoreError::io("read", &directory.join(name), error))
    };
    let wrong = |(name, line, what): Misread| StoreError::Content { file: directory.join(name), line, what };
    let record = parse_record(&read(DUEL)?).map_err(wrong)?;
    if record.schema != DUEL_SCHEMA {
        return Err(StoreError::Newer {
            file: directory.join(DUEL),
            found: record.schema,
            known: DUEL_SCHEMA,
        });
    }
    let mut text = String::new();
    GzDecoder::new(&*read(SLICES)?)
        .take(SLICES_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| wrong((SLICES, 1, error.to_string())))?;
    with_slices(record, &text).map_err(wrong)
}

/// A file of a record, a line in it, and what is wrong there.
pub type Misread = (&'static str, u64, String);

/// Reads `duel.json`, which has no slices.
pub fn parse_record(bytes: &[u8]) -> Result<DuelRecord, Misread> {
    strict::json(bytes).map_err(|error| (DUEL, error.line() as u64, error.to_string()))
}

/// Adds the slices of `slices.csv` to their starts.
pub fn with_slices(mut record: DuelRecord, text: &str) -> Result<DuelRecord, Misread> {
    let wrong = |line, what: String| Err((SLICES, line, what));
    if !text.starts_with(HEADING) {
        return wrong(1, "it does not begin with the names of its columns".to_owned());
    }
    for (number, line) in (2..).zip(text.lines().skip(1)) {
        let Some((start, slice)) = parsed(line) else {
            return wrong(number, "it is not a slice".to_owned());
        };
        let Some(start) = record.starts.get_mut(start) else {
            // Slices are written before the start that they belong to.
            if record.state == RunState::Partial {
                continue;
            }
            return wrong(number, format!("there is no start {start}"));
        };
        if slice.side as usize >= record.contestants.len() {
            return wrong(number, format!("there is no contestant {}", slice.side));
        }
        start.slices.push(slice);
    }
    Ok(record)
}

/// Checks the files of a finished record against their check sums.
pub fn check(directory: &Path) -> Result<Integrity, StoreError> {
    manifest::check(directory, &FILES)
}

fn packed(record: &DuelRecord) -> Vec<u8> {
    let mut text = HEADING.to_owned();
    for (number, start) in record.starts.iter().enumerate() {
        for slice in &start.slices {
            let Slice { side, at_ns, took_ns, requests, errors, bytes, response_ns, unanswered, .. } = slice;
            text += &format!(
                "{number},{side},{at_ns},{took_ns},{requests},{errors},{bytes},{response_ns},{unanswered}"
            );
            for value in [slice.cpu_ns, slice.resting_cpu_ns, slice.waited_ns, slice.generator_waited_ns] {
                text.push(',');
                text += &value.map(|value| value.to_string()).unwrap_or_default();
            }
            text.push('\n');
        }
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    packed.expect("a Vec accepts every write")
}

fn parsed(line: &str) -> Option<(usize, Slice)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [start, side, numbers @ .., cpu, resting, waited, generator] = fields.as_slice() else { return None };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let [at_ns, took_ns, requests, errors, bytes, response_ns, unanswered] = numbers.ok()?[..] else {
        return None;
    };
    let known = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    let slice = Slice {
        side: side.parse().ok()?,
        at_ns,
        took_ns,
        requests,
        errors,
        bytes,
        response_ns,
        unanswered,
        cpu_ns: known(cpu)?,
        resting_cpu_ns: known(resting)?,
        waited_ns: known(waited)?,
        generator_waited_ns: known(generator)?,
    };
    Some((start.parse().ok()?, slice))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use webstone_model::duel::{Contestant, DuelStart, SideRun};

    use super::*;

    fn record() -> DuelRecord {
        let slice = Slice { took_ns: 20, requests: 3, cpu_ns: Some(9), waited_ns: None, ..Slice::default() };
        let mut side = SideRun { slices_ns: 40, ..SideRun::default() };
        side.distribution.record(1_234_567);
        let start = DuelStart {
            at_ns: 5,
            sides: vec![side.clone(), side],
            slices: vec![slice, Slice { side: 1, at_ns: 21, ..slice }],
        };
        let contestant = |name: &str| Contestant { name: name.into(), ..Contestant::default() };
        DuelRecord {
            schema: DUEL_SCHEMA,
            contestants: vec![contestant("a"), contestant("b")],
            starts: vec![start.clone(), start],
            ..DuelRecord::default()
        }
    }

    #[test]
    fn a_finished_duel_reads_back_equal_and_every_byte_is_checked() {
        let runs = tempfile::tempdir().unwrap();
        let mut record = record();
        let store = DuelStore::create(runs.path(), SystemTime::UNIX_EPOCH, &mut record, None).unwrap();
        assert_eq!(load(store.path()).unwrap(), record);
        let path = store.finish(&record).unwrap();
        assert_eq!(path, runs.path().join("19700101T000000Z-duel"));
        assert_eq!(load(&directory(&path.join(DUEL)).unwrap()).unwrap(), record);
        assert_eq!(check(&path).unwrap().damage, []);
        let mut file = fs::OpenOptions::new().append(true).open(path.join(DUEL)).unwrap();
        file.write_all(b" ").unwrap();
        assert_eq!(check(&path).unwrap().damage.len(), 1);
    }

    #[test]
    fn slices_of_a_start_that_was_not_stored_are_passed_over() {
        let runs = tempfile::tempdir().unwrap();
        let mut record = record();
        let store = DuelStore::create(runs.path(), SystemTime::UNIX_EPOCH, &mut record, None).unwrap();
        let mut text = serde_json::to_value(&record).unwrap();
        text["starts"].as_array_mut().unwrap().pop();
        fs::write(store.path().join(DUEL), text.to_string()).unwrap();
        assert_eq!(load(store.path()).unwrap().starts[..], record.starts[..1]);
        let killed = directory(&runs.path().join(&record.id)).unwrap();
        assert_eq!(killed, store.path());
    }

    #[test]
    fn an_invalid_slice_is_not_parsed() {
        let good = "0,1,2,3,4,5,6,7,8,9,,10,";
        assert!(parsed(good).is_some());
        for bad in
            ["", "0,1", "x,1,2,3,4,5,6,7,8,9,,10,", "0,1,2,3,4,5,6,7,8,9,,10,,", "0,1,2,3,4,5,6,7,8,-9,,10,"]
        {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
