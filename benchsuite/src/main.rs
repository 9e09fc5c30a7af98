//! Compares webstone with other load generators on an nginx and on a canned server: interleaved, paired by round, pinned.
//! See `README.md`.

mod arguments;
mod bars;
mod caddy;
mod canned;
mod children;
mod disturbance;
mod handshakes;
mod modes;
mod nginx;
mod readings;
mod run;
mod session;
mod statistics;
mod tables;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use arguments::Arguments;
use caddy::Caddy;
use canned::Canned;
use children::{Cpus, Group, How};
use clap::Parser as _;
use disturbance::Disturbance;
use handshakes::Handshakes;
use modes::{Case, Mode, Server};
use nginx::Nginx;
use run::Run;
use session::Session;
use tools::{Built, Target, Tool};

/// Time that a tool may take besides its measured time: to start, drain and print.
const GRACE: Duration = Duration::from_secs(30);
/// Descriptors that a load generator needs besides one per client; a generous guess.
const DESCRIPTORS_BESIDE: u64 = 200;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
        None => build("webstone", false)?,
    };
    let baseline = match &arguments.baseline {
        Some(path) if path.as_os_str() == "build" => Some(build("webstone", true)?),
        baseline => baseline.clone(),
    };
    let uses_canned = arguments.servers.contains(&Server::Canned);
    let canned = if uses_canned { Some(build("webstone-canned", false)?) } else { None };
    let wants_floor =
        arguments.tools.is_empty() || arguments.tools.iter().any(|tool| tool.starts_with("floor"));
    let floor = if wants_floor { Some(build("webstone-floor", false)?) } else { None };
    let before = arguments.before.clone();
    let built = Built { webstone, baseline, before, floor };
    let descriptors = children::raise_descriptor_limit()?;
    let cpus = Cpus::choose(arguments.server_cpu, arguments.client_cpu);
    let tools = Tool::installed(&built, arguments)?;
    let folder = tempfile::Builder::new()
        .prefix("webstone-benchsuite-")
        .tempdir()
        .map_err(|error| format!("no temporary directory: {error}"))?;
    let plan = plan(arguments, &cpus, descriptors);
    if plan.iter().any(|(_, server, _)| *server != Server::Canned) {
        nginx::write_files(folder.path(), &built.webstone)?;
    }
    let runs: usize = plan
        .iter()
        .flat_map(|(_, _, cases)| cases)
        .map(|case| tools.iter().filter(|tool| tool.can(*case)).count())
        .sum();
    if runs == 0 {
        return Err("no tool, mode and server that go together are left to measure".to_owned());
    }
    let output = arguments.output.clone().unwrap_or_else(|| repository().join("benchsuite/runs"));
    let mut session = Session::begin(&output, arguments, &tools, &cpus)?;
    let minutes = runs as u64 * u64::from(arguments.rounds) * arguments.seconds / 60 + 1;
    println!("{}: about {minutes} minutes, records in {}", names(&tools), session.folder().display());

    for (mode, server, cases) in plan {
        let started = match (server, &canned) {
            (Server::Canned, Some(program)) => Started::Canned(Canned::start(program, mode, &cpus)?),
            (Server::Caddy, _) => Started::Caddy(Caddy::start(folder.path(), &cpus)?),
            _ => Started::Nginx(Nginx::start(folder.path(), mode, server, &cpus)?),
        };
        let target = Target { base_url: started.base_url(), folder: folder.path(), cpus: &cpus };
        println!("{} on {}, {}", mode.name(), server.name(), target.base_url);
        for round in 0..arguments.rounds {
            session.note(Disturbance::look(cpus.client))?;
            for case in &cases {
                let able: Vec<&Tool> = tools.iter().filter(|tool| tool.can(*case)).collect();
                for step in 0..able.len() {
                    // Each round starts with another tool, so that no tool always runs after the same one.
                    let tool = able[(step + round as usize) % able.len()];
                    let run = measure(tool, *case, round, &target, &started, arguments.seconds)?;
                    println!("  {:>2} {:<16} {:>5} {}", round + 1, tool.name, case.clients, run.summary());
                    session.keep(run)?;
                }
            }
        }
    }
    session.finish()
}

/// A server that runs; it ends with this value.
enum Started {
    Nginx(Nginx),
    Canned(Canned),
    Caddy(Caddy),
}

impl Started {
    fn base_url(&self) -> &str {
        match self {
            Started::Nginx(nginx) => nginx.base_url(),
            Started::Canned(canned) => canned.base_url(),
            Started::Caddy(caddy) => caddy.base_url(),
        }
    }

    /// The TLS handshakes since the last call; `None` if the server does not log them.
    fn take_handshakes(&self) -> Result<Option<Handshakes>, String> {
        match self {
            Started::Nginx(nginx) => nginx.take_handshakes().map(Some),
            Started::Canned(_) | Started::Caddy(_) => Ok(None),
        }
    }
}

