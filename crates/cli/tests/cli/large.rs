//! A small version of a record that is too large for memory: commands that do not show rows of pages must not need
//! those on the disk, and commands that do must show all of them. The files are removed to prove that nothing is
//! read.

use std::fs;

use crate::large_record::write;
use crate::program::{Said, webstone_in};

const LEVELS: u32 = 5;
const PAGES: u32 = 400;

#[test]
fn commands_without_rows_of_pages_read_none() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = ["a", "b"].map(|name| write(dir.path(), name, LEVELS, PAGES)).into();
    let [a, b] = [0, 1].map(|place| runs[place].to_str().unwrap());
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(runs[0].join("record.json")).unwrap()).unwrap();
    for run in json["iterations"].as_array().unwrap() {
        assert_eq!(run["pages_at"]["rows"], PAGES);
        assert!(run["measured"].get("pages").is_none(), "no rows in record.json");
    }

    let formats = ["text", "html", "hit", "json", "csv", "markdown", "prometheus", "otel"];
    let mut commands: Vec<Vec<&str>> =
        formats.map(|format| vec!["report", a, "--full", "--format", format]).into();
    commands.extend([vec!["report", a, "-o", "book.xlsx"], vec!["compare", a, b], vec!["history", a]]);
    let said = || -> Vec<String> {
        let said = |words: &Vec<&str>| {
            let Said { code, out, err } = webstone_in(dir.path(), words);
            assert_eq!(code, 0, "{words:?}: {err}");
            out
        };
        commands.iter().map(said).collect()
    };
    let (before, book) = (said(), fs::read(dir.path().join("book.xlsx")).unwrap());
    for run in &runs {
        let file = run.join("page-rows.csv.gz");
        fs::write(&file, vec![0; fs::metadata(&file).unwrap().len() as usize]).unwrap();
    }
    let after = said();
    for ((words, before), after) in commands.iter().zip(&before).zip(&after) {
        assert_eq!(before, after, "{words:?}");
    }
    assert!(book == fs::read(dir.path().join("book.xlsx")).unwrap());
    // Selected levels add up their own rows, so only this needs them.
    let refused = webstone_in(dir.path(), &["report", a, "--clients", "5"]);
    assert_eq!(refused.code, 1, "{refused:?}");

    assert!(before[0].contains("and 380 more pages with 8,760 of 18,760 hits"), "{}", before[0]);
    let json: serde_json::Value = serde_json::from_str(&before[3]).unwrap();
    let pages = json["pages"].as_array().unwrap();
    assert_eq!((pages.len(), &pages[0]["hits"], &pages[399]["page"]), (400, &500.into(), &399.into()));
}

#[test]
fn commands_with_rows_of_pages_name_the_file_that_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(dir.path(), "a", LEVELS, PAGES);
    let path = run.to_str().unwrap();
    let said = webstone_in(dir.path(), &["verify", path]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);

    let table = ["report", path, "--format", "csv", "--table", "pages"];
    let csv = webstone_in(dir.path(), &table).out;
    assert_eq!(csv.lines().count() as u32, 1 + LEVELS * PAGES);
    let of_level = webstone_in(dir.path(), &[&table[..], &["--clients", "3"]].concat()).out;
    let third: Vec<&str> = csv.lines().skip(1 + 2 * PAGES as usize).take(PAGES as usize).collect();
    assert_eq!(of_level.lines().skip(1).collect::<Vec<_>>(), third);
    let classic = webstone_in(dir.path(), &["report", path, "--format", "webstone1", "--pages", "30"]).out;
    assert_eq!(classic.matches("\nPage # ").count() as u32, LEVELS * 30);
    assert_eq!(classic.matches("\nand 370 more pages with fewer hits\n").count() as u32, LEVELS);

    let file = run.join("page-rows.csv.gz");
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&file, bytes).unwrap();
    let said = webstone_in(dir.path(), &["verify", path]);
    assert!(said.code != 0 && said.out.contains("\n  page-rows.csv.gz: its check sum is "), "{}", said.out);
    let said = webstone_in(dir.path(), &table);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("page-rows.csv.gz: 3 clients, iteration 1, row "), "{}", said.err);
}
