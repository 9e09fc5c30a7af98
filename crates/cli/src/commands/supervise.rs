//! `webstone supervise`: the process between a run and a server of somebody else. Not for people; `servers::running` starts
//! it, and it starts itself once more to become the server.

use std::ffi::OsString;

use webstone_lab::supervisor::{Supervision, become_server, supervise};
use webstone_model::spec::parse_cpu_list;
use webstone_store::scratch::guard;

use crate::args::SuperviseArgs;
use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: SuperviseArgs) -> Result<Exit, Failure> {
    let SuperviseArgs { remove, cpus, user, output, companions, become_beneath, words } = args;
    let cpus = parse_cpu_list(cpus.as_deref().unwrap_or_default()).map_err(Failure::usage)?;
    let split = |line: &String| {
        let words = shlex::split(line).filter(|words| !words.is_empty());
        words.ok_or_else(|| Failure::usage(format!("--companion `{line}`: it is no command")))
    };
    let companions = companions
        .iter()
        .map(|line| Ok(split(line)?.into_iter().map(OsString::from).collect()))
        .collect::<Result<Vec<Vec<OsString>>, Failure>>()?;
    if words.is_empty() {
        let Some(directory) = remove else {
            return Err(Failure::usage("nothing is to be supervised: no program, and no directory"));
        };
        return guard(&directory)
            .map(|()| Exit::Done)
            .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", directory.display())));
    }
    let program = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let what = Supervision { words, companions, cpus, user, output, remove };
    let error = match become_beneath {
        Some(supervisor) => become_server(&what, supervisor),
        None => {
            let told = supervise(&what, &mut |line| {
                // The run reads this; where it is gone, so is the reader.
                let _ = console::print(&format!("{line}\n"));
            });
            match told {
                Ok(()) => return Ok(Exit::Done),
                Err(error) => error,
            }
        }
    };
    Err(Failure::failed(format!("cannot start {program}: {error}")))
}
