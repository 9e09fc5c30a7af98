//! Compares webstone with other load generators on one nginx: interleaved, paired by round, pinned. See `README.md`.

mod arguments;
mod bars;
mod children;
mod modes;
mod nginx;
mod report;
mod statistics;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use arguments::Arguments;
use children::Cpus;
use modes::Mode;
use nginx::Nginx;
use report::{Run, Session};
use tools::Tool;

/// Beyond its measured time a tool may take so long to start, drain and print.
const GRACE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: --help lists the options");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = children::end_them_on_signals() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let outcome = compare(&arguments);
    if let Some(code) = children::interrupted() {
        eprintln!("interrupted; what was measured is kept");
        return ExitCode::from(code);
    }
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The whole session; whether every bar that was measured was met.
fn compare(arguments: &Arguments) -> Result<bool, String> {
    let webstone = match &arguments.webstone {
        Some(path) => path.clone(),
        None => build_webstone()?,
    };
    let cpus = Cpus::choose(arguments.server_cpu, arguments.client_cpu);
    let tools = Tool::installed(&webstone, &arguments.tools)?;
    let folder = tempfile::Builder::new()
        .prefix("webstone-benchsuite-")
        .tempdir()
        .map_err(|error| format!("no temporary directory: {error}"))?;
    let nginx = Nginx::start(folder.path(), &webstone, cpus.server)?;
    let output = arguments.output.clone().unwrap_or_else(|| repository().join("benchsuite/runs"));
    let mut session = Session::begin(&output, arguments, &tools, &cpus)?;
    println!("{} on {}, records in {}", names(&tools), nginx.base_url(), session.folder().display());

    for mode in &arguments.modes {
        let able: Vec<&Tool> =
            tools.iter().filter(|tool| tool.command(*mode, &nginx.target(), arguments).is_some()).collect();
        println!("{}: {}", mode.name(), names(able.iter().copied()));
        for round in 0..arguments.rounds {
            for step in 0..able.len() {
                // Each round starts with another tool, so that none always follows the same neighbour's wake.
                let tool = able[(step + round as usize) % able.len()];
                let run = measure(tool, *mode, round, &nginx, arguments, &cpus)?;
                println!("  {:>2} {:<15} {}", round + 1, tool.name, run.summary());
                session.keep(run)?;
            }
        }
    }
    session.finish()
}

fn measure(
    tool: &Tool,
    mode: Mode,
    round: u32,
    nginx: &Nginx,
    arguments: &Arguments,
    cpus: &Cpus,
) -> Result<Run, String> {
    let command = tool
        .command(mode, &nginx.target(), arguments)
        .ok_or_else(|| format!("{} cannot do {}", tool.name, mode.name()))?;
    let limit = Duration::from_secs(arguments.seconds) + GRACE;
    let finished =
        children::run(&command, cpus.client, limit).map_err(|error| format!("{}: {error}", tool.name))?;
    if children::interrupted().is_some() {
        return Err("interrupted".to_owned());
    }
    let measured =
        if finished.success { tool.read(mode, &finished.stdout) } else { Err("it failed".to_owned()) };
    Ok(Run::new(tool.name, mode, round, command, finished, measured))
}

fn build_webstone() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--package", "webstone"])
        .current_dir(repository())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}\nhint: give --webstone PATH"))?;
    if !status.success() {
        return Err("webstone does not build".to_owned());
    }
    // Beside this program, wherever the target directory is.
    let here = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let release = here.ancestors().nth(2).map(|target| target.join("release/webstone"));
    match release.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            Err("webstone was built, but is not beside this program\nhint: give --webstone PATH".to_owned())
        }
    }
}

fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

fn names<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> String {
    tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}
