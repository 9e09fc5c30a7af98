//! `webstone ui`: the browser front, and what it needs from the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use webstone_lab::servers;
use webstone_model::powers;
use webstone_model::series::Kind;
use webstone_model::spec::{ServerSpec, Software};
use webstone_runner::{Feeds, series};
use webstone_store::redaction;
use webstone_ui::{Bound, Desk, KnownServer, Options, Planned, Problem, UiError};
use webstone_workload::builtins;

use super::calibrate;
use super::typed::Typist;
use crate::args::{self, Command, SeriesArgs, UiArgs};
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::{self, Intent, RUNS_DIR, series_failure};
use crate::signals::SignalWatch;
use crate::{flags, version};

/// The name in messages of a form's testbed; there is no such file.
const TESTBED: &str = "testbed.toml";
/// The answer to the first Ctrl-C.
const ENDING: &str = "the front ends; runs that are on go on";

pub(super) fn execute(args: &UiArgs, console: &Console) -> Result<Exit, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot tell which program this is: {error}")))?;
    let runs_dir = args.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR));
    // Runs are started in other directories, and pages show the path.
    let runs_dir =
        std::path::absolute(&runs_dir).map_err(|error| Failure::file("find", &runs_dir, &error))?;
    if runs_dir.exists() && !runs_dir.is_dir() {
        let message = format!("--runs-dir: `{}` is not a directory", runs_dir.display());
        return Err(Failure::usage(message).hint("name the directory with the runs; it may not exist yet"));
    }
    let options = Options {
        port: args.port.unwrap_or(0),
        runs_dir,
        program,
        read_only: args.read_only,
        allow_commands: args.allow_commands,
        until_idle: args.until_idle,
    };
    let signals = SignalWatch::saying(ENDING)?;
    let bound = Bound::new(options, Arc::new(CommandLine::new())).map_err(|error| failure(&error))?;
    console::print(&format!("{}\n", bound.url()))?;
    console.note("open this address in a browser on this host; Ctrl-C ends the front, not the runs");
    bound.serve(|| signals.exit().is_some()).map_err(|error| failure(&error))?;
    Ok(signals.exit().unwrap_or(Exit::Done))
}

fn failure(error: &UiError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        UiError::Listen { port, .. } if *port != 0 => failure.hint("leave out --port to have a free one"),
        _ => failure,
    }
}

/// The command line, as the front uses it.
#[derive(Debug)]
struct CommandLine {
    typist: Typist,
}

impl CommandLine {
    fn new() -> CommandLine {
        CommandLine { typist: Typist::new(args::command()) }
    }
}

impl Desk for CommandLine {
    fn plan(&self, command: &str, testbed: &str) -> Result<Planned, Problem> {
        let words = ["webstone", command, "-f", TESTBED].map(OsString::from);
        let parsed = self.typist.parsed(words);
        let parsed = parsed.map_err(|error| Problem { message: error.to_string(), ..Problem::default() })?;
        let planned = match &parsed.command {
            Command::Run(args) => {
                intent::of_run_of(args, testbed).and_then(of_a_workload_that_exists).map(|intent| Planned {
                    // A page of its own stands in the testbed file alone.
                    command_line: intent.workload.is_none().then(|| self.typist.run(&intent.spec)).flatten(),
                    spec: intent.spec,
                    cells: Vec::new(),
                    rounds: 0,
                    warnings: Vec::new(),
                })
            }
            Command::Servers(args) => of_series(Kind::Servers, &args.series, testbed),
            Command::Scale(args) => of_series(Kind::Scale, args, testbed),
            Command::Spice(args) => of_series(Kind::Spice, args, testbed),
            _ => Err(Failure::usage(format!("`webstone {command}` takes no testbed file"))),
        };
        planned.map_err(problem)
    }

    fn servers(&self) -> Vec<KnownServer> {
        let known = |software: Software| {
            let found = servers::find(&ServerSpec { software, ..ServerSpec::default() });
            let (installed, hint) = match (software, found) {
                (Software::Reference, _) => {
                    (Some(format!("webstone {}", env!("CARGO_PKG_VERSION"))), "embedded".to_owned())
                }
                (_, Ok(found)) => (Some(found.version), String::new()),
                (_, Err(_)) => match servers::unusable(software) {
                    Some(found) => (None, found.to_string()),
                    None => {
                        let how = servers::driver(software).map_or("", |driver| driver.install);
                        (None, how.trim_start_matches("Debian: ").to_owned())
                    }
                },
            };
            KnownServer { name: software.name(), installed, hint }
        };
        let named = Software::ALL.into_iter().filter(|software| *software != Software::Command);
        named.map(known).collect()
    }

    fn workloads(&self) -> Vec<(String, String)> {
        builtins().iter().map(|builtin| (builtin.name.to_owned(), builtin.summary.to_owned())).collect()
    }

