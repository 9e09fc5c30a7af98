//! A record's directory as one file, `.tar.gz` or `.zip`: the same record gives the same bytes on every machine, and reading treats it
//! as written by a stranger.
//!
//! Reading trusts nothing: only plain files, in one directory or in none; no link, no path that leads elsewhere, no two names that
//! differ in capitals only, and no more bytes than a record of that size can have. What surrounds the files (names, directories,
//! data between two entries of a zip) is bounded and checked as well, because another program would unpack it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::plain_file::{self, Links};
use crate::record::open_file;
use crate::scratch::Scratch;
use crate::{RECORD, bytes_max};

/// Files that an archive may hold: a record has fewer, but messages name a few that do not belong there.
const FILES_MAX: usize = 64;
/// Entries of a tar, including those that only describe the next one.
const ENTRIES_MAX: usize = 4 * FILES_MAX;
/// Bytes of a name that a tar has outside its headers, and of the other attributes of an entry.
const LONG_NAME_BYTES_MAX: u64 = 4 << 10;
const EXTENSION_BYTES_MAX: u64 = 64 << 10;
/// Bytes after an entry's content in a zip: none, or a data descriptor in one of its forms (4.3.9).
const DESCRIPTORS: [u64; 5] = [0, 12, 16, 20, 24];
/// Limits on unpacked bytes: `BYTES_FREE` plus `BYTES_EACH` per packed byte, but never more than `BYTES_MAX`.
const BYTES_FREE: u64 = 64 << 20;
const BYTES_EACH: u64 = 200;
const BYTES_MAX: u64 = 8 << 30;

/// This program, which removes what was unpacked if this process cannot.
const SELF: &str = "/proc/self/exe";

/// The two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `.tar.gz`, `.tgz`
    TarGz,
    /// `.zip`
    Zip,
}

impl Form {
    /// The format, by the file's name.
    pub fn of_name(path: &Path) -> Option<Form> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        match () {
            () if name.ends_with(".tar.gz") || name.ends_with(".tgz") => Some(Form::TarGz),
            () if name.ends_with(".zip") => Some(Form::Zip),
            () => None,
        }
    }
}

/// Why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system refused.
    #[error("cannot {doing} {path}: {}", crate::without_number(source))]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It is not an archive of a record, or a hostile one.
    #[error("{path}: {what}")]
    Content {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// An archive's content, in a directory that is removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    /// Removed with all that is in it.
    _keep: Scratch,
    /// Where the files lie.
    pub directory: PathBuf,
}

/// Writes a record's directory as an archive that holds it under its own name, or as `record` where [`read`] would refuse that name.
/// The same files give the same bytes: sorted, without times, owners or modes of this machine. An archive that is there already is not
/// touched.
pub fn write(directory: &Path, archive: &Path, form: Form) -> Result<(), ArchiveError> {
    let refused = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| ArchiveError::Io { doing, path, source }
    };
    let top = fs::canonicalize(directory).map_err(refused("read", directory))?;
    let top =
        top.file_name().and_then(|name| name.to_str()).filter(|name| is_plain(name)).unwrap_or("record");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(refused("read", directory))? {
        names.insert(entry.map_err(refused("read", directory))?.file_name().to_string_lossy().into_owned());
    }
    let files: Vec<(String, PathBuf)> =
        names.into_iter().map(|name| (format!("{top}/{name}"), directory.join(name))).collect();
    let mut place = Place::new(directory.to_owned(), 0);
    for (name, path) in &files {
        open_file(path).map_err(refused("archive", path))?;
        place.enter(name).map_err(|what| ArchiveError::Content {
            path: directory.to_owned(),
            what: format!("it cannot be archived: {what}"),
        })?;
    }
    let out =
        File::options().write(true).create_new(true).open(archive).map_err(refused("create", archive))?;
    let written = match form {
        Form::TarGz => write_tar_gz(out, &files),
        Form::Zip => write_zip(out, &files),
    };
    written.map_err(|source| {
        // Half an archive is useless.
        let _ = fs::remove_file(archive);
        ArchiveError::Io { doing: "write", path: archive.to_owned(), source }
    })
}

fn write_tar_gz(out: File, files: &[(String, PathBuf)]) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::best()));
    for (name, path) in files {
        let mut file = open_file(path)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &mut file)?;
    }
    tar.into_inner()?.finish()?.sync_all()
}

