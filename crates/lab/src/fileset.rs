//! The files of a workload, in a directory that a server under test serves: exact sizes, the content that
//! [`webstone_workload::content`] defines, and a manifest of checksums beside them.
//!
//! Nothing is written outside the directory, whatever the workload's URLs say, and no file is held in memory. A file is
//! written under a temporary name and renamed when whole, so an interrupted run leaves no file of the wrong content
//! behind. Only plain files are generated: what a handler computes, and what another host serves, is reported as left
//! out.

mod layout;
mod manifest;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use webstone_store::without_number;
use webstone_workload::Workload;
use webstone_workload::content::Content;

use layout::PlannedFile;
pub use layout::{LeftOut, LeftOutReason};
pub use manifest::{VerifyProblem, VerifyReport, verify};

/// Name of the manifest, in the format of `sha256sum`: `sha256sum -c MANIFEST.sha256` checks it too.
pub const MANIFEST: &str = "MANIFEST.sha256";

/// Bytes written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// How a fileset is generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesetOptions {
    /// Write every file, even if it exists with the right size.
    pub force: bool,
    /// Size in bytes of files whose size the workload does not state.
    pub default_size: Option<u64>,
}

/// The files of a fileset, and how many of them were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesetReport {
    /// Files of the set: the manifest's lines.
    pub files: u64,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// Files written now.
    pub written: u64,
    /// Bytes written now.
    pub written_bytes: u64,
    /// Files that were there with the right size.
    pub kept: u64,
    /// Requests of the workload that are not for files of this set.
    pub left_out: Vec<LeftOut>,
}

/// Progress of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesetProgress {
    /// Bytes of the set that are done, written or kept.
    pub done_bytes: u64,
    /// Bytes of the set.
    pub total_bytes: u64,
}

/// How a workload states the size of a file.
pub(crate) const STATE_SIZE: &str =
    "state it in the workload: `/page.html 1 #500` in a filelist, `size = 500` in TOML";

/// Why a fileset could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum FilesetError {
    /// A file of the workload cannot be a file of the set.
    #[error("page {page}: `{url}`: {what}")]
    Unusable {
        /// Index of the page.
        page: usize,
        /// Its URL.
        url: String,
        /// What is wrong with it.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// The workload does not state how large a file is.
    #[error("page {page}: `{url}`: the workload does not state its size")]
    NoSize {
        /// Index of the page.
        page: usize,
        /// Its URL.
        url: String,
    },
    /// The workload has no file that could be generated.
    #[error(
        "the workload `{name}` has no file to generate: {left_out} requests are for handlers or other hosts"
    )]
    Empty {
        /// The workload.
        name: String,
        /// Number of requests that are left out.
        left_out: usize,
    },
    /// Too little free space.
    #[error("{}: the files need {needed} bytes, but only {free} are free", directory.display())]
    DiskSpace {
        /// The directory.
        directory: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free to this user.
        free: u64,
    },
    /// A symbolic link stands where a file or directory of the set belongs.
    #[error("{}: a symbolic link stands where the fileset has a file or directory", path.display())]
    SymbolicLink {
        /// The link.
        path: PathBuf,
    },
    /// A file that is not this workload's has the name of one of its files.
    #[error("{} has {found} bytes, but the file of this workload has {wanted}: it belongs to another workload or to somebody else", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// What its size would be.
        wanted: u64,
    },
    /// A line of the manifest is not one.
    #[error("{}:{line}: found `{text}`, expected a SHA-256 in hexadecimal, two spaces and a path", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {}", path.display(), without_number(source))]
    Io {
        /// What was tried, in words: `write`, `create the directory` ….
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}

impl FilesetError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            FilesetError::Unusable { hint, .. } => hint.clone(),
            FilesetError::NoSize { .. } => format!("{STATE_SIZE}, or give --default-size"),
            FilesetError::Empty { .. } => "this workload needs no files".to_owned(),
            FilesetError::DiskSpace { .. } => {
                "free some space, or name a directory on another disk".to_owned()
            }
            FilesetError::SymbolicLink { .. } => "remove the link, or name an empty directory".to_owned(),
            FilesetError::OtherFile { .. } => {
                "name another directory, or overwrite such files with --force".to_owned()
            }
            FilesetError::Manifest { .. } => "generate the fileset again".to_owned(),
            FilesetError::Io { action, source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "name a directory that you may write to".to_owned()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space".to_owned(),
                io::ErrorKind::NotFound if *action == "create the directory" => {
                    "name a directory on a disk; some file systems, such as /proc, have no room for files"
                        .to_owned()
                }
                io::ErrorKind::NotFound => "generate the fileset first".to_owned(),
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    "a file is in the way: name another directory".to_owned()
                }
                _ => return None,
            },
        })
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesetError {
        move |source| FilesetError::Io { action, path: path.to_owned(), source }
    }
}

/// Writes the files of a workload to a directory, which is created if it does not exist.
pub fn generate(
    workload: &Workload,
    directory: &Path,
    options: &FilesetOptions,
) -> Result<FilesetReport, FilesetError> {
    generate_with(workload, directory, options, &mut |_| {})
}

