//! Manifests of crates: their cycles and lints. Which crate may depend on which is in `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Violation, whole};
use crate::tree::Tree;

/// No crate reaches itself, over dependencies of any kind: cargo allows a cycle through tests, and builds the crate twice.
pub fn no_cycle(tree: &Tree) -> Vec<Violation> {
    let manifests: BTreeMap<&str, _> =
        manifests(tree).map(|(path, name, text)| (name, (path, ours(text)))).collect();
    let mut found = Vec::new();
    for (package, (path, dependencies)) in &manifests {
        let mut seen = BTreeSet::new();
        let mut open = dependencies.clone();
        while let Some(name) = open.pop() {
            if let Some((_, next)) = manifests.get(name).filter(|_| seen.insert(name)) {
                open.extend(next);
            }
        }
        if seen.contains(package) {
            let remedy = "move the test that needs both to the crate that stands higher";
            found.push(whole(path, format!("{package} depends on itself"), remedy));
        }
    }
    found
}

/// Every manifest has a table of lints; an allowed lint has a comment on its line.
pub fn lints(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, _, text) in manifests(tree) {
        if !text.contains("[lints]") && !text.contains("[lints.") {
            found.push(whole(path, "has no [lints]".to_owned(), "write `[lints]` and `workspace = true`"));
        }
        let mut in_lints = false;
        for (number, line) in text.lines().enumerate() {
            in_lints = if line.starts_with('[') { line.contains("lints") } else { in_lints };
            if in_lints && line.contains("\"allow\"") && !line.contains('#') {
                let what = "allows a lint without saying why".to_owned();
                found.push(
                    whole(path, what, "give the reason in a comment at the end of the line")
                        .at_line(number + 1),
                );
            }
        }
    }
    found
}

/// A package of crates.io holds what lies below its manifest: a file from elsewhere is compiled in through a link, whose target
/// cargo puts into the package.
pub fn packaged_whole(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.rust.iter().filter(|source| source.path.starts_with("crates/")) {
        for (offset, _) in source.text.match_indices("include_") {
            let Some((_, path)) = source.text[offset..].split_once('(').and_then(|(name, rest)| {
                matches!(name, "include_str!" | "include_bytes!").then(|| (name, rest.trim_start()))
            }) else {
                continue;
            };
            let path = path.strip_prefix('"').and_then(|path| path.split('"').next()).unwrap_or_default();
            let above = path.split('/').take_while(|part| *part == "..").count();
            // Of `crates/NAME/src/a/b.rs`, one folder is above the file in `src`, and another is the crate.
            let folders = source.path.split('/').count().saturating_sub(3);
            if above > folders {
                let what = format!("compiles in {path}, which is outside of its crate");
                let remedy = "make a link to it in the crate, and name that";
                found.push(super::at(source, offset, what, remedy));
            }
        }
    }
    found
}

/// Path, package's name and text of every manifest of a package.
fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str, &str)> {
    tree.texts.iter().filter(|(path, _)| path.ends_with("Cargo.toml")).filter_map(|(path, text)| {
        let package = text.split_once("[package]\nname = \"")?.1;
        Some((path.as_str(), package.split('"').next()?, text.as_str()))
    })
}

/// The packages of this workspace that a manifest names at the start of a line: dependencies are written one a line.
fn ours(manifest: &str) -> Vec<&str> {
    let names = manifest.lines().filter(|line| line.starts_with("webstone"));
    names.filter_map(|line| line.split(['.', ' ', '=']).next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_through_tests_is_found() {
        let tree = |engine: &str, server: &str| {
            let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
            Tree::with_files(&[
                ("crates/engine/Cargo.toml", &manifest("webstone-engine", engine)),
                ("crates/server/Cargo.toml", &manifest("webstone-server", server)),
            ])
        };
        let needs_server = "[dev-dependencies]\nwebstone-server = \"1\"\n";
        let needs_engine = "[dev-dependencies]\nwebstone-engine.workspace = true\n";
        assert_eq!(no_cycle(&tree(needs_server, "")), []);
        assert_eq!(no_cycle(&tree(needs_server, needs_engine)).len(), 2);
    }

    #[test]
    fn files_outside_of_a_crate_are_found() {
        let one = |path: &str, text: &str| packaged_whole(&Tree::with_files(&[(path, text)])).len();
        assert_eq!(one("crates/x/src/a/b.rs", "const A: &str = include_str!(\"../../tests/c.txt\");"), 0);
        assert_eq!(one("crates/x/src/a.rs", "const A: &[u8] = include_bytes!(\"../assets/c\");"), 0);
        assert_eq!(one("crates/x/src/a.rs", "const A: &str = include_str!(\"../../c.txt\");"), 1);
        assert_eq!(
            one("crates/x/src/a/b.rs", "const A: &str = include_str!(\n\"../../../../docs/c.md\");"),
            1
        );
    }

    #[test]
    fn lints_are_kept_and_explained() {
        let manifest = |lints: &str| {
            Tree::with_files(&[("crates/x/Cargo.toml", &format!("[package]\nname = \"x\"\n{lints}"))])
        };
        assert_eq!(lints(&manifest("[lints]\nworkspace = true\n")), []);
        assert_eq!(lints(&manifest("")).len(), 1);
        assert_eq!(lints(&manifest("[lints.clippy]\nexit = \"allow\"\n")).len(), 1);
        assert_eq!(lints(&manifest("[lints.clippy]\nexit = \"allow\" # it is the command\n")), []);
    }
}
