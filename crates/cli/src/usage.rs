//! What the parser of the command line complains about, in the same form as every other error of this program: one
//! sentence with the option, the value and the rule, and the remedy on a line of its own.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use webstone_model::target::Target;

use crate::failure::Failure;

/// What to do about the back end, which earlier versions let one choose.
pub(crate) const BACKEND_GONE: &str =
    "leave it out: event loops use epoll, as they did by default; io_uring and the choice are gone";

/// What came of parsing a wrong command line, or one that asks for help.
#[derive(Debug)]
pub enum Usage {
    /// Text to be printed on standard output: help or version.
    Print(clap::error::Error),
    /// Something is wrong.
    Wrong(Failure),
}

impl Usage {
    /// Tells the two apart. `arguments` are those that were parsed, the program's name first.
    pub fn of(error: clap::Error, arguments: &[OsString]) -> Usage {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Usage::Print(error),
            _ => Usage::Wrong(failure(&error, command_name(arguments).as_deref())),
        }
    }
}

/// Splits `…; write …` and `…: write …`, the form in which parsers of values give the remedy.
pub(crate) fn split_remedy(message: &str) -> (&str, Option<&str>) {
    let at = [": write ", "; write "].into_iter().filter_map(|mark| message.rfind(mark)).max();
    match at {
        Some(at) => (&message[..at], Some(&message[at + 2..])),
        None => (message, None),
    }
}

fn failure(error: &clap::Error, command: Option<&str>) -> Failure {
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
        None => "`webstone --help` shows what can be typed".to_owned(),
    };
    match error.kind() {
        ErrorKind::ValueValidation => {
            let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let (rule, remedy) = split_remedy(&source);
            let failure = Failure::usage(format!("{argument}: {}", named(rule, &value)));
            failure.hint(remedy.map_or(help, str::to_owned))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            Failure::usage(format!("{argument}: a value is missing")).hint(help)
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
            Failure::usage(format!("{argument} is read as an option, and there is no such option"))
                .hint("no value can be negative here")
        }
        ErrorKind::UnknownArgument => {
            let failure = Failure::usage(format!("{argument}: there is no such option"));
            match (text(ContextKind::SuggestedArg), unknown_option_hint(&argument)) {
                (_, Some(hint)) => failure.hint(hint),
                (Some(near), None) => failure.hint(format!("did you mean `{}`?", option_name(&near))),
                (None, None) if !argument.starts_with('-') => {
                    Failure::usage(format!("`{argument}` is one argument too many")).hint(help)
                }
                (None, None) => failure.hint(help),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint = match text(ContextKind::SuggestedSubcommand) {
                Some(near) => format!("did you mean `{near}`?"),
                None if command == Some("workloads") => {
                    format!(
                        "`webstone workloads` lists the workloads, `webstone workloads show {name}` prints one"
                    )
                }
                None if Target::split(&name).is_ok() => {
                    format!("to benchmark it, `webstone run {name}`; for one URL, `webstone hit {name}`")
                }
                None => "`webstone --help` lists the commands".to_owned(),
            };
            Failure::usage(format!("`{name}` is not a command")).hint(hint)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::usage("a command is missing").hint("`webstone --help` lists the commands")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(list)) => {
                    list.iter().map(|full| full.replace("...", "")).collect()
                }
                _ => Vec::new(),
            };
            Failure::usage(format!("{} is missing", missing.join(" and "))).hint(help)
        }
        ErrorKind::ArgumentConflict => {
            let other = text(ContextKind::PriorArg).map(|full| option_name(&full)).unwrap_or_default();
            if other == argument {
                return Failure::usage(format!("{argument} is given twice")).hint("give it once");
            }
            Failure::usage(format!("{argument} and {other} exclude each other")).hint("leave out one of them")
        }
        _ => {
            // What is left is rare (a value that is not UTF-8, a flag with `=value`); clap's own first line is a
            // sentence with option and rule.
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            Failure::usage(first.trim_start_matches("error: ").to_owned()).hint(help)
        }
    }
}

/// A rule names the value, whoever wrote it.
fn named(rule: &str, value: &str) -> String {
    if rule.contains('`') { rule.to_owned() } else { format!("`{value}`: {rule}") }
}

fn is_negative(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `--clients <LEVELS>` and `-c <LEVELS>` without what follows the option.
fn option_name(full: &str) -> String {
    let name = full.split([' ', '=']).next().unwrap_or(full);
    name.trim_end_matches("...").to_owned()
}

/// The command that was typed, if it is one: its help explains what went wrong.
fn command_name(arguments: &[OsString]) -> Option<String> {
    let known = crate::args::command();
    let typed = arguments.iter().skip(1).filter_map(|word| word.to_str());
    typed.map(str::to_owned).find(|word| known.find_subcommand(word).is_some())
}

/// Options of other load generators that mean something else here, or nothing yet; and those of earlier versions.
fn unknown_option_hint(argument: &str) -> Option<String> {
    let hint = match argument {
        "-k" | "--insecure" => {
            "TLS (https) is not supported in this version; to keep connections alive, write -K or --keep-alive"
        }
        "--backend" => BACKEND_GONE,
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
    fn an_options_name_stands_alone() {
        assert_eq!(option_name("--clients <LEVELS>"), "--clients");
        assert_eq!(option_name("--color=<WHEN>"), "--color");
        assert_eq!(option_name("<URL>"), "<URL>");
    }
}
