//! `webstone completions`: a completion script for a shell. In bash it also completes what the definition of the command line does not
//! know: names of stored runs and of servers.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Command;
use clap_complete::Shell;
use webstone_model::spec::Software;

use crate::console;
use crate::failure::{Exit, Failure};
use crate::intent::RUNS_DIR;

pub(super) fn execute(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let mut commands = crate::args::command();
    clap_complete::generate(shell, &mut commands, "webstone", &mut script);
    if shell == Shell::Bash {
        script.extend_from_slice(names(&commands).as_bytes());
    }
    console::print_as_is(&script)?;
    Ok(Exit::Done)
}

/// A function around the generated one, which adds names.
fn names(commands: &Command) -> String {
    let takes = |what: &'static str| {
        let has = move |command: &&Command| {
            command.get_positionals().any(|argument| {
                let names = argument.get_value_names().unwrap_or_default();
                names.iter().any(|name| name.starts_with(what))
            })
        };
        let found: Vec<&str> = commands.get_subcommands().filter(has).map(Command::get_name).collect();
        found.join("|")
    };
    // Their values are the next word.
    let with_value: BTreeSet<String> = commands
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter(|argument| argument.get_action().takes_values() && !argument.is_require_equals_set())
        .flat_map(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(argument.get_short().map(|short| format!("-{short}")))
        })
        .filter(|option| option != "--server")
        .collect();
    let with_value = with_value.into_iter().collect::<Vec<_>>().join("|");
    let servers = Software::ALL.into_iter().filter(|software| *software != Software::Command);
    let servers = servers.map(Software::name).collect::<Vec<_>>().join(" ");
    let mut script = String::new();
    let written = write!(
        script,
        r#"
# Names of stored runs and of servers.
_webstone_names() {{
    _webstone "$@"
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} dir={RUNS_DIR} kind= before= i
    [[ $cur == -* ]] && return
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            --runs-dir) dir=${{COMP_WORDS[i+1]}} ;;
            {runs}) kind=${{kind:-runs}} ;;
            {serving}) kind=${{kind:-servers}} ;;
        esac
    done
    case $prev in
        --server) kind=servers ;;
        {with_value}) return ;;
    esac
    case $kind in
        runs)
            mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(
                compgen -W "last $(cd "$dir" 2> /dev/null && printf '%s\n' *-*/ | tr -d /)" -- "$cur") ;;
        servers)
            [[ $cur == *,* ]] && before=${{cur%,*}},
            mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(
                compgen -P "$before" -W "{servers}" -- "${{cur##*,}}") ;;
    esac
}}
complete -F _webstone_names -o nosort -o bashdefault -o default webstone
"#,
        runs = takes("RUN"),
        serving = takes("SERVER"),
    );
    written.expect("a text can be written to");
    script
}
