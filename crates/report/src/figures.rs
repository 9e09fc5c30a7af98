//! The figures in `figures.json`, stored beside the record as the measuring program computed them, and their comparison with what this
//! program computes from the record.
//!
//! The comparison walks two trees of JSON and knows no figure by name. So a new figure is compared from its first day, and a figure
//! that only one of the versions knows is not taken for one that differs.

use serde_json::Value;
use webstone_model::record::RunRecord;

use crate::json;
use crate::judged::Judged;

/// Relative difference up to which two figures are the same: mathematical functions differ in their last bits from one
/// C library to another, and nothing that is printed has more than nine digits.
const TOLERANCE: f64 = 1e-9;

/// A stored figure that the record does not give.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where it stands: `levels[2].figures.request_rate`.
    pub path: String,
    /// What is stored.
    pub stored: String,
    /// What the record gives.
    pub computed: String,
}

/// Stored figures, compared with those that a record gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// How many figures were compared.
    pub compared: usize,
    /// Those that differ.
    pub differences: Vec<Difference>,
    /// Those that this version computes and that are not stored.
    pub not_stored: Vec<String>,
    /// Those that are stored and that this version does not compute.
    pub unknown: Vec<String>,
}

/// What is stored: everything computed from a record, as indented JSON ending in a newline.
pub fn stored(record: &RunRecord) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(&tree(record)).expect("the keys of figures are text");
    text.push(b'\n');
    text
}

fn tree(record: &RunRecord) -> Value {
    serde_json::to_value(json::computed(Judged::whole(record))).expect("the keys of figures are text")
}

/// Computes every figure again and compares it with what is stored.
///
/// # Errors
/// If `stored` is not JSON.
pub fn compare(stored: &[u8], record: &RunRecord) -> Result<Comparison, serde_json::Error> {
    let stored: Value = serde_json::from_slice(stored)?;
    let mut comparison = Comparison::default();
    walk(&mut comparison, String::new(), &stored, &tree(record));
    Ok(comparison)
}

fn walk(found: &mut Comparison, path: String, stored: &Value, computed: &Value) {
    match (stored, computed) {
        (Value::Object(stored), Value::Object(computed)) => {
            let under = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            for (key, value) in stored {
                match computed.get(key) {
                    Some(other) => walk(found, under(key), value, other),
                    None => found.unknown.push(under(key)),
                }
            }
            found.not_stored.extend(computed.keys().filter(|key| !stored.contains_key(*key)).map(under));
        }
        // A list of numbers, such as percentiles, may have grown since; one of levels may not.
        (Value::Array(stored), Value::Array(computed))
            if stored.len() == computed.len()
                || (stored.len() < computed.len() && computed.iter().all(Value::is_number)) =>
        {
            for (index, (value, other)) in stored.iter().zip(computed).enumerate() {
                walk(found, format!("{path}[{index}]"), value, other);
            }
            found.not_stored.extend((stored.len()..computed.len()).map(|index| format!("{path}[{index}]")));
        }
        _ => {
            found.compared += 1;
            if !same(stored, computed) {
                let text = |value: &Value| match value {
                    Value::Array(list) => format!("a list of {}", list.len()),
                    Value::Object(_) => "a group of figures".to_owned(),
                    other => other.to_string(),
                };
                found.differences.push(Difference { path, stored: text(stored), computed: text(computed) });
            }
        }
    }
}

fn same(stored: &Value, computed: &Value) -> bool {
    match (stored.as_f64(), computed.as_f64()) {
        (Some(stored), Some(computed)) if stored.is_finite() && computed.is_finite() => {
            (stored - computed).abs() <= TOLERANCE * stored.abs().max(computed.abs())
        }
        _ => stored == computed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compared(stored: Value, computed: Value) -> Comparison {
        let mut comparison = Comparison::default();
        walk(&mut comparison, String::new(), &stored, &computed);
        comparison
    }

    #[test]
    fn figures_are_the_same_within_the_last_bits() {
        let found = compared(
            json!({ "a": [1.0, { "b": 0.1 }], "c": null }),
            json!({ "a": [1.0, { "b": 0.1 + 1e-17 }], "c": null }),
        );
        assert_eq!(found, Comparison { compared: 3, ..Comparison::default() });
    }

    #[test]
    fn what_differs_is_named_by_its_place() {
        let found = compared(
            json!({ "levels": [{ "rate": 100.0, "word": "valid" }], "old": 1, "list": ["a"], "more": [1] }),
            json!({ "levels": [{ "rate": 100.1, "word": "invalid" }], "new": 1, "list": ["a", "b"], "more": [1, 2] }),
        );
        let said: Vec<String> =
            found.differences.iter().map(|it| format!("{} {} {}", it.path, it.stored, it.computed)).collect();
        assert_eq!(
            said,
            [
                "levels[0].rate 100.0 100.1",
                "levels[0].word \"valid\" \"invalid\"",
                "list a list of 1 a list of 2"
            ]
        );
        assert_eq!(found.not_stored, ["more[1]", "new"]);
        assert_eq!(found.unknown, ["old"]);
    }
}
