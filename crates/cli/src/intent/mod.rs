//! The meaning of a command line: defaults first, then the testbed file, then flags. The result is a [`RunSpec`] that
//! `webstone_runner::check` has completed and checked, and the destinations of report and record.

pub(crate) mod body;
mod duel;
mod find;
pub(crate) mod form;
mod pages;
mod quick;
mod series;
mod target;
mod testbed;
mod workout;

use std::path::{Path, PathBuf};

use webstone_judge::verdict::Standing;
use webstone_measure::units::Nanos;
use webstone_model::generators::GeneratorHost;
use webstone_model::search::Over;
use webstone_model::series::Kind;
use webstone_model::spec::{Check, ConnectionPolicy, Levels, LoadSpec, RunSpec, ServerSpec};
use webstone_model::threshold::Threshold;
use webstone_report::{Format, Subject};
use webstone_runner::check::{self, Asked, Checked, Testbed};
use webstone_workload::Workload;

use crate::args::table::Flags;
use crate::args::{
    CheckfilesArgs, GeneratorArgs, GeneratorsCheckArgs, HitArgs, OutputArgs, RunArgs, ServeArgs,
    ThresholdArgs,
};
use crate::commands::gates;
use crate::failure::{Exit, Failure};
use crate::flags;

pub(crate) use duel::{duel_defaults, of_duel};
pub(crate) use find::{find_defaults, of_find};
pub(crate) use series::{SeriesIntent, is_plan, of_series, of_series_of, series_defaults, series_failure};
pub(crate) use testbed::announce;
pub(crate) use workout::of_workout;

/// Directory of records unless --runs-dir is given.
pub(crate) const RUNS_DIR: &str = "runs";

/// A run to be made.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The command.
    pub(crate) command: &'static str,
    /// What to measure.
    pub(crate) spec: RunSpec,
    /// The workload itself, if it is on the command line instead of a name or file.
    pub(crate) workload: Option<Workload>,
    /// Whether to check before the load that the target has the files.
    pub(crate) check_target: bool,
    /// Directory of records; `None`: nothing is stored.
    pub(crate) runs_dir: Option<PathBuf>,
    /// Where events are written, if anywhere.
    pub(crate) events: Option<String>,
    /// The directory of a browser front's runs, if one is to be started.
    pub(crate) watch: Option<PathBuf>,
    /// Format of the report.
    pub(crate) format: Format,
    /// Whether the text report shows everything.
    pub(crate) full: bool,
    /// File of the report; `None`: standard output.
    pub(crate) output: Option<PathBuf>,
    /// Limits that every level must keep.
    pub(crate) thresholds: Vec<Threshold>,
    /// The worst verdict with which the run is a success.
    pub(crate) required: Standing,
    /// Whether the run is only tried out (`--quick`): figures that prove nothing are no failure.
    pub(crate) is_tried: bool,
}

/// The hosts of `generators check`.
pub(crate) fn generators(args: &GeneratorsCheckArgs) -> Result<Vec<GeneratorHost>, Failure> {
    let testbed = testbed::read(args.testbed.as_deref())?;
    let mut hosts = testbed.map(|testbed| testbed.spec.generators).unwrap_or_default();
    if !args.generator.is_empty() {
        hosts = args.generator.iter().map(GeneratorHost::reached_by).collect();
    }
    check::hosts(&hosts).map_err(|error| flags::failure(&error, "generators"))?;
    Ok(hosts)
}

/// Which files `checkfiles` requests, and how.
pub(crate) fn of_checkfiles(args: &CheckfilesArgs) -> Result<RunSpec, Failure> {
    let mut spec = RunSpec::default();
    lay_over(args, &mut spec)?;
    check::tls::check(&spec.client.tls).map_err(|error| flags::failure(&error, "checkfiles"))?;
    Ok(spec)
}

