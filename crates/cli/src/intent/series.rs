//! What `servers`, `scale` and `spice` were asked for: a specification whose `series` is the matrix.

use std::path::PathBuf;

use webstone_lab::machine::{Root, allowed_cpus};
use webstone_model::series::{Delivery, Kind, Matrix};
use webstone_model::spec::{Levels, RunSpec};
use webstone_report::Format;

use super::{RUNS_DIR, apply, format_of, rules, testbed};
use crate::args::SeriesArgs;
use crate::failure::Failure;

/// WebBench's static workload, which SPICE is held against.
const SPICE_STATIC: &str = "webbench-static";
/// Clients of a SPICE series: up to the 60 whose latency its reports tell.
const SPICE_CLIENTS: [u32; 4] = [10, 20, 40, 60];
/// Bytes of SPICE's dynamic answer.
const SPICE_BYTES: f64 = 6_250.0;
/// Answers whose mean sizes differ by less than this share count as equally large.
const SAME_SIZE: f64 = 0.01;
/// Iterations of each level of a series unless something else is said: the fewest that ranks can be made of.
const ITERATIONS: u32 = 3;

/// A series as it shall be made.
#[derive(Clone, Debug)]
pub(crate) struct SeriesIntent {
    /// What every cell has in common.
    pub(crate) spec: RunSpec,
    /// What varies.
    pub(crate) matrix: Matrix,
    /// Whether each server is asked for its files before the load.
    pub(crate) check_target: bool,
    /// Directory of records.
    pub(crate) runs_dir: PathBuf,
}

/// A series with nothing typed.
pub(crate) fn series_defaults(kind: Kind) -> RunSpec {
    let mut spec = RunSpec::default();
    spec.load.iterations = ITERATIONS;
    if kind == Kind::Spice {
        SPICE_STATIC.clone_into(&mut spec.workload);
        spec.load.clients = Levels(SPICE_CLIENTS.to_vec());
    }
    spec
}

/// The format of the report.
pub(crate) fn series_format(args: &SeriesArgs) -> Result<Format, Failure> {
    let format = format_of(args.output.format, args.output.output.as_deref())?.unwrap_or_default();
    webstone_report::series_form(format)
        .map_err(|error| Failure::from_message(crate::failure::Exit::Usage, &error.to_string()))?;
    Ok(format)
}

pub(crate) fn of_series(kind: Kind, args: &SeriesArgs) -> Result<SeriesIntent, Failure> {
    if kind == Kind::Servers && !args.names_servers() && args.testbed.is_none() {
        return Err(Failure::usage("no servers are named").hint(match args.resume {
            None => "name them, as in `webstone servers nginx,apache:tuned`; `webstone servers` lists them",
            Some(_) => "beside --resume goes the whole command line that began the series, or none of it",
        }));
    }
    let mut spec = match &args.testbed {
        Some(path) => testbed::read(path)?,
        None => series_defaults(kind),
    };
    if spec.name == RunSpec::default().name {
        kind.command().clone_into(&mut spec.name);
    }
    if let Some(url) = spec.target.first() {
        return Err(Failure::usage(format!(
            "the testbed file names a target ({url}), and `{}` measures servers that it starts itself",
            kind.command()
        ))
        .hint("leave out `target`; of servers elsewhere, make a run each and `webstone compare` them"));
    }
    let mut matrix = spec.series.take().unwrap_or_default();
    apply_all(args, &mut spec)?;
    if !args.servers.is_empty() {
        matrix.servers.clone_from(&args.servers);
    } else if let Some(server) = args.server.server {
        matrix.servers = vec![server];
    }
    if !args.profiles.is_empty() {
        matrix.profiles.clone_from(&args.profiles);
    }
    if !args.caching.is_empty() {
        matrix.caching.clone_from(&args.caching);
    } else if args.server.server_cache || args.server.server_no_cache {
        matrix.caching.clear();
    }
    if !args.policies.is_empty() {
        matrix.connections.clone_from(&args.policies);
    } else if args.client.connections.is_some() || args.client.keep_alive {
        matrix.connections.clear();
    }
    if !args.cpus.is_empty() {
        matrix.cpus.clone_from(&args.cpus);
    } else if kind == Kind::Scale && matrix.cpus.is_empty() {
        matrix.cpus = doubling(allowed_cpus(&Root::default()).len() as u32);
    }
    if !args.interfaces.is_empty() {
        matrix.interfaces.clone_from(&args.interfaces);
    }
    if let Some(workload) = &args.dynamic_workload {
        matrix.dynamic_workload = Some(workload.clone());
    }
    if kind == Kind::Spice {
        spice(&spec, &mut matrix)?;
    }
    check(kind, &spec, &matrix)?;
    Ok(SeriesIntent {
        spec,
        matrix,
        check_target: !args.client.no_check,
        runs_dir: args.output.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR)),
    })
}

/// Whether anything was said of what shall be measured, as it need not be where a series is gone on with.
pub(crate) fn is_plan(kind: Kind, args: &SeriesArgs) -> Result<bool, Failure> {
    let mut spec = series_defaults(kind);
    apply_all(args, &mut spec)?;
    Ok(args.is_plan() || spec != series_defaults(kind))
}