    fn calibration(&self) -> Option<String> {
        let stored = webstone_runner::calibrate::read(&calibrate::file()?).ok().flatten()?;
        let best = stored.rows.iter().max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s))?;
        let shared = if stored.shared_cpus { ", sharing its CPUs with the server" } else { "" };
        let day = stored.made_at.get(..10).unwrap_or_default();
        Some(format!("{}{shared}; measured {day}", webstone_report::calibration_line(best)))
    }

    fn version(&self) -> String {
        version::LINE.to_owned()
    }
}

/// A run reads its workload when it starts; a form reports at once if it does not exist. Files outside the front's
/// directory are not read, because a message about a file may quote it.
fn of_a_workload_that_exists(intent: Intent) -> Result<Intent, Failure> {
    let is_near = powers::asked(&intent.spec).iter().all(|one| one.key != "workload");
    if intent.workload.is_none() && is_near {
        super::load_workload(&intent.spec.workload, Feeds::Below).map_err(|mut failure| {
            failure.message.insert_str(0, "workload: ");
            failure
        })?;
    }
    Ok(intent)
}

fn of_series(kind: Kind, args: &SeriesArgs, testbed: &str) -> Result<Planned, Failure> {
    let intent = intent::of_series_of(kind, args, testbed)?;
    let series = series::plan(kind, &intent.matrix, &intent.spec, version::tool(), &[]);
    let series = series.map_err(|error| series_failure(&error, kind))?;
    Ok(Planned {
        spec: intent.spec,
        cells: series.cells.iter().map(|cell| cell.name.clone()).collect(),
        rounds: series.rounds,
        warnings: series.warnings,
        command_line: None,
    })
}

/// A message for people, converted for a form, where names of files and flags have no meaning.
fn problem(mut failure: Failure) -> Problem {
    fn shown(text: &str) -> String {
        flags::without_flags(&redaction::message(text))
    }
    failure.message = shown(&failure.message);
    failure.hint = failure.hint.as_deref().map(shown);
    let rest = failure.message.strip_prefix("testbed file ").and_then(|rest| rest.strip_prefix(TESTBED));
    let Some(rest) = rest else {
        // A rule that concerns no line begins with the key, or the flag that sets it.
        let key = failure.message.split_once(": ").map(|(key, _)| key.to_owned());
        let key = key.filter(|key| (key.contains('.') && !key.contains(' ')) || key == "workload");
        return Problem { key, line: None, message: failure.message, hint: failure.hint };
    };
    let line = rest.strip_prefix(", line ").and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    let message = rest.split_once(": ").map_or(rest, |(_, message)| message).to_owned();
    Problem { key: None, line, message, hint: failure.hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(command: &str, text: &str) -> Result<Planned, Problem> {
        CommandLine::new().plan(command, text)
    }

    #[test]
    fn a_testbed_is_planned_as_the_command_line_would() {
        let run = planned("run", "[load]\nclients = \"5,10\"\n").unwrap();
        assert_eq!((run.spec.load.clients.0.as_slice(), run.cells.len()), (&[5, 10][..], 0));
        let page = planned("run", "target = [\"http://127.0.0.1:8080/x\"]\n").unwrap();
        assert_eq!((&*page.spec.workload, page.command_line), ("/x", None));
        let text = "[series]\nservers = [\"reference\"]\nconnections = [\"keep-alive\", \"per-request\"]\n";
        let series = planned("servers", text).unwrap();
        assert_eq!((series.cells.len(), series.rounds), (2, 3), "{:?}", series.cells);
    }

    #[test]
    fn a_problem_has_its_line_and_no_name_of_a_file() {
        let wrong = planned("run", "name = \"a\"\n[load]\nclients = \"ten\"\n").unwrap_err();
        assert_eq!(wrong.line, Some(3), "{wrong:?}");
        assert!(wrong.message.contains("`ten`") && !wrong.message.contains("testbed file"), "{wrong:?}");
        assert!(wrong.hint.is_some());
        let slip = planned("run", "[load]\ncleints = \"1\"\n").unwrap_err();
        assert_eq!((slip.line, slip.hint.as_deref()), (Some(2), Some("did you mean `clients`?")), "{slip:?}");
        let cpus = planned("scale", "[series]\ncpus = [1, 4000]\n").unwrap_err();
        assert_eq!(cpus.key.as_deref(), Some("series.cpus"), "{cpus:?}");
        // A rule about several keys has no line.
        let rule = planned("run", "[load]\naa = true\n").unwrap_err();
        assert_eq!(rule.key.as_deref(), Some("load.iterations"), "{rule:?}");
        assert!(!rule.message.contains("--") && rule.message.contains("load.aa"), "{rule:?}");
    }
}
