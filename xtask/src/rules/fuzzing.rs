//! Every fuzz target has a function, a libFuzzer wrapper, and a corpus.

use super::{Violation, whole};
use crate::tree::Tree;

/// Where the list of targets stands.
const TARGETS: &str = "fuzz/targets/src/lib.rs";

/// Every name of the list has `fuzz/fuzz_targets/<name>.rs` and files in `fuzz/corpus/<name>/`, and the reverse.
pub fn complete(tree: &Tree) -> Vec<Violation> {
    let Some(list) = tree.rust.iter().find(|source| source.path == TARGETS) else { return Vec::new() };
    let mut found = Vec::new();
    let mut names = Vec::new();
    for (at, marker) in list.text.match_indices("name: \"") {
        let name = list.text[at + marker.len()..].split('"').next().unwrap_or_default();
        names.push(name);
        let wrapper = format!("fuzz/fuzz_targets/{name}.rs");
        if !tree.paths.contains(&wrapper) {
            let remedy = format!("write {wrapper}, as its neighbours, and name it in fuzz/Cargo.toml");
            found.push(super::at(list, at, format!("target {name} has no wrapper"), &remedy));
        }
        if !tree.text("fuzz/Cargo.toml").is_some_and(|text| text.contains(&format!("name = \"{name}\""))) {
            let what = format!("target {name} is not in fuzz/Cargo.toml");
            found.push(super::at(list, at, what, "add a [[bin]] for it"));
        }
        if !tree.paths.iter().any(|path| path.starts_with(&format!("fuzz/corpus/{name}/"))) {
            let remedy = format!("put small real examples into fuzz/corpus/{name}/");
            found.push(super::at(list, at, format!("target {name} has no corpus"), &remedy));
        }
    }
    for path in &tree.paths {
        let wrapper = path.strip_prefix("fuzz/fuzz_targets/").and_then(|file| file.strip_suffix(".rs"));
        let corpus = path.strip_prefix("fuzz/corpus/").and_then(|file| file.split('/').next());
        if wrapper.or(corpus).is_some_and(|name| !names.contains(&name)) {
            let remedy = format!("list the target in {TARGETS}, or remove the file");
            found.push(whole(path, "belongs to no fuzz target".to_owned(), &remedy));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_in_part_is_found() {
        let list = (TARGETS, "Target { name: \"levels\", run: levels }");
        let wrapper = ("fuzz/fuzz_targets/levels.rs", "");
        let manifest = ("fuzz/Cargo.toml", "[[bin]]\nname = \"levels\"\n");
        let corpus = ("fuzz/corpus/levels/a.md", "");
        assert_eq!(complete(&Tree::with_files(&[list, wrapper, manifest, corpus])), []);
        assert_eq!(complete(&Tree::with_files(&[list, manifest, corpus])).len(), 1);
        assert_eq!(complete(&Tree::with_files(&[list, wrapper, manifest])).len(), 1);
        assert_eq!(complete(&Tree::with_files(&[list, wrapper, corpus])).len(), 1);
        let stray = ("fuzz/fuzz_targets/other.rs", "");
        assert_eq!(complete(&Tree::with_files(&[list, wrapper, manifest, corpus, stray])).len(), 1);
    }
}
