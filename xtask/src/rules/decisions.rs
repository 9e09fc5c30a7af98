//! The list of decisions keeps in step with their files.

use super::{Violation, whole};
use crate::tree::Tree;

const FOLDER: &str = "docs/decisions/";
const LIST: &str = "docs/decisions/README.md";

/// The list has each decision once, in order of their numbers, by the title of its file.
pub fn listed_in_order(tree: &Tree) -> Vec<Violation> {
    let files = tree.texts.iter().filter(|(path, _)| path.starts_with(FOLDER) && path != LIST);
    let mut wanted: Vec<(&str, String)> = files
        .map(|(path, text)| {
            let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
            (path.as_str(), format!("- [{title}]({})", &path[FOLDER.len()..]))
        })
        .collect();
    wanted.sort();
    let lines = || tree.text(LIST).unwrap_or_default().lines().filter(|line| line.starts_with("- ["));
    let missing = wanted.iter().filter(|(_, line)| lines().filter(|listed| listed == line).count() != 1);
    let mut found: Vec<Violation> = missing
        .map(|(path, line)| {
            whole(
                path,
                format!("is not listed once in {LIST} by its title"),
                &format!("write `{line}` there"),
            )
        })
        .collect();
    if found.is_empty() && lines().ne(wanted.iter().map(|(_, line)| line)) {
        found.push(whole(LIST, "is not in order of the numbers".to_owned(), "sort its lines by their files"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_that_is_missing_misnamed_or_out_of_order_is_found() {
        let with = |list| {
            let files = [
                ("docs/decisions/0001-a.md", "# A\n\ntext"),
                ("docs/decisions/0002-b.md", "# B\n"),
                (LIST, list),
            ];
            listed_in_order(&Tree::with_files(&files))
                .into_iter()
                .map(|violation| violation.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(with("# Decisions\n\n- [A](0001-a.md)\n- [B](0002-b.md)\n"), [""; 0]);
        assert_eq!(with("- [A](0001-a.md)\n"), ["docs/decisions/0002-b.md"]);
        assert_eq!(with("- [A](0001-a.md)\n- [C](0002-b.md)\n"), ["docs/decisions/0002-b.md"]);
        assert_eq!(
            with("- [A](0001-a.md)\n- [B](0002-b.md)\n- [B](0002-b.md)\n"),
            ["docs/decisions/0002-b.md"]
        );
        assert_eq!(with("- [B](0002-b.md)\n- [A](0001-a.md)\n"), [LIST]);
    }
}
