//! Whether a series that is planned again is the one that was begun. Only what is stored is compared: secrets may have changed
//! (an expired token), a body of more than 64 KiB must have the same check sum.

use serde_json::Value;
use webstone_model::series::Series;
use webstone_model::spec::RunSpec;
use webstone_store::redaction;

/// Longest value that a difference shows, in characters.
const SHOWN_MAX: usize = 120;

/// The first thing in which the two plans differ, in words.
pub(super) fn difference(begun: &Series, planned: &Series) -> Option<String> {
    let names =
        |series: &Series| series.cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
    let (before, now) = (names(begun), names(planned));
    if before != now {
        return Some(format!("its cells were {before}, and are {now}"));
    }
    begun.cells.iter().zip(&planned.cells).find_map(|(before, now)| {
        let value = |spec: &RunSpec| serde_json::to_value(spec).unwrap_or_default();
        let what = of_values("", &value(&before.spec), &value(&redaction::spec(&now.spec)))?;
        Some(format!("{}: {what}", before.name))
    })
}

/// The first place in which two values differ, with what stands there.
fn of_values(at: &str, before: &Value, now: &Value) -> Option<String> {
    if let (Value::Object(old), Value::Object(new)) = (before, now) {
        let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
        let at = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        return keys.into_iter().find_map(|key| {
            of_values(&at(key), old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null))
        });
    }
    let shown = |value: &Value| match value.to_string() {
        text if text.chars().count() <= SHOWN_MAX => text,
        text => text.chars().take(SHOWN_MAX).chain(['…']).collect(),
    };
    (before != now).then(|| format!("{at} was {}, and is {}", shown(before), shown(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        let before = json!({"client": {"body": "a", "seed": 1}, "name": "x"});
        let mut now = before.clone();
        assert_eq!(of_values("", &before, &now), None);
        now["client"]["seed"] = json!(2);
        assert_eq!(of_values("", &before, &now).unwrap(), "client.seed was 1, and is 2");
        now["client"]["seed"] = json!(1);
        now["more"] = json!(["y".repeat(500)]);
        let found = of_values("", &before, &now).unwrap();
        assert!(found.starts_with("more was null, and is [\"yyy") && found.chars().count() < 160, "{found}");
        assert_eq!(of_values("", &now, &before).unwrap().split(" was ").next(), Some("more"));
    }
}
