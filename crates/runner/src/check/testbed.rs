//! The testbed file: a [`RunSpec`] as TOML, with every default filled in where the file is silent, and the line of each key.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use webstone_model::paths;
use webstone_model::spec::RunSpec;
use webstone_model::toml_text;
use webstone_store::plain_file::{self, Links};

/// Largest testbed file, in bytes: the largest body that one can hold, escaped, and room for the rest.
const TESTBED_BYTES_MAX: u64 = 128 << 20;

/// A testbed file.
#[derive(Clone, Debug, PartialEq)]
pub struct Testbed {
    /// What it says.
    pub spec: RunSpec,
    /// Who besides the user and root may have written it, in words that follow its name, where anybody may.
    pub others_hand: Option<&'static str>,
    name: String,
    lines: BTreeMap<String, usize>,
}

/// Why there is no testbed file.
#[derive(Debug)]
pub enum TestbedError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is not a specification.
    Wrong {
        /// File, line and column.
        place: String,
        /// The rule that it breaks, with the remedy that the value's parser gives.
        rule: String,
    },
}

impl Testbed {
    /// Reads a file. Relative paths of files in it are relative to its directory; here they are relative to the working directory, as
    /// are those of a file without a name, given as `/dev/stdin`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a specification.
    pub fn read(path: &Path) -> Result<Testbed, TestbedError> {
        let read = || {
            let file = plain_file::open(path, Links::Followed)?;
            let text = plain_file::text(plain_file::read_opened(&file, TESTBED_BYTES_MAX)?)?;
            Ok((text, plain_file::others_hand(&file.metadata()?)))
        };
        let (text, others_hand) = read().map_err(TestbedError::Unreadable)?;
        let mut testbed = Testbed::parse(&path.display().to_string(), &text)?;
        paths::below(&mut testbed.spec, directory(path));
        Ok(Testbed { others_hand, ..testbed })
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is not a specification.
    pub fn parse(name: &str, text: &str) -> Result<Testbed, TestbedError> {
        let place = |start: usize| {
            let (line, column) = position(text, start);
            format!("testbed file {name}, line {line}, column {column}")
        };
        let spec = toml_text::read(text).map_err(|error| TestbedError::Wrong {
            place: place(error.start),
            rule: in_quotes(error.rule),
        })?;
        let mut lines = BTreeMap::new();
        if let Ok(table) = DeTable::parse(text) {
            collect("", table.get_ref(), text, &mut lines);
        }
        Ok(Testbed { spec, others_hand: None, name: name.to_owned(), lines })
    }

    /// Whether the file has a value for a key.
    pub fn states(&self, key: &str) -> bool {
        self.lines.contains_key(key)
    }

    /// File and line of a key, where a specification's value of it is this file's.
    pub(super) fn place(&self, key: &str, spec: &RunSpec) -> Option<String> {
        let line = self.lines.get(key)?;
        (value(&self.spec, key) == value(spec, key))
            .then(|| format!("testbed file {}, line {line}", self.name))
    }
}

/// Where the files of a testbed are looked for. One that is named by a descriptor, as the browser front gives it, has no directory of its
/// own.
fn directory(path: &Path) -> &Path {
    match ["/dev", "/proc"].iter().any(|of_kernel| path.starts_with(of_kernel)) {
        true => Path::new(""),
        false => path.parent().unwrap_or(Path::new("")),
    }
}

/// Adds that quotes are missing, where a number stands for a string: `duration = 10`, `clients = 20`.
fn in_quotes(rule: String) -> String {
    match rule.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected a string")) {
        Some((found, _)) => {
            format!(
                "{found} is not in quotes; write it as text with its unit, as in duration = \"10s\" or clients = \"20\""
            )
        }
        None => rule,
    }
}

/// The line of every key of a table, tables within it included.
fn collect(above: &str, table: &DeTable<'_>, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (key, found) in table {
        let name = format!("{above}{}", key.get_ref());
        lines.insert(name.clone(), position(text, key.span().start).0);
        if let DeValue::Table(inner) = Spanned::get_ref(found) {
            collect(&format!("{name}."), inner, text, lines);
        }
    }
}

fn value(spec: &RunSpec, key: &str) -> Option<Value> {
    serde_json::to_value(spec).ok()?.pointer(&format!("/{}", key.replace('.', "/"))).cloned()
}

/// Line and column of a byte offset, both from 1; columns count characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.char_indices().take_while(|(at, _)| *at < offset).map(|(_, c)| c);
    before.fold((1, 1), |(line, column), c| if c == '\n' { (line + 1, 1) } else { (line, column + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_testbed_without_a_name_has_the_working_directory() {
        for (path, expected) in [
            ("/dev/stdin", ""),
            ("/proc/self/fd/3", ""),
            ("a/b.toml", "a"),
            ("b.toml", ""),
            ("/device/b.toml", "/device"),
        ] {
            assert_eq!(directory(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn what_a_file_does_not_say_is_the_default() {
        let testbed = Testbed::parse("t.toml", "[load]\nclients = \"1,2\"\n").unwrap();
        let mut expected = RunSpec::default();
        expected.load.clients = "1,2".parse().unwrap();
        assert_eq!(testbed.spec, expected);
        assert!(testbed.states("load.clients") && !testbed.states("client.connections"));
    }

    #[test]
    fn a_key_has_its_line_as_long_as_its_value_is_the_files() {
        let text =
            "name = \"n\"\nclient.parallel = 2\n\n[load]\niterations = 3\n[client.headers]\nA = \"b\"\n";
        let testbed = Testbed::parse("t.toml", text).unwrap();
        let mut spec = testbed.spec.clone();
        let place = |key, spec: &RunSpec| testbed.place(key, spec);
        assert_eq!(place("load.iterations", &spec).as_deref(), Some("testbed file t.toml, line 5"));
        assert_eq!(place("client.parallel", &spec).as_deref(), Some("testbed file t.toml, line 2"));
        assert_eq!(place("client.headers", &spec).as_deref(), Some("testbed file t.toml, line 6"));
        assert_eq!(place("load.clients", &spec), None, "the file does not say it");
        spec.load.iterations = 4;
        assert_eq!(place("load.iterations", &spec), None, "somebody else said otherwise");
    }

    #[test]
    fn what_cannot_be_parsed_is_told_with_its_place() {
        let Err(TestbedError::Wrong { place, rule }) = Testbed::parse("t.toml", "[load]\nclient = 3\n")
        else {
            panic!("there is no such key")
        };
        assert_eq!(place, "testbed file t.toml, line 2, column 1");
        assert!(rule.starts_with("unknown field `client`, expected one of `clients`"), "{rule}");
    }
}
