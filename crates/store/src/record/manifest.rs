//! `MANIFEST.sha256`: the check sums of a record's files, as `sha256sum -c` reads them. Written in one form only, so that
//! every byte of it counts: lines sorted by name, each 64 small hexadecimal digits, two spaces, a plain name, a newline.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::append::replace;
use super::{
    CERTIFICATE, ENVIRONMENT, FIGURES, HISTOGRAMS, INTERVALS, MANIFEST, PAGE_ROWS, PAGES, RECORD, REPORT,
    SIGNATURE, StoreError,
};

/// The files of a kind of record.
pub(crate) struct Files {
    /// Those that every one has.
    pub(crate) required: &'static [&'static str],
    /// Those that it may have besides.
    pub(crate) optional: &'static [&'static str],
}

/// Those of a run.
pub(super) const OF_RUN: Files = Files {
    required: &[ENVIRONMENT, HISTOGRAMS, INTERVALS, RECORD],
    optional: &[CERTIFICATE, FIGURES, PAGES, PAGE_ROWS, REPORT],
};

/// What is wrong with a record's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, by its name in the directory.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
}

/// The result of checking a record's files against their check sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// Files whose check sums were compared.
    pub files: usize,
    /// What is wrong; empty: every byte is what it was.
    pub damage: Vec<Damage>,
}

impl Integrity {
    fn damage(&mut self, file: &str, what: impl Into<String>) {
        self.damage.push(Damage { file: file.to_owned(), what: what.into() });
    }
}

/// Writes the check sums of a record's files.
pub(crate) fn write(directory: &Path, files: &Files) -> Result<(), StoreError> {
    let there = files.optional.iter().filter(|name| directory.join(name).exists());
    let mut names: Vec<&str> = files.required.iter().chain(there).copied().collect();
    names.sort_unstable();
    let mut text = String::new();
    for name in names {
        let path = directory.join(name);
        let sum = check_sum(&path).map_err(|error| StoreError::io("read", &path, error))?;
        text += &format!("{sum}  {name}\n");
    }
    replace(&directory.join(MANIFEST), text.as_bytes())
}

/// Compares every file of a directory with the manifest: changed, missing, surplus, not a file.
///
/// # Errors
/// [`StoreError`] if the directory itself cannot be read. Damaged files are not an error but the result.
pub(crate) fn check(directory: &Path, files: &Files) -> Result<Integrity, StoreError> {
    let mut found = Integrity::default();
    let mut there = BTreeMap::new();
    let refused = |error| StoreError::io("read", directory, error);
    for entry in fs::read_dir(directory).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let kind = entry.file_type().map_err(refused)?;
        there.insert(entry.file_name().to_string_lossy().into_owned(), kind.is_file());
    }
    let listed = match super::read_file(directory, MANIFEST) {
        Ok(bytes) => parse(&bytes, files, &mut found),
        Err(error) => {
            found.damage(MANIFEST, format!("cannot be read: {}", super::without_number(&error)));
            return Ok(found);
        }
    };
    for name in files.required.iter().filter(|name| !listed.contains_key(**name)) {
        found.damage(MANIFEST, format!("does not list {name}, which every record has"));
    }
    for (name, sum) in &listed {
        if there.get(name) == Some(&true) {
            found.files += 1;
            match check_sum(&directory.join(name)) {
                Ok(is) if is == *sum => {}
                Ok(is) => found.damage(name, format!("its check sum is {is}, but {MANIFEST} has {sum}")),
                Err(error) => {
                    found.damage(name, format!("cannot be read: {}", super::without_number(&error)))
                }
            }
        } else if !there.contains_key(name) {
            found.damage(name, format!("is missing: {MANIFEST} lists it"));
        }
    }
    for (name, is_file) in &there {
        if !is_file {
            found.damage(name, "is not a plain file; a record has nothing else");
        } else if !listed.contains_key(name) && name != MANIFEST && name != SIGNATURE {
            found.damage(name, format!("is not listed in {MANIFEST}"));
        }
    }
    Ok(found)
}

/// Names and check sums. What is not in the one form is damage.
fn parse(bytes: &[u8], files: &Files, found: &mut Integrity) -> BTreeMap<String, String> {
    let mut listed = BTreeMap::new();
    let mut last = String::new();
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let Some((sum, name)) = entry(line) else {
            let rule = "is not a check sum, two spaces, a file's name and a newline";
            found.damage(MANIFEST, format!("line {number} {rule}"));
            continue;
        };
        if name <= last {
            found.damage(MANIFEST, format!("line {number} is not in the order of names"));
        }
        if !files.required.contains(&name.as_str()) && !files.optional.contains(&name.as_str()) {
            found.damage(MANIFEST, format!("line {number} lists {name:?}, which is not a file of a record"));
        }
        last.clone_from(&name);
        listed.insert(name, sum);
    }
    listed
}

fn entry(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, name) = line.split_once("  ")?;
    let digits =
        sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (digits && !name.is_empty() && name.chars().all(plain)).then(|| (sum.to_owned(), name.to_owned()))
}

fn check_sum(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut super::open_file(path)?, &mut hasher)?;
    Ok(format!("{:x}", hasher.finalize()))
}
