//! The table of flags: [`flags!`] declares a flag with its help, parser and example, and also the key of a testbed
//! that it sets, its default, and how it changes a specification.
//!
//! The parentheses after the type of a flag contain:
//!
//! | entry | meaning |
//! |---|---|
//! | `(load.drain)` | the value is for that field, whose value in [`RunSpec`] is the default |
//! | `(client.body = "none")` | this default is in the help |
//! | `(server.backlog = \|run\| …)` | a default computed from the specification is in the help |
//! | `(series?.builds = "none")` | the same, and the section is created if it is absent |
//! | `(load.pages, \|args, run\| …)` | this is done if the flag was typed; messages name the key |
//! | `(server.tls.cert & server.tls.key, …)` | messages about either key name the flag |
//! | `(= "text")` | a default in the help of a flag that is not part of a specification |
//! | `(..)` | flags of another struct |

use std::path::PathBuf;

use clap::{Arg, Command};
use serde::Serialize;
use serde_json::Value;
use webstone_model::spec::RunSpec;

use super::{
    CheckfilesArgs, DuelArgs, FindArgs, GenfilesArgs, HitArgs, RunArgs, SeriesArgs, ServeArgs, WorkoutArgs,
};
use crate::failure::Failure;
use crate::intent;

/// Properties of a flag that clap does not know.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Its name in clap.
    pub(crate) id: &'static str,
    /// Keys of a testbed that it sets.
    pub(crate) keys: &'static [&'static str],
    /// Its default in the help, if everything else is as in this specification; empty if the help's own text has it.
    pub(super) default: fn(&RunSpec) -> String,
}

/// Flags of a command, or of several.
pub(crate) trait Flags {
    /// All entries.
    fn table() -> Vec<Flag>;

    /// Applies what was typed to a specification; changes nothing else.
    fn lay_over(&self, spec: &mut RunSpec) -> Result<(), Failure>;

    /// Keys that were typed, whatever their values.
    fn typed_keys(&self) -> Vec<&'static str>;
}