/// What is measured on which server, in order. Says what this machine cannot do.
fn plan(arguments: &Arguments, cpus: &Cpus, descriptors: u64) -> Vec<(Mode, Server, Vec<Case>)> {
    let mut plan = Vec::new();
    for mode in arguments.modes.iter().copied() {
        let servers: Vec<Server> =
            mode.servers().iter().copied().filter(|server| arguments.servers.contains(server)).collect();
        if servers.is_empty() {
            let able = mode.servers().iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
            eprintln!("skipped: {} needs one of --servers {able}", mode.name());
        }
        if mode == Mode::Workers && cpus.both().is_none() {
            eprintln!("skipped: {} needs two CPUs", mode.name());
            continue;
        }
        for server in servers {
            if server == Server::NginxShared && cpus.both().is_none() {
                eprintln!("skipped: {} on {} needs two CPUs", mode.name(), server.name());
                continue;
            }
            if server == Server::Caddy && !Caddy::is_installed() {
                eprintln!(
                    "skipped: {} on caddy, which is not installed\nhint: apt-get install caddy",
                    mode.name()
                );
                continue;
            }
            let (able, too_large): (Vec<Case>, Vec<Case>) = mode
                .cases(server)
                .into_iter()
                .partition(|case| u64::from(case.clients) + DESCRIPTORS_BESIDE <= descriptors);
            for case in too_large {
                eprintln!(
                    "skipped: {} clients need {} descriptors, the limit is {descriptors}\nhint: ulimit -Hn",
                    case.clients,
                    u64::from(case.clients) + DESCRIPTORS_BESIDE
                );
            }
            plan.push((mode, server, able));
        }
    }
    plan
}

fn measure(
    tool: &Tool,
    case: Case,
    round: u32,
    target: &Target<'_>,
    server: &Started,
    seconds: u64,
) -> Result<Run, String> {
    let command = tool.command(case, target, seconds)?;
    // Only the worker keeps the schedule, and it pins itself; other threads may run on the other CPU.
    let cpus = target.client_cpus(case.workers).filter(|_| case.mode != Mode::Pacing);
    let how = How {
        cpus: cpus.as_deref(),
        limit: Duration::from_secs(seconds) + GRACE + tool.lingers(case),
        watch_memory: case.mode.watches_memory(),
    };
    let companion = if case.accompanied { Some(accompany(tool, case, target, how.limit)?) } else { None };
    // Discard handshakes logged for the previous tool.
    server.take_handshakes()?;
    let mut finished = children::run(&command, how).map_err(|error| format!("{}: {error}", tool.name))?;
    // Only now, because its CPU time counts as soon as it is waited for.
    drop(companion);
    if children::interrupted().is_some() {
        return Err("interrupted".to_owned());
    }
    let measured = if tool.has_measured(finished.code) {
        readings::read(tool.name, &finished.stdout)
    } else if finished.wall_s >= how.limit.as_secs_f64() {
        Err(format!("ended after the limit of {} s", how.limit.as_secs()))
    } else {
        Err("it failed".to_owned())
    };
    let handshakes = server.take_handshakes()?;
    // Full handshakes beside resumed ones, or plain HTTP/1 where TLS was meant, cannot be compared.
    let mut measured = measured.and_then(|reading| match &handshakes {
        Some(handshakes) => handshakes.fit(case.mode, reading.requests).map(|()| reading),
        None => Ok(reading),
    });
    if !tool.lingers(case).is_zero() {
        // The time in which it only waited counts neither for its rate nor for its share of a CPU.
        finished.wall_s = finished.wall_s.min(seconds as f64);
        if let Ok(reading) = &mut measured {
            reading.rate = reading.requests as f64 / seconds as f64;
        }
    }
    Ok(Run::new(tool.name, case, round, command, finished, measured, handshakes.unwrap_or_default()))
}

/// The same tool with as many clients on the server's CPU, for as long as the value lives.
fn accompany(tool: &Tool, case: Case, target: &Target<'_>, limit: Duration) -> Result<Group, String> {
    let Cpus { server, client } = *target.cpus;
    let swapped = Target { cpus: &Cpus { server: client, client: server }, ..*target };
    // It lasts longer than it is needed, and is then ended.
    let command = tool.command(case, &swapped, limit.as_secs() * 2)?;
    let companion = Group::start(&command, swapped.client_cpus(1).as_deref(), Stdio::null())
        .map_err(|error| format!("{}: {error}", tool.name))?;
    // Until it is at full load.
    std::thread::sleep(Duration::from_millis(500));
    Ok(companion)
}

/// Builds a program of this tree; its path. Builds without statistics have a target directory of their own.
fn build(program: &str, without_statistics: bool) -> Result<PathBuf, String> {
    // Beside this program, wherever the target directory is.
    let here = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let target = here.ancestors().nth(2).ok_or("this program stands in no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What is compared is what packages hold.
    let profile = if program == "webstone" { "dist" } else { "release" };
    command.args(["build", "--profile", profile, "--locked", "--bin", program]).current_dir(repository());
    command.args(["--package", if program == "webstone" { "webstone" } else { "webstone-benchsuite" }]);
    let target = if without_statistics { target.join("without-statistics") } else { target.to_owned() };
    command.arg("--target-dir").arg(&target);
    if without_statistics {
        command.env("RUSTFLAGS", "--cfg webstone_without_statistics");
    }
    let status = command.status().map_err(|error| {
        format!("cannot start cargo: {error}\nhint: give --webstone PATH --servers nginx")
    })?;
    if !status.success() {
        return Err(format!("{program} does not build"));
    }
    Ok(target.join(profile).join(program))
}

fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

fn names<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> String {
    tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}
