//! What somebody else's certified record brings: an archive, a manifest, a signature, a list of signers.
//!
//! Archives and manifests are files to the functions under test, so each input is written into a directory that the thread keeps for
//! them: unlike those of the process, its variables are dropped at its end, and the directory with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use webstone_store::certify::archive::{self, Form};
use webstone_store::certify::signature;
use webstone_store::{MANIFEST, Store};

/// Whatever an archive holds, what is unpacked are plain files in one directory, and packed again they come out the same.
pub(crate) fn archive(data: &[u8]) {
    thread_local! {
        static FOLDER: TempDir = folder();
    }
    FOLDER.with(|folder| archive_in(folder.path(), data));
}

fn archive_in(folder: &Path, data: &[u8]) {
    let path = folder.join("archive");
    fs::write(&path, data).expect("the folder for temporary files can be written to");
    let Ok(unpacked) = archive::read(&path) else { return };
    let files = files_in(&unpacked.directory);
    assert!(
        files_in(unpacked.directory.parent().expect("it lies in a folder of its own")).is_empty(),
        "a file was written beside the record"
    );
    for form in [Form::TarGz, Form::Zip] {
        let again = folder.join("again");
        archive::write(&unpacked.directory, &again, form).expect("what was unpacked can be packed");
        let unpacked_again = archive::read(&again).map(|unpacked| files_in(&unpacked.directory));
        // Reading may fail: an empty archive is refused, and so is one that unpacks to too much for its size, as a copy that is packed
        // better may.
        if let Ok(unpacked_again) = unpacked_again {
            assert!(unpacked_again == files, "{form:?} changed the files");
        }
        fs::remove_file(&again).expect("it was just written");
    }
}

/// Names and contents of the plain files in a directory; anything but files and directories is a defect.
fn files_in(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("it was just made") {
        let entry = entry.expect("it was just made");
        let kind = entry.file_type().expect("it was just made");
        assert!(kind.is_file() || kind.is_dir(), "{} is neither file nor directory", entry.path().display());
        if kind.is_file() {
            let content = fs::read(entry.path()).expect("it can be read by whoever wrote it");
            files.insert(PathBuf::from(entry.file_name()), content);
        }
    }
    files
}

/// The files of a record whose manifest is fuzzed.
const FILES: [&str; 4] = ["environment.json", "histograms.hlog", "intervals.ndjson", "record.json"];

/// No manifest but the one form of the right one finds nothing wrong.
pub(crate) fn manifest(data: &[u8]) {
    thread_local! {
        static RECORD: (TempDir, Vec<u8>) = record();
    }
    RECORD.with(|(folder, right)| {
        fs::write(folder.path().join(MANIFEST), data).expect("it can be written to");
        let found = Store::check(folder.path()).expect("the directory can be read");
        assert_eq!(found.damage.is_empty(), data == right, "{:?}", found.damage);
    });
}

/// A record of empty files, and its manifest.
fn record() -> (TempDir, Vec<u8>) {
    let folder = folder();
    let mut right = String::new();
    for name in FILES {
        fs::write(folder.path().join(name), b"").expect("it can be written to");
        // The check sum of nothing.
        right += "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  ";
        right += name;
        right.push('\n');
    }
    (folder, right.into_bytes())
}

/// A signature is refused, or is one of the bytes that it was made for: no input signs these. And lists of signers are read,
/// or refused by the line.
pub(crate) fn signature(data: &[u8]) {
    assert!(signature::check(data, b"a manifest that nobody has signed\n").is_err());
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(allowed) = signature::allowed_signers(text) {
        assert!(allowed.iter().all(|signer| signer.fingerprint.starts_with("SHA256:")));
    }
    // A text that is no key is the name of a file, which is somebody else's.
    if text.starts_with("ssh-") || text.starts_with("SHA256:") {
        let _ = signature::signer(text);
    }
}

fn folder() -> TempDir {
    TempDir::new().expect("the folder for temporary files can be written to")
}
