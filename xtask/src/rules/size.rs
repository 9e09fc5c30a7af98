//! How long a file may be.

use super::Violation;
use crate::tree::Tree;

/// A file longer than this holds more than one thing.
const LINES_MAX: usize = 600;
/// Files that were longer when the rule began, with the most lines each may still have. An entry is only ever lowered
/// or removed; the rule demands it as soon as the file is shorter.
const RATCHET: &[(&str, usize)] = &[];

/// No file exceeds [`LINES_MAX`], or its entry of [`RATCHET`].
pub fn limit(tree: &Tree) -> Vec<Violation> {
    limit_with(tree, RATCHET)
}

fn limit_with(tree: &Tree, ratchet: &[(&str, usize)]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |path: &str, what: String, remedy: &str| {
        found.push(Violation { path: path.to_owned(), line: 0, what, remedy: remedy.to_owned() });
    };
    for source in &tree.rust {
        let lines = source.text.lines().count();
        let most = ratchet.iter().find(|(path, _)| *path == source.path).map_or(LINES_MAX, |(_, most)| *most);
        if lines > most {
            report(&source.path, format!("has {lines} lines, at most {most}"), "split it by what it holds");
        }
    }
    for (path, most) in ratchet {
        let lines = tree.rust.iter().find(|s| s.path == *path).map(|s| s.text.lines().count());
        match lines {
            Some(lines) if lines > LINES_MAX && lines == *most => {}
            Some(lines) if lines > *most => {}
            Some(lines) if lines > LINES_MAX => {
                let what = format!("has {lines} lines and an entry of {most}");
                report(path, what, "lower its entry in xtask/src/rules/size.rs");
            }
            _ => report(path, "needs no entry any more".to_owned(), "remove it from xtask/src/rules/size.rs"),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> Tree {
        Tree::of(&[("crates/x/src/a.rs", &"\n".repeat(lines))])
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(limit_with(&file(600), &[]), []);
        assert_eq!(limit_with(&file(601), &[]).len(), 1);
    }

    #[test]
    fn the_ratchet_only_shrinks() {
        let ratchet = [("crates/x/src/a.rs", 700)];
        assert_eq!(limit_with(&file(700), &ratchet), []);
        assert_eq!(limit_with(&file(701), &ratchet)[0].what, "has 701 lines, at most 700");
        assert!(limit_with(&file(650), &ratchet)[0].remedy.starts_with("lower"));
        assert!(limit_with(&file(500), &ratchet)[0].remedy.starts_with("remove"));
        assert!(limit_with(&Tree::default(), &ratchet)[0].remedy.starts_with("remove"));
    }
}
