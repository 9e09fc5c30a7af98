//! Adds flags to messages: rules of the specification have its keys, but users type flags.

use clap::CommandFactory;
use webstone_runner::check::SpecError;

use crate::args::{Cli, table};
use crate::failure::Failure;

/// The message about a broken rule for the user of a command.
pub(crate) fn failure(error: &SpecError, command: &str) -> Failure {
    let place = error.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
    // A URL on the command line has no option; the rule contains it.
    let key = match (error.key.as_str(), &error.place) {
        ("target", None) => String::new(),
        (key, _) => format!("{}: ", named_key(key, command)),
    };
    Failure::usage(format!("{place}{key}{}", named(&error.rule, command))).hint(named(&error.remedy, command))
}

/// A text with the command's flag before each key: `--clients (load.clients)`. Text in backquotes is quoted and does
/// not change.
pub(crate) fn named(text: &str, command: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            out.push('`');
        }
        if index % 2 == 1 {
            out.push_str(part);
            continue;
        }
        let mut rest = part;
        while let Some(start) = rest.find(is_of_key) {
            let end = rest[start..].find(|c| !is_of_key(c)).map_or(rest.len(), |length| start + length);
            let word = rest[start..end].trim_end_matches('.');
            out.push_str(&rest[..start]);
            // A key in parentheses explains the word before it.
            match word.contains('.') && !out.ends_with('(') {
                true => out.push_str(&named_key(word, command)),
                false => out.push_str(word),
            }
            out.push_str(&rest[start + word.len()..end]);
            rest = &rest[end..];
        }
        out.push_str(rest);
    }
    out
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_lowercase() || c == '_' || c == '.'
}

/// The reverse of [`named`]: keys without flags, for users of the browser front.
pub(crate) fn without_flags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            out.push('`');
        }
        let mut rest = part;
        while let Some((before, found)) = rest.split_once("--").filter(|_| index % 2 == 0) {
            let flag = found.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(found.len());
            let key = found[flag..].strip_prefix(" (").and_then(|rest| rest.split_once(')'));
            out.push_str(before);
            rest = match key.filter(|(key, _)| !key.is_empty() && key.chars().all(is_of_key)) {
                Some((key, after)) => {
                    out.push_str(key);
                    after
                }
                None => {
                    out.push_str("--");
                    found
                }
            };
        }
        out.push_str(rest);
    }
    out
}

fn named_key(key: &str, command: &str) -> String {
    match flag(key, command) {
        Some(flag) => format!("--{flag} ({key})"),
        None => key.to_owned(),
    }
}

/// The flag of a command that sets a key, without its hyphens.
fn flag(key: &str, command: &str) -> Option<String> {
    let flag = table::table(command).into_iter().find(|flag| flag.keys.contains(&key))?;
    let commands = Cli::command();
    let mut typed = commands.find_subcommand(command)?.get_arguments();
    typed.find(|argument| argument.get_id() == flag.id)?.get_long().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use webstone_model::spec::RunSpec;
    use webstone_workload::tls::TlsSpec;

    #[test]
    fn keys_get_the_flags_of_the_command() {
        for (command, text, expected) in [
            ("run", "load.pages, or `load.pages`.", "--pages (load.pages), or `load.pages`."),
            ("hit", "give load.pages.", "give --requests (load.pages)."),
            ("serve", "server.access_log", "--access-log (server.access_log)"),
            (
                "scale",
                "generator.cpus, series.cpus",
                "--generator-cpus (generator.cpus), --cpus (series.cpus)",
            ),
            (
                "run",
                "a list (load.clients), server.max-keep-alive, www.example.org",
                "a list (load.clients), server.max-keep-alive, www.example.org",
            ),
        ] {
            assert_eq!(named(text, command), expected);
        }
    }

    #[test]
    fn flags_are_taken_out_again() {
        for text in
            ["load.pages, or `--a (load.pages)`.", "give load.pages.", "load.iterations: `1` is not load.aa"]
        {
            assert_eq!(without_flags(&named(text, "run")), text);
        }
        for text in ["a -- b", "--quiet", "--x (", "--x (Y)"] {
            assert_eq!(without_flags(text), text);
        }
    }

    #[test]
    fn every_key_of_tls_has_its_flag() {
        let some = || Some("x".to_owned());
        let (cacert, pin, cert, key, sni, key_log) = (some(), some(), some(), some(), some(), some());
        let tls =
            TlsSpec { cacert, pin, cert, key, sni, key_log, alpn: vec!["x".into()], ..TlsSpec::default() };
        let Ok(Value::Object(keys)) = serde_json::to_value(tls) else { panic!("a table") };
        assert!(keys.len() > 12, "{keys:?}");
        for key in keys.keys() {
            let key = format!("client.tls.{key}");
            assert!(flag(&key, "run").is_some(), "{key}");
        }
    }

    #[test]
    fn every_key_of_a_run_has_its_flag() {
        let Ok(Value::Object(sections)) = serde_json::to_value(RunSpec::default()) else { panic!("a table") };
        for (section, keys) in &sections {
            let Value::Object(keys) = keys else { continue };
            for key in keys.keys().filter(|key| *key != "tls") {
                let key = format!("{section}.{key}");
                // Said together with the software: `--server nginx:tuned`.
                assert!(flag(&key, "run").is_some() || key == "server.profile", "{key}");
            }
        }
    }
}
