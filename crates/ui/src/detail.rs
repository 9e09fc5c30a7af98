//! A stored run by itself: its verdict in sentences, its files, and what it was asked for, to be asked for again.

use std::path::Path;

use serde_json::{Value, json};
use webstone_judge::verdict;
use webstone_model::record::{RunRecord, RunState};
use webstone_model::spec::RunSpec;
use webstone_runner::series;
use webstone_store::duel;

use crate::answer::Failed;
use crate::pages;

/// What there is to a run besides its row and its notes.
///
/// # Errors
/// If the record cannot be read.
pub(crate) fn of_run(directory: &Path) -> Result<Value, Failed> {
    let files = files(directory);
    let directory_name = directory.display().to_string();
    if series::is_series(directory) {
        return Ok(json!({
            "verdict": null, "spec_toml": null, "command": null, "files": files, "directory": directory_name,
            "missing": missing(directory),
        }));
    }
    if duel::is_duel(directory) {
        let record = pages::load_duel(directory)?;
        let judgement = webstone_judge::duel::of_record(&record);
        let mut sentences: Vec<String> = judgement
            .comparisons
            .iter()
            .map(|of| webstone_report::duel_sentence(&record, &judgement, of))
            .collect();
        sentences.extend(judgement.reasons.iter().chain(&judgement.notes).cloned());
        let standing = judgement.standing;
        return Ok(json!({
            "verdict": { "word": standing.word(), "standing": standing, "sentences": sentences },
            "spec_toml": null, "command": "duel", "files": files, "directory": directory_name,
        }));
    }
    let record = pages::load(directory)?;
    let verdict = verdict::of_record(&record);
    Ok(json!({
        "verdict": { "word": verdict.standing.word(), "standing": verdict.standing, "sentences": verdict.told() },
        "spec_toml": asked_again(&record),
        "command": if record.spec.find.is_some() { "find" } else { "run" },
        "files": files,
        "directory": directory_name,
    }))
}

/// The cells of a series that were not measured to their end. Empty if this cannot be read: its report says why.
fn missing(directory: &Path) -> Vec<String> {
    let Ok((directory, series)) = series::load(directory) else { return Vec::new() };
    let Ok(records) = series::records(&directory, &series) else { return Vec::new() };
    let is_whole =
        |record: &Option<RunRecord>| record.as_ref().is_some_and(|record| record.state == RunState::Complete);
    let cells = series.cells.into_iter().zip(&records);
    cells.filter(|(_, record)| !is_whole(record)).map(|(cell, _)| cell.name).collect()
}

/// The plain files of a directory, by name.
fn files(directory: &Path) -> Vec<Value> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            let found = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((entry.file_name().to_string_lossy().into_owned(), found.len()))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect()
}

/// The specification as a testbed file with only what differs from the defaults. `None` where it cannot be written.
fn asked_again(record: &RunRecord) -> Option<String> {
    let defaults = serde_json::to_value(RunSpec::default()).ok()?;
    let mut spec = serde_json::to_value(&record.spec).ok()?;
    keep_what_differs(&mut spec, &defaults);
    if record.target.embedded || record.target.software.is_some() {
        // The address of a server that webstone started was a free port.
        spec.as_object_mut()?.remove("target");
    }
    toml::to_string(&spec).ok()
}

/// Removes from a value what is the same in another, and nulls.
fn keep_what_differs(value: &mut Value, other: &Value) {
    let Value::Object(map) = value else { return };
    map.retain(|key, value| !value.is_null() && other.get(key) != Some(value));
    for (key, value) in map.iter_mut() {
        if let Some(other) = other.get(key).filter(|other| other.is_object()) {
            keep_what_differs(value, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::units::Nanos;
    use webstone_model::fixture;

    use super::*;

    #[test]
    fn a_run_is_asked_for_again_by_what_differs() {
        let mut record = fixture::record("a", &[(20, &[1000.0])]);
        record.spec.load.duration = Nanos::from_secs(10);
        record.spec.client.headers.add("Accept", "*/*");
        record.spec.client.tls.verify = false;
        let text = asked_again(&record).unwrap();
        assert_eq!(toml::from_str::<RunSpec>(&text).unwrap(), record.spec, "{text}");
        assert!(!text.contains("drain") && !text.contains("seed"), "{text}");
    }
}
