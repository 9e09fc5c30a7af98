//! `docs/measurement.md` keeps in step with the code: what the program counts is defined there by the same name.

use super::Violation;
use crate::source::{Source, is_word};
use crate::tree::Tree;

/// Where users read definitions.
const DOCUMENT: &str = "docs/measurement.md";
/// Structures whose every public field has a definition there.
const DEFINED: [(&str, &str); 8] = [
    ("crates/measure/src/metrics/counts.rs", "Counts"),
    ("crates/measure/src/metrics/fairness.rs", "Fairness"),
    ("crates/measure/src/metrics/measured.rs", "Lifetime"),
    ("crates/measure/src/metrics/totals.rs", "PageTotals"),
    ("crates/measure/src/server_use.rs", "ServerUse"),
    ("crates/measure/src/server_use.rs", "ProcessUse"),
    ("crates/measure/src/server_use.rs", "OriginUse"),
    ("crates/measure/src/server_use.rs", "OriginCounts"),
];
/// Where the table of figures stands: beside its formulas.
const MEASURE: &str = "crates/measure/src/";
/// How an entry names its definition.
const ENTRY: &str = ".defined(";
/// Where the names of error classes stand.
const ERRORS: &str = "crates/measure/src/errors.rs";

/// Every entry of the table of figures, every field of [`DEFINED`] and every class of error appears in the document, in
/// backticks. A test of the reports, which read the document, checks that an entry names the right section.
pub fn measurement_names_every_figure(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let document = tree.text(DOCUMENT).unwrap_or_default();
    let mut demand = |source: &Source, offset: usize, name: &str| {
        if !document.contains(&format!("`{name}`")) {
            found.push(super::at(
                source,
                offset,
                format!("`{name}` has no definition in {DOCUMENT}"),
                "define it there: what it counts, the formula, the unit, the source",
            ));
        }
    };
    for source in &tree.rust {
        for (_, structure) in DEFINED.iter().filter(|(path, _)| *path == source.path) {
            for (offset, name) in public_fields(source, structure) {
                demand(source, offset, name);
            }
        }
        if source.path.starts_with(MEASURE) {
            for (offset, name) in entries(source) {
                demand(source, offset, name);
            }
        }
        if source.path == ERRORS {
            for (offset, name) in class_names(source) {
                demand(source, offset, name);
            }
        }
    }
    found
}

/// Public fields of a structure: offset and name.
fn public_fields<'a>(source: &'a Source, structure: &str) -> Vec<(usize, &'a str)> {
    let header = format!("struct {structure} {{");
    let Some(start) = source.code.find(&header) else { return Vec::new() };
    let end = source.code[start..].find("\n}").map_or(source.code.len(), |length| start + length);
    let fields = source.code[start..end].match_indices("\n    pub ");
    fields
        .map(|(at, marker)| {
            let offset = start + at + marker.len();
            let name = &source.code[offset..];
            (offset, &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())])
        })
        .collect()
}

/// Names that `.defined(SECTION, "name")` gives; an entry without one is defined by a heading.
fn entries(source: &Source) -> Vec<(usize, &str)> {
    let calls = source.code.match_indices(ENTRY).map(|(at, _)| at + ENTRY.len());
    calls
        .filter_map(|begin| {
            let call = &source.text[begin..begin + source.text[begin..].find(')')?];
            let name = call.strip_suffix('"')?.rsplit('"').next()?;
            (!name.is_empty()).then_some((begin, name))
        })
        .collect()
}

/// The names of the classes: the texts in their list.
fn class_names(source: &Source) -> Vec<(usize, &str)> {
    let Some(start) = source.text.find("ErrorClass:\n") else { return Vec::new() };
    let end = source.text[start..].find("\n}").map_or(source.text.len(), |length| start + length + 1);
    let values = source.text[start..end].match_indices("\",\n");
    values
        .filter_map(|(at, _)| {
            let quote = source.text[start..start + at].rfind('"')?;
            Some((start + quote, &source.text[start + quote + 1..start + at]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_table_without_a_definition_is_found() {
        let table = "pub static RATES: &[Figure] = &[\n    rate().defined(LEVEL, \"rate\"),\n    lag().defined(OPEN, \"\"),\n];\n";
        let with = |document| {
            let tree =
                Tree::with_files(&[("crates/measure/src/figures/level.rs", table), (DOCUMENT, document)]);
            measurement_names_every_figure(&tree)
        };
        assert_eq!(with("`rate`"), []);
        assert_eq!(with("rate").iter().map(|v| v.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_figure_without_a_definition_is_found() {
        let code = "pub struct Counts {\n    /// Planned.\n    pub planned: u64,\n    pub skipped: u64,\n    hidden: u64,\n}\n";
        let errors = "named! {\n    ErrorClass:\n    Refused \"refused\",\n}\n";
        let with = |document| {
            let tree = Tree::with_files(&[
                ("crates/measure/src/metrics/counts.rs", code),
                (ERRORS, errors),
                (DOCUMENT, document),
            ]);
            measurement_names_every_figure(&tree)
        };
        assert_eq!(with("`planned` `skipped` `refused`"), []);
        let found = with("`planned` refused skipped");
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [4, 3]);
    }
}