fn write_zip(out: File, files: &[(String, PathBuf)]) -> io::Result<()> {
    let mut zip = ZipWriter::new(out);
    for (name, path) in files {
        let mut file = open_file(path)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(0o644)
            .large_file(file.metadata()?.len() >= u64::from(u32::MAX));
        zip.start_file(name.as_str(), options)?;
        io::copy(&mut file, &mut zip)?;
    }
    zip.finish()?.sync_all()
}

/// Unpacks an archive into a directory of its own. The format is detected from the first bytes.
pub fn read(archive: &Path) -> Result<Unpacked, ArchiveError> {
    let refused = |doing| move |source| ArchiveError::Io { doing, path: archive.to_owned(), source };
    let content = |what: String| ArchiveError::Content { path: archive.to_owned(), what };
    let mut file = plain_file::open(archive, Links::Followed).map_err(refused("read"))?;
    let packed = file.metadata().map_err(refused("read"))?.len();
    let mut magic = [0; 4];
    let length = file.read(&mut magic).map_err(refused("read"))?;
    file.rewind().map_err(refused("read"))?;
    let keep = Scratch::create("archive", Path::new(SELF)).map_err(refused("unpack"))?;
    let left = (BYTES_FREE + packed.saturating_mul(BYTES_EACH)).min(BYTES_MAX);
    let mut place = Place::new(keep.path().join("record"), left);
    fs::create_dir(&place.directory).map_err(refused("unpack"))?;
    match &magic[..length] {
        [0x1f, 0x8b, ..] => read_tar_gz(file, &mut place),
        [b'P', b'K', 3, 4] => read_zip(file, &mut place),
        _ => Err("it is neither a directory nor an archive (.tar.gz or .zip)".to_owned()),
    }
    .map_err(content)?;
    Ok(Unpacked { directory: place.directory, _keep: keep })
}

