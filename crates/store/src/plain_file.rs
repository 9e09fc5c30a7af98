//! The one way to open a file that somebody else may have made: files of records, archives, feeds, workloads, testbeds, and
//! logs in the directory of a started server, whose user may have put anything in their place.
//!
//! Opening never waits and has no side effect: a FIFO without a writer would hang, a device may act when it is opened, and a
//! link in a record leads to files outside it. So everything but a plain file is refused before a byte is read, and whole files are
//! read up to a limit only.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use rustix::fs::OFlags;

/// Whether the file's name may be a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// As in files that a user names: `~/workload.toml` may well be a link.
    Followed,
    /// As in records, which have none.
    Refused,
    /// Nor may the file have a hard link: in a directory where a started server writes, the other name may lie where its user
    /// may not.
    RefusedHardToo,
}

/// Opens a plain file for reading.
///
/// # Errors
/// The operating system's error, or what the file is if it is not a plain one.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    open_as(OpenOptions::new().read(true), path, links)
}

/// Opens a plain file without hard links for writing, truncated; creates it if it does not exist.
///
/// # Errors
/// As [`open`] with [`Links::RefusedHardToo`].
pub fn emptied(path: &Path) -> io::Result<File> {
    let options = &mut OpenOptions::new();
    let file = open_as(options.write(true).create(true).mode(0o644), path, Links::RefusedHardToo)?;
    // Truncated only here, once it is known to be a plain file.
    file.set_len(0)?;
    Ok(file)
}

fn open_as(options: &mut OpenOptions, path: &Path, links: Links) -> io::Result<File> {
    // O_NONBLOCK: a FIFO without a writer opens at once. On plain files it means nothing.
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links != Links::Followed {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| {
        let found = path.symlink_metadata().map(|metadata| metadata.file_type());
        // The kernel's errors for these, ELOOP and ENXIO, do not say what the file is.
        match found.ok().and_then(odd_kind) {
            Some(kind) if kind != LINK || links != Links::Followed => refused(kind),
            _ => error,
        }
    })?;
    let found = file.metadata()?;
    match found.file_type() {
        kind if kind.is_file() && links == Links::RefusedHardToo && found.nlink() > 1 => {
            Err(io::Error::other("it has more than one name (hard link)"))
        }
        kind if kind.is_file() => Ok(file),
        // The error that reading a directory would give.
        kind if kind.is_dir() => Err(rustix::io::Errno::ISDIR.into()),
        kind => Err(refused(odd_kind(kind).unwrap_or("something else"))),
    }
}

/// Opens a plain file that is to be read to its end: of at most `bytes_max` bytes, and without a hole. A file of no more than a few
/// blocks can claim terabytes, and reading those takes hours.
///
/// # Errors
/// As [`open`], and if the file has more bytes or a hole.
pub fn open_dense(path: &Path, links: Links, bytes_max: u64) -> io::Result<File> {
    let file = open(path, links)?;
    let length = file.metadata()?.len();
    if length > bytes_max {
        return Err(too_large(length, bytes_max));
    }
    // In a file without holes, the first one is its end. A file system that does not support this reports none.
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap_or(length);
    if hole < length {
        let what = format!("it has a hole at byte {hole}: nothing was ever written there");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

/// Reads a plain file of at most `bytes_max` bytes.
///
/// # Errors
/// As [`open`], and if the file has more.
pub fn read(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_opened(&open(path, links)?, bytes_max)
}

/// The same for a file that is open.
///
/// # Errors
/// As [`read`].
pub fn read_opened(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > bytes_max {
        return Err(too_large(length, bytes_max));
    }
    // The limit also holds for a file that grows meanwhile, or one of /proc, which reports no length.
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        read if read > bytes_max => Err(too_large(read, bytes_max)),
        _ => Ok(bytes),
    }
}

/// Reads a plain file that belongs to a directory: named relative to it, below it after links are followed, and not hidden
/// (`.ssh/`, `.netrc`), because the directory may be somebody's home. `None`: it is another file, and nothing of it was read.
///
/// # Errors
/// As [`read`].
pub fn read_below(directory: &Path, name: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if name.is_absolute() {
        return Ok(None);
    }
    let file = open(&directory.join(name), Links::Followed)?;
    // The path of the opened file, which no link can change any more.
    let place = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    match place.strip_prefix(directory.canonicalize()?) {
        Ok(below) if !below.components().any(is_hidden) => read_opened(&file, bytes_max).map(Some),
        _ => Ok(None),
    }
}

/// Reads the last bytes of a plain file, at most `bytes_max`.
///
/// # Errors
/// As [`open`].
pub fn read_end(path: &Path, links: Links, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path, links)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read`], a text in UTF-8.
///
/// # Errors
/// As [`read`], and `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path, links: Links, bytes_max: u64) -> io::Result<String> {
    text(read(path, links, bytes_max)?)
}

