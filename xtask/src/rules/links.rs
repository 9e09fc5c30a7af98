//! Links and paths in documents.

use super::{Violation, whole};
use crate::tree::{NOT_OURS, Tree};

/// First parts of paths that documents name in backticks.
const FOLDERS: [&str; 9] =
    ["crates", "docs", "xtask", "benchsuite", "fuzz", "examples", "src", ".ci", ".config"];

/// Every relative link of a Markdown file, and every path that it names in backticks, is a file or folder of the repository: from
/// the document, from the root, or, for a Rust file without its folder, anywhere.
pub fn resolve(tree: &Tree) -> Vec<Violation> {
    let exists = |file: &str| {
        let below = format!("{file}/");
        tree.paths.iter().any(|path| path == file || path.starts_with(&below))
    };
    let mut found = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            let linked = links(line).filter(|target| !exists(&joined(folder, target)));
            let named = paths(line).filter(|name| {
                let ending = format!("/{name}");
                let is_somewhere =
                    !name.contains('/') && tree.paths.iter().any(|path| path.ends_with(&ending));
                !in_code && !is_somewhere && !exists(&joined(folder, name)) && !exists(&joined("", name))
            });
            for target in linked.chain(named) {
                let remedy = "fix the path, or write the file";
                found.push(
                    whole(path, format!("names {target}, which does not exist"), remedy).at_line(number + 1),
                );
            }
        }
    }
    found
}

/// Relative targets of `[text](target)` in a line, without the part of the document that they name.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split([')', ' ', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
}

/// Paths of this repository among the parts of a line in backticks.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|name| {
        let is_path = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let is_made = name.split('/').any(|part| NOT_OURS.contains(&part));
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        is_path
            && !is_made
            && (name.len() > ".rs".len() && name.ends_with(".rs")
                || !rest.is_empty() && FOLDERS.contains(&first))
    })
}

/// A path joined to a folder, with `.` and `..` resolved.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_paths_are_found() {
        let one = |text| {
            let files = [
                ("docs/b.md", ""),
                ("crates/x/src/a.rs", ""),
                ("crates/x/README.md", text),
                ("docs/a.md", text),
            ];
            resolve(&Tree::with_files(&files))
                .iter()
                .filter(|violation| violation.path == "docs/a.md")
                .count()
        };
        assert_eq!(
            one("[b](b.md) [b](./b.md#part) [x](../crates/x) [w](https://example.org/x) [h](#here)"),
            0
        );
        assert_eq!(one("[c](c.md)"), 1);
        assert_eq!(one("[b](../b.md) and [y](../crates/y/)"), 2);
        assert_eq!(
            one(
                "`crates/x/src/a.rs`, `crates/x/src/`, `a.rs`, `docs/b.md`, `.rs`, `/etc/x`, `crates/*`, `wrk -c 1`"
            ),
            0
        );
        assert_eq!(one("```\n`crates/y`\n```"), 0);
        assert_eq!(one("`crates/x/src/b.rs`, `b.rs` and `src/a.rs`"), 3);
    }
}
