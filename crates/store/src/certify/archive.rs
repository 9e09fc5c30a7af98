//! A record's directory as one file, `.tar.gz` or `.zip`: made so that the same record gives the same bytes on every
//! machine, and read as something that a stranger wrote.
//!
//! Reading trusts nothing: only plain files, in one directory or in none; no link, no path that leads elsewhere, no name that is
//! another's in capitals, and no more bytes than a record of that size can have. What surrounds the files (names, directories,
//! what hides between two entries of a zip) is bounded and looked at as well, because another program would unpack it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::zip_layout;
use crate::plain_file::{self, Links};
use crate::record::open_file;
use crate::scratch::Scratch;
use crate::{RECORD, bytes_max};

/// Files that an archive may hold: a record has fewer, and a few that do not belong there shall be named.
pub(super) const FILES_MAX: usize = 64;
/// Entries of a tar, those included that only say something about the next.
const ENTRIES_MAX: usize = 4 * FILES_MAX;
/// Bytes of a name that a tar has outside its headers, and of everything else that it says about an entry.
const LONG_NAME_BYTES_MAX: u64 = 4 << 10;
const EXTENSION_BYTES_MAX: u64 = 64 << 10;
/// Bytes that it may come to, unpacked: so many at least, so many for each byte packed, so many at most.
const BYTES_FREE: u64 = 64 << 20;
const BYTES_EACH: u64 = 200;
const BYTES_MAX: u64 = 8 << 30;

/// This program, which removes what was unpacked where this process cannot.
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
    /// It is no archive of a record, or a hostile one.
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

/// Writes a record's directory as an archive that holds it under its own name. The same files give the same bytes:
/// sorted, without times, owners or modes of this machine. An archive that is there already is not touched.
pub fn write(directory: &Path, archive: &Path, form: Form) -> Result<(), ArchiveError> {
    let refused = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| ArchiveError::Io { doing, path, source }
    };
    let top = fs::canonicalize(directory).map_err(refused("read", directory))?;
    let top = top.file_name().map_or("record".to_owned(), |name| name.to_string_lossy().into_owned());
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(refused("read", directory))? {
        names.insert(entry.map_err(refused("read", directory))?.file_name().to_string_lossy().into_owned());
    }
    let files: Vec<(String, PathBuf)> =
        names.into_iter().map(|name| (format!("{top}/{name}"), directory.join(name))).collect();
    for (_, path) in &files {
        open_file(path).map_err(refused("archive", path))?;
    }
    let out =
        File::options().write(true).create_new(true).open(archive).map_err(refused("create", archive))?;
    let written = match form {
        Form::TarGz => write_tar_gz(out, &files),
        Form::Zip => write_zip(out, &files),
    };
    written.map_err(|source| {
        // Half an archive is of no use to anybody.
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
    let mut place = Place {
        directory: keep.path().join("record"),
        top: None,
        names: BTreeSet::new(),
        left: (BYTES_FREE + packed.saturating_mul(BYTES_EACH)).min(BYTES_MAX),
    };
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
    // What stands behind the end of the tar must still be a whole gzip stream, whose check sum is there, and hold nothing.
    let mut rest = tar.into_inner();
    let mut block = [0; 4096];
    while place.left > 0 {
        match rest.read(&mut block).map_err(broken)? {
            0 => break,
            read if block[..read].iter().any(|byte| *byte != 0) => return Err(behind_the_end()),
            read => place.left = place.left.saturating_sub(read as u64),
        }
    }
    match rest.into_inner().fill_buf().map_err(broken)?.is_empty() {
        true => Ok(()),
        false => Err(behind_the_end()),
    }
}

pub(super) fn behind_the_end() -> String {
    "data was appended after its end".to_owned()
}

/// What a tar says about its next entry: of at most so many bytes, because it is held.
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

/// The name that a PAX header gives its entry, where it gives one (POSIX.1-2001, pax). Owners and times mean nothing here; what
/// makes the content another one is refused.
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
    zip_layout::check(&mut file)?;
    let mut zip = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        if entry.is_symlink() || entry.encrypted() {
            return Err(format!("{name:?} in it is a link or encrypted; a record has only plain files"));
        }
        match entry.is_dir() {
            true => place.directory_named(&name, entry.compressed_size())?,
            false => place.unpack(&name, &mut entry)?,
        }
    }
    Ok(())
}

/// Two entries that unpack to one file.
pub(super) fn twice(name: &str) -> String {
    format!("{name:?} is in it twice")
}

/// Where an archive is unpacked to, and what it may still bring.
struct Place {
    directory: PathBuf,
    /// The one directory that its files are in, or none.
    top: Option<Option<String>>,
    names: BTreeSet<String>,
    left: u64,
}

impl Place {
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
        // Letters of other scripts can be written in several ways that look the same; no file of a record has one.
        let plain = |path: &str| path.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        let parts = parts.filter(|_| plain(path) && !path.contains(['\\', ':']));
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

    /// An entry that is a directory: the one of the files, and nothing in itself.
    fn directory_named(&mut self, path: &str, bytes: u64) -> Result<(), String> {
        if bytes > 0 {
            return Err(format!("the directory {path:?} in it has content"));
        }
        match self.plain_name(&format!("{path}/{RECORD}")) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("the directory {path:?} in it is not the directory of its files")),
        }
    }

    fn unpack(&mut self, path: &str, content: &mut dyn Read) -> Result<(), String> {
        let name = self.plain_name(path)?;
        // On other systems than this one, capitals and dots at the end of a name mean nothing.
        if !self.names.insert(name.to_ascii_lowercase().trim_end_matches('.').to_owned()) {
            return Err(twice(&name));
        }
        if self.names.len() > FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files; a record has fewer"));
        }
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
