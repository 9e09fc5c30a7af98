//! Errors of the command line's parser in the form of all errors of this program: one sentence with the option, the
//! value and the rule, and the remedy on a separate line.

use std::ffi::OsString;
use std::net::IpAddr;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use webstone_workload::target::{Scheme, Target};

use crate::args::Cli;
use crate::failure::Failure;
use webstone_measure::shown::quoted;

/// Printed if no command was typed: the README has the same.
const COMMON: &str = "
  webstone run                                   benchmark the embedded server
  webstone run --server nginx                    the same on nginx
  webstone servers nginx,apache,lighttpd,caddy   compare servers
  webstone hit http://127.0.0.1:8080/            load one URL, as wrk does
  webstone report last                           print the newest report again";

/// Why a command line did not result in a command.
#[derive(Debug)]
pub enum Usage {
    /// Text to be printed on standard output: help or version.
    Print(clap::error::Error),
    /// Something is wrong.
    Wrong(Failure),
}

impl Usage {
    /// Distinguishes the two. `arguments` are those that were parsed, with the program's name first.
    pub fn from_clap(error: clap::Error, arguments: &[OsString]) -> Usage {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Usage::Print(error),
            _ => Usage::Wrong(failure(&error, arguments)),
        }
    }
}

/// `webstone help COMMAND`, as in git and cargo, is `webstone COMMAND --help`; `None` for other command lines.
pub(crate) fn help_command(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let [program, help, rest @ ..] = arguments else { return None };
    let is_help = help == "help";
    is_help.then(|| [std::slice::from_ref(program), rest, &["--help".into()]].concat())
}

/// A URL without a command is what `hit` loads, with the options around it, as wrk is called; `None` of other command lines.
pub(crate) fn hit_command(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (program, words) = arguments.split_first()?;
    let is_url = |word: &OsString| {
        let url = word.to_str().and_then(|word| word.split_once("://"));
        url.is_some_and(|(scheme, _)| Scheme::by_name(scheme).is_some())
    };
    let before = &words[..words.iter().position(is_url)?];
    let begins = before.first().is_none_or(|word| word.as_encoded_bytes().starts_with(b"-"));
    let all = Cli::command();
    let is_command = |word: &OsString| word.to_str().is_some_and(|word| all.find_subcommand(word).is_some());
    (begins && !before.iter().any(is_command)).then(|| [&[program.clone(), "hit".into()], words].concat())
}

/// Splits `…; write …` and `…: write …`, in which parsers of values give the remedy.
pub(crate) fn split_remedy(message: &str) -> (&str, Option<&str>) {
    let at = [": write ", "; write "].into_iter().filter_map(|mark| message.rfind(mark)).max();
    match at {
        Some(at) => (&message[..at], Some(&message[at + 2..])),
        None => (message, None),
    }
}

