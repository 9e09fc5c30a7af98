//! How long a file may be.

use super::{Violation, whole};
use crate::tree::Tree;

/// A file longer than this holds more than one thing.
const LINES_MAX: usize = 600;
/// The overview of the crates, which is a page.
const PAGE: &str = "ARCHITECTURE.md";
const PAGE_BYTES_MAX: usize = 8_000;

/// No Rust file exceeds [`LINES_MAX`], and the overview is a page.
pub fn limit(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            let what = format!("has {lines} lines, at most {LINES_MAX}");
            found.push(whole(&source.path, what, "split it by what it holds"));
        }
    }
    let bytes = tree.text(PAGE).map_or(0, str::len);
    if bytes > PAGE_BYTES_MAX {
        let what = format!("has {bytes} bytes, at most {PAGE_BYTES_MAX}");
        let remedy = "decisions belong in docs/decisions, places of changes in the README.md of their crate";
        found.push(whole(PAGE, what, remedy));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let one = |path: &str, text: &str| limit(&Tree::with_files(&[(path, text)])).len();
        assert_eq!(one("crates/x/src/a.rs", &"\n".repeat(600)), 0);
        assert_eq!(one("crates/x/src/a.rs", &"\n".repeat(601)), 1);
        assert_eq!(one("ARCHITECTURE.md", &" ".repeat(8_001)), 1);
    }
}
