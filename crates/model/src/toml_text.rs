//! Reads TOML by way of JSON. serde compiles the reading of a type once for each format, and records are JSON: with `toml::from_str`
//! that of specifications would be in the program twice.

use std::fmt;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use webstone_measure::strict;

/// Why a text is not what a type describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlError {
    /// Where in the text, in bytes from its start.
    pub start: usize,
    /// The rule that it breaks, in one line.
    pub rule: String,
}

impl TomlError {
    fn of(error: &toml::de::Error) -> TomlError {
        // The parser's messages may have several lines.
        let rule = error.message().lines().collect::<Vec<_>>().join(", ");
        TomlError { start: error.span().map_or(0, |span| span.start), rule }
    }

    /// The line of `text` that it is about, from 1.
    pub fn line(&self, text: &str) -> usize {
        1 + text.bytes().take(self.start).filter(|byte| *byte == b'\n').count()
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)
    }
}

/// Reads a text.
///
/// # Errors
/// If it is not TOML, or not what `T` describes.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let table = DeTable::parse(text).map_err(|error| TomlError::of(&error))?;
    let mut json = Json::default();
    json.table(table.get_ref(), 0)?;
    strict::json(&json.bytes).map_err(|error| {
        let mut rule = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        rule.truncate(rule.len() - if rule.ends_with(&place) { place.len() } else { 0 });
        // serde_json tells an error without a place of its own, such as that of a value's parser, where the reader has got to, which may
        // be past the ends of tables. Only a missing field is about a table itself.
        let is_of_table = rule.starts_with("missing field ");
        // A list in place of a table is refused when its bracket has been read.
        let bracket = usize::from(rule.starts_with(strict::LIST_OF_A_STRUCT));
        TomlError { start: json.start_of(error.column() - bracket, is_of_table), rule }
    })
}

/// A TOML text as JSON, all of it in one line.
#[derive(Default)]
struct Json {
    bytes: Vec<u8>,
    /// Each key and value, and each end of a table.
    places: Vec<Place>,
}

/// Where something stands in JSON, and where it began in the text; both in bytes.
struct Place {
    here: usize,
    start: usize,
    is_end: bool,
}

