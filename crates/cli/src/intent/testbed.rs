//! The given testbed file, or a message about it.

use std::io::ErrorKind;
use std::path::Path;

use webstone_model::powers;
use webstone_model::spec::RunSpec;
use webstone_runner::check::{Testbed, TestbedError};

use crate::console;
use crate::failure::{Exit, Failure};
use crate::usage::split_remedy;

/// Reads the given testbed file, if any. If somebody else may have written it, what it may do is announced before it
/// is used.
pub(super) fn read(path: Option<&Path>) -> Result<Option<Testbed>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let testbed = Testbed::read(path).map_err(|error| failure(error, path))?;
    if let Some(others_hand) = testbed.others_hand {
        announce(&format!("the testbed file {}", path.display()), others_hand, [&testbed.spec]);
    }
    Ok(Some(testbed))
}

/// Announces what the specifications may do in a file that somebody else may have written. `others_hand` says who, in
/// words to follow its name.
pub(crate) fn announce<'a>(file: &str, others_hand: &str, specs: impl IntoIterator<Item = &'a RunSpec>) {
    let mut lines: Vec<String> = Vec::new();
    for line in specs.into_iter().flat_map(powers::asked).map(|asked| asked.to_string()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        lines.push("names no host, command or file".to_owned());
    }
    console::complain(format!("warning: {file} {others_hand}. It\n{}", lines.join("\n")));
}

/// What the file says, and where it is silent what the command does without a file.
pub(super) fn over(testbed: &Testbed, defaults: &RunSpec) -> RunSpec {
    let mut spec = testbed.spec.clone();
    let is_silent = |key: &str| !testbed.states(key);
    if is_silent("client.connections") {
        spec.client.connections = defaults.client.connections;
    }
    if is_silent("load.iterations") {
        spec.load.iterations = defaults.load.iterations;
    }
    if is_silent("load.clients") {
        spec.load.clients.clone_from(&defaults.load.clients);
    }
    if is_silent("workload") {
        spec.workload.clone_from(&defaults.workload);
    }
    spec
}

/// Parses the text of a testbed file.
pub(super) fn parse(name: &Path, text: &str) -> Result<Testbed, Failure> {
    Testbed::parse(&name.display().to_string(), text).map_err(|error| failure(error, name))
}

fn failure(error: TestbedError, path: &Path) -> Failure {
    match error {
        TestbedError::Unreadable(error) => unreadable(path, &error),
        TestbedError::Wrong { place, rule } => {
            let near = near_key(&rule).map(|near| format!("did you mean `{near}`?"));
            let (rule, remedy) = split_remedy(&rule);
            let hint = near.or_else(|| remedy.map(str::to_owned));
            let every_key = || "`webstone run --dump-spec` prints every key with its default".to_owned();
            Failure::usage(format!("{place}: {rule}")).hint(hint.unwrap_or_else(every_key))
        }
    }
}

/// The key that was probably meant by an unknown one: the most similar of those that the parser lists, with at most
/// two different letters, and fewer than half of its own.
fn near_key(rule: &str) -> Option<&str> {
    let (unknown, expected) = rule.strip_prefix("unknown field `")?.split_once("`, expected ")?;
    let known = expected.split('`').skip(1).step_by(2);
    let near = known.map(|key| (strsim::damerau_levenshtein(unknown, key), key));
    let near = near.filter(|(edits, key)| *edits <= 2 && 2 * edits < key.chars().count());
    near.min_by_key(|(edits, _)| *edits).map(|(_, key)| key)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure { exit: Exit::Usage, ..Failure::file("read the testbed file", path, error) };
    match error.kind() {
        ErrorKind::NotFound => {
            failure.hint(format!("`webstone run --dump-spec > {}` writes one to begin with", path.display()))
        }
        ErrorKind::InvalidData => failure.hint("a testbed file is UTF-8 text in TOML"),
        ErrorKind::InvalidInput => failure.hint("save it to a file first, and name that"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every default is one of these four, or the same everywhere.
    #[test]
    fn a_silent_file_changes_nothing() {
        let silent = parse(Path::new("t.toml"), "").unwrap();
        for command in ["run", "servers", "scale", "spice"] {
            let defaults = crate::intent::defaults(command);
            let spec = over(&silent, &defaults);
            assert_eq!(RunSpec { name: defaults.name.clone(), ..spec }, defaults, "{command}");
        }
        let text = "workload = \"x\"\n[load]\nclients = \"7\"\niterations = 9\n[client]\nconnections = \"per-page\"\n";
        let said = parse(Path::new("t.toml"), text).unwrap();
        assert_eq!(over(&said, &crate::intent::defaults("spice")), said.spec);
    }

    #[test]
    fn a_typing_error_is_distinguished_from_another_word() {
        let near = |unknown: &str, known: &str| {
            near_key(&format!("unknown field `{unknown}`, expected {known}")).map(str::to_owned)
        };
        let keys = "one of `clients`, `rate`, `aa`, `duration`, `drain`";
        for (unknown, meant) in [
            ("client", Some("clients")),
            ("cleints", Some("clients")),
            ("ratte", Some("rate")),
            ("durration", Some("duration")),
            ("length", None),
            ("ab", None),
            ("threads", None),
        ] {
            assert_eq!(near(unknown, keys).as_deref(), meant, "{unknown}");
        }
        assert_eq!(near("url", "`urls`").as_deref(), Some("urls"));
        assert_eq!(near("seeds", "`seed` or `sees`").as_deref(), Some("seed"), "the first of equals");
        assert_eq!(near_key("unknown field `x`, there are no fields"), None);
        assert_eq!(near_key("invalid type: integer `3`, expected a string"), None);
    }
}
