//! The meaning of `duel`: contestants, their load, and when it ends.

use std::path::PathBuf;

use webstone_measure::units::Nanos;
use webstone_model::duel::{DuelRecord, DuelSpec};
use webstone_model::network_path::PathError;
use webstone_model::record::Tool;
use webstone_model::spec::{ConnectionPolicy, Levels, RunSpec};
use webstone_runner::check::{Asked, check};
use webstone_runner::duel::{Build, DuelOptions, asked, watch};
use webstone_store::{Derived, redaction};
use webstone_workload::{FileRequest, Page, Workload};

use super::{RUNS_DIR, alone, lay_over};
use crate::args::DuelArgs;
use crate::args::table::Flags;
use crate::failure::{Exit, Failure};
use crate::flags;

/// Clients of each contestant, unless given.
const CLIENTS: u32 = 16;

pub(crate) fn of_duel(
    args: &DuelArgs,
    tool: Tool,
    command_line: Vec<String>,
    derive: fn(&DuelRecord) -> Vec<Derived>,
) -> Result<DuelOptions, Failure> {
    let refused = |what: String, hint: &str| Failure::usage(what).hint(hint);
    let defaults = duel_defaults();
    let mut spec = defaults.clone();
    lay_over(args, &mut spec)?;
    let (paths, network): (Vec<&String>, Vec<&String>) =
        args.path.iter().partition(|path| path.starts_with('/') || !path.contains('='));
    if let [path, more @ ..] = &network[..] {
        let path = path.parse().map_err(|error: PathError| {
            refused(format!("--path {error}"), "it is a path of URLs, as in /api/items, or of the network")
        })?;
        if !more.is_empty() {
            return Err(refused(
                format!("--path: {} paths of the network, but all contestants have the same", network.len()),
                "give one; paths of URLs begin with /",
            ));
        }
        spec.server.path = Some(path);
    }
    if let (Some(workload), Some(path)) = (&args.workload, paths.first()) {
        return Err(refused(
            format!("--path {path} cannot be used together with --workload {workload}"),
            "leave out one of the two",
        ));
    }
    if args.server.server.is_some() {
        return Err(refused(
            "--server: contestants are given by name, without an option".to_owned(),
            "webstone duel nginx nginx:tuned",
        ));
    }
    alone(&args.generator, "a duel", "leave it out, or measure each contestant with `run` and compare")?;
    if spec.load.rate.as_ref().is_some_and(|rates| rates.0.iter().any(|rate| rate.is_ramp())) {
        return Err(refused("--rate: a duel has one rate, no ramp".to_owned(), "write one, as in -R 5k"));
    }
    // Not of the reference server, which is the default here: each contestant is checked by itself.
    let processes = std::mem::take(&mut spec.server.processes);
    let asked_for = Asked { spec, defaults, given: args.typed_keys(), testbed: None };
    let mut spec = check(&asked_for).map_err(|error| flags::failure(&error, "duel"))?.spec;
    spec.server.processes = processes;
    let build = Build {
        command: args.build.clone(),
        serve: args.serve.clone(),
        repository: args.repository.clone().unwrap_or_else(|| PathBuf::from(".")),
    };
    let contestants = asked(&args.contestants, &build).and_then(|mut contestants| {
        watch(&mut contestants, &args.server_agent)?;
        Ok(contestants)
    });
    let contestants = contestants.map_err(|error| Failure {
        hint: error.hint(),
        ..Failure { exit: Exit::Usage, ..Failure::usage(redaction::text(&error.to_string()).text) }
    })?;
    let plain = DuelSpec::default();
    let duel = DuelSpec {
        precision: args.precision.map_or(plain.precision, |percent| percent / 100.0),
        at_most: args.at_most.unwrap_or(plain.at_most),
        slice: args.slice.unwrap_or(plain.slice),
        restart_every: args.restart_every.unwrap_or(plain.restart_every),
        starts_min: args.starts.unwrap_or(plain.starts_min),
        twin: !args.no_twin,
        fail_if: args.fail_if.clone(),
        ..plain
    };
    bounds(&duel)?;
    let is_of_files = contestants.iter().all(|one| one.serves_files());
    let paths: Vec<String> = match (paths.is_empty(), args.workload.is_none() && !is_of_files) {
        (false, _) => paths.into_iter().cloned().collect(),
        (true, true) => vec!["/".to_owned()],
        (true, false) => Vec::new(),
    };
    Ok(DuelOptions {
        tool,
        command_line,
        spec,
        duel,
        fits_slices: args.slice.is_none(),
        fits_starts: args.restart_every.is_none(),
        contestants,
        workload: (!paths.is_empty()).then(|| of_paths(&paths)).transpose()?,
        runs_dir: (!args.no_store).then(|| args.runs_dir.clone().unwrap_or_else(|| PathBuf::from(RUNS_DIR))),
        check_target: !args.client.no_check,
        derive: Some(derive),
    })
}

/// The specification of a duel without options.
pub(crate) fn duel_defaults() -> RunSpec {
    let mut spec = RunSpec { name: "duel".to_owned(), ..RunSpec::default() };
    spec.load.clients = Levels(vec![CLIENTS]);
    spec.load.iterations = 1;
    spec.client.connections = ConnectionPolicy::KeepAlive;
    spec
}

/// What no duel can be held with.
fn bounds(duel: &DuelSpec) -> Result<(), Failure> {
    let second = 1_000_000_000;
    let rules = [
        ("--slice", duel.slice, 1_000_000, 10 * second, "from 1ms to 10s"),
        ("--restart-every", duel.restart_every, second / 2, 3_600 * second, "from 500ms to 1h"),
        ("--at-most", duel.at_most, second, 7_200 * second, "from 1s to 2h"),
    ];
    for (option, value, least, most, range) in rules {
        if !(least..=most).contains(&value.0) {
            return Err(Failure::usage(format!("{option} {value}: it is not {range}")).hint(format!(
                "write a time {range}, as in {option} {}",
                if option == "--slice" { "20ms" } else { "30s" }
            )));
        }
    }
    Ok(())
}

/// A workload with a page for each path.
fn of_paths(paths: &[String]) -> Result<Workload, Failure> {
    let page = |path: &String| match path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
    {
        true => Ok(Page {
            weight: 1,
            files: vec![FileRequest { url: path.as_str().into(), ..FileRequest::default() }],
            think: Nanos::ZERO,
        }),
        false => Err(Failure::usage(format!("--path `{path}`: it is not a path"))
            .hint("a path begins with / and has no white space: --path /api/items?page=1")),
    };
    let pages: Result<Vec<Page>, Failure> = paths.iter().map(page).collect();
    Ok(Workload { name: paths.join(" "), pages: pages?, ..Workload::default() })
}