/// As [`generate`], with a report of progress at most every 256 KiB.
pub fn generate_with(
    workload: &Workload,
    directory: &Path,
    options: &FilesetOptions,
    progress: &mut dyn FnMut(FilesetProgress),
) -> Result<FilesetReport, FilesetError> {
    // Everything wrong with the workload is found before the first file is touched.
    let (files, left_out) = layout::plan(workload, options.default_size)?;
    fs::create_dir_all(directory).map_err(FilesetError::io("create the directory", directory))?;
    let present = files.iter().map(|file| present_size(directory, file)).collect::<Result<Vec<_>, _>>()?;
    let is_kept = |file: &PlannedFile, size: Option<u64>| !options.force && size == Some(file.size);
    if !options.force {
        refuse_other_files(directory, files.iter().zip(&present))?;
    }
    check_space(directory, files.iter().zip(&present).filter(|(file, size)| !is_kept(file, **size)))?;

    let mut report = FilesetReport { left_out, ..FilesetReport::default() };
    report.bytes = files.iter().fold(0, |bytes: u64, file| bytes.saturating_add(file.size));
    let mut sums = Vec::with_capacity(files.len());
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut done_bytes = 0;
    for (file, present) in files.iter().zip(present) {
        let mut tick = |bytes: u64| {
            done_bytes += bytes;
            progress(FilesetProgress { done_bytes, total_bytes: report.bytes });
        };
        let sum = if is_kept(file, present) {
            report.kept += 1;
            // The manifest says what the file should be; `verify` checks it.
            stream(file, &mut buffer, &mut tick, |_| Ok(()))
                .map_err(FilesetError::io("compute", directory))?
        } else {
            report.written += 1;
            report.written_bytes += file.size;
            write(directory, file, &mut buffer, &mut tick)?
        };
        sums.push((file.path.as_str(), sum));
    }
    report.files = files.len() as u64;
    manifest::write(directory, &sums)?;
    Ok(report)
}

/// Size of the existing file; refuses to follow symbolic links, which may lead out of the directory.
fn present_size(directory: &Path, file: &PlannedFile) -> Result<Option<u64>, FilesetError> {
    let mut path = directory.to_owned();
    let mut size = None;
    for component in file.path.split('/') {
        path.push(component);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => return Err(FilesetError::SymbolicLink { path }),
            Ok(found) => size = found.is_file().then_some(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FilesetError::io("look at", &path)(error)),
        }
    }
    Ok(size)
}

/// A file of the wrong size is replaced if an earlier run wrote it for this workload, as the manifest tells.
fn refuse_other_files<'a>(
    directory: &Path,
    files: impl Iterator<Item = (&'a PlannedFile, &'a Option<u64>)>,
) -> Result<(), FilesetError> {
    let wrong =
        files.filter_map(|(file, size)| size.filter(|size| *size != file.size).map(|size| (file, size)));
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut known = None;
    for (file, found) in wrong {
        let known = known.get_or_insert_with(|| manifest::sums(directory));
        let sum = stream(file, &mut buffer, &mut |_| {}, |_| Ok(()))
            .map_err(FilesetError::io("compute", directory))?;
        if known.get(&file.path) != Some(&sum) {
            return Err(FilesetError::OtherFile {
                path: directory.join(&file.path),
                found,
                wanted: file.size,
            });
        }
    }
    Ok(())
}

fn check_space<'a>(
    directory: &Path,
    files: impl Iterator<Item = (&'a PlannedFile, &'a Option<u64>)>,
) -> Result<(), FilesetError> {
    let system = rustix::fs::statvfs(directory)
        .map_err(|errno| FilesetError::io("look at the disk of", directory)(errno.into()))?;
    let block = system.f_frsize.max(512);
    let (mut needed, mut freed, mut largest) = (0_u64, 0_u64, 0_u64);
    for (file, present) in files {
        let blocks = file.size.div_ceil(block).saturating_mul(block);
        needed = needed.saturating_add(blocks);
        freed = freed.saturating_add(present.unwrap_or(0));
        largest = largest.max(blocks);
    }
    // A file that is replaced frees its old blocks only once the new one is whole.
    let needed = needed.saturating_sub(freed).max(largest);
    let free = system.f_bavail.saturating_mul(block);
    if needed > free {
        return Err(FilesetError::DiskSpace { directory: directory.to_owned(), needed, free });
    }
    Ok(())
}

/// Writes one file and returns its sum.
fn write(
    directory: &Path,
    file: &PlannedFile,
    buffer: &mut [u8],
    tick: &mut dyn FnMut(u64),
) -> Result<String, FilesetError> {
    let path = directory.join(&file.path);
    let parent = path.parent().unwrap_or(directory);
    fs::create_dir_all(parent).map_err(FilesetError::io("create the directory", parent))?;
    let partial = parent.join(".webstone-partial");
    let written = (|| {
        // Removes a file of a killed run, and never follows a link of that name.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = File::options().write(true).create_new(true).open(&partial)?;
        let sum = stream(file, buffer, tick, |bytes| out.write_all(bytes))?;
        fs::rename(&partial, &path)?;
        Ok(sum)
    })();
    written.map_err(|error| {
        // Only the first error counts; the partial file may not exist.
        let _ = fs::remove_file(&partial);
        FilesetError::io("write", &path)(error)
    })
}

/// Computes a file's bytes piece by piece, and its sum.
fn stream(
    file: &PlannedFile,
    buffer: &mut [u8],
    tick: &mut dyn FnMut(u64),
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<String> {
    let content = Content::of_url(&file.url);
    let mut hasher = Sha256::new();
    let mut offset = 0;
    while offset < file.size {
        let length = (file.size - offset).min(buffer.len() as u64);
        let piece = &mut buffer[..length as usize];
        content.fill(offset, piece);
        hasher.update(&*piece);
        sink(piece)?;
        offset += length;
        tick(length);
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
