//! `verify` of a whole series: its cells, its plan and its page.

use std::fs;
use std::path::Path;

use crate::program::{assert_ended, only_entry, webstone_in};
use crate::series::{records, series};

#[test]
fn a_series_is_verified_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_ended(&series(dir, &[]));
    let directory = &only_entry(&dir.join("runs"));
    let verify = || webstone_in(dir, &["verify", "last"]);
    let said = verify();
    assert_eq!((said.code, said.out.matches("VERIFIED  ").count()), (0, 3), "{}{}", said.out, said.err);
    assert!(
        said.out.contains("\n  all 2 cells are stored, verified, and measured as planned\n"),
        "{}",
        said.out
    );
    let name = directory.to_str().unwrap();
    for arguments in [&["archive", name, "-o", "x.zip"][..], &["certify", name], &["compare", name, name]] {
        let said = webstone_in(dir, arguments);
        let expected = format!("{name} is a series, not a run\nhint: give one of its cells, such as {name}/");
        assert!(said.code == 2 && said.err.contains(&expected), "{arguments:?}: {}", said.err);
    }
    let forged = |path: &Path, change: &dyn Fn(&str) -> String, expected: &str| {
        let before = fs::read_to_string(path).unwrap();
        fs::write(path, change(&before)).unwrap();
        let said = verify();
        assert!(said.code == 6 && said.out.contains(expected), "{}{}", said.out, said.err);
        assert!(said.out.starts_with("NOT VERIFIED  "), "the first line is of the whole: {}", said.out);
        fs::write(path, before).unwrap();
    };
    forged(
        &directory.join("report.html"),
        &|page| page.replace("Servers", "servers"),
        "report.html: is not the report that the cells give",
    );
    forged(
        &directory.join("series.json"),
        &|plan| {
            plan.replacen("\"keep-alive\"", "\"per-page\"", 1).replacen(
                "\"duration\": \"",
                "\"duration\": \"1",
                1,
            )
        },
        "was not measured as series.json says",
    );
    let (_, cell) = records(directory).into_iter().next().unwrap();
    let of_cell = format!("{}: does not verify: see below", cell.file_name().unwrap().to_str().unwrap());
    forged(&cell.join("record.json"), &|record| format!("{record} "), &of_cell);
    forged(
        &directory.join("series.json"),
        &|_| String::new(),
        "series.json: cannot be read, so nothing was compared",
    );
    let page = directory.join("report.html");
    fs::rename(&page, dir.join("page")).unwrap();
    let said = verify();
    assert!(said.code == 6 && said.out.contains("report.html: is missing: "), "{}{}", said.out, said.err);
    fs::rename(dir.join("page"), page).unwrap();
    fs::rename(&cell, dir.join("elsewhere")).unwrap();
    let said = verify();
    let expected = "is missing: no record of this cell is stored";
    assert!(said.code == 6 && said.out.contains(expected), "{}{}", said.out, said.err);
    assert!(said.err.contains("1 of 2 not verified"), "{}", said.err);
    fs::rename(dir.join("elsewhere"), cell).unwrap();
    assert_eq!(verify().code, 0);
}
