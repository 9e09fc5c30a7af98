//! Links between documents.

use super::Violation;
use crate::tree::Tree;

/// Every relative link of a Markdown file names a file or folder of the repository.
pub fn resolve(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in text.lines().enumerate() {
            for target in links(line) {
                if target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
                    continue;
                }
                let file = joined(folder, target.split('#').next().unwrap_or_default());
                let exists = tree.paths.iter().any(|p| *p == file || p.starts_with(&format!("{file}/")));
                if !exists {
                    found.push(Violation {
                        path: path.clone(),
                        line: number + 1,
                        what: format!("links to {target}, which does not exist"),
                        remedy: "mend the link, or write the file".to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split([')', ' ']).next())
}

/// A path joined to a folder, with `.` and `..` resolved.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.trim_end_matches('/').split('/') {
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
    fn a_dead_link_is_found() {
        let one = |text| {
            resolve(&Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("crates/x/src/a.rs", "")])).len()
        };
        assert_eq!(
            one("[b](b.md) [b](./b.md#part) [x](../crates/x) [w](https://example.org/x) [h](#here)"),
            0
        );
        assert_eq!(one("[c](c.md)"), 1);
        assert_eq!(one("[b](../b.md) and [y](../crates/y/)"), 2);
    }
}
