//! Secrets that were removed from a record: the text in their place, and how many there are where. The store decides
//! which values are secrets, and removes them.

use serde_json::Value;

use crate::record::RunRecord;

/// The text in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// How many values were removed from each part of a record; parts without any are left out. Each row of a feed counts
/// as one value.
pub fn left_out(record: &RunRecord) -> Vec<(&'static str, u64)> {
    let of_value = |value: Result<Value, serde_json::Error>| value.map_or(0, |value| in_value(&value));
    let files = record.workload.pages.iter().flat_map(|page| &page.files);
    let in_files: u64 = files
        .map(|file| {
            let detail = &file.detail;
            in_text(&file.url)
                + detail.headers.iter().map(|(_, value)| in_text(value)).sum::<u64>()
                + detail.body.as_deref().map_or(0, in_text)
        })
        .sum();
    let rows =
        record.workload.feeds.values().filter_map(|feed| feed.kept.as_ref()).map(|kept| kept.rows).sum();
    let parts = [
        ("in the command line", record.command_line.iter().map(|word| in_text(word)).sum()),
        ("in the specification", of_value(serde_json::to_value(&record.spec))),
        ("in the workload's requests", in_files + in_text(&record.workload.name)),
        ("rows of feeds", rows),
        ("in the environment, configurations among it", record.environment.values().map(in_value).sum()),
        ("in the load generators", of_value(serde_json::to_value(&record.generators))),
        ("in warnings", record.warnings.iter().map(|warning| in_text(warning)).sum()),
    ];
    parts.into_iter().filter(|(_, number)| *number > 0).collect()
}

fn in_value(value: &Value) -> u64 {
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().map(in_value).sum(),
        Value::Object(fields) => fields.values().map(in_value).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn in_text(text: &str) -> u64 {
    text.matches(REDACTED).count() as u64
}
