//! Words that do not belong into the repository.

use super::{Violation, at, whole};
use crate::source::is_word;
use crate::tree::Tree;

/// What a reader of the program has no use for: who or what wrote it, and papers that are not in the repository.
const NOT_ABOUT_IT: [&str; 8] = [
    "assistant",
    "chatbot",
    "language model",
    "copilot",
    "co-authored-by",
    "../shared",
    "/work/shared",
    "/work/main",
];
/// This list itself, and the licences' fixed text.
const EXEMPT: [&str; 1] = ["xtask/src/rules/wording.rs"];

/// No note to oneself is left; clippy refuses `todo!` and `unimplemented!`.
pub fn nothing_left_open(tree: &Tree) -> Vec<Violation> {
    let remedy = "do it now, or open an issue and say here what holds today";
    let mut found = Vec::new();
    for source in &tree.rust {
        for note in ["FIXME", "XXX", "TODO", "HACK"] {
            for (offset, _) in source.text.match_indices(note) {
                let before = source.text[..offset].chars().next_back();
                let after = source.text[offset + note.len()..].chars().next();
                let whole = !before.is_some_and(is_word) && !after.is_some_and(is_word);
                // In a literal it is data, such as the pattern of a temporary file's name.
                let comment =
                    source.text[..offset].rsplit('\n').next().is_some_and(|line| line.contains("//"));
                if whole && comment && !EXEMPT.contains(&source.path.as_str()) {
                    found.push(at(source, offset, format!("{note} left open"), remedy));
                }
            }
        }
    }
    found
}

/// Texts speak of the program and nothing else.
pub fn about_the_program(tree: &Tree) -> Vec<Violation> {
    let rust = tree.rust.iter().map(|source| (source.path.as_str(), source.text.as_str()));
    let texts = tree.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let mut found = Vec::new();
    for (path, text) in rust.chain(texts).filter(|(path, _)| !EXEMPT.contains(path)) {
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in NOT_ABOUT_IT {
                if line.contains(word) {
                    let remedy = "say what holds for the program, in words that stand by themselves";
                    found.push(whole(path, format!("says `{word}`"), remedy).at_line(number + 1));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_found() {
        let one = |text| nothing_left_open(&Tree::with_files(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(one("fn f() {} // FIXME: later"), 1);
        assert_eq!(one("/// XXX\nfn f() {}"), 1);
        assert_eq!(one("fn f() { let name = \"fileXXX\"; let other = \"XXX\"; }"), 0);
        assert_eq!(one("// XXXL is a size"), 0);
    }

    #[test]
    fn foreign_words_are_found() {
        let one = |path, text| about_the_program(&Tree::with_files(&[(path, text)])).len();
        assert_eq!(one("docs/a.md", "See ../shared/x.md."), 1);
        assert_eq!(one("crates/x/src/a.rs", "//! Written with a Chatbot."), 1);
        assert_eq!(one("docs/a.md", "A session is resumed; the team of workers is shared."), 0);
    }
}