/// Bytes as text.
///
/// # Errors
/// `InvalidData` if they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Users other than this one and root who may have written a file, in words that follow its name; `None`: nobody.
pub fn others_hand(found: &Metadata) -> Option<&'static str> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match found.mode() {
        _ if found.uid() != user && found.uid() != 0 => Some("belongs to another user"),
        mode if mode & 0o002 != 0 => Some("may be written by every user"),
        // Where files are writable by their group, each user usually has a group of their own.
        mode if mode & 0o020 != 0 && found.gid() != group => Some("may be written by another group"),
        _ => None,
    }
}

/// Reads up to the next newline, which stays. A longer line is an error, before it is in memory.
///
/// # Errors
/// As the reader, and `FileTooLarge` for a longer line.
pub fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: u64) -> io::Result<usize> {
    line.clear();
    let length = reader.take(bytes_max.saturating_add(1)).read_until(b'\n', line)?;
    if length as u64 > bytes_max {
        let what = format!("the line has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(length)
}

const LINK: &str = "a symbolic link";

/// What is neither a plain file nor a directory, in words.
fn odd_kind(kind: FileType) -> Option<&'static str> {
    match () {
        () if kind.is_symlink() => Some(LINK),
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        () => None,
    }
}

fn refused(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}; only plain files are read"))
}

