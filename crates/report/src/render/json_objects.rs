//! Objects of figures in JSON: the figures of the table that have a place in one, under the names that their definitions have.
//! Several figures of one place are a list, in the order of the table.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};
use webstone_measure::figures::table::Defined;
use webstone_measure::figures::{Figure, Quantity, Value, table};

use crate::definitions::definition;
use crate::summary::Values;

/// The figures of one object, place by place.
fn places(object: &str) -> Vec<(&'static str, Vec<&'static Figure>)> {
    let mut places: Vec<(&'static str, Vec<&'static Figure>)> = Vec::new();
    for figure in table::all() {
        let Some((of, name)) = figure.json.and_then(|place| place.split_once('.')) else { continue };
        if of != object {
            continue;
        }
        match places.iter_mut().find(|(known, _)| *known == name) {
            Some((_, figures)) => figures.push(figure),
            None => places.push((name, vec![figure])),
        }
    }
    places
}

fn number<S: Serializer, M: serde::ser::SerializeMap<Ok = S::Ok, Error = S::Error>>(
    map: &mut M,
    name: &str,
    values: &[Json],
) -> Result<(), S::Error> {
    match values {
        [value] => map.serialize_entry(name, value),
        several => map.serialize_entry(name, several),
    }
}

fn in_json(value: Option<Value>) -> Json {
    match value {
        Some(Value::Count(count)) => count.into(),
        Some(Value::Number(number) | Value::AtLeast(number)) => number.into(),
        None => Json::Null,
    }
}

fn schema(object: &str, nothing_is_null: bool) -> schemars::Schema {
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
    let mut schema = schemars::Schema::default();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema
}

macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $object:literal, null: $null:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name(Vec<(&'static str, Vec<Json>)>);

        impl $name {
            pub(crate) fn of(values: &Values) -> $name {
                let of = |figure: &Figure| match values.value(figure) {
                    None if !$null && figure.quantity == Quantity::Count => Json::from(0_u64),
                    None if !$null => Json::from(0.0),
                    value => in_json(value),
                };
                let places = places($object).into_iter();
                $name(places.map(|(name, figures)| (name, figures.into_iter().map(of).collect())).collect())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(self.0.len()))?;
                for (name, values) in &self.0 {
                    number::<S, _>(&mut map, name, values)?;
                }
                map.end()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schema($object, $null)
            }
        }
    };
}

object! {
    /// The figures of an iteration or a level. Nothing measured gives 0.
    LevelObject, "figures", null: false
}
object! {
    /// What the kernel of the generator's host counted, of a level. Nothing measured gives null.
    HostObject, "host", null: true
}
