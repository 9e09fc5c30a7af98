//! JSON schemas, for tests that compare the published ones with the types. They are compiled for tests only: they would double the code of
//! the crates whose types are stored.

use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Map, json};
use webstone_judge::comparison::Comparison;
use webstone_measure::figures::table::Defined;
use webstone_measure::figures::{Figure, Quantity};
use webstone_model::event::EventLine;
use webstone_model::spec::RunSpec;

use super::duel::DuelReport;
use super::json::JsonReport;
use super::json_objects::places;
use crate::definitions::definition;

/// The JSON schema (draft 2020-12) of a record, stored or reported, as text ending in a newline.
pub fn json_schema() -> String {
    schema_of::<JsonReport<'static>>()
}

/// The schema of a testbed, as the browser front has it.
pub fn spec_schema() -> String {
    schema_of::<RunSpec>()
}

/// The same of a line of events.
pub fn event_schema() -> String {
    schema_of::<EventLine>()
}

/// The same of a comparison.
pub fn comparison_schema() -> String {
    schema_of::<Comparison>()
}

/// The same of a duel's report.
pub fn duel_schema() -> String {
    schema_of::<DuelReport<'static>>()
}

fn schema_of<T: JsonSchema>() -> String {
    let schema = schema_for!(T);
    serde_json::to_string_pretty(&schema).expect("a schema is a tree of strings and numbers") + "\n"
}

/// The schema of an object of figures, with the definition of each.
pub(super) fn of_object(object: &str, nothing_is_null: bool) -> Schema {
    let mut properties = Map::new();
    for (name, figures) in places(object) {
        let of = |figure: &Figure| {
            let unit = figure.quantity.base().name;
            let comma = if unit.is_empty() { "" } else { ", " };
            let Defined { section, name } = figure.defined;
            let defined = definition(section, name).map_or(String::new(), |it| format!(": {}", it.text));
            let text = format!("{}{comma}{unit}{defined}", figure.long);
            let kind = if figure.quantity == Quantity::Count { "integer" } else { "number" };
            let kind = if nothing_is_null { json!([kind, "null"]) } else { json!(kind) };
            (kind, text)
        };
        let (kind, text) = of(figures[0]);
        let property = match figures.as_slice() {
            [_] => json!({ "type": kind, "description": text }),
            several => {
                let texts: Vec<&str> = several.iter().map(|figure| figure.long).collect();
                let description = format!("{}; {}", texts.join(", "), several[0].quantity.base().name);
                json!({ "type": "array", "items": { "type": kind }, "description": description })
            }
        };
        properties.insert(name.to_owned(), property);
    }
    let required: Vec<String> = properties.keys().cloned().collect();
    let mut schema = Schema::default();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema
}
