//! Tests of the shapes of documents, without a run.

use super::*;

#[test]
fn every_shape_finds_its_results_and_every_result_has_a_place() {
    let text = include_str!("shapes.toml");
    for shape in shapes() {
        let filled = Filled { shape, today: Vec::new(), own: &[] };
        let sheets = filled.sheets();
        assert!(!sheets.is_empty(), "{}", shape.name);
        for drawn in shape.figures.iter().chain(&shape.bars) {
            let shares = filled.shares_of(drawn, None).unwrap_or_default();
            assert_eq!(drawn.results().count() == 0, shares.len() > 1, "{}", drawn.title);
        }
        for document in &shape.documents {
            let results = published().iter().filter(|result| result.document.id == *document);
            for result in results {
                assert!(text.contains(&format!("\"{}\"", result.id)), "{} has no place", result.id);
            }
        }
    }
    assert_eq!(names(), ["webstone-paper", "fasttrack", "proliant", "netserver", "wasd"]);
}

/// A table as it was printed: columns, order, digits, NA.
#[test]
fn without_runs_the_printed_tables_stand_alone() {
    let text = |name: &str| {
        let options = Options { charset: crate::Charset::Ascii, ..Options::default() };
        String::from_utf8(render(name, Vec::new(), &[], Format::Text, &options).unwrap()).unwrap()
    };
    let squeezed = |name: &str| text(name).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed("fasttrack").contains("16 1996 262 0.000 0.06 14.1 32 1996 263 0.000 0.12 14.1"));
    let netserver = squeezed("netserver");
    assert!(
        netserver.contains("1 2000 3,570 - 2 2000 4,842 36% 4 2000 7,010 96% 6 2000 NA NA"),
        "{netserver}"
    );
    let proliant = squeezed("proliant");
    assert!(
        proliant.contains("1 processor HTML: 1996 820 @ 50 clients 121 @ 50 clients ISAPI: 1996 91 @ 50 clients 12.9 @ 500 clients"),
        "{proliant}"
    );
    assert!(proliant.contains("4 processors HTML: 1996 Not Reported Not Reported"), "{proliant}");
    let wasd = squeezed("wasd");
    assert!(wasd.contains("0K duration (seconds) printed 28.2 16.6 5.5"), "{wasd}");
    assert!(wasd.contains("cached over uncached: 0K, 1 concurrent printed 241%"), "{wasd}");
    assert!(squeezed("webstone-paper").contains("WEBSTONE number 456 142"));
    assert!(text("fasttrack").lines().all(|line| line.chars().count() <= 80));
}
