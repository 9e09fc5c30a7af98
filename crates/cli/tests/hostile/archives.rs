//! Archives that fill memory, or that unpack to something other than what was verified.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::webstone_in;
use crate::records::{ADDRESS_SPACE_KIB, confined, run, text};

fn tar_gz(path: &Path, write: impl FnOnce(&mut tar::Builder<GzEncoder<File>>)) {
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(path).unwrap(), Compression::fast()));
    write(&mut tar);
    tar.into_inner().unwrap().finish().unwrap();
}

fn entry(
    tar: &mut tar::Builder<GzEncoder<File>>,
    kind: tar::EntryType,
    name: &str,
    size: u64,
    content: impl Read,
) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_entry_type(kind);
    header.set_cksum();
    tar.append(&header, content.take(size)).unwrap();
}

/// The letter a without end. `std::io::repeat` is compiled into this program unoptimised, and takes seconds per gigabyte.
struct Endless;

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        into.fill(b'a');
        Ok(into.len())
    }
}

#[test]
fn a_tar_whose_names_and_attributes_fill_memory() {
    let dir = tempfile::tempdir().unwrap();
    for (name, kind) in [
        ("long-name", tar::EntryType::GNULongName),
        ("long-link", tar::EntryType::GNULongLink),
        ("pax", tar::EntryType::XHeader),
        ("pax-global", tar::EntryType::XGlobalHeader),
    ] {
        let path = dir.path().join(format!("{name}.tar.gz"));
        // More than the memory that it may use.
        tar_gz(&path, |tar| entry(tar, kind, "x", (ADDRESS_SPACE_KIB << 10) + (64 << 20), Endless));
        for command in ["verify", "report"] {
            let said = confined(dir.path(), &[command, text(&path)]);
            assert!((1..=6).contains(&said.code), "{name}, {command}: {said:?}");
        }
        let said = confined(dir.path(), &["verify", text(&path)]);
        assert_eq!(said.code, 6, "{name}: {said:?}");
        assert!(
            said.out.contains("bytes; a record's has fewer") || said.out.contains("only plain files"),
            "{said:?}"
        );
    }
}

#[test]
fn a_tar_with_extensions_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.tar.gz");
    tar_gz(&path, |tar| {
        (0..1_000).for_each(|_| entry(tar, tar::EntryType::XGlobalHeader, "x", 0, std::io::empty()));
    });
    let said = confined(dir.path(), &["verify", text(&path)]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.out.contains("it has more than 256 entries"), "{said:?}");
}

#[test]
fn a_record_that_another_tar_packed_is_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let (parent, name) = (run.parent().unwrap(), run.file_name().unwrap());
    for format in ["pax", "gnu", "ustar"] {
        let packed = dir.path().join(format!("{format}.tar.gz"));
        let made = std::process::Command::new("tar")
            .args(["--format", format, "-czf", text(&packed), "-C", text(parent)])
            .arg(name)
            .status();
        assert!(made.unwrap().success());
        let said = webstone_in(dir.path(), &["verify", text(&packed)]);
        assert_eq!(said.code, 0, "{format}: {said:?}");
    }
}

/// A zip of stored files, written by hand: no library would write these.
fn zip_of(files: &[(&str, &str, &[u8])], between: &[u8]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let word = |value: usize| (value as u32).to_le_bytes();
    let half = |value: usize| (value as u16).to_le_bytes();
    for (local, listed, content) in files {
        let offset = out.len();
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let common = |name: &str| {
            let mut part = [&[20, 0][..], &[0; 4], &[0, 0, 0x21, 0]].concat();
            part.extend([crc.sum().to_le_bytes(), word(content.len()), word(content.len())].concat());
            part.extend([half(name.len()), half(0)].concat());
            part
        };
        out.extend(b"PK\x03\x04");
        out.extend(common(local));
        out.extend(local.as_bytes());
        out.extend(*content);
        out.extend(between);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(common(listed));
        directory.extend([&half(0)[..], &half(0), &half(0), &word(0), &word(offset)].concat());
        directory.extend(listed.as_bytes());
    }
    let start = out.len();
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([half(files.len()), half(files.len())].concat());
    out.extend([word(directory.len()), word(start)].concat());
    out.extend(half(0));
    out
}

