//! A Rust source file as the house rules see it: its text, and the same text with comments and literals blanked out.
//!
//! This is a scanner, not a parser: it knows comments, strings, characters and braces, which is enough to distinguish code from
//! strings and comments, and tests from the rest. A real parser would take a minute to compile before every check.

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// The text as it stands.
    pub text: String,
    /// The same length as `text`; comments and the insides of literals are spaces, line ends are kept.
    pub code: String,
    /// Byte ranges of `text` that exist in tests only.
    tests: Vec<std::ops::Range<usize>>,
}

impl Source {
    /// Scans a text.
    pub fn new(path: &str, text: String) -> Source {
        let code = blank(&text);
        let whole_file = path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"))
            || path.ends_with("/tests.rs")
            || path.ends_with("_tests.rs");
        let tests = if whole_file { std::iter::once(0..text.len()).collect() } else { test_ranges(&code) };
        Source { path: path.to_owned(), text, code, tests }
    }

    /// Line number of an offset, from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Whether an offset belongs to code that exists in tests only.
    pub fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Offsets at which `needle` stands in the code as words of its own: neither end continues an identifier.
    pub fn find<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        let open_end = needle.ends_with('_');
        self.code.match_indices(needle).map(|(at, _)| at).filter(move |at| {
            let before = self.code[..*at].chars().next_back();
            let after = self.code[at + needle.len()..].chars().next();
            !before.is_some_and(is_word) && (open_end || !after.is_some_and(is_word))
        })
    }
}

/// Whether a character can continue an identifier.
pub fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Offset of the bracket that closes the one before `start`, or the end of the code.
fn closing(code: &str, start: usize, open: char, close: char) -> usize {
    let mut depth = 1;
    for (at, c) in code[start..].char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return start + at;
            }
        }
    }
    code.len()
}

/// Ranges of the items that follow `#[cfg(test)]` and `#[test]`.
fn test_ranges(code: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    for marker in ["#[cfg(test)]", "#[cfg(all(test", "#[test]"] {
        for (start, _) in code.match_indices(marker) {
            let body = code[start..].find(['{', ';']).map_or(code.len(), |at| start + at);
            let end = match code.as_bytes().get(body) {
                Some(b'{') => closing(code, body + 1, '{', '}'),
                _ => body,
            };
            ranges.push(start..end);
        }
    }
    ranges
}

/// Blanks comments and the insides of literals.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let Some(hidden) = literal(bytes, at) else {
            // An identifier is skipped whole, so that the `r` of `for"` never starts a raw string.
            let word = bytes[at..].iter().take_while(|b| is_word(**b as char) || **b >= 0x80).count();
            at += word.max(1);
            continue;
        };
        for byte in &mut out[hidden.from..hidden.to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = hidden.resume;
    }
    String::from_utf8(out).expect("whole characters are replaced by spaces")
}

/// What to blank, and where to go on.
struct Hidden {
    from: usize,
    to: usize,
    resume: usize,
}

/// The comment or literal that starts at `at`.
fn literal(bytes: &[u8], at: usize) -> Option<Hidden> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let end = at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        return Some(Hidden { from: at, to: end, resume: end });
    }
    if rest.starts_with(b"/*") {
        let end = block_comment_end(bytes, at);
        return Some(Hidden { from: at, to: end, resume: end });
    }
    // "", b"", c"", r"", br"", r#""#
    let prefix = rest.iter().take_while(|b| matches!(b, b'b' | b'c' | b'r')).count();
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let from = at + prefix + hashes + 1;
    if prefix <= 2 && bytes.get(from - 1) == Some(&b'"') {
        if rest[..prefix].contains(&b'r') {
            let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
            let inside = &bytes[from..];
            let to = from + inside.windows(close.len()).position(|w| w == close).unwrap_or(inside.len());
            return Some(Hidden { from, to, resume: (to + close.len()).min(bytes.len()) });
        }
        if hashes == 0 {
            let to = escaped_end(bytes, from, b'"');
            return Some(Hidden { from, to, resume: to + 1 });
        }
    }
    if rest[0] == b'\'' {
        // A lifetime has no closing quote after its first character.
        let length = match *rest.get(1)? {
            b'\\' => None,
            first => Some(first.leading_ones().max(1) as usize),
        };
        if length.is_none_or(|length| rest.get(1 + length) == Some(&b'\'')) {
            let to = escaped_end(bytes, at + 1, b'\'');
            return Some(Hidden { from: at + 1, to, resume: to + 1 });
        }
    }
    None
}

fn escaped_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("crates/x/src/lib.rs", text.to_owned()).code
    }

    #[test]
    fn comments_and_literals_are_blanked_and_offsets_kept() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* /* b */ */ c", "a               c"),
            (r#"f("x // y", z)"#, r#"f("      ", z)"#),
            (r#"f("\"", z)"#, r#"f("  ", z)"#),
            (r##"f(r#"a"b"#, z)"##, r##"f(r#"   "#, z)"##),
            (r#"f(b"ab", z)"#, r#"f(b"  ", z)"#),
            ("f('\"', z)", "f(' ', z)"),
            ("f('\\'', z)", "f('  ', z)"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'a: loop { 'b' }", "'a: loop { ' ' }"),
            ("f(\"é\")//", "f(\"  \")  "),
            ("\"open", "\"    "),
            ("f(\"//\") // \"x\"\ng", "f(\"  \")       \ng"),
        ] {
            assert_eq!(code(text), expected, "{text}");
            assert_eq!(code(text).len(), text.len());
        }
    }

    #[test]
    fn words_are_found_whole() {
        let source =
            Source::new("a.rs", "unsafe { not_unsafe(); unsafely } // unsafe\n\"unsafe\"".to_owned());
        assert_eq!(source.find("unsafe").collect::<Vec<_>>(), [0]);
        let source = Source::new("a.rs", "fn get_x() {} fn forget_x() {}".to_owned());
        assert_eq!(source.find("get_").collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn test_code_is_recognised() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { } }\nfn c() {}";
        let source = Source::new("crates/x/src/lib.rs", text.to_owned());
        let at = |needle: &str| text.find(needle).unwrap();
        assert!(!source.is_test(at("fn a")) && source.is_test(at("fn b")) && !source.is_test(at("fn c")));
        assert!(Source::new("crates/x/tests/truth.rs", text.to_owned()).is_test(0));
    }
}
