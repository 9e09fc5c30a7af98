//! Files in places where somebody else may write, too: opened without following a link, without waiting at a pipe, and used
//! only if they are plain files of one name. A privileged process that did otherwise would read and write for that somebody. Files that are only read, whoever made them, are opened by `plain_file`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file for writing, empty; makes it where it is not there.
pub(crate) fn emptied(path: &Path) -> io::Result<File> {
    let file = plain(OpenOptions::new().write(true).create(true).mode(0o644), path)?;
    file.set_len(0)?;
    Ok(file)
}

/// The last bytes of a file, at most so many.
pub(crate) fn end(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = plain(OpenOptions::new().read(true), path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    // It may still grow.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Not to wait: for the other end of a pipe. Of a plain file it has no effect.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    // A second name may lie in a directory where only its owner should have written.
    if found.nlink() > 1 {
        return Err(io::Error::other("it has more than one name (hard link)"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn neither_links_nor_pipes_nor_second_names_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        fs::hard_link(at("secret"), at("second")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
            .unwrap();
        for name in ["link", "second", "pipe", "."] {
            assert!(emptied(&at(name)).is_err(), "{name}");
            assert!(end(&at(name), 10).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("secret")).unwrap(), b"secret");
        fs::write(at("log"), "0123456789").unwrap();
        assert_eq!(end(&at("log"), 4).unwrap(), b"6789");
        emptied(&at("log")).unwrap();
        assert_eq!(fs::read(at("log")).unwrap(), b"");
    }
}