fn too_large(found: u64, bytes_max: u64) -> io::Error {
    let what = format!("it has {found} bytes; at most {bytes_max} are read");
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::BufReader;

    #[test]
    fn only_plain_files_are_opened_and_nothing_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("plain"), "text").unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("to-device")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(fifo.success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let said = |name: &str, links| match read(&at(name), links, 10) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(error) => error.to_string(),
        };
        let of = |kind: &str| format!("it is {kind}; only plain files are read");
        for links in [Links::Followed, Links::Refused, Links::RefusedHardToo] {
            assert_eq!(said("plain", links), "text");
            assert_eq!(said("fifo", links), of("a FIFO"));
            assert_eq!(said("socket", links), of("a socket"));
            assert_eq!(read(Path::new("/dev/zero"), links, 10).unwrap_err().to_string(), of("a device"));
            let error = read(directory.path(), links, 10).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        }
        assert_eq!(said("link", Links::Followed), "text");
        assert_eq!(said("link", Links::Refused), of("a symbolic link"));
        assert_eq!(said("to-device", Links::Followed), of("a device"));
        assert_eq!(open(&at("none"), Links::Refused).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn where_a_server_writes_neither_links_nor_pipes_nor_second_names_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
        fs::hard_link(at("secret"), at("second")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
            .unwrap();
        for name in ["link", "second", "pipe", "."] {
            assert!(emptied(&at(name)).is_err(), "{name}");
            assert!(read_end(&at(name), Links::RefusedHardToo, 10).is_err(), "{name}");
        }
        assert_eq!(read(&at("second"), Links::Refused, 10).unwrap(), b"secret");
        fs::write(at("log"), "0123456789").unwrap();
        assert_eq!(read_end(&at("log"), Links::RefusedHardToo, 4).unwrap(), b"6789");
        emptied(&at("log")).unwrap();
        assert_eq!(fs::read(at("log")).unwrap(), b"");
        emptied(&at("new")).unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"");
    }

    #[test]
    fn what_lies_below_a_directory_is_told_by_where_links_lead() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        fs::create_dir_all(at("list/in")).unwrap();
        fs::create_dir(at("listed")).unwrap();
        fs::create_dir(at("list/.ssh")).unwrap();
        for (name, text) in [
            ("list/own", "own"),
            ("list/.ssh/id", "key"),
            ("list/.env", "key"),
            ("list/in/deep", "deep"),
            ("out", "out"),
            ("listed/x", "x"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        for (name, to) in [("near", "in/deep"), ("open", ".ssh/id"), ("far", "../out"), ("up", "..")] {
            std::os::unix::fs::symlink(to, at("list").join(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("list"), at("alias")).unwrap();
        let read = |directory: &str, name: &str| read_below(&at(directory), Path::new(name), 10).unwrap();
        for directory in ["list", "alias"] {
            assert_eq!(read(directory, "own").as_deref(), Some(&b"own"[..]));
            for inside in ["in/deep", "near", "in/../own", "up/list/own"] {
                assert!(read(directory, inside).is_some(), "{inside}");
            }
            for outside in [
                "../out",
                "far",
                "up/out",
                "../listed/x",
                "in/../../out",
                "/proc/self/status",
                ".env",
                ".ssh/id",
                "open",
            ] {
                assert_eq!(read(directory, outside), None, "{outside}");
            }
            assert_eq!(read(directory, at("list/own").to_str().unwrap()), None, "by an absolute path");
        }
        assert!(read_below(&at("list"), Path::new("none"), 10).is_err());
        assert!(read_below(&at("list"), Path::new("own"), 2).is_err());
        assert!(read_below(Path::new(""), Path::new("Cargo.toml"), 1 << 20).unwrap().is_some());
    }

    #[test]
    fn a_limit_holds_for_files_that_tell_no_length_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, Links::Refused, 5).unwrap(), b"12345");
        let error = read(&path, Links::Refused, 4).unwrap_err().to_string();
        assert_eq!(error, "it has 5 bytes; at most 4 are read");
        assert_eq!(read_end(&path, Links::Refused, 2).unwrap(), b"45");
        assert_eq!(read_end(&path, Links::Refused, 9).unwrap(), b"12345");
        let error = read(Path::new("/proc/self/status"), Links::Refused, 4).unwrap_err().to_string();
        assert_eq!(error, "it has 5 bytes; at most 4 are read");
        fs::write(&path, b"\xff").unwrap();
        let error = read_text(&path, Links::Refused, 5).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::InvalidData, "it is not text in UTF-8")
        );
    }

    #[test]
    fn a_file_that_claims_more_than_it_has_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let said = |bytes_max| match open_dense(&path, Links::Refused, bytes_max) {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            }
            Err(error) => error.to_string(),
        };
        fs::write(&path, "").unwrap();
        assert_eq!(said(0), "");
        fs::write(&path, "12345").unwrap();
        assert_eq!(said(5), "12345");
        assert_eq!(said(4), "it has 5 bytes; at most 4 are read");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(said(5), "it has 1099511627776 bytes; at most 5 are read");
        let said = said(u64::MAX);
        assert!(said.starts_with("it has a hole at byte ") && said.len() < 80, "{said}");
    }

    #[test]
    fn an_endless_line_is_not_held() {
        let mut endless = BufReader::new(io::repeat(b'x'));
        let mut line = Vec::new();
        let error = read_line(&mut endless, &mut line, 100).unwrap_err().to_string();
        assert_eq!((error.as_str(), line.len()), ("the line has more than 100 bytes", 101));
        let mut lines = &b"ab\ncd"[..];
        assert_eq!(read_line(&mut lines, &mut line, 3).unwrap(), 3);
        assert_eq!(line, b"ab\n");
        assert_eq!(read_line(&mut lines, &mut line, 3).unwrap(), 2);
        assert_eq!(read_line(&mut lines, &mut line, 3).unwrap(), 0);
    }
}
