//! Header fields in the order in which they were given, several of one name among them.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use webstone_measure::one_or_several;

/// Names and values. Fields of one name stand together, spelled as the first of them is: files have them as
/// `name = "value"` or `name = ["value", "value"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

/// The value of a name in a file.
#[derive(Clone, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Values(#[serde(with = "one_or_several")] pub(crate) Vec<String>);

impl Fields {
    /// Adds a field, after those of its name.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter().rposition(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some(last) => self.0.insert(last + 1, (self.0[last].0.clone(), value)),
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes all fields of a name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Whether there is a field of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (String, String)> {
        self.0.iter()
    }

    /// The values, each with its name, to be replaced by others.
    pub fn values_mut(&mut self) -> impl Iterator<Item = (&str, &mut String)> {
        self.0.iter_mut().map(|(name, value)| (&**name, value))
    }

    /// Puts them into the order that their names have in `model`.
    pub fn order_like(&mut self, model: &Fields) {
        self.0.sort_by_cached_key(|(name, _)| model.0.iter().position(|(known, _)| known == name));
    }

    /// Each name, with its values.
    pub fn by_name(&self) -> impl Iterator<Item = (&str, &[(String, String)])> {
        self.0.chunk_by(|(one, _), (other, _)| one == other).map(|fields| (&*fields[0].0, fields))
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a (String, String);
    type IntoIter = std::slice::Iter<'a, (String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Fields {
        let mut fields = Fields::default();
        pairs.into_iter().for_each(|(name, value)| fields.add(name.as_ref(), value));
        fields
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.by_name().count()))?;
        for (name, fields) in self.by_name() {
            let values = fields.iter().map(|(_, value)| value.clone()).collect();
            map.serialize_entry(name, &Values(values))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("header fields: names, each with its value or a list of values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, Values(values))) = map.next_entry::<String, Values>()? {
                    values.into_iter().for_each(|value| fields.add(&name, value));
                }
                Ok(fields)
            }
        }
        from.deserialize_map(FieldsVisitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Fields {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fields".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "Header fields: names, each with its value, or with a list where it is sent several times.",
            "additionalProperties": {
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fields_of_a_name_are_kept_in_order_and_read_back() {
        let fields: Fields =
            [("B", "1"), ("Cookie", "a=1"), ("A", "2"), ("cookie", "b=2")].into_iter().collect();
        let text = toml::to_string(&fields).unwrap();
        assert_eq!(text, "B = \"1\"\nCookie = [\"a=1\", \"b=2\"]\nA = \"2\"\n");
        assert_eq!(toml::from_str::<Fields>(&text).unwrap(), fields);
        let json = serde_json::to_string(&fields).unwrap();
        assert_eq!(json, r#"{"B":"1","Cookie":["a=1","b=2"],"A":"2"}"#);
        assert_eq!(serde_json::from_str::<Fields>(&json).unwrap(), fields);
        let error = toml::from_str::<Fields>("A = 5\n").unwrap_err().to_string();
        assert!(error.contains("one value or a list of them"), "{error}");
        let mut fewer = fields.clone();
        fewer.remove("COOKIE");
        assert!(fields.has("cookie") && !fewer.has("Cookie"));
    }
}
