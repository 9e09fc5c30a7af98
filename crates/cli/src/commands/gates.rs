//! Thresholds of a run or a stored record: checked, shown with the report, and turned into an exit code.

use webstone_model::record::RunRecord;
use webstone_model::threshold::{Outcome, Threshold, Thresholds};
use webstone_report::{Format, Options, checked, render_thresholds};

use crate::console;
use crate::failure::{Exit, Failure};

/// All thresholds that were typed, in order.
pub(crate) fn typed(thresholds: &[Thresholds]) -> Vec<Threshold> {
    thresholds.iter().flat_map(|several| several.0.clone()).collect()
}

/// Checks that selected levels exist: a threshold without a level would pass silently.
pub(crate) fn select_levels(
    option: &str,
    missing: impl IntoIterator<Item = (String, Option<u32>)>,
    levels: &[u32],
) -> Result<(), Failure> {
    match missing.into_iter().find_map(|(text, level)| Some((text, level?))) {
        None => Ok(()),
        Some((text, level)) => {
            let held: Vec<String> = levels.iter().map(u32::to_string).collect();
            Err(Failure::usage(format!(
                "{option}: `{text}` selects {level} clients, but there is no such level"
            ))
            .hint(format!("the levels are {}", held.join(", "))))
        }
    }
}

/// [`select_levels`] for thresholds.
pub(crate) fn select(thresholds: &[Threshold], levels: &[u32]) -> Result<(), Failure> {
    let missing = thresholds.iter().map(|one| (one.to_string(), one.missing_level(levels)));
    select_levels("--threshold", missing, levels)
}

/// Checks a record against thresholds. The result is below a report for people; with one for programs it goes to
/// standard error.
pub(super) fn check(record: &RunRecord, format: Format, options: &Options) -> Vec<Outcome> {
    let outcomes = checked(record, options);
    if !outcomes.is_empty() && !matches!(format, Format::Text | Format::Hit) {
        console::complain(render_thresholds(&outcomes, options).trim());
    }
    outcomes
}

/// Names the failed thresholds on standard error.
pub(super) fn exit(outcomes: &[Outcome]) -> Exit {
    let mut exit = Exit::Done;
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed) {
        console::complain(format!("threshold failed: {} at {}", outcome.threshold, outcome.level));
        exit = Exit::Gate;
    }
    exit
}
