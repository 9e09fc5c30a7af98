//! Objects of figures in JSON: the figures of the table that have a place in one, under the names that their definitions have.
//! Several figures of one place are a list, in the order of the table.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use webstone_measure::figures::{Figure, Quantity, Value, table};

use crate::summary::Values;

/// The figures of one object, place by place.
pub(super) fn places(object: &str) -> Vec<(&'static str, Vec<&'static Figure>)> {
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

macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $object:literal, null: $null:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name(Vec<(&'static str, Vec<Json>)>);

        impl $name {
            pub(crate) fn of_values(values: &Values) -> $name {
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

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                super::schemas::of_object($object, $null)
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
