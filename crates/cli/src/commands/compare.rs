//! `webstone compare`: compares stored runs with the first of them.

use std::path::Path;

use webstone_judge::comparison::{
    Comparison, Difference, GateResult, Noise, Options, Weight, compare, differences,
};
use webstone_measure::keys::levels_named;
use webstone_model::record::RunRecord;
use webstone_report::{Subject, render_comparison};

use super::{gates, records};
use crate::args::CompareArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::form_of;

pub(super) fn execute(args: &CompareArgs, console: &Console) -> Result<Exit, Failure> {
    if args.runs.len() < 2 {
        return Err(Failure::usage(format!("only one run is named, `{}`", args.runs[0].display()))
            .hint("name two or more: the first is the baseline"));
    }
    let format = form_of(Subject::Comparison, args.format, args.output.as_deref())?;
    let runs_dir = args.runs_dir.as_deref();
    let loaded = args.runs.iter().map(|run| records::load(run, runs_dir));
    let loaded: Vec<RunRecord> = loaded.collect::<Result<_, _>>()?;
    let floor = args.noise_floor.as_deref().map(|text| noise_floor(text, runs_dir)).transpose()?;
    let noise = match &floor {
        None => Noise::Records,
        Some(Floor::Percent(percent)) => Noise::Percent(*percent),
        Some(Floor::Run(record)) => Noise::Run(record),
    };
    let options = Options {
        noise,
        fail_if: args.fail_if.iter().flat_map(|several| several.0.clone()).collect(),
        fail_when: args.fail_when.unwrap_or_default(),
        thresholds: gates::typed(&args.thresholds.threshold),
    };
    for (named, record) in args.runs.iter().zip(&loaded).skip(1) {
        comparable(args, named, &loaded[0], record)?;
        select(&options, &loaded[0], record)?;
    }
    let comparison = compare(&loaded.iter().collect::<Vec<_>>(), &options);
    if comparison.candidates.iter().all(|candidate| candidate.levels.is_empty()) {
        return Err(nothing_in_common(&comparison));
    }
    let drawn = webstone_report::Options { full: args.full, ..console.report_options(args.output.is_some()) };
    let report = render_comparison(&comparison, &loaded, format, &drawn)
        .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
    console::deliver(&report, args.output.as_deref())?;
    judged(&comparison, args.force)
}

enum Floor {
    Percent(f64),
    Run(Box<RunRecord>),
}

/// `2%`, or a run with two arms.
fn noise_floor(text: &Path, runs_dir: Option<&Path>) -> Result<Floor, Failure> {
    let typed = text.to_string_lossy();
    if let Some(number) = typed.trim().strip_suffix('%') {
        let percent = number.trim().parse::<f64>().ok().filter(|percent| (0.0..100.0).contains(percent));
        return percent.map(Floor::Percent).ok_or_else(|| {
            Failure::usage(format!("--noise-floor: `{typed}` is not a percentage from 0 to 100"))
                .hint("write a percentage, as in 2%, or a run made with --aa")
        });
    }
    if typed.trim().parse::<f64>().is_ok() {
        return Err(Failure::usage(format!("--noise-floor: `{typed}` has no unit"))
            .hint(format!("write {typed}%, or a run made with --aa")));
    }
    let record = records::load(text, runs_dir)?;
    if record.iterations.iter().all(|run| run.arm.is_none()) {
        return Err(Failure::usage(format!("--noise-floor: `{typed}` is a run without two arms"))
            .hint("make one with `webstone run --aa -i 6`, or write a percentage, as in 2%"));
    }
    Ok(Floor::Run(Box::new(record)))
}

/// Refuses runs that were not measured alike, and a run compared with itself.
fn comparable(
    args: &CompareArgs,
    named: &Path,
    baseline: &RunRecord,
    record: &RunRecord,
) -> Result<(), Failure> {
    let first = args.runs[0].display();
    if !record.id.is_empty() && record.id == baseline.id && record.started_at == baseline.started_at {
        return Err(Failure::usage(format!("{} and {first} are the same run", named.display()))
            .hint("name two runs; to see the noise of one, make it with --aa"));
    }
    let mut forbidding = differences(baseline, record);
    forbidding.retain(|difference| difference.weight == Weight::Forbids);
    if forbidding.is_empty() || args.force {
        return Ok(());
    }
    let line = |one: &Difference| format!("\n  {}: {} against {}", one.what, one.candidate, one.baseline);
    let list: String = forbidding.iter().map(line).collect();
    Err(Failure::usage(format!("{} cannot be compared with {first}:{list}", named.display()))
        .hint("measure both alike, or use --force to compare them anyway"))
}

fn nothing_in_common(comparison: &Comparison) -> Failure {
    let first = &comparison.candidates[0];
    let (a, b) = (levels_named(&first.only_baseline), levels_named(&first.only_candidate));
    let ids = [&comparison.records[0].id, &comparison.records[first.record].id];
    Failure::usage(format!("no level is in both: {} has {a}, and {} has {b}", ids[0], ids[1]))
        .hint("run both with the same levels: -c, or -R in open loop")
}

/// Checks that both records have every level that a gate selects.
fn select(options: &Options<'_>, baseline: &RunRecord, record: &RunRecord) -> Result<(), Failure> {
    let of = |record: &RunRecord| -> Vec<u32> {
        record.levels().into_iter().map(|(_, runs)| runs[0].clients).collect()
    };
    let (mut both, held) = (of(baseline), of(record));
    both.retain(|clients| held.contains(clients));
    let missing = options.fail_if.iter().map(|one| (one.to_string(), one.missing_level(&both)));
    gates::select_levels("--fail-if", missing, &both)?;
    gates::select(&options.thresholds, &held)
}

/// The result of the gates. They need figures that can be trusted, and conditions need an interval.
fn judged(comparison: &Comparison, force: bool) -> Result<Exit, Failure> {
    if comparison.fail_if.is_empty() && comparison.thresholds.is_empty() {
        return Ok(Exit::Done);
    }
    let invalid = || comparison.records.iter().filter(|record| !record.standing.is_conclusive());
    if !force && invalid().next().is_some() {
        for record in invalid() {
            let reason = record.reasons.first().map_or("", String::as_str);
            let word = record.standing.word().to_lowercase();
            console::complain(format!("{word}: {}: {reason}", record.id));
        }
        return Ok(Exit::Invalid);
    }
    let id = |record: usize| &comparison.records[record].id;
    for gate in comparison.fail_if.iter().filter(|gate| gate.result == GateResult::Failed) {
        let level = gate.level;
        console::complain(format!("failed: {} at {level}: {}", gate.condition, id(gate.record)));
    }
    for one in comparison.thresholds.iter().filter(|one| !one.outcome.passed) {
        console::complain(format!(
            "threshold failed: {} at {}: {}",
            one.outcome.threshold,
            one.outcome.level,
            id(one.record)
        ));
    }
    if comparison.failed() {
        return Ok(Exit::Gate);
    }
    match comparison.undecided().next() {
        None => Ok(Exit::Done),
        Some(gate) => {
            let level = gate.level;
            Err(Failure::failed(format!("--fail-if: `{}` cannot be judged at {level}", gate.condition)).hint(
                "to pass takes three iterations of each run, and intervals narrower than their values: measure with -i 3 or more \
                 while no other program runs, or ignore intervals with --fail-when measured",
            ))
        }
    }
}
