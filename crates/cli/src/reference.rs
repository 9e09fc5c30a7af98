//! The reference of the command line as Markdown, made from the definition: `docs/cli.md`, and a page for each command.
//!
//! It has the same words as `--help`. The text does not depend on a terminal's width, so that the files in the
//! repository can be compared with what the program makes.

use std::fmt::Write;

use clap::{Arg, Command};

/// The pages: the name of each, from `docs`, and its text.
pub fn pages() -> Vec<(String, String)> {
    let mut root = crate::args::command();
    root.build();
    let mut out = String::from(
        "# Command line\n\n\
         These pages are made from the program's own definition: `cargo xtask docs` writes them again.\n\
         `webstone COMMAND --help` says the same.\n\n",
    );
    out.push_str("| command | what it does |\n|---|---|\n");
    for command in shown(&root) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(out, "| [`webstone {0}`](cli/{0}.md) | {about} |", command.get_name());
    }
    out.push_str("\n## Options of every command\n\n");
    for arg in root.get_arguments().filter(|arg| arg.is_global_set()) {
        option(&mut out, arg);
    }
    out.push_str(EXIT_CODES);
    let mut pages = vec![("cli.md".to_owned(), out)];
    for command in shown(&root) {
        let mut out = String::new();
        section(&mut out, command, "webstone", 1);
        pages.push((format!("cli/{}.md", command.get_name()), out));
    }
    for (_, page) in &mut pages {
        // One empty line between paragraphs, one newline at the end.
        while page.ends_with("\n\n") {
            page.pop();
        }
    }
    pages
}

const EXIT_CODES: &str = "\
## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | webstone failed, or a check found something wrong |
| 2 | the command line, or a file that it names, is not valid |
| 3 | a threshold or a condition of `--fail-if` failed |
| 4 | the verdict is INVALID (broken identities, too many errors, a saturated generator, missing runs and the like) or INCONCLUSIVE, or below `--require` |
| 5 | `certify`: a run rule is not met, and nothing was written |
| 6 | `verify`, `certify`: a record was changed after it was measured, or is not signed as required |
| 129 | interrupted by SIGHUP: the terminal or the connection went away |
| 130 | interrupted by Ctrl-C (SIGINT) |
| 143 | interrupted by SIGTERM |

";

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn section(out: &mut String, command: &Command, parent: &str, depth: usize) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(out, "{} {name}\n\n{}\n\n```\n{usage}\n```\n\n", "#".repeat(depth), escape(&about));

    let positionals: Vec<&Arg> = command.get_positionals().collect();
    if !positionals.is_empty() {
        let _ = write!(out, "{} Arguments\n\n", "#".repeat(depth + 1));
        positionals.iter().for_each(|arg| option(out, arg));
    }
    let mut headings: Vec<&str> = Vec::new();
    for arg in options(command) {
        let heading = heading_of(arg);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(out, "{} {heading}\n\n", "#".repeat(depth + 1));
        options(command).filter(|arg| heading_of(arg) == heading).for_each(|arg| option(out, arg));
    }
    if let Some(after) = command.get_after_long_help() {
        examples(out, &after.to_string());
    }
    shown(command).for_each(|sub| section(out, sub, &name, depth + 1));
}

fn heading_of(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Options")
}

/// The options of a command itself, in the order of their definition.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_opts().chain(command.get_arguments().filter(|arg| !arg.get_action().takes_values())).filter(
        |arg| {
            let id = arg.get_id().as_str();
            !arg.is_global_set() && !arg.is_hide_set() && id != "help" && id != "version"
        },
    )
}

fn option(out: &mut String, arg: &Arg) {
    let mut names = Vec::new();
    if arg.is_positional() {
        names.extend(arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string));
    }
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    names.extend(arg.get_visible_aliases().unwrap_or_default().iter().map(|alias| format!("--{alias}")));
    let value = match arg.get_value_names() {
        Some(values) if arg.get_action().takes_values() && !arg.is_positional() => format!(" {}", values[0]),
        _ => String::new(),
    };
    let _ = write!(out, "**`{}{value}`**\n\n", names.join("`, `"));
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(out, "{}\n\n", escape(&help));
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        for value in values.iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            let _ = writeln!(out, "- `{}`{}", value.get_name(), escape(&help));
        }
        if !values.is_empty() {
            out.push('\n');
        }
    }
}

/// Text after the options: indented lines are examples.
fn examples(out: &mut String, text: &str) {
    let mut in_code = false;
    for line in text.lines() {
        let code = line.starts_with("  ");
        if code != in_code {
            out.push_str(if code { "\n```\n" } else { "```\n" });
            in_code = code;
        }
        let _ = writeln!(out, "{}", if code { line[2..].to_owned() } else { escape(line) });
    }
    if in_code {
        out.push_str("```\n");
    }
    out.push('\n');
}

/// Escapes text so that it is not parsed as markup: angle brackets, stars and pipes outside code.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        in_code ^= c == '`';
        if !in_code && matches!(c, '<' | '>' | '*' | '|') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files in the repository are what the program makes. `UPDATE_DOCS=1` writes them, and removes others.
    #[test]
    fn the_checked_in_reference_is_current() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let made = pages();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let _ = std::fs::remove_dir_all(docs.join("cli"));
            std::fs::create_dir(docs.join("cli")).unwrap();
            made.iter().for_each(|(name, text)| std::fs::write(docs.join(name), text).unwrap());
        }
        let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
        for (name, text) in &made {
            let stored = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
            assert!(stored == *text, "docs/{name} is not current; `cargo xtask docs` writes it again");
            assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md does not name {name}");
        }
        assert_eq!(
            std::fs::read_dir(docs.join("cli")).unwrap().count(),
            made.len() - 1,
            "others in docs/cli"
        );
    }

    #[test]
    fn every_command_and_flag_is_in_it() {
        let pages = pages();
        let mut flags = 0;
        let root = crate::args::command();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("cli/{}.md", command.get_name());
            let (_, text) = pages.iter().find(|(page, _)| *page == name).expect("each command has a page");
            assert!(text.starts_with(&format!("# webstone {}\n", command.get_name())), "{name}");
            for long in command.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(Arg::get_long) {
                assert!(text.contains(&format!("`--{long}")), "--{long}");
                flags += 1;
            }
        }
        assert!(flags > 80, "{flags}");
    }

    #[test]
    fn markup_characters_are_kept_as_text() {
        assert_eq!(escape("a*b <c> `d*e`"), "a\\*b \\<c\\> `d*e`");
    }
}