fn read_tar_gz(file: File, place: &mut Place) -> Result<(), String> {
    let broken = |error: io::Error| format!("it cannot be unpacked: {}", crate::without_number(&error));
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    let not_text = |_| "a name in it is not UTF-8".to_owned();
    let mut long_name: Option<Vec<u8>> = None;
    // Raw: the library would read names and other extensions of any length into memory before it hands out an entry.
    for (number, entry) in (1..).zip(tar.entries().map_err(broken)?.raw(true)) {
        let mut entry = entry.map_err(broken)?;
        if number > ENTRIES_MAX {
            return Err(format!("it has more than {ENTRIES_MAX} entries; a record has fewer"));
        }
        let kind = entry.header().entry_type();
        match kind {
            tar::EntryType::GNULongName => {
                let mut name = extension(&mut entry, LONG_NAME_BYTES_MAX)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                long_name = Some(name);
                continue;
            }
            tar::EntryType::XHeader => {
                if let Some(name) = pax_name(&extension(&mut entry, EXTENSION_BYTES_MAX)?)? {
                    long_name = Some(name);
                }
                continue;
            }
            tar::EntryType::XGlobalHeader => {
                pax_name(&extension(&mut entry, EXTENSION_BYTES_MAX)?)?;
                continue;
            }
            _ => {}
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8(name).map_err(not_text)?;
        match kind {
            tar::EntryType::Directory => place.directory_named(&name, entry.size())?,
            tar::EntryType::Regular => place.unpack(&name, &mut entry)?,
            kind => {
                return Err(format!(
                    "{name:?} in it is a link or a device ({kind:?}); a record has only plain files"
                ));
            }
        }
    }
    // After the end of the tar the gzip stream must be complete, with its check sum, and contain only zeros.
    let mut rest = tar.into_inner();
    let mut block = [0; 4096];
    while place.left > 0 {
        match rest.read(&mut block).map_err(broken)? {
            0 => break,
            read if block[..read].iter().any(|byte| *byte != 0) => return Err(after_the_end()),
            read => place.left = place.left.saturating_sub(read as u64),
        }
    }
    match rest.into_inner().fill_buf().map_err(broken)?.is_empty() {
        true => Ok(()),
        false => Err(after_the_end()),
    }
}

fn after_the_end() -> String {
    "data was appended after its end".to_owned()
}

/// What a tar says about its next entry, of at most `bytes_max` bytes, because it stays in memory.
fn extension(entry: &mut impl Read, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = entry.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be unpacked: {}", crate::without_number(&error)))?;
    match bytes.len() as u64 {
        length if length > bytes_max => {
            Err(format!("a name or an attribute in it has more than {bytes_max} bytes; a record's has fewer"))
        }
        _ => Ok(bytes),
    }
}

/// The name that a PAX header gives its entry, if any (POSIX.1-2001, pax). Owners and times are ignored; attributes that change
/// the content are refused.
fn pax_name(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut name = None;
    for attribute in tar::PaxExtensions::new(bytes) {
        let attribute = attribute.map_err(|_| "it has an invalid PAX header".to_owned())?;
        match attribute.key_bytes() {
            b"path" => name = Some(attribute.value_bytes().to_owned()),
            key if key == b"size" || key == b"linkpath" || key.starts_with(b"GNU.sparse") => {
                let key = String::from_utf8_lossy(key);
                return Err(format!("a PAX header in it has {key:?}; a record has only plain files"));
            }
            _ => {}
        }
    }
    Ok(name)
}

fn read_zip(mut file: File, place: &mut Place) -> Result<(), String> {
    let broken = |error: zip::result::ZipError| format!("it cannot be unpacked: {error}");
    check_zip_end(&mut file)?;
    let config = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    let mut zip = zip::ZipArchive::with_config(config, BufReader::new(file)).map_err(broken)?;
    if zip.has_duplicate_names() {
        return Err("a file is in it twice".to_owned());
    }
    // Other programs would unpack what the directory does not list.
    let hidden = || "it has data between its entries that its directory does not list".to_owned();
    zip.validate_header_consistency().map_err(|_| hidden())?;
    let mut places = vec![(zip.central_directory_start(), 0)];
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        if entry.is_symlink() || entry.encrypted() {
            return Err(format!("{name:?} in it is a link or encrypted; a record has only plain files"));
        }
        let end = entry.data_start().and_then(|start| start.checked_add(entry.compressed_size()));
        places.push((entry.header_start(), end.ok_or_else(hidden)?));
        match entry.is_dir() {
            true => place.directory_named(&name, entry.compressed_size())?,
            false => place.unpack(&name, &mut entry)?,
        }
    }
    places.sort_unstable();
    let gaps = places.windows(2).map(|pair| pair[1].0.checked_sub(pair[0].1));
    match gaps.into_iter().all(|gap| gap.is_some_and(|gap| DESCRIPTORS.contains(&gap))) {
        true => Ok(()),
        false => Err(hidden()),
    }
}

/// Checks the last 22 bytes of a zip (APPNOTE.TXT 6.3.10, 4.3.16) before the library reads its directory into memory: few entries, and
/// no comment. Only an archive of 4 GiB keeps its numbers elsewhere.
fn check_zip_end(file: &mut File) -> Result<(), String> {
    let mut end = [0; 22];
    let mut read = || -> io::Result<bool> {
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::End(-(end.len() as i64)))?;
        file.read_exact(&mut end)?;
        file.rewind()?;
        Ok(length > u64::from(u32::MAX))
    };
    let is_long =
        read().map_err(|error| format!("it cannot be unpacked: {}", crate::without_number(&error)))?;
    let count = u16::from_le_bytes([end[10], end[11]]);
    match () {
        () if !end.starts_with(b"PK\x05\x06") || end[20..] != [0, 0] => Err(after_the_end()),
        () if usize::from(count) > FILES_MAX => {
            Err(format!("it has {count} entries; a record has fewer than {FILES_MAX}"))
        }
        () if !is_long && end[12..20].chunks(4).any(|number| number == [0xff; 4]) => {
            Err("its directory is invalid".to_owned())
        }
        () => Ok(()),
    }
}

/// Where an archive is unpacked to, and how much more it may contain.
struct Place {
    directory: PathBuf,
    /// The directory that all its files are in, if they are in one.
    top: Option<Option<String>>,
    names: BTreeSet<String>,
    left: u64,
}

/// Whether a name looks like no other: letters of other scripts can be written in several ways that look the same. No file of a record has
/// them.
fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !path.contains(['\\', ':'])
}

impl Place {
    fn new(directory: PathBuf, left: u64) -> Place {
        Place { directory, top: None, names: BTreeSet::new(), left }
    }

