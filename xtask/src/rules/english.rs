//! Plain English in what users read: help, messages, reports, documents. `docs/style.md` says why and gives the words; here is
//! the list of phrases that do not come back.

use super::{Violation, at};
use crate::source::Source;
use crate::tree::Tree;

/// A phrase, and what to say.
const BANNED: [(&str, &str); 60] = [
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
/// The page that lists them.
const EXEMPT: [&str; 2] = ["docs/style.md", "CHANGELOG.md"];

/// No banned phrase in documents, help or messages: in comments it is bad style, which no reader of reports meets.
pub fn plain(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.rust.iter().filter(|source| !source.path.contains("/tests/")) {
        for (phrase, instead) in BANNED {
            for offset in occurrences(&source.text, phrase) {
                if is_read(source, offset) {
                    found.push(at(
                        source,
                        offset,
                        format!("says `{phrase}`"),
                        &format!("say: {instead}; docs/style.md"),
                    ));
                }
            }
        }
    }
    let is_document = |path: &str| path.ends_with(".md") && !EXEMPT.contains(&path);
    for (path, text) in tree.texts.iter().filter(|(path, _)| is_document(path)) {
        for (phrase, instead) in BANNED {
            for offset in occurrences(text, phrase) {
                found.push(Violation {
                    path: path.clone(),
                    line: text[..offset].matches('\n').count() + 1,
                    what: format!("says `{phrase}`"),
                    remedy: format!("say: {instead}; docs/style.md"),
                });
            }
        }
    }
    found
}

/// Whether users read what stands there: a literal, or the help of a command or option. Tests, and this list, are for others.
fn is_read(source: &Source, offset: usize) -> bool {
    if source.path.starts_with("xtask/") || source.is_test(offset) {
        return false;
    }
    let line = source.text[..offset].rsplit('\n').next().unwrap_or_default().trim_start();
    let is_help = source.path.starts_with("crates/cli/src/args/") && line.starts_with("///");
    is_help || !line.starts_with("//")
}

/// Where a phrase stands, in any case, wherever its line is broken: in a literal, a comment or a paragraph.
fn occurrences(text: &str, phrase: &str) -> Vec<usize> {
    let (text, words): (String, Vec<&str>) = (text.to_ascii_lowercase(), phrase.split(' ').collect());
    let is_phrase = |start: usize| {
        let mut rest = &text[start..];
        for (place, word) in words.iter().enumerate() {
            if place > 0 {
                let gap = rest.trim_start_matches([' ', '\n', '\\', '/']);
                if gap.len() == rest.len() {
                    return false;
                }
                rest = gap;
            }
            let Some(behind) = rest.strip_prefix(word) else { return false };
            rest = behind;
        }
        true
    };
    text.match_indices(words[0]).map(|(start, _)| start).filter(|start| is_phrase(*start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_phrases_are_found_where_users_read_them() {
        let one = |path, text| plain(&Tree::of(&[(path, text)])).len();
        assert_eq!(one("crates/x/src/a.rs", "fn f() { say(\"Whosever packets\"); }"), 1);
        assert_eq!(
            one("crates/x/src/a.rs", "fn f() { say(\"is held \\\n     against\"); }"),
            1,
            "over two lines"
        );
        assert_eq!(one("crates/x/src/a.rs", "// Held against a list.\nfn f() {}"), 0, "a comment");
        assert_eq!(one("crates/cli/src/args/a.rs", "/// Rules held against a run\nstruct A;"), 1, "help");
        assert_eq!(one("docs/a.md", "It is held\nagainst it."), 1);
        assert_eq!(one("docs/style.md", "Not: held against."), 0);
        assert_eq!(one("docs/a.md", "It is checked against it."), 0);
    }
}
