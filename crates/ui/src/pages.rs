//! Reports and comparisons as pages, always rendered from records: a page stored beside a record may be somebody else's.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use webstone_judge::comparison::{self, Comparison, Difference, ITERATIONS_MIN, Row, Weight, Why};
use webstone_model::duel::DuelRecord;
use webstone_model::record::RunRecord;
use webstone_report::{Format, Options};
use webstone_runner::series;
use webstone_store::{Store, duel};

use crate::answer::Failed;

/// The report of a run, of a series or of a duel.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn report(path: &Path) -> Result<Vec<u8>, Failed> {
    if series::is_series(path) {
        let (directory, series) =
            series::load(path).map_err(|error| Failed::stored(&error, error.hint().as_deref()))?;
        let records = series::records(&directory, &series).map_err(|error| Failed::stored(&error, None))?;
        let page = webstone_report::render_series(&series, &records, &[], Format::Html, &Options::default());
        return page.map_err(|error| Failed::stored(&error, None));
    }
    if duel::is_duel(path) {
        let page = webstone_report::render_duel(&load_duel(path)?, Format::Html, &Options::default());
        return page.map_err(|error| Failed::stored(&error, None));
    }
    let record = load(path)?;
    webstone_report::render(&record, Format::Html, &Options::default())
        .map_err(|error| Failed::stored(&error, None))
}

/// A stored run.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn load(path: &Path) -> Result<RunRecord, Failed> {
    Ok(Store::load(path)?)
}

/// A stored duel.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn load_duel(path: &Path) -> Result<DuelRecord, Failed> {
    Ok(duel::load(path)?)
}

/// The result of a comparison, and its page where there may be one.
#[derive(Debug)]
pub(crate) struct ComparedRuns {
    pub(crate) summary: Value,
    pub(crate) page: Option<Vec<u8>>,
}

/// Stored runs against the first of them.
///
/// # Errors
/// If one cannot be read, or they have no level in common.
pub(crate) fn compare(paths: &[PathBuf], is_forced: bool) -> Result<ComparedRuns, Failed> {
    if let Some(duel) = paths.iter().find(|path| duel::is_duel(path)) {
        let name = duel.file_name().unwrap_or_default().to_string_lossy();
        let hint = "its own report compares its contestants";
        return Err(Failed::stored(format!("{name} is a duel, not a run"), Some(hint)));
    }
    let records: Vec<RunRecord> = paths.iter().map(|path| load(path)).collect::<Result<_, _>>()?;
    let (Some(baseline), true) = (records.first(), records.len() > 1) else {
        let hint = "mark a second one";
        return Err(Failed::stored("a comparison needs two runs", Some(hint)));
    };
    if let Some(same) =
        records[1..].iter().find(|it| it.id == baseline.id && it.started_at == baseline.started_at)
    {
        let hint = "mark two runs; to see the noise of one, make it with two arms (`aa`)";
        return Err(Failed::stored(format!("{} would be compared with itself", same.id), Some(hint)));
    }
    let all: Vec<Difference> =
        records[1..].iter().flat_map(|record| comparison::differences(baseline, record)).collect();
    let of = |weight: Weight| -> Vec<Value> {
        let chosen = all.iter().filter(|difference| difference.weight == weight);
        let row = |one: &Difference| json!({ "what": one.what, "baseline": one.baseline, "candidate": one.candidate });
        chosen.map(row).collect()
    };
    let forbids = of(Weight::Forbids);
    let differs = of(Weight::Noted);
    if !forbids.is_empty() && !is_forced {
        let summary = json!({ "sentence": "These runs were not measured alike.", "rows": [], "forbids": forbids, "differs": differs });
        return Ok(ComparedRuns { summary, page: None });
    }
    let compared = comparison::compare(&records.iter().collect::<Vec<_>>(), &comparison::Options::default());
    if compared.candidates.iter().all(|candidate| candidate.levels.is_empty()) {
        let hint = "run both with the same levels";
        return Err(Failed::stored("the runs have no level in common", Some(hint)));
    }
    let options = Options::default();
    let page = webstone_report::render_comparison(&compared, &records, Format::Html, &options);
    let page = page.map_err(|error| Failed::stored(&error, None))?;
    let verdicts: Vec<Value> = compared
        .records
        .iter()
        .map(
            |record| json!({ "run": record.id, "word": record.standing.word(), "standing": record.standing }),
        )
        .collect();
    let summary = json!({
        "verdicts": verdicts,
        "sentence": webstone_report::comparison_sentences(&compared).join(" "),
        "rows": rows(&compared),
        "iterations_needed": has_too_few(&compared).then_some(ITERATIONS_MIN),
        "forbids": forbids,
        "differs": differs,
    });
    Ok(ComparedRuns { summary, page: Some(page) })
}

/// Whether nothing can be said of a figure because there are too few iterations.
fn has_too_few(compared: &Comparison) -> bool {
    let levels = compared.candidates.iter().flat_map(|candidate| &candidate.levels);
    levels.flat_map(|level| &level.rows).any(|row: &Row| row.why == Some(Why::TooFewIterations))
}

fn rows(compared: &Comparison) -> Vec<Value> {
    let mut rows = Vec::new();
    for candidate in &compared.candidates {
        for level in &candidate.levels {
            for row in &level.rows {
                if row.why == Some(Why::NotMeasured) {
                    continue;
                }
                let change = row.change.as_ref();
                // As reports print them. JSON has no infinity: an end that is null beside one that is not is that.
                let ends = change.map(|change| row.ends(change));
                rows.push(json!({
                    "run": compared.records[candidate.record].id,
                    "level": level.key().to_string(),
                    "figure": webstone_report::compared_name(row.metric),
                    "change_percent": change.map(|change| change.point),
                    "low_percent": ends.map(|(low, _)| low),
                    "high_percent": ends.map(|(_, high)| high),
                    "unit": row.metric.unit_of_change(),
                    "finding": row.finding.word(row.metric),
                    "is_difference": row.finding.is_difference(),
                }));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_noise_may_have_moved_by_any_factor_is_open() {
        let of = |id: &str, rate: f64| webstone_model::fixture::record(id, &[(1, &[rate; 3])]);
        let (before, after) = (of("before", 100.0), of("after", 110.0));
        let mut compared = comparison::compare(&[&before, &after], &comparison::Options::default());
        let rate = |compared: &Comparison| {
            let found = rows(compared).into_iter().find(|row| row["figure"] == "rate").unwrap();
            (found["low_percent"].as_f64(), found["high_percent"].as_f64())
        };
        let closed = rate(&compared);
        assert!(closed.1.is_some(), "{closed:?}");
        for row in &mut compared.candidates[0].levels[0].rows {
            row.candidate.noise_is_unbounded = true;
        }
        assert_eq!(rate(&compared), (closed.0, None));
    }
}
