//! Makes text from others safe to show: records come from strangers, answers and logs from servers under test, names
//! of files from archives. Printed unchanged, an escape sequence could repaint the terminal, a line break could begin
//! a line that looks like a verdict, and a right-to-left character could reverse what follows.
//!
//! [`Shown`] puts such text on one line. [`lines`] is for finished output that leaves the program: its line breaks
//! stay, because they are ours. [`json`] is for JSON, whose strings have their own escapes. Each format must escape
//! what has a meaning in it, such as in Markdown, HTML or a table.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Text from others, on one line and harmless: each run of white space becomes a space, and characters that are
/// invisible or control a terminal become their number, as in `\u{1b}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shown(self.0))
    }
}

/// [`Shown`] as a string; borrowed if nothing changes.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => safe.push(' '),
            c if is_hidden(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// A text of several lines without anything that controls a terminal. Line breaks and tabs stay. `is_ours` is called
/// for every escape character and what follows it, and returns the length in bytes of the program's own styling
/// there.
pub fn lines(text: &str, is_ours: impl Fn(&str) -> usize) -> Cow<'_, str> {
    if !text.chars().any(|c| commands(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut ours_until = 0;
    for (at, c) in text.char_indices() {
        if c == '\u{1b}' && at >= ours_until {
            ours_until = at + is_ours(&text[at..]);
        }
        match c {
            '\n' | '\t' => safe.push(c),
            // The line end of RFC 4180.
            '\r' if text[at + 1..].starts_with('\n') => safe.push(c),
            c if at >= ours_until && commands(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Indents all lines of a message but the first: text from others must not begin a line, where scripts and readers
/// look for our words. A line with a remedy (`hint: `) is not indented.
pub fn indented(text: &str) -> Cow<'_, str> {
    let stays = |line: &str| line.is_empty() || line.starts_with([' ', '\t']) || line.starts_with("hint: ");
    let first = text.len() - text.trim_start_matches('\n').len();
    let (before, rest) = text.split_at(first);
    if rest.split('\n').skip(1).all(stays) {
        return Cow::Borrowed(text);
    }
    let mut safe = before.to_owned();
    for (index, line) in rest.split('\n').enumerate() {
        if index > 0 {
            safe.push('\n');
            safe.push_str(if stays(line) { "" } else { "  " });
        }
        safe.push_str(line);
    }
    Cow::Owned(safe)
}

/// JSON in which strings contain no such character unescaped; JSON itself requires that only below U+0020. The value
/// does not change.
pub fn json(text: &str) -> Cow<'_, str> {
    let raw = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r');
    if !text.chars().any(raw) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if raw(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(safe, "\\u{unit:04x}");
                }
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Whether a character is invisible: those that [control](commands) a terminal, and those without width.
pub fn is_hidden(c: char) -> bool {
    commands(c)
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character can control a terminal, begin a line or change the direction of others: the control characters
/// of C0 and C1, the separators of lines and paragraphs, and those of the bidirectional algorithm (Unicode Standard
/// Annex 9, 2).
pub fn commands(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}')
}

/// A piece of input as in messages: in quotes, control characters escaped, cut after 60 characters.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", printable(&text[..end])),
        None => format!("`{}`", printable(text)),
    }
}

/// A text with its control characters escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_a_terminal_or_begins_a_line() {
        let hostile = "a\u{1b}[2J\r\nVERIFIED\u{7}\u{9b}1m\u{202e}b\u{200b}\u{2028}c\u{e0041}\u{7f}";
        let safe = shown(hostile);
        assert_eq!(
            safe,
            "a\\u{1b}[2J  VERIFIED\\u{7}\\u{9b}1m\\u{202e}b\\u{200b}\\u{2028}c\\u{e0041}\\u{7f}"
        );
        assert!(!safe.chars().any(is_hidden));
        assert_eq!(shown(&safe), safe, "twice is as once");
        assert!(matches!(shown("größe 漢字 – ✗"), Cow::Borrowed(_)));
        assert_eq!(format!("{:>4}|{:<3}|", Shown("a"), Shown("b")), "   a|b  |");
    }

    #[test]
    fn finished_output_keeps_its_lines_and_its_style() {
        let ours = |text: &str| if text.starts_with("\u{1b}[1m") { 4 } else { 0 };
        assert_eq!(lines("a\n\tb\r\nc", |_| 0), "a\n\tb\r\nc");
        assert_eq!(lines("\u{1b}[1ma\u{1b}[2J\rb", ours), "\u{1b}[1ma\\u{1b}[2J\\u{d}b");
        assert_eq!(lines("\u{1b}[1ma", |_| 0), "\\u{1b}[1ma");
        assert_eq!(indented("error: a\nVERIFIED\n  b\nhint: c"), "error: a\n  VERIFIED\n  b\nhint: c");
        assert_eq!(indented("\ninterrupted\nx"), "\ninterrupted\n  x");
    }

    #[test]
    fn json_keeps_its_value() {
        let hostile = "\u{7f}\u{85}\u{202e}\u{e0041}\n";
        let safe = json(&serde_json::to_string(hostile).unwrap()).into_owned();
        assert_eq!(safe, r#""\u007f\u0085\u202e\udb40\udc41\n""#);
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
    }

    #[test]
    fn long_and_strange_input_is_shown_safely() {
        assert_eq!(quoted("a\tb\u{1b}"), "`a\\tb\\u{1b}`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
    }
}