fn failure(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let command = command_name(arguments);
    let command = command.as_deref();
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(list)) => Some(list.join(", ")),
        Some(ContextValue::StyledStr(text)) => Some(text.to_string()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg).map(|full| option_name(&full)).unwrap_or_default();
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let help = match command {
        Some(name) => format!("`webstone {name} --help` explains every option"),
        None => "`webstone --help` shows how to use it".to_owned(),
    };
    match error.kind() {
        ErrorKind::ValueValidation => {
            let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let (rule, remedy) = split_remedy(&source);
            let failure = Failure::usage(format!("{argument}: {}", named(rule, &value)));
            failure.hint(remedy.map_or(help, str::to_owned))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let example = command.and_then(|name| crate::args::option_example(name, &argument));
            Failure::usage(format!("{argument}: a value is missing"))
                .hint(example.map_or(help, |example| format!("write it as in {example}")))
        }
        ErrorKind::InvalidValue => {
            let failure = Failure::usage(format!("{argument}: `{value}` is not one of its values"));
            let values = text(ContextKind::ValidValue).unwrap_or_default();
            let hint = match text(ContextKind::SuggestedValue) {
                Some(near) => format!("did you mean `{near}`? The values are {values}"),
                None if argument == "--connections" && value.parse::<u32>().is_ok() => {
                    format!("write one of {values}; the number of connections is that of clients: -c {value}")
                }
                None => format!("write one of {values}"),
            };
            failure.hint(hint)
        }
        ErrorKind::UnknownArgument if is_negative(&argument) => {
            Failure::usage(format!("{argument} is read as an option, but there is no such option"))
                .hint("a negative value is not possible here")
        }
        ErrorKind::UnknownArgument => {
            let failure = Failure::usage(format!("{argument}: there is no such option"));
            match (text(ContextKind::SuggestedArg), unknown_option_hint(&argument)) {
                (_, Some(hint)) => failure.hint(hint),
                (Some(near), None) => failure.hint(format!("did you mean `{}`?", option_name(&near))),
                (None, None) if !argument.starts_with('-') => {
                    let hint = if follows(arguments, "-q", &argument) { QUIET } else { &help };
                    Failure::usage(format!("unexpected argument `{argument}`")).hint(hint)
                }
                (None, None) => failure.hint(help),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            // Commands that only webstone itself starts are not suggested.
            let all = crate::args::command();
            let is_shown = |name: &&str| all.find_subcommand(name).is_none_or(|sub| !sub.is_hide_set());
            let near = text(ContextKind::SuggestedSubcommand).unwrap_or_default();
            let near: Vec<&str> = near.split(", ").filter(|name| !name.is_empty()).filter(is_shown).collect();
            let hint = match meant(&name) {
                Some(meant) if command.is_none() => did_you_mean(&[&meant]),
                _ if !near.is_empty() => did_you_mean(&near),
                _ if command == Some("workloads") => {
                    format!(
                        "`webstone workloads` lists the workloads, `webstone workloads show {name}` prints one"
                    )
                }
                _ if is_place(&name) => format!("a URL begins with its protocol: `webstone http://{name}`"),
                _ => "`webstone --help` lists the commands".to_owned(),
            };
            Failure::usage(format!("`{name}` is not a command")).hint(hint)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            if let Some((name, below)) = command.and_then(|name| Some((name, commands_below(name)?))) {
                return Failure::usage(format!("{name}: what to do is missing"))
                    .hint(format!("write one of\n\n{below}\n\n`webstone {name} --help` explains them"));
            }
            Failure::usage("a command is missing")
                .hint(format!("the most common are\n{COMMON}\n\n`webstone --help` lists all commands"))
        }
        ErrorKind::InvalidUtf8 => {
            let wrong = arguments.iter().find(|word| word.to_str().is_none());
            let wrong = wrong.map(|word| quoted(&word.to_string_lossy())).unwrap_or_default();
            Failure::usage(format!("the argument {wrong} is not UTF-8"))
                .hint("where a URL needs other bytes, write them as escapes, as in %FF")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(list)) => {
                    list.iter().map(|full| full.replace("...", "")).collect()
                }
                _ => Vec::new(),
            };
            let options: Vec<&str> = missing.iter().filter_map(|full| full.split(' ').next()).collect();
            let options: Vec<&str> = options.into_iter().filter(|word| word.starts_with("--")).collect();
            let example = command.and_then(|command| crate::args::example_with(command, &options));
            let what = match missing.split_last() {
                Some((last, [])) => format!("{last} is missing"),
                Some((last, others)) => format!("{} and {last} are missing", others.join(", ")),
                None => "an argument is missing".to_owned(),
            };
            Failure::usage(what).hint(example.map_or(help, |example| format!("for example, {example}")))
        }
        ErrorKind::ArgumentConflict => {
            let other = text(ContextKind::PriorArg).map(|full| option_name(&full)).unwrap_or_default();
            if other == argument {
                return Failure::usage(format!("{argument} is given twice")).hint("give it once");
            }
            Failure::usage(format!("{argument} and {other} cannot be used together"))
                .hint("leave out one of them")
        }
        _ => {
            // What is left is rare (a flag with `=value`); clap's own first line is a
            // sentence with option and rule.
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            Failure::usage(first.trim_start_matches("error: ").to_owned()).hint(help)
        }
    }
}

/// Whether a word names a server and lacks only the protocol.
fn is_place(word: &str) -> bool {
    let names_place = word.contains(':') || word.starts_with("localhost") || word.parse::<IpAddr>().is_ok();
    names_place && Target::split(&format!("http://{word}")).is_ok()
}

/// The commands below a command, each with what it does.
fn commands_below(name: &str) -> Option<String> {
    let all = crate::args::command();
    let below = all.find_subcommand(name)?.get_subcommands().filter(|sub| !sub.is_hide_set());
    let rows = below.map(|sub| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  webstone {name} {:8} {about}", sub.get_name())
    });
    let rows: Vec<String> = rows.collect();
    (!rows.is_empty()).then(|| rows.join("\n"))
}

/// A rule with the value in front, unless it contains the value.
fn named(rule: &str, value: &str) -> String {
    if rule.contains('`') { rule.to_owned() } else { format!("`{value}`: {rule}") }
}

