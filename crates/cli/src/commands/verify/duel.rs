//! The same of a duel: its files, its signature, whether its starts agree with their slices, and its page.

use std::path::Path;

use webstone_judge::duel::{self, consistency};
use webstone_model::duel::DuelRecord;
use webstone_model::record::RunState;
use webstone_report::{Format, Options, render_duel};
use webstone_store::duel::{DUEL, check, load};
use webstone_store::{MANIFEST, REPORT, read_file};

use super::{Found, ambiguous, intact, signature_of, unread};
use crate::version;

/// Examines everything in a duel's directory.
pub(super) fn examine(directory: &Path) -> Found {
    let mut found = Found { is_duel: true, ..Found::default() };
    let record = load(directory);
    if let Ok(record) = &record
        && record.state == RunState::Partial
    {
        found.run = Some(record.id.clone());
        let starts = record.starts.len();
        found.problem(
            MANIFEST,
            format!(
                "is not there yet: the duel did not end, and nothing was closed that could be checked; starts that are stored: {starts}"
            ),
        );
        return found;
    }
    intact(check(directory), &mut found);
    signature_of(directory, &mut found);
    match record {
        Ok(record) => recompute(directory, &record, &mut found),
        Err(error) => unread(&error, DUEL, &mut found),
    }
    found
}

fn recompute(directory: &Path, record: &DuelRecord, found: &mut Found) {
    found.run = Some(record.id.clone());
    found.verdict = Some(duel::of_record(record).standing.word());
    ambiguous(directory, &[DUEL], found);
    let consistency = consistency::check(record);
    found.numbers = consistency.checked;
    for wrong in consistency.contradictions {
        found.problem(DUEL, format!("{}: {}: {}", wrong.place, wrong.rule, wrong.evidence));
    }
    match read_file(directory, REPORT) {
        Ok(_) if record.tool != version::tool() => found.made_by_another(&record.tool),
        Ok(page) if render_duel(record, Format::Html, &Options::default()).ok().as_ref() != Some(&page) => {
            found.problem(REPORT, "is not the report that the record gives");
        }
        Ok(_) => {}
        Err(_) if found.problems.iter().any(|problem| problem.file == REPORT) => {}
        Err(_) => found.problem(REPORT, "is missing: every finished duel is stored with it"),
    }
}