/// Refuses options of the load generator that mean nothing to a command that makes its load on this host, in many short parts.
fn alone(args: &GeneratorArgs, command: &str, hint: &'static str) -> Result<(), Failure> {
    let refused = [
        ("--generator", !args.generator.is_empty(), "makes its load on this host alone"),
        ("--trace", args.trace.is_some(), "shows no single exchanges"),
        ("--record-all", args.record_all.is_some(), "writes no single transactions"),
    ];
    match refused.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, why)) => Err(Failure::usage(format!("{option}: {command} {why}")).hint(hint)),
        None => Ok(()),
    }
}

/// Applies the flags to a specification.
fn lay_over(args: &impl Flags, spec: &mut RunSpec) -> Result<(), Failure> {
    args.lay_over(spec)?;
    if spec.client.tls.key_log.is_none() {
        // As in browsers and curl.
        spec.client.tls.key_log = std::env::var("SSLKEYLOGFILE").ok().filter(|path| !path.is_empty());
    }
    Ok(())
}

/// The meaning of `run`.
pub(crate) fn of_run(args: &RunArgs) -> Result<Intent, Failure> {
    of_run_with(args, testbed::read(args.testbed.as_deref())?)
}

/// The same, with the text of a testbed instead of the given file.
pub(crate) fn of_run_of(args: &RunArgs, text: &str) -> Result<Intent, Failure> {
    let name = args.testbed.as_deref().unwrap_or(Path::new(""));
    of_run_with(args, Some(testbed::parse(name, text)?))
}

fn of_run_with(args: &RunArgs, testbed: Option<Testbed>) -> Result<Intent, Failure> {
    let mut spec = testbed.as_ref().map_or_else(run_defaults, |file| testbed::over(file, &run_defaults()));
    if args.quick {
        quick::quick(&mut spec);
    }
    let (urls, workload) = pages::apart(&args.target)?;
    target::newest(&urls, &args.server, &mut spec);
    if let Some(workload) = &workload {
        pages::instead(workload, args, &mut spec)?;
    }
    lay_over(args, &mut spec)?;
    let names_workload =
        args.workload.is_some() || testbed.as_ref().is_some_and(|file| file.states("workload"));
    let workload = match workload {
        None if !names_workload && pages::are_pages(&spec.target) => {
            Some(pages::of_targets(&mut spec, args.dump_spec)?)
        }
        workload => workload,
    };
    let asked = Asked { spec, defaults: run_defaults(), given: args.typed_keys(), testbed };
    let intent = finish("run", asked, workload, &args.output, !args.no_store, Format::Text)?;
    Ok(Intent {
        check_target: !args.client.no_check,
        thresholds: thresholds(&args.thresholds, &intent.spec)?,
        required: args.verdict.worst(),
        is_tried: args.quick,
        ..intent
    })
}

/// The meaning of `hit`.
pub(crate) fn of_hit(args: &HitArgs) -> Result<Intent, Failure> {
    let defaults = hit_defaults();
    let mut spec = defaults.clone();
    if args.curl.is_some() {
        // Its words stand in its place; a second one is left.
        return Err(Failure::usage("--curl is given twice").hint("give it once"));
    }
    let listed = args.url_file.as_deref().map(pages::urls_of).transpose()?;
    let workload = pages::of_urls(&args.urls, listed.as_ref(), &mut spec)?;
    lay_over(args, &mut spec)?;
    let store = args.store || args.output.runs_dir.is_some();
    let asked = Asked { spec, defaults, given: args.typed_keys(), testbed: None };
    let intent = finish(
        "hit",
        asked,
        Some(workload),
        &args.output,
        store,
        if args.output.full { Format::Text } else { Format::Hit },
    )?;
    Ok(Intent {
        check_target: !args.client.no_check,
        thresholds: thresholds(&args.thresholds, &intent.spec)?,
        required: args.verdict.worst(),
        ..intent
    })
}

/// The settings of `serve`, and the workload that it serves.
pub(crate) fn of_serve(args: &ServeArgs) -> Result<(ServerSpec, String), Failure> {
    let mut spec = RunSpec::default();
    args.lay_over(&mut spec)?;
    check::reference(&spec.server).map_err(|error| flags::failure(&error, "serve"))?;
    Ok((spec.server, spec.workload))
}

