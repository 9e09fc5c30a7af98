//! One door for what strangers may have written: how a text becomes a value, and how a file below a directory of records is opened.

use super::{Violation, at};
use crate::source::Source;
use crate::tree::Tree;

/// Readers that accept a list of a struct's values for the struct. They may only read into `Value`.
const READERS: [&str; 7] = [
    "serde_json::from_slice",
    "serde_json::from_str",
    "serde_json::from_reader",
    "serde_json::from_value",
    "toml::from_str",
    "toml::from_slice",
    "toml::Value::try_into",
];
/// Where a tree of values is read, or what this program has made itself.
const TREES: [&str; 4] = [
    "crates/report/src/figures.rs",
    "crates/report/src/document/history/mod.rs",
    "crates/runner/src/fleet/kubectl.rs",
    "crates/cli/src/commands/verify.rs",
];
/// Fixtures of tests, in files that are not tests themselves.
const FIXTURES: [&str; 1] = ["crates/measure/src/fixture.rs"];

/// What is read into a type is read through `webstone_measure::strict`.
pub fn strict_readers(tree: &Tree) -> Vec<Violation> {
    let remedy = "read it by webstone_measure::strict::json, strict::tree or toml_text::read";
    let is_held = |source: &&Source| {
        source.path.starts_with("crates/") && source.path.contains("/src/") && !source.path.contains("tests")
    };
    let allowed = |path: &str| TREES.contains(&path) || FIXTURES.contains(&path);
    let sources = tree.rust.iter().filter(is_held).filter(|source| !allowed(&source.path));
    calls(sources, &READERS, "takes a list for a struct", remedy)
}

/// Crates that read below a directory of records.
const RECORDS: [&str; 2] = ["crates/ui/src/", "crates/store/src/"];
/// What opens whatever is there: a FIFO that blocks, a device without an end, a link to somewhere else.
const OPENERS: [&str; 4] = ["fs::read", "fs::read_to_string", "File::open", "fs::copy"];
/// The door itself, directories that it opens to lock or sync them, and files of /proc and /dev.
const DOORS: [&str; 8] = [
    "crates/store/src/plain_file.rs",
    "crates/store/src/library/notes.rs",
    "crates/store/src/record/append.rs",
    "crates/ui/src/guard.rs",
    "crates/ui/src/manners.rs",
    "crates/ui/src/process.rs",
    "crates/ui/src/routes.rs",
    "crates/ui/src/usage.rs",
];

/// Files below a directory of records are opened by `webstone_store::plain_file`.
pub fn one_door_to_records(tree: &Tree) -> Vec<Violation> {
    let remedy = "open it by webstone_store::plain_file, with Links::Refused and a limit";
    let is_held = |source: &&Source| RECORDS.iter().any(|folder| source.path.starts_with(folder));
    let sources = tree.rust.iter().filter(is_held).filter(|source| !DOORS.contains(&&*source.path));
    calls(sources, &OPENERS, "opens whatever is there", remedy)
}

fn calls<'a>(
    sources: impl Iterator<Item = &'a Source>,
    names: &[&str],
    what: &str,
    remedy: &str,
) -> Vec<Violation> {
    let of = |source: &'a Source| {
        let found = names.iter().flat_map(move |name| source.find(name).map(move |offset| (offset, *name)));
        let found = found.filter(|(offset, _)| !source.is_test(*offset));
        found.map(|(offset, name)| at(source, offset, format!("{name} {what}"), remedy)).collect::<Vec<_>>()
    };
    sources.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_reader_is_found_and_tests_are_left_alone() {
        let found = |path: &str, text: &str| strict_readers(&Tree::with_files(&[(path, text)])).len();
        let text = "fn a() { serde_json::from_slice::<A>(b\"\"); toml::from_str(\"\"); }";
        assert_eq!(found("crates/ui/src/a.rs", text), 2);
        assert_eq!(found("crates/ui/tests/a.rs", text), 0);
        assert_eq!(
            found("crates/ui/src/a.rs", "#[cfg(test)]\nmod tests { fn a() { toml::from_str(\"\") } }"),
            0
        );
        assert_eq!(found("crates/ui/src/a.rs", "fn a() { strict::json(b\"\") }"), 0);
    }

    #[test]
    fn another_door_is_found() {
        let found = |path: &str, text: &str| one_door_to_records(&Tree::with_files(&[(path, text)])).len();
        assert_eq!(
            found("crates/ui/src/a.rs", "fn a() { std::fs::read(p); File::open(p); fs::read_dir(p) }"),
            2
        );
        assert_eq!(found("crates/cli/src/a.rs", "fn a() { std::fs::read(p) }"), 0);
    }
}
