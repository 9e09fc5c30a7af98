//! What stands where in a zip (APPNOTE.TXT 6.3.10), before its library reads it: the library keeps the last of two entries with
//! one name and says nothing of what lies between entries, and other programs unpack the first one, or both.
//!
//! A record's archive is its files one behind the other, the directory behind them, and the end. Anything else is refused.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::archive::{FILES_MAX, behind_the_end, twice};

/// Length of the record at the end, its comment excepted (4.3.16).
const END_BYTES: u64 = 22;
/// Length of an entry of the directory, and of the header before a file, without name and extra field (4.3.12, 4.3.7).
const ENTRY_BYTES: usize = 46;
const HEADER_BYTES: u64 = 30;
/// Longest directory that is looked at: each entry has a name, an extra field and a comment.
const DIRECTORY_BYTES_MAX: u64 = 1 << 20;
/// What may stand behind a file's bytes: nothing, or a data descriptor in one of its forms (4.3.9).
const DESCRIPTORS: [u64; 5] = [0, 12, 16, 20, 24];

/// Looks at all of it and leaves the file where it was.
pub(super) fn check(file: &mut File) -> Result<(), String> {
    let broken = |error: io::Error| format!("it cannot be unpacked: {}", crate::without_number(&error));
    let length = file.seek(SeekFrom::End(0)).map_err(broken)?;
    let end = read_at(file, length.saturating_sub(END_BYTES), END_BYTES).map_err(broken)?;
    if !end.starts_with(b"PK\x05\x06") || number(&end, 20, 2) != 0 {
        return Err(behind_the_end());
    }
    let (count, size, start) = (number(&end, 10, 2), number(&end, 12, 4), number(&end, 16, 4));
    let (start, size) = match start == u64::from(u32::MAX) || size == u64::from(u32::MAX) {
        true => of_zip64(file, length).map_err(broken)?.ok_or("its directory is invalid")?,
        false => (start, size),
    };
    if count > FILES_MAX as u64 {
        return Err(format!("it has {count} entries; a record has fewer than {FILES_MAX}"));
    }
    if size > DIRECTORY_BYTES_MAX || start.saturating_add(size) > length {
        return Err("its directory is invalid".to_owned());
    }
    let directory = read_at(file, start, size).map_err(broken)?;
    let mut entries = entries(&directory).ok_or("its directory is invalid")?;
    if entries.len() as u64 != count {
        return Err(format!("its directory has {} entries, but its end says {count}", entries.len()));
    }
    let mut names = BTreeSet::new();
    if let Some(entry) = entries.iter().find(|entry| !names.insert(entry.name.to_ascii_lowercase())) {
        return Err(twice(&String::from_utf8_lossy(&entry.name)));
    }
    entries.sort_by_key(|entry| entry.offset);
    let mut at = 0;
    for entry in &entries {
        let gap = entry.offset.checked_sub(at).filter(|gap| at > 0 && DESCRIPTORS.contains(gap) || *gap == 0);
        let header = read_at(file, entry.offset, HEADER_BYTES).map_err(broken)?;
        let (name, extra) = (number(&header, 26, 2), number(&header, 28, 2));
        let own = read_at(file, entry.offset + HEADER_BYTES, name).map_err(broken)?;
        if gap.is_none() || !header.starts_with(b"PK\x03\x04") || own != entry.name {
            return Err("it has data between its entries that its directory does not list".to_owned());
        }
        at = (entry.offset + HEADER_BYTES + name + extra).saturating_add(entry.packed);
    }
    if start.checked_sub(at).is_none_or(|gap| !DESCRIPTORS.contains(&gap)) {
        return Err("it has data between its entries that its directory does not list".to_owned());
    }
    file.rewind().map_err(broken)
}

/// An entry of the directory.
struct Entry {
    name: Vec<u8>,
    packed: u64,
    offset: u64,
}

fn entries(directory: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut left = directory;
    while !left.is_empty() {
        let head = left.get(..ENTRY_BYTES).filter(|head| head.starts_with(b"PK\x01\x02"))?;
        let [name, extra, comment] = [28, 30, 32].map(|at| number(head, at, 2) as usize);
        let rest = &left[ENTRY_BYTES..];
        let extras = rest.get(name..name + extra)?;
        let mut entry = Entry {
            name: rest.get(..name)?.to_owned(),
            packed: number(head, 20, 4),
            offset: number(head, 42, 4),
        };
        widen(&mut entry, number(head, 24, 4), extras)?;
        entries.push(entry);
        left = rest.get(name + extra + comment..)?;
    }
    Some(entries)
}

/// Takes from the extra field of zip64 what does not fit into 32 bits (4.5.3): size, packed size, offset, in this order, each only
/// where its place in the entry is all ones.
fn widen(entry: &mut Entry, size: u64, mut extras: &[u8]) -> Option<()> {
    let is_wide = |value: u64| value == u64::from(u32::MAX);
    while extras.len() >= 4 {
        let (id, length) = (number(extras, 0, 2), number(extras, 2, 2) as usize);
        let mut field = extras.get(4..4 + length)?;
        extras = &extras[4 + length..];
        if id != 1 {
            continue;
        }
        let mut next = |value: u64| -> Option<u64> {
            if !is_wide(value) {
                return Some(value);
            }
            let wide = number(field.get(..8)?, 0, 8);
            field = &field[8..];
            Some(wide)
        };
        next(size)?;
        entry.packed = next(entry.packed)?;
        entry.offset = next(entry.offset)?;
    }
    Some(())
}

/// Start and size of the directory, where 32 bits do not hold them (4.3.14, 4.3.15).
fn of_zip64(file: &mut File, length: u64) -> io::Result<Option<(u64, u64)>> {
    const LOCATOR_BYTES: u64 = 20;
    const END64_BYTES: u64 = 56;
    let locator = read_at(file, length.saturating_sub(END_BYTES + LOCATOR_BYTES), LOCATOR_BYTES)?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    let end = read_at(file, number(&locator, 8, 8), END64_BYTES)?;
    Ok(end.starts_with(b"PK\x06\x06").then(|| (number(&end, 48, 8), number(&end, 40, 8))))
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// So many bytes from a place on; an error where there are fewer.
fn read_at(file: &mut File, at: u64, count: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.by_ref().take(count).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == count {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
