//! Plain English, in what users read and in comments and names. `docs/style.md` says why, and has the phrases and what to say instead.

use super::{Violation, at, whole};
use crate::source::{Source, is_word};
use crate::tree::Tree;

/// `behind` is a place in a network, or of something slow, where one of these words is near.
const PLACES: [&str; 10] =
    ["left", "lag", "prox", "origin", "server", "balancer", "firewall", "socket", "interface", "handler"];
/// How many bytes away such a word may be.
const NEAR: usize = 60;
/// The page that lists the phrases, and its headings: above phrases that are banned everywhere, and in comments and names.
const STYLE: &str = "docs/style.md";
const EVERYWHERE: &str = "## Phrases";
const IN_COMMENTS: &str = "## Phrases in comments and names";

/// No banned phrase in documents, help, messages, comments and names.
pub fn plain(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let (banned, in_comments) = (listed(tree, EVERYWHERE), listed(tree, IN_COMMENTS));
    // The tests of this rule say what it bans.
    for source in tree.rust.iter().filter(|source| source.path != "xtask/src/rules/english.rs") {
        let lower = source.text.to_ascii_lowercase();
        for (phrase, instead, offset) in phrases(&lower, &banned) {
            let is_of_tests = source.is_test(offset) || source.path.starts_with("xtask/");
            if is_comment(source, offset) || !is_of_tests {
                found.push(at(source, offset, format!("says `{phrase}`"), &remedy(instead)));
            }
        }
        for (phrase, instead, offset) in phrases(&lower, &in_comments) {
            let is_simple = phrase.ends_with(" none") && lower[..offset].ends_with("there ");
            if is_comment(source, offset) && !is_simple && !is_place(&lower, phrase, offset) {
                found.push(at(source, offset, format!("says `{phrase}`"), &remedy(instead)));
            }
        }
        for offset in source.find("fn") {
            let name = source.code[offset + "fn ".len()..].split(|c| !is_word(c)).next().unwrap_or_default();
            let words = name.replace('_', " ");
            for (phrase, instead, _) in phrases(&words, &banned).chain(phrases(&words, &in_comments)) {
                if words != phrase && !is_place(&words, phrase, 0) {
                    found.push(at(source, offset, format!("is named {name}"), &remedy(instead)));
                }
            }
        }
    }
    for (path, text) in &tree.texts {
        if path.ends_with(".md") && path != STYLE {
            for (phrase, instead, offset) in phrases(&text.to_ascii_lowercase(), &banned) {
                let line = text[..offset].matches('\n').count() + 1;
                found.push(whole(path, format!("says `{phrase}`"), &remedy(instead)).at_line(line));
            }
        }
    }
    found
}

/// Rows of a table of [`STYLE`]: a phrase, and what to say instead.
fn listed<'a>(tree: &'a Tree, heading: &str) -> Vec<(&'a str, &'a str)> {
    let lines = tree.text(STYLE).unwrap_or_default().lines().skip_while(|line| *line != heading).skip(1);
    let rows = lines
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.skip(1).collect()
}

fn remedy(instead: &str) -> String {
    format!("say: {instead}; docs/style.md")
}

/// Whether a comment stands there: from its `//` to the end of the line, everything is blanked.
fn is_comment(source: &Source, offset: usize) -> bool {
    let begin = source.text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = source.text[offset..].find('\n').map_or(source.text.len(), |length| offset + length);
    let slashes = source.text[begin..offset].match_indices("//");
    slashes.into_iter().any(|(at, _)| source.code[begin + at..end].trim().is_empty())
}

fn is_place(lower: &str, phrase: &str, offset: usize) -> bool {
    let near = &lower.as_bytes()[offset.saturating_sub(NEAR)..lower.len().min(offset + NEAR)];
    let near = String::from_utf8_lossy(near);
    phrase == "behind" && PLACES.iter().any(|word| near.contains(word))
}

/// Where phrases stand in a text of small letters, even if their lines are broken: in a literal, a comment or a paragraph.
fn phrases<'a>(
    lower: &'a str,
    list: &'a [(&'a str, &'a str)],
) -> impl Iterator<Item = (&'a str, &'a str, usize)> {
    let is_phrase = |start: usize, phrase: &str| {
        let mut rest = &lower[start..];
        for (place, word) in phrase.split(' ').enumerate() {
            let gap = rest.trim_start_matches([' ', '\n', '\\', '/', '!']);
            if place > 0 && gap.len() == rest.len() {
                return false;
            }
            let Some(after) = gap.strip_prefix(word) else { return false };
            rest = after;
        }
        true
    };
    list.iter().flat_map(move |(phrase, instead)| {
        let first = phrase.split(' ').next().unwrap_or(phrase);
        let starts = lower.match_indices(first).map(|(start, _)| start);
        starts.filter(move |start| is_phrase(*start, phrase)).map(move |start| (*phrase, *instead, start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> usize {
        let style = "## Phrases\n| not | but |\n|---|---|\n| whosever | all |\n| held against | compared with |\n\n\
                     ## Phrases in comments and names\n| not | but |\n|---|---|\n| so many | this many |\n\
                     | is none | is not one |\n| are none | are not |\n| what lacks | what is missing |\n| behind | after |\n";
        plain(&Tree::with_files(&[(path, text), (STYLE, style)])).len()
    }

    #[test]
    fn banned_phrases_are_found_where_users_read_them() {
        assert_eq!(one("crates/x/src/a.rs", "fn f() { say(\"Whosever packets\"); }"), 1);
        assert_eq!(
            one("crates/x/src/a.rs", "fn f() { say(\"is held \\\n     against\"); }"),
            1,
            "over two lines"
        );
        assert_eq!(one("crates/cli/src/args/a.rs", "/// Rules held against a run\nstruct A;"), 1, "help");
        assert_eq!(one("docs/a.md", "It is held\nagainst it."), 1);
        assert_eq!(one("docs/a.md", "It is checked against it."), 0);
    }

    #[test]
    fn comments_and_names_are_searched_for_more() {
        assert_eq!(one("crates/x/src/a.rs", "// Held against a list.\nfn f() {}"), 1);
        assert_eq!(one("crates/x/src/a.rs", "//! As many as are\n//! none.\nfn f() {} // so many"), 2);
        assert_eq!(one("crates/x/src/a.rs", "// Empty if there is none.\nfn f() {}"), 0);
        assert_eq!(one("crates/x/src/a.rs", "// The text behind a name.\nfn f() {}"), 1);
        assert_eq!(
            one("crates/x/src/a.rs", "// The origin behind it, and the file it left behind.\nfn f() {}"),
            0
        );
        assert_eq!(one("crates/x/src/a.rs", "fn what_lacks_is_named() {} fn is_none() {}"), 1);
        assert_eq!(one("crates/x/src/a.rs", "fn f() { if x.is_none() { say(\"so many // things\") } }"), 0);
    }
}