macro_rules! flags {
    (
        $(#[$about_all:meta])*
        pub struct $Args:ident {
            $( $(#[$about:meta])* pub $name:ident: $Type:ty $(=> ($($entry:tt)+))?, )*
        }
    ) => {
        #[derive(Debug, clap::Args)]
        $(#[$about_all])*
        pub struct $Args {
            $( $(#[$about])* pub $name: $Type, )*
        }

        impl crate::args::table::Flags for $Args {
            fn table() -> Vec<crate::args::table::Flag> {
                [$( $( flags!(@flag $name $Type, $($entry)+), )? )*].into_iter().flatten().collect()
            }

            fn lay_over(
                &self,
                spec: &mut webstone_model::spec::RunSpec,
            ) -> Result<(), crate::failure::Failure> {
                let _ = &spec;
                $( $( flags!(@lay self spec $name, $($entry)+); )? )*
                Ok(())
            }

            fn typed_keys(&self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $( $( flags!(@typed self keys $name, $($entry)+); )? )*
                keys
            }
        }
    };

    (@flag $name:ident $Type:ty, ..) => { <$Type as crate::args::table::Flags>::table() };
    (@flag $name:ident $Type:ty,
        $($first:ident $(. $key:ident)* $(? . $field:ident)? $(& $also:ident $(. $and:ident)*)?)?
        $(= $words:literal)? $(= |$run:pat_param| $default:expr)? $(, $($set:tt)+)?
    ) => {
        vec![crate::args::table::Flag {
            id: stringify!($name),
            keys: &[
                $(
                    concat!(stringify!($first) $(, ".", stringify!($key))* $(, ".", stringify!($field))?),
                    $(concat!(stringify!($also) $(, ".", stringify!($and))*),)?
                )?
            ],
            default: flags!(@default
                [$($words)? $(|$run| $default)?] $($first $(. $key)* $(? . $field)?)?),
        }]
    };

    (@default [$words:literal] $($path:tt)*) => { |_| $words.to_owned() };
    (@default [|$run:pat_param| $default:expr] $($path:tt)*) => {
        |$run: &webstone_model::spec::RunSpec| $default
    };
    (@default [] $first:ident $(. $key:ident)*) => {
        |run| crate::args::table::text_of(&run.$first $(. $key)*)
    };
    (@default [] $first:ident $(. $key:ident)* ? . $field:ident) => {
        |run| {
            let section = run.$first $(. $key)*.as_ref();
            section.map_or_else(String::new, |section| crate::args::table::text_of(&section.$field))
        }
    };

    (@lay $args:ident $spec:ident $name:ident, ..) => { $args.$name.lay_over($spec)? };
    (@lay $args:ident $spec:ident $name:ident, = $($default:tt)+) => {};
    (@lay $args:ident $spec:ident $name:ident,
        $first:ident $(. $key:ident)* ? . $field:ident $(& $also:ident $(. $and:ident)*)?
        $(= $words:literal)? $(= |$run:pat_param| $default:expr)?
    ) => {
        if crate::args::table::Typed::is_typed(&$args.$name) {
            let section = $spec.$first $(. $key)*.get_or_insert_default();
            crate::args::table::Lay::lay(&$args.$name, &mut section.$field);
        }
    };
    (@lay $args:ident $spec:ident $name:ident,
        $first:ident $(. $key:ident)* $(= $words:literal)? $(= |$run:pat_param| $default:expr)?
    ) => {
        crate::args::table::Lay::lay(&$args.$name, &mut $spec.$first $(. $key)*)
    };
    (@lay $args:ident $spec:ident $name:ident,
        $first:ident $(. $key:ident)* $(? . $field:ident)? $(& $also:ident $(. $and:ident)*)?
        $(= $words:literal)? $(= |$run:pat_param| $default:expr)?, |$these:pat_param, $over:pat_param| $set:expr
    ) => {
        if crate::args::table::Typed::is_typed(&$args.$name) {
            let $these = $args;
            let $over = &mut *$spec;
            $set;
        }
    };

    (@typed $args:ident $keys:ident $name:ident, ..) => { $keys.extend($args.$name.typed_keys()) };
    (@typed $args:ident $keys:ident $name:ident, = $($default:tt)+) => {};
    (@typed $args:ident $keys:ident $name:ident,
        $first:ident $(. $key:ident)* $(? . $field:ident)? $(& $($also:ident).+)? $(= $words:literal)?
        $(= |$run:pat_param| $default:expr)? $(, $($set:tt)+)?
    ) => {
        if crate::args::table::Typed::is_typed(&$args.$name) {
            $keys.push(concat!(
                stringify!($first) $(, ".", stringify!($key))* $(, ".", stringify!($field))?
            ));
        }
    };
}
pub(super) use flags;

/// A value that may have been typed.
pub(super) trait Typed {
    /// Whether it was.
    fn is_typed(&self) -> bool;
}

impl<T> Typed for Option<T> {
    fn is_typed(&self) -> bool {
        self.is_some()
    }
}

impl<T> Typed for Vec<T> {
    fn is_typed(&self) -> bool {
        !self.is_empty()
    }
}

impl Typed for bool {
    fn is_typed(&self) -> bool {
        *self
    }
}

/// Sets a field of a specification if it was typed.
pub(super) trait Lay<Field> {
    /// Sets it.
    fn lay(&self, field: &mut Field);
}

impl<T: Clone> Lay<T> for Option<T> {
    fn lay(&self, field: &mut T) {
        if let Some(value) = self {
            field.clone_from(value);
        }
    }
}

impl<T: Clone> Lay<Option<T>> for Option<T> {
    fn lay(&self, field: &mut Option<T>) {
        if self.is_some() {
            field.clone_from(self);
        }
    }
}

/// A path as in a specification, which is a text file: it cannot represent a path that is not UTF-8.
impl Lay<Option<String>> for Option<PathBuf> {
    fn lay(&self, field: &mut Option<String>) {
        if let Some(path) = self {
            *field = Some(path.to_string_lossy().into_owned());
        }
    }
}

impl<T: Clone> Lay<Vec<T>> for Vec<T> {
    fn lay(&self, field: &mut Vec<T>) {
        if !self.is_empty() {
            field.clone_from(self);
        }
    }
}

impl Lay<bool> for bool {
    fn lay(&self, field: &mut bool) {
        *field |= self;
    }
}

/// A value of the specification in the form in which it is typed.
pub(super) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|error| error.to_string(), |value| typed(&value))
}

/// The same for a value from a file.
pub(crate) fn typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(is) => if *is { "on" } else { "off" }.to_owned(),
        Value::Array(items) => items.iter().map(typed).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// The flags of a command.
pub(crate) fn table(command: &str) -> Vec<Flag> {
    match command {
        "run" => RunArgs::table(),
        "hit" => HitArgs::table(),
        "find" => FindArgs::table(),
        "servers" | "scale" | "spice" => SeriesArgs::table(),
        "duel" => DuelArgs::table(),
        "workout" => WorkoutArgs::table(),
        "serve" => ServeArgs::table(),
        "genfiles" => GenfilesArgs::table(),
        "checkfiles" => CheckfilesArgs::table(),
        _ => Vec::new(),
    }
}

/// Options in the short help of a command with more than [`SHORT_MAX`] options; its `--help` has all.
#[rustfmt::skip] // one name per line would be a long list
const COMMON: [&str; 37] = [
    "testbed", "workload", "clients", "rate", "duration", "iterations", "pages", "requests", "warmup",
    "connections", "keep_alive", "http", "headers", "insecure", "workers", "server", "server_cpus",
    "server_agent", "name", "format", "output", "dump_spec", "threshold", "require", "slo", "over", "from", "to",
    "resolution", "rounds", "offenders", "misdeeds", "resume", "profiles", "interfaces", "cpus", "plan",
];
const SHORT_MAX: usize = 40;

/// The definition with defaults in the help of all flags that take a value.
pub(super) fn documented(command: Command) -> Command {
    let global = command.get_arguments().count();
    let command = command.mut_args(|arg| match arg.get_id() == "color" {
        true => with_default(arg, "auto"),
        false => arg,
    });
    command.mut_subcommands(|command| {
        let (table, spec) = (table(command.get_name()), intent::defaults(command.get_name()));
        let command = command.mut_args(|arg| match table.iter().find(|flag| arg.get_id() == flag.id) {
            Some(flag) if arg.get_action().takes_values() => with_default(arg, &(flag.default)(&spec)),
            _ => arg,
        });
        let own = command.get_arguments().filter(|arg| !arg.is_positional()).count();
        if own < SHORT_MAX {
            return command;
        }
        // --help is an option, too.
        let rest = format!("`webstone {} --help` has all {} options.", command.get_name(), own + global + 1);
        command.after_help(rest).mut_args(|arg| match arg.get_help() {
            Some(help) if !arg.is_positional() && !COMMON.contains(&arg.get_id().as_str()) => {
                // Manual pages have no other text for a hidden argument.
                let long = arg.get_long_help().unwrap_or(help).clone();
                arg.long_help(long).hide_short_help(true)
            }
            _ => arg,
        })
    })
}

/// Adds the default, unless the help's own text explains it.
fn with_default(arg: Arg, default: &str) -> Arg {
    let short = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let long = arg.get_long_help().map_or_else(|| short.clone(), ToString::to_string);
    if long.contains("Default: ") {
        return arg;
    }
    arg.help(format!("{short} [default: {default}]")).long_help(format!("{long}\n\nDefault: {default}"))
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use webstone_report::{Format, Subject};

    /// The help of every flag with a value has its default and an example.
    #[test]
    fn every_value_has_a_default_and_an_example() {
        let mut seen = 0;
        for command in commands(&super::super::command()) {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                if arg.is_positional() {
                    assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
                    continue;
                }
                seen += 1;
                let help = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
                for part in ["Default: ", "Example: "] {
                    let text = help.split_once(part).map(|(_, text)| text.trim()).unwrap_or_default();
                    assert!(!text.is_empty(), "{} --{} has no `{part}`", command.get_name(), arg.get_id());
                }
            }
        }
        assert!(seen > 50, "{seen} flags seen");
    }

    /// Where help lists endings of files, they are those of the formats that the command has.
    #[test]
    fn endings_in_help_are_those_of_the_formats() {
        let mut seen = 0;
        for command in commands(&super::super::command()) {
            let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == "format") else { continue };
            let help = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
            let Some((_, list)) = help.split_once("(html, ") else { continue };
            let mut told: Vec<&str> = list.split(')').next().unwrap().split(", ").chain(["html"]).collect();
            let formats = match command.get_name() {
                "compare" => Subject::Comparison.formats(),
                "duel" => Subject::Duel.formats(),
                "history" => Subject::History.formats(),
                _ => &Format::ALL,
            };
            let mut known: Vec<&str> = formats.iter().filter_map(|format| format.ending()).collect();
            if !told.contains(&"txt") {
                assert!(help.contains(", else text"), "{}: {help}", command.get_name());
                told.push("txt");
            }
            told.sort_unstable();
            known.sort_unstable();
            assert_eq!(told, known, "{}", command.get_name());
            seen += 1;
        }
        assert!(seen > 5, "{seen} lists seen");
    }

    fn commands(command: &Command) -> Vec<Command> {
        let mut all = vec![command.clone()];
        command.get_subcommands().for_each(|sub| all.extend(commands(sub)));
        all
    }
}