/// Puts what was typed over a specification, but for the matrix.
fn apply_all(args: &SeriesArgs, spec: &mut RunSpec) -> Result<(), Failure> {
    if let Some(workload) = &args.workload {
        spec.workload.clone_from(workload);
    }
    apply::load(&args.load, &mut spec.load);
    apply::client(&args.client, &mut spec.client)?;
    apply::own_server(&args.server, &mut spec.server);
    spec.generator.workers = args.workers.unwrap_or(spec.generator.workers);
    if let Some(cpus) = &args.generator_cpus {
        spec.generator.cpus.clone_from(cpus);
    }
    if let Some(name) = &args.output.name {
        spec.name.clone_from(name);
    }
    Ok(())
}

/// What SPICE is by its definition: files first, and programs whose answers are as large as the files on average.
fn spice(spec: &RunSpec, matrix: &mut Matrix) -> Result<(), Failure> {
    if !matrix.interfaces.is_empty() {
        matrix.interfaces.retain(|delivery| *delivery != Delivery::Static);
        matrix.interfaces.insert(0, Delivery::Static);
        if matrix.interfaces.len() == 1 {
            return Err(Failure::usage(
                "interfaces (series.interfaces): `static` alone has nothing to be held against",
            )
            .hint("name interfaces, as in --interfaces cgi,fastcgi; or leave the list out for all of them"));
        }
    }
    if let Some(interface) = spec.server.interface {
        return Err(Failure::usage(format!(
            "--server-interface {interface} (server.interface) is one interface, and `spice` measures several"
        ))
        .hint(format!("write --interfaces {interface}")));
    }
    if matrix.dynamic_workload.is_none() {
        let files = webstone_runner::load_workload(&spec.workload)
            .map_err(|error| Failure { hint: error.hint(), ..Failure::usage(error.to_string()) })?;
        let mean = files.mean_size().ok_or_else(|| {
            Failure::usage(format!(
                "the workload {} does not say how large its files are, so no dynamic answer can be as large",
                spec.workload
            ))
            .hint("state sizes in it, or name the dynamic workload: --dynamic-workload spice")
        })?;
        matrix.dynamic_workload = Some(spice_workload(mean));
    }
    Ok(())
}

/// SPICE's own, where it is as large as the files; WebBench's mean is 6,250 bytes but for rounding.
fn spice_workload(mean: f64) -> String {
    if (mean / SPICE_BYTES - 1.0).abs() < SAME_SIZE { "spice".to_owned() } else { format!("spice-{mean:.0}") }
}

/// 1, 2, 4 … and the last itself.
fn doubling(most: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = std::iter::successors(Some(1_u32), |number| number.checked_mul(2))
        .take_while(|n| *n < most)
        .collect();
    numbers.push(most.max(1));
    numbers
}

fn check(kind: Kind, spec: &RunSpec, matrix: &Matrix) -> Result<(), Failure> {
    if kind == Kind::Scale && matrix.cpus.len() < 2 {
        return Err(Failure::usage("scaling takes two numbers of CPUs or more, and there is one")
            .hint("list them, as in --cpus 1,2,4; on a machine with one CPU there is nothing to scale to"));
    }
    if !matrix.cpus.is_empty() && !spec.server.cpus.is_empty() {
        return Err(Failure::usage(
            "the server's CPUs are listed (server.cpus), and numbers of them vary (series.cpus)",
        )
        .hint("leave out one of the two"));
    }
    if let (false, Some(interface)) = (matrix.interfaces.is_empty(), spec.server.interface) {
        return Err(Failure::usage(format!(
            "the server's interface is named ({interface}, server.interface), and interfaces vary (series.interfaces)"
        ))
        .hint("leave out one of the two"));
    }
    if let Some(path) = &spec.generator.record_all {
        return Err(Failure::usage(format!(
            "generator.record_all: `{path}` would be written anew by every part of the series"
        ))
        .hint("leave it out; `webstone run --record-all` looks at one run closely"));
    }
    // Every cell keeps the rules of a run, so what is wrong is told before the first is measured.
    let (cells, _) = webstone_runner::series::cells(kind, matrix, spec)
        .map_err(|error| Failure { hint: error.hint(), ..Failure::usage(error.to_string()) })?;
    // The name of the series, with a server that is one of its own.
    let named = cells.first().map(|cell| RunSpec { name: spec.name.clone(), ..cell.spec.clone() });
    rules::check(named.as_ref().unwrap_or(spec))?;
    for cell in cells {
        rules::check(&cell.spec).map_err(|failure| Failure {
            message: format!("{}: {}", cell.name, failure.message),
            ..failure
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{doubling, spice_workload};

    #[test]
    fn dynamic_answers_are_as_large_as_the_files() {
        assert_eq!(spice_workload(6_249.97), "spice");
        assert_eq!(spice_workload(19_773.0), "spice-19773");
    }

    #[test]
    fn cpus_double_up_to_all() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(6), [1, 2, 4, 6]);
        assert_eq!(doubling(8), [1, 2, 4, 8]);
    }
}