/// The specification of a command without optional flags.
pub(crate) fn defaults(command: &str) -> RunSpec {
    match command {
        "run" => run_defaults(),
        "hit" => hit_defaults(),
        "find" => find_defaults(hit_defaults(), Over::default()),
        "duel" => duel_defaults(),
        // Its records have the name of the command.
        "servers" | "scale" | "spice" => RunSpec {
            name: "the command's".to_owned(),
            ..series_defaults(match command {
                "servers" => Kind::Servers,
                "scale" => Kind::Scale,
                _ => Kind::Spice,
            })
        },
        _ => RunSpec::default(),
    }
}

/// The defaults of `run`. Connections are kept alive, as in browsers: with a connection per request, a generator that
/// shares two CPUs with its server has the greater cost, and the results would reflect the generator.
pub(crate) fn run_defaults() -> RunSpec {
    let mut spec = RunSpec::default();
    spec.client.connections = ConnectionPolicy::KeepAlive;
    spec
}

/// The defaults of `hit`: those of wrk.
pub(crate) fn hit_defaults() -> RunSpec {
    let mut spec = RunSpec { name: "hit".to_owned(), ..run_defaults() };
    spec.load = LoadSpec {
        clients: Levels(vec![10]),
        duration: Nanos::from_secs(10),
        iterations: 1,
        warmup: Nanos::ZERO,
        // A user who asks for ten seconds does not expect thirty.
        retries: 0,
        ..spec.load
    };
    // A single URL has no stated size that could be checked.
    spec.client.check = Check::Status;
    spec
}

/// The requested format: by its name, or by the extension of the report's file.
pub(crate) fn format_of(named: Option<Format>, output: Option<&Path>) -> Result<Option<Format>, Failure> {
    let (None, Some(file)) = (named, output) else { return Ok(named) };
    match (Format::of_file(file), file.extension()) {
        // Tables for a terminal in a report.pdf would be a surprise.
        (None, Some(ending)) => {
            let said = format!(
                "--output {}: `.{}` is not the ending of a format",
                file.display(),
                ending.to_string_lossy()
            );
            let known: Vec<&str> = Format::ALL.into_iter().filter_map(Format::ending).collect();
            let hint = format!("end it with .{}, or name the format with --format", known.join(", ."));
            Err(Failure::usage(said).hint(hint))
        }
        (format, _) => Ok(format),
    }
}

/// The requested format of a report of something else than a run; text unless another is requested.
pub(crate) fn form_of(
    subject: Subject,
    named: Option<Format>,
    output: Option<&Path>,
) -> Result<Format, Failure> {
    let format = format_of(named, output)?.unwrap_or_default();
    subject.check(format).map_err(|error| Failure::from_message(Exit::Usage, &error.to_string()))
}

/// The directory in which a front finds the run, if --watch was given.
pub(crate) fn watch(output: &OutputArgs) -> Option<PathBuf> {
    let runs_dir = || output.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR));
    output.watch.then(runs_dir)
}

fn finish(
    command: &'static str,
    mut asked: Asked,
    workload: Option<Workload>,
    output: &OutputArgs,
    store: bool,
    format: Format,
) -> Result<Intent, Failure> {
    let format = format_of(output.format, output.output.as_deref())?.unwrap_or(format);
    // Its text has them.
    asked.spec.generator.spreads |= matches!(format, Format::Webstone1 | Format::Webstone2);
    // The run prints its warnings itself.
    let Checked { spec, .. } = check::check(&asked).map_err(|error| flags::failure(&error, command))?;
    Ok(Intent {
        command,
        spec,
        workload,
        check_target: true,
        events: output.events.clone(),
        watch: watch(output),
        runs_dir: store.then(|| output.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR))),
        format,
        full: output.full,
        output: output.output.clone(),
        thresholds: Vec::new(),
        required: Standing::Noisy,
        is_tried: false,
    })
}

/// The thresholds. That their levels are levels of the run is checked before the run.
fn thresholds(args: &ThresholdArgs, spec: &RunSpec) -> Result<Vec<Threshold>, Failure> {
    let thresholds = gates::typed(&args.threshold);
    gates::select(&thresholds, &spec.load.clients.0)?;
    Ok(thresholds)
}