fn is_negative(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `--clients <LEVELS>` and `-c <LEVELS>` without the value's name.
fn option_name(full: &str) -> String {
    // Of an optional value: `--follow[=<N>]`.
    let full = if full.starts_with('-') { full.split('[').next().unwrap_or(full) } else { full };
    let name = full.split([' ', '=']).next().unwrap_or(full);
    name.trim_end_matches("...").to_owned()
}

/// The command that was typed, if it exists: its help explains what went wrong.
fn command_name(arguments: &[OsString]) -> Option<String> {
    let known = crate::args::command();
    let typed = arguments.iter().skip(1).filter_map(|word| word.to_str());
    typed.map(str::to_owned).find(|word| known.find_subcommand(word).is_some())
}

/// The meaning of -q in other load generators, and here.
pub(crate) const QUIET: &str = "-q is --quiet and takes no value; a rate, which hey and oha call -q, is -R here: the total, as in -R 1000";

/// Whether a word directly follows another on the command line.
fn follows(arguments: &[OsString], before: &str, word: &str) -> bool {
    arguments.windows(2).any(|pair| pair[0] == before && pair[1] == word)
}

fn did_you_mean(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("did you mean {}?", names.join(" or "))
}

/// The command that was probably meant: the same letters in another order, or its name in other programs.
fn meant(word: &str) -> Option<String> {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let known = match word {
        "bench" | "benchmark" | "start" | "test" | "load" | "sweep" => "run",
        "ls" | "runs" | "records" | "results" => "list",
        "show" | "print" | "view" | "open" => "report",
        "diff" | "cmp" | "vs" => "compare",
        "attack" | "get" | "curl" | "wrk" => "hit",
        "search" | "slo" | "limit" => "find",
        "stress" => "workout",
        "server" => "serve",
        "sign" => "certify",
        "version" => "--version",
        _ => {
            let all = crate::args::command();
            let mut names = all.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name());
            return names.find(|name| sorted(name) == sorted(word)).map(str::to_owned);
        }
    };
    Some(known.to_owned())
}

/// A hint for options of other load generators that have another meaning here, or none.
fn unknown_option_hint(argument: &str) -> Option<String> {
    let hint = match argument {
        "-z" | "--time" => "the duration, which hey and oha call -z, is -d here, as in -d 10s",
        "--vus" | "--users" | "--concurrency" => {
            "the number of clients (virtual users) is -c here, as in -c 10"
        }
        "--qps" | "--rps" => "the rate is -R here: the total, as in -R 1000",
        "-X" => "the method, which curl calls -X, is -m here, as in -m HEAD",
        "--data" => "the body is --body here: text, or @FILE",
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_split_from_the_rule() {
        assert_eq!(
            split_remedy("`x` is not y: write z, as in a: b"),
            ("`x` is not y", Some("write z, as in a: b"))
        );
        assert_eq!(split_remedy("no digits; write one"), ("no digits", Some("write one")));
        assert_eq!(split_remedy("simply wrong"), ("simply wrong", None));
    }

    #[test]
    fn a_command_is_guessed_from_what_others_call_it() {
        assert_eq!(meant("rnu").as_deref(), Some("run"));
        assert_eq!(meant("ls").as_deref(), Some("list"));
        assert_eq!(meant("xyzzy"), None);
        assert_eq!(did_you_mean(&["hit", "history"]), "did you mean `hit` or `history`?");
    }

    #[test]
    fn help_of_a_command_is_its_own() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(help_command(&words("webstone help run")), Some(words("webstone run --help")));
        assert_eq!(help_command(&words("webstone help")), Some(words("webstone --help")));
        assert_eq!(help_command(&words("webstone run help")), None);
    }

    #[test]
    fn a_url_without_a_command_is_a_hit() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, expected) in [
            ("w http://a/", Some("w hit http://a/")),
            ("w HTTPS://a/ -c 4", Some("w hit HTTPS://a/ -c 4")),
            ("w -t4 -c10 -d1s http://a/", Some("w hit -t4 -c10 -d1s http://a/")),
            ("w -t 4 --proxy http://p/ http://a/", Some("w hit -t 4 --proxy http://p/ http://a/")),
            ("w hit http://a/", None),
            ("w -q run http://a/", None),
            ("w --color never run http://a/", None),
            ("w null-server http://a/", None),
            ("w rnu http://a/", None),
            ("w -t4", None),
            ("w ftp://a/", None),
            ("w", None),
        ] {
            assert_eq!(hit_command(&words(line)), expected.map(words), "{line}");
        }
        assert_eq!(hit_command(&[]), None);
    }

    #[test]
    fn a_place_lacks_only_the_protocol() {
        for word in ["localhost", "localhost/x", "127.0.0.1", "web:8080", "127.0.0.1:80/x?y"] {
            assert!(is_place(word), "{word}");
        }
        for word in ["runn", "testbed.toml", "", ":", "ftp://a/", "a b:80"] {
            assert!(!is_place(word), "{word}");
        }
    }

    #[test]
    fn an_options_name_stands_alone() {
        assert_eq!(option_name("--clients <LEVELS>"), "--clients");
        assert_eq!(option_name("--color=<WHEN>"), "--color");
        assert_eq!(option_name("<URL>"), "<URL>");
    }
}
