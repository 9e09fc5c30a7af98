//! A record that grows round by round: every level once, then, perhaps in another process and after other runs, every level
//! once more. What each round has to make, and that it measures what the record began with.

use std::path::Path;

use webstone_model::record::RunRecord;
use webstone_model::spec::RunSpec;

use crate::order::{self, Step};
use crate::run::RunError;
use webstone_store::Store;

/// Opens the record so far; it replaces `record`, which this round would have begun.
///
/// # Errors
/// If it cannot be read, and if this round would measure something else.
pub(crate) fn go_on(path: &Path, record: &mut RunRecord) -> Result<Store, RunError> {
    let (store, mut begun) = Store::reopen(path)?;
    if let Some((what, before, now)) = changed(&begun, record) {
        return Err(RunError::Refused {
            what: format!(
                "{} cannot be resumed: {what} was {before} when it began, but is now {now}",
                path.display()
            ),
            hint: "start a new series, or restore what was there".to_owned(),
        });
    }
    let new: Vec<String> =
        record.warnings.iter().filter(|warning| !begun.warnings.contains(warning)).cloned().collect();
    if !new.is_empty() {
        begun.warnings.extend(new);
        store.rewrite(&begun)?;
    }
    *record = begun;
    Ok(store)
}

/// The first thing that the two would measure differently: what it is, before, now.
fn changed(begun: &RunRecord, now: &RunRecord) -> Option<(&'static str, String, String)> {
    let software = |record: &RunRecord| match &record.target.software {
        Some(software) => format!("{software} {} of {}", software.version, software.program),
        None => "the reference server".to_owned(),
    };
    type Part = (&'static str, fn(&RunRecord) -> String);
    let parts: [Part; 5] = [
        ("webstone", |record| {
            format!("{} {}", record.tool.version, record.tool.commit.as_deref().unwrap_or(""))
        }),
        ("the workload", |record| format!("{} ({:.12})", record.workload.name, record.workload_sha256)),
        ("the list of the server's CPUs", |record| format!("{:?}", record.target.cpus)),
        ("the list of the origin's CPUs", |record| {
            record.target.origin.as_ref().map_or_else(String::new, |origin| format!("{:?}", origin.cpus))
        }),
        ("the host", |record| {
            let name = record.environment.get("hostname").and_then(serde_json::Value::as_str);
            name.unwrap_or("unknown").to_owned()
        }),
    ];
    let of_parts = parts.into_iter().map(|(what, part)| (what, part(begun), part(now)));
    let mut all = of_parts.chain([("the server", software(begun), software(now))]);
    let different = all.find(|(_, before, now)| before.trim() != now.trim());
    let same = || begun.spec == now.spec;
    different
        .or_else(|| (!same()).then(|| ("its specification", "another one".to_owned(), "changed".to_owned())))
}

/// The steps of a round: the levels of one iteration that are missing.
pub(crate) fn steps(spec: &RunSpec, iteration: u32, record: &RunRecord) -> Vec<Step> {
    missing(spec, record).into_iter().filter(|step| step.iteration == iteration).collect()
}

/// Whether all that the specification asks for is there.
pub(crate) fn is_done(record: &RunRecord) -> bool {
    missing(&record.spec, record).is_empty()
}

/// The lowest iteration of which something is missing; `None` where nothing is.
pub(crate) fn next_round(record: &RunRecord) -> Option<u32> {
    missing(&record.spec, record).iter().map(|step| step.iteration).min()
}

fn missing(spec: &RunSpec, record: &RunRecord) -> Vec<Step> {
    let mut all = order::steps(&spec.load, spec.client.seed);
    all.retain(|step| !record.iterations.iter().any(|run| run.key() == step.key()));
    all
}
