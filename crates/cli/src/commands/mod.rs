//! The commands, one file each, and messages for errors of the other crates.

mod agent;
mod archive;
mod calibrate;
mod cell_links;
mod certify;
mod checkfiles;
mod child;
mod compare;
mod completions;
mod duel;
pub(crate) mod gates;
mod generators;
mod genfiles;
mod history;
mod list;
mod manual;
mod mine;
mod note;
mod records;
mod report;
mod respond;
mod run;
mod series;
mod serve;
mod servers;
mod supervise;
mod timeline;
mod typed;
mod ui;
mod verify;
mod workloads;
mod workout;

use std::ffi::OsString;

use webstone_model::series::Kind;
use webstone_runner::Feeds;
use webstone_workload::Workload;

use crate::args::{Command, GeneratorsCommand};
use crate::console::Console;
use crate::failure::{Exit, Failure};
use crate::intent;
pub(crate) use respond::as_cgi;

/// Executes a command. `arguments` are those that were typed, with the program's name first.
pub(crate) fn execute(command: Command, arguments: &[OsString], console: &Console) -> Result<Exit, Failure> {
    let command_line = || arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match command {
        Command::Run(args) if args.dump_spec => run::dump(&intent::of_run(&args)?.spec),
        Command::Run(args) if args.plan => run::plan(&intent::of_run(&args)?.spec),
        Command::Run(args) => run::execute(intent::of_run(&args)?, console, command_line()),
        Command::Hit(args) => run::execute(intent::of_hit(&args)?, console, command_line()),
        Command::Find(args) => run::execute(intent::of_find(&args)?, console, command_line()),
        Command::Duel(args) => duel::execute(&args, console, command_line()),
        Command::Calibrate(args) => calibrate::execute(&args, console),
        Command::Workout(args) => workout::execute(&args, console),
        Command::NullServer(args) => calibrate::serve(&args),
        Command::Serve(args) => serve::execute(&args, console),
        Command::Genfiles(args) => genfiles::execute(&args, console),
        Command::Checkfiles(args) => checkfiles::execute(&args, console),
        Command::Mine(args) => mine::execute(&args, console),
        Command::List(args) => list::execute(&args, console),
        Command::Note(args) => note::execute(&args),
        Command::Report(args) => report::execute(&args, console),
        Command::Certify(args) => certify::execute(&args, console),
        Command::Verify(args) => verify::execute(&args, console),
        Command::Archive(args) => archive::execute(&args, console),
        Command::Compare(args) => compare::execute(&args, console),
        Command::History(args) => match &args.server {
            Some(server) => timeline::execute(server, &args, console),
            None => history::execute(&args, console),
        },
        Command::Workloads(args) => workloads::execute(&args),
        Command::Servers(args) if args.series.is_series() => {
            series::execute(Kind::Servers, &args.series, console, command_line())
        }
        Command::Servers(args) => servers::execute(&args),
        Command::Agent(args) => agent::execute(&args),
        Command::Generators(args) => match args.command {
            GeneratorsCommand::Check(args) => generators::execute(&args, console),
            GeneratorsCommand::Job(args) => generators::job(*args),
        },
        Command::Ui(args) => ui::execute(&args, console),
        Command::Respond(args) => respond::execute(args),
        Command::Scale(args) => series::execute(Kind::Scale, &args, console, command_line()),
        Command::Spice(args) => series::execute(Kind::Spice, &args, console, command_line()),
        Command::Child => child::execute(console),
        Command::Supervise(args) => supervise::execute(&args),
        Command::Completions { shell } => completions::execute(shell),
        Command::Man { dir } => manual::execute(dir.as_deref()),
    }
}

/// The workload with this name, or in this file.
fn load_workload(name: &str, feeds: Feeds) -> Result<Workload, Failure> {
    webstone_runner::load_workload(name, feeds)
        .map_err(|error| Failure { hint: error.hint(), ..Failure::usage(error.to_string()) })
}

/// The same, of which a server has the files: as large as their names say, where nothing else does.
fn load_fileset(name: &str, feeds: Feeds) -> Result<Workload, Failure> {
    let mut workload = load_workload(name, feeds)?;
    workload.take_sizes_of_names();
    Ok(workload)
}
