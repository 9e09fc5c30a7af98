//! The manifest of a fileset, in the format of `sha256sum`: writing, and checking a directory against it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path};

use sha2::{Digest, Sha256};

use super::{BUFFER_BYTES, FilesetError, MANIFEST, hex};
use webstone_store::plain_file::{self, Links};
use webstone_store::without_number;

/// Largest manifest: some 100 bytes a file, of ten million files.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// What a check of a directory found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Files that the manifest lists.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Files that are not as the manifest says.
    pub problems: Vec<VerifyProblem>,
}

/// A file that differs from the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyProblem {
    /// Its path below the directory.
    pub path: String,
    /// What is wrong, in words.
    pub what: String,
}

impl fmt::Display for VerifyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Reads every file that a directory's manifest lists, and compares the sums.
pub fn verify(directory: &Path) -> Result<VerifyReport, FilesetError> {
    let path = directory.join(MANIFEST);
    let text = plain_file::read_text(&path, Links::Followed, MANIFEST_BYTES_MAX)
        .map_err(FilesetError::io("read", &path))?;
    let mut report = VerifyReport::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    for (number, line) in text.lines().enumerate() {
        let (sum, name) = parse(line).ok_or_else(|| FilesetError::Manifest {
            path: path.clone(),
            line: number + 1,
            text: line.chars().take(80).collect(),
        })?;
        report.files += 1;
        let what = match sum_of(&directory.join(&name), &mut buffer, &mut report.bytes) {
            Ok(found) if found.eq_ignore_ascii_case(sum) => continue,
            Ok(_) => "the content differs from what was generated".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "the file is missing".to_owned(),
            Err(error) => format!("cannot be read: {}", without_number(&error)),
        };
        report.problems.push(VerifyProblem { path: name, what });
    }
    Ok(report)
}

/// The sum of each path that a directory's manifest lists; nothing where it has none.
pub(super) fn sums(directory: &Path) -> BTreeMap<String, String> {
    let path = directory.join(MANIFEST);
    let text = plain_file::read_text(&path, Links::Followed, MANIFEST_BYTES_MAX).unwrap_or_default();
    text.lines().filter_map(parse).map(|(sum, path)| (path, sum.to_owned())).collect()
}

/// Writes the manifest, whole or not at all.
pub(super) fn write(directory: &Path, sums: &[(&str, String)]) -> Result<(), FilesetError> {
    let mut text = String::new();
    for (path, sum) in sums {
        // As sha256sum does: a backslash in a name is doubled, and one in front of the line says so.
        if path.contains('\\') {
            text += &format!("\\{sum}  {}\n", path.replace('\\', "\\\\"));
        } else {
            text += &format!("{sum}  {path}\n");
        }
    }
    let path = directory.join(MANIFEST);
    let partial = directory.join(".webstone-partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(FilesetError::io("write", &path))
}

/// Sum and path of a line, if the path stays below the directory.
fn parse(line: &str) -> Option<(&str, String)> {
    let (line, escaped) = match line.strip_prefix('\\') {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let (sum, name) = line.split_at_checked(64)?;
    let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
    let name = if escaped { name.replace("\\\\", "\\") } else { name.to_owned() };
    let is_below = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
    let is_sum = sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_sum && is_below && !name.is_empty()).then_some((sum, name))
}

fn sum_of(path: &Path, buffer: &mut [u8], bytes: &mut u64) -> io::Result<String> {
    let mut file = plain_file::open(path, Links::Followed)?;
    let mut hasher = Sha256::new();
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(length) => {
                hasher.update(&buffer[..length]);
                *bytes += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
