//! The meaning of `servers`, `scale` and `spice`: a specification whose `series` is the matrix.

use std::path::{Path, PathBuf};

use webstone_lab::machine::{Root, allowed_cpus};
use webstone_model::series::{Kind, Matrix};
use webstone_model::spec::{Levels, RunSpec};
use webstone_runner::check::{self, Asked, Testbed};
use webstone_runner::series::SeriesError;

use super::quick::quick;
use super::{RUNS_DIR, lay_over, run_defaults, testbed};
use crate::args::SeriesArgs;
use crate::args::table::Flags;
use crate::failure::{Exit, Failure};
use crate::flags;

/// WebBench's static workload, with which SPICE compares.
const SPICE_STATIC: &str = "webbench-static";
/// Clients of a SPICE series: up to 60, for which its reports give the latency.
const SPICE_CLIENTS: [u32; 4] = [10, 20, 40, 60];
/// Default number of iterations of each level of a series: the minimum for a ranking.
const ITERATIONS: u32 = 3;

/// A series to run.
#[derive(Clone, Debug)]
pub(crate) struct SeriesIntent {
    /// What all cells have in common.
    pub(crate) spec: RunSpec,
    /// What varies.
    pub(crate) matrix: Matrix,
    /// Whether to check before the load that each server has the files.
    pub(crate) check_target: bool,
    /// Directory of records.
    pub(crate) runs_dir: PathBuf,
}

/// The defaults of a series. SPICE has a connection per request, as in its paper; the others have the defaults of
/// `run`.
pub(crate) fn series_defaults(kind: Kind) -> RunSpec {
    let mut spec = if kind == Kind::Spice { RunSpec::default() } else { run_defaults() };
    spec.load.iterations = ITERATIONS;
    if kind == Kind::Spice {
        SPICE_STATIC.clone_into(&mut spec.workload);
        spec.load.clients = Levels(SPICE_CLIENTS.to_vec());
    }
    spec
}

pub(crate) fn of_series(kind: Kind, args: &SeriesArgs) -> Result<SeriesIntent, Failure> {
    of_series_with(kind, args, || testbed::read(args.testbed.as_deref()))
}

/// The meaning of the command, with the text of a testbed instead of the given file.
pub(crate) fn of_series_of(kind: Kind, args: &SeriesArgs, text: &str) -> Result<SeriesIntent, Failure> {
    let name = args.testbed.as_deref().unwrap_or(Path::new(""));
    of_series_with(kind, args, || testbed::parse(name, text).map(Some))
}

fn of_series_with(
    kind: Kind,
    args: &SeriesArgs,
    testbed: impl FnOnce() -> Result<Option<Testbed>, Failure>,
) -> Result<SeriesIntent, Failure> {
    if kind == Kind::Servers && !args.names_servers() && args.testbed.is_none() {
        return Err(Failure::usage("no server is given").hint(match args.resume {
            None => "give them, as in `webstone servers nginx,apache:tuned`; `webstone servers` lists them",
            Some(_) => "give --resume alone, or with the whole command line of the series",
        }));
    }
    let testbed = testbed()?;
    let defaults = series_defaults(kind);
    let mut spec = testbed.as_ref().map_or_else(|| defaults.clone(), |file| testbed::over(file, &defaults));
    if spec.name == RunSpec::default().name {
        kind.command().clone_into(&mut spec.name);
    }
    if args.quick {
        quick(&mut spec);
    }
    lay_over(args, &mut spec)?;
    let mut matrix = spec.series.take().unwrap_or_default();
    if !args.servers.is_empty() {
        matrix.servers.clone_from(&args.servers);
    } else if let Some(server) = args.server.server {
        matrix.servers = vec![server];
    }
    // A value on the command line for every cell replaces what the file varies.
    if args.server.server_cache || args.server.server_no_cache {
        matrix.caching.clear();
    }
    if args.client.connections.is_some() || args.client.keep_alive {
        matrix.connections.clear();
    }
    if args.path.path.is_some() {
        matrix.paths.clear();
    }
    if args.server.server_resolve_names {
        matrix.resolve_names.clear();
    }
    if args.server.server_program.is_some() {
        matrix.builds.clear();
    }
    if args.client.http.is_some() {
        matrix.http.clear();
    }
    if args.server.tls.server_tls || args.client.tls.tls_resume.is_some() {
        matrix.handshakes.clear();
    }
    if kind == Kind::Scale && matrix.cpus.is_empty() {
        matrix.cpus = doubling(allowed_cpus(&Root::default()).len() as u32);
    }
    if args.load.pages.is_some() {
        matrix.pages.clear();
    }
    if args.workload.is_some() {
        matrix.workloads = args.workload.as_deref().map(listed).unwrap_or_default();
    }
    if let Some(first) = matrix.workloads.first() {
        spec.workload.clone_from(first);
    }
    if let Some(workload) = &args.matrix.dynamic_workload {
        matrix.dynamic_workloads = listed(workload);
        matrix.dynamic_workload = matrix.dynamic_workloads.is_empty().then(|| workload.clone());
    }
    if args.workload.is_some() || args.matrix.dynamic_workload.is_some() {
        matrix.drop_unused_pages(&spec.workload);
    }
    let asked = Asked { spec, defaults, given: args.typed_keys(), testbed };
    let spec =
        check::series::check(kind, &asked, &mut matrix).map_err(|error| series_failure(&error, kind))?;
    Ok(SeriesIntent {
        spec,
        matrix,
        check_target: !args.client.no_check,
        runs_dir: args.output.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR)),
    })
}

/// Whether the command line says what to measure, which is not necessary to resume a series.
pub(crate) fn is_plan(kind: Kind, args: &SeriesArgs) -> Result<bool, Failure> {
    let mut spec = series_defaults(kind);
    args.lay_over(&mut spec)?;
    Ok(args.is_plan() || spec != series_defaults(kind))
}

/// Why there is no series, with the flags of the command that was typed.
pub(crate) fn series_failure(error: &SeriesError, kind: Kind) -> Failure {
    let exit = match error {
        SeriesError::Spec(error) => return flags::failure(error, kind.command()),
        SeriesError::Refused { .. } | SeriesError::Workload(_) => Exit::Usage,
        SeriesError::Store(_) | SeriesError::Busy(_) => Exit::Failed,
    };
    let hint = error.hint().map(|hint| flags::named(&hint, kind.command()));
    Failure { exit, message: flags::named(&error.to_string(), kind.command()), hint }
}

/// The names in a list of workloads; empty if it is a single name. A file's name may contain a comma.
fn listed(names: &str) -> Vec<String> {
    match names.contains(',') && !Path::new(names).exists() {
        true => names.split(',').map(|name| name.trim().to_owned()).collect(),
        false => Vec::new(),
    }
}

/// 1, 2, 4 … up to `most`, which is always included.
fn doubling(most: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = std::iter::successors(Some(1_u32), |number| number.checked_mul(2))
        .take_while(|n| *n < most)
        .collect();
    numbers.push(most.max(1));
    numbers
}

#[cfg(test)]
mod tests {
    use super::doubling;

    #[test]
    fn cpus_double_up_to_all() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(6), [1, 2, 4, 6]);
        assert_eq!(doubling(8), [1, 2, 4, 8]);
    }
}