impl Json {
    fn table(&mut self, table: &DeTable<'_>, start: usize) -> Result<(), TomlError> {
        self.bytes.push(b'{');
        for (number, (key, value)) in table.iter().enumerate() {
            self.separate(number);
            self.mark(key.span().start);
            self.text(key.get_ref());
            self.bytes.push(b':');
            self.value(value)?;
        }
        self.bytes.push(b'}');
        // What a table lacks is found at its end.
        self.places.push(Place { here: self.bytes.len(), start, is_end: true });
        Ok(())
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), TomlError> {
        let start = value.span().start;
        let wrong = |rule: &str| Err(TomlError { start, rule: rule.to_owned() });
        self.mark(start);
        match value.get_ref() {
            DeValue::String(text) => self.text(text),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => self.bytes.extend_from_slice(number.to_string().as_bytes()),
                Err(_) => return wrong("integer number overflowed"),
            },
            DeValue::Float(number) => match number.as_str().parse().map(serde_json::Number::from_f64) {
                Ok(Some(number)) => self.bytes.extend_from_slice(number.to_string().as_bytes()),
                _ => return wrong("not a finite number"),
            },
            DeValue::Boolean(true) => self.bytes.extend_from_slice(b"true"),
            DeValue::Boolean(false) => self.bytes.extend_from_slice(b"false"),
            DeValue::Datetime(_) => return wrong("a date or time stands here without quotes"),
            DeValue::Array(values) => {
                self.bytes.push(b'[');
                for (number, value) in values.iter().enumerate() {
                    self.separate(number);
                    self.value(value)?;
                }
                self.bytes.push(b']');
            }
            DeValue::Table(table) => self.table(table, start)?,
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.bytes, text).expect("a Vec accepts every write");
    }

    fn separate(&mut self, number: usize) {
        if number > 0 {
            self.bytes.push(b',');
        }
    }

    fn mark(&mut self, start: usize) {
        self.places.push(Place { here: self.bytes.len(), start, is_end: false });
    }

    /// Where in the text something began that was read up to `offset` when it was found wrong: a table, or a key or value.
    fn start_of(&self, offset: usize, is_of_table: bool) -> usize {
        let last =
            self.places.iter().rev().find(|place| place.here <= offset && (is_of_table || !place.is_end));
        last.map_or(0, |place| place.start)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::spec::RunSpec;

    /// What a type's own parser accepts.
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
    fn what_is_read_is_what_toml_reads() {
        for text in [
            "part = { count = 1_000, share = 2 }",
            "name = \"a\\u00e4\\\"\\n\\\\\"\nis_on = true\n[part]\ncount = 0xff\nshare = 1e-3\nnames = ['a', '', \"b\"]",
            "part.count = 1\n[[parts]]\ncount = 2\n[[parts]]\ncount = 3\nshare = 0.1",
            "name = '''\n'x'\ny'''\npart = { count = 4294967295, names = [] }",
        ] {
            assert_eq!(read::<Whole>(text).as_ref(), Ok(&toml::from_str(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_toml_says_it() {
        for text in [
            "",
            "part = 1",
            "part = { count = -1 }",
            "part = { count = 1.5 }",
            "part = { count = '1' }",
            "part = { count = [1] }",
            "part = { count = {} }",
            "part = { count = 4294967296, share = 1 }",
            "is_on = 1\npart = { count = 1 }",
            "# a comment\n\n[part]\ncount = 1\nnames = ['a', 2, 'b']\n",
            "[part]\ncount = 1\nnames = [['a']]\n",
            "name = 'x'\n[part]\ncoun = 1\n",
            "name = 'x'\n[part]\nshare = 1.0\n",
            "part.count = 1\n[[parts]]\ncount = 2\n[[parts]]\nshare = 3\n",
            "part.count = 1\n[[parts]]\ncount = 2\n[[parts]]\ncount = 3\n\"other key\" = 1\n",
            "part.count = 1\npart.count = 2\n",
            "[part]\ncount = 1\neven = 'odd'\n",
            "[part]\neven = 'odd'\ncount = 1\nshare = 1\n",
            "parts = [{ count = 1, even = 'even' }, { count = 2, even = 'odd' }]\npart = { count = 1 }\n",
            "name = 'x'\n[part]\neven = 'odd'\n",
            "part = {",
            "part = { count = 1 }\nname =\n",
            "= 1",
        ] {
            let theirs = TomlError::of(&toml::from_str::<Whole>(text).unwrap_err());
            assert_eq!(read::<Whole>(text), Err(theirs), "{text}");
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
    fn numbers_and_times_that_json_has_not_are_wrong_where_they_stand() {
        for (value, rule) in [
            ("inf", "not a finite number"),
            ("-nan", "not a finite number"),
            ("1e999", "not a finite number"),
            ("999999999999999999999999999999999999999999", "integer number overflowed"),
            ("1979-05-27T07:32:00Z", "a date or time stands here without quotes"),
        ] {
            let text = format!("name = 'ä'\n[part]\ncount = 1\nshare = {value}");
            let error = read::<Whole>(&text).unwrap_err();
            assert_eq!((&text[error.start..], error.rule.as_str(), error.line(&text)), (value, rule, 4));
        }
    }

    #[test]
    fn a_specification_is_read_from_its_own_text() {
        let mut spec = RunSpec::default();
        spec.client.headers.insert("B".into(), "1".into());
        spec.client.headers.insert("A".into(), "2".into());
        let text = toml::to_string(&spec).unwrap();
        let again: RunSpec = read(&text).unwrap();
        assert_eq!(again, spec);
        assert!(again.client.headers.keys().eq(["B", "A"]), "in the order of the text");
    }
}