    /// The file's own name, where its path is one that a record can have.
    fn plain_name(&mut self, path: &str) -> Result<String, String> {
        let parts: Option<Vec<&str>> = Path::new(path)
            .components()
            .filter(|part| *part != Component::CurDir)
            .map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        let parts = parts.filter(|_| is_plain(path));
        let (top, name) = match parts.as_deref() {
            Some([name]) => (None, *name),
            Some([top, name]) => (Some((*top).to_owned()), *name),
            _ => {
                return Err(format!(
                    "the path {path:?} in it is not that of a file in the record's directory"
                ));
            }
        };
        match &self.top {
            Some(known) if *known != top => {
                return Err(format!("{path:?} in it is not in the same directory as the other files"));
            }
            _ => self.top = Some(top),
        }
        Ok(name.to_owned())
    }

    /// Checks an entry that is a directory: it must be that of the files, and have no content.
    fn directory_named(&mut self, path: &str, bytes: u64) -> Result<(), String> {
        if bytes > 0 {
            return Err(format!("the directory {path:?} in it has content"));
        }
        match self.plain_name(&format!("{path}/{RECORD}")) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("the directory {path:?} in it is not the directory of its files")),
        }
    }

    /// The name of one more file.
    fn enter(&mut self, path: &str) -> Result<String, String> {
        let name = self.plain_name(path)?;
        // Other systems ignore capitals, and dots at the end of a name.
        if !self.names.insert(name.to_ascii_lowercase().trim_end_matches('.').to_owned()) {
            return Err(format!("{name:?} is in it twice"));
        }
        if self.names.len() > FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files; a record has fewer"));
        }
        Ok(name)
    }

    fn unpack(&mut self, path: &str, content: &mut dyn Read) -> Result<(), String> {
        let name = self.enter(path)?;
        let left = self.left.min(bytes_max(&name));
        let mut unpack = || -> io::Result<u64> {
            let mut file = File::options().write(true).create_new(true).open(self.directory.join(&name))?;
            let copied = io::copy(&mut content.take(left + 1), &mut file)?;
            file.flush()?;
            Ok(copied)
        };
        let copied = unpack()
            .map_err(|error| format!("{name:?} cannot be unpacked: {}", crate::without_number(&error)))?;
        if copied > self.left {
            return Err(format!(
                "unpacked, it would have more than {BYTES_EACH} times its size; no record has"
            ));
        }
        if copied > left {
            return Err(format!("{name:?} in it has more than {left} bytes; a record's has fewer"));
        }
        self.left -= copied;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of the record in each form of archive, after it was unpacked again.
    fn round_trip(place: &Path, name: &str) -> Vec<Result<String, ArchiveError>> {
        let directory = place.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(RECORD), name).unwrap();
        let there_and_back = |(form, ending): (Form, &str)| {
            let archive = place.join(format!("archive{ending}"));
            write(&directory, &archive, form)?;
            let unpacked = read(&archive)?;
            fs::remove_file(&archive).unwrap();
            Ok(fs::read_to_string(unpacked.directory.join(RECORD)).unwrap())
        };
        [(Form::TarGz, ".tar.gz"), (Form::Zip, ".zip")].into_iter().map(there_and_back).collect()
    }

    #[test]
    fn what_is_written_can_be_read_whatever_the_directory_is_called() {
        let place = tempfile::tempdir().unwrap();
        for name in
            ["20261121-100405-plain", "with blank", "Prüfung", "a:b", "a\\b", "tab\tend", &"long".repeat(60)]
        {
            for back in round_trip(place.path(), name) {
                assert_eq!(back.unwrap(), name);
            }
        }
    }

    #[test]
    fn a_file_that_could_not_be_read_again_is_not_archived() {
        let place = tempfile::tempdir().unwrap();
        for (number, name) in ["Prüfung.json", "a:b", "RECORD.JSON"].into_iter().enumerate() {
            let directory = place.path().join(number.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(RECORD), "{}").unwrap();
            fs::write(directory.join(name), "").unwrap();
            let archive = place.path().join("archive.zip");
            let error = write(&directory, &archive, Form::Zip).unwrap_err().to_string();
            assert!(error.contains("it cannot be archived: "), "{name}: {error}");
            assert!(!archive.exists());
        }
    }
}
