//! The last look at a report before it leaves: whatever a format forgot to make harmless is made so here. Formats escape what
//! their syntax needs escaped, and put what records bring along on one line; this is the net below them.

use webstone_measure::shown::{self, lines};

use super::text::style_length;

/// A text for a terminal or a file. Where it may be coloured, the program's own colours stay.
pub(crate) fn text(text: String, color: bool) -> Vec<u8> {
    lines(&text, |rest| if color { style_length(rest) } else { 0 }).into_owned().into_bytes()
}

/// JSON: its strings escape such characters.
pub(crate) fn json(text: &str) -> String {
    shown::json(text).into_owned()
}
