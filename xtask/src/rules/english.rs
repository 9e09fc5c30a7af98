//! Plain English, in what users read and in comments and names. `docs/style.md` says why and gives the words; here is the list of
//! phrases that do not come back.

use super::{Violation, at, whole};
use crate::source::{Source, is_word};
use crate::tree::Tree;

/// A phrase, and what to say instead.
const BANNED: &[(&str, &str)] = &[
    ("segments sent again", "retransmissions"),
    ("syns sent again", "retransmitted SYNs"),
    ("whosever", "all traffic on this interface"),
    ("looking cost", "monitoring overhead"),
    ("looking costs", "monitoring overhead"),
    ("of cpu time a look", "monitoring overhead: N µs per sample"),
    ("what limits", "bottleneck"),
    ("on the figures show its limit", "at 90 % or more, results reflect the generator"),
    ("argument too many", "unexpected argument"),
    ("clients again", "10 clients, iteration 2"),
    ("hold one run against", "compare two runs"),
    ("held against", "compared with, or checked against"),
    ("hold the run rules against", "check against the run rules"),
    ("holds stored runs against", "compares stored runs with"),
    ("gone on with", "resumed"),
    ("goes on with the others", "continues"),
    ("which of them is told from its content", "the format is detected"),
    ("cannot be told from none", "cannot be detected"),
    ("not to be told from", "unknown from"),
    ("quiet the machine", "stop other programs, or use a dedicated machine"),
    ("quiet this machine", "stop other programs, or use a dedicated machine"),
    ("on a quiet machine", "with no other program running, or on a dedicated machine"),
    ("is said beforehand", "says first how long it takes"),
    ("whatever the answers do", "however slow the server is"),
    ("nothing of it is counted", "not counted"),
    ("that somebody hands you", "from somebody else"),
    ("file descriptors, and", "open files, and"),
    ("lets go of descriptors", "closes its files"),
    ("as far as they can be told apart", "as far as their intervals differ"),
    ("told apart", "differ, or are distinguished"),
    ("be told from", "distinguished from"),
    ("cannot be told at", "cannot tell at, or is unknown"),
    ("cannot be told:", "is unknown:"),
    ("is none of the", "is not one of the"),
    ("names no server", "is not a server"),
    ("names no rates", "is not a list of rates"),
    ("most of all", "mostly"),
    ("kept off", "waited for its CPU"),
    ("one behind the other", "one after the other"),
    ("behind the number", "after the number"),
    ("all the same,", "anyway"),
    ("computed anew", "recomputed"),
    ("written anew", "written again, or overwritten"),
    ("no room at", "not shown at"),
    ("looked at for", "monitored for"),
    ("of its own accord", "by itself"),
    ("held up by", "throttled by, or delayed by"),
    ("makes no sense", "is invalid, or broke the protocol"),
    ("in the clear", "without TLS"),
    ("is no number", "is not a number"),
    ("is no directory", "is not a directory"),
    ("is no length", "is not a length"),
    ("looks no", "does not look up"),
    ("be had", "is available, or is possible"),
    ("does not tell", "does not report"),
    ("did not tell", "did not report"),
    ("dearer", "costs more"),
    ("the best first", "in order of preference"),
    ("not read here", "is not supported"),
    ("arrivals a second", "arrivals per second"),
];
/// The same, for comments and for names of functions.
const IN_COMMENTS: &[(&str, &str)] = &[
    ("so many", "this many, or the number"),
    ("whoever", "who, or the one that"),
    ("is none", "is not one"),
    ("are none", "are not"),
    ("what lacks", "what is missing"),
    ("lacks nothing", "is complete"),
    ("mended", "fixed"),
    ("behind", "after"),
];
/// `behind` is a place in a network, or of something slow, where one of these words is near.
const PLACES: [&str; 10] =
    ["left", "lag", "prox", "origin", "server", "balancer", "firewall", "socket", "interface", "handler"];
/// How many bytes away such a word may be.
const NEAR: usize = 60;
/// The page that lists the phrases.
const EXEMPT: [&str; 1] = ["docs/style.md"];
/// Crates whose comments and names are not plain yet.
const UNREAD: &[&str] = &[
    "crates/cli/",
    "crates/engine/",
    "crates/judge/",
    "crates/measure/",
    "crates/model/",
    "crates/report/",
    "crates/runner/",
    "crates/ui/",
    "crates/workload/",
];

/// No banned phrase in documents, help and messages, nor in comments and names outside [`UNREAD`].
pub fn plain(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    // The list itself says what it bans.
    for source in tree.rust.iter().filter(|source| source.path != "xtask/src/rules/english.rs") {
        let lower = source.text.to_ascii_lowercase();
        let is_checked = !UNREAD.iter().any(|folder| source.path.starts_with(folder));
        for (phrase, instead, offset) in phrases(&lower, BANNED) {
            let is_checked = match is_comment(source, offset) {
                true => is_checked || is_help(source, offset),
                false => !source.is_test(offset) && !source.path.starts_with("xtask/"),
            };
            if is_checked {
                found.push(at(source, offset, format!("says `{phrase}`"), &remedy(instead)));
            }
        }
        if !is_checked {
            continue;
        }
        for (phrase, instead, offset) in phrases(&lower, IN_COMMENTS) {
            let is_simple = phrase.ends_with(" none") && lower[..offset].ends_with("there ");
            if is_comment(source, offset) && !is_simple && !is_place(&lower, phrase, offset) {
                found.push(at(source, offset, format!("says `{phrase}`"), &remedy(instead)));
            }
        }
        for offset in source.find("fn") {
            let name = source.code[offset + "fn ".len()..].split(|c| !is_word(c)).next().unwrap_or_default();
            let words = name.replace('_', " ");
            for (phrase, instead, _) in phrases(&words, BANNED).chain(phrases(&words, IN_COMMENTS)) {
                if words != phrase && !is_place(&words, phrase, 0) {
                    found.push(at(source, offset, format!("is named {name}"), &remedy(instead)));
                }
            }
        }
    }
    for (path, text) in &tree.texts {
        if path.ends_with(".md") && !EXEMPT.contains(&path.as_str()) {
            for (phrase, instead, offset) in phrases(&text.to_ascii_lowercase(), BANNED) {
                let line = text[..offset].matches('\n').count() + 1;
                found.push(whole(path, format!("says `{phrase}`"), &remedy(instead)).at_line(line));
            }
        }
    }
    found
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

/// Whether a comment is the help of a command or option, which users read.
fn is_help(source: &Source, offset: usize) -> bool {
    let line = source.text[..offset].rsplit('\n').next().unwrap_or_default();
    source.path.starts_with("crates/cli/src/args/") && line.trim_start().starts_with("///")
}

fn is_place(lower: &str, phrase: &str, offset: usize) -> bool {
    let near = &lower.as_bytes()[offset.saturating_sub(NEAR)..lower.len().min(offset + NEAR)];
    let near = String::from_utf8_lossy(near);
    phrase == "behind" && PLACES.iter().any(|word| near.contains(word))
}

/// Where phrases stand in a text of small letters, even if their lines are broken: in a literal, a comment or a paragraph.
fn phrases<'a>(
    lower: &'a str,
    list: &'static [(&str, &str)],
) -> impl Iterator<Item = (&'static str, &'static str, usize)> + 'a {
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
        plain(&Tree::of(&[(path, text)])).len()
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
        assert_eq!(one("docs/style.md", "Not: held against."), 0);
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
