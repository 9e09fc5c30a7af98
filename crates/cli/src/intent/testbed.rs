//! The testbed file: a [`RunSpec`] as TOML, with every default filled in where the file is silent.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use webstone_model::spec::RunSpec;
use webstone_store::plain_file::{self, Links};

use crate::failure::{Exit, Failure};
use crate::usage::{BACKEND_GONE, split_remedy};

/// Largest testbed file, in bytes: the largest body that one can hold, escaped, and room for the rest.
const TESTBED_BYTES_MAX: u64 = 128 << 20;

/// Reads a testbed file.
pub(super) fn read(path: &Path) -> Result<RunSpec, Failure> {
    let text = plain_file::read_text(path, Links::Followed, TESTBED_BYTES_MAX).map_err(|error| {
        let failure = Failure { exit: Exit::Usage, ..Failure::file("read the testbed file", path, &error) };
        match error.kind() {
            std::io::ErrorKind::NotFound => failure
                .hint(format!("`webstone run --dump-spec > {}` writes one to begin with", path.display())),
            std::io::ErrorKind::InvalidData => failure.hint("a testbed file is UTF-8 text in TOML"),
            std::io::ErrorKind::InvalidInput => failure.hint("save it to a file first, and name that"),
            _ => failure,
        }
    })?;
    parse(&path.display().to_string(), &text)
}

/// What earlier versions had in a testbed file. A record that holds one is read; who writes one is told.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Gone {
    generator: GoneFromGenerator,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GoneFromGenerator {
    backend: Option<Spanned<IgnoredAny>>,
}

fn parse(name: &str, text: &str) -> Result<RunSpec, Failure> {
    let place = |start| {
        let (line, column) = position(text, start);
        format!("line {line}, column {column}: ")
    };
    let gone = toml::from_str::<Gone>(text).unwrap_or_default();
    if let Some(backend) = gone.generator.backend {
        let place = place(backend.span().start);
        let failure = Failure::usage(format!("testbed file {name}, {place}there is no `backend` any more"));
        return Err(failure.hint(BACKEND_GONE));
    }
    toml::from_str(text).map_err(|error| {
        let place = error.span().map_or_else(String::new, |span| place(span.start));
        // The parser's messages may have several lines; an error of ours has one.
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let (rule, remedy) = split_remedy(&message);
        let failure = Failure::usage(format!("testbed file {name}, {place}{rule}"));
        failure.hint(remedy.unwrap_or("`webstone run --dump-spec` prints every key with its default"))
    })
}

/// Line and column of a byte offset, both from 1; columns count characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.char_indices().take_while(|(at, _)| *at < offset).map(|(_, c)| c);
    before.fold((1, 1), |(line, column), c| if c == '\n' { (line + 1, 1) } else { (line, column + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Levels;

    #[test]
    fn what_a_file_does_not_say_is_the_default() {
        let spec = parse("t.toml", "[load]\nclients = \"1,2\"\n").unwrap();
        let mut expected = RunSpec::default();
        expected.load.clients = Levels(vec![1, 2]);
        assert_eq!(spec, expected);
    }

    fn message(text: &str) -> String {
        parse("t.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_line_and_column() {
        assert_eq!(
            message("[load]\nduration = \"10 parsecs\"\n"),
            "error: testbed file t.toml, line 2, column 12: `10 parsecs` is not a duration\n\
             hint: write a number and a unit (ns, us, ms, s, m, h), as in 10s, 500ms or 1m30s"
        );
        assert_eq!(
            message("[load]\nclient = 3\n"),
            "error: testbed file t.toml, line 2, column 1: unknown field `client`, expected one of `clients`, `rate`, `arrivals`, `when_busy`, \
             `duration`, `pages`, `iterations`, `warmup`, `drain`, `order`, `retries`, `aa`\n\
             hint: `webstone run --dump-spec` prints every key with its default"
        );
    }

    #[test]
    fn a_key_of_an_earlier_version_is_named_with_what_to_do() {
        assert_eq!(
            message("[generator]\nworkers = 2\nbackend = \"auto\"\n"),
            "error: testbed file t.toml, line 3, column 11: there is no `backend` any more\n\
             hint: leave it out: event loops use epoll, as they did by default; io_uring and the choice are gone"
        );
    }
}
