//! The samples in `docs/reports.md` are parts of golden files. A line `<!-- sample: FILE -->`, optionally with
//! `from "TEXT"` and `lines N`, says which; the fenced block below it must hold just that. After an intended
//! change: `UPDATE_GOLDEN=1 cargo test -p webstone-report` (twice, if golden files changed with it).

use std::path::Path;

#[test]
fn the_samples_are_what_the_program_prints() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_directory.join("../../docs/reports.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (filled, samples) = with_samples(&page, &crate_directory.join("tests/golden"));
    assert!(samples >= 8, "docs/reports.md shows {samples} samples: every format has one");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &filled).unwrap();
        return;
    }
    assert!(
        page == filled,
        "the samples in docs/reports.md are old.\nhint: UPDATE_GOLDEN=1 cargo test --workspace --test reports documentation::"
    );
}

/// The page with every sample filled in, and how many there are.
fn with_samples(page: &str, golden: &Path) -> (String, usize) {
    let mut filled = String::new();
    let mut samples = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        filled.push_str(line);
        filled.push('\n');
        let Some(wanted) = line.strip_prefix("<!-- sample: ").and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        assert!(fence.starts_with("```"), "a fenced block follows `{line}`");
        lines.by_ref().find(|line| *line == "```").expect("the block ends");
        filled.push_str(&format!("{fence}\n{}```\n", sample(wanted, golden)));
        samples += 1;
    }
    (filled, samples)
}

fn sample(wanted: &str, golden: &Path) -> String {
    let (name, part) = wanted.split_once(' ').unwrap_or((wanted, ""));
    let text = std::fs::read_to_string(golden.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let from = part.split('"').nth(1).unwrap_or("");
    let count = part.rsplit_once("lines ").map_or(usize::MAX, |(_, n)| n.parse().unwrap());
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains(from)).take(count).collect();
    assert!(!lines.is_empty(), "{name} holds `{from}`");
    lines.join("\n") + "\n"
}

/// Words in capitals are read first, so each has a fixed meaning.
#[test]
fn every_word_in_capitals_is_a_term() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../docs/terminology.md")).unwrap();
    let mut seen = 0;
    for file in ["cautions.rs", "header.rs", "problems.rs"] {
        let source = std::fs::read_to_string(here.join("src/document/run").join(file)).unwrap();
        let literals = source.split('"').skip(1).step_by(2);
        let is_title = |text: &&str| {
            text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c == ' ' || c == '-')
        };
        for title in literals.filter(is_title) {
            seen += 1;
            assert!(page.contains(&format!("**{title}**")), "docs/terminology.md lacks `{title}` of {file}");
        }
    }
    assert!(seen > 15, "{seen} titles were found");
}

#[test]
fn every_format_is_in_the_table_of_formats() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reports.md");
    let page = std::fs::read_to_string(path).unwrap();
    for format in webstone_report::Format::ALL {
        assert!(page.contains(&format!("| `{format}` | ")), "docs/reports.md has no row of {format}");
    }
}
