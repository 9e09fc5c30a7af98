//! Parses TOML that strangers may have written, and says where it is wrong.

use std::fmt;

use serde::de::DeserializeOwned;
use webstone_measure::strict::Strict;

/// Why a text does not match a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlError {
    /// Its place in the text, in bytes from the start.
    pub start: usize,
    /// The rule that it breaks, in one line.
    pub rule: String,
}

impl TomlError {
    fn from_error(error: &toml::de::Error) -> TomlError {
        // The parser's messages may have several lines.
        let rule = error.message().lines().collect::<Vec<_>>().join(", ");
        TomlError { start: error.span().map_or(0, |span| span.start), rule }
    }

    /// The line of `text`, from 1, with the error.
    pub fn line(&self, text: &str) -> usize {
        1 + text.bytes().take(self.start).filter(|byte| *byte == b'\n').count()
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)
    }
}

/// Parses a text.
///
/// # Errors
/// If it is not TOML, or does not match `T`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let read = toml::Deserializer::parse(text).and_then(|from| T::deserialize(Strict(from)));
    read.map_err(|error| TomlError::from_error(&error))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::spec::RunSpec;

    /// A type with its own parser.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "String")]
    struct Even;

    impl TryFrom<String> for Even {
        type Error = String;
        fn try_from(text: String) -> Result<Even, String> {
            if text.len().is_multiple_of(2) { Ok(Even) } else { Err(format!("`{text}` is odd")) }
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        count: u32,
        #[serde(default)]
        even: Option<Even>,
        #[serde(default)]
        share: f64,
        #[serde(default)]
        names: Vec<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        part: Part,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        is_on: bool,
    }

    #[test]
    fn an_error_is_one_line_with_its_place() {
        for (text, rule, line) in [
            ("", "missing field `part`", 1),
            ("part = { count = -1 }", "invalid value: integer `-1`, expected u32", 1),
            (
                "# a comment\n\n[part]\ncount = 1\nnames = ['a', 2, 'b']\n",
                "invalid type: integer `2`, expected a string",
                5,
            ),
            ("part.count = 1\n[[parts]]\ncount = 2\n[[parts]]\nshare = 3\n", "missing field `count`", 4),
            ("[part]\ncount = 1\neven = 'odd'\n", "`odd` is odd", 3),
            ("part = { count = 1 }\nname =\n", "string values must be quoted, expected literal string", 2),
        ] {
            let error = read::<Whole>(text).unwrap_err();
            assert_eq!((error.rule.as_str(), error.line(text)), (rule, line), "{text}");
        }
    }

    #[test]
    fn a_list_of_a_tables_values_is_not_the_table() {
        for (text, list) in [
            ("part = [1]", "[1]"),
            ("name = 'x'\npart = []", "[]"),
            ("part.count = 1\nparts = [[2]]", "[2]]"),
        ] {
            let error = read::<Whole>(text).unwrap_err();
            assert_eq!(error.rule, "invalid type: sequence, expected struct Part");
            assert_eq!(&text[error.start..], list);
        }
    }

    #[test]
    fn a_specification_is_read_from_its_own_text() {
        let mut spec = RunSpec::default();
        spec.client.headers.add("B", "1");
        spec.client.headers.add("A", "2");
        let text = toml::to_string(&spec).unwrap();
        let again: RunSpec = read(&text).unwrap();
        assert_eq!(again, spec);
        assert!(
            again.client.headers.by_name().map(|(name, _)| name).eq(["B", "A"]),
            "in the order of the text"
        );
    }
}
