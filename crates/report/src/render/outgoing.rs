//! The last check of a report before it is written. Formats escape what their syntax needs escaped, and put texts of records on one
//! line; characters that a format forgot are made harmless here.

use serde::Serialize;
use webstone_measure::shown::{self, lines};

/// A text for a file.
pub(crate) fn text(text: &str) -> Vec<u8> {
    lines(text, |_| 0).into_owned().into_bytes()
}

/// Indented JSON, ending in a newline. Its strings escape such characters.
pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    Ok(shown::json(&text).into_owned().into_bytes())
}
