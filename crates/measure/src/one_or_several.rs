//! A key that takes one value or a list of them: `agent = "…"` and `agent = ["…", "…"]`. A single value is written
//! without a list, so that files with one value do not change, and readers of one value need not know of lists.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The schema of such a key.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(untagged))]
#[allow(dead_code, reason = "only its schema is used")]
pub enum OneOrSeveral<T> {
    /// A value.
    One(T),
    /// A list of them.
    Several(Vec<T>),
}

/// Writes no value as null, one as itself, and several as a list.
pub fn serialize<T: Serialize, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
    match values {
        [] => to.serialize_none(),
        [one] => one.serialize(to),
        several => several.serialize(to),
    }
}

/// Reads what [`serialize`] writes.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_any(Values(PhantomData))
}

struct Values<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Values<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value or a list of them")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(StrDeserializer::new(text))?])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
        Ok(vec![T::deserialize(MapAccessDeserializer::new(map))?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Holder {
        #[serde(rename = "agent", with = "super", skip_serializing_if = "Vec::is_empty")]
        texts: Vec<String>,
        #[serde(rename = "host", with = "super", skip_serializing_if = "Vec::is_empty")]
        nested: Vec<Holder>,
    }

    #[test]
    fn one_is_written_as_itself_and_several_as_a_list() {
        for (value, count) in [
            (json!({}), 0),
            (json!({ "agent": "a", "host": { "agent": "b" } }), 1),
            (json!({ "agent": ["a", "b"], "host": [{ "agent": "b" }, {}] }), 2),
        ] {
            let read: Holder = serde_json::from_value(value.clone()).unwrap();
            assert_eq!((read.texts.len(), read.nested.len()), (count, count));
            assert_eq!(serde_json::to_value(&read).unwrap(), value);
        }
        let read: Holder = serde_json::from_value(json!({ "agent": null, "host": [] })).unwrap();
        assert_eq!(read, Holder::default());
        let read: Holder = toml::from_str("agent = [\"a\"]\nhost = { agent = \"b\" }\n").unwrap();
        assert_eq!((read.texts, read.nested[0].texts[0].as_str()), (vec!["a".to_owned()], "b"));
    }

    #[test]
    fn anything_else_is_refused_with_its_place() {
        let error = toml::from_str::<Holder>("host = {}\nagent = 5\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("one value or a list of them"), "{error}");
        let error = serde_json::from_value::<Holder>(json!({ "agent": [5] })).unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
    }
}
