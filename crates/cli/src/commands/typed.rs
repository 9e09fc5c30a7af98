//! Converts a testbed to a command line, if flags alone can express the same run. The result is parsed like any
//! command line, and is used only if it means the same run.

use std::ffi::OsString;

use clap::FromArgMatches;
use serde_json::Value;
use webstone_model::spec::RunSpec;

use crate::args::table::{self, Flag};
use crate::args::{Cli, Command};
use crate::intent;

/// Finds flags. The definition is built once: a form needs a command line whenever its user pauses.
#[derive(Debug)]
pub(super) struct Typist {
    commands: clap::Command,
    table: Vec<Flag>,
    /// The specification of `webstone run` without flags.
    base: Option<RunSpec>,
}

impl Typist {
    /// From the definition of all commands.
    pub(super) fn new(commands: clap::Command) -> Typist {
        let mut typist = Typist { commands, table: table::table("run"), base: None };
        typist.base = typist.understood(&["webstone".to_owned(), "run".to_owned()]);
        typist
    }

    /// The words of `webstone run …`; `None` if flags cannot express all of it.
    pub(super) fn run(&self, wanted: &RunSpec) -> Option<Vec<String>> {
        // On the command line this would be a file to read; in a testbed it is the body itself.
        if wanted.client.body_base64.is_some() {
            return None;
        }
        if wanted.client.body.as_deref().is_some_and(|body| body.starts_with('@')) {
            return None;
        }
        let (base, said) = (serde_json::to_value(&self.base).ok()?, serde_json::to_value(wanted).ok()?);
        let mut words = vec!["webstone".to_owned(), "run".to_owned()];
        for url in said["target"].as_array().into_iter().flatten() {
            words.push(url.as_str()?.to_owned());
        }
        let server = (&said["server"]["software"], &said["server"]["profile"]);
        if server != (&base["server"]["software"], &base["server"]["profile"]) {
            let profile =
                if server.1 == "stock" { String::new() } else { format!(":{}", server.1.as_str()?) };
            words.extend(["--server".to_owned(), format!("{}{profile}", server.0.as_str()?)]);
        }
        self.differing("", &said, &base, &mut words);
        let mut found = self.understood(&words)?;
        // The command line omits the slash after a host, which makes no difference.
        let bare = |url: &String| url.trim_end_matches('/').to_owned();
        let is_target = found.target.iter().map(bare).eq(wanted.target.iter().map(bare));
        found.target.clone_from(&wanted.target);
        (is_target && found == *wanted).then_some(words)
    }

    /// Parses a command line.
    pub(super) fn parsed(&self, words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        Cli::from_arg_matches(&self.commands.clone().try_get_matches_from(words)?)
    }

    /// The run that a command line means.
    fn understood(&self, words: &[String]) -> Option<RunSpec> {
        match &self.parsed(words.iter().map(OsString::from)).ok()?.command {
            Command::Run(args) => intent::of_run(args).ok().map(|intent| intent.spec),
            _ => None,
        }
    }

    /// Adds the flag of each key with a different value.
    fn differing(&self, key: &str, said: &Value, base: &Value, words: &mut Vec<String>) {
        match said {
            _ if said == base || ["target", "server.software", "server.profile"].contains(&key) => {}
            Value::Object(headers) if key == "client.headers" => {
                for (name, said) in headers {
                    let values = said.as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
                    let texts =
                        values.iter().filter_map(Value::as_str).map(|value| format!("{name}: {value}"));
                    words.extend(texts.flat_map(|text| ["--header".to_owned(), text]));
                }
            }
            Value::Object(map) => {
                if key == "server.tls" && base.is_null() {
                    words.push("--tls".to_owned());
                }
                for (name, value) in map {
                    let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                    self.differing(&below, value, &base[name], words);
                }
            }
            _ => {
                let Some(flag) = self.table.iter().find(|flag| flag.keys.contains(&key)) else { return };
                let run = self.commands.find_subcommand("run");
                let argument =
                    run.and_then(|run| run.get_arguments().find(|argument| argument.get_id() == flag.id));
                let Some((argument, long)) = argument.and_then(|it| Some((it, it.get_long()?))) else {
                    return;
                };
                if argument.is_require_equals_set() {
                    return words.push(format!("--{long}={}", table::typed(said)));
                }
                words.push(format!("--{long}"));
                words.extend(argument.get_action().takes_values().then(|| table::typed(said)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(toml: &str) -> Option<String> {
        let typist = Typist::new(crate::args::command());
        typist.run(&toml::from_str(toml).unwrap()).map(|words| words.join(" "))
    }

    #[test]
    fn what_flags_can_express_becomes_flags() {
        // These are specifications, not testbed files: in a file without a policy connections are kept.
        for (toml, line) in [
            ("", "webstone run --connections per-request"),
            ("[client]\nconnections = \"keep-alive\"\n", "webstone run"),
            (
                "[client]\nconnections = \"keep-alive\"\nfollow = 3\naccept_encoding = \"br,gzip\"\n",
                "webstone run --accept-encoding br,gzip --follow=3",
            ),
            (
                "[client]\nconnections = \"keep-alive\"\nreset = true\n[load]\nclients = \"8,16\"\niterations = 4\naa = true\n",
                "webstone run --clients 8,16 --iterations 4 --aa --reset",
            ),
            (
                "target = [\"http://127.0.0.1:1/\"]\nworkload = \"webbench-static\"\n[client]\nconnections = \"keep-alive\"\n\
                 [client.headers]\nAccept = [\"a, b\", \"c\"]\n",
                "webstone run http://127.0.0.1:1/ --header Accept: a, b --header Accept: c --workload webbench-static",
            ),
            (
                "[server]\nsoftware = \"nginx\"\nprofile = \"tuned\"\n[client]\nconnections = \"keep-alive\"\n",
                "webstone run --server nginx:tuned",
            ),
        ] {
            let found = words(toml).unwrap_or_else(|| panic!("{toml}"));
            let sorted = |line: &str| {
                let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(sorted(&found), sorted(line), "{found}");
        }
    }

    #[test]
    fn what_flags_cannot_express_stays_in_the_file() {
        assert_eq!(words("[disclosure]\nsponsor = \"nobody\"\n"), None);
    }
}