#[test]
fn a_zip_that_unpacks_to_another_file_than_was_verified() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let said = |bytes: Vec<u8>| {
        fs::write(&path, bytes).unwrap();
        let said = webstone_in(dir.path(), &["verify", text(&path)]);
        assert_eq!(said.code, 6, "{said:?}");
        said.out
    };
    let sound = zip_of(&[("r/a", "r/a", b"one"), ("r/b", "r/b", b"two")], b"");
    assert!(said(sound).contains("MANIFEST.sha256: cannot be read"), "it is read, and is no record");
    let names = [("r/record.json", "r/record.json"), ("r/a", "r/A"), ("r/RECORD.json", "r/RECORD.json")];
    for (first, second) in [(0, 0), (0, 2)] {
        let (first, second) = (names[first], names[second]);
        let twice = zip_of(&[(first.0, first.1, b"one"), (second.0, second.1, b"two")], b"");
        let said = said(twice);
        assert!(said.contains("is in it twice"), "{said}");
    }
    let renamed = zip_of(&[("r/a", "r/b", b"one")], b"");
    let hidden = zip_of(&[("r/a", "r/a", b"one"), ("r/b", "r/b", b"two")], b"PK\x03\x04 another file");
    for bytes in [renamed, hidden] {
        let said = said(bytes);
        assert!(said.contains("it has data between its entries that its directory does not list"), "{said}");
    }
    for name in ["/r/a", "r/../a", "../a", "r/b/a", "r\\a", "r/re\u{301}cord.json", "r/a\u{202e}b"] {
        let said = said(zip_of(&[(name, name, b"one")], b""));
        assert!(said.contains("is not that of a file in the record's directory"), "{name:?}: {said}");
    }
}

#[test]
fn an_archive_with_directories_that_its_record_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let tar = dir.path().join("a.tar.gz");
    let verified = |name: &str| {
        tar_gz(&tar, |tar| {
            entry(tar, tar::EntryType::Directory, name, 0, std::io::empty());
            tar.append_dir_all("r", &run).unwrap();
        });
        webstone_in(dir.path(), &["verify", text(&tar)])
    };
    for name in ["r", "r/", "./r/"] {
        let said = verified(name);
        assert_eq!(said.code, 0, "{name:?}: {said:?}");
    }
    for name in ["r/more", "q", "r/record.json/", ".", "r\u{1b}[2J", "../r", "/r"] {
        let said = verified(name);
        assert_eq!(said.code, 6, "{name:?}: {said:?}");
        assert!(
            said.out.contains("in the same directory")
                || said.out.contains("is not the directory of its files"),
            "{said:?}"
        );
    }
    let zip = dir.path().join("a.zip");
    for (name, content) in [("r/more/", ""), ("q/", ""), ("r/", "hidden")] {
        fs::write(&zip, zip_of(&[("r/a", "r/a", b"one"), (name, name, content.as_bytes())], b"")).unwrap();
        let said = webstone_in(dir.path(), &["verify", text(&zip)]);
        assert!(said.out.contains("the directory"), "{name:?}: {said:?}");
    }
}

#[test]
fn pages_whose_rows_never_end() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let path = run.join("record.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // One endless line, and endless rows: 3 GB each when unpacked.
    for piece in [&[b'1'; 1 << 16][..], &b"1,,1,0,1,0,0,0,0,0,0,0,0,0,0,0,0\n".repeat(2_000)] {
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        (0..(3_usize << 30) / piece.len()).for_each(|_| member.write_all(piece).unwrap());
        let member = member.finish().unwrap();
        for iteration in record["iterations"].as_array_mut().unwrap() {
            iteration["pages_at"] =
                serde_json::json!({ "offset": 0, "bytes": member.len(), "rows": u64::MAX });
        }
        fs::write(run.join("page-rows.csv.gz"), &member).unwrap();
        for rows in [u64::MAX, 5] {
            record["iterations"][0]["pages_at"]["rows"] = rows.into();
            fs::write(&path, record.to_string()).unwrap();
            for arguments in [&["verify"][..], &["report", "--format", "csv", "--table", "pages"]] {
                let said = confined(dir.path(), &[arguments, &[text(&run)]].concat());
                assert!(said.code == 6 || said.code == 1, "{said:?}");
                assert!((said.out + &said.err).contains("row"), "{arguments:?}");
            }
        }
    }
}
